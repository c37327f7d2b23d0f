//! Decode and prefill of a pack on a card, by the clock on the wall: `on_card PACK [check] [quick]`.
//!
//! `on_card PACK profile` runs one prompt of 1,024, for a profiler. `on_card PACK prompts [KERNELS]...` times prompts by the shipped kernels and by
//! those of other builds, in turns.
//! With `check` the ids and the stored K/V of a prompt and a run are compared with the CPU backend's, which equals the reference.

use std::sync::Arc;
use std::time::Instant;

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_cuda::{CudaBackend, CudaOptions, Trial};
use rawloop_pack::Pack;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("on_card PACK [check] [quick]")?;
    let words: Vec<String> = arguments.collect();
    let (check, quick) = (words.iter().any(|word| word == "check"), words.iter().any(|word| word == "quick"));
    let pack = Arc::new(Pack::open(path.as_ref())?);
    if words.first().is_some_and(|word| word == "prompts") {
        return prompts(&pack, &words[1..]);
    }
    if words.first().is_some_and(|word| word == "profile") {
        let mut backend = CudaBackend::open(&pack, &CudaOptions::default())?;
        let sequence = backend.create()?;
        step(&mut backend, sequence, &(0..1024).collect::<Vec<_>>(), Wanted::Nothing)?;
        return Ok(());
    }
    let start = Instant::now();
    let options = CudaOptions { context: 9216, ..CudaOptions::default() };
    let mut backend = CudaBackend::open(&pack, &options)?;
    println!("{}; loaded in {:.2} s", backend.info().kernels, start.elapsed().as_secs_f64());
    println!(
        "{:.0} MB on the card without K/V, {:.1} MB a token",
        backend.device_bytes() as f64 / 1e6,
        backend.bytes_per_token() as f64 / 1e6
    );
    if check {
        compare(&pack, &mut backend)?;
    }
    let vocab = backend.vocab() as u32;
    let ids =
        |count: usize| (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761) % vocab).collect::<Vec<_>>();
    let contexts: &[usize] = if quick { &[16, 512] } else { &[16, 512, 2048, 8192] };
    for &context in contexts {
        let sequence = backend.create()?;
        let start = Instant::now();
        step(&mut backend, sequence, &ids(context), Wanted::Nothing)?;
        let prefill = start.elapsed().as_secs_f64();
        decode(&mut backend, sequence, 32)?;
        let mut rates: Vec<f64> =
            (0..5).map(|_| decode(&mut backend, sequence, 128)).collect::<Result<_, _>>()?;
        rates.sort_by(f64::total_cmp);
        let token = 1e6 / rates[2];
        println!(
            "context {context}: decode {:.0} tok/s ({:.0} to {:.0}), {token:.1} us, {:.0} GB/s; prefill {:.2} ms",
            rates[2],
            rates[0],
            rates[4],
            backend.bytes_per_token() as f64 / token / 1e3,
            prefill * 1e3
        );
        backend.free(sequence);
    }
    if words.iter().any(|word| word == "decode") {
        return Ok(());
    }
    for width in [1, 2, 4, 8] {
        let sequence = backend.create()?;
        step(&mut backend, sequence, &ids(256), Wanted::Nothing)?;
        let mut times = Vec::new();
        for _ in 0..30 {
            let start = Instant::now();
            step(&mut backend, sequence, &ids(width), Wanted::Picks)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        println!("verify of {width}: {:.0} us (p50), {:.0} us (p99)", times[15], times[29]);
        backend.free(sequence);
    }
    for width in [16, 32, 64, 128, 512, 1024, 2048, 4096] {
        let mut times = Vec::new();
        for _ in 0..4 {
            let sequence = backend.create()?;
            let start = Instant::now();
            step(&mut backend, sequence, &ids(width), Wanted::LastPick)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            backend.free(sequence);
        }
        times.sort_by(f64::total_cmp);
        println!("prompt of {width}: {:.2} ms to the first token", times[1]);
    }
    for (stage, micros) in backend.prompt_times(1024)? {
        println!("prompt of 1024, stage {stage}: {micros:.1} us, launched alone");
    }
    for (stage, micros) in backend.stage_times(512)? {
        println!("stage {stage}: {micros:.1} us a token, launched alone");
    }
    Ok(())
}

