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

/// What is measured or tested in place of what ships: each changes times and no result. The default is what ships.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trial {
    /// Another build of the kernels (`scripts/build-cuda-trials.sh`) in place of the embedded one.
    pub kernels: Option<PathBuf>,
    /// Bytes of shared memory that a block has at most, as on a card with less.
    pub shared: Option<usize>,
    /// Multiprocessors that grids are cut for, as on a card with fewer.
    pub multiprocessors: Option<usize>,
    /// Neither clusters nor early starts, as on a card below sm_90.
    pub no_clusters: bool,
    /// Bytes of weights of a block of the grid that come at once at most; above that they come through rings.
    pub whole: Option<usize>,
    /// The two linears of a per-layer embedding are kernels of their own, and so is down.
    pub ple_apart: bool,
    /// Gate and up are a kernel, down another.
    pub ffn_apart: bool,
    /// A layer's attention is three kernels.
    pub attention_apart: bool,
    /// Blocks of a cluster where a layer's attention is one kernel, in place of 8.
    pub cluster: Option<usize>,
    /// What full layers do behind 512 positions, at any length, with so many heads a block of the grid at most and in small pieces, so that a test reaches all of it with few tokens.
    pub long_always: Option<usize>,
    /// A prompt's linears are products of warps, as on a card that has none of warpgroups.
    pub bulk_by_warps: bool,
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
    /// What is measured or tested.
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
