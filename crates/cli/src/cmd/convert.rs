//! `rawloop convert`: checkpoint to pack.

use std::time::Instant;

use indicatif::ProgressBar;
use rawloop_convert::{ConvertError, ConvertOptions, Origin, Phase, Progress, Report, convert};
use rawloop_pack::account;
use serde_json::json;

use crate::args::ConvertArgs;
use crate::exit::Failure;
use crate::{interrupt, progress};

use super::{print, print_json};

/// A conversion's progress as a bar, phase by phase.
pub struct Bar {
    bar: ProgressBar,
    quiet: bool,
}

impl Bar {
    /// Silent where `quiet`.
    pub fn new(quiet: bool) -> Bar {
        Bar { bar: ProgressBar::hidden(), quiet }
    }

    /// Takes the bar off the screen.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn phase(&mut self, phase: Phase, bytes: u64) {
        self.bar.finish_and_clear();
        self.bar = progress::bytes(bytes, phase.name(), self.quiet || bytes == 0);
    }

    fn advance(&mut self, bytes: u64) {
        self.bar.inc(bytes);
    }
}

impl From<ConvertError> for Failure {
    fn from(error: ConvertError) -> Self {
        match error {
            ConvertError::Cancelled => Failure::interrupted(),
            other => Failure::input(other),
        }
    }
}

/// Converts and says what came out.
pub fn run(args: ConvertArgs) -> Result<(), Failure> {
    let cancel = interrupt::install();
    let started = Instant::now();
    let options = ConvertOptions {
        checkpoint: args.checkpoint,
        assistant: args.assistant,
        output: args.output.clone(),
        name: args.name,
        origin: Origin { source: args.source, revision: args.revision, ..Origin::default() },
        cancel: Some(cancel),
    };
    let mut bar = Bar::new(args.quiet || args.json);
    let report = convert(&options, &mut bar);
    bar.clear();
    let report = report?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return print_json(&json!({
            "pack": args.output,
            "model": report.manifest.model,
            "tensors": report.manifest.tensors.len(),
            "tensor_bytes": report.tensor_bytes,
            "source_bytes": report.source_bytes,
            "bytes_per_token": account(&report.manifest),
            "provenance": report.manifest.provenance,
            "seconds": seconds,
        }));
    }
    print(&summary(&args.output.display().to_string(), &report, seconds))
}

/// One paragraph on a finished pack.
pub fn summary(path: &str, report: &Report, seconds: f64) -> String {
    let manifest = &report.manifest;
    let account = account(manifest);
    let skipped: Vec<String> =
        manifest.provenance.skipped.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let skipped = if skipped.is_empty() { "nothing".into() } else { skipped.join(", ") };
    let drafter = if manifest.drafter.is_some() { "with drafter" } else { "without drafter" };
    let zeros = match manifest.provenance.zero_scales {
        0 => String::new(),
        count => format!(", {count} rows have a scale of zero"),
    };
    format!(
        "{path}: {}{}, {} tensors, {drafter}, {:.1} MB a token; skipped {skipped}{zeros}; {:.1} MB read in {seconds:.1} s",
        manifest.model.name,
        if manifest.model.synthetic { " (synthetic)" } else { "" },
        manifest.tensors.len(),
        account.token_bytes as f64 / 1e6,
        report.source_bytes as f64 / 1e6,
    )
}
