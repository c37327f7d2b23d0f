//! The command line, as data.
//!
//! Help texts are written for somebody who has not read the README. What every model-running command shares stands in
//! [`ModelArgs`] once.

mod answer;
mod batch;
mod bench;
mod check;
mod hub;
mod op;
mod serve;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

pub use answer::{AnswerArgs, ChatArgs, DraftArgs, FormArgs, ModelChoice, RunArgs, SamplingArgs};
pub use batch::BatchArgs;
pub use bench::{BenchArgs, CONTEXTS, PROMPTS};
pub use check::{CompletionsArgs, DoctorArgs, EvalArgs, GateArgs, ManArgs, Shell};
pub use hub::{InfoArgs, ListArgs, PullArgs, RmArgs};
pub use op::OpArgs;
pub use serve::ServeArgs;

const AFTER_HELP: &str = "\
Examples:
  rawloop chat                                         talk to the small model in this program
  rawloop run --model e2b.rlp Why is the sky blue?     one answer on stdout
  rawloop pull gemma-4-e2b                             Google's E2B by name; then --model gemma-4-e2b
  rawloop convert DIR e2b.rlp                          Google's mobile checkpoint, ready to run
  rawloop doctor                                       what this machine can do

Exit codes: 0 done, 1 failed, 2 usage, 3 a file cannot be used, 4 context limit, 130 interrupted.
Every command explains itself: rawloop COMMAND --help";

/// Gemma 4 on a hand-written decode loop, with the exact integer arithmetic its weights were trained for.
#[derive(Parser, Debug)]
#[command(name = "rawloop", version, about, after_help = AFTER_HELP, propagate_version = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands, one file each in `cmd/`.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Talk to a model.
    Chat(ChatArgs),
    /// Answer one prompt.
    Run(RunArgs),
    /// Serve a model over HTTP, with OpenAI's and Ollama's interfaces and a page to talk to it.
    Serve(ServeArgs),
    /// Summarize, extract, translate, redact ...: one call for a text of any length.
    Op(OpArgs),
    /// Fetch a model by name, check it and convert it.
    Pull(PullArgs),
    /// List the models that have names, and what of them is here.
    List(ListArgs),
    /// Show where a model comes from and what of it is here.
    Info(InfoArgs),
    /// Remove a pulled model.
    Rm(RmArgs),
    /// Answer a file of requests in OpenAI's batch format.
    Batch(BatchArgs),
    /// Turn a checkpoint in Google's mobile layout into a pack.
    Convert(ConvertArgs),
    /// Write a model with random weights in a real shape, to measure with.
    Synth(SynthArgs),
    /// Show what a pack holds: geometry, tensors, bytes a token reads.
    Inspect(InspectArgs),
    /// Check every hash and every scale of a pack.
    Verify(VerifyArgs),
    /// Compare two packs, tensor family by tensor family.
    Compare(CompareArgs),
    /// Continue token ids greedily: the plain interface for scripts and checks.
    Generate(GenerateArgs),
    /// Ask a file of questions and count the right answers.
    Eval(EvalArgs),
    /// Compare greedy tokens with golden ones, or with another backend's.
    Gate(GateArgs),
    /// Measure a model on this machine: decode, prefill, loading, memory, each against the machine's limit.
    Bench(BenchArgs),
    /// Show what this machine offers: instruction sets, kernels, memory and its speed.
    Doctor(DoctorArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
    /// Write the manual pages.
    #[command(hide = true)]
    Man(ManArgs),
}

/// Flags of every command that runs a model.
#[derive(ClapArgs, Clone, Debug)]
pub struct ModelArgs {
    /// What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they
    /// must equal
    #[arg(long, value_enum, default_value_t = BackendName::Cpu, help_heading = "Running")]
    pub backend: BackendName,

    /// Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)
    #[arg(long, value_enum, default_value_t = Arithmetic::Exact, help_heading = "Running")]
    pub arithmetic: Arithmetic,

    /// Threads; every number gives the same bytes [default: one for each big core this process may use]
    #[arg(long, value_name = "N", help_heading = "Running")]
    pub threads: Option<usize>,

    /// Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores
    #[arg(long, help_heading = "Running")]
    pub affinity: bool,

    /// Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]
    #[arg(long, value_name = "NAME", help_heading = "Running")]
    pub kernels: Option<String>,

    /// Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA
    /// device the 1024 of one pass]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Running")]
    pub chunk: Option<usize>,

    /// Storage of keys and values
    #[arg(long, value_enum, default_value_t = Kv::F16, help_heading = "Running")]
    pub kv: Kv,

    /// The adapter of --backend wgpu: a number of `rawloop doctor`'s list or a part of its name [default: the first that is no software]
    #[arg(long, value_name = "N|NAME", help_heading = "Running")]
    pub adapter: Option<String>,

    /// Where the per-layer embeddings lie with --backend cuda or wgpu: E2B's take 1.2 GB, and a token reads 4.6 KB of them [default: host
    /// with cuda, device with wgpu]
    #[arg(long, value_enum, help_heading = "Running")]
    pub ple: Option<Ple>,

    /// Positions of context [default: what the model was trained for, at most 32768]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Running")]
    pub ctx: Option<usize>,

