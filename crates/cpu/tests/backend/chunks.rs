//! The width of a prefill chunk changes no byte of K/V and no logit.

use rawloop_backend::{Backend, SequenceId, Wanted};
use rawloop_cpu::{CpuBackend, KvFormat};

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, assert_same_kv, bits, step};

/// Longer than any window and ring of these models, and than the widest pass.
const PROMPT: usize = 650;

/// The prompt in chunks; logits after its last token.
fn in_chunks(backend: &mut CpuBackend, tokens: &[u32], width: usize) -> (SequenceId, Vec<u32>) {
    let sequence = backend.create().unwrap();
    let (last, before) = tokens.split_last().unwrap();
    for chunk in before.chunks(width) {
        assert!(step(backend, sequence, chunk, Wanted::Nothing).logits.is_empty());
    }
    let output = step(backend, sequence, &[*last], Wanted::LastLogits);
    (sequence, bits(&output.logits))
}

fn every_width_is_the_same(fixture: &Fixture, kv: KvFormat, widths: &[usize]) {
    let tokens = fixture.tokens(PROMPT, 11);
    let mut one_by_one = fixture.cpu(1, kv);
    let (truth, logits) = in_chunks(&mut one_by_one, &tokens, 1);
    for (index, &width) in widths.iter().enumerate() {
        // The threads vary along: 1, 2, 3, 1 ...
        let mut backend = fixture.cpu(1 + index % 3, kv);
        let (sequence, found) = in_chunks(&mut backend, &tokens, width);
        assert_eq!(found, logits, "logits after chunks of {width}");
        let what = format!("chunks of {width}");
        assert_same_kv(fixture, (&backend, sequence), (&one_by_one, truth), &what);
    }
    // In one step, the last token in it.
    let mut backend = fixture.cpu(3, kv);
    let sequence = backend.create().unwrap();
    let found = step(&mut backend, sequence, &tokens, Wanted::LastLogits);
    assert_eq!(bits(&found.logits), logits, "logits of one step");
    assert_same_kv(fixture, (&backend, sequence), (&one_by_one, truth), "one step");
}

#[test]
fn tiny() {
    every_width_is_the_same(&TINY, KvFormat::F16, &[7, 64, 511, 512, 513]);
}

#[test]
fn the_pattern_of_e4b() {
    every_width_is_the_same(&TINY_E4B, KvFormat::I8, &[7, 64, 511, 512, 513]);
}

#[test]
fn the_layers_of_e2b() {
    every_width_is_the_same(&NARROW_E2B, KvFormat::F32, &[7, 64, 511, 512, 513]);
}

#[test]
fn the_reference_agrees() {
    let fixture = &TINY_E4B;
    let tokens = fixture.tokens(PROMPT, 11);
    let mut backend = fixture.cpu(2, KvFormat::F16);
    let (sequence, logits) = in_chunks(&mut backend, &tokens, 100);
    let mut reference = fixture.reference(KvFormat::F16);
    let truth = reference.create().unwrap();
    let expected = step(&mut reference, truth, &tokens, Wanted::LastLogits);
    assert_eq!(logits, bits(&expected.logits));
    assert_same_kv(fixture, (&backend, sequence), (&reference, truth), "the reference");
}

#[test]
fn logits_of_every_token_are_those_of_one_by_one() {
    let fixture = &NARROW_E2B;
    // More than a full pass holds.
    let tokens = fixture.tokens(150, 12);
    let mut backend = fixture.cpu(2, KvFormat::F16);
    let sequence = backend.create().unwrap();
    let all = step(&mut backend, sequence, &tokens, Wanted::Logits);
    let mut one_by_one = fixture.cpu(1, KvFormat::F16);
    let truth = one_by_one.create().unwrap();
    let vocab = backend.vocab();
    assert_eq!(all.logits.len(), tokens.len() * vocab);
    for (index, token) in tokens.iter().enumerate() {
        let one = step(&mut one_by_one, truth, &[*token], Wanted::LastLogits);
        let row = &all.logits[index * vocab..(index + 1) * vocab];
        assert_eq!(bits(row), bits(&one.logits), "token {index}");
    }
    assert_same_kv(fixture, (&backend, sequence), (&one_by_one, truth), "150 logits");
}
