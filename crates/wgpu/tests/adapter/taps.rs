//! Every stage of every model, bit for bit.

use rawloop_wgpu::KvFormat;

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, adapters};

fn same_at_every_tap(fixture: &Fixture, kv: KvFormat, count: usize) {
    let (_turn, adapters) = adapters();
    for adapter in &adapters {
        let (mut backend, mut reference) = (fixture.wgpu(adapter, kv), fixture.reference(kv));
        assert!(backend.arithmetic().exact(), "{:?}", backend.arithmetic());
        let tokens = fixture.tokens(count, 7);
        let geometry = fixture.pack.geometry();
        let difference =
            rawloop_testkit::conformance::first_difference(geometry, &mut *backend, &mut reference, &tokens);
        let difference = difference.unwrap().map(|difference| difference.to_string());
        assert_eq!(difference, None, "adapter {adapter}, {kv:?}");
    }
}

#[test]
fn the_shipped_model() {
    same_at_every_tap(&TINY, KvFormat::F16, 3);
}

#[test]
fn the_pattern_of_e4b_in_every_format() {
    for kv in [KvFormat::F32, KvFormat::F16, KvFormat::I8] {
        same_at_every_tap(&TINY_E4B, kv, 3);
    }
}

#[test]
fn the_layers_of_e2b() {
    same_at_every_tap(&NARROW_E2B, KvFormat::F16, 2);
}
