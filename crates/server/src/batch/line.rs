//! Where calls wait for the scheduler, and replies for their callers.
//!
//! Buffers travel with a call and come back with its reply, so that nothing on the way of a token is allocated twice.
//!
//! Invariant: a desk has at most one call in the line or with the scheduler, and every call gets exactly one reply, also when the
//! scheduler is gone or panics: what is owed to a caller travels as [`Owed`], which pays when it is dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rawloop_engine::backend::{BackendError, Draw, SequenceId, Snapshot, StepOutput, Wanted};

use super::scheduler::SharedCounters;

/// Tokens that a decode may be ahead of its reader: a sequence can be cut back by more than that.
const AHEAD: usize = 16;
/// A reader is woken at most so often while tokens come. To wake one costs as much as a tenth of a step of a small model.
pub(super) const WAKING: Duration = Duration::from_millis(2);

/// How often somebody who waits for a reader looks whether others have come.
const LOOK: Duration = Duration::from_millis(1);

/// What is asked of the backend.
pub(super) enum Ask {
    Step {
        sequence: SequenceId,
        tokens: Vec<u32>,
        wanted: Wanted,
        output: StepOutput,
    },
    Decode {
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: Vec<u32>,
        draw: Option<OwnedDraw>,
    },
    Create,
    Free(SequenceId),
    Fork(SequenceId),
    Position(SequenceId),
    Truncate(SequenceId, usize),
    /// Of an earlier position than the present one where one is given.
    Snapshot(SequenceId, Option<usize>),
    Restore(SequenceId, Snapshot),
    Draft {
        sequence: SequenceId,
        token: u32,
        depth: usize,
        drafts: Vec<u32>,
    },
    KvRow {
        sequence: SequenceId,
        layer: usize,
        position: usize,
    },
}

/// A [`Draw`] that travels.
#[derive(Debug)]
pub(super) struct OwnedDraw {
    draw: Draw<'static>,
    suppress: Vec<u32>,
}

impl OwnedDraw {
    pub fn new(draw: &Draw<'_>) -> OwnedDraw {
        OwnedDraw { suppress: draw.suppress.to_vec(), draw: Draw { suppress: &[], ..*draw } }
    }

    pub fn draw(&self) -> Draw<'_> {
        Draw { suppress: &self.suppress, ..self.draw }
    }

    /// Whether the two differ in nothing but the seed. It is asked for every token, so it owns nothing.
    pub fn is_like(&self, draw: &Draw<'_>) -> bool {
        self.draw() == Draw { seed: self.draw.seed, ..*draw }
    }
}

/// What comes back.
pub(super) enum Reply {
    Step {
        result: Result<(), BackendError>,
        tokens: Vec<u32>,
        output: StepOutput,
    },
    /// False where the backend does not draw as it was asked to.
    Decode {
        result: Result<bool, BackendError>,
        stops: Vec<u32>,
    },
    Sequence(Result<SequenceId, BackendError>),
    Done(Result<(), BackendError>),
    Position(Result<usize, BackendError>),
    Snapshot(Result<Snapshot, BackendError>),
    Draft {
        result: Result<(), BackendError>,
        drafts: Vec<u32>,
    },
    Row(Result<(Vec<u8>, Vec<u8>), BackendError>),
    /// The scheduler is gone.
    Closed,
}

impl Ask {
    /// Whether it joins a step; the others are done at once.
    pub fn is_step(&self) -> bool {
        matches!(self, Ask::Step { .. } | Ask::Decode { .. })
    }
}

/// A call in the line.
pub(super) struct Call {
    pub owed: Owed,
    pub ask: Ask,
}

/// The reply that a caller is owed. Dropped unpaid, it says that there will be none: a panic on the way must leave nobody waiting.
pub(super) struct Owed(Option<Arc<Desk>>);

impl Owed {
    /// What is owed to a desk.
    pub fn to(desk: &Arc<Desk>) -> Owed {
        Owed(Some(Arc::clone(desk)))
    }

    /// Where the caller waits.
    pub fn desk(&self) -> Option<&Arc<Desk>> {
        self.0.as_ref()
    }

    /// Pays.
    pub fn pay(mut self, reply: Reply) {
        if let Some(desk) = self.0.take() {
            desk.reply(reply);
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if let Some(desk) = self.0.take() {
            desk.reply(Reply::Closed);
        }
    }
}

/// Where one caller waits.
#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<DeskState>,
    changed: Condvar,
    /// It took part in a step and is expected back: the line's round in which it is, or 0.
    expected: AtomicU64,
}

#[derive(Default)]
struct DeskState {
    /// Tokens of a decode on its way.
    tokens: VecDeque<u32>,
    /// Tokens that were handed out and not dealt with yet.
    ahead: usize,
    /// The reader of a decode wants no more.
    stopped: bool,
    /// When a token last woke the reader.
    woken: Option<Instant>,
    reply: Option<Reply>,
}

impl DeskState {
    /// Takes a token of a decode. Says whether the reader has to be woken for it; else the next token or the reply will.
    fn take(&mut self, token: u32) -> bool {
        self.tokens.push_back(token);
        self.ahead += 1;
        let wakes = self.ahead >= AHEAD || self.woken.is_none_or(|woken| woken.elapsed() >= WAKING);
        if wakes {
            self.woken = Some(Instant::now());
        }
        wakes
    }
}

/// What a reader of a decode gets.
pub(super) enum News {
    Token(u32),
    Reply(Reply),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code of others runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    fn reply(&self, reply: Reply) {
        lock(&self.state).reply = Some(reply);
        self.changed.notify_all();
    }

