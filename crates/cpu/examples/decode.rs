//! Speed of a pack on this machine: decode against a plain read of the same weights, prefill, time by stage kind.
//!
//! `cargo run --release -p rawloop-cpu --example decode -- PACK [THREADS] [TOKENS] [PROMPT]`
//!
//! Decode and plain read take turns, a few tokens and a few reads at a time, because a shared machine's memory speed
//! wanders by a factor of two within minutes: the share of the paired read is the figure that means something. With one
//! thread all times are CPU time of that thread, so that neighbours on the same core do not count; with more they are wall time.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rawloop_cpu::{Clock, CpuBackend, CpuOptions};
use rawloop_engine::backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_pack::Pack;

/// What is measured: a clock and the backend.
struct Bench {
    clock: Clock,
    backend: CpuBackend,
    /// Tokens in the cache before decode is measured.
    prompt: usize,
}

/// Tokens of a turn.
const TURN: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pack = arguments.next().ok_or("usage: decode PACK [THREADS] [TOKENS] [PROMPT]")?;
    let threads = arguments.next().map(|text| text.parse()).transpose()?.filter(|&threads| threads > 0);
    let tokens: usize = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let prompt: usize = arguments.next().map_or(Ok(128), |text| text.parse())?;

    let start = Instant::now();
    let pack = Arc::new(Pack::open(Path::new(&pack))?);
    let opened = start.elapsed();
    let mut backend = CpuBackend::open(pack.clone(), &CpuOptions { threads, ..CpuOptions::default() })?;
    let loaded = start.elapsed() - opened;
    let info = backend.info();
    let model = &pack.manifest().model;
    let note = if model.synthetic { ", synthetic weights" } else { "" };
    println!("{}{note}; {} kernels, {} threads, {} KV", model.name, info.kernels, info.threads, info.kv);
    println!("open {:.1} ms, load {:.1} ms", millis(opened), millis(loaded));

    // Once over everything, so that the page cache is not what is measured.
    backend.read_weights();
    let mut bench = Bench { clock: if info.threads == 1 { thread_time } else { wall_time }, backend, prompt };
    bench.decode(tokens)?;
    for width in [64, 512] {
        bench.prefill(width)?;
    }
    for width in [2, 4, 8] {
        bench.verify(width)?;
    }
    if info.has_drafter {
        bench.draft(3)?;
    }
    Ok(())
}

fn wall_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

impl Bench {
    fn decode(&mut self, tokens: usize) -> Result<(), Box<dyn std::error::Error>> {
        let (sequence, mut output) = self.prompt()?;
        let Bench { clock, backend, .. } = self;
        let mut turns = Vec::new();
        let before = backend.counters();
        let mut bytes = 0;
        backend.set_profile(Some(*clock));
        for _ in 0..tokens.div_ceil(TURN) {
            let start = clock();
            for _ in 0..TURN {
                let token = [output.picks[0]];
                backend.step(&[Work { sequence, tokens: &token, wanted: Wanted::LastPick }], &mut output)?;
            }
            let middle = clock();
            for _ in 0..TURN {
                bytes = backend.read_weights();
            }
            let each = |time: Duration| time.as_secs_f64() / TURN as f64;
            turns.push((each(middle - start), each(clock() - middle)));
        }
        let count = (turns.len() * TURN) as u64;
        let read = backend.counters();
        let weights = (read.weight_bytes - before.weight_bytes) / count;
        let kv = (read.kv_bytes - before.kv_bytes) / count;
        let share = |&(decode, plain): &(f64, f64)| ((weights + kv) as f64 / decode) / (bytes as f64 / plain);
        let token = median(turns.iter().map(|turn| turn.0).collect());
        let plain = median(turns.iter().map(|turn| turn.1).collect());
        println!(
            "decode: {:.1} tok/s, {:.2} ms a token; {:.1} MB of weights + {:.1} MB of KV, {:.1} GB/s; plain read {:.1} GB/s",
            1.0 / token,
            token * 1e3,
            weights as f64 / 1e6,
            kv as f64 / 1e6,
            (weights + kv) as f64 / token / 1e9,
            bytes as f64 / plain / 1e9,
        );
        let shares = turns.iter().map(share).collect();
        println!("  share of the paired read: {:.3} (median of {} turns)", median(shares), turns.len());
        self.table(count as u32);
        self.backend.free(sequence);
        Ok(())
    }

