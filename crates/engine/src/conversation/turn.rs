//! One turn: a history is rendered, answered, and split into thought, text and calls while it comes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use crate::EngineError;
use crate::chat::{
    FunctionCall, Message, Output, OutputEvent, OutputOptions, OutputParser, ParsedCall, RenderOptions,
    Rendered, Role, Tool, ToolCall,
};
use crate::generate::{Finish, Timings};
use crate::guided::{AnswerPlan, Thinking};
use crate::model::Model;
use crate::sample::LogProbabilities;
use crate::session::{Event, GenerateOptions, Session};
use crate::text::StopFilter;
use crate::tools::PendingCall;

/// How to converse.
#[derive(Clone, Debug)]
pub struct ChatOptions {
    /// Instructions before the first message.
    pub system: Option<String>,
    /// Asks the model to think before it answers.
    pub thinking: bool,
    /// Tools the model may call.
    pub tools: Vec<Tool>,
    /// Special tokens that messages spell out are meant, as in [`RenderOptions::special_tokens`].
    pub special_tokens: bool,
    /// How to answer. Stop strings apply to the visible answer; marks are set by the conversation.
    pub generate: GenerateOptions,
}

impl ChatOptions {
    /// The model's own sampling, answers of at most `max_tokens` tokens, no system prompt, no thinking, no tools.
    pub fn of(model: &Model, max_tokens: usize) -> ChatOptions {
        let generate = GenerateOptions::of(model, max_tokens);
        ChatOptions { system: None, thinking: false, tools: Vec::new(), special_tokens: false, generate }
    }
}

