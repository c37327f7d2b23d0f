//! The thread that owns the backend.
//!
//! It takes what is in the line, does at once what is no step (a new sequence, a fork, a rewind, drafts), and joins the steps.
//! Before a step it waits for those that took part in the last one, because each of them is about to ask for its next
//! token and a step that leaves without it takes nearly as long; the wait is a quarter of the last step at most, so somebody who
//! takes longer (log-probabilities over the whole vocabulary) costs the others that wait once and joins a later step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rawloop_engine::backend::{Backend, BackendError};

use super::BatchOptions;
use super::line::{Ask, Call, Line, Reply, WAKING};
use super::step::{Joined, Steps, Waiting};

/// Bounds of the wait for those that took part.
const SHORTEST: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(10);

/// Work of a batch so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCounters {
    /// Steps of the backend.
    pub steps: u64,
    /// Pieces of work in them: `pieces / steps` sequences a step.
    pub pieces: u64,
    /// Tokens of answers and drafts in them.
    pub columns: u64,
    /// Prompt tokens in them.
    pub prompt_tokens: u64,
    /// Tokens of runs that had the backend to themselves.
    pub alone_tokens: u64,
    /// Time in steps, in microseconds.
    pub busy_micros: u64,
    /// Time in waiting for those that took part, in microseconds.
    pub gather_micros: u64,
}

/// The same, written by the scheduler and read by anybody.
#[derive(Debug, Default)]
pub(super) struct SharedCounters([AtomicU64; 7]);

impl SharedCounters {
    fn add(&self, index: usize, count: u64) {
        self.0[index].fetch_add(count, Ordering::Relaxed);
    }

    pub fn read(&self) -> BatchCounters {
        let [steps, pieces, columns, prompt_tokens, alone_tokens, busy_micros, gather_micros] =
            std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed));
        BatchCounters { steps, pieces, columns, prompt_tokens, alone_tokens, busy_micros, gather_micros }
    }

    fn stepped(&self, joined: Joined, time: Duration) {
        self.add(0, 1);
        self.add(1, joined.sequences as u64);
        self.add(2, joined.columns as u64);
        self.add(3, joined.prompt_tokens as u64);
        self.add(5, time.as_micros() as u64);
    }
}

/// The thread's state.
pub(super) struct Scheduler {
    backend: Box<dyn Backend>,
    line: Arc<Line>,
    options: BatchOptions,
    context: usize,
    calls: Vec<Call>,
    steps: Steps,
    over: Vec<Option<Result<(), BackendError>>>,
    /// Decodes that go on, on their way back behind those that the step had no room for.
    going: Vec<Waiting>,
    /// What the last step took.
    last: Duration,
}

