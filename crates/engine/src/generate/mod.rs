//! The loop: a prompt in, tokens out.
//!
//! 1. What the sequence holds of the prompt is reused, the rest is prefilled in chunks (`run.rs`). Between chunks the cancel flag
//!    is looked at, so a long prompt stops within one chunk.
//! 2. The last prompt token is the first step that has an output. A snapshot is kept of the position just before it: the next
//!    turn, or the same one again, finds its way back there however long the answer was. Where the backend takes that token along
//!    for less ([`BackendInfo::takes_last_along`]), the rest of the prompt, a chunk at most, is one step, and the snapshot is told
//!    behind it, of one position back, which every ring still holds. A snapshot behind the prompt would not do: it has the rows
//!    that a token behind it reads, and going back by one wants one more. The token stays a step of its own where the backend
//!    may draw what follows by itself, and where the answer's form is prepared while the prompt runs.
//! 3. Then, until the answer ends: tokens that must follow ([`Request::constraint`], [`Request::budget`]) join without asking
//!    the model; drafts are made ([`crate::speculate`]); one step runs over what is new; each of its outputs is picked from
//!    by the same rules (`rules.rs`), for as long as the drafts before it were right.
//! 4. Plain greedy without drafts hands the loop to [`Backend::decode`], which may run many tokens ahead of the host.
//!
//! Every way gives the same tokens. Ids only; text is made by [`crate::session`]. The context limit is checked before any work.
//! From the first token on nothing is allocated, apart from what the caller's `on_event` and the grammar library do.
//!
//! [`BackendInfo::takes_last_along`]: crate::backend::BackendInfo::takes_last_along
//!
//! Reading order: this file, `run.rs`, `rules.rs`, `thought.rs`, `timings.rs`.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use crate::EngineError;
use crate::backend::{Backend, StepOutput};
use crate::guided::Preparing;
use crate::sample::{LogProbabilities, Sampler};
use crate::sequence::Sequence;
use crate::speculate::Speculation;

mod rules;
mod run;
mod thought;
mod timings;

pub use thought::ThoughtBudget;
pub use timings::Timings;

/// What to generate from.
#[derive(Debug)]
pub struct Request<'a> {
    /// The whole prompt, the part that the sequence may hold already included.
    pub prompt: &'a [u32],
    /// Tokens that end the answer; they are not part of it.
    pub stops: &'a [u32],
    /// Tokens of the answer at most; the context may end it sooner.
    pub max_tokens: usize,
    /// Prompt tokens per step.
    pub chunk: usize,
    /// Positions in the prompt, ascending, at which to keep a snapshot, because other prompts may share what stands before
    /// them: the end of a system prompt.
    pub marks: &'a [usize],
    /// What holds the answer to a form; it is waited for when the prompt is done.
    pub constraint: Option<Preparing>,
    /// What ends thoughts.
    pub budget: Option<ThoughtBudget>,
}

/// What a request is run with, kept from one to the next for the buffers and for what was learned.
#[derive(Debug)]
pub struct Means<'a> {
    /// The cache.
    pub sequence: &'a mut Sequence,
    /// How tokens are picked.
    pub sampler: &'a mut Sampler,
    /// Where a step's output goes.
    pub output: &'a mut StepOutput,
    /// Where drafts come from.
    pub speculation: &'a mut Speculation,
}

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A chunk of the prompt is done.
    Prefill {
        /// Prompt tokens that are in the cache now, the reused ones included.
        done: usize,
        /// Prompt tokens there are.
        total: usize,
    },
    /// A token of the answer.
    Token {
        /// The token.
        id: u32,
        /// How likely it was, where the sampling options ask for it. None for a token that had to follow.
        log_probabilities: Option<&'a LogProbabilities>,
    },
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// With a stop id, a stop string of the caller, or where its grammar lets nothing follow.
    Stop,
    /// After as many tokens as were asked for.
    Length,
    /// Prompt and answer fill the context.
    Context,
    /// It repeated itself without end.
    Loop,
    /// The cancel flag was set, or `on_event` asked for the end.
    Cancelled,
}

impl Finish {
    /// Name in outputs.
    pub const fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Context => "context",
            Finish::Loop => "loop",
            Finish::Cancelled => "cancelled",
        }
    }
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why it ended.
    pub finish: Finish,
    /// The stop id that ended it, where one did.
    pub stop: Option<u32>,
    /// How long it took.
    pub timings: Timings,
}

/// Whether a request can be run at all.
///
/// # Errors
/// An empty prompt, a chunk of 0 tokens, an id outside of the vocabulary, a prompt that fills the context.
pub fn check(backend: &dyn Backend, request: &Request<'_>) -> Result<(), EngineError> {
    if request.prompt.is_empty() {
        return Err(EngineError::EmptyPrompt);
    }
    if request.chunk == 0 {
        return Err(EngineError::Chunk);
    }
    let vocab = backend.vocab();
    if let Some(&token) = request.prompt.iter().find(|&&token| token as usize >= vocab) {
        return Err(EngineError::Token { token, vocab });
    }
    let limit = backend.info().context;
    if request.prompt.len() >= limit {
        return Err(EngineError::Context { prompt: request.prompt.len(), limit });
    }
    Ok(())
}

/// Runs a request. `on_event` sees each step and may end the run; what it has seen is what the answer is.
///
/// # Errors
/// As [`check`], before any work; later whatever the backend or the grammar reports. The sequence is usable afterwards in every
/// case.
pub fn generate(
    backend: &mut dyn Backend,
    means: Means<'_>,
    request: Request<'_>,
    cancel: &AtomicBool,
    on_event: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
) -> Result<Outcome, EngineError> {
    check(backend, &request)?;
    run::Run::new(backend, means, request, cancel, on_event).run()
}
