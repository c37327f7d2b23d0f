//! One backend for conversations and operations.
//!
//! A conversation owns its backend, and an operation needs one too. Opening a second would hold the weights of a device
//! twice; so both get a handle on one. The lock is held for a call, which may be a whole run of tokens: sequences are apart from each other
//! in a backend, and its results do not depend on what runs between two calls. Only [`Backend::free`] never waits for it: it runs
//! where Python drops an object, with the interpreter's lock in hand, which the run may want itself. What it cannot free at once
//! the next call frees.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rawloop_backend::{Backend, BackendError, BackendInfo, Draw, SequenceId, Snapshot, StepOutput, Work};
use rawloop_spec::TapSink;

/// A handle on a backend.
#[derive(Clone)]
pub struct SharedBackend {
    backend: Arc<Mutex<Box<dyn Backend>>>,
    /// Sequences that are to be freed.
    left: Arc<Mutex<Vec<SequenceId>>>,
    info: BackendInfo,
    vocab: usize,
}

impl SharedBackend {
    /// The first handle.
    pub fn new(backend: Box<dyn Backend>) -> SharedBackend {
        let (info, vocab) = (backend.info(), backend.vocab());
        SharedBackend { backend: Arc::new(Mutex::new(backend)), left: Arc::default(), info, vocab }
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Backend>> {
        // A backend that panicked reports it at the next step, or has no state to spoil.
        let mut backend = self.backend.lock().unwrap_or_else(PoisonError::into_inner);
        self.left.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|id| backend.free(id));
        backend
    }
}

impl Backend for SharedBackend {
    fn info(&self) -> BackendInfo {
        self.info.clone()
    }

    fn vocab(&self) -> usize {
        self.vocab
    }

    fn create(&mut self) -> Result<SequenceId, BackendError> {
        self.lock().create()
    }

    fn free(&mut self, sequence: SequenceId) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(sequence);
        if let Ok(mut backend) = self.backend.try_lock() {
            self.left
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .drain(..)
                .for_each(|id| backend.free(id));
        }
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, BackendError> {
        self.lock().fork(sequence)
    }

    fn position(&self, sequence: SequenceId) -> Result<usize, BackendError> {
        self.lock().position(sequence)
    }

    fn truncate(&mut self, sequence: SequenceId, position: usize) -> Result<(), BackendError> {
        self.lock().truncate(sequence, position)
    }

    fn snapshot(&self, sequence: SequenceId) -> Result<Snapshot, BackendError> {
        self.lock().snapshot(sequence)
    }

    fn snapshot_at(&self, sequence: SequenceId, position: usize) -> Result<Snapshot, BackendError> {
        self.lock().snapshot_at(sequence, position)
    }

    fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.lock().restore(sequence, snapshot)
    }

    fn step(&mut self, work: &[Work<'_>], output: &mut StepOutput) -> Result<(), BackendError> {
        self.lock().step(work, output)
    }

    fn decode(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: &[u32],
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), BackendError> {
        self.lock().decode(sequence, token, limit, stops, emit)
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
        self.lock().decode_drawn(sequence, token, limit, stops, draw, emit)
    }

    fn wants_drafts(&self) -> bool {
        true // Looked at between tokens, where the lock may be another's for long; no backend below says otherwise.
    }

    fn draft(
        &mut self,
        sequence: SequenceId,
        token: u32,
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), BackendError> {
        self.lock().draft(sequence, token, depth, drafts)
    }

    fn step_tapped(
        &mut self,
        sequence: SequenceId,
        tokens: &[u32],
        taps: &mut dyn TapSink,
    ) -> Result<(), BackendError> {
        self.lock().step_tapped(sequence, tokens, taps)
    }

    fn kv_row(
        &self,
        sequence: SequenceId,
        layer: usize,
        position: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), BackendError> {
        self.lock().kv_row(sequence, layer, position)
    }
}
