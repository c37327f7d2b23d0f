//! Loading and the first token, in fresh processes: what a user waits for, with nothing warm but the file.
//!
//! The program starts itself with `--startup`. The clock runs from before the pack is opened to the first token of a
//! one-token prompt; starting the process itself, some milliseconds of the system's, is not in it.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rawloop_engine::backend::{Backend, StepOutput, Wanted, Work};
use serde::{Deserialize, Serialize};

use super::stats::median;
use crate::args::BenchArgs;
use crate::exit::{Code, Failure};
use crate::{model, run};

/// One start.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Start {
    /// Milliseconds until the model could take a step.
    pub load_ms: f64,
    /// Milliseconds until the first token.
    pub ttft_ms: f64,
}

/// All starts.
#[derive(Debug, Serialize)]
pub struct Startup {
    /// Milliseconds until the model could take a step, median without the first.
    #[serde(skip)]
    pub load_ms: f64,
    /// Milliseconds until the first token, median without the first.
    #[serde(skip)]
    pub ttft_ms: f64,
    /// The first start, which may have found the file on disk.
    pub first: Start,
    /// The starts that count.
    pub rest: Vec<Start>,
}

/// The side of the fresh process.
pub fn once(args: &BenchArgs, cancel: &AtomicBool) -> Result<Start, Failure> {
    let start = Instant::now();
    let milliseconds = || start.elapsed().as_secs_f64() * 1e3;
    let pack = model::open(args.choice.model.as_deref(), cancel)?;
    let mut backend = run::cpu_backend(&pack, &args.run)?;
    let load_ms = milliseconds();
    let sequence = backend.create()?;
    let tokens = super::runner::ids(1, backend.vocab());
    let mut output = StepOutput::default();
    backend.step(&[Work { sequence, tokens: &tokens, wanted: Wanted::LastPick }], &mut output)?;
    Ok(Start { load_ms, ttft_ms: milliseconds() })
}

/// Starts `1 + rounds` fresh processes, one after the other.
pub fn measure(args: &BenchArgs, cancel: &AtomicBool, started: &mut dyn FnMut()) -> Result<Startup, Failure> {
    let mut starts = Vec::new();
    for _ in 0..=args.rounds {
        starts.push(fresh(args, cancel)?);
        started();
    }
    let rest = starts.split_off(1);
    Ok(Startup {
        load_ms: median(rest.iter().map(|start| start.load_ms)),
        ttft_ms: median(rest.iter().map(|start| start.ttft_ms)),
        first: starts[0],
        rest,
    })
}

fn fresh(args: &BenchArgs, cancel: &AtomicBool) -> Result<Start, Failure> {
    let fail =
        |why: String| Failure::new(Code::Other, format!("cannot measure loading in a new process: {why}"));
    let program = std::env::current_exe().map_err(|error| fail(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(["bench", "--startup"]).stdin(Stdio::null());
    if let Some(model) = &args.choice.model {
        command.arg("--model").arg(model);
    }
    if let Some(threads) = args.run.threads {
        command.arg("--threads").arg(threads.to_string());
    }
    if let Some(kernels) = &args.run.kernels {
        command.arg("--kernels").arg(kernels);
    }
    command.arg("--kv").arg(run::cpu_kv(args.run.kv).name());
    if let Some(context) = args.run.ctx {
        command.arg("--ctx").arg(context.to_string());
    }
    let output = command.output().map_err(|error| fail(error.to_string()))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // What it refuses, this process would refuse: a flag, a file.
        let own = message.strip_prefix("error: ").unwrap_or(&message);
        return Err(match output.status.code() {
            Some(code) if code == Code::Usage as i32 => Failure::usage(own),
            Some(code) if code == Code::Input as i32 => Failure::input(own),
            Some(code) if code == Code::Interrupted as i32 => Failure::interrupted(),
            _ if cancel.load(Ordering::SeqCst) => Failure::interrupted(),
            _ => fail(message),
        });
    }
    serde_json::from_slice(&output.stdout).map_err(|error| fail(error.to_string()))
}