/// Refuses everybody who waits, however the thread ends.
struct Closing(Arc<Line>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Scheduler {
    pub fn new(backend: Box<dyn Backend>, line: Arc<Line>, options: BatchOptions) -> Scheduler {
        let context = backend.info().context;
        let (calls, steps, over, going) = (Vec::new(), Steps::default(), Vec::new(), Vec::new());
        Scheduler { backend, line, options, context, calls, steps, over, going, last: Duration::ZERO }
    }

    pub fn run(mut self) {
        let closing = Closing(Arc::clone(&self.line));
        // A panic is a fault of the backend: it ends the thread, and whoever waits is told.
        let _ = catch_unwind(AssertUnwindSafe(|| while self.round().is_some() {}));
        drop(closing);
        // Before the backend goes, which may take its time: whoever is owed a reply has it then.
        self.steps.waiting.clear();
        self.calls.clear();
    }

    /// One step and what has to be done before it. Nothing where the line is closed.
    fn round(&mut self) -> Option<()> {
        let patience = (!self.steps.waiting.is_empty()).then_some(Duration::ZERO);
        let mut expected = self.line.take(&mut self.calls, patience)?;
        self.sort();
        if self.steps.waiting.is_empty() {
            return Some(());
        }
        let started = Instant::now();
        let patience = (self.last / 4).clamp(SHORTEST, LONGEST);
        if self.last.max(if expected > 0 { patience } else { Duration::ZERO }) >= WAKING
            || self.steps.has_prompt()
        {
            // The token after the one that they have not been woken for may take its time.
            self.steps.waiting.iter().filter_map(|waiting| waiting.owed.desk()).for_each(|desk| desk.wake());
        }
        while expected > 0 {
            let left = patience.saturating_sub(started.elapsed());
            if left.is_zero() {
                self.line.forget();
                break;
            }
            expected = self.line.take(&mut self.calls, Some(left))?;
            self.sort();
        }
        self.line.counters.add(6, started.elapsed().as_micros() as u64);
        if expected == 0 && self.steps.waiting.len() == 1 && self.steps.waiting[0].decode.is_some() {
            self.decode();
            return Some(());
        }
        self.steps.send_away(&self.line);
        if !self.steps.waiting.is_empty() {
            self.step();
        }
        Some(())
    }

    /// Does what is no step, and lets the steps wait.
    fn sort(&mut self) {
        let mut calls = std::mem::take(&mut self.calls);
        for call in calls.drain(..) {
            if call.ask.is_step() {
                self.steps.add(call, self.backend.as_ref(), self.context);
            } else {
                self.serve(call);
            }
        }
        self.calls = calls;
    }

    fn serve(&mut self, call: Call) {
        let backend = &mut self.backend;
        let reply = match call.ask {
            Ask::Create => Reply::Sequence(backend.create()),
            Ask::Fork(sequence) => Reply::Sequence(backend.fork(sequence)),
            Ask::Free(sequence) => {
                backend.free(sequence);
                Reply::Done(Ok(()))
            }
            Ask::Position(sequence) => Reply::Position(backend.position(sequence)),
            Ask::Truncate(sequence, position) => Reply::Done(backend.truncate(sequence, position)),
            Ask::Snapshot(sequence, None) => Reply::Snapshot(backend.snapshot(sequence)),
            Ask::Snapshot(sequence, Some(at)) => Reply::Snapshot(backend.snapshot_at(sequence, at)),
            Ask::Restore(sequence, snapshot) => Reply::Done(backend.restore(sequence, &snapshot)),
            Ask::Draft { sequence, token, depth, mut drafts } => {
                let result = backend.draft(sequence, token, depth, &mut drafts);
                Reply::Draft { result, drafts }
            }
            Ask::KvRow { sequence, layer, position } => Reply::Row(backend.kv_row(sequence, layer, position)),
            // These are sorted out before.
            Ask::Step { .. } | Ask::Decode { .. } => Reply::Closed,
        };
        call.owed.pay(reply);
    }

    /// One step over all that wait.
    fn step(&mut self) {
        let started = Instant::now();
        let joined = self.steps.run(self.backend.as_mut(), &self.options, &mut self.over);
        self.last = started.elapsed();
        self.line.counters.stepped(joined, self.last);
        for over in self.over.drain(..) {
            let Some(mut waiting) = self.steps.waiting.pop_front() else { break };
            match over {
                None => self.steps.waiting.push_back(waiting),
                Some(Ok(())) if waiting.go_on() => self.going.push(waiting),
                Some(result) => {
                    self.line.expect(waiting.owed.desk().into_iter());
                    waiting.reply(result, &mut self.steps.spare);
                }
            }
        }
        for waiting in self.going.drain(..) {
            self.steps.again(waiting, self.backend.as_ref(), self.context);
        }
    }

    /// A run of the only one that is there, until somebody else comes.
    fn decode(&mut self) {
        let Some(waiting) = self.steps.waiting.pop_front() else { return };
        let (Some((limit, stops)), Some(desk)) = (&waiting.decode, waiting.owed.desk()) else { return };
        let started = Instant::now();
        let line = &self.line;
        let mut tokens = 0;
        let mut emit = |token| {
            tokens += 1;
            // In this order: a token that was made is handed out in any case.
            desk.push(token, || line.is_waiting()) && !line.is_waiting()
        };
        let (backend, sequence, token) = (&mut self.backend, waiting.sequence, waiting.token());
        let result = match &waiting.draw {
            None => backend.decode(sequence, token, *limit, stops, &mut emit).map(|()| true),
            Some(draw) => backend.decode_drawn(sequence, token, *limit, stops, &draw.draw(), &mut emit),
        };
        let time = started.elapsed();
        if tokens > 0 {
            self.last = time / tokens;
        }
        self.line.counters.add(4, u64::from(tokens));
        self.line.counters.add(5, time.as_micros() as u64);
        self.line.expect(std::iter::once(desk));
        match result {
            Ok(false) => waiting.refuse(&mut self.steps.spare),
            result => waiting.reply(result.map(drop), &mut self.steps.spare),
        }
    }
}