/// What a caller sees of a turn while it is made.
#[derive(Clone, Copy, Debug)]
pub enum ChatEvent<'a> {
    /// Part of the prompt is done.
    Prefill {
        /// Prompt tokens in the cache now.
        done: usize,
        /// Prompt tokens there are.
        total: usize,
    },
    /// A token was generated; what it shows follows.
    Token {
        /// The token.
        id: u32,
        /// How likely it was, where asked for.
        log_probabilities: Option<&'a LogProbabilities>,
    },
    /// More of the thought.
    Reasoning(&'a str),
    /// More of the answer.
    Text(&'a str),
    /// A complete call.
    Call(&'a ParsedCall),
    /// What a call gave, where calls are run on the way.
    Result {
        /// The call.
        call: &'a PendingCall,
        /// What the model is told.
        result: &'a str,
    },
}

/// A finished turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Thought, answer and calls.
    pub output: Output,
    /// The generated ids, without the stop id.
    pub ids: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
    /// How long it took.
    pub timings: Timings,
}

/// A history as the model will read it.
pub(super) struct Prompt {
    pub ids: Vec<u32>,
    /// It ends inside a thought.
    in_thought: bool,
    /// Where its system part ends.
    mark: Option<usize>,
}

impl Prompt {
    /// Renders a history that the model is to continue.
    pub fn render(model: &Model, options: &ChatOptions, messages: &[Message]) -> Result<Prompt, EngineError> {
        let rendered = rendered(model, options, messages, true)?;
        let ids = rendered.to_ids(model.tokenizer());
        // Another conversation with the same instructions shares this much.
        let beginning = rendered_ids(model, options, &[])?;
        let common = ids.iter().zip(&beginning).take_while(|(a, b)| a == b).count();
        Ok(Prompt { ids, in_thought: rendered.opens_thought(), mark: (common > 1).then_some(common) })
    }
}

/// The ids of a history that nobody continues.
pub(super) fn rendered_ids(
    model: &Model,
    options: &ChatOptions,
    messages: &[Message],
) -> Result<Vec<u32>, EngineError> {
    Ok(rendered(model, options, messages, false)?.to_ids(model.tokenizer()))
}

fn rendered(
    model: &Model,
    options: &ChatOptions,
    messages: &[Message],
    add_generation_prompt: bool,
) -> Result<Rendered, EngineError> {
    let system = options.system.as_deref().map(|text| Message::new(Role::System, text));
    let messages: Vec<Message> = system.iter().chain(messages).cloned().collect();
    let render = RenderOptions {
        enable_thinking: options.thinking,
        tools: &options.tools,
        special_tokens: options.special_tokens,
        add_generation_prompt,
        ..RenderOptions::default()
    };
    Ok(model.render(&render, &messages)?)
}

/// Answers a history. A plan comes in place of the options' constraint, with a thought where the prompt leaves room for one.
pub(super) fn answer(
    session: &mut Session,
    options: &ChatOptions,
    plan: Option<AnswerPlan>,
    messages: &[Message],
    cancel: &AtomicBool,
    on_event: &mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>,
) -> Result<Turn, EngineError> {
    let model = Arc::clone(session.model());
    let prompt = Prompt::render(&model, options, messages)?;
    let mut generate = options.generate.clone();
    generate.marks = prompt.mark.into_iter().collect();
    if let Some(plan) = plan {
        let thinking = Thinking::of_prompt(model.control(), &prompt.ids);
        generate.constraint = Some(plan.thinking(thinking).into());
    }
    let stops = std::mem::take(&mut generate.stop_strings);
    let tools = options.tools.clone();
    let mut parser = OutputParser::new(OutputOptions { in_thought: prompt.in_thought, tools });
    let mut shown = Shown { output: Output::default(), filter: StopFilter::new(&stops), on_event };
    let mut failed = None;
    let answer = session.generate(&prompt.ids, &generate, cancel, &mut |event| match event {
        Event::Prefill { done, total } => (shown.on_event)(ChatEvent::Prefill { done, total }),
        Event::Rest { .. } => ControlFlow::Continue(()),
        Event::Token { id, log_probabilities, .. } => {
            let mut flow = (shown.on_event)(ChatEvent::Token { id, log_probabilities });
            let mut show = |event| {
                if shown.show(event).is_break() {
                    flow = ControlFlow::Break(());
                }
            };
            if let Err(error) = parser.push_token(model.tokenizer(), model.control(), id, &mut show) {
                failed = Some(error);
            }
            let over = failed.is_some() || parser.is_done() || shown.filter.stopped();
            if over { ControlFlow::Break(()) } else { flow }
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let ended_itself = parser.is_done() || shown.filter.stopped();
    let finish = if ended_itself { Finish::Stop } else { answer.finish };
    // What is still held back of a cancelled answer was never seen, so it is no part of it.
    if finish != Finish::Cancelled {
        parser.finish(&mut |event| {
            // The answer is over; there is nothing left to end.
            let _ = shown.show(event);
        });
        shown.rest();
    }
    Ok(Turn { output: shown.output, ids: answer.ids, finish, timings: answer.timings })
}

/// Where an answer is collected and shown.
struct Shown<'a> {
    output: Output,
    filter: StopFilter,
    on_event: &'a mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>,
}

impl Shown<'_> {
    fn show(&mut self, event: OutputEvent) -> ControlFlow<()> {
        match event {
            OutputEvent::Text(text) => {
                let text = self.filter.push(&text);
                self.output.text.push_str(text);
                if text.is_empty() {
                    ControlFlow::Continue(())
                } else {
                    (self.on_event)(ChatEvent::Text(text))
                }
            }
            OutputEvent::Reasoning(ref text) => {
                let flow = (self.on_event)(ChatEvent::Reasoning(text));
                self.output.add(event);
                flow
            }
            OutputEvent::Call(ref call) => {
                let flow = (self.on_event)(ChatEvent::Call(call));
                self.output.add(event);
                flow
            }
            OutputEvent::Warning(_) => {
                self.output.add(event);
                ControlFlow::Continue(())
            }
        }
    }

    /// Shows what could have begun a stop string.
    fn rest(&mut self) {
        let rest = self.filter.finish("");
        if !rest.is_empty() {
            self.output.text.push_str(rest);
            // The answer is over; there is nothing left to end.
            let _ = (self.on_event)(ChatEvent::Text(rest));
        }
    }
}

/// The answer as a message. Calls get ids that are unique within a conversation.
pub(super) fn as_message(output: &Output, turn: usize) -> Message {
    let mut message = Message::new(Role::Assistant, output.text.as_str());
    message.reasoning = Some(output.reasoning.clone()).filter(|text| !text.is_empty());
    let call = |(index, call): (usize, &ParsedCall)| ToolCall {
        id: Some(format!("call_{turn}_{index}")),
        kind: "function".into(),
        function: FunctionCall { name: call.name.clone(), arguments: Value::Object(call.arguments.clone()) },
    };
    message.tool_calls = output.calls.iter().enumerate().map(call).collect();
    message
}
