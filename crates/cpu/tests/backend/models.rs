//! The models the tests run, each made once a process, and short names for what every test does.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_convert::{ConvertOptions, SynthOptions, convert, synth};
use rawloop_cpu::{CpuBackend, CpuOptions, KvFormat};
use rawloop_pack::Pack;
use rawloop_ref::{Drafter, Model};
use rawloop_testkit::RefBackend;

/// Positions of every sequence under test.
pub const CONTEXT: usize = 4096;

/// A model under test: the pack and the reference over it.
pub struct Fixture {
    pub pack: Arc<Pack>,
    model: Arc<Model>,
    drafter: Option<Arc<Drafter>>,
}

/// The trained model, with its drafter.
pub static TINY: LazyLock<Fixture> = LazyLock::new(|| {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny");
    Fixture::made(|output| {
        let options = ConvertOptions {
            checkpoint: models.join("checkpoint"),
            assistant: Some(models.join("assistant")),
            output,
            ..ConvertOptions::default()
        };
        convert(&options, &mut ()).unwrap();
    })
});

/// E4B's pattern: two KV heads, 2-bit per-layer embeddings, a drafter with the clustered head.
pub static TINY_E4B: LazyLock<Fixture> = LazyLock::new(|| Fixture::synthetic("tiny-e4b", true));

/// E2B's 35 layers, a drafter with the whole head.
pub static NARROW_E2B: LazyLock<Fixture> = LazyLock::new(|| Fixture::synthetic("narrow-e2b", false));

impl Fixture {
    fn synthetic(shape: &str, ordered: bool) -> Fixture {
        Fixture::made(|output| {
            let options = SynthOptions { assistant: true, ordered, ..SynthOptions::pack(shape, output) };
            synth(&options, &mut ()).unwrap();
        })
    }

    /// Reads the pack into memory, so that no file outlives this call.
    fn made(make: impl FnOnce(std::path::PathBuf)) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.rlp");
        make(path.clone());
        let pack = Pack::from_vec(std::fs::read(&path).unwrap(), "the test's model").unwrap();
        let drafter = pack.manifest().drafter.is_some().then(|| Arc::new(Drafter::load(&pack).unwrap()));
        Fixture { model: Arc::new(Model::load(&pack).unwrap()), drafter, pack: Arc::new(pack) }
    }

    /// The reference as a backend.
    pub fn reference(&self, kv: KvFormat) -> RefBackend {
        let kv = match kv {
            KvFormat::F32 => rawloop_ref::KvFormat::F32,
            KvFormat::F16 => rawloop_ref::KvFormat::F16,
            KvFormat::I8 => rawloop_ref::KvFormat::I8,
        };
        RefBackend::from_model(self.model.clone(), self.drafter.clone(), kv, 8192)
    }

    /// The backend under test with the fastest kernels.
    pub fn cpu(&self, threads: usize, kv: KvFormat) -> CpuBackend {
        let options = CpuOptions { threads: Some(threads), kv, context: CONTEXT, ..CpuOptions::default() };
        CpuBackend::open(self.pack.clone(), &options).unwrap()
    }

    /// The backend under test with other kernels.
    pub fn cpu_with(&self, kernels: &str, kv: KvFormat) -> CpuBackend {
        let kernels = Some(kernels.to_string());
        let options = CpuOptions { threads: Some(2), kernels, kv, context: CONTEXT, ..CpuOptions::default() };
        CpuBackend::open(self.pack.clone(), &options).unwrap()
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
