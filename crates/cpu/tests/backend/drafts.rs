//! Drafts are the reference's: the trained drafter, the clustered head, the whole head.

use rawloop_backend::{Backend, BackendError, Wanted};
use rawloop_cpu::KvFormat;

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, step};

/// Drafts behind prompts of these lengths, one of them past the ring.
fn same_drafts(fixture: &Fixture, kv: KvFormat, lengths: &[usize]) {
    let mut reference = fixture.reference(kv);
    let mut backend = fixture.cpu(2, kv);
    let tokens = fixture.tokens(lengths.iter().copied().max().unwrap_or(0), 71);
    let (mine, theirs) = (backend.create().unwrap(), reference.create().unwrap());
    let mut at = 0;
    for &length in lengths {
        let next = step(&mut backend, mine, &tokens[at..length], Wanted::LastPick).picks[0];
        assert_eq!(next, step(&mut reference, theirs, &tokens[at..length], Wanted::LastPick).picks[0]);
        at = length;
        let (mut found, mut expected) = (vec![1, 2, 3], Vec::new());
        backend.draft(mine, next, 4, &mut found).unwrap();
        reference.draft(theirs, next, 4, &mut expected).unwrap();
        assert_eq!(found, expected, "behind {length} tokens");
        assert_eq!(found.len(), 4);
    }
}

#[test]
fn the_trained_drafter() {
    same_drafts(&TINY, KvFormat::F16, &[1, 9, 66, 129, 130, 200]);
}

#[test]
fn the_clustered_head() {
    same_drafts(&TINY_E4B, KvFormat::F16, &[1, 2, 64, 65, 66, 128, 300]);
    same_drafts(&TINY_E4B, KvFormat::I8, &[70]);
}

#[test]
fn the_whole_head() {
    same_drafts(&NARROW_E2B, KvFormat::F32, &[3, 65, 66, 140]);
}

#[test]
fn a_draft_needs_the_hidden_state_of_the_last_token() {
    let fixture = &TINY;
    let mut backend = fixture.cpu(1, KvFormat::F16);
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
/// other.
#[test]
fn drafts_behind_a_rejection_are_those_of_a_plain_decode() {
    let fixture = &TINY;
    let tokens = fixture.tokens(200, 73);
    let mut backend = fixture.cpu(2, KvFormat::F16);
    let mut reference = fixture.reference(KvFormat::F16);
    let drafts_of = |backend: &mut dyn Backend, start: usize, kept: usize| {
        let (plain, verified) = (backend.create().unwrap(), backend.create().unwrap());
        for sequence in [plain, verified] {
            step(backend, sequence, &tokens[..start], Wanted::LastPick);
        }
        for at in start..start + kept {
            step(backend, plain, &tokens[at..=at], Wanted::LastPick);
        }
        step(backend, verified, &tokens[start..start + 8], Wanted::Picks);
        backend.truncate(verified, start + kept).unwrap();
        let mut both = [plain, verified].map(|sequence| {
            let mut drafts = Vec::new();
            backend.draft(sequence, tokens[start + kept], 3, &mut drafts).unwrap();
            backend.free(sequence);
            drafts
        });
        assert_eq!(both[0], both[1], "{kept} of 8 kept behind {start}");
        std::mem::take(&mut both[0])
    };
    for (start, kept) in [(9, 1), (9, 4), (60, 5), (61, 8), (125, 3), (180, 7)] {
        assert_eq!(drafts_of(&mut backend, start, kept).len(), 3);
    }
    assert_eq!(drafts_of(&mut backend, 30, 2), drafts_of(&mut reference, 30, 2));
}
