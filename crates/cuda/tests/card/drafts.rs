//! Drafts are the reference's: the trained drafter, the clustered head, the whole head, behind rejected drafts too.

use rawloop_cuda::KvFormat;
use rawloop_testkit::drafts;

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, card};

/// Drafts behind prompts of these lengths.
pub fn same_drafts(fixture: &Fixture, kv: KvFormat, lengths: &[usize], depth: usize) {
    let tokens = fixture.tokens(lengths.iter().copied().max().unwrap_or(0), 71);
    drafts::same(&mut fixture.cuda(kv), &mut fixture.reference(kv), &tokens, lengths, depth);
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
    drafts::need_a_hidden_state(&mut TINY_E4B.cuda(KvFormat::F16), &TINY_E4B.tokens(20, 72));
}

#[test]
fn drafts_behind_a_rejection_are_those_of_a_plain_decode() {
    let Some(_turn) = card() else { return };
    let (mut backend, mut reference) = (TINY_E4B.cuda(KvFormat::F16), TINY_E4B.reference(KvFormat::F16));
    let kept = [(9, 1), (60, 5), (125, 8)];
    drafts::survive_a_rejection(&mut backend, &mut reference, &TINY_E4B.tokens(200, 73), &kept);
}
