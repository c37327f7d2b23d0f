//! What Transformers said in float32, as `goldens/make.py` wrote it (formats: goldens/README.md).

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A golden file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// Not readable.
    #[error("{path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not the format.
    #[error("{path}: {error}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
    /// Made from another checkpoint.
    #[error(
        "{path} was made from a checkpoint with sha-256 {golden}, this one has {found}: remake the goldens"
    )]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What the golden names.
        golden: String,
        /// What was found.
        found: String,
    },
}

/// One held-out question and the greedy answer.
#[derive(Clone, Debug, Deserialize)]
pub struct Transcript {
    /// Task of the generator.
    pub task: String,
    /// Rendered prompt.
    pub prompt: String,
    /// Its ids.
    pub prompt_ids: Vec<u32>,
    /// Greedy ids, the stop id included.
    pub output_ids: Vec<u32>,
    /// Their text.
    pub text: String,
    /// What a right answer contains.
    pub key: String,
    /// Whether Transformers' answer contains it.
    pub ok: bool,
}

/// `transcripts.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Transcripts {
    /// Of the checkpoint's model.safetensors.
    pub checkpoint_sha256: String,
    /// Of its config.json.
    pub config_sha256: String,
    /// Version that answered.
    pub transformers: String,
    /// Answers that are right.
    pub right: usize,
    /// The questions.
    pub transcripts: Vec<Transcript>,
}

/// One prompt of `meta.json`, with its hidden states in `files`.
#[derive(Clone, Debug, Deserialize)]
pub struct HiddenPrompt {
    /// Name of the prompt.
    pub name: String,
    /// Prompt ids.
    pub ids: Vec<u32>,
    /// 32 greedy ids behind them.
    pub continuation: Vec<u32>,
    /// Margin between first and second logit of each.
    pub margins: Vec<f32>,
    /// Rows whose logits are kept.
    pub logit_rows: Vec<usize>,
    /// The safetensors files beside meta.json.
    pub files: Vec<String>,
}

/// `meta.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Meta {
    /// Of the checkpoint's model.safetensors.
    pub checkpoint_sha256: String,
    /// Of its config.json.
    pub config_sha256: String,
    /// The prompts.
    pub prompts: Vec<HiddenPrompt>,
}

/// One step of `drafter.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct DraftStep {
    /// Accepted tokens; the target has seen all but the last.
    pub accepted: usize,
    /// What the drafter says.
    pub drafts: Vec<u32>,
    /// Margin of each.
    pub margins: Vec<f32>,
}

/// One transcript of `drafter.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct DraftTranscript {
    /// Index into the transcripts; names its tensors.
    pub transcript: usize,
    /// Prompt and answer.
    pub ids: Vec<u32>,
    /// Steps along them.
    pub steps: Vec<DraftStep>,
}

/// `drafter.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Drafts {
    /// Of the checkpoint's model.safetensors.
    pub checkpoint_sha256: String,
    /// Of its config.json.
    pub config_sha256: String,
    /// Of the assistant's model.safetensors.
    pub assistant_sha256: String,
    /// The transcripts.
    pub transcripts: Vec<DraftTranscript>,
}

/// Reads a golden file.
///
/// # Errors
/// Missing, or not its format.
pub fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, GoldenError> {
    let bytes = std::fs::read(path).map_err(|error| GoldenError::Read { path: path.into(), error })?;
    serde_json::from_slice(&bytes).map_err(|error| GoldenError::Parse { path: path.into(), error })
}

/// Checks that a golden belongs to the checkpoint whose model.safetensors has the hash `found`.
///
/// # Errors
/// It does not.
pub fn check_hash(path: &Path, golden: &str, found: &str) -> Result<(), GoldenError> {
    if golden == found {
        return Ok(());
    }
    Err(GoldenError::Checkpoint { path: path.into(), golden: golden.into(), found: found.into() })
}

/// The repository's root, for tests that read its data.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
