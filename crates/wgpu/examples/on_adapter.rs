//! A pack on an adapter: whether it gives the CPU backend's bytes, and how fast it runs.
//!
//! `cargo run --release -p rawloop-wgpu --example on_adapter [-- PACK|PRESET [ADAPTER [short]]]`. Without a pack it lists the adapters and what their
//! arithmetic is; with the name of a preset it makes that model first. A third argument leaves out the second half, with the table of per-layer
//! embeddings on the host.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_convert::{SynthOptions, synth};
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_pack::Pack;
use rawloop_testkit::conformance::{first_difference, same_kv};
use rawloop_wgpu::{Fold, StageTime, TablePlace, WgpuBackend, WgpuOptions};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const CONTEXT: usize = 2048;
/// Rounds of each fold that count.
const ROUNDS: usize = 2;

fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|index| 2 + index * 37 % 1000).collect()
}

fn step(
    backend: &mut dyn Backend,
    sequence: SequenceId,
    tokens: &[u32],
    wanted: Wanted,
) -> Outcome<StepOutput> {
    let mut output = StepOutput::default();
    backend.step(&[Work { sequence, tokens, wanted }], &mut output)?;
    Ok(output)
}

fn same_bytes(pack: &Arc<Pack>, backend: &mut WgpuBackend) -> Outcome<()> {
    let options = CpuOptions { context: CONTEXT, ..CpuOptions::default() };
    let mut cpu = CpuBackend::open(pack.clone(), &options)?;
    let difference = first_difference(pack.geometry(), backend, &mut cpu, &ids(2))?;
    println!("taps of 2 tokens: {}", difference.map_or("equal".into(), |difference| difference.to_string()));
    let (a, b) = (backend.create()?, cpu.create()?);
    let tokens = ids(150);
    let x = step(backend, a, &tokens, Wanted::LastLogits)?;
    let y = step(&mut cpu, b, &tokens, Wanted::LastLogits)?;
    let differ = x.logits.iter().zip(&y.logits).filter(|(x, y)| x.to_bits() != y.to_bits()).count();
    println!("logits behind 150 tokens: {differ} of {} differ", x.logits.len());
    println!("K/V: {}", same_kv(pack.geometry(), (backend, a), (&cpu, b))?.unwrap_or_else(|| "equal".into()));
    let mut runs = [Vec::new(), Vec::new()];
    backend.decode(a, 5, 24, &[], &mut |id| {
        runs[0].push(id);
        true
    })?;
    cpu.decode(b, 5, 24, &[], &mut |id| {
        runs[1].push(id);
        true
    })?;
    println!("24 decoded ids: {}", if runs[0] == runs[1] { "equal" } else { "different" });
    backend.free(a);
    Ok(())
}

fn speeds(backend: &mut WgpuBackend) -> Outcome<()> {
    for count in [128, 512, 512] {
        let sequence = backend.create()?;
        let start = Instant::now();
        step(backend, sequence, &ids(count), Wanted::LastPick)?;
        let seconds = start.elapsed().as_secs_f64();
        println!("prefill of {count}: {:.1} ms, {:.0} tok/s", seconds * 1e3, f64::from(count) / seconds);
        backend.free(sequence);
    }
    let sequence = backend.create()?;
    for limit in [16, 256, 256] {
        let start = Instant::now();
        backend.decode(sequence, 5, limit, &[], &mut |_| true)?;
        let seconds = start.elapsed().as_secs_f64();
        let position = backend.position(sequence)?;
        println!("decode of {limit} up to position {position}: {:.1} tok/s", limit as f64 / seconds);
    }
    for columns in [1, 64] {
        backend.profile(sequence, 5, columns)?;
        let stages = backend.profile(sequence, 5, columns)?;
        let total: f64 = stages.iter().map(|stage| stage.time.as_secs_f64()).sum();
        println!("steps of {columns} columns, {:.0} us:", total * 1e6);
        for StageTime { stage, dispatches, time } in stages {
            println!("  {stage:<18} {dispatches:>4} {:>9.1} us", time.as_secs_f64() * 1e6);
        }
    }
    backend.free(sequence);
    Ok(())
}

/// Folds that are timed against each other, with their names. What each line has is in the one that it names.
fn variants() -> Vec<(&'static str, Fold)> {
    let qkv = Fold { qkv: true, ..Fold::NONE };
    let spread = Fold { spread: 2, ..qkv };
    let entries = Fold { early_entries: true, ..spread };
    let early = Fold { early: true, ..spread };
    let both = Fold { early: true, ..entries };
    vec![
        ("q, k, v together", qkv),
        ("spread", spread),
        ("spread 1", Fold { spread: 1, ..qkv }),
        ("spread, early entries", entries),
        ("spread, early", early),
        ("spread, both early", both),
        ("early entries, heads", Fold { heads: true, ..entries }),
        ("both, heads", Fold { heads: true, ..both }),
        ("both, entries", Fold { entries: true, ..both }),
        ("both, entries, heads", Fold { entries: true, heads: true, ..both }),
        ("all", Fold::ALL),
        ("both, heads, spread 1", Fold { spread: 1, heads: true, ..both }),
    ]
}

