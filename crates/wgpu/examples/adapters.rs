//! Lists the adapters of this machine, what their arithmetic is, and how long a pack takes to open and run there.
//!
//! `cargo run --release -p rawloop-wgpu --example adapters [PACK [ADAPTER]]`

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rawloop_backend::{Backend, StepOutput, Wanted, Work};
use rawloop_wgpu::{WgpuBackend, WgpuOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (index, adapter) in rawloop_wgpu::adapters().iter().enumerate() {
        println!("{index}: {adapter:?}");
        println!("   {:?}", rawloop_wgpu::arithmetic(Some(&index.to_string()))?);
    }
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else { return Ok(()) };
    let pack = Arc::new(rawloop_pack::Pack::open(Path::new(&path))?);
    let start = Instant::now();
    let options = WgpuOptions { adapter: arguments.next(), context: 2048, ..WgpuOptions::default() };
    let mut backend = WgpuBackend::open(pack, &options)?;
    println!("{:?}: opened in {:.2} s", backend.info(), start.elapsed().as_secs_f64());
    let sequence = backend.create()?;
    let mut output = StepOutput::default();
    for (tokens, wanted) in
        [(512, Wanted::Nothing), (512, Wanted::Nothing), (1, Wanted::LastPick), (1, Wanted::LastPick)]
    {
        let ids: Vec<u32> = (0..tokens).map(|index| 2 + index % 200).collect();
        let start = Instant::now();
        backend.step(&[Work { sequence, tokens: &ids, wanted }], &mut output)?;
        let position = backend.kv_row(sequence, 0, backend.position(sequence)? - 1)?.0.len();
        println!(
            "{tokens} tokens, {wanted:?}: {:.1} ms ({position} bytes a row)",
            start.elapsed().as_secs_f64() * 1e3
        );
    }
    for columns in [1, 64] {
        backend.profile(sequence, 5, columns)?;
        println!("steps of {columns} columns:");
        for (name, count, time) in backend.profile(sequence, 5, columns)? {
            println!("  {name:<18} {count:>4} {:>9.1} us", time.as_secs_f64() * 1e6);
        }
    }
    for limit in [1, 16] {
        let start = Instant::now();
        let mut count = 0;
        backend.decode(sequence, 5, limit, &[], &mut |_| {
            count += 1;
            true
        })?;
        let seconds = start.elapsed().as_secs_f64();
        println!("decode of {count}: {:.1} ms, {:.1} tok/s", seconds * 1e3, f64::from(count) / seconds);
    }
    Ok(())
}
