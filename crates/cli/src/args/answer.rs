//! Flags of the commands that answer in text: `run` and `chat`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use rawloop_engine::Draft;
use rawloop_engine::speculate::DEEPEST;

use super::{ModelArgs, positive};

/// Which model.
#[derive(ClapArgs, Clone, Debug)]
pub struct ModelChoice {
    /// Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in
    /// this program]
    #[arg(long, short, value_name = "PACK|DIR|NAME", help_heading = "Running")]
    pub model: Option<PathBuf>,
}

/// How tokens are picked. What is not given is the model's own setting.
#[derive(ClapArgs, Clone, Debug, Default)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Take the likeliest token every time; the same as --temperature 0
    #[arg(long, conflicts_with = "temperature")]
    pub greedy: bool,
    /// Divisor of the logits: below 1 safer, above 1 wilder [default: the model's, 1.0 for Gemma 4]
    #[arg(long, value_name = "T")]
    pub temperature: Option<f32>,
    /// Keep so many candidates; 0 keeps all [default: the model's, 64 for Gemma 4]
    #[arg(long, value_name = "K")]
    pub top_k: Option<u32>,
    /// Keep the likeliest candidates that make up this much probability [default: the model's, 0.95 for Gemma 4]
    #[arg(long, value_name = "P")]
    pub top_p: Option<f32>,
    /// Drop candidates less likely than this share of the likeliest [default: 0, off]
    #[arg(long, value_name = "P")]
    pub min_p: Option<f32>,
    /// Keep the candidates closest to the expected surprise, up to this probability [default: 1, off]
    #[arg(long, value_name = "P")]
    pub typical: Option<f32>,
    /// Divide the logits of tokens that occurred in prompt or answer [default: 1, off]
    #[arg(long, value_name = "R")]
    pub repetition: Option<f32>,
    /// Take this off the logits of tokens that the answer holds already [default: 0, off]
    #[arg(long, value_name = "X")]
    pub presence: Option<f32>,
    /// Take this off for each time the answer holds them [default: 0, off]
    #[arg(long, value_name = "X")]
    pub frequency: Option<f32>,
    /// Take X off the logit of a token that would repeat a passage of at least --dry-length tokens, and --dry-base times as
    /// much for each token that the passage is longer [default: 0, off; 0.8 is usual]
    #[arg(long, value_name = "X")]
    pub dry: Option<f32>,
    /// Factor for each further token of a repeated passage [default: 1.75]
    #[arg(long, value_name = "B")]
    pub dry_base: Option<f32>,
    /// Tokens that may repeat freely [default: 2]
    #[arg(long, value_name = "N")]
    pub dry_length: Option<u32>,
    /// Let only the last N tokens count for the penalties above; 0 lets all [default: 0]
    #[arg(long, value_name = "N")]
    pub penalty_window: Option<usize>,
    /// Add to the logit of a token id, -100 to 100; may be repeated
    #[arg(long, value_name = "ID=X", value_parser = bias, allow_hyphen_values = true)]
    pub bias: Vec<(u32, f32)>,
    /// The same seed gives the same answer, on every machine [default: a new one each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// What `run` and `chat` share.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Answer")]
pub struct AnswerArgs {
    /// Instructions that stand before the conversation
    #[arg(long, short, value_name = "TEXT")]
    pub system: Option<String>,
    /// Let the model think first, at most N tokens where a number is given (--thinking=200); thoughts are shown apart from the
    /// answer
    #[arg(
        long,
        value_name = "on|off|N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        value_parser = thinking
    )]
    pub thinking: Option<Thought>,
    /// Tokens of an answer at most [default: 2048]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_tokens: Option<usize>,
    /// End the answer before this text; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Let an answer repeat itself until --max-tokens; otherwise it is ended, with finish reason "loop"
    #[arg(long)]
    pub allow_loops: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub form: FormArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub draft: DraftArgs,
}

/// What an answer has to look like.
#[derive(ClapArgs, Clone, Debug, Default)]
#[command(next_help_heading = "Form of the answer")]
#[group(multiple = false)]
pub struct FormArgs {
    /// Answer in JSON that is valid under this schema: a file, or the schema itself
    #[arg(long, value_name = "FILE|JSON")]
    pub json_schema: Option<String>,
    /// Answer with a text that this regular expression matches as a whole
    #[arg(long, value_name = "REGEX")]
    pub regex: Option<String>,
    /// Answer with a text of the grammar in this file: Lark, or GBNF in a file named *.gbnf
    #[arg(long, value_name = "FILE")]
    pub grammar: Option<PathBuf>,
    /// Answer with one of the texts given by this flag; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub choice: Vec<String>,
}

impl FormArgs {
    /// Whether any form is asked for.
    pub fn is_given(&self) -> bool {
        self.json_schema.is_some()
            || self.regex.is_some()
            || self.grammar.is_some()
            || !self.choice.is_empty()
    }
}

/// Speculation.
#[derive(ClapArgs, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Running")]
pub struct DraftArgs {
    /// Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a
    /// number that many, lookup only what the text has said before
    #[arg(long, value_name = "auto|off|N|lookup", default_value = "auto", hide_default_value = true, value_parser = draft)]
    pub draft: Draft,
}

