//! Flags of the commands that deal in models by name: `pull`, `list`, `info`, `rm`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Where names come from.
#[derive(ClapArgs, Clone, Debug)]
pub struct CatalogArgs {
    /// More models, or others of the same name: a file as docs/hub.md describes it
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
}

/// `rawloop pull`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  rawloop pull gemma-4-e2b
  rawloop run --model gemma-4-e2b \"Why is the sky blue?\"
  rawloop pull gemma-4-e2b --dry-run          what it would fetch, and whether it fits

It may be interrupted at any moment: the same command goes on from what is there. Downloads are checked against their hashes \
and lie in the cache that Python's huggingface_hub keeps (HF_HOME); packs lie in RAWLOOP_PACKS. HF_TOKEN, HF_ENDPOINT, \
HF_HUB_OFFLINE, HTTPS_PROXY and NO_PROXY mean what they always mean.")]
pub struct PullArgs {
    /// Name of the model (rawloop list shows them)
    pub id: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub catalog: CatalogArgs,
    /// Branch, tag or commit instead of the catalog's
    #[arg(long, value_name = "REV")]
    pub revision: Option<String>,
    /// Leave out the drafter
    #[arg(long)]
    pub no_assistant: bool,
    /// Another server with the hub's paths
    #[arg(long, value_name = "URL")]
    pub mirror: Option<String>,
    /// A file with the token, instead of HF_TOKEN
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Ask no server: what is in the cache has to do
    #[arg(long)]
    pub offline: bool,
    /// Remove the files that this program fetched once the pack is there
    #[arg(long)]
    pub drop_checkpoint: bool,
    /// Say what would be fetched, and fetch nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print what happens as lines of JSON
    #[arg(long)]
    pub json: bool,
    /// No progress, only the result
    #[arg(long, short)]
    pub quiet: bool,
}

/// `rawloop list`.
#[derive(ClapArgs, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub catalog: CatalogArgs,
    /// The list as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rawloop info`.
#[derive(ClapArgs, Debug)]
pub struct InfoArgs {
    /// Name of the model
    pub id: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub catalog: CatalogArgs,
    /// Everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// `rawloop rm`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  rawloop rm gemma-4-e2b
  rawloop rm gemma-4-e2b --checkpoint --yes

What was in the download cache before this program came, and what a link leads to, is never removed.")]
pub struct RmArgs {
    /// Name of the model
    pub id: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub catalog: CatalogArgs,
    /// Remove the files that this program fetched for it too
    #[arg(long)]
    pub checkpoint: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}
