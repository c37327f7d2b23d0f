//! Sequences that run together, and any number of threads, leave the same bytes as a sequence alone on one thread.

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_cpu::KvFormat;

use crate::models::{Fixture, NARROW_E2B, TINY, TINY_E4B, assert_same_kv, bits, step};

/// Lengths of the prompts of a batch: unequal, one past every window.
const LENGTHS: [usize; 8] = [5, 1, 70, 33, 2, 210, 64, 17];
/// Tokens decoded behind every prompt.
const DECODED: usize = 4;

struct Alone {
    picks: Vec<u32>,
    logits: Vec<u32>,
    backend: rawloop_cpu::CpuBackend,
    sequence: SequenceId,
}

fn alone(fixture: &Fixture, prompt: &[u32]) -> Alone {
    let mut backend = fixture.cpu(1, KvFormat::F16);
    let sequence = backend.create().unwrap();
    let mut picks = step(&mut backend, sequence, prompt, Wanted::LastPick).picks;
    for _ in 1..DECODED {
        let next = step(&mut backend, sequence, &[picks[picks.len() - 1]], Wanted::LastPick).picks[0];
        picks.push(next);
    }
    let last = picks[picks.len() - 1];
    let logits = bits(&step(&mut backend, sequence, &[last], Wanted::LastLogits).logits);
    Alone { picks, logits, backend, sequence }
}

fn batches_are_the_same(fixture: &Fixture, sizes: &[usize], threads: &[usize]) {
    let prompts: Vec<_> =
        LENGTHS.iter().zip(20..).map(|(&length, seed)| fixture.tokens(length, seed)).collect();
    let alone: Vec<_> = prompts.iter().map(|prompt| alone(fixture, prompt)).collect();
    for &size in sizes {
        for &threads in threads {
            let mut backend = fixture.cpu(threads, KvFormat::F16);
            let sequences: Vec<_> = (0..size).map(|_| backend.create().unwrap()).collect();
            let mut output = StepOutput::default();
            let mut run = |backend: &mut dyn Backend, tokens: &[Vec<u32>], wanted| {
                let pieces = sequences.iter().zip(tokens);
                let work: Vec<_> =
                    pieces.map(|(&sequence, tokens)| Work { sequence, tokens, wanted }).collect();
                backend.step(&work, &mut output).unwrap();
                output.clone()
            };
            let mut tokens: Vec<_> = prompts[..size].to_vec();
            for index in 0..DECODED {
                let picks = run(&mut backend, &tokens, Wanted::LastPick).picks;
                let expected: Vec<_> = alone[..size].iter().map(|alone| alone.picks[index]).collect();
                assert_eq!(picks, expected, "token {index} of {size} sequences on {threads} threads");
                tokens = picks.iter().map(|&pick| vec![pick]).collect();
            }
            let logits = run(&mut backend, &tokens, Wanted::LastLogits).logits;
            for (index, row) in logits.chunks_exact(backend.vocab()).enumerate() {
                let what = format!("sequence {index} of {size} on {threads} threads");
                assert_eq!(bits(row), alone[index].logits, "{what}");
                let (mine, theirs) = ((&backend as &dyn Backend, sequences[index]), &alone[index]);
                assert_same_kv(fixture, mine, (&theirs.backend, theirs.sequence), &what);
            }
        }
    }
}

#[test]
fn tiny() {
    batches_are_the_same(&TINY, &[1, 3, 8], &[1, 2, 3]);
}

#[test]
fn the_pattern_of_e4b() {
    batches_are_the_same(&TINY_E4B, &[1, 2, 3, 4, 5, 6, 7, 8], &[1, 2, 3]);
}

#[test]
fn the_layers_of_e2b() {
    batches_are_the_same(&NARROW_E2B, &[2, 7, 8], &[1, 2, 3]);
}

#[test]
fn a_step_of_every_kind_of_work() {
    let fixture = &TINY_E4B;
    let tokens = fixture.tokens(90, 31);
    let wanted = [Wanted::Logits, Wanted::Nothing, Wanted::Picks, Wanted::LastLogits, Wanted::LastPick];
    let ranges = [0..3, 3..30, 30..41, 41..60, 60..90];
    let mut together = fixture.cpu(2, KvFormat::F16);
    let sequences = wanted.map(|_| together.create().unwrap());
    let pieces = sequences.iter().zip(&ranges).zip(wanted);
    let work: Vec<_> = pieces
        .map(|((&sequence, range), wanted)| Work { sequence, tokens: &tokens[range.clone()], wanted })
        .collect();
    let mut output = StepOutput::default();
    together.step(&work, &mut output).unwrap();
    let (mut picks, mut logits) = (Vec::new(), Vec::new());
    let mut apart = fixture.cpu(1, KvFormat::F16);
    for piece in &work {
        let sequence = apart.create().unwrap();
        let one = step(&mut apart, sequence, piece.tokens, piece.wanted);
        picks.extend(one.picks);
        logits.extend(one.logits);
        assert_same_kv(fixture, (&together, piece.sequence), (&apart, sequence), "a mixed step");
    }
    assert_eq!((picks.len(), logits.len()), (12, 4 * together.vocab()));
    assert_eq!(output.picks, picks);
    assert_eq!(bits(&output.logits), bits(&logits));
}
