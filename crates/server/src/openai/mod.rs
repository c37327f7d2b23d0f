//! OpenAI's interface.
//!
//! Files: `request.rs` holds what requests have in common and turns it into options of the engine, `numbers.rs` what answers
//! have in common; then a file for each path.

pub mod chat;
pub mod completions;
pub mod models;
mod numbers;
mod request;
pub mod responses;
pub mod tokenize;

pub use numbers::{chat_logprobs, rawloop, spell, tokens_per_second, usage};
pub use request::{AnyObject, Sampling, Stops, StreamOptions, alternatives, answers, generate, split_system};
