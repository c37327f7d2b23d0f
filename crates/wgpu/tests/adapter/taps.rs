//! Every stage of every model, bit for bit.

use rawloop_backend::{Backend, SequenceId, Wanted};
use rawloop_testkit::conformance::first_difference;
use rawloop_wgpu::{Fold, KvFormat};

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, adapters, assert_same_kv, quick_adapters, step};

fn same_at_every_tap(fixture: &Fixture, kv: KvFormat, count: usize) {
    let (_turn, adapters) = adapters();
    for adapter in &adapters {
        let (mut backend, mut reference) = (fixture.wgpu(adapter, kv), fixture.reference(kv));
        assert!(backend.arithmetic().exact(), "{:?}", backend.arithmetic());
        let tokens = fixture.tokens(count, 7);
        let geometry = fixture.pack.geometry();
        let difference = first_difference(geometry, &mut *backend, &mut reference, &tokens);
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
fn a_token_of_e2b_is_392_dispatches() {
    let (_turn, adapters) = quick_adapters();
    for adapter in &adapters {
        let mut backend = NARROW_E2B.wgpu(adapter, KvFormat::F16);
        // Embedding, three for the per-layer inputs, seven a layer, the final norm, the head, the pick.
        assert_eq!(backend.dispatches(500), 4 + 7 * 35 + 3);
        backend.set_fold(Fold::NONE).unwrap();
        assert_eq!(backend.dispatches(500), 457);
        backend.set_fold(Fold::SOFTWARE).unwrap();
        assert_eq!(backend.dispatches(500), 427);
        backend.set_fold(Fold::CARD).unwrap();
        assert_eq!(backend.dispatches(500), 392);
        backend.set_fold(Fold::ALL).unwrap();
    }
}

#[test]
fn the_layers_of_e2b() {
    same_at_every_tap(&NARROW_E2B, KvFormat::F16, 2);
}

/// Every stage apart, and each fold alone; `merge: 1` ends within the prompt, so both ways of merging run.
#[test]
fn every_fold() {
    let (_turn, adapters) = quick_adapters();
    let fixture = &TINY_E4B;
    let (prompt, kv) = (fixture.tokens(70, 31), KvFormat::I8);
    let none = Fold::NONE;
    let folds = [
        none,
        Fold { entries: true, ..none },
        Fold { qkv: true, heads: true, ..none },
        Fold { merge: 1, ..Fold::ALL },
        // Both ways of reading, with stages apart and together.
        Fold::CARD,
        Fold { early: true, ..none },
        Fold { early_entries: true, ..none },
        Fold { spread: 1, ..none },
        Fold { heads: true, entries: true, spread: 1, early: true, ..none },
        Fold { spread: 0, early: false, early_entries: false, ..Fold::ALL },
    ];
    fn run(backend: &mut dyn Backend, prompt: &[u32]) -> (SequenceId, Vec<u32>) {
        let sequence = backend.create().unwrap();
        step(backend, sequence, &prompt[..62], Wanted::Nothing);
        // One by one over the end of a block.
        prompt[62..66].iter().for_each(|token| _ = step(backend, sequence, &[*token], Wanted::Nothing));
        step(backend, sequence, &prompt[66..], Wanted::Nothing);
        let mut ids = Vec::new();
        let mut emit = |id| {
            ids.push(id);
            true
        };
        backend.decode(sequence, 5, 6, &[], &mut emit).unwrap();
        (sequence, ids)
    }
    let mut reference = fixture.reference(kv);
    let (truth, expected) = run(&mut reference, &prompt);
    for adapter in &adapters {
        let mut backend = fixture.wgpu(adapter, kv);
        let folded = backend.dispatches(0);
        for fold in folds {
            backend.set_fold(fold).unwrap();
            assert!(backend.dispatches(0) >= folded, "{fold:?}");
            let geometry = fixture.pack.geometry();
            let found = first_difference(geometry, &mut *backend, &mut reference, &prompt[..2]).unwrap();
            assert_eq!(found.map(|found| found.to_string()), None, "{fold:?}");
            let (sequence, ids) = run(&mut *backend, &prompt);
            assert_eq!(ids, expected, "{fold:?}");
            assert_same_kv(fixture, (&*backend, sequence), (&reference, truth), "a fold");
            backend.free(sequence);
        }
        backend.set_fold(Fold::ALL).unwrap();
    }
}
