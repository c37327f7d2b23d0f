//! Verification: picks of several tokens in one step are those of one step each, whatever prefix is kept afterwards.

use rawloop_backend::{Backend, Wanted};
use rawloop_cpu::KvFormat;

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, assert_same_kv, step};

/// Tokens verified in one step.
const WIDTH: usize = 8;

/// Behind prompts of these lengths: in the first block, across the edge of a window, past a ring.
fn every_prefix_can_be_kept(fixture: &Fixture, prompts: &[usize]) {
    for &length in prompts {
        let prompt = fixture.tokens(length, 41);
        let columns = fixture.tokens(WIDTH, 42);
        let after = fixture.tokens(3, 43);
        let mut one_by_one = fixture.cpu(1, KvFormat::F16);
        let truth = one_by_one.create().unwrap();
        step(&mut one_by_one, truth, &prompt, Wanted::Nothing);
        let mut picks = Vec::new();
        let mut backend = fixture.cpu(2, KvFormat::F16);
        let sequence = backend.create().unwrap();
        step(&mut backend, sequence, &prompt, Wanted::Nothing);
        for kept in 1..=WIDTH {
            picks.extend(step(&mut one_by_one, truth, &columns[kept - 1..kept], Wanted::Picks).picks);
            // All columns in one step, then back to a prefix, then on.
            let verified = step(&mut backend, sequence, &columns, Wanted::Picks).picks;
            assert_eq!(verified[..kept], picks, "{length} + {kept}");
            backend.truncate(sequence, length + kept).unwrap();
            assert_same_kv(fixture, (&backend, sequence), (&one_by_one, truth), "a kept prefix");
            let on = one_by_one.fork(truth).unwrap();
            let expected = step(&mut one_by_one, on, &after, Wanted::Picks).picks;
            assert_eq!(step(&mut backend, sequence, &after, Wanted::Picks).picks, expected);
            one_by_one.free(on);
            backend.truncate(sequence, length).unwrap();
        }
    }
}

#[test]
fn tiny() {
    every_prefix_can_be_kept(&TINY, &[3, 124, 186]);
}

#[test]
fn the_pattern_of_e4b() {
    every_prefix_can_be_kept(&TINY_E4B, &[0, 60, 64, 127, 300]);
}

#[test]
fn the_layers_of_e2b() {
    every_prefix_can_be_kept(&NARROW_E2B, &[62, 129]);
}
