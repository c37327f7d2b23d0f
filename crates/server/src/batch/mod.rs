//! Several requests on one backend, in one pass.
//!
//! ```text
//! worker: Session -> SharedBackend --\
//! worker: Session -> SharedBackend ---- Line --> scheduler: Box<dyn Backend>
//! worker: Session -> SharedBackend --/            step(&[Work, Work, Work])
//! ```
//!
//! One thread, the scheduler, owns the backend. A [`SharedBackend`] is a handle that implements the same trait by leaving each
//! call in a line and waiting for the reply; so a request runs the ordinary loop of the engine, with its grammars, tools, drafts and
//! sampling, and does not know that others are there. The scheduler joins the steps that wait into one. A sequence's result is
//! the same bytes as if it had run alone (docs/spec.md), so nothing of this changes an answer.
//!
//! - **Batches stay full** (`scheduler.rs`): those that took part in a step come back within microseconds, so the scheduler waits
//!   for them, up to a quarter of what the step took. Nobody waits for a client: what reads the network is not on these threads.
//! - **Prompts do not stall answers** (`step.rs`): a chunk of a prompt is run in parts, so that a step with answers in it carries a
//!   bounded number of prompt tokens. How a prompt is cut changes no byte either.
//! - **Alone, a request runs as fast as without a server**: a greedy run goes to [`Backend::decode`], a sampled one to
//!   [`Backend::decode_drawn`] where the backend draws, and breaks off when somebody else comes.
//!
//! Files: `line.rs` holds what waits, `handle.rs` is the handle, `step.rs` joins steps, `scheduler.rs` is the thread.
//!
//! [`Backend::decode`]: rawloop_engine::backend::Backend::decode
//! [`Backend::decode_drawn`]: rawloop_engine::backend::Backend::decode_drawn

mod handle;
mod line;
mod scheduler;
mod step;

use std::sync::Arc;
use std::thread::JoinHandle;

use rawloop_engine::backend::{Backend, BackendInfo, PROMPT_STEP};

pub use handle::{Seat, SharedBackend};
pub use scheduler::BatchCounters;

use line::{Desk, Line};

/// Prompt tokens in a step without answers, on a backend that asks for no more: of two prompts at once each has a step of its usual size.
pub const PROMPT_MOST: usize = 2 * PROMPT_STEP;

/// How steps are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// Prompt tokens in a step that has answers in it.
    pub prompt_share: usize,
    /// Prompt tokens in a step that has none; none takes [`PROMPT_MOST`], or what the backend says of a prompt's step where that is more.
    pub prompt_most: Option<usize>,
    /// Requests at the same time up to which the drafter is used: beyond, the columns that drafts take are worth more to
    /// others.
    pub drafting: usize,
}

impl Default for BatchOptions {
    fn default() -> Self {
        BatchOptions { prompt_share: 64, prompt_most: None, drafting: 2 }
    }
}

/// A backend that several requests use. Dropping it ends the thread, once the step that is running is over; handles that are still there
/// are refused.
pub struct Batch {
    line: Arc<Line>,
    info: BackendInfo,
    vocab: usize,
    options: BatchOptions,
    thread: Option<JoinHandle<()>>,
}

impl Batch {
    /// Moves a backend to a thread of its own.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(backend: Box<dyn Backend>, options: BatchOptions) -> std::io::Result<Batch> {
        let (info, vocab) = (backend.info(), backend.vocab());
        let line = Arc::new(Line::default());
        let prompt_most = options.prompt_most.unwrap_or(PROMPT_MOST.max(info.prompt_step));
        let options = BatchOptions { prompt_most: Some(prompt_most), ..options };
        let scheduler = scheduler::Scheduler::new(backend, Arc::clone(&line), options);
        let thread = std::thread::Builder::new().name("batch".into()).spawn(move || scheduler.run())?;
        Ok(Batch { line, info, vocab, options, thread: Some(thread) })
    }

    /// A place for one request after the other.
    pub fn seat(&self) -> Seat {
        let desk = Arc::new(Desk::default());
        Seat::new(Arc::clone(&self.line), desk, self.info.clone(), self.vocab, self.options)
    }

    /// Labels of the backend.
    pub fn info(&self) -> &BackendInfo {
        &self.info
    }

    /// Whether the thread is over before its time: the backend has panicked, and everybody is refused.
    pub fn has_ended(&self) -> bool {
        self.line.is_closed()
    }

    /// Work so far.
    pub fn counters(&self) -> BatchCounters {
        self.line.counters.read()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.line.close();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has refused everybody already.
            let _ = thread.join();
        }
    }
}
