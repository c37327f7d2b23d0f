//! A pack on an adapter: whether it gives the CPU backend's bytes, and how fast it runs.
//!
//! `cargo run --release -p rawloop-wgpu --example on_adapter [-- PACK|PRESET [ADAPTER]]`. Without a pack it lists the adapters and what their
//! arithmetic is; with the name of a preset it makes that model first.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_convert::{SynthOptions, synth};
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_pack::Pack;
use rawloop_testkit::conformance::{first_difference, same_kv};
use rawloop_wgpu::{TablePlace, WgpuBackend, WgpuOptions};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const CONTEXT: usize = 2048;

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
        let total: f64 = stages.iter().map(|stage| stage.2.as_secs_f64()).sum();
        println!("steps of {columns} columns, {:.0} us:", total * 1e6);
        for (name, count, time) in stages {
            println!("  {name:<18} {count:>4} {:>9.1} us", time.as_secs_f64() * 1e6);
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    for (index, adapter) in rawloop_wgpu::adapters().iter().enumerate() {
        println!("{index}: {adapter:?}");
        println!("   {:?}", rawloop_wgpu::arithmetic(Some(&index.to_string()))?);
    }
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else { return Ok(()) };
    let adapter = arguments.next();
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
            same_bytes(&pack, &mut backend)?;
        }
        speeds(&mut backend)?;
    }
    Ok(())
}
