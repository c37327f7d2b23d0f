//! One request on its way: the prompt into the cache, then rounds of tokens.
//!
//! Invariant: the sequence holds the first ids of `history`, prompt and answer, and nothing else, whenever a round begins. What it
//! lacks is what the next step runs over: the token picked last, and tokens that had to follow it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use web_time::Instant;

use super::rules::Rules;
use super::{Finish, Means, Outcome, Request, Step, Timings};
use crate::EngineError;
use crate::backend::{Backend, BackendInfo, Draw, StepOutput, Wanted};
use crate::guided::{Beside, Preparing};
use crate::sample::{LogProbabilities, Sampler};
use crate::sequence::Sequence;
use crate::speculate::{DEEPEST, Speculation};

/// Why a run is over, with the stop id.
type End = (Finish, Option<u32>);

/// Where tokens go.
struct Sink<'a> {
    on_event: &'a mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
    cancel: &'a AtomicBool,
    stops: &'a [u32],
    /// Tokens of the answer at most.
    limit: usize,
    /// Prompt and answer.
    history: Vec<u32>,
    /// When the first token was picked.
    first: Option<Instant>,
    /// What the caller has done with tokens so far took.
    outside: Duration,
    timings: Timings,
}

impl Sink<'_> {
    /// Notes that a token was picked: the first one ends the prefill.
    fn picked(&mut self) {
        match self.first {
            None => self.first = Some(Instant::now()),
            Some(_) => self.timings.decode_tokens += 1,
        }
    }

    /// Takes a token that is no stop into the answer.
    fn emit(&mut self, id: u32, log_probabilities: Option<&LogProbabilities>) -> Option<End> {
        self.history.push(id);
        self.timings.tokens += 1;
        let clock = Instant::now();
        let flow = (self.on_event)(Step::Token { id, log_probabilities });
        self.outside += clock.elapsed();
        flow.is_break().then_some((Finish::Cancelled, None))
    }

    fn is_full(&self) -> bool {
        self.timings.tokens >= self.limit
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

/// One request.
pub(super) struct Run<'a> {
    backend: &'a mut dyn Backend,
    sequence: &'a mut Sequence,
    sampler: &'a mut Sampler,
    output: &'a mut StepOutput,
    speculation: &'a mut Speculation,
    request: Request<'a>,
    sink: Sink<'a>,
    /// Positions behind the prompt.
    room: usize,
    has_drafter: bool,
    /// Whether the rest of the prompt goes into one step with the first token's output.
    along: bool,
    /// The position before the last token, where that step goes past it: its snapshot is kept behind the step.
    owed: Option<usize>,
    /// Threads of a step.
    threads: usize,
    /// What a step runs over.
    feed: Vec<u32>,
    clock: Instant,
}