    fn prefill(&mut self, width: usize) -> Result<(), Box<dyn std::error::Error>> {
        let Bench { clock, backend, .. } = self;
        let prompt: Vec<u32> = (0..width as u32).map(|index| index * 37 % 1000).collect();
        let mut times = Vec::new();
        let mut output = StepOutput::default();
        backend.set_profile(Some(*clock));
        for _ in 0..3 {
            let sequence = backend.create()?;
            let start = clock();
            backend.step(&[Work { sequence, tokens: &prompt, wanted: Wanted::Nothing }], &mut output)?;
            times.push((clock() - start).as_secs_f64());
            backend.free(sequence);
        }
        let time = median(times);
        println!("prefill {width}: {:.1} tok/s, {:.1} ms", width as f64 / time, time * 1e3);
        self.table(3);
        Ok(())
    }

    fn verify(&mut self, width: usize) -> Result<(), Box<dyn std::error::Error>> {
        let (sequence, mut output) = self.prompt()?;
        let mut ratios = Vec::new();
        for _ in 0..8 {
            let one = self.picks(sequence, 1, &mut output)?;
            let many = self.picks(sequence, width, &mut output)?;
            ratios.push(many / one);
        }
        println!("verify {width}: {:.2} of a decode step", median(ratios));
        self.backend.free(sequence);
        Ok(())
    }

    fn draft(&mut self, depth: usize) -> Result<(), Box<dyn std::error::Error>> {
        let (sequence, mut output) = self.prompt()?;
        let mut ratios = Vec::new();
        let mut drafts = Vec::new();
        for _ in 0..8 {
            let token = [output.picks[0]];
            let start = (self.clock)();
            let work = Work { sequence, tokens: &token, wanted: Wanted::LastPick };
            self.backend.step(&[work], &mut output)?;
            let middle = (self.clock)();
            self.backend.draft(sequence, output.picks[0], depth, &mut drafts)?;
            ratios.push(((self.clock)() - middle).as_secs_f64() / (middle - start).as_secs_f64());
        }
        println!("draft {depth}: {:.2} of a decode step", median(ratios));
        self.backend.free(sequence);
        Ok(())
    }

    /// A sequence with a prompt, and what came after it.
    fn prompt(&mut self) -> Result<(SequenceId, StepOutput), Box<dyn std::error::Error>> {
        let sequence = self.backend.create()?;
        let tokens: Vec<u32> = (0..self.prompt as u32).map(|index| index % 1000).collect();
        let mut output = StepOutput::default();
        let work = Work { sequence, tokens: &tokens, wanted: Wanted::LastPick };
        self.backend.step(&[work], &mut output)?;
        Ok((sequence, output))
    }

    /// Time of a step that picks behind each of `width` tokens, which are then taken back.
    fn picks(
        &mut self,
        sequence: SequenceId,
        width: usize,
        output: &mut StepOutput,
    ) -> Result<f64, Box<dyn std::error::Error>> {
        let tokens: Vec<u32> = (0..width as u32).collect();
        let start = (self.clock)();
        self.backend.step(&[Work { sequence, tokens: &tokens, wanted: Wanted::Picks }], output)?;
        let time = (self.clock)() - start;
        self.backend.truncate(sequence, self.prompt)?;
        Ok(time.as_secs_f64())
    }

    /// Time by stage kind of one of `count` runs.
    fn table(&mut self, count: u32) {
        let times = self.backend.profile();
        self.backend.set_profile(None);
        let sum: Duration = times.iter().map(|(_, time)| *time).sum();
        for (name, time) in times {
            let share = 100.0 * time.as_secs_f64() / sum.as_secs_f64();
            println!("  {name:<18} {:>9.3} ms {share:>5.1} %", millis(time / count));
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
