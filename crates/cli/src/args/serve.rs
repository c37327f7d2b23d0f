//! Flags of `serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::hub::CatalogArgs;
use super::{DraftArgs, ModelArgs, ModelChoice, SamplingArgs, positive};

/// `rawloop serve`.
#[derive(ClapArgs, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  rawloop serve                                        the small model, on http://127.0.0.1:8080, with a page to talk to it
  rawloop serve --model e2b.rlp --parallel 4
  rawloop serve --host 0.0.0.0 --api-key \"$KEY\"        for other machines

  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}]}'

OpenAI's clients work with the base URL http://127.0.0.1:8080/v1, Ollama's with http://127.0.0.1:8080; /docs lists the \
interface, /metrics has numbers for Prometheus. Ctrl-C or SIGTERM lets answers end for --grace seconds; a second one ends \
at once."
)]
pub struct ServeArgs {
    /// Address to listen on; one that other machines reach needs --api-key
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", help_heading = "Server")]
    pub host: IpAddr,
    /// Port to listen on; 0 takes a free one, which is printed
    #[arg(long, value_name = "N", default_value_t = 8080, help_heading = "Server")]
    pub port: u16,
    /// What requests call the model [default: the model's name]
    #[arg(long, value_name = "ID", help_heading = "Server")]
    pub name: Option<String>,
    /// Requests need this key; may be repeated. Other users of this machine see a command line: --api-key-file hides it
    #[arg(long, value_name = "KEY", help_heading = "Access")]
    pub api_key: Vec<String>,
    /// Requests need one of the keys in this file, one a line
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    pub api_key_file: Option<PathBuf>,
    /// Let everybody in who can reach the address, without a key
    #[arg(long, help_heading = "Access")]
    pub insecure_no_api_key: bool,
    /// Let pages of this origin ask (`https://example.org`, or * for all); may be repeated
    #[arg(long, value_name = "ORIGIN", help_heading = "Access")]
    pub cors_origin: Vec<String>,
    /// Let requests fetch models of the catalog to this machine's disk, as `rawloop pull` does and the page offers it
    #[arg(long, help_heading = "Access")]
    pub pull: bool,
    #[command(flatten, next_help_heading = "Access")]
    #[allow(missing_docs)]
    pub catalog: CatalogArgs,
    /// Read <|turn> and the like in prompts and messages as control tokens; otherwise they are text. Who writes a message can then
    /// end a turn and speak for the system
    #[arg(long, help_heading = "Access")]
    pub allow_special_tokens: bool,
    /// Requests answered at the same time [default: as many as 4 GB of caches hold, at most 8]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Limits")]
    pub parallel: Option<usize>,
    /// Requests that wait for a place; more are told to come back later
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Limits")]
    pub queue: usize,
    /// Seconds for a request, waiting included
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = positive, help_heading = "Limits")]
    pub time_limit: usize,
    /// Tokens of an answer where a request does not say
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = positive, help_heading = "Limits")]
    pub max_tokens: usize,
    /// Megabytes of a request
    #[arg(long, value_name = "MB", default_value_t = 8, value_parser = positive, help_heading = "Limits")]
    pub body_limit: usize,
    /// Megabytes of caches that are kept for prompts that go on with them [default: 256, or four times what a request of the full --ctx takes where that is more]
    #[arg(long, value_name = "MB", help_heading = "Limits")]
    pub cache: Option<usize>,
    /// Prompt tokens in a step that answers others at the same time: fewer keep those even, more answer a new request sooner
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = positive, help_heading = "Limits")]
    pub prompt_share: usize,
    /// Seconds that answers have to end in when the server is told to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 10, help_heading = "Limits")]
    pub grace: u64,
    /// Let the model think where a request does not say
    #[arg(long, help_heading = "Answer")]
    pub thinking: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub draft: DraftArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub choice: ModelChoice,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: ModelArgs,
}
