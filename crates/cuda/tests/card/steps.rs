//! Chunk width, batch and wanted outputs change no byte of K/V and no logit.

use rawloop_backend::{Backend, BackendError, SequenceId, StepOutput, Wanted, Work};
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_cuda::{CudaBackend, KvFormat};

use crate::models::{CONTEXT, Fixture, NARROW_E2B, TINY, TINY_E4B, assert_same_kv, bits, card, step};

/// Longer than any window and ring of these models.
const PROMPT: usize = 300;

/// The prompt in chunks; logits after its last token.
fn in_chunks(backend: &mut CudaBackend, tokens: &[u32], width: usize) -> (SequenceId, Vec<u32>) {
    let sequence = backend.create().unwrap();
    let (last, before) = tokens.split_last().unwrap();
    for chunk in before.chunks(width) {
        assert!(step(backend, sequence, chunk, Wanted::Nothing).logits.is_empty());
    }
    let output = step(backend, sequence, &[*last], Wanted::LastLogits);
    (sequence, bits(&output.logits))
}

fn every_width_is_the_reference(fixture: &Fixture, kv: KvFormat) {
    let tokens = fixture.tokens(PROMPT, 11);
    let mut reference = fixture.reference(kv);
    let truth = reference.create().unwrap();
    let expected = bits(&step(&mut reference, truth, &tokens, Wanted::LastLogits).logits);
    let mut backend = fixture.cuda(kv);
    for width in [1, 2, 7, 8, 64, 299] {
        let (sequence, logits) = in_chunks(&mut backend, &tokens, width);
        assert!(logits == expected, "logits after chunks of {width}");
        let what = format!("chunks of {width}");
        assert_same_kv(fixture, (&backend, sequence), (&reference, truth), &what);
        backend.free(sequence);
    }
    let sequence = backend.create().unwrap();
    let found = step(&mut backend, sequence, &tokens, Wanted::LastLogits);
    assert!(bits(&found.logits) == expected, "logits of one step");
    assert_same_kv(fixture, (&backend, sequence), (&reference, truth), "one step");
}

#[test]
fn tiny_in_chunks() {
    let Some(_turn) = card() else { return };
    every_width_is_the_reference(&TINY, KvFormat::F16);
}

#[test]
fn the_pattern_of_e4b_in_chunks() {
    let Some(_turn) = card() else { return };
    every_width_is_the_reference(&TINY_E4B, KvFormat::I8);
}

#[test]
fn the_layers_of_e2b_in_chunks() {
    let Some(_turn) = card() else { return };
    every_width_is_the_reference(&NARROW_E2B, KvFormat::F32);
}

#[test]
fn outputs_of_every_token_are_those_of_one_by_one() {
    let Some(_turn) = card() else { return };
    let fixture = &NARROW_E2B;
    let tokens = fixture.tokens(43, 12);
    let mut reference = fixture.reference(KvFormat::F16);
    let truth = reference.create().unwrap();
    let expected = step(&mut reference, truth, &tokens, Wanted::Logits);
    let mut backend = fixture.cuda(KvFormat::F16);
    let sequence = backend.create().unwrap();
    let logits = step(&mut backend, sequence, &tokens, Wanted::Logits);
    assert!(bits(&logits.logits) == bits(&expected.logits), "logits");
    let other = backend.create().unwrap();
    let picks = step(&mut backend, other, &tokens, Wanted::Picks);
    let again = reference.create().unwrap();
    assert_eq!(picks.picks, step(&mut reference, again, &tokens, Wanted::Picks).picks);
    assert_same_kv(fixture, (&backend, other), (&reference, truth), "picks");
}

/// Behind 2,048 positions full layers take other kernels. The reference would take minutes; the CPU backend equals it.
#[test]
fn a_long_context_is_that_of_the_cpu() {
    let Some(_turn) = card() else { return };
    for (fixture, kv, format) in [
        (&NARROW_E2B, KvFormat::F16, rawloop_cpu::KvFormat::F16),
        (&TINY, KvFormat::F32, rawloop_cpu::KvFormat::F32),
        (&TINY_E4B, KvFormat::I8, rawloop_cpu::KvFormat::I8),
    ] {
        let tokens = fixture.tokens(2_300, 31);
        let options = CpuOptions { kv: format, context: CONTEXT, ..CpuOptions::default() };
        let mut cpu = CpuBackend::open(fixture.pack.clone(), &options).unwrap();
        let mut backend = fixture.cuda(kv);
        let (a, b) = (backend.create().unwrap(), cpu.create().unwrap());
        for range in [0..700, 700..2_047, 2_047..2_290] {
            let (x, y) = (
                step(&mut backend, a, &tokens[range.clone()], Wanted::LastLogits),
                step(&mut cpu, b, &tokens[range.clone()], Wanted::LastLogits),
            );
            assert!(bits(&x.logits) == bits(&y.logits), "logits behind {}", range.end);
        }
        for token in &tokens[2_290..] {
            let (x, y) = (
                step(&mut backend, a, &[*token], Wanted::LastLogits),
                step(&mut cpu, b, &[*token], Wanted::LastLogits),
            );
            assert!(bits(&x.logits) == bits(&y.logits), "logits of a decoded token");
        }
        assert_same_kv(fixture, (&backend, a), (&cpu, b), "a long context");
    }
}