    /// Waits for the reply.
    pub fn wait(&self) -> Reply {
        let mut state = lock(&self.state);
        loop {
            if let Some(reply) = state.reply.take() {
                return reply;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Begins a decode: nothing is ahead.
    pub fn begin(&self) {
        let mut state = lock(&self.state);
        state.tokens.clear();
        (state.ahead, state.stopped, state.woken) = (0, false, None);
    }

    /// The next token of a decode, or its reply once all tokens are read. `read` tells that the token before has been dealt with.
    pub fn next(&self, read: bool) -> News {
        let mut state = lock(&self.state);
        if read {
            state.ahead -= 1;
            if state.ahead + 1 == AHEAD {
                self.changed.notify_all();
            }
        }
        loop {
            if let Some(token) = state.tokens.pop_front() {
                return News::Token(token);
            }
            if let Some(reply) = state.reply.take() {
                return News::Reply(reply);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The reader of a decode wants no more.
    pub fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    /// Wakes the reader of a decode where there is a token that it has not been woken for.
    pub fn wake(&self) {
        if !lock(&self.state).tokens.is_empty() {
            self.changed.notify_all();
        }
    }

    /// Hands out a token of a decode that shares its steps, without waiting. False where the decode is to end: its reader wants no
    /// more, or is so far behind that the others would wait for it.
    pub fn offer(&self, token: u32) -> bool {
        let mut state = lock(&self.state);
        if state.take(token) {
            self.changed.notify_all();
        }
        state.ahead < AHEAD && !state.stopped
    }

    /// Hands out a token of a decode, as soon as the reader is not too far behind. False where it wants no more. `others` tells
    /// that somebody else waits, who does not wait for a reader that stands still.
    pub fn push(&self, token: u32, others: impl Fn() -> bool) -> bool {
        let mut state = lock(&self.state);
        state.tokens.push_back(token);
        state.ahead += 1;
        self.changed.notify_all();
        while state.ahead >= AHEAD && !state.stopped && !others() {
            // Others do not announce themselves here.
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.stopped
    }
}

/// What waits for the scheduler.
#[derive(Default)]
pub(super) struct Line {
    state: Mutex<LineState>,
    arrived: Condvar,
    /// Whether somebody waits: looked at between the tokens of a decode.
    waiting: AtomicBool,
    /// Requests that are being answered.
    present: AtomicUsize,
    pub counters: SharedCounters,
}

struct LineState {
    calls: Vec<Call>,
    /// Participants of steps that have not come back.
    expected: usize,
    /// Begins anew when those that are late are given up.
    round: u64,
    closed: bool,
}

impl Default for LineState {
    fn default() -> Self {
        LineState { calls: Vec::new(), expected: 0, round: 1, closed: false }
    }
}

impl LineState {
    /// Whoever sits at a desk has come back, or will not. True where it was expected.
    fn settle(&mut self, desk: &Desk) -> bool {
        let expected = desk.expected.swap(0, Ordering::Relaxed) == self.round;
        self.expected -= usize::from(expected);
        expected
    }
}

impl Line {
    /// Leaves a call.
    pub fn call(&self, desk: &Arc<Desk>, ask: Ask) {
        let call = Call { owed: Owed::to(desk), ask };
        let mut state = lock(&self.state);
        if state.closed {
            return;
        }
        if call.ask.is_step() {
            state.settle(desk);
        }
        state.calls.push(call);
        self.waiting.store(true, Ordering::Relaxed);
        self.arrived.notify_one();
    }

    /// A request begins.
    pub fn enter(&self) {
        self.present.fetch_add(1, Ordering::Relaxed);
    }

    /// A request is over: nobody waits for its next step.
    pub fn leave(&self, desk: &Desk) {
        self.present.fetch_sub(1, Ordering::Relaxed);
        let mut state = lock(&self.state);
        if state.settle(desk) {
            self.arrived.notify_one();
        }
    }

    /// Requests that are being answered.
    pub fn present(&self) -> usize {
        self.present.load(Ordering::Relaxed)
    }

    /// Whether a call waits.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Expects the participants of a step back. Said before they have their replies.
    pub fn expect<'a>(&self, desks: impl Iterator<Item = &'a Arc<Desk>>) {
        let mut state = lock(&self.state);
        for desk in desks {
            let round = state.round;
            state.expected += usize::from(desk.expected.swap(round, Ordering::Relaxed) != round);
        }
    }

    /// Gives up those that are late: each is waited for once and not at every step.
    pub fn forget(&self) {
        let mut state = lock(&self.state);
        state.round += 1;
        state.expected = 0;
    }

    /// Moves all calls to `calls`, waiting for the first one where `patience` is none, else at most so long. Says how many
    /// participants are still expected, or nothing where the line is closed.
    pub fn take(&self, calls: &mut Vec<Call>, patience: Option<Duration>) -> Option<usize> {
        let mut state = lock(&self.state);
        while state.calls.is_empty() && !state.closed {
            match patience {
                None => state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(_) if state.expected == 0 => break,
                Some(patience) => {
                    let waited = self.arrived.wait_timeout(state, patience);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    break;
                }
            }
        }
        if state.closed {
            return None;
        }
        calls.append(&mut state.calls);
        self.waiting.store(false, Ordering::Relaxed);
        Some(state.expected)
    }

    /// Whether everybody is refused.
    pub fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Lets the scheduler end, and refuses everybody from now on.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.calls.clear();
        self.waiting.store(true, Ordering::Relaxed);
        self.arrived.notify_all();
    }
}