/// Prompts of a card in ways that have to give the same ids, in turns: medians of wall time, then times by stage.
fn prompts(pack: &Arc<Pack>, files: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let mut ways = vec![("shipped".to_string(), Trial::default())];
    ways.extend(files.iter().map(|path| {
        let trial = Trial { kernels: Some(path.into()), ..Trial::default() };
        (path.clone(), trial)
    }));
    let mut open = Vec::new();
    for (name, trial) in ways {
        let options = CudaOptions { context: 4608, trial, ..CudaOptions::default() };
        open.push((name, CudaBackend::open(pack, &options)?));
    }
    let vocab = open[0].1.vocab() as u32;
    let ids =
        |count: usize| (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761) % vocab).collect::<Vec<_>>();
    let mut runs = Vec::new();
    for (name, backend) in &mut open {
        let sequence = backend.create()?;
        step(backend, sequence, &ids(1500), Wanted::Nothing)?;
        let mut run = Vec::new();
        backend.decode(sequence, 7, 24, &[], &mut |id| {
            run.push(id);
            true
        })?;
        backend.free(sequence);
        runs.push(run);
        println!("{name}: ids equal the shipped kernels': {}", runs[0] == runs[runs.len() - 1]);
    }
    for width in [64, 256, 512, 1024, 4096] {
        let mut times = vec![Vec::new(); open.len()];
        for _ in 0..5 {
            for ((_, backend), times) in open.iter_mut().zip(&mut times) {
                let sequence = backend.create()?;
                let start = Instant::now();
                step(backend, sequence, &ids(width), Wanted::LastPick)?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
                backend.free(sequence);
            }
        }
        for ((name, _), times) in open.iter().zip(&mut times) {
            times.sort_by(f64::total_cmp);
            println!(
                "prompt of {width}, {name}: {:.2} ms to the first token ({:.2} to {:.2})",
                times[2], times[0], times[4]
            );
        }
    }
    for round in 0..2 {
        for (name, backend) in &mut open {
            for (stage, micros) in backend.prompt_times(1024)? {
                println!("round {round}, {name}, stage {stage}: {micros:.1} us, launched alone");
            }
        }
    }
    Ok(())
}

fn step(
    backend: &mut dyn Backend,
    sequence: SequenceId,
    tokens: &[u32],
    wanted: Wanted,
) -> Result<StepOutput, Box<dyn std::error::Error>> {
    let mut output = StepOutput::default();
    backend.step(&[Work { sequence, tokens, wanted }], &mut output)?;
    Ok(output)
}

/// Tokens a second of one run.
fn decode(
    backend: &mut CudaBackend,
    sequence: SequenceId,
    count: usize,
) -> Result<f64, Box<dyn std::error::Error>> {
    let start = Instant::now();
    backend.decode(sequence, 2, count, &[], &mut |_| true)?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

fn compare(pack: &Arc<Pack>, backend: &mut CudaBackend) -> Result<(), Box<dyn std::error::Error>> {
    let options = CpuOptions { context: 9216, ..CpuOptions::default() };
    let mut cpu = CpuBackend::open(pack.clone(), &options)?;
    let vocab = backend.vocab() as u32;
    let prompt: Vec<u32> = (0..2300u32).map(|i| i.wrapping_mul(48_271) % vocab).collect();
    let mut runs = Vec::new();
    for backend in [&mut cpu as &mut dyn Backend, backend as &mut dyn Backend] {
        let sequence = backend.create()?;
        step(backend, sequence, &prompt, Wanted::Nothing)?;
        let mut ids = Vec::new();
        backend.decode(sequence, 7, 40, &[], &mut |id| {
            ids.push(id);
            true
        })?;
        let logits = step(backend, sequence, &[5, 6, 7], Wanted::Logits)?.logits;
        runs.push((sequence, ids, logits.iter().map(|x| x.to_bits()).collect::<Vec<_>>()));
    }
    println!("ids equal: {}; logits equal: {}", runs[0].1 == runs[1].1, runs[0].2 == runs[1].2);
    let difference =
        rawloop_testkit::conformance::same_kv(pack.geometry(), (&cpu, runs[0].0), (&*backend, runs[1].0))?;
    println!("K/V: {}", difference.unwrap_or("equal".into()));
    let truth = {
        let (a, b) = (&mut cpu as &mut dyn Backend, &mut *backend as &mut dyn Backend);
        rawloop_testkit::conformance::first_difference(pack.geometry(), b, a, &prompt[..3])?
    };
    println!("taps: {}", truth.map_or("equal".into(), |difference| difference.to_string()));
    backend.free(runs[1].0);
    Ok(())
}