/// Decode of `tokens` behind `behind` with each variant in turns, and whether all give the same ids; the name of the fastest.
fn folds(
    backend: &mut WgpuBackend,
    list: &[(&'static str, Fold)],
    behind: usize,
    tokens: usize,
) -> Outcome<(&'static str, Fold)> {
    let mut rates = vec![Vec::new(); list.len()];
    let mut first: Vec<u32> = Vec::new();
    let mut others = Vec::new();
    for round in 0..=ROUNDS {
        for (rates, &(name, fold)) in rates.iter_mut().zip(list) {
            backend.set_fold(fold)?;
            let sequence = backend.create()?;
            step(backend, sequence, &ids(behind as u32), Wanted::Nothing)?;
            backend.decode(sequence, 5, 8, &[], &mut |_| true)?;
            let mut found = Vec::with_capacity(tokens);
            let start = Instant::now();
            backend.decode(sequence, 5, tokens, &[], &mut |id| {
                found.push(id);
                true
            })?;
            if round > 0 {
                rates.push(tokens as f64 / start.elapsed().as_secs_f64());
            }
            backend.free(sequence);
            if first.is_empty() {
                first = found;
            } else if found != first && !others.contains(&name) {
                others.push(name);
            }
        }
    }
    println!(
        "decode of {tokens} behind {}, {ROUNDS} rounds in turns, their mean; other ids: {others:?}",
        behind + 8
    );
    let mut best = (list[0], 0.0);
    for (rates, &(name, fold)) in rates.iter_mut().zip(list) {
        rates.sort_by(f64::total_cmp);
        backend.set_fold(fold)?;
        let (dispatches, rate) = (backend.dispatches(behind + 8), rates.iter().sum::<f64>() / ROUNDS as f64);
        println!("  {name:<24} {dispatches:>4} dispatches, {rate:>7.1} tok/s {rates:.1?}");
        if rate > best.1 {
            best = ((name, fold), rate);
        }
    }
    Ok(best.0)
}

/// Stages of one column at position 500.
fn stages(backend: &mut WgpuBackend, (name, fold): (&str, Fold)) -> Outcome<()> {
    backend.set_fold(fold)?;
    let sequence = backend.create()?;
    step(backend, sequence, &ids(500), Wanted::Nothing)?;
    backend.profile(sequence, 5, 1)?;
    println!("stages with {name}:");
    for StageTime { stage, dispatches, time } in backend.profile(sequence, 5, 1)? {
        println!("  {stage:<18} {dispatches:>4} {:>9.1} us", time.as_secs_f64() * 1e6);
    }
    backend.free(sequence);
    Ok(())
}

/// Everything in turns, every byte of the widest variant against the reference; leaves the fastest.
fn compare(pack: &Arc<Pack>, backend: &mut WgpuBackend) -> Outcome<()> {
    same_bytes(pack, backend)?;
    let list = variants();
    for spread in [2, 1] {
        backend.set_fold(Fold { spread, ..Fold::ALL })?;
        println!("with everything, spread {spread}:");
        same_bytes(pack, backend)?;
    }
    let best = folds(backend, &list, 128, 128)?;
    let far = [list[0], list[5], list[7], list[11]];
    folds(backend, &far, 1024, 64)?;
    for variant in [list[5], list[7]] {
        stages(backend, variant)?;
    }
    println!("fastest, which is kept: {}", best.0);
    Ok(backend.set_fold(best.1)?)
}

fn main() -> Outcome<()> {
    for (index, adapter) in rawloop_wgpu::adapters().iter().enumerate() {
        println!("{index}: {adapter:?}");
        println!("   {:?}", rawloop_wgpu::arithmetic(Some(&index.to_string()))?);
    }
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else { return Ok(()) };
    // Nothing, as `-`, is the adapter that is taken anyway.
    let adapter = arguments.next().filter(|adapter| adapter != "-");
    let short = arguments.next().is_some();
    let folder = tempfile::tempdir()?;
    let path: PathBuf = if Path::new(&name).exists() {
        name.into()
    } else {
        let path = folder.path().join("model.rlp");
        synth(&SynthOptions::pack(&name, path.clone()), &mut ())?;
        path
    };
    let pack = Arc::new(Pack::open(&path)?);
    for per_layer_embeddings in [TablePlace::Device, TablePlace::Host] {
        let start = Instant::now();
        let options = WgpuOptions {
            adapter: adapter.clone(),
            per_layer_embeddings,
            context: CONTEXT,
            ..WgpuOptions::default()
        };
        let mut backend = WgpuBackend::open(pack.clone(), &options)?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{}, table on the {per_layer_embeddings:?}: opened in {seconds:.2} s, {} MB",
            backend.info().kernels,
            backend.device_bytes() >> 20
        );
        if per_layer_embeddings == TablePlace::Device {
            compare(&pack, &mut backend)?;
        }
        speeds(&mut backend)?;
        if short {
            break;
        }
    }
    Ok(())
}
