//! The counted cost of a step is what the kernels' counters saw.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rawloop_backend::{Backend, StepOutput, Wanted, Work};
use rawloop_convert::{SynthOptions, synth};
use rawloop_cpu::{Cost, CpuBackend, CpuOptions, KvFormat};
use rawloop_pack::Pack;

fn shipped() -> Arc<Pack> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny/tiny.rlp");
    Arc::new(Pack::open(&path).unwrap())
}

fn two_kv_heads() -> Arc<Pack> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.rlp");
    synth(&SynthOptions::pack("tiny-e4b", path.clone()), &mut ()).unwrap();
    Arc::new(Pack::from_vec(std::fs::read(&path).unwrap(), "the test's model").unwrap())
}

/// Runs steps of the given ends and outputs, one sequence, and compares each.
fn check(pack: &Arc<Pack>, kv: KvFormat, threads: usize, steps: &[(usize, Wanted)]) {
    let options = CpuOptions { threads: Some(threads), kv, ..CpuOptions::default() };
    let mut backend = CpuBackend::open(pack.clone(), &options).unwrap();
    let sequence = backend.create().unwrap();
    let mut output = StepOutput::default();
    let mut position = 0;
    for &(end, wanted) in steps {
        let before = backend.counters();
        let tokens: Vec<u32> = (position..end).map(|at| at as u32 % 4000).collect();
        backend.step(&[Work { sequence, tokens: &tokens, wanted }], &mut output).unwrap();
        let after = backend.counters();
        let rows = wanted.rows(tokens.len());
        let (silent, loud): (Range<usize>, Range<usize>) = (position..end - rows, end - rows..end);
        let mut cost = Cost::prefill(pack.geometry(), kv, silent);
        cost += Cost::full(pack.geometry(), kv, loud);
        let total = cost.total();
        let seen = (after.weight_bytes - before.weight_bytes, after.kv_bytes - before.kv_bytes);
        assert_eq!((total.weight_bytes, total.kv_bytes), seen, "{kv:?}, {position}..{end}, {wanted:?}");
        let kinds: u64 = cost.kinds().map(|(_, kind)| kind.bytes()).sum();
        assert_eq!(kinds, total.bytes());
        position = end;
    }
}

#[test]
fn bytes_are_those_that_the_kernels_counted() {
    let steps = [
        (1, Wanted::LastPick),
        (128, Wanted::Nothing), // up to the window of the shipped model, and beyond it
        (129, Wanted::LastPick),
        (777, Wanted::LastPick),
        (778, Wanted::LastLogits),
        (786, Wanted::Picks),
        (856, Wanted::Picks),
        (1700, Wanted::Nothing),
    ];
    for kv in [KvFormat::F32, KvFormat::F16, KvFormat::I8] {
        check(&shipped(), kv, 2, &steps);
    }
    check(&two_kv_heads(), KvFormat::F16, 3, &steps[..6]);
}
