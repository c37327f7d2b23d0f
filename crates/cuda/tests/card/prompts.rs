//! Prompts are the CPU's, in every cut of their attention, and on smaller cards.

use rawloop_backend::{Backend, Wanted};
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_cuda::{CudaBackend, CudaOptions, KvFormat, Trial};

use crate::models::{
    CONTEXT, Fixture, NARROW_E2B, ODD_PAIRS, TINY, TINY_E4B, WIDE_ENTRIES, WIDE_FFN, WIDE_HEADS, WIDE_INPUTS,
    WIDE_STREAM, assert_runs, assert_same_kv, bits, card, emulated, smaller_cards, step,
};

/// What ships, with multiprocessors for 24 rows a block of attention and without, and smaller cards.
fn ways() -> Vec<Trial> {
    let few = Trial { multiprocessors: Some(4), ..Trial::default() };
    let by_warps = Trial { bulk_by_warps: true, ..few.clone() };
    [Trial::default(), few, by_warps].into_iter().chain(smaller_cards()).collect()
}

/// Panics where prompts do not run in the kernels that `way` leaves, if the model has a shape that these know and the card room.
fn assert_prompt_ways(fixture: &Fixture, backend: &mut CudaBackend, way: &Trial, lengths: &[usize]) {
    let geometry = fixture.pack.geometry();
    let lists = lengths.iter().flat_map(|&length| backend.prompt_kernels(length).unwrap());
    let mut kernels: Vec<_> = lists.collect();
    kernels.sort_unstable();
    kernels.dedup();
    if way.shared.is_some() && kernels.is_empty() {
        return;
    }
    let what = format!("prompts of {lengths:?}, {way:?}");
    assert_runs(&kernels, "enter_by_four", &what);
    let projects: &[_] = match geometry.hidden.is_multiple_of(256) {
        true => &["bulk_project_ahead", "bulk_project_square"],
        false => &["bulk_project"],
    };
    assert!(
        projects.iter().any(|name| kernels.contains(name)),
        "{what}: none of {projects:?} in {kernels:?}"
    );
    let one = way.multiprocessors == Some(1) && geometry.hidden.is_multiple_of(512);
    assert!(!one || kernels.contains(&"bulk_project_square"), "{what}: {kernels:?}");
    let clusters = !way.no_clusters && geometry.hidden <= 1536 && geometry.hidden.is_multiple_of(32);
    assert!(
        !clusters || way.shared.is_some() || kernels.contains(&"bulk_per_layer_2"),
        "{what}: {kernels:?}"
    );
    // Where few multiprocessors share the tiles, products of warpgroups make them, if the kernels that are loaded are built for them.
    let groups = kernels.iter().any(|name| name.starts_with("bulk_wgmma"));
    let wanted = way.multiprocessors.is_some() && way.shared.is_none() && !way.bulk_by_warps;
    assert!(groups || !wanted || !emulated(), "{what}: {kernels:?}");
    assert!(!groups || !way.bulk_by_warps, "{what}: {kernels:?}");
    for dim in [64, 256] {
        if geometry.layers.iter().all(|layer| layer.head_dim != dim) {
            continue;
        }
        let apart = way.multiprocessors.is_some() && (way.shared.is_none() || dim == 64);
        let names = [format!("bulk_attend_{dim}"), format!("bulk_attend_apart_{dim}")];
        let found = names.map(|name| kernels.contains(&&*name));
        // The last layer that owns K/V attends to nothing, and it may be the only one with such heads.
        assert!(found[usize::from(apart)] || !found[usize::from(!apart)], "{what}: {kernels:?}");
    }
    // Those kernels have other names; the last owner of K/V attends to nothing.
    let attended = &geometry.layers[..geometry.own_layers() - 1];
    if attended.iter().any(|layer| layer.head_dim == 512) {
        assert_runs(&kernels, "bulk_attend_512", &what);
    }
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
    let Some(_turn) = card() else { return };
    same_prompts(&WIDE_HEADS, KvFormat::F16, &ways()[..2], &[70]);
    same_prompts(&WIDE_STREAM, KvFormat::F16, &ways()[..1], &[50]);
    // So few that its tiles are large.
    let one = Trial { multiprocessors: Some(1), ..Trial::default() };
    same_prompts(&WIDE_INPUTS, KvFormat::F16, &[one], &[100]);
}

/// Heads of 512 that attend, over two blocks of keys.
#[test]
fn short_prompts_through_heads_of_512() {
    let Some(_turn) = card() else { return };
    same_prompts(&WIDE_ENTRIES, KvFormat::F16, &ways()[..1], &[70]);
}

/// K/V rows are turned by rows of the rope four values at a time, wherever these lie.
#[test]
fn prompts_with_an_odd_number_of_pairs() {
    let Some(_turn) = card() else { return };
    same_prompts(&ODD_PAIRS, KvFormat::F16, &ways()[..1], &[70]);
}

#[test]
fn every_way_of_prompts() {
    let Some(_turn) = card() else { return };
    for kv in [KvFormat::F16, KvFormat::F32, KvFormat::I8] {
        same_prompts(&WIDE_HEADS, kv, &ways(), &[150, 61]);
        same_prompts(&TINY_E4B, kv, &ways(), &[61, 190]);
    }
    same_prompts(&TINY, KvFormat::F16, &ways(), &[299, 50]);
    same_prompts(&WIDE_STREAM, KvFormat::F32, &ways(), &[120, 60]);
    same_prompts(&NARROW_E2B, KvFormat::I8, &ways(), &[130, 61]);
    // Full layers without the widest heads, so that a card with less shared memory has passes of a prompt.
    let heads_of_256 = Fixture::wide_heads("global_head_dim", 512, 256);
    same_prompts(&heads_of_256, KvFormat::F16, &ways()[3..], &[130, 61]);
}

/// Linears as wide as E2B's, and columns that end within a tile of 256 and within one of 128.
#[test]
fn linears_as_wide_as_those_of_e2b() {
    let Some(_turn) = card() else { return };
    same_prompts(&WIDE_FFN, KvFormat::F16, &ways()[1..2], &[141]);
}

/// The rest of a last token is a list of one column, so ways of a token run there too.
#[test]
fn last_tokens_in_ways_of_a_token() {
    let Some(_turn) = card() else { return };
    let ways = [
        Trial { ple_apart: true, ..Trial::default() },
        Trial { ffn_apart: true, ..Trial::default() },
        Trial { attention_apart: true, ..Trial::default() },
    ];
    same_prompts(&NARROW_E2B, KvFormat::F16, &ways, &[60, 53]);
    same_prompts(&WIDE_HEADS, KvFormat::I8, &ways, &[60, 53]);
}
