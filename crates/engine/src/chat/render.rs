//! The built-in renderer of Gemma 4's turns.
//!
//! `<|turn>ROLE\n...<turn|>\n`, with `model` for the assistant. The first system message, the thinking mark and the tools share
//! one system turn. Calls, results and the answer that follows them are one model turn, however many messages they are;
//! its order is thought, calls, results, text.
//!
//! One departure from the published template: when a message had text **and** calls with results, that template closes the
//! turn and asks for an answer outside of any. Here a new model turn is opened.

use serde_json::Value;

use super::declare::write_declaration;
use super::prepare::{Prepared, prepare};
use super::rendered::Rendered;
use super::value::{Keys, write_object, write_value};
use super::{ChatError, Content, Message, RenderOptions, Role};

/// Renders a conversation.
///
/// # Errors
/// What in the conversation cannot be rendered, with the index of the message.
pub fn render(options: &RenderOptions, messages: &[Message]) -> Result<Rendered, ChatError> {
    let Prepared { messages, tools } = prepare(options, messages)?;
    let mut out = Rendered::default();
    out.control("<bos>");

    // 1. The system turn.
    let is_system = |message: &&Message| matches!(message.role, Role::System | Role::Developer);
    let system = messages.first().filter(is_system);
    if system.is_some() || options.enable_thinking || !tools.is_empty() {
        out.control("<|turn>system\n");
        if options.enable_thinking {
            out.control("<|think|>\n");
        }
        match system.and_then(|message| message.content.as_ref()) {
            Some(Content::Text(text)) => out.user(text.trim()),
            Some(Content::Parts(parts)) => {
                for part in parts {
                    out.user(part.text.as_deref().unwrap_or("").trim());
                    out.control(" ");
                }
            }
            None => {}
        }
        tools.iter().for_each(|tool| write_declaration(&mut out, &tool.function));
        out.control("<turn|>\n");
    }

    // 2. The other turns. Tool messages are written by the message whose calls they answer.
    let mut prompt = Prompt::NewTurn;
    let last_user = messages.iter().rposition(|message| message.role == Role::User);
    for index in usize::from(system.is_some())..messages.len() {
        let message = &messages[index];
        match message.role {
            Role::Tool => {}
            Role::Assistant => {
                let is_new = last_user.is_none_or(|user| index > user);
                let keeps_thought = options.preserve_thinking && !message.tool_calls.is_empty();
                prompt = write_model_turn(&mut out, &messages, index, is_new || keeps_thought);
            }
            role => {
                out.control("<|turn>");
                out.control(role.name());
                out.control("\n");
                write_trimmed(&mut out, message);
                out.control("<turn|>\n");
                prompt = Prompt::NewTurn;
            }
        }
    }

    // 3. Where the model is to continue.
    if options.add_generation_prompt {
        if prompt == Prompt::NewTurn || prompt == Prompt::AfterResultsClosed {
            out.control("<|turn>model\n");
        }
        let after_results = matches!(prompt, Prompt::AfterResultsOpen | Prompt::AfterResultsClosed);
        if after_results && options.enable_thinking {
            out.control("<|channel>thought\n");
        }
    }
    Ok(out)
}

/// How the model continues after what has been written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prompt {
    /// In a turn of its own.
    NewTurn,
    /// In the open turn, right after tool results.
    AfterResultsOpen,
    /// After tool results whose turn has been closed.
    AfterResultsClosed,
    /// Nowhere: a call waits for its result.
    ResultExpected,
}

/// Writes an assistant message with the results of its calls.
fn write_model_turn(out: &mut Rendered, messages: &[Message], index: usize, with_thought: bool) -> Prompt {
    let message = &messages[index];
    let speaks = |message: &&Message| message.role != Role::Tool;
    let continues = messages[..index].iter().rev().find(speaks).is_some_and(is_assistant);
    if !continues {
        out.control("<|turn>model\n");
    }
    let named = |text: &&String| !text.is_empty();
    let thought =
        message.reasoning.as_ref().filter(named).or(message.reasoning_content.as_ref().filter(named));
    if let Some(thought) = thought.filter(|_| with_thought) {
        out.control("<|channel>thought\n");
        out.user(thought);
        out.control("\n<channel|>");
    }
    for call in &message.tool_calls {
        out.control("<|tool_call>call:");
        out.user(&call.function.name);
        if let Value::Object(arguments) = &call.function.arguments {
            write_object(out, arguments, Keys::Bare);
        }
        out.control("<tool_call|>");
    }
    let has_results = write_results(out, messages, index);
    let has_text = write_trimmed(out, message);
    if !message.tool_calls.is_empty() && !has_results {
        out.control("<|tool_response>");
        return Prompt::ResultExpected;
    }
    let next = messages[index + 1..].iter().find(speaks);
    let stays_open = match next {
        Some(next) => is_assistant(next),
        None => has_results && !has_text,
    };
    if !stays_open {
        out.control("<turn|>\n");
    }
    match (has_results, stays_open) {
        (false, _) => Prompt::NewTurn,
        (true, true) => Prompt::AfterResultsOpen,
        (true, false) => Prompt::AfterResultsClosed,
    }
}

fn is_assistant(message: &Message) -> bool {
    message.role == Role::Assistant
}

/// Writes the results that belong to a message: its own, else the tool messages behind it. Says whether there were any.
fn write_results(out: &mut Rendered, messages: &[Message], index: usize) -> bool {
    let message = &messages[index];
    if !message.tool_responses.is_empty() {
        for result in &message.tool_responses {
            write_result(out, result.name.as_deref(), &result.response);
        }
        return true;
    }
    if message.tool_calls.is_empty() {
        return false;
    }
    let mut any = false;
    for result in messages[index + 1..].iter().take_while(|message| message.role == Role::Tool) {
        let id = result.tool_call_id.as_ref();
        let call = message.tool_calls.iter().find(|call| id.is_some() && call.id.as_ref() == id);
        let name = call.map(|call| &call.function.name).or(result.name.as_ref());
        let value = match &result.content {
            Some(Content::Text(text)) => Value::String(text.clone()),
            Some(Content::Parts(parts)) => {
                Value::String(parts.iter().filter_map(|part| part.text.as_deref()).collect())
            }
            None => Value::Null,
        };
        write_result(out, name.map(String::as_str), &value);
        any = true;
    }
    any
}

fn write_result(out: &mut Rendered, name: Option<&str>, response: &Value) {
    out.control("<|tool_response>response:");
    out.user(name.unwrap_or("unknown"));
    match response {
        Value::Object(fields) => write_object(out, fields, Keys::Bare),
        other => {
            out.control("{value:");
            write_value(out, other, Keys::Bare);
            out.control("}");
        }
    }
    out.control("<tool_response|>");
}

/// Writes the content without white space at the ends of its parts. Says whether anything was left.
fn write_trimmed(out: &mut Rendered, message: &Message) -> bool {
    let mut any = false;
    let mut write = |text: &str| {
        any |= !text.trim().is_empty();
        out.user(text.trim());
    };
    match &message.content {
        Some(Content::Text(text)) => write(text),
        Some(Content::Parts(parts)) => parts.iter().filter_map(|part| part.text.as_deref()).for_each(write),
        None => {}
    }
    any
}
