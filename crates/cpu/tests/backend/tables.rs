//! Every kernel table, many columns at once: taps run one column at a time, so the products of several tokens are held here.

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_cpu::kernels::Kernels;
use rawloop_cpu::{CpuBackend, KvFormat};

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, assert_same_kv, bits, step};

/// Prompt tokens of the long sequence: past the windows of the small models, in chunks that are no multiple of anything.
const LONG: usize = 150;
const CHUNK: usize = 70;

/// A chunked prompt, a batch of three and four verified tokens; the logits of everything, and the sequences.
fn run(backend: &mut CpuBackend, fixture: &Fixture) -> (Vec<u32>, Vec<SequenceId>) {
    let prompt = fixture.tokens(LONG, 41);
    let sequences: Vec<_> = (0..3).map(|_| backend.create().unwrap()).collect();
    for chunk in prompt.chunks(CHUNK) {
        step(backend, sequences[0], chunk, Wanted::Nothing);
    }
    let shorter = [fixture.tokens(9, 42), fixture.tokens(33, 43), fixture.tokens(4, 44)];
    let work: Vec<_> = sequences
        .iter()
        .zip(&shorter)
        .map(|(&sequence, tokens)| Work { sequence, tokens, wanted: Wanted::LastLogits })
        .collect();
    let mut output = StepOutput::default();
    backend.step(&work, &mut output).unwrap();
    let mut all = bits(&output.logits);
    all.extend(bits(&step(backend, sequences[0], &fixture.tokens(4, 45), Wanted::Logits).logits));
    (all, sequences)
}

fn every_table_is_the_same(fixture: &Fixture, kv: KvFormat) {
    let mut reference = fixture.cpu(1, kv);
    let (expected, truth) = run(&mut reference, fixture);
    for kernels in Kernels::available() {
        let mut backend = fixture.cpu_with(kernels.name(), kv);
        let (found, sequences) = run(&mut backend, fixture);
        assert_eq!(found, expected, "{} with {} KV", kernels.name(), kv.name());
        for (&mine, &theirs) in sequences.iter().zip(&truth) {
            assert_same_kv(fixture, (&backend, mine), (&reference, theirs), kernels.name());
        }
    }
}

#[test]
fn tiny() {
    every_table_is_the_same(&TINY, KvFormat::F16);
}

#[test]
fn the_pattern_of_e4b() {
    every_table_is_the_same(&TINY_E4B, KvFormat::I8);
}

#[test]
fn the_layers_of_e2b() {
    every_table_is_the_same(&NARROW_E2B, KvFormat::F32);
}
