//! Runs that the card draws are those that the engine draws from the reference's logits, with the same seed.

use rawloop_backend::{Backend, Draw, Wanted};
use rawloop_cuda::KvFormat;
use rawloop_engine::SamplingOptions;
use rawloop_engine::sample::Sampler;

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, assert_same_kv, bits, card, step};

/// What the engine would pick, token after token, behind a prompt of `length`.
fn expected(
    fixture: &Fixture,
    backend: &mut dyn Backend,
    prompt: &[u32],
    options: &SamplingOptions,
    count: usize,
) -> (rawloop_backend::SequenceId, Vec<u32>) {
    let (vocab, cap) = (backend.vocab(), fixture.pack.geometry().soft_cap);
    let mut sampler = Sampler::new(options.clone(), vocab, cap).unwrap();
    let sequence = backend.create().unwrap();
    let (last, before) = prompt.split_last().unwrap();
    step(backend, sequence, before, Wanted::Nothing);
    let (mut ids, mut token) = (Vec::new(), *last);
    while ids.len() < count {
        let mut logits = step(backend, sequence, &[token], Wanted::LastLogits).logits;
        token = sampler.pick(&mut logits, prompt.len() + ids.len(), None).unwrap();
        ids.push(token);
    }
    (sequence, ids)
}

/// Runs of `count` tokens with each of the options.
pub fn same_draws(fixture: &Fixture, kv: KvFormat, options: &[SamplingOptions], count: usize) {
    let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
    let prompt = fixture.tokens(6, 17);
    for options in options {
        let (theirs, expected) = expected(fixture, &mut reference, &prompt, options, count);
        let mine = backend.create().unwrap();
        let (last, before) = prompt.split_last().unwrap();
        step(&mut backend, mine, before, Wanted::Nothing);
        let mut ids = Vec::new();
        let mut emit = |id| {
            ids.push(id);
            true
        };
        let draw = options.draw().unwrap();
        assert!(backend.decode_drawn(mine, *last, count, &[], &draw, &mut emit).unwrap());
        assert_eq!(ids, expected, "{options:?}");
        assert_same_kv(fixture, (&backend, mine), (&reference, theirs), "drawn");
    }
}

/// Options that keep few and many candidates, with every filter.
pub fn options() -> Vec<SamplingOptions> {
    let of = |temperature, top_k, top_p, min_p, seed| SamplingOptions {
        temperature,
        top_k,
        top_p,
        min_p,
        seed,
        ..SamplingOptions::greedy()
    };
    let mut all = vec![
        of(1.0, 64, 0.95, 0.0, 1),
        of(0.7, 40, 1.0, 0.0, u64::MAX - 3),
        of(2.5, 128, 0.9, 0.05, 77),
        of(0.01, 3, 0.0, 0.0, 5),
        of(30.0, 1, 1.0, 1.0, 6),
    ];
    all[1].suppress = vec![0, 7, 900];
    all
}

#[test]
fn tiny() {
    let Some(_turn) = card() else { return };
    same_draws(&TINY, KvFormat::F16, &options(), 40);
}

#[test]
fn other_models() {
    let Some(_turn) = card() else { return };
    same_draws(&TINY_E4B, KvFormat::I8, &options(), 30);
    same_draws(&NARROW_E2B, KvFormat::F32, &options()[..2], 20);
}

#[test]
fn a_stop_ends_a_drawn_run_and_the_sequence_goes_on() {
    let Some(_turn) = card() else { return };
    let fixture = &TINY;
    let (mut backend, mut reference) = (fixture.cuda(KvFormat::F16), fixture.reference(KvFormat::F16));
    let (prompt, options) = (fixture.tokens(6, 18), &options()[0]);
    let (_, free) = expected(fixture, &mut reference, &prompt, options, 9);
    let stops = [free[4]];
    let cut = free.iter().position(|id| *id == stops[0]).unwrap() + 1;
    let sequence = backend.create().unwrap();
    let (last, before) = prompt.split_last().unwrap();
    step(&mut backend, sequence, before, Wanted::Nothing);
    let mut ids = Vec::new();
    let mut emit = |id| {
        ids.push(id);
        true
    };
    let draw = options.draw().unwrap();
    assert!(backend.decode_drawn(sequence, *last, 9, &stops, &draw, &mut emit).unwrap());
    assert_eq!(ids, free[..cut]);
    let truth = reference.create().unwrap();
    step(&mut reference, truth, &prompt, Wanted::Nothing);
    step(&mut reference, truth, &ids[..cut - 1], Wanted::Nothing);
    let (x, y) = (
        step(&mut backend, sequence, &stops, Wanted::LastLogits),
        step(&mut reference, truth, &stops, Wanted::LastLogits),
    );
    assert!(bits(&x.logits) == bits(&y.logits), "a step behind a run");
}

#[test]
fn a_draw_that_the_card_does_not_make_does_nothing() {
    let Some(_turn) = card() else { return };
    let fixture = &TINY_E4B;
    let mut backend = fixture.cuda(KvFormat::F16);
    let sequence = backend.create().unwrap();
    step(&mut backend, sequence, &[1, 2, 3], Wanted::Nothing);
    let draw = Draw { temperature: 1.0, top_k: 0, top_p: 0.9, min_p: 0.0, seed: 1, suppress: &[] };
    let mut emit = |_| panic!("nothing is drawn");
    assert_eq!(backend.decode_drawn(sequence, 4, 5, &[], &draw, &mut emit), Ok(false));
    assert_eq!(backend.position(sequence), Ok(3));
    // One that it does make never picks what is suppressed.
    let all: Vec<u32> = (0..16).collect();
    let draw = Draw { top_k: 5, suppress: &all, ..draw };
    let mut ids = Vec::new();
    let mut emit = |id| {
        ids.push(id);
        ids.len() < 2
    };
    assert_eq!(backend.decode_drawn(sequence, 4, 5, &[], &draw, &mut emit), Ok(true));
    assert!(ids.len() == 2 && ids.iter().all(|id| !all.contains(id)));
}
