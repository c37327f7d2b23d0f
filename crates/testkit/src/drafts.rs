//! What every backend with a drafter must pass: its drafts are the reference's, wherever its sequence came from.
//!
//! These are tests without a model: a crate calls them with its own backend, the reference over the same pack, and tokens. They panic where a
//! test would.

use rawloop_backend::{Backend, BackendError, SequenceId, StepOutput, Wanted, Work};

fn step(backend: &mut dyn Backend, sequence: SequenceId, tokens: &[u32], wanted: Wanted) -> Vec<u32> {
    let mut output = StepOutput::default();
    backend.step(&[Work { sequence, tokens, wanted }], &mut output).expect("a step");
    output.picks
}

fn drafts(backend: &mut dyn Backend, sequence: SequenceId, token: u32, depth: usize) -> Vec<u32> {
    let mut drafts = vec![1, 2, 3];
    backend.draft(sequence, token, depth, &mut drafts).expect("drafts");
    assert_eq!(drafts.len(), depth);
    drafts
}

/// Drafts behind prompts of these lengths, ascending, the longest of which is `tokens`.
///
/// # Panics
/// They are not the reference's.
pub fn same(
    backend: &mut dyn Backend,
    reference: &mut dyn Backend,
    tokens: &[u32],
    lengths: &[usize],
    depth: usize,
) {
    let (mine, theirs) = (backend.create().expect("a sequence"), reference.create().expect("a sequence"));
    let mut at = 0;
    for &length in lengths {
        let of = |backend: &mut dyn Backend, sequence| {
            let next = step(backend, sequence, &tokens[at..length], Wanted::LastPick)[0];
            (next, drafts(backend, sequence, next, depth))
        };
        let (found, expected) = (of(&mut *backend, mine), of(&mut *reference, theirs));
        assert_eq!(found, expected, "the pick and the drafts behind {length} tokens");
        at = length;
    }
}

/// Refuses to draft where no output was wanted of the last token. Takes 20 tokens or more.
///
/// # Panics
/// It drafts all the same, or refuses what it can do.
pub fn need_a_hidden_state(backend: &mut dyn Backend, tokens: &[u32]) {
    assert!(backend.info().has_drafter);
    let sequence = backend.create().expect("a sequence");
    let mut drafts = Vec::new();
    let mut refused = |backend: &mut dyn Backend| {
        matches!(backend.draft(sequence, 1, 2, &mut drafts), Err(BackendError::Failed(_)))
            && drafts.is_empty()
    };
    assert!(refused(backend), "nothing is held");
    step(backend, sequence, &tokens[..20], Wanted::LastPick);
    assert!(!refused(backend));
    step(backend, sequence, &tokens[..2], Wanted::Nothing);
    assert!(refused(backend), "no output was wanted of tokens 20 and 21");
    step(backend, sequence, &tokens[..2], Wanted::Picks);
    backend.truncate(sequence, 23).expect("a rewind by one");
    assert!(!refused(backend));
    backend.truncate(sequence, 22).expect("a rewind by one");
    assert!(refused(backend), "no output was wanted of token 21");
    let token = backend.vocab() as u32;
    step(backend, sequence, &tokens[..1], Wanted::LastPick);
    let refused = backend.draft(sequence, token, 2, &mut Vec::new());
    assert!(matches!(refused, Err(BackendError::Token { .. })), "{refused:?}");
}

/// Whatever part of a verification of nine tokens was kept, what is drafted next is what the reference drafts that took one token after the
/// other; a fork drafts the same. `kept` are lengths of a prompt and how many of the nine stay.
///
/// # Panics
/// The drafts are others.
pub fn survive_a_rejection(
    backend: &mut dyn Backend,
    reference: &mut dyn Backend,
    tokens: &[u32],
    kept: &[(usize, usize)],
) {
    for &(start, kept) in kept {
        let end = start + kept;
        let plain = reference.create().expect("a sequence");
        step(reference, plain, &tokens[..start], Wanted::LastPick);
        for token in &tokens[start..end] {
            step(reference, plain, &[*token], Wanted::LastPick);
        }
        let expected = drafts(reference, plain, tokens[end], 3);
        reference.free(plain);
        let verified = backend.create().expect("a sequence");
        step(backend, verified, &tokens[..start], Wanted::LastPick);
        step(backend, verified, &tokens[start..start + 9], Wanted::Picks);
        backend.truncate(verified, end).expect("a rewind");
        let fork = backend.fork(verified).expect("a fork");
        for sequence in [verified, fork] {
            assert_eq!(
                drafts(backend, sequence, tokens[end], 3),
                expected,
                "{kept} of 9 kept behind {start}"
            );
            backend.free(sequence);
        }
    }
}
