//! Every value of every stage equals the reference's, for every KV format, past windows and rings.

use rawloop_cuda::KvFormat;
use rawloop_testkit::conformance::first_difference;

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, card};

fn same_taps(fixture: &Fixture, kv: KvFormat, count: usize) {
    let tokens = fixture.tokens(count, 7);
    let geometry = fixture.pack.geometry();
    let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
    let difference = first_difference(geometry, &mut backend, &mut reference, &tokens).unwrap();
    assert!(difference.is_none(), "with {} KV: {}", kv.name(), difference.unwrap());
}

#[test]
fn tiny_with_f16_past_its_window_and_ring() {
    let Some(_turn) = card() else { return };
    same_taps(&TINY, KvFormat::F16, 200);
}

#[test]
fn tiny_with_f32_and_i8() {
    let Some(_turn) = card() else { return };
    same_taps(&TINY, KvFormat::F32, 24);
    same_taps(&TINY, KvFormat::I8, 24);
}

#[test]
fn the_pattern_of_e4b_with_every_format() {
    let Some(_turn) = card() else { return };
    for kv in [KvFormat::F16, KvFormat::F32, KvFormat::I8] {
        same_taps(&TINY_E4B, kv, 140);
    }
}

#[test]
fn the_layers_of_e2b_with_every_format() {
    let Some(_turn) = card() else { return };
    for kv in [KvFormat::F16, KvFormat::F32, KvFormat::I8] {
        same_taps(&NARROW_E2B, kv, 70);
    }
}
