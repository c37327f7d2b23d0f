//! Answers that follow a grammar: JSON by a schema, a regular expression, Lark, GBNF, one of some texts.
//!
//! The grammars are followed by the library `llguidance`, on this crate's own tokenizer. What this module adds:
//!
//! - [`Environment`]: the vocabulary prepared once, off the thread that prefills.
//! - [`Grammar`]: the ways to state one. What cannot be followed is an error that names the keyword or the line; white space
//!   in JSON is bounded, numbers are as long as a reader can read.
//! - [`Constraint`]: the walk through one answer: which tokens can follow, which must, whether it may end; with thoughts
//!   before the grammar, tool calls beside it, and a way back for speculation.
//! - [`Guide`]: what an answer's options hold; its grammar is compiled while the prompt is prefilled.
//! - [`extract()`]: a Rust type as the schema, and the answer as its value.
//!
//! How a mask meets the logits: [`Constraint::mask`] is a [`Mask`](crate::sample::Mask), which [`crate::sample::Sampler::pick`]
//! takes. Contract rule 13 says where: a token that the mask forbids is no candidate, as if its logit were minus infinity,
//! before bias, penalties and top-k. Temperature 0 takes the largest logit among the allowed, the lowest id of equal ones;
//! [`best_allowed`] does that without a sampler.
//!
//! The lead through one answer, for a loop that runs a model:
//!
//! 1. `forced()`: tokens that need no model. Append them to the sequence as a prompt, `accept` each.
//! 2. `mask()`, pick, `accept(token)`. A stop token is accepted like any other and ends the answer.
//! 3. `is_complete()`: nothing but a stop can follow; the loop may end without asking for it.
//! 4. Speculation: `agrees(drafts)` tells how many drafts the grammar would take; verification goes on as in 2, one accepted
//!    token at a time; `rollback(n)` takes tokens back.
//!
//! A failure ends the one answer: [`GuidedError::Refused`] leaves the constraint as it was, [`GuidedError::Failed`] does not
//! recover. No input of a user panics; the library's panics become errors.
//!
//! Reading order: `grammar.rs`, `constraint.rs`, `follower.rs`, `environment.rs`, `vocabulary.rs`, `guide.rs`, `beside.rs`; `schema/`, `lark.rs`, `gbnf/`.

mod allowed;
mod beside;
mod constraint;
mod environment;
mod error;
mod extract;
mod follower;
mod gbnf;
mod grammar;
mod guide;
mod lark;
mod number_guard;
mod phase;
mod schema;
mod statement;
mod vocabulary;

pub use allowed::{best_allowed, forbid};
pub(crate) use beside::Beside;
pub use constraint::Constraint;
pub use environment::{Environment, SharedEnvironment};
pub use error::GuidedError;
pub(crate) use extract::schema_of;
pub use extract::{Extraction, extract};
pub use follower::CompiledGrammar;
pub use grammar::{Grammar, Spacing};
pub(crate) use guide::SharedGrammar;
pub use guide::{Guide, Preparing};
pub(crate) use lark::literal;
pub use phase::{AnswerPlan, Thinking};
pub(crate) use schema::{
    rewrite as rewrite_schema, target as reference_target, translate as translate_pattern,
};
pub use statement::Statement;