impl<'a> Run<'a> {
    pub fn new(
        backend: &'a mut dyn Backend,
        means: Means<'a>,
        request: Request<'a>,
        cancel: &'a AtomicBool,
        on_event: &'a mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Run<'a> {
        let clock = Instant::now();
        let Means { sequence, sampler, output, speculation } = means;
        let info = backend.info();
        let prompt = request.prompt;
        let room = info.context - prompt.len();
        let limit = request.max_tokens.min(room);
        sequence.reserve(prompt.len() + limit + DEEPEST);
        let mut history = Vec::with_capacity(prompt.len() + limit);
        history.extend_from_slice(prompt);
        let timings = Timings { prompt_tokens: prompt.len(), ..Timings::default() };
        let outside = Duration::ZERO;
        let sink =
            Sink { on_event, cancel, stops: request.stops, limit, history, first: None, outside, timings };
        let feed = Vec::with_capacity(64);
        let BackendInfo { has_drafter, threads, takes_last_along, .. } = info;
        let free = request.constraint.is_none() && request.budget.is_none();
        let along = takes_last_along && free && sampler.options().draw().is_none() && limit > 0;
        Run {
            backend,
            sequence,
            sampler,
            output,
            speculation,
            request,
            sink,
            room,
            has_drafter,
            along,
            owed: None,
            threads,
            feed,
            clock,
        }
    }

    pub fn run(mut self) -> Result<Outcome, EngineError> {
        let end = if self.prefill()? { self.answer() } else { Ok((Finish::Cancelled, None)) };
        // Drafts that nobody took are no part of the sequence, however the run ended.
        let held = self.sequence.ids();
        let right = held.iter().zip(&self.sink.history).take_while(|(held, said)| held == said).count();
        let cut = if right < held.len() { self.sequence.rewind(self.backend, right) } else { Ok(0) };
        let (finish, stop) = end?;
        cut?;
        let full = finish == Finish::Length && self.room < self.request.max_tokens;
        let Sink { first, mut timings, .. } = self.sink;
        timings.plain_step = self.speculation.plain_step();
        let started = first.unwrap_or_else(Instant::now);
        timings.prefill = started - self.clock;
        timings.decode = if first.is_some() { started.elapsed() } else { Duration::ZERO };
        Ok(Outcome { finish: if full { Finish::Context } else { finish }, stop, timings })
    }

    /// Brings everything but the last prompt token into the cache, or but the last chunk. False where it was cancelled.
    fn prefill(&mut self) -> Result<bool, EngineError> {
        let prompt = self.request.prompt;
        self.sink.timings.reused_tokens = self.sequence.reuse(self.backend, prompt)?;
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
            // Asked again: others may have come to a shared backend meanwhile.
            let last = prompt.len() - done <= self.request.chunk && marks.peek() == Some(&end);
            if self.along && last && self.backend.info().takes_last_along {
                self.owed = Some(end);
                break;
            }
            if self.sink.is_cancelled() {
                return Ok(false);
            }
            // A grammar that cannot be used is known before the prompt is done.
            if let Some(constraint) = &self.request.constraint {
                constraint.check()?;
            }
            let stop = (done + self.request.chunk).min(marks.peek().copied().unwrap_or(end));
            self.sequence.append(self.backend, &prompt[done..stop], Wanted::Nothing, self.output)?;
            if (self.sink.on_event)(Step::Prefill { done: stop, total: prompt.len() }).is_break() {
                return Ok(false);
            }
        }
        Ok(!self.sink.is_cancelled())
    }

    /// The answer.
    fn answer(&mut self) -> Result<End, EngineError> {
        let Run { sampler, request, .. } = self;
        let constraint = request.constraint.take().map(Preparing::wait).transpose()?;
        // Reborrowed for the rules alone; nothing else of the run touches it.
        let sampler: &mut Sampler = sampler;
        let budget = request.budget.take();
        let beside = constraint.as_ref().and_then(|_| Beside::of(self.threads));
        let mut rules = Rules::new(sampler, constraint, budget, beside, request.prompt);
        let mut rounds = Rounds {
            backend: self.backend,
            sequence: self.sequence,
            output: self.output,
            speculation: self.speculation,
            sink: &mut self.sink,
            feed: &mut self.feed,
            chunk: self.request.chunk,
            has_drafter: self.has_drafter,
            owed: self.owed,
            from_hidden: false,
        };
        let end = rounds.all(&mut rules);
        rounds.sink.timings.guide = rules.guide();
        end
    }
}

/// Tokens until it is asked again whether the backend wants drafts.
const CROWDED: usize = 16;

/// The answer on its way.
struct Rounds<'a, 'b> {
    backend: &'a mut dyn Backend,
    sequence: &'a mut Sequence,
    output: &'a mut StepOutput,
    speculation: &'a mut Speculation,
    sink: &'a mut Sink<'b>,
    feed: &'a mut Vec<u32>,
    chunk: usize,
    has_drafter: bool,
    /// [`Run::owed`].
    owed: Option<usize>,
    /// Whether an output was wanted of the last token that the sequence holds.
    from_hidden: bool,
}

impl Rounds<'_, '_> {
    /// Rounds until the answer ends.
    fn all(&mut self, rules: &mut Rules<'_>) -> Result<End, EngineError> {
        if rules.is_complete()? {
            return Ok((Finish::Stop, None));
        }
        if self.sink.is_full() {
            return Ok((Finish::Length, None));
        }
        loop {
            if let Some(end) = self.round(rules)? {
                return Ok(end);
            }
        }
    }

