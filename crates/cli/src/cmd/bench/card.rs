//! The bench on a device: decode, prefill, verification, drafts, draws, times by stage kind; CUDA, and any adapter through wgpu.
//!
//! A card is not shared the way a processor is, so there are no turns with a plain read: bytes a second of a decoded token are
//! set beside the card's own figures by whoever reads them. Times between tokens are taken where the ids arrive on the host. Stages are
//! timed alone: what a launch costs is in each, so shares hold and the sum is more than a token takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rawloop_cpu::Cost;
use rawloop_cuda::CudaBackend;
use rawloop_engine::backend::{Backend, BackendError, SequenceId, StepOutput, Wanted, Work};
use rawloop_pack::Pack;
use rawloop_wgpu::WgpuBackend;
use serde_json::{Value, json};

use super::super::{print, print_json};
use super::runner::ids;
use super::{answers, draft};
use crate::args::{BackendName, BenchArgs, CONTEXTS, PROMPTS};
use crate::exit::Failure;
use crate::{model, run};

/// Prompt before the tokens of the decode rounds.
const PROMPT: usize = 128;
/// Columns of the second table of stages through wgpu: a pass of a prompt.
const WIDE: usize = 64;

/// A backend that lives on a device.
enum Card {
    Cuda(Box<CudaBackend>),
    Wgpu(Box<WgpuBackend>),
}

/// One stage kind, each of its launches alone.
struct Stage {
    name: &'static str,
    /// How many launches it is, where the backend says.
    dispatches: Option<usize>,
    us: f64,
}

impl Card {
    fn open(pack: &Arc<Pack>, args: &BenchArgs) -> Result<Card, Failure> {
        Ok(match args.run.backend {
            BackendName::Wgpu => Card::Wgpu(Box::new(run::wgpu_backend(pack, &args.run)?)),
            _ => Card::Cuda(Box::new(run::cuda_backend(pack, &args.run)?)),
        })
    }

    fn backend(&mut self) -> &mut dyn Backend {
        match self {
            Card::Cuda(backend) => backend.as_mut(),
            Card::Wgpu(backend) => backend.as_mut(),
        }
    }

    fn device_bytes(&self) -> usize {
        match self {
            Card::Cuda(backend) => backend.device_bytes(),
            Card::Wgpu(backend) => backend.device_bytes(),
        }
    }

    /// Stages of a pass of `columns` tokens behind the prompt; nothing where the device has no clock.
    fn stages(&mut self, columns: usize) -> Result<Vec<Stage>, BackendError> {
        match self {
            Card::Cuda(backend) => {
                let times = backend.stage_times(PROMPT)?;
                Ok(times.into_iter().map(|(name, us)| Stage { name, dispatches: None, us }).collect())
            }
            Card::Wgpu(backend) => {
                let prompt = ids(PROMPT + 1, backend.vocab());
                let sequence = backend.create()?;
                let work = Work { sequence, tokens: &prompt[..PROMPT], wanted: Wanted::Nothing };
                backend.step(&[work], &mut StepOutput::default())?;
                // The first one warms up.
                backend.profile(sequence, prompt[PROMPT], columns)?;
                let times = backend.profile(sequence, prompt[PROMPT], columns)?;
                backend.free(sequence);
                let stage = |time: rawloop_wgpu::StageTime| Stage {
                    name: time.stage,
                    dispatches: Some(time.dispatches),
                    us: time.time.as_secs_f64() * 1e6,
                };
                Ok(times.into_iter().map(stage).collect())
            }
        }
    }
}

