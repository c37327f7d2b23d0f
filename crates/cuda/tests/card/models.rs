//! The models the tests run, each made once a process, and short names for what every test does.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_convert::{SynthOptions, synth};
use rawloop_cuda::{CudaBackend, CudaOptions, KvFormat, Trial};
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
    let path = Path::new("../../models/tiny/tiny.rlp");
    Fixture::over(Pack::from_vec(std::fs::read(path).unwrap(), "the shipped model").unwrap())
});
/// E4B's pattern: two KV heads, 2-bit per-layer embeddings, a drafter with the clustered head.
pub static TINY_E4B: LazyLock<Fixture> = LazyLock::new(|| Fixture::synthetic("tiny-e4b", true));
/// E2B's 35 layers, a drafter with the whole head.
pub static NARROW_E2B: LazyLock<Fixture> = LazyLock::new(|| Fixture::synthetic("narrow-e2b", false));

/// Heads as wide as those of `WIDE_HEADS`, and a stream of 768 values, which are several chunks of a projection's inputs.
pub static WIDE_STREAM: LazyLock<Fixture> = LazyLock::new(|| Fixture::wide_heads("hidden_size", 128, 768));

/// A stream that large tiles of a projection know, and per-layer inputs as wide as E2B's, which are several of such tiles.
pub static WIDE_INPUTS: LazyLock<Fixture> = LazyLock::new(|| {
    Fixture::edited(&[
        ("\"hidden_size\": 128", "\"hidden_size\": 1024"),
        ("\"hidden_size_per_layer_input\": 32", "\"hidden_size_per_layer_input\": 256"),
    ])
});

/// Heads as wide as E2B's, 256 and 512, in four layers of little else.
pub static WIDE_HEADS: LazyLock<Fixture> =
    LazyLock::new(|| Fixture::synthetic("tests/card/wide_heads.json", false));

/// The same with 85 pairs in full layers, so that no row of the rope would be a multiple of 16 bytes by itself.
pub static ODD_PAIRS: LazyLock<Fixture> = LazyLock::new(|| {
    Fixture::edited(&[("\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 0.3333")])
});

/// The same as `WIDE_HEADS` with E2B's window.
pub static WIDE_WINDOW: LazyLock<Fixture> = LazyLock::new(|| Fixture::wide_heads("sliding_window", 64, 512));

/// E2B's FFN behind its stream of 1,536: 6,144 values at 4 bits in the first two layers, 12,288 at 2 bits in the others. Little else.
pub static WIDE_FFN: LazyLock<Fixture> = LazyLock::new(|| {
    Fixture::edited(&[
        ("\"hidden_size\": 128", "\"hidden_size\": 1536"),
        ("\"intermediate_size\": 256", "\"intermediate_size\": 6144"),
        ("\"head_dim\": 256", "\"head_dim\": 64"),
        ("\"global_head_dim\": 512", "\"global_head_dim\": 64"),
        (
            r#""language_model\\.layers\\.\\d+\\.mlp\\.": {"#,
            r#""language_model\\.layers\\.[23]\\.mlp\\.": { "num_bits": 2 },
               "language_model\\.layers\\.[01]\\.mlp\\.": {"#,
        ),
    ])
});

/// E2B's stream of 1,536 values, for which entries have a way of their own, and its heads of 256 and 512, the latter in a full layer that a prompt attends through; one of each kind owns
/// K/V, and the last layer has its FFN at 2 bits. Little else.
pub static WIDE_ENTRIES: LazyLock<Fixture> = LazyLock::new(|| {
    Fixture::of_wide_entries(&[
        ("\"num_hidden_layers\": 4", "\"num_hidden_layers\": 3"),
        ("\"num_kv_shared_layers\": 2", "\"num_kv_shared_layers\": 1"),
        ("\"sliding_attention\",\n      \"full_attention\",\n", "\"full_attention\",\n"),
    ])
});

/// The same with another sliding layer, the first one, as in E2B, with FFNs of whole blocks: every kernel that has constants for E2B's shape.
pub static PLAIN_LAYERS: LazyLock<Fixture> = LazyLock::new(|| {
    Fixture::of_wide_entries(&[("\"intermediate_size\": 256", "\"intermediate_size\": 384")])
});

/// Keys of 8 bits beside queries and values of 4.
pub static WIDE_KEYS: LazyLock<Fixture> = LazyLock::new(|| {
    Fixture::edited(&[(
        r#""language_model\\.layers\\.\\d+\\.self_attn\\.": {"#,
        r#""language_model\\.layers\\.\\d+\\.self_attn\\.k": { "num_bits": 8 },
           "language_model\\.layers\\.\\d+\\.self_attn\\.[qvo]": {"#,
    )])
});

static CARD: Mutex<()> = Mutex::new(());

/// Whether there is a card; tests take turns on it.
pub fn card() -> Option<MutexGuard<'static, ()>> {
    match rawloop_cuda::report() {
        Ok(_) => Some(CARD.lock().unwrap_or_else(|poisoned| poisoned.into_inner())),
        Err(why) => {
            println!("nothing to test on: {why}");
            None
        }
    }
}

/// Where kernels are that have the ways as well: `ways.fatbin` of `scripts/build-cuda-trials.sh`, for tests on a card. The emulated one has them.
const WAYS: &str = "RAWLOOP_CUDA_WAYS";

/// Whether there is a card that runs ways too, which do not ship.
pub fn card_with_ways() -> Option<MutexGuard<'static, ()>> {
    let card = card()?;
    if emulated() || std::env::var_os(WAYS).is_some() {
        return Some(card);
    }
    println!("nothing to test on: {WAYS} names no kernels with ways that do not ship");
    None
}

