//! What both renderers need done first: check a conversation and bring it to one form.
//!
//! Afterwards every content is text, every call has an object as arguments, every result names its call where that can be
//! known, stored answers are free of thought blocks, and the schemas of the tools are in the subset that the format can
//! express (`lower.rs`). The built-in renderer and a checkpoint's template then start from the same data.

use std::borrow::Cow;

use serde_json::Value;

use super::lower::lower_tool;
use super::{ChatError, Content, Message, RenderOptions, Role, Tool};

const CHANNEL_OPEN: &str = "<|channel>";
const CHANNEL_CLOSE: &str = "<channel|>";

/// A conversation in its one form.
pub(super) struct Prepared {
    pub messages: Vec<Message>,
    pub tools: Vec<Tool>,
}

pub(super) fn prepare(options: &RenderOptions, messages: &[Message]) -> Result<Prepared, ChatError> {
    let mut prepared: Vec<Message> = Vec::with_capacity(messages.len());
    // The assistant message whose calls the next tool message answers.
    let mut calling = None;
    for (index, message) in messages.iter().enumerate() {
        let mut message = message.clone();
        check_parts(index, &message)?;
        if message.role != Role::Assistant
            && !(message.tool_calls.is_empty() && message.tool_responses.is_empty())
        {
            return Err(ChatError::CallOutsideAssistant { message: index });
        }
        match message.role {
            Role::Tool => {
                let calls = calling.ok_or(ChatError::ResultWithoutCall { message: index })?;
                name_the_call(&mut prepared, calls, &mut message);
            }
            Role::Assistant => {
                for (call, tool_call) in message.tool_calls.iter_mut().enumerate() {
                    let arguments = tool_call.function.arguments_object();
                    let arguments = arguments.map_err(|problem| ChatError::Arguments {
                        message: index,
                        call,
                        problem,
                    })?;
                    tool_call.function.arguments = Value::Object(arguments);
                }
                for_each_text(&mut message, &|text| *text = without_thoughts(text).trim().to_owned());
                calling = (!message.tool_calls.is_empty()).then_some(index);
            }
            _ => calling = None,
        }
        prepared.push(message);
    }
    Ok(Prepared { messages: prepared, tools: options.tools.iter().map(lower_tool).collect() })
}

fn check_parts(index: usize, message: &Message) -> Result<(), ChatError> {
    let Some(Content::Parts(parts)) = &message.content else { return Ok(()) };
    for (place, part) in parts.iter().enumerate() {
        if part.kind != "text" {
            let kind = part.kind.clone();
            return Err(ChatError::UnsupportedPart { message: index, part: place, kind });
        }
        if part.text.is_none() {
            return Err(ChatError::PartWithoutText { message: index, part: place });
        }
    }
    Ok(())
}

/// Applies `change` to each text of the content.
pub(super) fn for_each_text(message: &mut Message, change: &dyn Fn(&mut String)) {
    match &mut message.content {
        Some(Content::Text(text)) => change(text),
        Some(Content::Parts(parts)) => {
            parts.iter_mut().filter_map(|part| part.text.as_mut()).for_each(change)
        }
        None => {}
    }
}

/// Gives a result without an id the first call that has no result yet: the one of its name, if it has one.
fn name_the_call(prepared: &mut [Message], calls: usize, result: &mut Message) {
    if result.tool_call_id.is_some() {
        return;
    }
    let (before, after) = prepared.split_at_mut(calls + 1);
    let answered = |id: &Option<String>| id.is_some() && after.iter().any(|other| other.tool_call_id == *id);
    let mut open: Vec<_> = before[calls].tool_calls.iter_mut().enumerate().collect();
    open.retain(|(_, call)| !answered(&call.id));
    let place = open.iter().position(|(_, call)| Some(&call.function.name) == result.name.as_ref());
    if let Some((place, call)) = open.get_mut(place.unwrap_or(0)) {
        // Unlike any id that a client gives, and different for each call.
        result.tool_call_id = Some(call.id.get_or_insert_with(|| format!("unnamed call {place}")).clone());
    }
}

/// The text without everything from each thought opener to its end marker.
///
/// Stray end markers go too, and an opener without an end takes the rest of the text with it.
pub(super) fn without_thoughts(text: &str) -> Cow<'_, str> {
    if !text.contains(CHANNEL_OPEN) && !text.contains(CHANNEL_CLOSE) {
        return Cow::Borrowed(text);
    }
    let visible = |part: &str| part.split(CHANNEL_OPEN).next().unwrap_or("").to_owned();
    Cow::Owned(text.split(CHANNEL_CLOSE).map(visible).collect())
}