/// Measures and prints.
pub fn run(args: &BenchArgs, cancel: &AtomicBool) -> Result<(), Failure> {
    let pack = model::open(args.choice.model.as_deref(), cancel)?;
    let mut card = Card::open(&pack, args)?;
    let info = card.backend().info();
    let ways = answers::ways(args, &pack, info.has_drafter)?;
    let mut bench = Bench { backend: card.backend(), cancel, output: StepOutput::default() };
    let limit = info.context;
    if PROMPT + args.tokens > limit {
        return Err(Failure::usage(format!(
            "{} positions are needed, --ctx leaves {limit}; lower --tokens",
            PROMPT + args.tokens
        )));
    }
    let decode = bench.decode(PROMPT, args.tokens, args.rounds)?;
    let mut contexts = Vec::new();
    for &context in args.contexts.iter().flatten().filter(|&&context| context + args.tokens < limit) {
        contexts.push(bench.decode(context, args.tokens.min(128), args.rounds)?);
    }
    let prompts = args.prompts.clone().unwrap_or(PROMPTS.to_vec());
    let mut prefill = Vec::new();
    for &length in prompts.iter().filter(|&&length| length < limit) {
        prefill.push(bench.prefill(length, args.rounds)?);
    }
    let mut verify = Vec::new();
    for width in 1..=if args.verify { 8 } else { 0 } {
        verify.push(bench.verify(width)?);
    }
    let mut drafts = Vec::new();
    for depth in draft::DEPTHS.into_iter().filter(|_| args.verify && info.has_drafter) {
        drafts.push(bench.draft(depth)?);
    }
    let (mut answered, cap) = (Vec::new(), pack.geometry().soft_cap);
    for way in &ways {
        let lengths = (args.tokens, args.rounds, run::chunk(&args.run, &info));
        answered.push((way.name, answers::measure(bench.backend, way, cap, lengths, cancel)?));
    }
    // What a token reads, whoever reads it; weights of a wide pass are read once.
    let kv = run::cpu_kv(args.run.kv);
    let cost = Cost::full(pack.geometry(), kv, PROMPT..PROMPT + 1);
    let bytes = match &card {
        Card::Cuda(backend) => backend.bytes_per_token(),
        Card::Wgpu(_) => cost.total().weight_bytes as usize,
    };
    let device_bytes = card.device_bytes();
    let bytes_of = |name: &str| {
        cost.kinds().filter(|kind| kind.0 == name).map(|kind| kind.1.bytes()).sum::<u64>() as f64
    };
    let stages = if args.stages { card.stages(1)? } else { Vec::new() };
    let wide = match &card {
        Card::Wgpu(_) if args.stages && PROMPT + WIDE <= limit => card.stages(WIDE)?,
        _ => Vec::new(),
    };
    let table = |stages: &[Stage]| -> Vec<Value> {
        let entry = |stage: &Stage| {
            let bytes = bytes_of(stage.name);
            json!({
                "stage": stage.name, "us": stage.us, "dispatches": stage.dispatches,
                "bytes": bytes, "gb_s": if stage.us > 0.0 { bytes / stage.us / 1e3 } else { 0.0 },
            })
        };
        stages.iter().map(entry).collect()
    };
    let mut value = json!({
        "labels": run::labels(&pack, &info, &args.run),
        "protocol": { "prompt": PROMPT, "tokens": args.tokens, "rounds": args.rounds, "contexts": CONTEXTS },
        "bytes_per_token": bytes,
        "device_bytes_without_kv": device_bytes,
        "decode": decode,
        "contexts": contexts,
        "prefill": prefill,
        "verify": verify,
        "draft": drafts,
        "stages_alone_us": table(&stages),
        "stages_alone_us_wide": { "columns": WIDE, "stages": table(&wide) },
    });
    for (name, answered) in &answered {
        value[*name] = json!(answered);
    }
    if args.json {
        return print_json(&value);
    }
    let number = |value: &Value, name: &str| value[name].as_f64().unwrap_or(0.0);
    print(&format!("{} on {}, {} K/V", pack.manifest().model.name, info.kernels, info.kv))?;
    print(&format!("  {:.0} MB on the card without K/V", device_bytes as f64 / 1e6))?;
    for row in std::iter::once(&decode).chain(&contexts) {
        print(&format!(
            "  decode behind {:>6}   {:>8.1} tok/s, {:.1} GB/s of weights; between tokens {:.0} us (p50), {:.0} us (p99)",
            number(row, "context"),
            number(row, "tokens_per_second"),
            bytes as f64 * number(row, "tokens_per_second") / 1e9,
            number(row, "p50_us"),
            number(row, "p99_us")
        ))?;
    }
    for row in &prefill {
        print(&format!(
            "  prompt of {:>10}   {:>8.2} ms to the first token, {:.0} tok/s",
            number(row, "tokens"),
            number(row, "ms"),
            number(row, "tokens") / number(row, "ms") * 1e3
        ))?;
    }
    for row in &verify {
        print(&format!("  verify of {:>10}   {:>8.0} us", number(row, "tokens"), number(row, "us")))?;
    }
    for row in &drafts {
        print(&format!("  {} drafts {:>15.0} us", number(row, "tokens"), number(row, "us")))?;
    }
    for line in answered.iter().flat_map(|(_, answered)| answers::lines(answered)) {
        print(&format!("  {line}"))?;
    }
    for (columns, stages) in [(1, &stages), (WIDE, &wide)] {
        for Stage { name, dispatches, us } in stages {
            let launches = dispatches.map_or(String::new(), |count| format!("{count:>4} dispatches"));
            let tokens = if columns == 1 { "a token".into() } else { format!("{columns} tokens") };
            print(&format!(
                "  {name:<18} {us:>10.1} us {tokens}, {:>7.1} GB/s; its kernels alone {launches}",
                bytes_of(name) / us.max(1e-3) / 1e3
            ))?;
        }
    }
    if args.stages && stages.is_empty() {
        print("  no stage times: this device has no timestamps")?;
    }
    Ok(())
}

