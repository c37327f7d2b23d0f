//! What is being measured changes no result.

use rawloop_backend::{Backend, Wanted};
use rawloop_cuda::{CudaBackend, CudaOptions, KvFormat, Trial};

use crate::models::{CONTEXT, Fixture, TINY, TINY_E4B, assert_same_kv, card, step};

/// A run of `count` tokens and a step behind it, with each of the trials.
pub fn same_trials(fixture: &Fixture, kv: KvFormat, trials: &[Trial], count: usize) {
    let mut reference = fixture.reference(kv);
    let prompt = fixture.tokens(5, 19);
    let run = |backend: &mut dyn Backend| {
        let sequence = backend.create().unwrap();
        step(backend, sequence, &prompt, Wanted::Nothing);
        let mut ids = Vec::new();
        let mut emit = |id| {
            ids.push(id);
            true
        };
        backend.decode(sequence, 3, count, &[], &mut emit).unwrap();
        let after = step(backend, sequence, &[4, 5, 6], Wanted::Picks).picks;
        (sequence, ids, after)
    };
    let (truth, expected, expected_after) = run(&mut reference);
    for trial in trials {
        let options = CudaOptions { kv, context: CONTEXT, trial: trial.clone(), ..CudaOptions::default() };
        let opened = CudaBackend::open(&fixture.pack, &options);
        let refused = opened.as_ref().err().is_some_and(|error| error.to_string().contains("hands_over"));
        if trial.hand_over && refused && rawloop_cuda::report().unwrap().name != "emulated card" {
            println!("the embedded kernels are not those that hand over");
            continue;
        }
        let mut backend = opened.unwrap();
        let (sequence, ids, after) = run(&mut backend);
        assert_eq!((ids, after), (expected.clone(), expected_after.clone()), "{trial:?}");
        assert_same_kv(fixture, (&backend, sequence), (&reference, truth), "a trial");
        // Only a build with clocks writes them; where they are, they are in order.
        for stage in backend.stage_clocks(8).unwrap() {
            assert!(trial.stamps && stage.nanoseconds.is_sorted(), "{stage:?}");
        }
    }
}

pub fn trials() -> Vec<Trial> {
    let of = |whole, hand_over, stamps| Trial { kernels: None, whole, hand_over, stamps };
    vec![of(None, true, true), of(Some(2 << 10), false, false), of(Some(200 << 10), true, false)]
}

#[test]
fn every_trial_is_the_reference() {
    let Some(_turn) = card() else { return };
    same_trials(&TINY, KvFormat::F16, &trials(), 12);
    same_trials(&TINY_E4B, KvFormat::I8, &trials(), 8);
}

#[test]
fn kernels_that_are_not_there_are_named() {
    let Some(_turn) = card() else { return };
    let trial = Trial { kernels: Some("no/such.fatbin".into()), ..Trial::default() };
    let options = CudaOptions { context: CONTEXT, trial, ..CudaOptions::default() };
    let error = CudaBackend::open(&TINY_E4B.pack, &options).err().unwrap();
    assert!(error.to_string().contains("no/such.fatbin"), "{error}");
}
