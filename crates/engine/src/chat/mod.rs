//! The chat format: conversations to prompts, generated ids to answers.
//!
//! [`render()`] is the built-in renderer of Gemma 4's format; [`ChatTemplate`] runs a checkpoint's own `chat_template.jinja` on
//! the same input. Both give [`Rendered`], which knows which text is the format's and which is a user's, so that a special
//! token written by a user stays text. [`OutputParser`] is the way back: it splits what the model generates into thought,
//! answer and tool calls, as it comes.
//!
//! Reading order: `message.rs` (the data), `prepare.rs`, `render.rs`, `declare.rs` and `value.rs`; `template.rs`; then
//! `output/`. Nothing in here knows the engine; only tokens and text.

mod control;
mod declare;
mod error;
mod lower;
mod message;
mod output;
mod prepare;
mod render;
mod rendered;
mod template;
mod value;

pub use control::ControlTokens;
pub use error::ChatError;
pub use message::{Content, Function, FunctionCall, Message, Part, Role, Tool, ToolCall, ToolResponse};
pub use output::{
    CallError, Output, OutputEvent, OutputOptions, OutputParser, ParsedCall, parse_call, parse_output,
};
pub use render::render;
pub use rendered::{Origin, Rendered};
pub use template::ChatTemplate;

/// What a prompt is rendered for.
#[derive(Debug, Clone, Copy)]
pub struct RenderOptions<'a> {
    /// Asks the model to think first. Off by default, as in the published template.
    pub enable_thinking: bool,
    /// Keeps the thoughts of earlier messages that made calls.
    pub preserve_thinking: bool,
    /// Ends the prompt where the model is to continue.
    pub add_generation_prompt: bool,
    /// Tools to declare.
    pub tools: &'a [Tool],
    /// Special tokens that messages, declarations and results spell out are meant: whoever wrote them may end a turn and speak for
    /// the system. Off, they are text.
    pub special_tokens: bool,
}

impl Default for RenderOptions<'_> {
    /// No thinking, no tools, and the model speaks next.
    fn default() -> Self {
        RenderOptions {
            enable_thinking: false,
            preserve_thinking: false,
            add_generation_prompt: true,
            tools: &[],
            special_tokens: false,
        }
    }
}
