//! The backend as a request sees it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use rawloop_engine::backend::{
    Backend, BackendError, BackendInfo, Draw, SequenceId, Snapshot, StepOutput, Work,
};
use rawloop_spec::TapSink;

use super::BatchOptions;
use super::line::{Ask, Desk, Line, News, OwnedDraw, Reply};

/// A place at the backend for one request after the other. Its handles are for one thread.
pub struct Seat {
    line: Arc<Line>,
    desk: Arc<Desk>,
    info: BackendInfo,
    vocab: usize,
    options: BatchOptions,
}

/// A request that is being answered; until it is dropped others wait for its next step.
pub struct Seated<'a>(&'a Seat);

impl Seat {
    pub(super) fn new(
        line: Arc<Line>,
        desk: Arc<Desk>,
        info: BackendInfo,
        vocab: usize,
        options: BatchOptions,
    ) -> Seat {
        Seat { line, desk, info, vocab, options }
    }

    /// A handle to the backend. Handles of one seat must not be used at the same time.
    pub fn backend(&self) -> SharedBackend {
        SharedBackend {
            line: Arc::clone(&self.line),
            desk: Arc::clone(&self.desk),
            info: self.info.clone(),
            vocab: self.vocab,
            options: self.options,
            tokens: Vec::new(),
            stops: Vec::new(),
            drafts: Vec::new(),
            refused: None,
            one_thread: PhantomData,
        }
    }

    /// Begins a request.
    pub fn sit(&self) -> Seated<'_> {
        self.line.enter();
        Seated(self)
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.0.line.leave(&self.0.desk);
    }
}

/// A handle to the backend. See [`crate::batch`].
pub struct SharedBackend {
    line: Arc<Line>,
    desk: Arc<Desk>,
    info: BackendInfo,
    vocab: usize,
    options: BatchOptions,
    /// Buffers that travel with a call, kept for their memory.
    tokens: Vec<u32>,
    stops: Vec<u32>,
    drafts: Vec<u32>,
    /// How the backend said last that it does not draw, whatever the seed: asking it anew would cost a way to its thread for every token.
    refused: Option<OwnedDraw>,
    /// Two threads that ask through one desk would take each other's replies.
    one_thread: PhantomData<Cell<()>>,
}

/// A decode that is being read. A reader that panics must not leave the scheduler waiting.
struct Reading<'a> {
    desk: &'a Desk,
    over: bool,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.desk.stop();
            self.desk.wait();
        }
    }
}

fn gone() -> BackendError {
    BackendError::Failed("the server is being shut down, or the thread that runs the model has failed".into())
}

impl SharedBackend {
    fn ask(&self, ask: Ask) -> Reply {
        self.line.call(&self.desk, ask);
        self.desk.wait()
    }

    fn sequence(&self, ask: Ask) -> Result<SequenceId, BackendError> {
        if let Reply::Sequence(result) = self.ask(ask) { result } else { Err(gone()) }
    }

    fn told(&self, ask: Ask) -> Result<Snapshot, BackendError> {
        if let Reply::Snapshot(result) = self.ask(ask) { result } else { Err(gone()) }
    }

    fn done(&self, ask: Ask) -> Result<(), BackendError> {
        if let Reply::Done(result) = self.ask(ask) { result } else { Err(gone()) }
    }
}

impl SharedBackend {
    /// One run behind `token`, which ends early where others come. False where the backend does not draw as it is asked to.
    fn run(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        (stops, draw): (&[u32], Option<OwnedDraw>),
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<bool, BackendError> {
        let mut owned = std::mem::take(&mut self.stops);
        owned.clear();
        owned.extend_from_slice(stops);
        self.desk.begin();
        self.line.call(&self.desk, Ask::Decode { sequence, token, limit, stops: owned, draw });
        let mut reading = Reading { desk: &self.desk, over: false };
        let (mut read, mut ended, mut unread) = (false, false, 0);
        let result = loop {
            match self.desk.next(read) {
                News::Token(_) if ended => {
                    read = true;
                    unread += 1;
                }
                News::Token(next) => {
                    read = true;
                    if !emit(next) || stops.contains(&next) {
                        ended = true;
                        self.desk.stop();
                    }
                }
                News::Reply(Reply::Decode { result, stops }) => {
                    self.stops = stops;
                    break result;
                }
                News::Reply(_) => break Err(gone()),
            }
        };
        reading.over = true;
        drop(reading);
        if unread > 0 {
            // What the backend was ahead of the reader.
            let held = self.position(sequence)?;
            self.truncate(sequence, held - unread)?;
        }
        result
    }
}

impl Backend for SharedBackend {
    fn info(&self) -> BackendInfo {
        // Whoever is not alone shares steps, and its prompts go into them in parts: work that has an output goes in as a whole.
        let takes_last_along = self.info.takes_last_along && self.line.present() <= 1;
        BackendInfo { takes_last_along, ..self.info.clone() }
    }

