//! What full layers do where many keys are seen changes no result.

use rawloop_backend::{Backend, Wanted};
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_cuda::{CudaBackend, CudaOptions, KvFormat, Trial};
use rawloop_testkit::conformance::first_difference;
use rawloop_testkit::drafts;

use crate::models::{
    CONTEXT, Fixture, NARROW_E2B, TINY, TINY_E4B, WIDE_HEADS, assert_same_kv, assert_token_ways, bits, card,
    smaller_cards, step,
};

/// What full layers do behind 512 positions, at any length, so that few tokens need several rounds of attention and of the merge.
fn small() -> Trial {
    Trial { long_always: Some(8), ..Trial::default() }
}

/// A prompt, a verification of `columns`, a run and a step of one token behind it, with each of the ways; what the CPU makes of them is the reference's.
pub fn same_long(fixture: &Fixture, kv: KvFormat, ways: &[Trial], prompt: usize, columns: usize) {
    let tokens = fixture.tokens(prompt + columns, 37);
    let run = |backend: &mut dyn Backend| {
        let sequence = backend.create().unwrap();
        step(backend, sequence, &tokens[..prompt], Wanted::Nothing);
        let verified = step(backend, sequence, &tokens[prompt..], Wanted::Logits);
        let mut ids = Vec::new();
        let mut emit = |id| {
            ids.push(id);
            true
        };
        backend.decode(sequence, 3, 3, &[], &mut emit).unwrap();
        let after = step(backend, sequence, &[4], Wanted::LastLogits);
        (sequence, bits(&verified.logits), ids, bits(&after.logits))
    };
    let format = match kv {
        KvFormat::F32 => rawloop_cpu::KvFormat::F32,
        KvFormat::F16 => rawloop_cpu::KvFormat::F16,
        KvFormat::I8 => rawloop_cpu::KvFormat::I8,
    };
    let options = CpuOptions { kv: format, context: CONTEXT, ..CpuOptions::default() };
    let mut cpu = CpuBackend::open(fixture.pack.clone(), &options).unwrap();
    let (truth, verified, ids, after) = run(&mut cpu);
    for way in ways {
        let options = CudaOptions { kv, context: CONTEXT, trial: way.clone(), ..CudaOptions::default() };
        let mut backend = CudaBackend::open(&fixture.pack, &options).unwrap();
        assert_token_ways(fixture, &mut backend, way, prompt + columns);
        let found = run(&mut backend);
        assert!(found.1 == verified, "logits of {columns} columns behind {prompt}, {way:?}");
        assert_eq!(found.2, ids, "{way:?}");
        assert!(found.3 == after, "logits behind a run, {way:?}");
        assert_same_kv(fixture, (&backend, found.0), (&cpu, truth), "a way of long contexts");
    }
}

/// Drafts behind prompts of these lengths, with each of the ways.
fn same_long_drafts(fixture: &Fixture, kv: KvFormat, ways: &[Trial], lengths: &[usize]) {
    let tokens = fixture.tokens(lengths.iter().copied().max().unwrap_or(0), 71);
    for way in ways {
        let options = CudaOptions { kv, context: CONTEXT, trial: way.clone(), ..CudaOptions::default() };
        let mut backend = CudaBackend::open(&fixture.pack, &options).unwrap();
        drafts::same(&mut backend, &mut fixture.reference(kv), &tokens, lengths, 3);
    }
}

/// The shortest that has two rounds of a block and of the merge with the second one cut off.
#[test]
fn short_long_contexts() {
    let Some(_turn) = card() else { return };
    same_long(&WIDE_HEADS, KvFormat::F16, &[small()], 129, 2);
    same_long(&TINY_E4B, KvFormat::I8, &[small()], 129, 2);
    same_long_drafts(&TINY_E4B, KvFormat::F16, &[small()], &[65]);
}

#[test]
fn taps_of_the_ways_of_long_contexts() {
    let Some(_turn) = card() else { return };
    let options = CudaOptions { context: CONTEXT, trial: small(), ..CudaOptions::default() };
    let mut backend = CudaBackend::open(&WIDE_HEADS.pack, &options).unwrap();
    let (geometry, tokens) = (WIDE_HEADS.pack.geometry(), WIDE_HEADS.tokens(4, 7));
    let mut reference = WIDE_HEADS.reference(KvFormat::F16);
    let difference = first_difference(geometry, &mut backend, &mut reference, &tokens).unwrap();
    assert!(difference.is_none(), "{}", difference.unwrap());
}

#[test]
fn drafts_behind_long_contexts() {
    let Some(_turn) = card() else { return };
    same_long_drafts(&WIDE_HEADS, KvFormat::F16, &[small()], &[1, 64, 200]);
    same_long_drafts(&TINY_E4B, KvFormat::I8, &[small()], &[2, 65, 128]);
    same_long_drafts(&TINY, KvFormat::F32, &[small()], &[130]);
}

#[test]
fn ways_of_long_contexts_are_the_cpu() {
    let Some(_turn) = card() else { return };
    for kv in [KvFormat::F16, KvFormat::F32, KvFormat::I8] {
        same_long(&WIDE_HEADS, kv, &[small()], 200, 3);
        same_long(&NARROW_E2B, kv, &[small()], 187, 3);
        same_long(&TINY_E4B, kv, &[small()], 320, 8);
        same_long(&TINY, kv, &[small()], 255, 12);
    }
    // Fewer heads a block than a K/V head has, and less shared memory.
    let [few, fewer] = [4, 2].map(|heads| Trial { long_always: Some(heads), ..Trial::default() });
    let [older, less] = smaller_cards().map(|card| Trial { long_always: Some(8), ..card });
    same_long(&WIDE_HEADS, KvFormat::F16, &[few, fewer.clone(), older, less.clone()], 200, 4);
    same_long(&WIDE_HEADS, KvFormat::I8, &[fewer, less], 140, 2);
}

/// As they run: behind 512 positions fewer heads a block than behind 2,048, where the merge takes 32 blocks of keys at once.
#[test]
fn ways_of_long_contexts_as_they_run() {
    let Some(_turn) = card() else { return };
    same_long(&NARROW_E2B, KvFormat::F16, &[Trial::default()], 530, 1);
    same_long(&TINY_E4B, KvFormat::F16, &[Trial::default()], 2_300, 2);
}