struct Bench<'a> {
    backend: &'a mut dyn Backend,
    cancel: &'a AtomicBool,
    output: StepOutput,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

impl Bench<'_> {
    fn step(&mut self, sequence: SequenceId, tokens: &[u32], wanted: Wanted) -> Result<f64, Failure> {
        if self.cancel.load(Ordering::SeqCst) {
            return Err(Failure::interrupted());
        }
        let start = Instant::now();
        self.backend.step(&[Work { sequence, tokens, wanted }], &mut self.output)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Decode behind `context` tokens: one cold round, then `rounds`.
    fn decode(&mut self, context: usize, tokens: usize, rounds: usize) -> Result<Value, Failure> {
        let prompt = ids(context.max(1), self.backend.vocab());
        let (mut rates, mut gaps) = (Vec::new(), Vec::new());
        for round in 0..=rounds {
            let sequence = self.backend.create()?;
            let (last, before) = (prompt[prompt.len() - 1], &prompt[..prompt.len() - 1]);
            self.step(sequence, before, Wanted::Nothing)?;
            let mut times = Vec::with_capacity(tokens);
            let start = Instant::now();
            self.backend.decode(sequence, last, tokens, &[], &mut |_| {
                times.push(start.elapsed().as_secs_f64());
                true
            })?;
            let all = start.elapsed().as_secs_f64();
            self.backend.free(sequence);
            if round > 0 {
                rates.push(tokens as f64 / all);
                gaps.extend(times.windows(2).map(|pair| (pair[1] - pair[0]) * 1e6));
            }
        }
        let p50 = median(&mut gaps);
        let p99 = gaps.get(gaps.len() * 99 / 100).copied().unwrap_or(0.0);
        Ok(json!({
            "context": context,
            "tokens": tokens,
            "tokens_per_second": median(&mut rates),
            "p50_us": p50,
            "p99_us": p99,
        }))
    }

    /// A prompt to its first token: one cold round, then `rounds`.
    fn prefill(&mut self, length: usize, rounds: usize) -> Result<Value, Failure> {
        let prompt = ids(length, self.backend.vocab());
        let mut times = Vec::new();
        for round in 0..=rounds {
            let sequence = self.backend.create()?;
            let seconds = self.step(sequence, &prompt, Wanted::LastPick)?;
            self.backend.free(sequence);
            if round > 0 {
                times.push(seconds * 1e3);
            }
        }
        Ok(json!({ "tokens": length, "ms": median(&mut times) }))
    }

    /// A verification of `width` tokens behind a prompt.
    fn verify(&mut self, width: usize) -> Result<Value, Failure> {
        let prompt = ids(PROMPT + width, self.backend.vocab());
        let sequence = self.backend.create()?;
        self.step(sequence, &prompt[..PROMPT], Wanted::Nothing)?;
        let mut times = Vec::new();
        for _ in 0..12 {
            times.push(self.step(sequence, &prompt[PROMPT..], Wanted::Picks)? * 1e6);
            self.backend.truncate(sequence, PROMPT)?;
        }
        self.backend.free(sequence);
        Ok(json!({ "tokens": width, "us": median(&mut times) }))
    }

    /// Drafts of `depth` tokens behind a prompt whose last token an output was wanted of.
    fn draft(&mut self, depth: usize) -> Result<Value, Failure> {
        let prompt = ids(PROMPT + 1, self.backend.vocab());
        let sequence = self.backend.create()?;
        self.step(sequence, &prompt[..PROMPT], Wanted::LastPick)?;
        let (mut times, mut drafts) = (Vec::new(), Vec::with_capacity(depth));
        for _ in 0..12 {
            let start = Instant::now();
            self.backend.draft(sequence, prompt[PROMPT], depth, &mut drafts)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        self.backend.free(sequence);
        Ok(json!({ "tokens": depth, "us": median(&mut times) }))
    }
}
