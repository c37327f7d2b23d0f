//! What a backend has read and where its time went.
//!
//! Bytes are counted as kernels are called: a few additions a stage. Times are taken only while they are asked for.

use std::time::Duration;

/// Bytes read since the backend was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Weights, multipliers, rows of gathered tables; the drafter's too.
    pub weight_bytes: u64,
    /// Keys and values, once for each token that looks at them.
    pub kv_bytes: u64,
    /// Tokens through the prefill program.
    pub prefill_tokens: u64,
    /// Tokens through the full program.
    pub full_tokens: u64,
}

/// Stage kinds, named as in the program; `final_norm` is part of the last `ple_projection`, `pick` of `head`.
pub const STAGE_KINDS: [&str; 10] = [
    "embed",
    "per_layer_inputs",
    "norm_qkv",
    "attention",
    "output",
    "norm_gate_up",
    "down",
    "ple_gate",
    "ple_projection",
    "head",
];

/// Index into [`STAGE_KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Embed,
    PerLayerInputs,
    NormQkv,
    Attention,
    Output,
    NormGateUp,
    Down,
    PleGate,
    PleProjection,
    Head,
}

/// What tells the time: since any fixed moment, by the wall or by what a thread has used.
pub type Clock = fn() -> Duration;

/// Time by stage kind.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    clock: Option<Clock>,
    last: Duration,
    times: [Duration; STAGE_KINDS.len()],
}

impl Profile {
    /// Starts anew by a clock, or stops.
    pub fn set(&mut self, clock: Option<Clock>) {
        *self = Profile { clock, ..Profile::default() };
    }

    /// A step begins: the time since the last stage was somebody else's.
    pub fn begin(&mut self) {
        if let Some(clock) = self.clock {
            self.last = clock();
        }
    }

    /// A stage ends.
    pub fn lap(&mut self, kind: Kind) {
        if let Some(clock) = self.clock {
            let now = clock();
            self.times[kind as usize] += now.saturating_sub(self.last);
            self.last = now;
        }
    }

    /// What was measured so far, in the order of [`STAGE_KINDS`].
    pub fn times(&self) -> [Duration; STAGE_KINDS.len()] {
        self.times
    }
}
