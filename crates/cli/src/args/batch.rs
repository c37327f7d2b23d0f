//! Flags of `batch`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::{ModelArgs, ModelChoice, positive};

/// `rawloop batch`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Example:
  rawloop batch requests.jsonl answers.jsonl --model gemma-4-e2b

Each line of the first file is a request of OpenAI's batch format:
  {\"custom_id\": \"1\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", \"body\": {\"messages\": [...], \"max_tokens\": 200}}

The url may be /v1/completions too; the body is what `rawloop serve` takes, except for streams, and its model is not looked at. \
The answers stand in the order of the requests, refused ones with their error. A request without a seed gets one from its place \
in the file, so its answer is the same in every run. Run again after an interruption, a crash or a power cut, it goes on behind \
the last whole answer. A request that fails without being refused is asked once more; if it fails again its line has an `error` with \
code and message, and no response. Where the model itself has failed the run ends without a line for it, and the next asks again.")]
pub struct BatchArgs {
    /// Requests, one JSON object a line
    pub input: PathBuf,
    /// Answers; where the file is there it is gone on with
    pub output: PathBuf,
    /// Requests that are answered at the same time; every number gives the same answers
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = positive)]
    pub parallel: usize,
    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: ModelChoice,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: ModelArgs,
}
