//! The ways of prompts change no result.

use rawloop_backend::{Backend, Wanted};
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_cuda::{CudaBackend, CudaOptions, Ffn, KvFormat, Trial};

use crate::models::{
    CONTEXT, Fixture, NARROW_E2B, TINY, TINY_E4B, WIDE_HEADS, WIDE_STREAM, a_trial, assert_runs,
    assert_same_kv, assert_token_ways, bits, card_with_ways, step,
};

pub fn ways() -> Vec<Trial> {
    vec![
        Trial { last_apart: true, ..a_trial() },
        Trial { attend_apart: true, project_ahead: true, enter_by_four: true, ..a_trial() },
        Trial { attend_fewer: true, start_early: true, ..a_trial() },
    ]
}

/// Panics where the ways that `way` asks for do not run in any of the prompts, if the model has a shape that they know.
fn assert_prompt_ways(fixture: &Fixture, backend: &mut CudaBackend, way: &Trial, lengths: &[usize]) {
    let geometry = fixture.pack.geometry();
    let lists = lengths.iter().flat_map(|&length| backend.prompt_kernels(length).unwrap());
    let mut kernels: Vec<_> = lists.collect();
    kernels.sort_unstable();
    kernels.dedup();
    let attend =
        |dim: &str| kernels.iter().any(|name| name.starts_with("bulk_attend") && name.ends_with(dim));
    let known = attend("_64") || attend("_256");
    let wanted = [
        (way.attend_apart && known, "bulk_attend_apart"),
        (way.attend_fewer && known, "bulk_attend_fewer"),
        (way.project_ahead && geometry.hidden.is_multiple_of(256), "bulk_project_ahead"),
        (way.enter_by_four, "enter_by_four"),
    ];
    for (_, name) in wanted.into_iter().filter(|(asked, _)| *asked) {
        assert_runs(&kernels, name, &format!("prompts of {lengths:?}, {way:?}"));
    }
    assert_token_ways(backend, way, 0);
}

/// Prompts behind each other with the logits of each one's last token, in each of the ways; what the CPU makes of them is the reference's.
pub fn same_prompts(fixture: &Fixture, kv: KvFormat, ways: &[Trial], lengths: &[usize]) {
    let run = |backend: &mut dyn Backend| {
        let sequence = backend.create().unwrap();
        let logits = |(index, &length): (usize, &usize)| {
            let tokens = fixture.tokens(length, 41 + index as u64);
            bits(&step(backend, sequence, &tokens, Wanted::LastLogits).logits)
        };
        let logits: Vec<_> = lengths.iter().enumerate().map(logits).collect();
        (sequence, logits)
    };
    let format = match kv {
        KvFormat::F32 => rawloop_cpu::KvFormat::F32,
        KvFormat::F16 => rawloop_cpu::KvFormat::F16,
        KvFormat::I8 => rawloop_cpu::KvFormat::I8,
    };
    let options = CpuOptions { kv: format, context: CONTEXT, ..CpuOptions::default() };
    let mut cpu = CpuBackend::open(fixture.pack.clone(), &options).unwrap();
    let (truth, expected) = run(&mut cpu);
    for way in ways {
        let options = CudaOptions { kv, context: CONTEXT, trial: way.clone(), ..CudaOptions::default() };
        let mut backend = CudaBackend::open(&fixture.pack, &options).unwrap();
        assert_prompt_ways(fixture, &mut backend, way, lengths);
        let (sequence, found) = run(&mut backend);
        assert!(found == expected, "logits behind prompts of {lengths:?}, {way:?}");
        assert_same_kv(fixture, (&backend, sequence), (&cpu, truth), "a way of prompts");
    }
}

/// Two blocks of keys, the second one cut off.
#[test]
fn short_prompts() {
    let Some(_turn) = card_with_ways() else { return };
    same_prompts(&WIDE_HEADS, KvFormat::F16, &ways()[1..], &[70]);
    same_prompts(&WIDE_STREAM, KvFormat::F16, &ways()[1..], &[50]);
}

#[test]
fn every_way_of_prompts() {
    let Some(_turn) = card_with_ways() else { return };
    for kv in [KvFormat::F16, KvFormat::F32, KvFormat::I8] {
        same_prompts(&WIDE_HEADS, kv, &ways(), &[150, 61]);
        same_prompts(&TINY_E4B, kv, &ways(), &[61, 190]);
    }
    same_prompts(&TINY, KvFormat::F16, &ways(), &[299, 50]);
    same_prompts(&WIDE_STREAM, KvFormat::F32, &ways(), &[120, 60]);
    same_prompts(&NARROW_E2B, KvFormat::I8, &ways(), &[130, 61]);
}

/// The rest of a last token is a list of one column, so ways of a token run there too.
#[test]
fn last_tokens_in_ways_of_a_token() {
    let Some(_turn) = card_with_ways() else { return };
    let ways = [
        Trial { ple_apart: true, ..a_trial() },
        Trial { ffn: Ffn::InCopies, ..a_trial() },
        Trial { ffn: Ffn::InClusters, ..a_trial() },
        Trial { attention_at_once: 8, ..a_trial() },
        Trial { attention_at_once: 8, ffn: Ffn::AtOnce, ..a_trial() },
    ];
    same_prompts(&NARROW_E2B, KvFormat::F16, &ways, &[60, 53]);
    same_prompts(&WIDE_HEADS, KvFormat::I8, &ways, &[60, 53]);
}
