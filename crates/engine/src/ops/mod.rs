//! Operations on texts: one call each, from summarizing to redacting.
//!
//! The list is data ([`OPS`]): name, prompt, options, form of the answer, and what becomes of a text that is longer than a
//! prompt can be. [`run()`] does what it says. Answers in JSON, and those that are one of some words, are held to their form
//! by a grammar.
//!
//! Reading order: `table.rs`, `run.rs`, `ask.rs`; then `split.rs`, `merge.rs` and `spans.rs`, which know no model.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::atomic::AtomicBool;
//!
//! use rawloop_engine::Session;
//! use rawloop_engine::ops::{self, OpError, OpOptions};
//!
//! fn summarize(session: &mut Session, text: &str) -> Result<String, OpError> {
//!     let options = OpOptions::new().with("style", "bullets");
//!     let never = AtomicBool::new(false);
//!     let op = ops::find("summarize")?;
//!     Ok(ops::run(session, op, &[text], &options, &never, &mut |_| ControlFlow::Continue(()))?.text)
//! }
//! ```

mod ask;
mod error;
mod merge;
mod options;
mod points;
mod prompt;
mod run;
mod schema;
mod shape;
mod spans;
mod split;
mod table;

pub use ask::OpStats;
pub use error::OpError;
pub use options::OpOptions;
pub use run::{OpAnswer, OpEvent, run};
pub use split::{Piece, split};
pub use table::{Long, NOT_SAID, OPS, Op, OpOption, Prompt, Shape, UNSUPPORTED, Unsupported};

/// An operation by its name.
///
/// # Errors
/// A name that is not known, or one that text alone cannot do.
pub fn find(name: &str) -> Result<&'static Op, OpError> {
    if let Some(op) = OPS.iter().find(|op| op.name == name) {
        return Ok(op);
    }
    if let Some(other) = UNSUPPORTED.iter().find(|other| other.name == name) {
        return Err(OpError::Unsupported { name: other.name, needs: other.needs });
    }
    let known: Vec<&str> = OPS.iter().map(|op| op.name).collect();
    Err(OpError::Unknown { name: name.to_owned(), known: known.join(", ") })
}
