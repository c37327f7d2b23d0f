//! The result: labels, figures, JSON. A number never stands without its conditions.

use rawloop_pack::Pack;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::answers::Answered;
use super::compare::Comparison;
use super::decode::{Decode, Depth, PROMPT};
use super::prefill::Prefill;
use super::runner::SEED;
use super::stages::Stages;
use super::startup::Startup;
use super::verify::Verify;
use crate::args::BenchArgs;
use crate::machine::Machine;

/// Commit the program was built from, where the build says: `RAWLOOP_COMMIT=$(git rev-parse HEAD) cargo build --release`.
const COMMIT: Option<&str> = option_env!("RAWLOOP_COMMIT");

/// Everything that was measured.
pub struct Report {
    /// The conditions.
    pub labels: Value,
    /// Lengths and counts.
    pub protocol: Value,
    /// Fresh processes.
    pub startup: Startup,
    /// The most memory that decode and prefill held.
    pub peak_bytes: Option<u64>,
    /// Decode behind the short prompt.
    pub decode: Decode,
    /// Prefill by length.
    pub prefill: Vec<(usize, Prefill)>,
    /// Decode by depth.
    pub contexts: Vec<Depth>,
    /// Costs by width.
    pub verify: Vec<(usize, Verify)>,
    /// Decode steps that drafts take, by depth.
    pub draft: Vec<(usize, f64)>,
    /// Runs that are drawn or drafted, by name.
    pub answers: Vec<(&'static str, Answered)>,
    /// Stage tables.
    pub stages: Option<Stages>,
    /// Another program.
    pub compare: Option<Comparison>,
}

impl Report {
    /// What was measured beyond the standard protocol, for names of files.
    pub fn what(&self) -> String {
        let parts = [
            (!self.contexts.is_empty(), "contexts"),
            (self.stages.is_some(), "stages"),
            (!self.verify.is_empty(), "verify"),
            (self.compare.is_some(), "compare"),
        ];
        let parts = parts.iter().filter(|part| part.0).map(|part| part.1);
        let parts: Vec<&str> = parts.chain(self.answers.iter().map(|(name, _)| *name)).collect();
        if parts.is_empty() { "standard".into() } else { parts.join("-") }
    }

    /// As JSON. Lengths and widths are keys; what was not measured is not there.
    pub fn json(&self) -> Value {
        let mut value = json!({
            "labels": self.labels,
            "protocol": self.protocol,
            "load_ms": self.startup.load_ms,
            "ttft_ms": self.startup.ttft_ms,
            "startup": self.startup,
            "peak_rss_mb": self.peak_bytes.map(|bytes| bytes as f64 / 1e6),
            "decode": self.decode,
            "prefill": keyed(&self.prefill),
        });
        if !self.contexts.is_empty() {
            value["contexts"] = json!(self.contexts);
        }
        if !self.verify.is_empty() {
            value["verify"] = json!(keyed(&self.verify));
        }
        if !self.draft.is_empty() {
            value["draft"] = json!(keyed(&self.draft));
        }
        for (name, answered) in &self.answers {
            value[*name] = json!(answered);
        }
        if let Some(stages) = &self.stages {
            value["stages"] = stages.json();
        }
        if let Some(compare) = &self.compare {
            value["compare"] = json!(compare);
        }
        value
    }
}

fn keyed<T: Serialize>(entries: &[(usize, T)]) -> Map<String, Value> {
    entries.iter().map(|(key, value)| (key.to_string(), json!(value))).collect()
}

/// The labels of every command, and what a record needs besides.
pub fn labels(mut labels: Value, args: &BenchArgs, chunk: usize, machine: &Machine, load: f64) -> Value {
    let named = || format!("{}, {} threads", machine.cpu, machine.threads);
    labels["chunk"] = json!(chunk);
    labels["commit"] = json!(COMMIT);
    labels["machine"] = json!(args.machine.clone().unwrap_or_else(named));
    labels["os"] = json!(std::env::consts::OS);
    labels["arch"] = json!(std::env::consts::ARCH);
    // Threads that ran or waited in the minute before: above 0 the machine was not ours alone.
    labels["load_average"] = json!(load);
    labels["date"] = json!(chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ").to_string());
    labels
}

/// Average of the last minute; 0 where the system does not tell.
pub fn machine_load() -> f64 {
    sysinfo::System::load_average().map_or(0.0, |load| load.one)
}

/// Lengths and counts.
pub fn protocol(args: &BenchArgs, prompts: &[usize]) -> Value {
    json!({
        "seed": SEED,
        "decode_prompt": PROMPT,
        "decode_tokens": args.tokens,
        "prompts": prompts,
        "cold_rounds": 1,
        "rounds": args.rounds,
    })
}

/// Name of a model with what must stand beside it.
pub fn title(pack: &Pack) -> String {
    let model = &pack.manifest().model;
    let synthetic = if model.synthetic { " (SYNTHETIC weights)" } else { "" };
    format!("{}{synthetic}", model.name)
}

/// The conditions in a line.
pub fn conditions(labels: &Value) -> String {
    let text = |field: &str| match &labels[field] {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    format!(
        "{}; running {} threads, {} kernels, {} K/V, {} arithmetic, chunks of {}",
        text("machine"),
        text("threads"),
        text("kernels"),
        text("kv"),
        text("arithmetic"),
        text("chunk")
    )
}
