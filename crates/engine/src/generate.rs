//! The loop: a prompt in, tokens out, one at a time.
//!
//! 1. What the sequence holds of the prompt is reused, the rest is prefilled in chunks. Between chunks the cancel flag is
//!    looked at, so a long prompt stops within one chunk.
//! 2. The last prompt token is the first step that has an output. A snapshot is kept just before it: the next turn, or the
//!    same one again, finds its way back there however long the answer was.
//! 3. Plain greedy hands the loop to [`Backend::decode`], which may run many tokens ahead of the host. Everything else
//!    steps, samples (contract rule 13) and steps again. Both give the same tokens where both apply.
//!
//! Ids only; text is made by [`crate::session`]. The context limit is checked before any work. From the first token on
//! nothing is allocated, apart from what the caller's `on_event` does.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::EngineError;
use crate::backend::{Backend, StepOutput, Wanted};
use crate::sample::{LogProbabilities, Sampler};
use crate::sequence::Sequence;

/// What to generate from.
#[derive(Clone, Copy, Debug)]
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
        /// How likely it was, where the sampling options ask for it.
        log_probabilities: Option<&'a LogProbabilities>,
    },
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// With a stop id, or a stop string of the caller.
    Stop,
    /// After as many tokens as were asked for.
    Length,
    /// Prompt and answer fill the context.
    Context,
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
            Finish::Cancelled => "cancelled",
        }
    }
}

/// How long what took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of those, tokens whose K/V were still held.
    pub reused_tokens: usize,
    /// Tokens of the answer.
    pub tokens: usize,
    /// From the start to the first token of the answer, or to the end where there is none.
    pub prefill: Duration,
    /// From the first token of the answer to the last one, or to the stop id.
    pub decode: Duration,
    /// Steps of the model in `decode`: one less than the tokens picked, stop id included.
    pub decode_steps: usize,
}

impl Timings {
    /// Prompt tokens that were run.
    pub fn prefill_tokens(&self) -> usize {
        self.prompt_tokens - self.reused_tokens
    }

    /// Prompt tokens run per second.
    pub fn prefill_rate(&self) -> f64 {
        rate(self.prefill_tokens(), self.prefill)
    }

    /// Tokens per second, without the first, which belongs to the prompt.
    pub fn decode_rate(&self) -> f64 {
        rate(self.decode_steps, self.decode)
    }
}

fn rate(count: usize, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if count == 0 || seconds == 0.0 { 0.0 } else { count as f64 / seconds }
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why the answer ended.
    pub finish: Finish,
    /// The stop id that ended it, where one did.
    pub stop: Option<u32>,
    /// How long it took.
    pub timings: Timings,
}

/// Checks a request against the backend's limits.
///
/// # Errors
/// Empty prompt, an id outside of the vocabulary, no room for an answer.
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
/// As [`check`], before any work; later whatever the backend reports. The sequence is usable afterwards in every case.
pub fn generate(
    backend: &mut dyn Backend,
    sequence: &mut Sequence,
    sampler: &mut Sampler,
    output: &mut StepOutput,
    request: &Request<'_>,
    cancel: &AtomicBool,
    on_event: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
) -> Result<Outcome, EngineError> {
    check(backend, request)?;
    let clock = Instant::now();
    let room = backend.info().context - request.prompt.len();
    let limit = request.max_tokens.min(room);
    sequence.reserve(request.prompt.len() + limit);
    let mut run = Run {
        backend,
        sequence,
        output,
        request,
        cancel,
        on_event,
        limit,
        clock,
        first: None,
        timings: Timings { prompt_tokens: request.prompt.len(), ..Timings::default() },
    };
    if !run.prefill()? {
        return Ok(run.finish(Finish::Cancelled, None));
    }
    let (finish, stop) =
        if sampler.options().is_plain_greedy() { run.greedy()? } else { run.sampled(sampler)? };
    let full = finish == Finish::Length && room < request.max_tokens;
    Ok(run.finish(if full { Finish::Context } else { finish }, stop))
}

