//! Every kernel once or twice, with the fewest tokens that reach it: what `scripts/check-cuda.sh` runs on the emulated card. The other files have
//! the same questions with all lengths, formats and models.

use rawloop_backend::{Backend, Wanted};
use rawloop_cuda::KvFormat;
use rawloop_testkit::conformance::first_difference;

use crate::decodes::same_runs;
use crate::drafts::same_drafts;
use crate::draws::{options, same_draws};
use crate::models::{TINY, TINY_E4B, assert_same_kv, bits, card, step};
use crate::steps::{same_last_token_behind_others, same_last_tokens};
use crate::trials::{same_trials, trials};

#[test]
fn short_taps_of_a_few_tokens() {
    let Some(_turn) = card() else { return };
    for (fixture, kv) in [(&*TINY, KvFormat::F16), (&*TINY_E4B, KvFormat::I8)] {
        let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
        let tokens = fixture.tokens(3, 7);
        let difference =
            first_difference(fixture.pack.geometry(), &mut backend, &mut reference, &tokens).unwrap();
        assert!(difference.is_none(), "with {} KV: {}", kv.name(), difference.unwrap());
    }
}

/// A prompt of a pass of its own, one of 9 columns, a verification of 3 and a run.
#[test]
fn short_widths_and_a_run() {
    let Some(_turn) = card() else { return };
    for (fixture, kv) in [(&*TINY_E4B, KvFormat::F32), (&*TINY, KvFormat::F16)] {
        let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
        let (a, b) = (backend.create().unwrap(), reference.create().unwrap());
        let tokens = fixture.tokens(62, 5);
        for (range, wanted) in
            [(0..50, Wanted::Nothing), (50..59, Wanted::LastLogits), (59..62, Wanted::Picks)]
        {
            let x = step(&mut backend, a, &tokens[range.clone()], wanted);
            let y = step(&mut reference, b, &tokens[range], wanted);
            assert_eq!(x.picks, y.picks);
            assert!(bits(&x.logits) == bits(&y.logits));
        }
        let mut ids = [Vec::new(), Vec::new()];
        let both = [(&mut backend as &mut dyn Backend, a), (&mut reference as &mut dyn Backend, b)];
        for ((backend, sequence), ids) in both.into_iter().zip(&mut ids) {
            let mut emit = |id| {
                ids.push(id);
                true
            };
            backend.decode(sequence, 3, 4, &[], &mut emit).unwrap();
        }
        assert_eq!(ids[0], ids[1]);
        assert_same_kv(fixture, (&backend, a), (&reference, b), "all of it");
    }
}

#[test]
fn short_last_tokens() {
    let Some(_turn) = card() else { return };
    same_last_tokens(&TINY, KvFormat::F16, &[49]);
    same_last_tokens(&TINY_E4B, KvFormat::I8, &[48]);
    same_last_token_behind_others(&TINY, KvFormat::F16, &[20, 51]);
}

/// Two graphs of four tokens and one of one; ends within a graph.
#[test]
fn short_runs() {
    let Some(_turn) = card() else { return };
    same_runs(&TINY, KvFormat::F16, 9, 4, 2);
}

#[test]
fn short_drafts() {
    let Some(_turn) = card() else { return };
    same_drafts(&TINY, KvFormat::F16, &[5, 8], 3);
    same_drafts(&TINY_E4B, KvFormat::I8, &[6], 2);
}

#[test]
fn short_draws() {
    let Some(_turn) = card() else { return };
    same_draws(&TINY, KvFormat::F16, &options()[..2], 3);
    same_draws(&TINY_E4B, KvFormat::F16, &options()[2..], 2);
}

#[test]
fn short_trials() {
    let Some(_turn) = card() else { return };
    same_trials(&TINY_E4B, KvFormat::F16, &trials(), 3);
}
