//! Attention (rule 8), with the head norms and rope of its queries and o's input quantisation.
//!
//! A chunk is one column and a group of query heads that share a KV head, so that keys and values are read once for the group.
//! Sliding layers of a wide pass go in sub-blocks of [`SLACK`] columns: a sub-block is stored, then attends, so no key is
//! overwritten before the last column that sees it has read it. Full layers store all columns first.

use std::ops::Range;

use rawloop_spec::contract::KEY_BLOCK;
use rawloop_spec::{AttentionKind, TapValue};

use crate::columns::FULL_COLUMNS;
use crate::counters::Kind;
use crate::executor::{Executor, Pass, stage};
use crate::kernels::{AttentionState, Kernels};
use crate::kv::{KvCache, SLACK, Side};
use crate::parts::Grid;

// A full pass stores all its columns before sharing layers read the rings.
const _: () = assert!(FULL_COLUMNS <= SLACK);

/// The query heads of one chunk and what they look at.
pub(crate) struct HeadGroup<'a> {
    pub cache: &'a KvCache,
    /// Layer that owns the K/V.
    pub layer: usize,
    pub kv_head: usize,
    /// Visible positions.
    pub visible: Range<usize>,
}

/// Rule 8 for query heads `[heads x dim]` that share a KV head; `out` has their shape.
pub(crate) fn attend(
    kernels: &Kernels,
    group: &HeadGroup<'_>,
    query: &[f32],
    dim: usize,
    (state, block): (&mut AttentionState, &mut AttentionState),
    out: &mut [f32],
) {
    let Range { start: first, end: last } = group.visible;
    if first >= last {
        return out.fill(0.0);
    }
    state.reset(query.len() / dim, dim);
    for index in first / KEY_BLOCK..last.div_ceil(KEY_BLOCK) {
        let positions = (index * KEY_BLOCK).max(first)..((index + 1) * KEY_BLOCK).min(last);
        let keys = group.cache.rows(group.layer, Side::Keys, group.kv_head, positions.clone());
        let values = group.cache.rows(group.layer, Side::Values, group.kv_head, positions);
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

/// Positions that a token at `position` sees.
fn visible(kind: AttentionKind, window: usize, position: usize) -> Range<usize> {
    match kind {
        AttentionKind::Sliding => (position + 1).saturating_sub(window)..position + 1,
        AttentionKind::Full => 0..position + 1,
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

    fn attend_columns(&mut self, pass: &mut Pass<'_>, layer: usize, columns: Range<usize>) {
        let Executor { weights, kernels, crew, space, counters, .. } = self;
        let (mapping, geometry) = (weights.mapping(), &weights.geometry);
        let layer = &weights.layers[layer];
        let (dim, heads, kv_heads) = (layer.head_dim, geometry.heads, geometry.kv_heads);
        let width = heads * dim;
        let group = heads_of_a_chunk(heads, kv_heads, columns.len(), crew.threads());
        let norm = mapping.floats(layer.q_norm);
        let pairs = weights.frequencies(layer.attention).len();
        let rope = &space.rope[layer.attention as usize];
        let window = geometry.window;
        let (q, o_scale) = (&space.q, layer.o.input_scale);

        let row_bytes = 2 * kv_heads * pass.sequences[0].cache.layout().format.row_bytes(dim);
        for column in &pass.columns[columns.clone()] {
            counters.kv_bytes += (row_bytes * visible(layer.attention, window, column.position).len()) as u64;
        }

        let codes = &mut space.attended.codes[columns.start * width..columns.end * width];
        let codes = Grid::new(codes, columns.len(), width, 1, group * dim);
        let (mut query, mut attention) = (None, None);
        if let (true, Some(kept)) = (pass.tap.listens(), &mut space.kept) {
            query = Some(Grid::new(&mut kept.query[..width], 1, width, 1, group * dim));
            attention = Some(Grid::new(&mut kept.attention[..width], 1, width, 1, group * dim));
        }
        let groups = heads / group;
        let sequences = &*pass.sequences;
        let all = pass.columns;
        crew.run(&(codes, query, attention), |scratch, chunk, (mut codes, kept_query, kept_attention)| {
            let token = columns.start + chunk / groups;
            let head = chunk % groups * group;
            let column = all[token];
            let query = &mut scratch.query[..group * dim];
            let from = &q[token * width + head * dim..][..group * dim];
            for (codes, head) in from.chunks_exact(dim).zip(query.chunks_exact_mut(dim)) {
                kernels.norm_codes(codes, layer.q.output_scale, Some(norm), head);
            }
            let angles = token * pairs..(token + 1) * pairs;
            kernels.rope(query, dim, &rope.cosine[angles.clone()], &rope.sine[angles]);
            let keys = HeadGroup {
                cache: &sequences[column.sequence].cache,
                layer: layer.producer,
                kv_head: head / (heads / kv_heads),
                visible: visible(layer.attention, window, column.position),
            };
            let out = &mut scratch.row[..group * dim];
            attend(kernels, &keys, query, dim, (&mut scratch.state, &mut scratch.block), out);
            scratch.sums[token] += kernels.quantise(out, o_scale, codes.row(0));
            for (kept, values) in [(kept_query, &*query), (kept_attention, &*out)] {
                if let Some(mut kept) = kept {
                    kept.row(0).copy_from_slice(values);
                }
            }
        });
    }

    fn show_attention(&mut self, pass: &mut Pass<'_>, layer: usize) {
        let (false, Some(kept)) = (!pass.tap.listens(), &self.space.kept) else { return };
        let weights = &self.weights.layers[layer];
        let index = weights.stage + stage::ATTENTION;
        let width = weights.q.matrix.rows;
        let columns = pass.columns;
        pass.tap.show(columns, index, [("query", TapValue::Floats(&kept.query[..width]))]);
        if weights.kv.is_some() {
            let Some(&column) = columns.first() else { return };
            let cache = &pass.sequences[column.sequence].cache;
            let (key, value) = (
                cache.stored(layer, Side::Keys, column.position),
                cache.stored(layer, Side::Values, column.position),
            );
            let rows = [("key_row", TapValue::Bytes(&key)), ("value_row", TapValue::Bytes(&value))];
            pass.tap.show(columns, index, rows);
        }
        pass.tap.show(columns, index, [("attention", TapValue::Floats(&kept.attention[..width]))]);
    }
}
