//! Forks, rewinds and snapshots: a sequence that went back is one that never went further.

use rawloop_backend::{Backend, BackendError, Wanted};
use rawloop_cuda::KvFormat;

use crate::models::{TINY_E4B, assert_same_kv, bits, card, step};

#[test]
fn a_rewind_within_the_slack_then_the_same_again() {
    let Some(_turn) = card() else { return };
    let fixture = &TINY_E4B;
    let (mut backend, mut reference) = (fixture.cuda(KvFormat::F16), fixture.reference(KvFormat::F16));
    let (a, b) = (backend.create().unwrap(), reference.create().unwrap());
    let tokens = fixture.tokens(330, 21);
    step(&mut backend, a, &tokens, Wanted::Nothing);
    backend.truncate(a, 280).unwrap();
    step(&mut reference, b, &tokens[..280], Wanted::Nothing);
    let other = fixture.tokens(50, 22);
    let (x, y) = (
        step(&mut backend, a, &other, Wanted::LastLogits),
        step(&mut reference, b, &other, Wanted::LastLogits),
    );
    assert!(bits(&x.logits) == bits(&y.logits));
    assert_same_kv(fixture, (&backend, a), (&reference, b), "behind a rewind");
    assert!(matches!(backend.truncate(a, 100), Err(BackendError::RewindTooFar { to: 100, .. })));
    backend.truncate(a, 0).unwrap();
    assert_eq!(backend.position(a), Ok(0));
}

/// One position back is what a prompt asks for whose last token went along ([`rawloop_backend::BackendInfo::takes_last_along`]).
#[test]
fn a_snapshot_of_a_position_that_was_gone_past_is_the_one_made_in_time() {
    let Some(_turn) = card() else { return };
    let fixture = &TINY_E4B;
    for kv in [KvFormat::F16, KvFormat::I8] {
        let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
        let (a, b) = (backend.create().unwrap(), backend.create().unwrap());
        let tokens = fixture.tokens(400, 25);
        step(&mut backend, a, &tokens[..210], Wanted::Nothing);
        let in_time = backend.snapshot(a).unwrap();
        step(&mut backend, b, &tokens[..211], Wanted::LastPick);
        assert_eq!(backend.snapshot_at(b, 210), Ok(in_time.clone()));
        step(&mut backend, b, &tokens[211..240], Wanted::Nothing);
        assert_eq!(backend.snapshot_at(b, 210), Ok(in_time.clone()), "for as long as the rings hold it");
        for position in [150, 241] {
            let refused = backend.snapshot_at(b, position);
            assert!(matches!(refused, Err(BackendError::RewindTooFar { to, .. }) if to == position));
        }
        step(&mut backend, b, &tokens[240..], Wanted::Nothing);
        backend.restore(b, &in_time).unwrap();
        let truth = reference.create().unwrap();
        step(&mut reference, truth, &tokens[..210], Wanted::Nothing);
        assert_same_kv(fixture, (&backend, b), (&reference, truth), "went back");
    }
}

#[test]
fn a_snapshot_reaches_further_and_a_fork_goes_its_own_way() {
    let Some(_turn) = card() else { return };
    let fixture = &TINY_E4B;
    for kv in [KvFormat::F16, KvFormat::I8] {
        let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
        let (a, b) = (backend.create().unwrap(), reference.create().unwrap());
        let tokens = fixture.tokens(400, 23);
        step(&mut backend, a, &tokens[..150], Wanted::Nothing);
        let snapshot = backend.snapshot(a).unwrap();
        let fork = backend.fork(a).unwrap();
        step(&mut backend, a, &tokens[150..], Wanted::Nothing);
        backend.restore(a, &snapshot).unwrap();
        step(&mut reference, b, &tokens[..150], Wanted::Nothing);
        for sequence in [a, fork] {
            assert_same_kv(fixture, (&backend, sequence), (&reference, b), "went back");
        }
        let other = fixture.tokens(9, 24);
        let y = step(&mut reference, b, &other, Wanted::LastLogits);
        for sequence in [a, fork] {
            let x = step(&mut backend, sequence, &other, Wanted::LastLogits);
            assert!(bits(&x.logits) == bits(&y.logits));
        }
        let mut damaged = snapshot.clone();
        damaged.bytes[100] ^= 1;
        assert!(matches!(backend.restore(a, &damaged), Err(BackendError::Snapshot(_))));
    }
}
