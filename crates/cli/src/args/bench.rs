//! Flags of `bench`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use rawloop_engine::speculate::DEEPEST;

use super::{ModelArgs, ModelChoice, positive};

/// Prompt lengths of the standard protocol.
pub const PROMPTS: [usize; 3] = [512, 1024, 4096];
/// Depths that `--contexts` measures if it does not say.
pub const CONTEXTS: [usize; 4] = [0, 1024, 4096, 8192];

/// `rawloop bench`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  rawloop bench --model e2b.rlp
  rawloop bench --model e2b.rlp --contexts --svg depth.svg
  rawloop bench --model e2b.rlp --stages --verify --json > bench.json
  rawloop bench --model e2b.rlp --backend cuda --temperature 1 --draft 3
  rawloop bench --model e2b.rlp --compare 'llama-bench -m e2b.gguf -p 0 -n 256 -r 1 -o jsonl | sed \"s/.*avg_ts.: //; s/,.*//\"'

The protocol: token ids from a fixed seed; decode takes a prompt of 128 and generates 256 greedily; one cold \
round, then three that count, and medians over those. A prompt's time ends with its first token.

Read share: decode and a plain read of the same weights by the same threads take turns, a few tokens each; the \
share is the median of the pairs' ratios of bytes a second, so it holds on a machine that others use too, where \
absolute figures do not. Bytes are what the kernels count. Peak share: the time that a prompt's multiply-adds \
would take in registers alone, by loops of the same instructions in the same threads before and after each \
round, over the time they took. Layers that a prompt token skips are not counted. Loading and the first token of \
a one-token prompt are measured in fresh processes.

--compare runs a shell command that prints tokens per second as the last number of its output (on stdout; digits \
that follow a letter, as in q4, are no number). Our rounds and its rounds take turns.")]
pub struct BenchArgs {
    /// Tokens to generate in a decode round, at least 5
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = at_least_five)]
    pub tokens: usize,
    /// Prompt lengths of prefill [default: 512,1024,4096]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = positive)]
    pub prompts: Option<Vec<usize>>,
    /// Rounds that count, after the cold one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
    pub rounds: usize,
    /// Also measure decode behind so many tokens [without a value: 0,1024,4096,8192]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', num_args = 0..=1, default_missing_values = ["0", "1024", "4096", "8192"])]
    pub contexts: Option<Vec<usize>>,
    /// Also show time, bytes and products by stage kind
    #[arg(long)]
    pub stages: bool,
    /// Also measure verification of 2 to 8 tokens at once, and drafts, in units of one decode step
    #[arg(long)]
    pub verify: bool,
    /// Also measure a run whose tokens are drawn, at this temperature
    #[arg(long, value_name = "T", value_parser = above_zero)]
    pub temperature: Option<f32>,
    /// Candidates of --temperature; 0 keeps all [default: the model's, 64 for Gemma 4]
    #[arg(long, value_name = "K", requires = "temperature")]
    pub top_k: Option<u32>,
    /// Probability that candidates of --temperature make up [default: the model's, 0.95 for Gemma 4]
    #[arg(long, value_name = "P", requires = "temperature")]
    pub top_p: Option<f32>,
    /// Also measure a run with N tokens drafted before each step: drafts a second, what verifying them takes, how many are right; drawn where
    /// there is a --temperature
    #[arg(long, value_name = "N", value_parser = depth)]
    pub draft: Option<usize>,
    /// Compare with a shell command that prints tokens per second as its last number
    #[arg(long, value_name = "CMD")]
    pub compare: Option<String>,
    /// What --compare measures on our side: prefill of N tokens [default: decode]
    #[arg(long, value_name = "N", requires = "compare", value_parser = positive)]
    pub compare_prefill: Option<usize>,
    /// Draw tokens per second against context; implies --contexts
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Keep the JSON as DIR/MACHINE/DATE-MODEL-WHAT.json
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Name of this machine in records [default: the processor's name and its threads]
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Load, take one step, say how long it took: what a fresh process is started for
    #[arg(long, hide = true)]
    pub startup: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: ModelChoice,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: ModelArgs,
}

/// Fewer tokens would be fewer than five pairs of decode and plain read.
fn at_least_five(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0..5) => Err("must be at least 5".into()),
        Ok(value) => Ok(value),
        Err(_) => Err(format!("{text:?} is no whole number")),
    }
}

fn above_zero(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(value) if value > 0.0 => Ok(value),
        Ok(_) => Err("must be above 0: decode is greedy in any case".into()),
        Err(_) => Err(format!("{text:?} is no number")),
    }
}

fn depth(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(depth) if (1..=DEEPEST).contains(&depth) => Ok(depth),
        _ => Err(format!("expected a number from 1 to {DEEPEST}")),
    }
}