    /// Tokens that must follow, then one step and what it gives.
    fn round(&mut self, rules: &mut Rules<'_>) -> Result<Option<End>, EngineError> {
        while let Some(id) = rules.forced()? {
            if let Some(end) = self.take(rules, id, true)? {
                return Ok(Some(end));
            }
        }
        if self.sink.is_cancelled() {
            return Ok(Some((Finish::Cancelled, None)));
        }
        self.catch_up()?;
        let pending = self.sink.history.len() - self.sequence.ids().len();
        let mut resting = self.speculation.resting(self.has_drafter);
        if !self.backend.wants_drafts() {
            resting = resting.max(CROWDED);
        }
        if pending == 1 && resting > 0 {
            let draw = rules.draw();
            if draw.is_some() || rules.is_plain() {
                let before = self.sink.history.len();
                let end = self.stretch(resting, draw)?;
                if end.is_some() || self.sink.history.len() > before {
                    return Ok(end);
                }
            }
        }
        self.draft(rules, pending, resting)?;
        self.step(rules, pending)
    }

    /// Where a rewind had to go back further than the last rejected draft, the tokens between run again.
    fn catch_up(&mut self) -> Result<(), EngineError> {
        loop {
            let held = self.sequence.ids().len();
            let missing = &self.sink.history[held..];
            // What was forced at once is short enough for one step.
            if missing.len() <= self.chunk.max(DEEPEST) {
                return Ok(());
            }
            self.sequence.append(self.backend, &missing[..self.chunk], Wanted::Nothing, self.output)?;
            self.from_hidden = false;
        }
    }

    /// Drafts for the next step. None where it runs over forced tokens: their outputs are not needed, and a step hands back
    /// all outputs or the last one.
    fn draft(&mut self, rules: &mut Rules<'_>, pending: usize, resting: usize) -> Result<(), EngineError> {
        // The token behind the last draft is picked too.
        let room = self.sink.limit - self.sink.timings.tokens - 1;
        if pending > 1 || room == 0 || resting > 0 {
            self.speculation.keep(0);
            return Ok(());
        }
        let (history, id) = (&self.sink.history, self.sequence.id());
        let clock = Instant::now();
        self.speculation.propose(self.backend, id, history, room, self.from_hidden && self.has_drafter)?;
        let kept = rules.agrees(self.speculation.drafts())?;
        self.speculation.keep(kept);
        self.sink.timings.draft += clock.elapsed();
        Ok(())
    }

    /// One step over what the sequence lacks and the drafts.
    fn step(&mut self, rules: &mut Rules<'_>, pending: usize) -> Result<Option<End>, EngineError> {
        let base = self.sequence.ids().len();
        let drafted = self.speculation.drafts().len();
        self.feed.clear();
        self.feed.extend_from_slice(&self.sink.history[base..]);
        self.feed.extend_from_slice(self.speculation.drafts());
        let wanted = match (rules.takes_picks(), drafted) {
            (true, 0) => Wanted::LastPick,
            (true, _) => Wanted::Picks,
            (false, 0) => Wanted::LastLogits,
            (false, _) => Wanted::Logits,
        };
        // A step costs what comes with it too: picking, and cutting off what was not right. Not what the caller does.
        let (clock, outside) = (Instant::now(), self.sink.outside);
        rules.look_ahead();
        let stepped = self.sequence.append(self.backend, self.feed, wanted, self.output);
        rules.look_back()?;
        stepped?;
        self.from_hidden = true;
        if let Some(position) = self.owed.take() {
            self.sequence.keep_snapshot_at(self.backend, position);
            if self.prompt_is_done() {
                return Ok(Some((Finish::Cancelled, None)));
            }
        }
        let before = self.sink.timings;
        let first = self.sink.first.is_none();
        let (end, accepted) = self.verify(rules, drafted)?;
        if end.is_none() {
            let keep = self.sink.history.len() - 1;
            if self.sequence.ids().len() > keep && self.sequence.rewind(self.backend, keep)? < keep {
                self.from_hidden = false;
            }
        }
        let time = clock.elapsed().saturating_sub(self.sink.outside - outside);
        let timings = &mut self.sink.timings;
        timings.decode_steps += usize::from(!first);
        if drafted > 0 {
            timings.verify_steps += 1;
            timings.verified_tokens += timings.decode_tokens - before.decode_tokens + usize::from(first);
            timings.drafted_tokens += drafted;
            timings.accepted_tokens += accepted;
            timings.verify += time;
            self.speculation.verified(time, accepted);
        } else if pending == 1 {
            self.speculation.stepped(time, 1);
        }
        Ok(end)
    }

