//! What the model generates, split into thought, answer and tool calls.
//!
//! Fed token by token (`push_token`) or with text in pieces of any size (`push_text`), the parser emits events that add up to
//! the same [`Output`] in every case. With tokens a marker is a token, and text that spells one is text; with text it is the
//! spelling.
//!
//! The rules, fixed for streams and whole texts alike:
//!
//! - A thought goes to `reasoning`, whether or not it was asked for. Its header `thought\n` and the newline before its end
//!   mark are never shown, nor is a header that comes late because the thought was closed from outside.
//! - A call begins only with the marker, `call:`, a name and `{` (or `(`). Anything else after the marker is text.
//! - A call is emitted when it is complete. One that cannot be read becomes text with a warning, never nothing.
//! - Behind a call, repeated end marks are swallowed, and a result that the model invents ends the output.
//! - White space is shown only with the text that follows it, so none is left at the end or between blocks.
//!
//! Files: `scan.rs` finds markers in text, `machine.rs` is the state machine, `call.rs` reads a call, `shape.rs` a
//! schema for it.

mod call;
mod machine;
mod scan;
mod shape;

pub use call::{CallError, ParsedCall, parse_call};
pub use machine::OutputParser;

use super::Tool;

/// Where an output begins and what it may call.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// The prompt ended inside a thought, see [`Rendered::opens_thought`](super::Rendered::opens_thought).
    pub in_thought: bool,
    /// The declared tools; their names and schemas decide doubtful cases.
    pub tools: Vec<Tool>,
}

/// A step of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputEvent {
    /// More of the thought.
    Reasoning(String),
    /// More of the answer.
    Text(String),
    /// A complete call.
    Call(ParsedCall),
    /// A call that cannot be read; its text follows as [`OutputEvent::Text`].
    Warning(CallError),
}

/// A whole output.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// The thoughts, blocks separated by a newline.
    pub reasoning: String,
    /// The answer.
    pub text: String,
    /// The calls in order.
    pub calls: Vec<ParsedCall>,
    /// Why parts of the text are not calls.
    pub warnings: Vec<CallError>,
}

impl Output {
    /// Adds a step of a stream.
    pub fn add(&mut self, event: OutputEvent) {
        match event {
            OutputEvent::Reasoning(text) => self.reasoning.push_str(&text),
            OutputEvent::Text(text) => self.text.push_str(&text),
            OutputEvent::Call(call) => self.calls.push(call),
            OutputEvent::Warning(error) => self.warnings.push(error),
        }
    }
}

/// Splits a whole text.
pub fn parse_output(text: &str, options: OutputOptions) -> Output {
    let mut parser = OutputParser::new(options);
    let mut output = Output::default();
    parser.push_text(text, &mut |event| output.add(event));
    parser.finish(&mut |event| output.add(event));
    output
}
