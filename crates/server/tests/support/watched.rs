//! A backend without a model whose calls are watched: a watcher may wait in them, count them, or panic.

use rawloop_engine::backend::{Backend, BackendError, BackendInfo, SequenceId, Snapshot, StepOutput, Work};
use rawloop_engine::fake::{FakeBackend, FakeLog, Script};
use rawloop_spec::TapSink;
use rawloop_tokenizer::SpecialTokens;

use super::tiny;

/// What is asked of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Create,
    Fork,
    Step,
    Decode,
    Draft,
}

/// The backend.
pub struct Watched {
    inner: FakeBackend,
    watcher: Box<dyn FnMut(Asked) + Send>,
}

/// Words behind words, in an order that never repeats itself and never ends.
pub fn endless() -> Script {
    let words = tiny().tokenizer().encode(" bird river stone tree house word", SpecialTokens::Text);
    Box::new(move |ids| {
        let mixed = (ids.len() as u64 ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        words[(mixed >> 40) as usize % words.len()]
    })
}

impl Watched {
    /// A backend that follows a script over the shipped model's vocabulary.
    pub fn boxed(
        context: usize,
        script: Script,
        watcher: impl FnMut(Asked) + Send + 'static,
    ) -> (Box<dyn Backend>, FakeLog) {
        let vocab = tiny().pack().geometry().vocab;
        let (inner, log) = FakeBackend::new(vocab, context, 16, script);
        (Box::new(Watched { inner, watcher: Box::new(watcher) }), log)
    }

    /// A backend that panics when something is asked for so many times.
    pub fn panicking(at: Asked, times: usize) -> Box<dyn Backend> {
        let mut left = times;
        let watcher = move |asked| {
            left -= usize::from(asked == at);
            assert!(left > 0, "the test wants a panic in {at:?}");
        };
        Watched::boxed(1 << 20, endless(), watcher).0
    }

    /// A backend whose answers do not end in any time that a test takes: a million tokens, a millisecond each.
    pub fn slow() -> Box<dyn Backend> {
        let (inner, _) = Watched::boxed(1 << 20, endless(), |asked| {
            if matches!(asked, Asked::Step | Asked::Decode) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        inner
    }
}

impl Backend for Watched {
    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn vocab(&self) -> usize {
        self.inner.vocab()
    }

    fn create(&mut self) -> Result<SequenceId, BackendError> {
        (self.watcher)(Asked::Create);
        self.inner.create()
    }

    fn free(&mut self, sequence: SequenceId) {
        self.inner.free(sequence);
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, BackendError> {
        (self.watcher)(Asked::Fork);
        self.inner.fork(sequence)
    }

    fn position(&self, sequence: SequenceId) -> Result<usize, BackendError> {
        self.inner.position(sequence)
    }

    fn truncate(&mut self, sequence: SequenceId, position: usize) -> Result<(), BackendError> {
        self.inner.truncate(sequence, position)
    }

    fn snapshot(&self, sequence: SequenceId) -> Result<Snapshot, BackendError> {
        self.inner.snapshot(sequence)
    }

    fn snapshot_at(&self, sequence: SequenceId, position: usize) -> Result<Snapshot, BackendError> {
        self.inner.snapshot_at(sequence, position)
    }

    fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.inner.restore(sequence, snapshot)
    }

    fn step(&mut self, work: &[Work<'_>], output: &mut StepOutput) -> Result<(), BackendError> {
        (self.watcher)(Asked::Step);
        self.inner.step(work, output)
    }

    fn decode(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: &[u32],
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), BackendError> {
        let watcher = &mut self.watcher;
        self.inner.decode(sequence, token, limit, stops, &mut |next| {
            watcher(Asked::Decode);
            emit(next)
        })
    }

    fn draft(
        &mut self,
        sequence: SequenceId,
        token: u32,
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), BackendError> {
        (self.watcher)(Asked::Draft);
        self.inner.draft(sequence, token, depth, drafts)
    }

    fn step_tapped(
        &mut self,
        sequence: SequenceId,
        tokens: &[u32],
        taps: &mut dyn TapSink,
    ) -> Result<(), BackendError> {
        self.inner.step_tapped(sequence, tokens, taps)
    }

    fn kv_row(
        &self,
        sequence: SequenceId,
        layer: usize,
        position: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), BackendError> {
        self.inner.kv_row(sequence, layer, position)
    }
}
