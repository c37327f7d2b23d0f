//! Truncation, snapshots and forks against sequences that never went elsewhere.

use rawloop_backend::{Backend, BackendError, SequenceId, Snapshot, Wanted};
use rawloop_cpu::{CpuBackend, KvFormat};

use crate::models::{Fixture, TINY, TINY_E4B, assert_same_kv, bits, step};

/// A sequence made of `tokens` in one step, by a backend of its own.
fn fresh(fixture: &Fixture, kv: KvFormat, tokens: &[u32]) -> (CpuBackend, SequenceId) {
    let mut backend = fixture.cpu(1, kv);
    let sequence = backend.create().unwrap();
    step(&mut backend, sequence, tokens, Wanted::Nothing);
    (backend, sequence)
}

/// The sequence continues as one that was made of `tokens` alone.
fn assert_goes_on(
    fixture: &Fixture,
    kv: KvFormat,
    backend: &mut CpuBackend,
    sequence: SequenceId,
    tokens: &[u32],
) {
    let (mut other, truth) = fresh(fixture, kv, tokens);
    let more = fixture.tokens(70, 52);
    let expected = step(&mut other, truth, &more, Wanted::LastLogits).logits;
    let found = step(backend, sequence, &more, Wanted::LastLogits).logits;
    assert_eq!(bits(&found), bits(&expected));
    assert_same_kv(fixture, (&*backend, sequence), (&other, truth), "after a rewind");
}

#[test]
fn truncation_reaches_64_positions_back_and_says_so() {
    let fixture = &TINY_E4B;
    for kv in [KvFormat::F16, KvFormat::I8] {
        let tokens = fixture.tokens(400, 51);
        for (to, reachable) in
            [(399, true), (400 - 64, true), (400 - 65, false), (1, false), (0, true), (500, true)]
        {
            let (mut backend, sequence) = fresh(fixture, kv, &tokens);
            let result = backend.truncate(sequence, to);
            if !reachable {
                let error = BackendError::RewindTooFar { from: 400, to, lowest: 336 };
                assert_eq!(result, Err(error));
                assert_eq!(backend.position(sequence), Ok(400));
                assert_goes_on(fixture, kv, &mut backend, sequence, &tokens);
                continue;
            }
            assert_eq!(result, Ok(()));
            assert_goes_on(fixture, kv, &mut backend, sequence, &tokens[..to.min(400)]);
        }
    }
}

#[test]
fn a_short_sequence_can_be_truncated_anywhere() {
    let fixture = &TINY;
    // A ring of 192 slots still holds everything.
    let tokens = fixture.tokens(190, 53);
    let (mut backend, sequence) = fresh(fixture, KvFormat::F16, &tokens);
    for to in [150, 64, 1, 0] {
        backend.truncate(sequence, to).unwrap();
        assert_eq!(backend.position(sequence), Ok(to));
    }
    assert_goes_on(fixture, KvFormat::F16, &mut backend, sequence, &[]);
}

#[test]
fn what_was_once_overwritten_stays_out_of_reach() {
    let fixture = &TINY_E4B;
    let tokens = fixture.tokens(400, 54);
    let (mut backend, sequence) = fresh(fixture, KvFormat::F16, &tokens);
    backend.truncate(sequence, 340).unwrap();
    step(&mut backend, sequence, &tokens[340..360], Wanted::Nothing);
    let error = BackendError::RewindTooFar { from: 360, to: 330, lowest: 336 };
    assert_eq!(backend.truncate(sequence, 330), Err(error));
    backend.truncate(sequence, 336).unwrap();
    assert_goes_on(fixture, KvFormat::F16, &mut backend, sequence, &tokens[..336]);
}

#[test]
fn a_snapshot_brings_back_what_the_rings_have_overwritten() {
    let fixture = &TINY_E4B;
    for kv in [KvFormat::F32, KvFormat::F16, KvFormat::I8] {
        for taken_at in [0, 1, 63, 100, 257] {
            let tokens = fixture.tokens(257, 55);
            let (mut backend, sequence) = fresh(fixture, kv, &tokens[..taken_at]);
            let snapshot = backend.snapshot(sequence).unwrap();
            assert_eq!(snapshot.position, taken_at);
            step(&mut backend, sequence, &fixture.tokens(300, 56), Wanted::LastPick);
            // A fork can go back too, and the original stays where it is.
            let fork = backend.fork(sequence).unwrap();
            backend.restore(fork, &snapshot).unwrap();
            assert_eq!(backend.position(fork), Ok(taken_at));
            assert_eq!(backend.position(sequence), Ok(taken_at + 300));
            assert_goes_on(fixture, kv, &mut backend, fork, &tokens[..taken_at]);
            backend.restore(sequence, &snapshot).unwrap();
            assert_goes_on(fixture, kv, &mut backend, sequence, &tokens[..taken_at]);
        }
    }
}

#[test]
fn a_snapshot_is_no_larger_than_its_windows() {
    let fixture = &TINY;
    let (backend, sequence) = fresh(fixture, KvFormat::F16, &fixture.tokens(400, 57));
    // Four rings of 128 positions, keys and values of 64 values.
    assert_eq!(backend.snapshot(sequence).unwrap().bytes.len(), 64 + 4 * 128 * 2 * 64 * 2);
}

#[test]
fn damaged_and_foreign_snapshots_are_refused_and_change_nothing() {
    let fixture = &TINY_E4B;
    let tokens = fixture.tokens(150, 58);
    let (mut backend, sequence) = fresh(fixture, KvFormat::F16, &tokens);
    let good = backend.snapshot(sequence).unwrap();
    let changed = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = good.clone();
        change(&mut snapshot);
        snapshot
    };
    let (other, its) = fresh(fixture, KvFormat::I8, &tokens);
    let (longer, longers) = fresh(fixture, KvFormat::F16, &fixture.tokens(151, 58));
    let bad = [
        (changed(&|s| s.bytes.clear()), "fewer"),
        (changed(&|s| s.bytes.truncate(1000)), "expected"),
        (changed(&|s| s.bytes[3] ^= 1), "not made by"),
        (changed(&|s| s.bytes[8] ^= 2), "version"),
        (changed(&|s| s.bytes[500] ^= 4), "damaged"),
        (changed(&|s| s.position = 149), "position"),
        (other.snapshot(its).unwrap(), "another"),
        (longer.snapshot(longers).unwrap(), "holds 150"),
    ];
    for (snapshot, word) in bad {
        let Err(BackendError::Snapshot(message)) = backend.restore(sequence, &snapshot) else {
            panic!("a snapshot was taken that should say {word}");
        };
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
    assert_goes_on(fixture, KvFormat::F16, &mut backend, sequence, &tokens);
}

#[test]
fn a_fork_is_on_its_own() {
    let fixture = &TINY;
    let tokens = fixture.tokens(250, 59);
    let (mut backend, sequence) = fresh(fixture, KvFormat::F16, &tokens);
    let fork = backend.fork(sequence).unwrap();
    step(&mut backend, sequence, &fixture.tokens(30, 60), Wanted::LastPick);
    assert_goes_on(fixture, KvFormat::F16, &mut backend, fork, &tokens);
    backend.free(sequence);
    assert_eq!(backend.position(sequence), Err(BackendError::UnknownSequence(sequence)));
    assert_eq!(backend.position(fork), Ok(320));
}