struct Run<'a> {
    backend: &'a mut dyn Backend,
    sequence: &'a mut Sequence,
    output: &'a mut StepOutput,
    request: &'a Request<'a>,
    cancel: &'a AtomicBool,
    on_event: &'a mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
    /// Tokens of the answer at most.
    limit: usize,
    clock: Instant,
    first: Option<Instant>,
    timings: Timings,
}

impl Run<'_> {
    /// Brings everything but the last prompt token into the cache. False where it was cancelled.
    fn prefill(&mut self) -> Result<bool, EngineError> {
        let prompt = self.request.prompt;
        self.timings.reused_tokens = self.sequence.reuse(self.backend, prompt)?;
        let end = prompt.len() - 1;
        let earlier = self.request.marks.iter().copied().filter(|&mark| mark < end);
        let mut marks = earlier.chain([end]).peekable();
        loop {
            let done = self.sequence.ids().len();
            while marks.next_if(|&mark| mark < done).is_some() {}
            if marks.next_if_eq(&done).is_some() {
                self.sequence.keep_snapshot(self.backend);
            }
            if done >= end {
                break;
            }
            if self.cancel.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let stop = (done + self.request.chunk).min(marks.peek().copied().unwrap_or(end));
            self.sequence.append(self.backend, &prompt[done..stop], Wanted::Nothing, self.output)?;
            if (self.on_event)(Step::Prefill { done: stop, total: prompt.len() }).is_break() {
                return Ok(false);
            }
        }
        Ok(!self.cancel.load(Ordering::Relaxed))
    }

    /// The answer by the backend's own argmax.
    fn greedy(&mut self) -> Result<(Finish, Option<u32>), EngineError> {
        let Run { backend, sequence, request, cancel, on_event, limit, first, timings, .. } = self;
        let mut ending = (Finish::Length, None);
        let last = request.prompt[request.prompt.len() - 1];
        sequence.decode(*backend, last, *limit, request.stops, &mut |id| {
            picked(first, timings);
            if cancel.load(Ordering::Relaxed) {
                ending = (Finish::Cancelled, None);
                return false;
            }
            if request.stops.contains(&id) {
                ending = (Finish::Stop, Some(id));
                return false;
            }
            timings.tokens += 1;
            if on_event(Step::Token { id, log_probabilities: None }).is_break() {
                ending = (Finish::Cancelled, None);
                return false;
            }
            true
        })?;
        Ok(ending)
    }

    /// The answer by the sampler.
    fn sampled(&mut self, sampler: &mut Sampler) -> Result<(Finish, Option<u32>), EngineError> {
        let prompt = self.request.prompt;
        sampler.begin(prompt);
        let mut report = LogProbabilities::with_room(sampler.options());
        let mut token = prompt[prompt.len() - 1];
        while self.timings.tokens < self.limit {
            if self.cancel.load(Ordering::Relaxed) {
                return Ok((Finish::Cancelled, None));
            }
            self.sequence.append(self.backend, &[token], Wanted::LastLogits, self.output)?;
            let position = self.sequence.ids().len();
            token = sampler.pick(&mut self.output.logits, position, None)?;
            picked(&mut self.first, &mut self.timings);
            if self.request.stops.contains(&token) {
                return Ok((Finish::Stop, Some(token)));
            }
            sampler.accept(token);
            sampler.report(&self.output.logits, token, &mut report);
            let log_probabilities = sampler.options().log_probabilities.map(|_| &report);
            self.timings.tokens += 1;
            if (self.on_event)(Step::Token { id: token, log_probabilities }).is_break() {
                return Ok((Finish::Cancelled, None));
            }
        }
        Ok((Finish::Length, None))
    }

    fn finish(mut self, finish: Finish, stop: Option<u32>) -> Outcome {
        let first = self.first.unwrap_or_else(Instant::now);
        self.timings.prefill = first - self.clock;
        self.timings.decode = if self.first.is_some() { first.elapsed() } else { Duration::ZERO };
        Outcome { finish, stop, timings: self.timings }
    }
}

/// Notes that a token was picked: the first one ends the prefill, each other one took a step.
fn picked(first: &mut Option<Instant>, timings: &mut Timings) {
    match first {
        None => *first = Some(Instant::now()),
        Some(_) => timings.decode_steps += 1,
    }
}
