//! Attention (rule 8), with the head norms and rope of its queries and o's input quantisation.
//!
//! Query heads that share a KV head go together, so that keys and values are read and widened once for all of them: a *group*
//! is one column and one KV head. With groups enough for the team a chunk is a group. With fewer, long contexts are split
//! by blocks of keys (`by_keys.rs`) and short ones by query heads, which reads keys more than once.
//!
//! Sliding layers of a wide pass go in sub-blocks of [`SLACK`] columns: a sub-block is stored, then attends, so no key is
//! overwritten before the last column that sees it has read it. Full layers store all columns first.

use std::ops::Range;

use rawloop_backend::columns::Column;
use rawloop_spec::contract::KEY_BLOCK;
use rawloop_spec::{AttentionKind, TapValue};

use super::by_keys;
use crate::columns::FULL_COLUMNS;
use crate::counters::Kind;
use crate::executor::{Executor, Pass, stage};
use crate::kernels::{AttentionState, Kernels, KvRows};
use crate::kv::{KvCache, SLACK, Side};
use crate::parts::Grid;
use crate::sequence::Sequence;
use crate::weights::{LayerWeights, Weights};
use crate::workspace::RopeRows;

// A full pass stores all its columns before sharing layers read the rings.
const _: () = assert!(FULL_COLUMNS <= SLACK);

/// What the query heads of a group look at.
pub(crate) struct Seen<'a> {
    pub cache: &'a KvCache,
    /// Layer that owns the K/V.
    pub layer: usize,
    pub kv_head: usize,
    /// Visible positions.
    pub visible: Range<usize>,
}

impl<'a> Seen<'a> {
    /// The blocks of 64 aligned positions that hold a visible one.
    pub fn blocks(&self) -> Range<usize> {
        self.visible.start / KEY_BLOCK..self.visible.end.div_ceil(KEY_BLOCK)
    }

    /// Keys and values of the visible positions of one of them.
    pub fn block(&self, block: usize) -> [KvRows<'a>; 2] {
        let positions =
            (block * KEY_BLOCK).max(self.visible.start)..((block + 1) * KEY_BLOCK).min(self.visible.end);
        [Side::Keys, Side::Values]
            .map(|side| self.cache.rows(self.layer, side, self.kv_head, positions.clone()))
    }
}

/// Rule 8 for query heads `[heads x dim]` that share a KV head; `out` has their shape.
pub(crate) fn attend(
    kernels: &Kernels,
    seen: &Seen<'_>,
    query: &[f32],
    dim: usize,
    (state, block): (&mut AttentionState, &mut AttentionState),
    out: &mut [f32],
) {
    if seen.visible.is_empty() {
        return out.fill(0.0);
    }
    state.reset(query.len() / dim, dim);
    for index in seen.blocks() {
        let [keys, values] = seen.block(index);
        kernels.attend(query, keys, values, block, state);
    }
    kernels.attention_output(state, out);
}

/// Query heads of a chunk: as many as share a KV head, fewer where the team would lack chunks.
pub(crate) fn heads_of_a_chunk(heads: usize, kv_heads: usize, tokens: usize, threads: usize) -> usize {
    let mut group = heads / kv_heads;
    while group > 1 && group.is_multiple_of(2) && tokens * heads / group < threads {
        group /= 2;
    }
    group
}

/// One layer's attention over some columns of a pass.
#[derive(Clone, Copy)]
pub(super) struct LayerAttention<'a> {
    pub kernels: &'a Kernels,
    pub weights: &'a Weights,
    pub layer: &'a LayerWeights,
    pub rope: &'a RopeRows,
    /// Output codes of q, `[tokens x heads x dim]`.
    pub q: &'a [i8],
    /// Columns of the pass.
    pub columns: &'a [Column],
    pub sequences: &'a [Sequence],
}

impl<'a> LayerAttention<'a> {
    /// Values of all query heads of a token.
    pub fn width(&self) -> usize {
        self.weights.geometry.heads * self.layer.head_dim
    }

    /// Query heads that share a KV head.
    pub fn shared(&self) -> usize {
        self.weights.geometry.heads / self.weights.geometry.kv_heads
    }

    /// Positions that a token of the pass sees.
    pub fn visible(&self, token: usize) -> Range<usize> {
        let end = self.columns[token].position + 1;
        match self.layer.attention {
            AttentionKind::Sliding => end.saturating_sub(self.weights.geometry.window)..end,
            AttentionKind::Full => 0..end,
        }
    }

