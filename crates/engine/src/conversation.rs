//! Turns on top of a session: messages in, answers out, history kept.
//!
//! Each turn renders the whole history and hands it to the session, which prefills only what its cache does not hold; so the
//! history is the only state, and a conversation that is rebuilt from its messages answers as the grown one does.
//!
//! What happens to the history:
//!
//! - An answer joins it as the user saw it: without control tokens; thoughts are kept beside the text and come back into a
//!   prompt only while a tool call is open.
//! - A cancelled answer joins it as far as it was shown. If nothing of it was shown, the turn is taken back, question
//!   included.
//! - A failed turn is taken back.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use crate::EngineError;
use crate::chat::{
    FunctionCall, Message, Output, OutputEvent, OutputOptions, OutputParser, ParsedCall, RenderOptions, Role,
    Tool, ToolCall,
};
use crate::generate::{Finish, Timings};
use crate::model::Model;
use crate::sample::LogProbabilities;
use crate::session::{Event, GenerateOptions, Session};
use crate::text::StopFilter;

/// How to converse.
#[derive(Clone, Debug)]
pub struct ChatOptions {
    /// Instructions before the first message.
    pub system: Option<String>,
    /// Asks the model to think before it answers.
    pub thinking: bool,
    /// Tools the model may call.
    pub tools: Vec<Tool>,
    /// How to answer. Stop strings apply to the visible answer; marks are set by the conversation.
    pub generate: GenerateOptions,
}

impl ChatOptions {
    /// The model's own sampling, answers of at most `max_tokens` tokens, no system prompt, no thinking, no tools.
    pub fn of(model: &Model, max_tokens: usize) -> ChatOptions {
        let generate = GenerateOptions::of(model, max_tokens);
        ChatOptions { system: None, thinking: false, tools: Vec::new(), generate }
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

/// A conversation. See the module documentation.
pub struct Chat {
    session: Session,
    options: ChatOptions,
    messages: Vec<Message>,
}

impl Chat {
    /// An empty conversation.
    pub fn new(session: Session, options: ChatOptions) -> Chat {
        Chat { session, options, messages: Vec::new() }
    }

    /// The session below.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// How it converses.
    pub fn options(&self) -> &ChatOptions {
        &self.options
    }

    /// Changes how it converses from the next turn on.
    pub fn options_mut(&mut self) -> &mut ChatOptions {
        &mut self.options
    }

    /// The history, without the system prompt.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Replaces the history: an edit, or a conversation that was stored. What the cache holds of it is reused.
    pub fn set_messages(&mut self, messages: Vec<Message>) {
        self.messages = messages;
    }

    /// Answers a user's message.
    ///
    /// # Errors
    /// As [`Chat::send`].
    pub fn respond(
        &mut self,
        text: &str,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Turn, EngineError> {
        self.send(vec![Message::new(Role::User, text)], cancel, on_event)
    }

    /// Adds messages (a user's, or the results of calls) and answers them.
    ///
    /// # Errors
    /// As [`Session::generate`], or messages that cannot be rendered. The history is as before then.
    pub fn send(
        &mut self,
        messages: Vec<Message>,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Turn, EngineError> {
        let before = self.messages.len();
        self.messages.extend(messages);
        let answered = self.answer(cancel, on_event);
        match &answered {
            Ok(turn) if turn.finish == Finish::Cancelled && turn.output == Output::default() => {
                self.messages.truncate(before);
            }
            Ok(turn) => self.messages.push(as_message(&turn.output, before)),
            Err(_) => self.messages.truncate(before),
        }
        answered
    }

    fn answer(
        &mut self,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Turn, EngineError> {
        let (prompt, in_thought, mark) = self.render()?;
        let mut options = self.options.generate.clone();
        options.marks = mark.into_iter().collect();
        let stops = std::mem::take(&mut options.stop_strings);
        let model = Arc::clone(self.session.model());
        let tools = self.options.tools.clone();
        let mut parser = OutputParser::new(OutputOptions { in_thought, tools });
        let mut shown = Shown { output: Output::default(), filter: StopFilter::new(&stops), on_event };
        let mut failed = None;
        let answer = self.session.generate(&prompt, &options, cancel, &mut |event| match event {
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

    /// The ids of the prompt, whether it ends inside a thought, and where its system part ends.
    fn render(&self) -> Result<(Vec<u32>, bool, Option<usize>), EngineError> {
        let model = self.session.model();
        let system = self.options.system.as_deref().map(|text| Message::new(Role::System, text));
        let messages: Vec<Message> = system.iter().chain(&self.messages).cloned().collect();
        let options = RenderOptions {
            enable_thinking: self.options.thinking,
            tools: &self.options.tools,
            ..RenderOptions::default()
        };
        let rendered = model.render(&options, &messages)?;
        let ids = rendered.to_ids(model.tokenizer());
        // Another conversation with the same instructions shares this much.
        let alone = RenderOptions { add_generation_prompt: false, ..options };
        let beginning = model.render(&alone, system.as_slice())?.to_ids(model.tokenizer());
        let common = ids.iter().zip(&beginning).take_while(|(a, b)| a == b).count();
        Ok((ids, rendered.opens_thought(), (common > 1).then_some(common)))
    }
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
fn as_message(output: &Output, turn: usize) -> Message {
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
