//! What flows between the stages of a pass, for its widest case; allocated once.
//!
//! Every buffer is `[tokens x width]`, dense for the pass that runs: a pass of `t` tokens uses the first `t * width` elements.
//! Prefill passes are wide and pass the lower layers only, full passes have at most [`FULL_COLUMNS`] tokens; a buffer is as
//! large as the larger of its two uses. Pages that no pass touches are never handed out by the system.

use rawloop_spec::Geometry;

use crate::columns::{FULL_COLUMNS, PREFILL_COLUMNS};
use crate::crew::ScratchSizes;
use crate::cut::MOST_ACCUMULATORS;
use crate::kernels::{Best, HeadInput};
use crate::stages::by_keys::KeySplit;
use crate::stages::head::HEAD_TOKENS;

/// Quantised inputs of a linear: codes and the sum of each token's.
#[derive(Default)]
pub(crate) struct Codes {
    pub codes: Vec<i8>,
    pub sums: Vec<i32>,
}

/// Buffers of a pass.
pub(crate) struct Workspace {
    /// Residual stream `[tokens x hidden]`.
    pub hidden: Vec<f32>,
    /// After the final norm `[tokens x hidden]`, picks first, then logits.
    pub normed: Vec<f32>,
    /// Per-layer inputs `[tokens x layers of the pass x ple_width]`.
    pub per_layer: Vec<f32>,
    /// Rope rows, sliding and full: `[tokens x pairs]`.
    pub rope: [RopeRows; 2],
    /// Input of q, k, v, of gate and up, of the PLE gate `[tokens x hidden]`.
    pub input: Codes,
    /// Output codes of q `[tokens x heads x head_dim]`.
    pub q: Vec<i8>,
    /// Output codes of k and v `[tokens x kv_heads x head_dim]`.
    pub k: Vec<i8>,
    pub v: Vec<i8>,
    /// Keys and values before they are stored `[tokens x kv_heads x head_dim]`.
    pub keys: Vec<f32>,
    pub values: Vec<f32>,
    /// Attention result as o's input `[tokens x heads x head_dim]`.
    pub attended: Codes,
    /// Attention split by keys.
    pub key_split: KeySplit,
    /// FFN product as down's input `[tokens x ffn]`.
    pub ffn: Codes,
    /// PLE product as the projection's input `[tokens x ple_width]`.
    pub product: Codes,
    /// Output codes of o, down, PLE projection `[tokens x hidden]`.
    pub output: Vec<i8>,
    /// Final hidden states of up to [`HEAD_TOKENS`] columns as limbs.
    pub head: HeadInput,
    /// Best row of each of those columns.
    pub best: Vec<Best>,
    /// What fused stages would not keep; there once something was tapped.
    pub kept: Option<Kept>,
}

/// Cosines and sines.
#[derive(Default)]
pub(crate) struct RopeRows {
    pub cosine: Vec<f32>,
    pub sine: Vec<f32>,
}

/// Values inside of fused stages, of one token.
#[derive(Default)]
pub(crate) struct Kept {
    pub query: Vec<f32>,
    pub attention: Vec<f32>,
    pub gate: Vec<i8>,
    pub up: Vec<i8>,
    pub ple_gate: Vec<i8>,
    pub logits: Vec<f32>,
}

/// The largest widths of a model.
struct Widths {
    queries: usize,
    kv: usize,
    head_dim: usize,
    ffn: usize,
}

impl Widths {
    fn of(geometry: &Geometry) -> Widths {
        let head_dim = geometry.layers.iter().map(|layer| layer.head_dim).max().unwrap_or(0);
        let ffn = geometry.layers.iter().map(|layer| layer.ffn).max().unwrap_or(0);
        Widths { queries: geometry.heads * head_dim, kv: geometry.kv_heads * head_dim, head_dim, ffn }
    }
}

impl Workspace {
    /// Buffers for a model and a team.
    pub fn new(geometry: &Geometry, threads: usize) -> Workspace {
        let Widths { queries, kv, head_dim, .. } = Widths::of(geometry);
        let Geometry { hidden, ple_width, .. } = *geometry;
        let (wide, narrow) = (PREFILL_COLUMNS, FULL_COLUMNS);
        let own = geometry.own_layers();
        let ffn = geometry.layers.iter().enumerate();
        let ffn =
            ffn.map(|(layer, shape)| if layer < own { wide } else { narrow } * shape.ffn).max().unwrap_or(0);
        let codes = |count: usize, tokens: usize| Codes { codes: vec![0; count], sums: vec![0; tokens] };
        let rope = |pairs: usize| RopeRows { cosine: vec![0.0; wide * pairs], sine: vec![0.0; wide * pairs] };
        Workspace {
            hidden: vec![0.0; wide * hidden],
            normed: vec![0.0; narrow * hidden],
            per_layer: vec![0.0; ple_width * (narrow * geometry.layers.len()).max(wide * (own - 1))],
            rope: [rope(geometry.rope_sliding.pairs), rope(geometry.rope_full.pairs)],
            input: codes(wide * hidden, wide),
            q: vec![0; wide * queries],
            k: vec![0; wide * kv],
            v: vec![0; wide * kv],
            keys: vec![0.0; wide * kv],
            values: vec![0.0; wide * kv],
            attended: codes(wide * queries, wide),
            ffn: codes(ffn, wide),
            key_split: KeySplit::new(threads, geometry.heads / geometry.kv_heads, head_dim),
            product: codes(wide * ple_width, wide),
            output: vec![0; wide * hidden],
            head: HeadInput::default(),
            best: vec![Best::NONE; HEAD_TOKENS],
            kept: None,
        }
    }

    /// Makes room for what fused stages would not keep.
    pub fn keep(&mut self, geometry: &Geometry) {
        let Widths { queries, ffn, .. } = Widths::of(geometry);
        self.kept.get_or_insert_with(|| Kept {
            query: vec![0.0; queries],
            attention: vec![0.0; queries],
            gate: vec![0; ffn],
            up: vec![0; ffn],
            ple_gate: vec![0; geometry.ple_width],
            logits: vec![0.0; geometry.vocab],
        });
    }
}

/// Scratch of one thread, for a model and the `[heads x head_dim]` of its drafter.
pub(crate) fn scratch_sizes(geometry: &Geometry, drafter: Option<(usize, usize)>) -> ScratchSizes {
    let Widths { queries, head_dim, .. } = Widths::of(geometry);
    let (drafter_heads, drafter_dim) = drafter.unwrap_or_default();
    ScratchSizes {
        acc: MOST_ACCUMULATORS,
        codes: MOST_ACCUMULATORS,
        row: queries.max(geometry.ple_width).max(drafter_heads * drafter_dim),
        heads: (geometry.heads.max(drafter_heads), head_dim.max(drafter_dim)),
        tokens: PREFILL_COLUMNS,
    }
}
