//! `rawloop synth`: a model with random weights in a real shape.

use std::time::Instant;

use rawloop_convert::{SynthOptions, synth};

use crate::args::SynthArgs;
use crate::exit::Failure;
use crate::interrupt;

use super::convert::Bar;
use super::print;

/// Writes a pack or a checkpoint folder.
pub fn run(args: SynthArgs) -> Result<(), Failure> {
    let cancel = interrupt::install();
    let started = Instant::now();
    let options = SynthOptions {
        shape: args.preset,
        seed: args.seed,
        output: args.output.clone(),
        as_checkpoint: args.checkpoint,
        assistant: args.assistant,
        ordered: args.ordered,
        shards: args.shards,
        cancel: Some(cancel),
    };
    let mut bar = Bar::new(args.quiet);
    let report = synth(&options, &mut bar);
    bar.clear();
    let report = report?;
    print(&format!(
        "{}: {} (synthetic), {:.1} MB of tensors in {:.1} s",
        args.output.display(),
        report.name,
        report.tensor_bytes as f64 / 1e6,
        started.elapsed().as_secs_f64()
    ))
}
