//! From a request to events: a fair line, and threads that answer what comes out of it.
//!
//! A worker runs one request at a time through the engine's ordinary sessions; the backend below is shared
//! ([`crate::batch`]). What a worker makes goes into a channel that never makes it wait; it is bounded by the tokens that were
//! asked for, so a client that reads slowly holds nobody up.
//!
//! Files: `queue.rs` is the line, `task.rs` what waits in it, `form.rs` what an answer has to look like, `worker.rs` the threads,
//! `score.rs` says how likely a prompt is.

mod form;
mod queue;
mod score;
mod task;
mod worker;

pub use form::{Form, Plans};
pub use queue::{Full, Place, Queue};
pub use task::{Event, Finished, Slot, Task, What, with_followers};
pub use worker::{Core, Workers, finish_reason, start};
