//! How a wgpu backend is opened, and why it may not be.

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

    /// Values in a word of 4 bytes.
    pub(crate) const fn per_word(self) -> usize {
        match self {
            KvFormat::F32 => 1,
            KvFormat::F16 => 2,
            KvFormat::I8 => 4,
        }
    }
}

/// Where the table of per-layer embeddings lies: a token reads one row of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TablePlace {
    /// In the mapped pack; the host makes a token's row, so it must know the token before its work is submitted.
    Host,
    /// On the adapter, in as many buffers as its limits ask for: several tokens can be submitted at once.
    #[default]
    Device,
}

/// Which stages share a dispatch, and how those of one column read. Nothing of it changes a byte; it is here so that a run can be timed with and
/// without each (docs/kernels.md has what they brought).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// q, k and v in one dispatch.
    pub qkv: bool,
    /// With one column: joins, norms and quantisation in the workgroups of the linear behind them.
    pub entries: bool,
    /// With one column: head norms, rope and the storing of K/V in attention.
    pub heads: bool,
    /// With one column and at most so many blocks of 64 keys: their merge in the output projection, each of whose workgroups reads all of
    /// them then; 64 at most.
    pub merge: usize,
    /// With one column: query heads of a workgroup of attention, 2 at most, in which four threads share a key and values are under way before
    /// the scores are there. With 0 a workgroup has four heads, a thread a key of one of them, and values are read behind the scores.
    pub spread: usize,
    /// With one column: linears and merges load what they can at once, and before what it waits for.
    pub early: bool,
    /// With one column: entries likewise.
    pub early_entries: bool,
}

impl Fold {
    /// Every stage in a dispatch of its own.
    pub const NONE: Fold = Fold {
        qkv: false,
        entries: false,
        heads: false,
        merge: 0,
        spread: 0,
        early: false,
        early_entries: false,
    };
    /// All of it.
    pub const ALL: Fold = Fold {
        qkv: true,
        entries: true,
        heads: true,
        merge: 16,
        spread: 2,
        early: true,
        early_entries: true,
    };

    /// What is fastest where `fma` rounds once, as on the one card that was measured. Folded entries and merges lost there: a dispatch costs less than what
    /// each workgroup of the linear behind does again (docs/kernels.md has the rates).
    pub const CARD: Fold = Fold { entries: false, merge: 0, ..Fold::ALL };

    /// Elsewhere, which is software: floats cost more than dispatches.
    pub const SOFTWARE: Fold = Fold { qkv: true, ..Fold::NONE };

    /// The choice of an adapter.
    pub(crate) fn of(native_fused: bool) -> Fold {
        if native_fused { Fold::CARD } else { Fold::SOFTWARE }
    }
}

/// How to open a wgpu backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WgpuOptions {
    /// Number of an adapter in [`crate::adapters`]' list or a part of its name; the first that is no software where none is named.
    pub adapter: Option<String>,
    /// Storage of K/V.
    pub kv: KvFormat,
    /// Positions a sequence can hold. Memory for all of them is taken when a sequence is made.
    pub context: usize,
    /// Where the per-layer embeddings lie.
    pub per_layer_embeddings: TablePlace,
    /// Bytes that a binding may have, where less than the adapter's limit is wanted: larger tensors lie in parts then.
    pub binding: Option<u64>,
    /// Whether an adapter that shares the host's memory reads weights where the pack is mapped, as far as its driver can; elsewhere, and
    /// where this is false, they are copied.
    pub in_place: bool,
    /// Which stages share a dispatch, where the adapter's limits allow it; [`Fold::CARD`] or [`Fold::SOFTWARE`] where nothing is said.
    pub fold: Option<Fold>,
}

impl Default for WgpuOptions {
    fn default() -> Self {
        WgpuOptions {
            adapter: None,
            kv: KvFormat::default(),
            context: DEFAULT_CONTEXT,
            per_layer_embeddings: TablePlace::default(),
            binding: None,
            in_place: true,
            fold: None,
        }
    }
}

/// What a device said instead of doing its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The device is gone: unplugged, reset by its driver, or stopped for taking too long.
    #[error("the device was lost: {0}; what was said so far is kept, open the backend again")]
    Lost(String),
    /// Its memory is used up.
    #[error("the device is out of memory ({0}); use a smaller --ctx, --kv i8 or --ple host")]
    OutOfMemory(String),
    /// A call was not valid, which is a mistake of this program.
    #[error("the device refused a call: {0}")]
    Validation(String),
    /// Anything else.
    #[error("the device failed: {0}")]
    Internal(String),
}

/// A wgpu backend cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum WgpuError {
    /// There is no adapter of that name or number, or none at all.
    #[error("no adapter {wanted}; there are: {there}; use --backend cpu where there is none")]
    NoAdapter {
        /// What was asked for.
        wanted: String,
        /// Names of those that there are.
        there: String,
    },
    /// The adapter does not give a device.
    #[error("{adapter} gives no device: {why}")]
    NoDevice {
        /// Name of the adapter.
        adapter: String,
        /// What it said.
        why: String,
    },
    /// The device failed while the model was copied to it.
    #[error("wgpu: {0}")]
    Gpu(#[from] GpuError),
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
    /// The model does not fit the adapter's limits.
    #[error("{pack}: {what}; the wgpu backend does not run this here, use --backend cpu")]
    Shape {
        /// The pack.
        pack: String,
        /// What it is.
        what: String,
    },
}