    /// No progress bar
    #[arg(long, short, help_heading = "Running")]
    pub quiet: bool,
}

/// A backend by name.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendName {
    /// Kernels for this machine's instruction set.
    Cpu,
    /// A CUDA device.
    Cuda,
    /// A graphics adapter through Vulkan, Metal or DX12.
    Wgpu,
    /// A CUDA device where there is one, else the CPU.
    Auto,
    /// The readable interpreter, 100 times slower.
    Ref,
}

/// Arithmetic of the linears.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// int8 activations, exact integer sums.
    Exact,
}

/// Place of the per-layer embeddings where a device computes.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ple {
    /// Memory of the host.
    Host,
    /// Memory of the device.
    Device,
}

/// Storage of keys and values.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kv {
    /// Full precision, 4 bytes a value.
    F32,
    /// Half precision, 2 bytes a value.
    F16,
    /// int8 with a scale per token and head, 1 byte a value.
    I8,
}

/// `rawloop convert`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Example:
  rawloop convert models/tiny/checkpoint tiny.rlp --assistant models/tiny/assistant

The checkpoint folder holds config.json (quant_method gemma), tokenizer.json, generation_config.json and \
model.safetensors, whole or sharded. Conversion streams: it needs under 1 GB of memory at any size, writes beside the \
target and renames at the end, so an interrupted run leaves an older pack as it was.")]
pub struct ConvertArgs {
    /// Checkpoint folder
    pub checkpoint: PathBuf,
    /// Pack to write (*.rlp)
    pub output: PathBuf,
    /// Folder of the assistant checkpoint (MTP drafter), which joins the pack
    #[arg(long, value_name = "DIR")]
    pub assistant: Option<PathBuf>,
    /// Name of the model in listings [default: the folder's]
    #[arg(long)]
    pub name: Option<String>,
    /// Repository the checkpoint came from, for the pack's provenance
    #[arg(long, value_name = "REPO")]
    pub source: Option<String>,
    /// Revision of that repository
    #[arg(long, value_name = "REV")]
    pub revision: Option<String>,
    /// Print a summary as JSON on stdout
    #[arg(long)]
    pub json: bool,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// `rawloop synth`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  rawloop synth --preset e2b --seed 1 e2b.rlp                  a pack, under a minute
  rawloop synth --preset e2b --assistant --ordered e2b.rlp     with a drafter in the released one's shape
  rawloop synth --preset tiny-e4b --seed 1 DIR --checkpoint    the same weights as a checkpoint folder

Speeds and bytes of such a model are real, its text is noise. It is labelled synthetic wherever it shows up.")]
pub struct SynthArgs {
    /// Shape: tiny, tiny-e4b, narrow-e2b, e2b, e4b, or a config.json
    #[arg(long, value_name = "NAME|FILE")]
    pub preset: String,
    /// The weights follow from this number
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Pack to write, or folder with --checkpoint
    pub output: PathBuf,
    /// Write an official-layout checkpoint folder instead of a pack
    #[arg(long)]
    pub checkpoint: bool,
    /// Add an MTP drafter
    #[arg(long)]
    pub assistant: bool,
    /// Give the drafter the clustered head
    #[arg(long, requires = "assistant")]
    pub ordered: bool,
    /// Files the checkpoint's weights are spread over
    #[arg(long, default_value_t = 1, requires = "checkpoint", value_parser = positive)]
    pub shards: usize,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// `rawloop inspect`.
#[derive(ClapArgs, Debug)]
pub struct InspectArgs {
    /// Pack
    pub pack: PathBuf,
    /// List every tensor with format, shape, offset and bytes
    #[arg(long)]
    pub tensors: bool,
    /// Print the stage program: what a token passes, stage by stage
    #[arg(long)]
    pub program: bool,
    /// Everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rawloop verify`.
#[derive(ClapArgs, Debug)]
pub struct VerifyArgs {
    /// Pack
    pub pack: PathBuf,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// `rawloop compare`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Ends with 0 where every tensor is equal, with 1 where one differs.")]
pub struct CompareArgs {
    /// One pack
    pub a: PathBuf,
    /// The other
    pub b: PathBuf,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rawloop generate`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  rawloop generate --prompt-ids 2,105,627,512,746 --max-tokens 16 --backend ref --json
  rawloop generate --model e2b.rlp --prompt \"Why is the sky blue?\" --json
  rawloop generate --raw --prompt \"Once upon a time\"")]
pub struct GenerateArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: ModelChoice,
    /// Prompt as token ids
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',', num_args = 1.., required_unless_present = "prompt")]
    pub prompt_ids: Vec<u32>,
    /// Prompt as a user's message, in the chat format
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_ids")]
    pub prompt: Option<String>,
    /// Take the text of --prompt as it stands, without the chat format; <|turn> and the like are control tokens then
    #[arg(long, requires = "prompt", conflicts_with = "prompt_ids")]
    pub raw: bool,
    /// Tokens to generate at most
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_tokens: usize,
    /// 0 takes the most likely token every time
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub temperature: f32,
    /// Print prompt ids, output ids, finish reason, timings and labels as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub form: FormArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub draft: DraftArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: ModelArgs,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(value) => Ok(value),
        Err(_) => Err(format!("{text:?} is no whole number")),
    }
}