/// Whether to think, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thought {
    /// Not at all.
    Off,
    /// As much as the model likes.
    On,
    /// So many tokens at most.
    Most(usize),
}

impl Thought {
    /// Whether the model is asked to think.
    pub fn is_on(self) -> bool {
        self != Thought::Off
    }

    /// Tokens at most.
    pub fn budget(self) -> Option<usize> {
        if let Thought::Most(tokens) = self { Some(tokens) } else { None }
    }
}

/// `rawloop run`.
#[derive(ClapArgs, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  rawloop run What is the capital of France?
  rawloop run --model e2b.rlp \"Summarize in one sentence:\" < report.txt
  cat mail.txt | rawloop run --system \"Extract name and date as JSON.\" --greedy --json | jq -r .text
  rawloop run --raw --max-tokens 20 \"Once upon a time\"
  rawloop run --json-schema person.json \"Ida is 42 and lives in Rome.\"
  rawloop run --choice good --choice bad \"I love this film!\"

The answer goes to stdout and nothing else does; thoughts, notes and errors go to stderr. Words of the prompt are joined by
spaces. Text on stdin follows them after an empty line, or is the prompt if there are none."
)]
pub struct RunArgs {
    /// Prompt
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// Continue the text as it stands, without the chat format; <|turn> and the like are control tokens then
    #[arg(long, conflicts_with_all = ["system", "thinking"])]
    pub raw: bool,
    /// Print answer, thoughts, calls, finish reason, timings and labels as JSON
    #[arg(long)]
    pub json: bool,
    /// Answer N times, each with the next seed; with --json the answers are a list
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub n: usize,
    /// Print the speed on stderr
    #[arg(long)]
    pub stats: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: ModelChoice,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: ModelArgs,
}

/// `rawloop chat`.
#[derive(ClapArgs, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  rawloop chat
  rawloop chat --model e2b.rlp --thinking --system \"Answer in Portuguese.\"
  rawloop chat --session notes.chat                    go on where it ended, keep it after every answer
  rawloop chat --tools examples/tools.json             let the model run commands, each of which is asked for
  printf 'What is 2 + 2?\\nAnd 3 more?\\n' | rawloop chat --greedy

A line that ends in a backslash goes on in the next one; a line that begins with \"\"\" goes on until one ends with it. \
Ctrl-C stops the answer and keeps the conversation, with the answer as far as it was shown. Ctrl-D leaves. /help lists \
the commands. Answers go to stdout; on a pipe nothing else does."
)]
pub struct ChatArgs {
    /// Neither read nor write the file with earlier inputs
    #[arg(long)]
    pub no_history: bool,
    /// Show answers as they come, without laying out their Markdown
    #[arg(long)]
    pub plain: bool,
    /// Keep the conversation in this file; one that is there is gone on with, in its own settings where no flag says otherwise
    #[arg(long, value_name = "FILE")]
    pub session: Option<PathBuf>,
    /// Print each answer as one line of JSON: text, thoughts, calls with results, finish reason, timings
    #[arg(long)]
    pub json: bool,
    /// Commands that the model may run: declarations in OpenAI's form, each with its command; a call is shown and asked for
    #[arg(long, value_name = "FILE", help_heading = "Tools")]
    pub tools: Option<PathBuf>,
    /// Whether an answer may call tools: none, auto, required, or the name of the one to call [default: auto]
    #[arg(long, value_name = "CHOICE", requires = "tools", help_heading = "Tools")]
    pub tool_choice: Option<String>,
    /// Rounds of calls before the model has to answer
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = positive, help_heading = "Tools")]
    pub tool_rounds: usize,
    /// Run calls of this tool without asking; may be repeated. Without a terminal nobody can be asked, and a call that needs it
    /// is not run
    #[arg(long, value_name = "NAME", requires = "tools", help_heading = "Tools")]
    pub allow: Vec<String>,
    /// Run every call without asking
    #[arg(long, requires = "tools", help_heading = "Tools")]
    pub yes: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: ModelChoice,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: ModelArgs,
}

fn thinking(text: &str) -> Result<Thought, String> {
    match text {
        "on" => Ok(Thought::On),
        "off" => Ok(Thought::Off),
        number => number
            .parse()
            .map(Thought::Most)
            .map_err(|_| "expected on, off or a number of tokens".to_string()),
    }
}

fn draft(text: &str) -> Result<Draft, String> {
    match text {
        "auto" => Ok(Draft::Auto),
        "off" | "0" => Ok(Draft::Off),
        "lookup" => Ok(Draft::Lookup),
        number => match number.parse() {
            Ok(depth) if depth <= DEEPEST => Ok(Draft::Fixed(depth)),
            _ => Err(format!("expected auto, off, lookup or a number from 1 to {DEEPEST}")),
        },
    }
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let (id, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not ID=NUMBER"))?;
    let id = id.trim().parse().map_err(|_| format!("{id:?} is no token id"))?;
    let value = value.trim().parse().map_err(|_| format!("{value:?} is no number"))?;
    Ok((id, value))
}