    /// What a query head of a token of the pass sees.
    pub fn seen(&self, token: usize, head: usize) -> Seen<'a> {
        Seen {
            cache: &self.sequences[self.columns[token].sequence].cache,
            layer: self.layer.producer,
            kv_head: head / self.shared(),
            visible: self.visible(token),
        }
    }

    /// Queries of some heads of a token: normed and roped.
    pub fn query(&self, token: usize, head: usize, out: &mut [f32]) {
        let dim = self.layer.head_dim;
        let norm = self.weights.mapping().floats(self.layer.q_norm);
        let codes = &self.q[token * self.width() + head * dim..][..out.len()];
        for (codes, head) in codes.chunks_exact(dim).zip(out.chunks_exact_mut(dim)) {
            self.kernels.norm_codes(codes, self.layer.q.output_scale, Some(norm), head);
        }
        let pairs = self.weights.frequencies(self.layer.attention).len();
        let angles = token * pairs..(token + 1) * pairs;
        self.kernels.rope(out, dim, &self.rope.cosine[angles.clone()], &self.rope.sine[angles]);
    }
}

impl Executor {
    /// Stores K/V where the layer owns them, then attends.
    pub(crate) fn attention(&mut self, pass: &mut Pass<'_>, layer: usize) {
        let tokens = pass.tokens();
        let (kind, owns) = (self.layer(layer).attention, self.layer(layer).kv.is_some());
        self.norm_heads(pass, layer);
        let step = if owns && kind == AttentionKind::Sliding { SLACK } else { tokens };
        for first in (0..tokens).step_by(step.max(1)) {
            let columns = first..(first + step).min(tokens);
            self.store(pass, layer, columns.clone());
            self.attend_columns(pass, layer, columns);
        }
        self.crew.take_sums(&mut self.space.attended.sums[..tokens]);
        self.profile.lap(Kind::Attention);
        self.show_attention(pass, layer);
    }

    fn attend_columns(&mut self, pass: &mut Pass<'_>, layer: usize, tokens: Range<usize>) {
        let Executor { weights, kernels, crew, space, counters, .. } = self;
        let geometry = &weights.geometry;
        let layer = &weights.layers[layer];
        let attention = LayerAttention {
            kernels,
            weights,
            layer,
            rope: &space.rope[layer.attention as usize],
            q: &space.q,
            columns: pass.columns,
            sequences: pass.sequences,
        };
        let (dim, heads, kv_heads) = (layer.head_dim, geometry.heads, geometry.kv_heads);
        let width = heads * dim;
        let seen = |token: usize| attention.visible(token).len();
        let row_bytes = 2 * kv_heads * pass.sequences[0].cache.layout().format.row_bytes(dim);
        counters.kv_bytes += tokens.clone().map(|token| (row_bytes * seen(token)) as u64).sum::<u64>();

        let codes = &mut space.attended.codes[tokens.start * width..tokens.end * width];
        let kept = space.kept.as_mut().filter(|_| pass.tap.listens());
        let longest = tokens.clone().map(seen).max().unwrap_or(0).div_ceil(KEY_BLOCK);
        if by_keys::pays(tokens.len() * kv_heads, longest, crew.threads()) {
            return by_keys::attend(&attention, crew, &mut space.key_split, tokens, codes, kept);
        }
        let group = heads_of_a_chunk(heads, kv_heads, tokens.len(), crew.threads());
        let codes = Grid::new(codes, tokens.len(), width, 1, group * dim);
        let kept = kept.map(|kept| {
            let query = Grid::by_columns(&mut kept.query[..width], 1, group * dim);
            (query, Grid::by_columns(&mut kept.attention[..width], 1, group * dim))
        });
        let groups = heads / group;
        crew.run(&(codes, kept), |scratch, chunk, (mut codes, kept)| {
            let (token, head) = (tokens.start + chunk / groups, chunk % groups * group);
            let query = &mut scratch.query[..group * dim];
            attention.query(token, head, query);
            let out = &mut scratch.row[..group * dim];
            let seen = attention.seen(token, head);
            attend(kernels, &seen, query, dim, (&mut scratch.state, &mut scratch.block), out);
            scratch.sums[token] += kernels.quantise(out, layer.o.input_scale, codes.row(0));
            if let Some((mut kept_query, mut kept_attention)) = kept {
                kept_query.row(0).copy_from_slice(query);
                kept_attention.row(0).copy_from_slice(out);
            }
        });
    }

    fn show_attention(&mut self, pass: &mut Pass<'_>, layer: usize) {
        let (true, Some(kept)) = (pass.tap.listens(), &self.space.kept) else { return };
        let weights = &self.weights.layers[layer];
        let index = weights.stage + stage::ATTENTION;
        let width = weights.q.matrix.rows;
        let columns = pass.columns;
        pass.tap.show(columns, index, [("query", TapValue::Floats(&kept.query[..width]))]);
        if weights.kv.is_some() {
            let Some(&column) = columns.first() else { return };
            let cache = &pass.sequences[column.sequence].cache;
            let [key, value] =
                [Side::Keys, Side::Values].map(|side| cache.stored(layer, side, column.position));
            let rows = [("key_row", TapValue::Bytes(&key)), ("value_row", TapValue::Bytes(&value))];
            pass.tap.show(columns, index, rows);
        }
        pass.tap.show(columns, index, [("attention", TapValue::Floats(&kept.attention[..width]))]);
    }
}
