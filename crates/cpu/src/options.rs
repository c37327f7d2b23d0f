//! How a CPU backend is opened, and why it may not be.

use rawloop_pack::PackError;

use crate::kv::KvFormat;

/// Positions of a sequence where nothing else is said.
pub const DEFAULT_CONTEXT: usize = 8192;
/// Threads that make sense on any machine this was measured on.
pub const MOST_THREADS: usize = 1024;

/// How to open a CPU backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuOptions {
    /// Threads taking part, the caller's included; none for one on each big core that the process may use (its affinity and its
    /// cgroup's quota count, see [`topology`](crate::topology)).
    pub threads: Option<usize>,
    /// Whether each thread of the team stays on a core of its own, biggest first, where the system allows it. The caller's own
    /// thread is left as it is; the biggest core is kept free for it.
    pub affinity: bool,
    /// Name of the kernel table; none for the fastest this CPU can run.
    pub kernels: Option<String>,
    /// Storage of K/V.
    pub kv: KvFormat,
    /// Positions a sequence can hold. Memory for them is reserved, and used as the sequence grows.
    pub context: usize,
}

impl Default for CpuOptions {
    fn default() -> Self {
        CpuOptions {
            threads: None,
            affinity: false,
            kernels: None,
            kv: KvFormat::default(),
            context: DEFAULT_CONTEXT,
        }
    }
}

/// A CPU backend cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// A tensor is missing or has another shape.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The pack's layers are arranged in a way that nothing was trained for.
    #[error("{pack}: layer {layer} owns K/V behind layer {before}, which does not; owners must come first")]
    Owners {
        /// The pack.
        pack: String,
        /// The owner.
        layer: usize,
        /// The first layer without K/V of its own.
        before: usize,
    },
    /// No such table, or not on this CPU.
    #[error("no kernels called {name:?} run on this CPU; there are {available}")]
    Kernels {
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// A number that cannot be.
    #[error("{threads} threads are not possible; use 1 to {MOST_THREADS}")]
    Threads {
        /// What was asked for.
        threads: usize,
    },
    /// A context that the model or the machine cannot have.
    #[error(
        "a context of {context} positions is not possible; use 1 to {limit}, which the model was trained for"
    )]
    Context {
        /// What was asked for.
        context: usize,
        /// What the model was trained for.
        limit: usize,
    },
    /// The system refused a thread.
    #[error("cannot start {threads} threads: {source}")]
    Team {
        /// How many.
        threads: usize,
        /// Why.
        source: std::io::Error,
    },
}
