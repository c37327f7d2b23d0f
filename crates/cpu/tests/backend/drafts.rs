//! Drafts are the reference's: the trained drafter, the clustered head, the whole head, behind rejected drafts too.

use rawloop_cpu::KvFormat;
use rawloop_testkit::drafts;

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B};

/// Drafts behind prompts of these lengths, one of them past the ring.
fn same_drafts(fixture: &Fixture, kv: KvFormat, lengths: &[usize]) {
    let tokens = fixture.tokens(lengths.iter().copied().max().unwrap_or(0), 71);
    drafts::same(&mut fixture.cpu(2, kv), &mut fixture.reference(kv), &tokens, lengths, 4);
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
    drafts::need_a_hidden_state(&mut TINY.cpu(1, KvFormat::F16), &TINY.tokens(20, 72));
}

#[test]
fn drafts_behind_a_rejection_are_those_of_a_plain_decode() {
    let (mut backend, mut reference) = (TINY.cpu(2, KvFormat::F16), TINY.reference(KvFormat::F16));
    let kept = [(9, 1), (9, 4), (60, 5), (61, 8), (125, 3), (180, 7)];
    drafts::survive_a_rejection(&mut backend, &mut reference, &TINY.tokens(200, 73), &kept);
}
