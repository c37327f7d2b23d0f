//! Drafts are the reference's: the trained drafter, the clustered head, the whole head, behind rejected drafts too.

use rawloop_backend::{Backend, BackendError, Wanted};
use rawloop_cuda::KvFormat;

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, card, step};

/// Drafts behind prompts of these lengths.
pub fn same_drafts(fixture: &Fixture, kv: KvFormat, lengths: &[usize], depth: usize) {
    let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
    let tokens = fixture.tokens(lengths.iter().copied().max().unwrap_or(0), 71);
    let (mine, theirs) = (backend.create().unwrap(), reference.create().unwrap());
    let mut at = 0;
    for &length in lengths {
        let next = step(&mut backend, mine, &tokens[at..length], Wanted::LastPick).picks[0];
        assert_eq!(next, step(&mut reference, theirs, &tokens[at..length], Wanted::LastPick).picks[0]);
        at = length;
        let (mut found, mut expected) = (vec![1, 2, 3], Vec::new());
        backend.draft(mine, next, depth, &mut found).unwrap();
        reference.draft(theirs, next, depth, &mut expected).unwrap();
        assert_eq!(found, expected, "behind {length} tokens");
        assert_eq!(found.len(), depth);
    }
}

#[test]
fn the_trained_drafter() {
    let Some(_turn) = card() else { return };
    same_drafts(&TINY, KvFormat::F16, &[1, 9, 66, 129, 130, 200], 4);
}

#[test]
fn the_clustered_head() {
    let Some(_turn) = card() else { return };
    same_drafts(&TINY_E4B, KvFormat::F16, &[1, 2, 64, 65, 66, 128, 300], 4);
    same_drafts(&TINY_E4B, KvFormat::I8, &[70], 4);
}

#[test]
fn the_whole_head() {
    let Some(_turn) = card() else { return };
    same_drafts(&NARROW_E2B, KvFormat::F32, &[3, 65, 66, 140], 4);
}

#[test]
fn a_draft_needs_the_hidden_state_of_the_last_token() {
    let Some(_turn) = card() else { return };
    let fixture = &TINY_E4B;
    let mut backend = fixture.cuda(KvFormat::F16);
    assert!(backend.info().has_drafter);
    let sequence = backend.create().unwrap();
    let tokens = fixture.tokens(20, 72);
    let mut drafts = Vec::new();
    let mut refused = |backend: &mut dyn Backend| {
        matches!(backend.draft(sequence, 1, 2, &mut drafts), Err(BackendError::Failed(_)))
            && drafts.is_empty()
    };
    assert!(refused(&mut backend));
    step(&mut backend, sequence, &tokens, Wanted::LastPick);
    assert!(!refused(&mut backend));
    step(&mut backend, sequence, &tokens[..2], Wanted::Nothing);
    assert!(refused(&mut backend));
    step(&mut backend, sequence, &tokens[..2], Wanted::Picks);
    backend.truncate(sequence, 23).unwrap();
    assert!(!refused(&mut backend));
    backend.truncate(sequence, 22).unwrap();
    assert!(refused(&mut backend), "no output was wanted of token 21");
    let token = backend.vocab() as u32;
    step(&mut backend, sequence, &tokens[..1], Wanted::LastPick);
    assert!(matches!(backend.draft(sequence, token, 2, &mut Vec::new()), Err(BackendError::Token { .. })));
}

/// Whatever part of a verification was kept, what is drafted next is what a sequence drafts that took one token after the
/// other; a fork drafts the same.
#[test]
fn drafts_behind_a_rejection_are_those_of_a_plain_decode() {
    let Some(_turn) = card() else { return };
    let fixture = &TINY_E4B;
    let tokens = fixture.tokens(200, 73);
    let (mut backend, mut reference) = (fixture.cuda(KvFormat::F16), fixture.reference(KvFormat::F16));
    for (start, kept) in [(9, 1), (60, 5), (125, 8)] {
        let (plain, verified) = (reference.create().unwrap(), backend.create().unwrap());
        step(&mut reference, plain, &tokens[..start + kept], Wanted::LastPick);
        step(&mut backend, verified, &tokens[..start], Wanted::LastPick);
        step(&mut backend, verified, &tokens[start..start + 9], Wanted::Picks);
        backend.truncate(verified, start + kept).unwrap();
        let fork = backend.fork(verified).unwrap();
        let mut expected = Vec::new();
        reference.draft(plain, tokens[start + kept], 3, &mut expected).unwrap();
        for sequence in [verified, fork] {
            let mut drafts = Vec::new();
            backend.draft(sequence, tokens[start + kept], 3, &mut drafts).unwrap();
            assert_eq!(drafts, expected, "{kept} of 9 kept behind {start}");
            backend.free(sequence);
        }
    }
}
