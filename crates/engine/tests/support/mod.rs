//! What the engine's tests share: the shipped model as a pack, and sessions over a scripted backend.

#![allow(dead_code)] // each test file uses a part of it

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use rawloop_convert::{ConvertOptions, Origin, convert};
use rawloop_engine::fake::{FakeBackend, FakeLog, Script};
use rawloop_engine::{Answer, Event, GenerateOptions, Model, Session};
use rawloop_pack::Pack;

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