    /// Says that the whole prompt is in the cache. True where that is the end of it.
    fn prompt_is_done(&mut self) -> bool {
        let (clock, total) = (Instant::now(), self.sequence.ids().len());
        let flow = (self.sink.on_event)(Step::Prefill { done: total, total });
        self.sink.outside += clock.elapsed();
        flow.is_break() || self.sink.is_cancelled()
    }

    /// Picks from the outputs of a step, one after the other, for as long as the drafts before them were right. Says how many
    /// were.
    fn verify(&mut self, rules: &mut Rules<'_>, drafted: usize) -> Result<(Option<End>, usize), EngineError> {
        let vocab = self.backend.vocab();
        for row in 0..=drafted {
            let (id, forced) = match rules.forced()? {
                Some(id) => (id, true),
                None if rules.has_no_choice()? => return Ok((Some((Finish::Stop, None)), row)),
                None if rules.takes_picks() => (self.output.picks[row], false),
                None => {
                    let logits = &mut self.output.logits[row * vocab..(row + 1) * vocab];
                    (rules.pick(logits, self.sink.history.len())?, false)
                }
            };
            let right = self.speculation.drafts().get(row) == Some(&id);
            if let Some(end) = self.take(rules, id, forced)? {
                return Ok((Some(end), row + usize::from(right)));
            }
            if !right {
                return Ok((None, row));
            }
            if self.sink.is_cancelled() {
                return Ok((Some((Finish::Cancelled, None)), row + 1));
            }
        }
        Ok((None, drafted))
    }

    /// Goes on by a token. Says whether that ends the answer.
    fn take(&mut self, rules: &mut Rules<'_>, id: u32, forced: bool) -> Result<Option<End>, EngineError> {
        rules.accept(id)?;
        self.sink.picked();
        if self.sink.stops.contains(&id) || rules.has_ended() {
            return Ok(Some((Finish::Stop, Some(id))));
        }
        self.sink.timings.forced_tokens += usize::from(forced);
        if let Some(end) = self.sink.emit(id, rules.report().filter(|_| !forced)) {
            return Ok(Some(end));
        }
        if rules.is_complete()? {
            return Ok(Some((Finish::Stop, None)));
        }
        Ok(self.sink.is_full().then_some((Finish::Length, None)))
    }

    /// Up to `most` tokens by the backend's own loop, with its argmax or drawn by it. None at all where it does not draw.
    fn stretch(&mut self, most: usize, draw: Option<Draw<'_>>) -> Result<Option<End>, EngineError> {
        let Rounds { backend, sequence, sink, speculation, .. } = self;
        let most = most.min(sink.limit - sink.timings.tokens);
        let Some(&last) = sink.history.last() else { return Ok(Some((Finish::Length, None))) };
        let mut end = None;
        let (started, before, outside) = (Instant::now(), sink.timings.tokens, sink.outside);
        let stops = sink.stops;
        let mut emitted = false;
        let mut emit = |id| {
            emitted = true;
            sink.timings.decode_steps += usize::from(sink.first.is_some());
            sink.picked();
            end = if sink.is_cancelled() {
                Some((Finish::Cancelled, None))
            } else if stops.contains(&id) {
                Some((Finish::Stop, Some(id)))
            } else {
                sink.emit(id, None)
            };
            end.is_none()
        };
        let decoded = match draw {
            None => sequence.decode(*backend, last, most, stops, &mut emit),
            Some(draw) => sequence.decode_drawn(*backend, last, most, stops, &draw, &mut emit).map(|_| ()),
        };
        let time = started.elapsed().saturating_sub(sink.outside - outside);
        speculation.stepped(time, sink.timings.tokens - before);
        decoded?;
        self.from_hidden |= emitted;
        Ok(end.or(self.sink.is_full().then_some((Finish::Length, None))))
    }
}
