//! What the engine's tests share: the shipped model as a pack, and sessions over a scripted backend.

#![allow(dead_code)] // each test file uses a part of it

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use rawloop_convert::{ConvertOptions, Origin, convert};
use rawloop_engine::backend::{Backend, BackendError, BackendInfo, SequenceId, Snapshot, StepOutput, Work};
use rawloop_engine::fake::{FakeBackend, FakeLog, Script};
use rawloop_engine::{Answer, Event, GenerateOptions, Model, Session};
use rawloop_pack::Pack;
use rawloop_spec::TapSink;

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The shipped model, converted once for the test program.
pub fn tiny() -> Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("tiny.rlp");
        let models = root().join("models/tiny");
        let options = ConvertOptions {
            checkpoint: models.join("checkpoint"),
            assistant: Some(models.join("assistant")),
            output: output.clone(),
            name: Some("tiny".into()),
            origin: Origin::default(),
            cancel: None,
        };
        convert(&options, &mut ()).unwrap();
        let pack = Pack::from_vec(std::fs::read(&output).unwrap(), "tiny.rlp").unwrap();
        Arc::new(Model::open(Arc::new(pack)).unwrap())
    };
    Arc::clone(MODEL.get_or_init(make))
}

/// A session whose tokens follow a script.
pub fn scripted(context: usize, slack: usize, script: Script) -> (Session, FakeLog) {
    let model = tiny();
    let (backend, log) = FakeBackend::new(model.pack().geometry().vocab, context, slack, script);
    (Session::new(model, Box::new(backend)).unwrap(), log)
}

/// An answer that nobody watches.
pub fn answer(session: &mut Session, prompt: &[u32], options: &GenerateOptions) -> Answer {
    let never = AtomicBool::new(false);
    session.generate(prompt, options, &never, &mut |_: Event<'_>| ControlFlow::Continue(())).unwrap()
}

/// A backend that takes the last token of a prompt along, made of one that does not.
///
/// Its snapshots of earlier positions are what a copy of the sequence tells that has gone back there, so they are what a snapshot made in time
/// would have been.
pub struct Along<B>(Mutex<B>);

impl<B: Backend> Along<B> {
    pub fn new(inner: B) -> Along<B> {
        Along(Mutex::new(inner))
    }

    fn inner(&mut self) -> &mut B {
        self.0.get_mut().unwrap()
    }
}

impl<B: Backend> Backend for Along<B> {
    fn info(&self) -> BackendInfo {
        BackendInfo { takes_last_along: true, ..self.0.lock().unwrap().info() }
    }

    fn vocab(&self) -> usize {
        self.0.lock().unwrap().vocab()
    }

    fn create(&mut self) -> Result<SequenceId, BackendError> {
        self.inner().create()
    }

    fn free(&mut self, sequence: SequenceId) {
        self.inner().free(sequence);
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, BackendError> {
        self.inner().fork(sequence)
    }

    fn position(&self, sequence: SequenceId) -> Result<usize, BackendError> {
        self.0.lock().unwrap().position(sequence)
    }

    fn truncate(&mut self, sequence: SequenceId, position: usize) -> Result<(), BackendError> {
        self.inner().truncate(sequence, position)
    }

    fn snapshot(&self, sequence: SequenceId) -> Result<Snapshot, BackendError> {
        self.0.lock().unwrap().snapshot(sequence)
    }

    fn snapshot_at(&self, sequence: SequenceId, position: usize) -> Result<Snapshot, BackendError> {
        let mut inner = self.0.lock().unwrap();
        let copy = inner.fork(sequence)?;
        let told = inner.truncate(copy, position).and_then(|()| inner.snapshot(copy));
        inner.free(copy);
        told
    }

    fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.inner().restore(sequence, snapshot)
    }

    fn step(&mut self, work: &[Work<'_>], output: &mut StepOutput) -> Result<(), BackendError> {
        self.inner().step(work, output)
    }

    fn decode(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: &[u32],
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), BackendError> {
        self.inner().decode(sequence, token, limit, stops, emit)
    }

    fn draft(
        &mut self,
        sequence: SequenceId,
        token: u32,
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), BackendError> {
        self.inner().draft(sequence, token, depth, drafts)
    }

    fn step_tapped(
        &mut self,
        sequence: SequenceId,
        tokens: &[u32],
        taps: &mut dyn TapSink,
    ) -> Result<(), BackendError> {
        self.inner().step_tapped(sequence, tokens, taps)
    }

    fn kv_row(
        &self,
        sequence: SequenceId,
        layer: usize,
        position: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), BackendError> {
        self.0.lock().unwrap().kv_row(sequence, layer, position)
    }
}

/// Splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