#[test]
fn a_batch_is_its_sequences_alone() {
    let Some(_turn) = card() else { return };
    let fixture = &TINY_E4B;
    let (mut backend, mut reference) = (fixture.cuda(KvFormat::F16), fixture.reference(KvFormat::F16));
    let lengths = [90, 3, 41, 130, 17];
    let wanted = [Wanted::LastPick, Wanted::LastLogits, Wanted::Nothing, Wanted::LastPick, Wanted::Logits];
    let prompts: Vec<Vec<u32>> =
        lengths.iter().enumerate().map(|(index, &length)| fixture.tokens(length, index as u64)).collect();
    let run = |backend: &mut dyn Backend| -> (Vec<SequenceId>, StepOutput, StepOutput) {
        let sequences: Vec<_> = lengths.iter().map(|_| backend.create().unwrap()).collect();
        let work = |tokens: &dyn Fn(usize) -> &'static [u32]| -> Vec<Work<'static>> {
            sequences
                .iter()
                .enumerate()
                .map(|(index, &sequence)| Work { sequence, tokens: tokens(index), wanted: wanted[index] })
                .collect()
        };
        let kept: Vec<&'static [u32]> =
            prompts.iter().map(|prompt| Box::leak(prompt.clone().into_boxed_slice()) as &[u32]).collect();
        let (mut first, mut second) = (StepOutput::default(), StepOutput::default());
        backend.step(&work(&|index| kept[index]), &mut first).unwrap();
        backend.step(&work(&|index| &kept[index][..1]), &mut second).unwrap();
        (sequences, first, second)
    };
    let (mine, first, second) = run(&mut backend);
    let (theirs, first_truth, second_truth) = run(&mut reference);
    for (found, truth) in [(first, first_truth), (second, second_truth)] {
        assert_eq!(found.picks, truth.picks);
        assert!(bits(&found.logits) == bits(&truth.logits));
    }
    for (a, b) in mine.into_iter().zip(theirs) {
        assert_same_kv(fixture, (&backend, a), (&reference, b), "a batch");
    }
}

/// A step of several prompts, whose first token wanted is the last one's: the others are too short for a pass of their own.
pub fn same_last_token_behind_others(fixture: &Fixture, kv: KvFormat, lengths: &[usize]) {
    let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
    let prompts: Vec<Vec<u32>> = lengths.iter().map(|&length| fixture.tokens(length, 3)).collect();
    let run = |backend: &mut dyn Backend| -> (Vec<SequenceId>, StepOutput) {
        let work: Vec<Work<'_>> = prompts
            .iter()
            .enumerate()
            .map(|(index, tokens)| {
                let last = index + 1 == lengths.len();
                let wanted = if last { Wanted::LastLogits } else { Wanted::Nothing };
                Work { sequence: backend.create().unwrap(), tokens, wanted }
            })
            .collect();
        let mut output = StepOutput::default();
        backend.step(&work, &mut output).unwrap();
        (work.iter().map(|work| work.sequence).collect(), output)
    };
    let (mine, found) = run(&mut backend);
    let (theirs, truth) = run(&mut reference);
    assert!(bits(&found.logits) == bits(&truth.logits), "prompts of {lengths:?}");
    for (a, b) in mine.into_iter().zip(theirs) {
        assert_same_kv(fixture, (&backend, a), (&reference, b), "prompts of one step");
    }
}

#[test]
fn a_last_token_behind_prompts_of_others() {
    let Some(_turn) = card() else { return };
    same_last_token_behind_others(&TINY_E4B, KvFormat::F16, &[20, 51]);
    same_last_token_behind_others(&TINY, KvFormat::I8, &[60, 20, 30, 70]);
}

