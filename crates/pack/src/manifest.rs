//! The manifest: what a pack says about itself, as JSON.
//!
//! Field names in the file are the names here. Unknown fields are refused: a reader that does not know a field cannot know
//! whether it matters, and a change that old readers may ignore is not worth a field.

use std::collections::BTreeMap;

use rawloop_spec::{Class, DrafterGeometry, Format, Geometry, TensorSpec};
use serde::{Deserialize, Serialize};

/// Name of the blob with the tokenizer table (format: `crates/tokenizer`).
pub const TOKENIZER: &str = "tokenizer";
/// Name of the blob with the chat template, UTF-8 text.
pub const CHAT_TEMPLATE: &str = "chat_template";
/// Name of the blob with the licence of the weights, UTF-8 text.
pub const LICENSE: &str = "license";

/// Everything a pack says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The header's version again.
    pub format_version: u32,
    /// What it is.
    pub model: ModelInfo,
    /// Shape of the model.
    pub geometry: Geometry,
    /// Shape of its drafter, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafter: Option<DrafterGeometry>,
    /// How to sample where the user does not say.
    pub generation: Generation,
    /// Where the weights come from.
    pub provenance: Provenance,
    /// The tensors: exactly the registry's, in its order.
    pub tensors: Vec<TensorEntry>,
    /// Other contents, in file order.
    pub blobs: Vec<BlobEntry>,
}

impl Manifest {
    /// The entry of a tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorEntry> {
        self.tensors.iter().find(|entry| entry.name == name)
    }

    /// The entry of a blob.
    pub fn blob(&self, name: &str) -> Option<&BlobEntry> {
        self.blobs.iter().find(|entry| entry.name == name)
    }
}

/// What a pack is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    /// Name for listings and answers of servers.
    pub name: String,
    /// Whether the weights are made up; shown wherever a result is shown.
    pub synthetic: bool,
    /// Quantisation profile of the checkpoint.
    pub profile: String,
    /// Arithmetic the weights were made for: `exact`.
    pub arithmetic: String,
}

/// Defaults of text generation, from the checkpoint's generation_config.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generation {
    /// Token before the first.
    pub bos: Option<u32>,
    /// Token for padding.
    pub pad: Option<u32>,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// Sample, or take the largest logit.
    pub do_sample: bool,
    /// Divisor of the logits; 0 is greedy.
    pub temperature: f32,
    /// Candidates kept; 0 keeps all.
    pub top_k: u32,
    /// Probability mass kept, 0 to 1.
    pub top_p: f32,
    /// Tokens that are never picked.
    pub suppress: Vec<u32>,
}

/// Where the weights come from. Nothing here depends on when or where the pack was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Repository or other origin.
    pub source: String,
    /// Revision of it.
    pub revision: Option<String>,
    /// SPDX expression of the weights' licence.
    pub license: String,
    /// Whom to credit.
    pub credit: String,
    /// Name and version of the converter.
    pub converter: String,
    /// The files that were read.
    pub files: Vec<SourceFile>,
    /// Tensors of the checkpoint that are not in the pack, counted by reason (`vision`, `audio`, `dead_kv`).
    pub skipped: BTreeMap<String, u64>,
    /// Weight scales that are 0.
    pub zero_scales: u64,
    /// Anything else worth keeping.
    pub notes: Vec<String>,
}

/// A file the converter read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// Name without a path.
    pub name: String,
    /// Length.
    pub bytes: u64,
    /// SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorEntry {
    /// Name.
    pub name: String,
    /// Storage.
    pub format: Format,
    /// Rows, 1 for a vector.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// What it is to a token.
    pub class: Class,
    /// Offset in the file.
    pub offset: u64,
    /// Stored bytes.
    pub bytes: u64,
    /// SHA-256 of the stored bytes, 64 lower-case hexadecimal digits.
    pub sha256: String,
}

impl TensorEntry {
    /// The entry without its place.
    pub fn spec(&self) -> TensorSpec {
        TensorSpec {
            name: self.name.clone(),
            format: self.format,
            rows: self.rows,
            columns: self.columns,
            class: self.class,
        }
    }
}

/// One blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobEntry {
    /// Name.
    pub name: String,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// What the writer cannot know by itself: the manifest without its tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// What the pack is.
    pub model: ModelInfo,
    /// Shape of the model.
    pub geometry: Geometry,
    /// Shape of the drafter, where there is one.
    pub drafter: Option<DrafterGeometry>,
    /// Sampling defaults.
    pub generation: Generation,
    /// Origin.
    pub provenance: Provenance,
}
