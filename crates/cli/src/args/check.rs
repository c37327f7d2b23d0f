//! Flags of the commands that judge a model or a machine: `eval`, `gate`, `doctor`; and of those that print files.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::{BackendName, ModelArgs, ModelChoice, positive};

/// `rawloop eval`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  rawloop eval --tasks goldens/tiny/transcripts.json
  rawloop eval --tasks gsm8k-test.jsonl --model e2b.rlp --limit 100 --json > report.json

Two formats are known. A JSON file with `transcripts` (or a list) of prompt_ids or prompt, with a key: right if the key \
is in the answer. JSON lines of question and answer, as GSM8K has them: right if the last number of the answer, or the \
one behind ####, is the reference's. Answers are greedy.")]
pub struct EvalArgs {
    /// Questions
    #[arg(long, value_name = "FILE")]
    pub tasks: PathBuf,
    /// Ask only the first N
    #[arg(long, value_name = "N", value_parser = positive)]
    pub limit: Option<usize>,
    /// Tokens of an answer at most
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = positive)]
    pub max_tokens: usize,
    /// Let the model think first, where the question is not a rendered prompt
    #[arg(long)]
    pub thinking: bool,
    /// Print the result and every answer as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: ModelChoice,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: ModelArgs,
}

/// `rawloop gate`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  rawloop gate --goldens goldens/tiny/transcripts.json
  rawloop gate --goldens goldens/tiny/transcripts.json --against ref --limit 5 --max-tokens 32

Generates greedily behind each golden prompt and compares token by token, with the golden answers or with another \
backend's. Each difference is printed with its position and its margin: how much larger the logit of our token is than \
that of the expected one, so 0.001 is a near-tie and 5 a fault. Ends with 0 where all are equal, with 1 where one differs.")]
pub struct GateArgs {
    /// Golden transcripts (goldens/README.md)
    #[arg(long, value_name = "FILE")]
    pub goldens: PathBuf,
    /// Compare with this backend's tokens instead of the golden ones
    #[arg(long, value_name = "BACKEND", value_enum)]
    pub against: Option<BackendName>,
    /// Use only the first N prompts
    #[arg(long, value_name = "N", value_parser = positive)]
    pub limit: Option<usize>,
    /// Tokens behind each prompt at most [default: as many as the golden answer has]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_tokens: Option<usize>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: ModelChoice,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: ModelArgs,
}

/// `rawloop doctor`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Decoding a token reads every weight once, so bytes per token over the bandwidth measured here is the time it cannot \
beat: rawloop inspect prints the bytes.")]
pub struct DoctorArgs {
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
    /// Do not measure the memory (half a second)
    #[arg(long)]
    pub no_measure: bool,
}

/// `rawloop completions`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  rawloop completions bash > ~/.local/share/bash-completion/completions/rawloop
  rawloop completions zsh > ~/.zfunc/_rawloop
  rawloop completions fish > ~/.config/fish/completions/rawloop.fish")]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// A shell that completes.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the shells
pub enum Shell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

/// `rawloop man`.
#[derive(ClapArgs, Debug)]
pub struct ManArgs {
    /// Folder for the pages, one a command; it is made if it is not there
    pub folder: PathBuf,
}