/// Eight columns of E4B's stream: their entries have no place beside the weights of every stage.
#[test]
fn eight_columns_of_the_widest_stream() {
    let Some(_turn) = card() else { return };
    let fixture = Fixture::wide_heads("hidden_size", 128, 2560);
    let (mut backend, mut reference) = (fixture.cuda(KvFormat::F16), fixture.reference(KvFormat::F16));
    let (a, b) = (backend.create().unwrap(), reference.create().unwrap());
    let tokens = fixture.tokens(8, 31);
    let x = step(&mut backend, a, &tokens, Wanted::Picks);
    let y = step(&mut reference, b, &tokens, Wanted::Picks);
    assert_eq!(x.picks, y.picks);
    assert_same_kv(&fixture, (&backend, a), (&reference, b), "eight columns");
}

#[test]
fn a_refused_step_changes_nothing() {
    let Some(_turn) = card() else { return };
    let fixture = &TINY_E4B;
    let mut backend = fixture.cuda(KvFormat::F16);
    let sequence = backend.create().unwrap();
    step(&mut backend, sequence, &[1, 2, 3], Wanted::LastPick);
    let vocab = backend.vocab();
    let mut output = StepOutput::default();
    let wrong = [1, vocab as u32];
    let work = Work { sequence, tokens: &wrong, wanted: Wanted::LastPick };
    assert_eq!(backend.step(&[work], &mut output), Err(BackendError::Token { token: vocab as u32, vocab }));
    let long = vec![1; CONTEXT];
    let work = Work { sequence, tokens: &long, wanted: Wanted::Nothing };
    assert_eq!(
        backend.step(&[work], &mut output),
        Err(BackendError::ContextFull { needed: CONTEXT + 3, limit: CONTEXT })
    );
    assert_eq!(backend.position(SequenceId(99)), Err(BackendError::UnknownSequence(SequenceId(99))));
    assert_eq!(backend.position(sequence), Ok(3));
}

/// Prompts of which the last token is wanted, each length behind nothing and then 50 tokens behind it: that token goes along with the pass or not.
pub fn same_last_tokens(fixture: &Fixture, kv: KvFormat, lengths: &[usize]) {
    let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
    for &length in lengths {
        let (a, b) = (backend.create().unwrap(), reference.create().unwrap());
        for (length, wanted) in [(length, Wanted::LastLogits), (50, Wanted::LastPick)] {
            let tokens = fixture.tokens(length, 29 + length as u64);
            let x = step(&mut backend, a, &tokens, wanted);
            let y = step(&mut reference, b, &tokens, wanted);
            assert_eq!(x.picks, y.picks, "a prompt of {length}");
            assert!(bits(&x.logits) == bits(&y.logits), "a prompt of {length}");
        }
        assert_same_kv(fixture, (&backend, a), (&reference, b), "prompts to their last token");
        backend.free(a);
    }
}

#[test]
fn last_tokens_of_prompts() {
    let Some(_turn) = card() else { return };
    // 48 tokens: a pass with the last one, too short without it; 129: it would begin a tile.
    same_last_tokens(&TINY, KvFormat::F16, &[47, 48, 128, 129, 130, 300]);
    same_last_tokens(&TINY, KvFormat::I8, &[60]);
    same_last_tokens(&TINY_E4B, KvFormat::I8, &[49, 257, 258]);
    same_last_tokens(&NARROW_E2B, KvFormat::F32, &[49, 100]);
}

/// Prompts behind nothing, behind each other and past every window, with outputs of the last token.
#[test]
fn prompts_behind_prompts() {
    let Some(_turn) = card() else { return };
    for (fixture, kv, chunks) in [
        (&*TINY, KvFormat::F32, &[130, 70][..]),
        (&*TINY_E4B, KvFormat::I8, &[61, 5, 190]),
        (&*NARROW_E2B, KvFormat::F16, &[150]),
        (&*NARROW_E2B, KvFormat::I8, &[150]),
    ] {
        let (mut backend, mut reference) = (fixture.cuda(kv), fixture.reference(kv));
        let (a, b) = (backend.create().unwrap(), reference.create().unwrap());
        for (i, &chunk) in chunks.iter().enumerate() {
            let tokens = fixture.tokens(chunk, 23 + i as u64);
            let x = step(&mut backend, a, &tokens, Wanted::LastLogits);
            let y = step(&mut reference, b, &tokens, Wanted::LastLogits);
            assert!(bits(&x.logits) == bits(&y.logits), "chunk {i} of {chunk}");
            assert_same_kv(fixture, (&backend, a), (&reference, b), "a prompt");
        }
    }
}
