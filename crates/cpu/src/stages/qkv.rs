//! Query, key and value projections (rules 1 to 4), head norms, rope, and the storing of K/V (rules 6, 7, 12).
//!
//! The input codes were made with the end of the stage before. Queries stay codes until their attention begins; keys and values
//! are normed here, token by token over the team, and stored by the caller, since a sequence's cache has one writer.

use std::ops::Range;

use rawloop_spec::TapValue;

use super::linear::linears;
use super::rows::rows_of_a_chunk;
use crate::counters::Kind;
use crate::executor::{Executor, Pass, stage};
use crate::parts::Grid;

impl Executor {
    /// q of every column, and k and v where the layer owns them.
    pub(crate) fn norm_qkv(&mut self, pass: &mut Pass<'_>, layer: usize) {
        let Executor { weights, kernels, crew, space, counters, profile } = self;
        let (mapping, tokens) = (weights.mapping(), pass.tokens());
        let layer = &weights.layers[layer];
        let x = space.input.view(tokens, layer.q.matrix.columns);
        let q = &mut space.q[..tokens * layer.q.matrix.rows];
        counters.read(&layer.q);
        let Some(kv) = &layer.kv else {
            linears(crew, kernels, mapping, [&layer.q], x, [&mut *q]);
            profile.lap(Kind::NormQkv);
            let values = [("input", TapValue::Codes(x.token(0))), ("q", TapValue::Codes(q))];
            return pass.tap.show(pass.columns, layer.stage + stage::NORM_QKV, values);
        };
        let k = &mut space.k[..tokens * kv.k.matrix.rows];
        let v = &mut space.v[..tokens * kv.v.matrix.rows];
        counters.read(&kv.k);
        counters.read(&kv.v);
        linears(crew, kernels, mapping, [&layer.q, &kv.k, &kv.v], x, [&mut *q, &mut *k, &mut *v]);
        profile.lap(Kind::NormQkv);
        let values = [
            ("input", TapValue::Codes(x.token(0))),
            ("q", TapValue::Codes(q)),
            ("k", TapValue::Codes(k)),
            ("v", TapValue::Codes(v)),
        ];
        pass.tap.show(pass.columns, layer.stage + stage::NORM_QKV, values);
    }

    /// k and v alone: what the prefill program needs of its last layer.
    pub(crate) fn norm_kv(&mut self, pass: &mut Pass<'_>, layer: usize) {
        let Executor { weights, kernels, crew, space, counters, profile } = self;
        let tokens = pass.tokens();
        if let Some(kv) = &weights.layers[layer].kv {
            let x = space.input.view(tokens, kv.k.matrix.columns);
            let k = &mut space.k[..tokens * kv.k.matrix.rows];
            let v = &mut space.v[..tokens * kv.v.matrix.rows];
            counters.read(&kv.k);
            counters.read(&kv.v);
            linears(crew, kernels, weights.mapping(), [&kv.k, &kv.v], x, [k, v]);
        }
        profile.lap(Kind::NormQkv);
    }

    /// Normed, roped and stored K/V of every column, nobody attending in between.
    pub(crate) fn store_kv(&mut self, pass: &mut Pass<'_>, layer: usize) {
        self.norm_heads(pass, layer);
        self.store(pass, layer, 0..pass.tokens());
        self.profile.lap(Kind::Attention);
    }

    /// Keys and values of every column as they are to be stored: k normed and roped, v normed without a weight.
    pub(super) fn norm_heads(&mut self, pass: &Pass<'_>, layer: usize) {
        let Executor { weights, kernels, crew, space, .. } = self;
        let (mapping, tokens) = (weights.mapping(), pass.tokens());
        let layer = &weights.layers[layer];
        let Some(kv) = &layer.kv else { return };
        let (dim, width) = (layer.head_dim, kv.k.matrix.rows);
        let norm = mapping.floats(kv.k_norm);
        let pairs = weights.frequencies(layer.attention).len();
        let rope = &space.rope[layer.attention as usize];
        let (k, v) = (&space.k[..tokens * width], &space.v[..tokens * width]);
        let step = rows_of_a_chunk(tokens, crew.threads());
        let keys = Grid::by_rows(&mut space.keys[..tokens * width], tokens, step);
        let values = Grid::by_rows(&mut space.values[..tokens * width], tokens, step);
        crew.run(&(keys, values), |_, chunk, (mut keys, mut values)| {
            for row in 0..keys.rows() {
                let token = chunk * step + row;
                let (keys, values) = (keys.row(row), values.row(row));
                for head in (0..width).step_by(dim) {
                    let (from, to) = (token * width + head, head..head + dim);
                    kernels.norm_codes(
                        &k[from..from + dim],
                        kv.k.output_scale,
                        Some(norm),
                        &mut keys[to.clone()],
                    );
                    kernels.norm_codes(&v[from..from + dim], kv.v.output_scale, None, &mut values[to]);
                }
                let angles = token * pairs..(token + 1) * pairs;
                kernels.rope(keys, dim, &rope.cosine[angles.clone()], &rope.sine[angles]);
            }
        });
    }

    /// Stores the K/V of some columns.
    pub(super) fn store(&mut self, pass: &mut Pass<'_>, layer: usize, tokens: Range<usize>) {
        let Executor { weights, kernels, space, .. } = self;
        let Some(kv) = &weights.layers[layer].kv else { return };
        let (dim, width) = (weights.layers[layer].head_dim, kv.k.matrix.rows);
        for token in tokens {
            let column = pass.columns[token];
            let cache = &mut pass.sequences[column.sequence].cache;
            for head in 0..width / dim {
                let at = token * width + head * dim..token * width + (head + 1) * dim;
                let (key, value) = (&space.keys[at.clone()], &space.values[at]);
                cache.store(kernels, layer, head, column.position, key, value);
            }
        }
    }
}
