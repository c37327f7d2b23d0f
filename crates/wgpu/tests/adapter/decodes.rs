//! Decode runs: the token chain on the device gives the reference's ids and leaves what the trait promises.

use rawloop_backend::{Backend, SequenceId, Wanted};
use rawloop_wgpu::KvFormat;

use crate::models::{Fixture, TINY, TINY_E4B, assert_same_kv, bits, quick_adapters, step};

/// Ids of a run, ended by the caller after `enough`.
fn run(
    backend: &mut dyn Backend,
    prompt: &[u32],
    limit: usize,
    stops: &[u32],
    enough: usize,
) -> (SequenceId, Vec<u32>) {
    let sequence = backend.create().unwrap();
    let (last, before) = prompt.split_last().unwrap();
    step(backend, sequence, before, Wanted::Nothing);
    let mut ids = Vec::new();
    let mut emit = |id| {
        ids.push(id);
        ids.len() < enough
    };
    backend.decode(sequence, *last, limit, stops, &mut emit).unwrap();
    (sequence, ids)
}

fn same_runs(fixture: &Fixture, kv: KvFormat, tokens: usize) {
    let (_turn, adapters) = quick_adapters();
    let prompt = fixture.tokens(9, 3);
    let mut reference = fixture.reference(kv);
    let (_, free) = run(&mut reference, &prompt, tokens, &[], usize::MAX);
    let stop = free[tokens / 2];
    for adapter in &adapters {
        let mut backend = fixture.wgpu(adapter, kv);
        // To the limit, to a stop id in the middle, until the caller has enough.
        for (limit, stops, enough) in [
            (1, vec![], 9),
            (tokens, vec![], usize::MAX),
            (tokens, vec![stop], usize::MAX),
            (tokens, vec![], tokens / 3),
        ] {
            let (a, mine) = run(&mut *backend, &prompt, limit, &stops, enough);
            let (b, theirs) = run(&mut reference, &prompt, limit, &stops, enough);
            assert_eq!(mine, theirs, "limit {limit}, stops {stops:?}, enough {enough}");
            assert_same_kv(fixture, (&*backend, a), (&reference, b), "after a run");
            // The sequence goes on from there.
            let next = [*mine.last().unwrap()];
            let (x, y) = (
                step(&mut *backend, a, &next, Wanted::LastLogits),
                step(&mut reference, b, &next, Wanted::LastLogits),
            );
            assert!(bits(&x.logits) == bits(&y.logits), "a step behind a run");
            backend.free(a);
        }
    }
}

#[test]
fn tiny() {
    same_runs(&TINY, KvFormat::F16, 13);
}

#[test]
fn the_pattern_of_e4b() {
    same_runs(&TINY_E4B, KvFormat::I8, 31);
}