/// Whether the card is the emulated one, which has all kernels.
pub fn emulated() -> bool {
    rawloop_cuda::report().is_ok_and(|report| report.name == "emulated card")
}

/// What is shipped, with kernels that have the ways.
pub fn a_trial() -> Trial {
    Trial { kernels: std::env::var_os(WAYS).map(Into::into), ..Trial::default() }
}

/// What a card below sm_90 and one with 190 KB of shared memory a block run, both with few multiprocessors.
pub fn smaller_cards() -> [Trial; 2] {
    let of = |kilobytes: usize, no_clusters| Trial {
        shared: Some(kilobytes << 10),
        multiprocessors: Some(4),
        no_clusters,
        ..Trial::default()
    };
    [of(163, true), of(190, false)]
}

impl Fixture {
    fn synthetic(shape: &str, ordered: bool) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.rlp");
        let options = SynthOptions { assistant: true, ordered, ..SynthOptions::pack(shape, path.clone()) };
        synth(&options, &mut ()).unwrap();
        Fixture::over(Pack::from_vec(std::fs::read(&path).unwrap(), "the test's model").unwrap())
    }

    /// The model of `WIDE_HEADS` with another value of one field.
    pub fn wide_heads(field: &str, from: usize, to: usize) -> Fixture {
        Fixture::edited(&[(&format!("\"{field}\": {from}"), &format!("\"{field}\": {to}"))])
    }

    /// A model whose config.json is that of `WIDE_HEADS` with other pieces of text.
    fn edited(pieces: &[(&str, &str)]) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wide.json");
        let mut text = std::fs::read_to_string("tests/card/wide_heads.json").unwrap();
        for (old, new) in pieces {
            assert!(text.contains(old), "{old}");
            text = text.replace(old, new);
        }
        std::fs::write(&path, text).unwrap();
        Fixture::synthetic(path.to_str().unwrap(), false)
    }

    fn of_wide_entries(pieces: &[(&str, &str)]) -> Fixture {
        let all = [
            ("\"vocab_size\": 1024", "\"vocab_size\": 512"),
            ("\"vocab_size_per_layer_input\": 1024", "\"vocab_size_per_layer_input\": 512"),
            ("\"hidden_size\": 128", "\"hidden_size\": 1536"),
            (
                r#""language_model\\.layers\\.\\d+\\.mlp\\.": {"#,
                r#""language_model\\.layers\\.[23]\\.mlp\\.": { "num_bits": 2 },
               "language_model\\.layers\\.[01]\\.mlp\\.": {"#,
            ),
        ];
        Fixture::edited(&[&all, pieces].concat())
    }

    fn over(pack: Pack) -> Fixture {
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

    /// The backend under test.
    pub fn cuda(&self, kv: KvFormat) -> CudaBackend {
        let options = CudaOptions { kv, context: CONTEXT, speculates: true, ..CudaOptions::default() };
        CudaBackend::open(&self.pack, &options).unwrap()
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

/// A run of `count` tokens behind a prompt, and a step of three behind it: the ids of both.
pub fn run_and_step(
    backend: &mut dyn Backend,
    prompt: &[u32],
    count: usize,
) -> (SequenceId, Vec<u32>, Vec<u32>) {
    let sequence = backend.create().unwrap();
    step(backend, sequence, prompt, Wanted::Nothing);
    let mut ids = Vec::new();
    let mut emit = |id| {
        ids.push(id);
        true
    };
    backend.decode(sequence, 3, count, &[], &mut emit).unwrap();
    let after = step(backend, sequence, &[4, 5, 6], Wanted::Picks).picks;
    (sequence, ids, after)
}

/// The bits of floats, so that only equal bytes are equal.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Panics where a list has no kernel whose name begins so: what cannot run one way runs another, with the same results.
pub fn assert_runs(kernels: &[&str], wanted: &str, what: &str) {
    assert!(kernels.iter().any(|name| name.starts_with(wanted)), "{what}: no {wanted} in {kernels:?}");
}

/// Whether an FFN is one kernel, where the card has clusters and room for it.
pub fn ffn_is_one(fixture: &Fixture, trial: &Trial) -> bool {
    let short = fixture.pack.geometry().hidden <= 1536;
    short && !trial.ffn_apart && !trial.ple_apart && !trial.no_clusters
}

/// Panics where the kernels of a token at `position` are not those that `trial` leaves; cards with less shared memory run what they have room for.
pub fn assert_token_ways(fixture: &Fixture, backend: &mut CudaBackend, trial: &Trial, position: usize) {
    let kernels = backend.kernels(position, 1).unwrap();
    let runs = |wanted: &str| kernels.iter().any(|name| name.starts_with(wanted));
    let long = trial.long_always.is_some() || position >= 512;
    let mut found = vec![("merge_long", runs("merge_long")), ("attend_many", runs("attend_many"))];
    let mut expected = vec![("merge_long", long), ("attend_many", long)];
    if trial.shared.is_none() || trial.no_clusters {
        found.extend(["layer_ffn", "layer_attention"].map(|name| (name, runs(name))));
        let at_once = !trial.attention_apart && !trial.no_clusters;
        expected.extend([("layer_ffn", ffn_is_one(fixture, trial)), ("layer_attention", at_once)]);
    }
    assert_eq!(found, expected, "a token at {position}, {trial:?}: {kernels:?}");
}

/// Panics where a layer's kernels of a token at `position` are not those that have constants for E2B's shape, each of them at least once, or where a scale has no inverse, without which none of
/// them would run.
pub fn assert_plain_layers(fixture: &Fixture, backend: &mut CudaBackend, position: usize) {
    let geometry = fixture.pack.geometry();
    assert_eq!(geometry.hidden, 1536);
    let kernels = backend.kernels(position, 1).unwrap();
    // Forms with constants for E2B's shape, all of them.
    let attention = ["layer_attention_first", "layer_attention_512", "layer_attention_256"];
    for wanted in [&attention[..], &["layer_ffn_4", "layer_ffn_2"], &["per_layer_plain"]] {
        let counts: Vec<usize> =
            wanted.iter().map(|name| kernels.iter().filter(|k| *k == name).count()).collect();
        assert!(counts.iter().all(|&count| count > 0), "{wanted:?} in {kernels:?}");
        assert_eq!(counts.iter().sum::<usize>(), geometry.layers.len(), "{wanted:?} in {kernels:?}");
    }
    let linears = ["q", "o", "gate", "down", "ple_gate", "ple_projection"];
    for (layer, kind) in (0..geometry.layers.len()).flat_map(|layer| linears.map(|kind| (layer, kind))) {
        let scales = fixture.pack.f32(&format!("layers.{layer}.{kind}.activation_scales")).unwrap();
        assert!(scales.iter().all(|scale| (1e-18..1e18).contains(scale)), "{kind} of {layer}: {scales:?}");
    }
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
