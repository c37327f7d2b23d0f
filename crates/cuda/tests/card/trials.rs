//! What is measured or tested in place of what ships changes no result; nor does what a smaller card runs.

use rawloop_cuda::{CudaBackend, CudaOptions, KvFormat, Trial};

use crate::models::{
    CONTEXT, Fixture, NARROW_E2B, PLAIN_LAYERS, TINY, TINY_E4B, WIDE_ENTRIES, WIDE_FFN, a_trial,
    assert_plain_layers, assert_same_kv, assert_token_ways, card, card_with_ways, ffn_is_one, run_and_step,
    smaller_cards,
};

/// A run of `count` tokens and a step behind it, with each of the trials.
pub fn same_trials(fixture: &Fixture, kv: KvFormat, trials: &[Trial], count: usize) {
    let mut reference = fixture.reference(kv);
    let prompt = fixture.tokens(5, 19);
    let (truth, expected, expected_after) = run_and_step(&mut reference, &prompt, count);
    for trial in trials {
        let options = CudaOptions { kv, context: CONTEXT, trial: trial.clone(), ..CudaOptions::default() };
        let mut backend = CudaBackend::open(&fixture.pack, &options).unwrap();
        assert_token_ways(fixture, &mut backend, trial, 8);
        let (sequence, ids, after) = run_and_step(&mut backend, &prompt, count);
        assert_eq!((ids, after), (expected.clone(), expected_after.clone()), "{trial:?}");
        assert_same_kv(fixture, (&backend, sequence), (&reference, truth), "a trial");
        // Only a build with clocks writes them, which scripts/check-cuda.sh says it is; where they are, they are in order.
        let clocks = backend.stage_clocks(8).unwrap();
        let built = std::env::var_os("RAWLOOP_CLOCKS").is_some();
        assert_eq!(!clocks.is_empty(), built && trial.stamps, "{trial:?}");
        assert!(clocks.iter().all(|stage| stage.nanoseconds.is_sorted()), "{clocks:?}");
        let at_once = clocks.iter().any(|stage| stage.stage == "ffn");
        assert_eq!(at_once, !clocks.is_empty() && ffn_is_one(fixture, trial), "{clocks:?}");
    }
}

pub fn trials() -> Vec<Trial> {
    let stamps = || Trial { stamps: true, ..Trial::default() };
    let apart = || Trial { attention_apart: true, ffn_apart: true, ..Trial::default() };
    let mut trials = vec![
        stamps(),
        Trial { ple_apart: true, ..stamps() },
        Trial { attention_apart: true, ..stamps() },
        Trial { ffn_apart: true, ..stamps() },
        Trial { stamps: true, ..apart() },
        // Weights that come through rings, and all at once.
        Trial { whole: Some(2 << 10), ..apart() },
        Trial { whole: Some(200 << 10), ple_apart: true, ..apart() },
    ];
    trials.extend(smaller_cards());
    trials
}

/// The kernels that have constants for E2B's shape, every one of them.
#[test]
fn short_tokens_of_plain_layers() {
    let Some(_turn) = card() else { return };
    assert_plain_layers(&PLAIN_LAYERS, &mut PLAIN_LAYERS.cuda(KvFormat::F16), 8);
    same_trials(&PLAIN_LAYERS, KvFormat::F16, &[Trial::default()], 3);
}

/// The second order of down is on the card where a kernel reads it, and nowhere else: 110 KB have room for a block of an FFN, but not for the kernel that has to follow it.
#[test]
fn short_second_down_is_where_it_is_read() {
    let Some(_turn) = card() else { return };
    for (shared, reads) in [(None, true), (Some(110 << 10), false)] {
        let [whole, apart] = [false, true].map(|ffn_apart| {
            let trial = Trial { shared, ffn_apart, ..Trial::default() };
            let options = CudaOptions { context: CONTEXT, trial, ..CudaOptions::default() };
            let mut backend = CudaBackend::open(&WIDE_ENTRIES.pack, &options).unwrap();
            let is_one = backend.kernels(8, 1).unwrap().iter().any(|name| name.starts_with("layer_ffn"));
            (is_one, backend.device_bytes())
        });
        assert_eq!((whole.0, apart.0), (reads, false), "{shared:?}");
        assert_eq!(whole.1 > apart.1, reads, "{shared:?}: {whole:?} and {apart:?}");
    }
}

#[test]
fn every_trial_is_the_reference() {
    let Some(_turn) = card() else { return };
    same_trials(&TINY, KvFormat::F16, &trials(), 12);
    same_trials(&TINY_E4B, KvFormat::I8, &trials(), 8);
    same_trials(&NARROW_E2B, KvFormat::F32, &trials()[..4], 4);
}

#[test]
fn an_ffn_as_wide_as_that_of_e2b() {
    let Some(_turn) = card() else { return };
    same_trials(&WIDE_FFN, KvFormat::F16, &trials()[..5], 2);
}

#[test]
fn a_build_for_trials_is_the_reference() {
    let Some(_turn) = card_with_ways() else { return };
    same_trials(&TINY_E4B, KvFormat::F16, &[a_trial()], 3);
}

#[test]
fn kernels_that_are_not_there_are_named() {
    let Some(_turn) = card() else { return };
    let trial = Trial { kernels: Some("no/such.fatbin".into()), ..Trial::default() };
    let options = CudaOptions { context: CONTEXT, trial, ..CudaOptions::default() };
    let error = CudaBackend::open(&TINY_E4B.pack, &options).err().unwrap();
    assert!(error.to_string().contains("no/such.fatbin"), "{error}");
}
