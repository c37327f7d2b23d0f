//! What can go wrong between a checkpoint and a pack.
//!
//! A message names the file, the tensor or field, what was expected and what was found: the reader of it has the
//! checkpoint in hand and nothing else.

use std::io;
use std::path::{Path, PathBuf};

use rawloop_pack::PackError;
use rawloop_spec::Unsupported;
use rawloop_tokenizer::BakeError;

/// A conversion that did not happen. No pack is left behind.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// A file cannot be read or written.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file of the checkpoint folder is not there.
    #[error("{}: not found: {need}", file.display())]
    NoFile {
        /// The file that was looked for.
        file: PathBuf,
        /// What it is needed for.
        need: &'static str,
    },
    /// Not JSON.
    #[error("{}: broken JSON: {source}", file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// Where the parser stopped.
        source: serde_json::Error,
    },
    /// A field of a JSON file is missing or holds something else.
    #[error("{}: {field} is {found}, expected {expected}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// Path of the field.
        field: String,
        /// What it holds; `missing` where it is not there.
        found: String,
        /// What it should hold.
        expected: String,
    },
    /// A shape or option that the engine does not run.
    #[error("{}: {source}", file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The field.
        source: Unsupported,
    },
    /// A safetensors file or shard index whose structure is broken.
    #[error("{}: {what}", file.display())]
    Structure {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A tensor that is not what the configuration says.
    #[error("{}: tensor {tensor}: expected {expected}, found {found}", file.display())]
    Tensor {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// What the configuration asks for.
        expected: String,
        /// What the file holds.
        found: String,
    },
    /// Tensors that the configuration asks for and the checkpoint lacks.
    #[error("{}: {count} expected tensors are missing: {names}", folder.display())]
    Missing {
        /// The checkpoint.
        folder: PathBuf,
        /// How many.
        count: usize,
        /// The first of them.
        names: String,
    },
    /// Tensors that the configuration has no place for.
    #[error("{}: {count} tensors have no place in the model that config.json describes: {names}", folder.display())]
    Surplus {
        /// The checkpoint.
        folder: PathBuf,
        /// How many.
        count: usize,
        /// The first of them.
        names: String,
    },
    /// Linears that share one input quantisation have different input scales (contract rule 4).
    #[error("{}: {who} share one input quantisation, but their input_activation_scale differ: {values}", folder.display())]
    UnequalScales {
        /// The checkpoint.
        folder: PathBuf,
        /// The linears' kinds.
        who: &'static str,
        /// Tensor and value of each.
        values: String,
    },
    /// The tokenizer cannot be baked.
    #[error("{}: {source}", file.display())]
    Tokenizer {
        /// tokenizer.json.
        file: PathBuf,
        /// The reason.
        source: BakeError,
    },
    /// The pack cannot be written.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The target of a synthetic checkpoint holds something already.
    #[error("{}: exists and is not empty; name a new folder or remove it", .0.display())]
    Occupied(PathBuf),
    /// Options that contradict each other.
    #[error("{0}")]
    Options(String),
    /// Asked to stop.
    #[error("cancelled; nothing was written")]
    Cancelled,
}

impl ConvertError {
    pub(crate) fn io(file: &Path) -> impl FnOnce(io::Error) -> ConvertError + use<'_> {
        move |source| ConvertError::Io { file: file.into(), source }
    }

    pub(crate) fn tensor(
        file: &Path,
        tensor: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> ConvertError {
        ConvertError::Tensor {
            file: file.into(),
            tensor: tensor.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// The first five of `names` and how many more there are.
pub(crate) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}
