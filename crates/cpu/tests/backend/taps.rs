//! Every value of every stage equals the reference's, for every kernel table and every KV format.

use rawloop_backend::{Backend, Wanted};
use rawloop_cpu::KvFormat;
use rawloop_cpu::kernels::Kernels;
use rawloop_testkit::conformance::{Recorder, Tapped, compare};

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, step};

/// One run of the reference, compared with a run of every table.
fn same_taps(fixture: &Fixture, kv: KvFormat, count: usize) {
    let tokens = fixture.tokens(count, 7);
    let record = |backend: &mut dyn Backend| {
        let mut recorder = Recorder::default();
        let sequence = backend.create().unwrap();
        backend.step_tapped(sequence, &tokens, &mut recorder).unwrap();
        recorder.taps
    };
    let truth = record(&mut fixture.reference(kv));
    for kernels in Kernels::available() {
        let taps = record(&mut fixture.cpu_with(kernels.name(), kv));
        let difference = compare(fixture.pack.geometry(), &taps, &truth);
        assert!(difference.is_none(), "{} with {} KV: {}", kernels.name(), kv.name(), difference.unwrap());
    }
}

#[test]
fn tiny_with_f16_past_its_window_and_ring() {
    same_taps(&TINY, KvFormat::F16, 200);
}

#[test]
fn tiny_with_f32_and_i8() {
    same_taps(&TINY, KvFormat::F32, 24);
    same_taps(&TINY, KvFormat::I8, 24);
}

#[test]
fn the_pattern_of_e4b_with_every_format() {
    for kv in [KvFormat::F16, KvFormat::F32, KvFormat::I8] {
        same_taps(&TINY_E4B, kv, 140);
    }
}

#[test]
fn the_layers_of_e2b_with_every_format() {
    for kv in [KvFormat::F16, KvFormat::F32, KvFormat::I8] {
        same_taps(&NARROW_E2B, kv, 70);
    }
}

/// Taps of one more token behind a prompt.
fn taps_behind(fixture: &Fixture, threads: usize, prompt: &[u32]) -> Vec<Tapped> {
    let mut backend = fixture.cpu(threads, KvFormat::F16);
    let sequence = backend.create().unwrap();
    step(&mut backend, sequence, prompt, Wanted::Nothing);
    let mut recorder = Recorder::default();
    backend.step_tapped(sequence, &[5], &mut recorder).unwrap();
    recorder.taps
}

/// Two threads split long contexts by keys, one does not. Taps show what the quantisation behind attention would hide.
#[test]
fn a_context_split_by_keys_is_that_of_one_thread() {
    // Two KV heads have room for 32 blocks each before they are merged: 2048 positions.
    for (fixture, length) in [(&TINY_E4B, 2300), (&NARROW_E2B, 1000), (&TINY, 300)] {
        let prompt = fixture.tokens(length, 8);
        let (one, two) = (taps_behind(fixture, 1, &prompt), taps_behind(fixture, 2, &prompt));
        let difference = compare(fixture.pack.geometry(), &two, &one);
        assert!(difference.is_none(), "{length} positions: {}", difference.unwrap());
    }
}
