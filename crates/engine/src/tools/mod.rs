//! Tools: what a model may call, how its calls are kept well-formed, and the loop that answers them.
//!
//! - [`ToolFunction`] and [`function()`]: Rust functions as tools, the schema of their arguments derived; [`Toolbox`] holds them.
//! - [`ToolChoice`]: none, auto, required or one by name, in OpenAI's form; [`plan()`] turns it into an
//!   [`AnswerPlan`](crate::guided::AnswerPlan) whose constraint lets exactly such calls through.
//! - [`call_grammar()`]: Gemma's notation of calls, held to the schemas of the tools: the declared names, every required key,
//!   keys in the order the chat format sorts them, values of the declared types. What it lets through,
//!   [`OutputParser`](crate::chat::OutputParser) reads without repair.
//! - [`declare()`]: tools with schemas in the form that declaration, parser and grammar agree on; hand its result to all
//!   three.
//! - [`ToolLoop`]: calls out, results in, with a limit of steps; it knows no session.
//!
//! How declarations are written and calls are read is the chat format's business, see [`crate::chat`].
//!
//! Reading order: `choice.rs`, `function.rs`, `run.rs`; `flatten.rs`, then `grammar/`.

mod choice;
mod flatten;
mod function;
mod grammar;
mod run;

pub use choice::{PlanOptions, ToolChoice, plan};
pub use flatten::declare;
pub use function::{ToolError, ToolFunction, Toolbox, concurrent, function};
pub use grammar::{CallGrammar, call_grammar};
pub use run::{NoPendingCall, PendingCall, ToolLoop, ToolStep};
