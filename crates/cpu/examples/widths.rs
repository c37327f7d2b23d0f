//! Where the time of 1 to 8 tokens in one step goes, stage kind by stage kind.
//!
//! `cargo run --release -p rawloop-cpu --example widths -- PACK [THREADS] [ROUNDS]`
//!
//! Milliseconds of wall time, medians of rounds in which all widths take turns. `rawloop bench --verify` has the sums and
//! their bounds; this shows which stage leaves them.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rawloop_backend::{Backend, StepOutput, Wanted, Work};
use rawloop_cpu::{CpuBackend, CpuOptions, STAGE_KINDS};
use rawloop_pack::Pack;

const WIDTHS: usize = 8;
const PROMPT: usize = 128;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pack = arguments.next().ok_or("usage: widths PACK [THREADS] [ROUNDS]")?;
    let threads = arguments.next().map(|text| text.parse()).transpose()?.filter(|&threads| threads > 0);
    let rounds: usize = arguments.next().map_or(Ok(9), |text| text.parse())?;

    let pack = Arc::new(Pack::open(Path::new(&pack))?);
    let mut backend = CpuBackend::open(pack, &CpuOptions { threads, ..CpuOptions::default() })?;
    backend.read_weights();
    let sequence = backend.create()?;
    let mut output = StepOutput::default();
    let ids: Vec<u32> = (0..PROMPT as u32).collect();
    backend.step(&[Work { sequence, tokens: &ids, wanted: Wanted::LastPick }], &mut output)?;

    let mut times = vec![[const { Vec::new() }; STAGE_KINDS.len()]; WIDTHS];
    for _ in 0..rounds {
        for width in 1..=WIDTHS {
            backend.set_profile(Some(wall_time));
            backend.step(&[Work { sequence, tokens: &ids[..width], wanted: Wanted::Picks }], &mut output)?;
            for (kept, time) in times[width - 1].iter_mut().zip(backend.profile()) {
                kept.push(time.1);
            }
            backend.set_profile(None);
            backend.truncate(sequence, PROMPT)?;
        }
    }

    println!("{:<18}{}", "ms", (1..=WIDTHS).map(|width| format!("{width:>9}")).collect::<String>());
    let mut sums = [0.0; WIDTHS];
    for (kind, name) in STAGE_KINDS.iter().enumerate() {
        print!("{name:<18}");
        for (width, sum) in sums.iter_mut().enumerate() {
            let kept = &mut times[width][kind];
            kept.sort_unstable();
            let median = kept[kept.len() / 2].as_secs_f64() * 1e3;
            *sum += median;
            print!("{median:>9.3}");
        }
        println!();
    }
    println!("{:<18}{}", "sum", sums.map(|sum| format!("{sum:>9.3}")).concat());
    Ok(())
}

fn wall_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}
