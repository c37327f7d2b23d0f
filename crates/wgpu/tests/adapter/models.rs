//! The models the tests run, each made once a process, and short names for what every test does.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_convert::{SynthOptions, synth};
use rawloop_pack::Pack;
use rawloop_ref::Model;
use rawloop_testkit::RefBackend;
use rawloop_wgpu::{Fold, KvFormat, WgpuBackend, WgpuOptions};

/// Positions of every sequence under test.
pub const CONTEXT: usize = 1024;

/// A model under test: the pack and the reference over it.
pub struct Fixture {
    pub pack: Arc<Pack>,
    model: Arc<Model>,
}

/// The trained model.
pub static TINY: LazyLock<Fixture> = LazyLock::new(|| {
    let path = Path::new("../../models/tiny/tiny.rlp");
    Fixture::over(Pack::from_vec(std::fs::read(path).unwrap(), "the shipped model").unwrap())
});
/// E4B's pattern: two KV heads, 2-bit per-layer embeddings.
pub static TINY_E4B: LazyLock<Fixture> = LazyLock::new(|| Fixture::synthetic("tiny-e4b"));
/// E2B's 35 layers.
pub static NARROW_E2B: LazyLock<Fixture> = LazyLock::new(|| Fixture::synthetic("narrow-e2b"));

static TURN: Mutex<()> = Mutex::new(());
static KEPT: Mutex<Vec<(Key, WgpuBackend)>> = Mutex::new(Vec::new());

/// Label of the pack, adapter, format.
type Key = (String, String, KvFormat);

/// A backend that goes back when its test is over: a software adapter takes longer to make kernels than to run them.
pub struct Lent {
    key: Key,
    backend: Option<WgpuBackend>,
}

impl Deref for Lent {
    type Target = WgpuBackend;

    fn deref(&self) -> &WgpuBackend {
        self.backend.as_ref().unwrap()
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut WgpuBackend {
        self.backend.as_mut().unwrap()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (false, Some(backend)) = (std::thread::panicking(), self.backend.take()) {
            KEPT.lock().unwrap().push((self.key.clone(), backend));
        }
    }
}

/// The adapters to test on, by number; tests take turns. Says so where there is none.
pub fn adapters() -> (MutexGuard<'static, ()>, Vec<String>) {
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let found = rawloop_wgpu::adapters();
    if found.is_empty() {
        println!("nothing to test on: there is no adapter");
    }
    found.iter().enumerate().for_each(|(index, adapter)| println!("adapter {index}: {}", adapter.name));
    (turn, (0..found.len()).map(|index| index.to_string()).collect())
}

/// As [`adapters`], without those that take a minute for what others do in a second, where there are others.
pub fn quick_adapters() -> (MutexGuard<'static, ()>, Vec<String>) {
    let (turn, mut all) = adapters();
    let names = rawloop_wgpu::adapters();
    let slow =
        |index: &String| index.parse::<usize>().is_ok_and(|index| names[index].name.contains("SwiftShader"));
    if !all.iter().all(slow) {
        all.retain(|index| !slow(index));
    }
    (turn, all)
}

impl Fixture {
    fn synthetic(shape: &str) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.rlp");
        synth(&SynthOptions::pack(shape, path.clone()), &mut ()).unwrap();
        Fixture::over(Pack::from_vec(std::fs::read(&path).unwrap(), shape).unwrap())
    }

    fn over(pack: Pack) -> Fixture {
        Fixture { model: Arc::new(Model::load(&pack).unwrap()), pack: Arc::new(pack) }
    }

    /// The reference as a backend.
    pub fn reference(&self, kv: KvFormat) -> RefBackend {
        let kv = match kv {
            KvFormat::F32 => rawloop_ref::KvFormat::F32,
            KvFormat::F16 => rawloop_ref::KvFormat::F16,
            KvFormat::I8 => rawloop_ref::KvFormat::I8,
        };
        RefBackend::from_model(self.model.clone(), None, kv, 8192)
    }

    /// The backend under test on an adapter, with every fold, also where the adapter's own choice would be another.
    pub fn wgpu(&self, adapter: &str, kv: KvFormat) -> Lent {
        let key = (self.pack.label().to_string(), adapter.to_string(), kv);
        let mut kept = KEPT.lock().unwrap();
        let backend = match kept.iter().position(|entry| entry.0 == key) {
            Some(index) => kept.swap_remove(index).1,
            None => {
                let adapter = Some(adapter.to_string());
                let fold = Some(Fold::ALL);
                let options = WgpuOptions { adapter, kv, fold, context: CONTEXT, ..WgpuOptions::default() };
                WgpuBackend::open(self.pack.clone(), &options).unwrap()
            }
        };
        Lent { key, backend: Some(backend) }
    }

    /// `count` tokens that depend on `seed` alone.
    pub fn tokens(&self, count: usize, seed: u64) -> Vec<u32> {
        let vocab = self.pack.geometry().vocab as u64;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % vocab) as u32
        };
        (0..count).map(|_| next()).collect()
    }
}

/// One step of one sequence.
pub fn step(backend: &mut dyn Backend, sequence: SequenceId, tokens: &[u32], wanted: Wanted) -> StepOutput {
    let mut output = StepOutput::default();
    backend.step(&[Work { sequence, tokens, wanted }], &mut output).unwrap();
    output
}

/// The bits of floats, so that only equal bytes are equal.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Panics where two sequences do not hold the same K/V.
pub fn assert_same_kv(
    fixture: &Fixture,
    a: (&dyn Backend, SequenceId),
    b: (&dyn Backend, SequenceId),
    what: &str,
) {
    let difference = rawloop_testkit::conformance::same_kv(fixture.pack.geometry(), a, b).unwrap();
    assert_eq!(difference, None, "{what}");
}
