//! Forks, rewinds and snapshots: a sequence that went back is one that never went further.

use rawloop_backend::{Backend, BackendError, Wanted};
use rawloop_wgpu::KvFormat;

use crate::models::{TINY_E4B, assert_same_kv, bits, quick_adapters, step};

#[test]
fn a_rewind_within_the_slack_then_the_same_again() {
    let (_turn, adapters) = quick_adapters();
    let fixture = &TINY_E4B;
    let tokens = fixture.tokens(200, 21);
    let other = fixture.tokens(20, 22);
    for adapter in &adapters {
        let (mut backend, mut reference) =
            (fixture.wgpu(adapter, KvFormat::F16), fixture.reference(KvFormat::F16));
        let (a, b) = (backend.create().unwrap(), reference.create().unwrap());
        step(&mut *backend, a, &tokens, Wanted::Nothing);
        backend.truncate(a, 150).unwrap();
        step(&mut reference, b, &tokens[..150], Wanted::Nothing);
        let (x, y) = (
            step(&mut *backend, a, &other, Wanted::LastLogits),
            step(&mut reference, b, &other, Wanted::LastLogits),
        );
        assert!(bits(&x.logits) == bits(&y.logits));
        assert_same_kv(fixture, (&*backend, a), (&reference, b), "behind a rewind");
        let refused = backend.truncate(a, 50);
        assert!(matches!(refused, Err(BackendError::RewindTooFar { to: 50, .. })), "{refused:?}");
        backend.truncate(a, 0).unwrap();
        assert_eq!(backend.position(a), Ok(0));
    }
}

#[test]
fn a_snapshot_reaches_further_and_a_fork_goes_its_own_way() {
    let (_turn, adapters) = quick_adapters();
    let fixture = &TINY_E4B;
    let tokens = fixture.tokens(240, 23);
    let other = fixture.tokens(9, 24);
    for (adapter, kv) in adapters.iter().flat_map(|a| [(a, KvFormat::F16), (a, KvFormat::I8)]) {
        let (mut backend, mut reference) = (fixture.wgpu(adapter, kv), fixture.reference(kv));
        let (a, b) = (backend.create().unwrap(), reference.create().unwrap());
        step(&mut *backend, a, &tokens[..90], Wanted::Nothing);
        let snapshot = backend.snapshot(a).unwrap();
        let fork = backend.fork(a).unwrap();
        step(&mut *backend, a, &tokens[90..], Wanted::Nothing);
        backend.restore(a, &snapshot).unwrap();
        step(&mut reference, b, &tokens[..90], Wanted::Nothing);
        for sequence in [a, fork] {
            assert_same_kv(fixture, (&*backend, sequence), (&reference, b), "went back");
        }
        let y = step(&mut reference, b, &other, Wanted::LastLogits);
        for sequence in [a, fork] {
            let x = step(&mut *backend, sequence, &other, Wanted::LastLogits);
            assert!(bits(&x.logits) == bits(&y.logits));
        }
        let mut damaged = snapshot.clone();
        damaged.bytes[100] ^= 1;
        assert!(matches!(backend.restore(a, &damaged), Err(BackendError::Snapshot(_))));
    }
}
