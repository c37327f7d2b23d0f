//! Decode runs: the token chain on the card gives the reference's ids and leaves what the trait promises.

use rawloop_backend::{Backend, Wanted};
use rawloop_cuda::KvFormat;

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, assert_same_kv, bits, card, step};

/// Ids of a run, ended by the caller after `enough`.
fn run(
    backend: &mut dyn Backend,
    prompt: &[u32],
    limit: usize,
    stops: &[u32],
    enough: usize,
) -> (rawloop_backend::SequenceId, Vec<u32>) {
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

/// Runs of `most` tokens, of one, until the id at `stop` and until the caller has `enough`.
pub fn same_runs(fixture: &Fixture, kv: KvFormat, most: usize, stop: usize, enough: usize) {
    let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
    let prompt = fixture.tokens(60, 3);
    let (_, free) = run(&mut reference, &prompt, most, &[], usize::MAX);
    // To the limit, to a stop id in the middle, until the caller has enough, past the ring's end.
    let stop = free[stop];
    for (limit, stops, enough) in
        [(1, vec![], 9), (most, vec![], usize::MAX), (most, vec![stop], usize::MAX), (most, vec![], enough)]
    {
        let (a, mine) = run(&mut backend, &prompt, limit, &stops, enough);
        let (b, theirs) = run(&mut reference, &prompt, limit, &stops, enough);
        assert_eq!(mine, theirs, "limit {limit}, stops {stops:?}, enough {enough}");
        assert_same_kv(fixture, (&backend, a), (&reference, b), "after a run");
        // The sequence goes on from there.
        let next = [*mine.last().unwrap()];
        let (x, y) = (
            step(&mut backend, a, &next, Wanted::LastLogits),
            step(&mut reference, b, &next, Wanted::LastLogits),
        );
        assert!(bits(&x.logits) == bits(&y.logits), "a step behind a run");
        backend.free(a);
    }
}

#[test]
fn tiny() {
    let Some(_turn) = card() else { return };
    same_runs(&TINY, KvFormat::F16, 150, 40, 23);
}

#[test]
fn the_pattern_of_e4b() {
    let Some(_turn) = card() else { return };
    same_runs(&TINY_E4B, KvFormat::I8, 150, 40, 23);
}

#[test]
fn the_layers_of_e2b() {
    let Some(_turn) = card() else { return };
    same_runs(&NARROW_E2B, KvFormat::F16, 150, 40, 23);
}
