//! Flags of `rawloop op`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::{ModelArgs, ModelChoice, positive};

/// `rawloop op`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  rawloop op --list
  rawloop op summarize report.txt
  cat mail.txt | rawloop op extract --fields \"name, date, amount:number\"
  rawloop op redact --labels \"person, city\" letter.txt
  rawloop op compare old.txt new.txt --json

The text comes from files, or from stdin where none is named; `-` is stdin among files. A text that is longer than a prompt can \
be is split where paragraphs or sentences end, and the answers are put together; progress goes to stderr. The answer goes to \
stdout. docs/cookbook.md has an example of each.")]
pub struct OpArgs {
    /// What to do; --list names them
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub name: Option<String>,
    /// Files with the text; two for compare
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// List the operations and their options
    #[arg(long)]
    pub list: bool,
    /// Style of summarize (one-line, concise, bullets) or rewrite (formal, friendly, simple ...)
    #[arg(long, value_name = "STYLE", help_heading = "Options of operations")]
    pub style: Option<String>,
    /// Language of translate
    #[arg(long, value_name = "LANGUAGE", help_heading = "Options of operations")]
    pub to: Option<String>,
    /// Labels of classify, entities or redact, with commas between
    #[arg(long, value_name = "LABELS", help_heading = "Options of operations")]
    pub labels: Option<String>,
    /// Fields of extract, with types or not: "name, age:integer, tags:list"
    #[arg(long, value_name = "FIELDS", help_heading = "Options of operations", conflicts_with = "schema")]
    pub fields: Option<String>,
    /// File with the JSON schema of what extract gives
    #[arg(long, value_name = "FILE", help_heading = "Options of operations")]
    pub schema: Option<PathBuf>,
    /// Question of answer
    #[arg(long, value_name = "TEXT", help_heading = "Options of operations")]
    pub question: Option<String>,
    /// Most keywords
    #[arg(long, value_name = "N", help_heading = "Options of operations")]
    pub count: Option<String>,
    /// Tokens of a piece at most [default: what the context holds, at most what the operation is good for]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub piece_tokens: Option<usize>,
    /// Tokens of an answer at most [default: the operation's]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub max_tokens: Option<usize>,
    /// Print the answer with what it took as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: ModelChoice,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: ModelArgs,
}
