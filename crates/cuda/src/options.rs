//! How a CUDA backend is opened, and why it may not be.

use std::path::PathBuf;

use rawloop_pack::PackError;

/// Positions of a sequence where nothing else is said.
pub const DEFAULT_CONTEXT: usize = 8192;

/// How K and V are stored (contract rule 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KvFormat {
    /// IEEE single.
    F32,
    /// IEEE half, nearest even, saturating.
    #[default]
    F16,
    /// int8 with one f32 scale per position and KV head.
    I8,
}

impl KvFormat {
    /// `f32`, `f16`, `i8`.
    pub const fn name(self) -> &'static str {
        match self {
            KvFormat::F32 => "f32",
            KvFormat::F16 => "f16",
            KvFormat::I8 => "i8",
        }
    }

    /// Bytes of one value.
    pub(crate) const fn value_bytes(self) -> usize {
        match self {
            KvFormat::F32 => 4,
            KvFormat::F16 => 2,
            KvFormat::I8 => 1,
        }
    }
}

/// Where the table of per-layer embeddings lies: a token reads one row of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TablePlace {
    /// In pinned host memory; the card fetches the row while it computes.
    #[default]
    Host,
    /// On the card.
    Device,
}

/// How gate, up and down of an FFN run for one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ffn {
    /// Gate and up are one kernel, down another.
    #[default]
    Apart,
    /// One kernel (`kernels/layer_ffn.cu`), all blocks of which add to the same sums.
    AtOnce,
    /// The same, blocks in turns add to four copies of the sums.
    InCopies,
    /// One kernel of clusters (`kernels/layer_ffn_cluster.cu`), whose blocks add up before they add to the sums.
    InClusters,
}

/// Ways of running that are being measured: each changes times and no result. The default is what is shipped.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trial {
    /// Another build of the kernels (`scripts/build-cuda-trials.sh`) in place of the embedded one.
    pub kernels: Option<PathBuf>,
    /// The last token of a prompt runs all layers by itself, not only those that its prompt's pass does not.
    pub last_apart: bool,
    /// In a prompt's attention scores and weighted sums are made by warps of their own, for heads of 64 and 256 values.
    pub attend_apart: bool,
    /// A prompt's projection to the per-layer inputs brings the next lanes of its sums while it multiplies.
    pub project_ahead: bool,
    /// Attention of a prompt that does not reach every multiprocessor has half of the rows a block, for heads of 64 and 256 values; this goes before `attend_apart`.
    pub attend_fewer: bool,
    /// Kernels of a prompt's pass start as the pass's list is made, not when all of it has been.
    pub start_early: bool,
    /// Columns of a prompt enter four at a time.
    pub enter_by_four: bool,
    /// Bytes of weights of a block of the grid that come at once at most; above that they come through rings.
    pub whole: Option<usize>,
    /// The two linears of a per-layer embedding are kernels of their own.
    pub ple_apart: bool,
    /// 2 to 8 columns run in kernels whose threads have values of all columns, one for both linears of a per-layer embedding, and read the head once.
    pub wide_short: bool,
    /// In these the blocks of a cluster enter a column each and put its codes to each other.
    pub wide_in_clusters: bool,
    /// How an FFN runs. The two ways in between keep `down` on the card a second time, in an order of their own.
    pub ffn: Ffn,
    /// No two blocks of gate and up lie on one multiprocessor; nor, before an FFN of one kernel that keeps its own apart, of the output projection.
    pub alone: bool,
    /// Behind 512 positions full layers merge attention in a kernel of its own, for any number of columns.
    pub long_merge: bool,
    /// Behind 512 positions full layers attend with as many heads of a K/V head in a block of the grid as leave no multiprocessor without work.
    pub long_attention: bool,
    /// These two at any length, with so many heads a block of the grid at most and in small pieces, so that a test reaches all of them with few tokens.
    pub long_always: Option<usize>,
    /// Blocks of a cluster where a layer's attention is one kernel of clusters, from the entry to the output projection; 0: three kernels.
    pub attention_at_once: usize,
    /// There, keys and values come behind q, k and v, and a block takes less shared memory.
    pub attention_small: bool,
    /// Stages of a run write clocks down, in a build that has them.
    pub stamps: bool,
}

/// How to open a CUDA backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaOptions {
    /// Number of the device, as the driver counts them.
    pub device: usize,
    /// Storage of K/V.
    pub kv: KvFormat,
    /// Positions a sequence can hold. Memory for all of them is taken when a sequence is made.
    pub context: usize,
    /// Where the per-layer embeddings lie.
    pub per_layer_embeddings: TablePlace,
    /// Whether drafts and draws are made on the card too; where not, nothing is drafted and logits go to the host to be drawn from.
    pub speculates: bool,
    /// What is being measured.
    pub trial: Trial,
}

impl Default for CudaOptions {
    fn default() -> Self {
        CudaOptions {
            device: 0,
            kv: KvFormat::default(),
            context: DEFAULT_CONTEXT,
            per_layer_embeddings: TablePlace::default(),
            speculates: true,
            trial: Trial::default(),
        }
    }
}

/// A CUDA backend cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// There is no driver or no device.
    #[error("no CUDA device can be used: {0}; use --backend cpu")]
    NoDevice(String),
    /// The driver refused something.
    #[error("CUDA: {0}")]
    Driver(#[from] DriverError),
    /// A tensor is missing or has another shape.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A context that the model cannot have.
    #[error(
        "a context of {context} positions is not possible; use 1 to {limit}, which the model was trained for"
    )]
    Context {
        /// What was asked for.
        context: usize,
        /// What the model was trained for.
        limit: usize,
    },
    /// The model has a shape that the kernels do not run.
    #[error("{pack}: {what}; the CUDA backend does not run this, use --backend cpu")]
    Shape {
        /// The pack.
        pack: String,
        /// What it is.
        what: String,
    },
}

/// What the driver said, and what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} failed: {why}")]
pub struct DriverError {
    /// What was asked for.
    pub what: String,
    /// The driver's name of the error and its description.
    pub why: String,
}