    fn vocab(&self) -> usize {
        self.vocab
    }

    fn create(&mut self) -> Result<SequenceId, BackendError> {
        self.sequence(Ask::Create)
    }

    fn free(&mut self, sequence: SequenceId) {
        // There is nothing to free in a backend that is gone.
        let _ = self.done(Ask::Free(sequence));
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, BackendError> {
        self.sequence(Ask::Fork(sequence))
    }

    fn position(&self, sequence: SequenceId) -> Result<usize, BackendError> {
        if let Reply::Position(result) = self.ask(Ask::Position(sequence)) { result } else { Err(gone()) }
    }

    fn truncate(&mut self, sequence: SequenceId, position: usize) -> Result<(), BackendError> {
        self.done(Ask::Truncate(sequence, position))
    }

    fn snapshot(&self, sequence: SequenceId) -> Result<Snapshot, BackendError> {
        self.told(Ask::Snapshot(sequence, None))
    }

    fn snapshot_at(&self, sequence: SequenceId, position: usize) -> Result<Snapshot, BackendError> {
        self.told(Ask::Snapshot(sequence, Some(position)))
    }

    fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.done(Ask::Restore(sequence, snapshot.clone()))
    }

    fn step(&mut self, work: &[Work<'_>], output: &mut StepOutput) -> Result<(), BackendError> {
        // One piece is what the engine's loop asks for; several would need one reply for all of them.
        let [work] = work else {
            return match work {
                [] => Ok(()),
                _ => Err(BackendError::Failed("a handle steps one sequence at a time".into())),
            };
        };
        let mut tokens = std::mem::take(&mut self.tokens);
        tokens.clear();
        tokens.extend_from_slice(work.tokens);
        let (sequence, wanted) = (work.sequence, work.wanted);
        let ask = Ask::Step { sequence, tokens, wanted, output: std::mem::take(output) };
        let Reply::Step { result, tokens, output: filled } = self.ask(ask) else { return Err(gone()) };
        self.tokens = tokens;
        *output = filled;
        result
    }

    fn decode(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: &[u32],
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), BackendError> {
        let (mut token, mut left, mut ended) = (token, limit, false);
        while left > 0 && !ended {
            let before = left;
            self.run(sequence, token, left, (stops, None), &mut |next| {
                token = next;
                left -= 1;
                ended = !emit(next) || stops.contains(&next);
                !ended
            })?;
            if left == before {
                break;
            }
        }
        Ok(())
    }

    fn decode_drawn(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: &[u32],
        draw: &Draw<'_>,
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<bool, BackendError> {
        // Who is not alone would be sent away.
        if self.line.present() > 1 {
            return Ok(false);
        }
        if limit == 0 {
            return Ok(true);
        }
        if self.refused.as_ref().is_some_and(|refused| refused.is_like(draw)) {
            return Ok(false);
        }
        let drawn = self.run(sequence, token, limit, (stops, Some(OwnedDraw::new(draw))), emit)?;
        self.refused = (!drawn).then(|| OwnedDraw::new(draw));
        Ok(drawn)
    }

    fn wants_drafts(&self) -> bool {
        self.line.present() <= self.options.drafting
    }

    fn draft(
        &mut self,
        sequence: SequenceId,
        token: u32,
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), BackendError> {
        drafts.clear();
        if !self.wants_drafts() && self.info.has_drafter {
            return Ok(());
        }
        let own = std::mem::take(&mut self.drafts);
        let reply = self.ask(Ask::Draft { sequence, token, depth, drafts: own });
        let Reply::Draft { result, drafts: made } = reply else { return Err(gone()) };
        drafts.extend_from_slice(&made);
        self.drafts = made;
        result
    }

    fn step_tapped(&mut self, _: SequenceId, _: &[u32], _: &mut dyn TapSink) -> Result<(), BackendError> {
        Err(BackendError::Failed("stages are shown by a backend that one caller has to itself".into()))
    }

    fn kv_row(
        &self,
        sequence: SequenceId,
        layer: usize,
        position: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), BackendError> {
        let reply = self.ask(Ask::KvRow { sequence, layer, position });
        if let Reply::Row(result) = reply { result } else { Err(gone()) }
    }
}
