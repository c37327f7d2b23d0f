//! The safe face of the tables: each method checks its lengths once and calls one kernel.
//!
//! Shapes are `[rows x elements]`, scales and multipliers one f32 each, ranges are tiles. A length that does not fit is a
//! mistake of the caller, not of any input, and panics here, outside of every loop. The head's methods are in `head.rs`.
//!
//! Every `unsafe` block below stands on the same two facts: the table was handed out for this CPU (`table.rs`), and the
//! assertions above it are the lengths that the kernel relies on.

use std::ops::Range;

use rawloop_spec::Bits;
use rawloop_spec::contract::{KEY_BLOCK, LANES};

use super::Kernels;
use super::attention::{AttentionState, KvRows};
use super::view::{Activations, Block, BlockMut, Tiles};

impl Kernels {
    /// Reads every byte and returns the exclusive or of its 64-bit words: the speed limit of all other kernels.
    pub fn read(&self, bytes: &[u8]) -> u64 {
        // SAFETY: any slice will do.
        unsafe { (self.read)(bytes) }
    }

    /// Rule 2, one token: `out[r] = sum(x * value)` for the rows of a range of tiles, those that fill up the last tile
    /// included (they give 0). `x_sum` is the sum of `x`.
    pub fn matvec(&self, weights: Tiles<'_>, tiles: Range<usize>, x: &[i8], x_sum: i32, out: &mut [i32]) {
        assert_eq!(x.len(), weights.columns(), "codes of a token");
        assert_eq!(out.len(), tiles.len() * weights.tile_rows(), "accumulators of the tiles");
        let kernel = match weights.bits() {
            Bits::Two => self.matvec_i2,
            Bits::Four => self.matvec_i4,
            Bits::Eight => self.matvec_i8,
        };
        // SAFETY: whole tiles of `columns` inputs, `columns` codes, one accumulator for each row.
        unsafe { kernel(weights.slice(tiles), weights.columns(), x, x_sum, out) }
    }

    /// Rule 2, several tokens: `out` is `[tokens x rows of the tiles]`. The codes are read from memory once.
    pub fn matmul(
        &self,
        weights: Tiles<'_>,
        tiles: Range<usize>,
        x: Activations<'_>,
        mut out: BlockMut<'_, i32>,
    ) {
        assert_eq!(x.columns(), weights.columns(), "codes of a token");
        assert_eq!(out.rows(), x.tokens(), "tokens of the accumulators");
        assert_eq!(out.columns(), tiles.len() * weights.tile_rows(), "accumulators of the tiles");
        if x.tokens() == 0 {
            return;
        }
        if x.tokens() == 1 {
            return self.matvec(weights, tiles, x.token(0), x.sum(0), out.row(0));
        }
        let kernel = match weights.bits() {
            Bits::Two => self.matmul_i2,
            Bits::Four => self.matmul_i4,
            Bits::Eight => self.matmul_i8,
        };
        // SAFETY: whole tiles of `columns` inputs, as many codes a token, a row of accumulators for each token.
        unsafe { kernel(weights.slice(tiles), weights.columns(), x, out) }
    }

    /// Rule 1: codes of `x`; returns their sum.
    pub fn quantise(&self, x: &[f32], scale: f32, out: &mut [i8]) -> i32 {
        assert_eq!(x.len(), out.len(), "codes");
        // SAFETY: equal lengths.
        unsafe { (self.quantise)(x, scale, out) }
    }

    /// Rules 2 and 3: `out = clamp(rne(f32(acc) * multipliers[row] / scale))`, both `[tokens x rows]`.
    pub fn requantise(&self, acc: Block<'_, i32>, multipliers: &[f32], scale: f32, out: BlockMut<'_, i8>) {
        assert_eq!(acc.columns(), multipliers.len(), "one multiplier for each row");
        assert_eq!((acc.rows(), acc.columns()), (out.rows(), out.columns()), "codes");
        // SAFETY: equal shapes.
        unsafe { (self.requantise)(acc, multipliers, scale, out) }
    }

    /// Rule 5, FFN: codes of `table[gate] * (up * up_scale)`; entry `code + 128` of the table. Returns the sum of the codes.
    pub fn gate_codes(
        &self,
        gate: &[i8],
        table: &[f32; 256],
        up: &[i8],
        up_scale: f32,
        scale: f32,
        out: &mut [i8],
    ) -> i32 {
        assert_eq!(gate.len(), up.len(), "gate and up");
        assert_eq!(gate.len(), out.len(), "codes");
        // SAFETY: equal lengths.
        unsafe { (self.gate_codes)(gate, table, up, up_scale, scale, out) }
    }

    /// Rule 5, per-layer gate: codes of `table[gate] * up`. Returns the sum of the codes.
    pub fn gate_values(
        &self,
        gate: &[i8],
        table: &[f32; 256],
        up: &[f32],
        scale: f32,
        out: &mut [i8],
    ) -> i32 {
        assert_eq!(gate.len(), up.len(), "gate and per-layer input");
        assert_eq!(gate.len(), out.len(), "codes");
        // SAFETY: equal lengths.
        unsafe { (self.gate_values)(gate, table, up, scale, out) }
    }

    /// Rule 6: RMSNorm of `codes * scale`, times `weight` where there is one.
    pub fn norm_codes(&self, codes: &[i8], scale: f32, weight: Option<&[f32]>, out: &mut [f32]) {
        assert!(weight.is_none_or(|weight| weight.len() == codes.len()), "weights of the norm");
        assert_eq!(codes.len(), out.len(), "values");
        // SAFETY: equal lengths.
        unsafe { (self.norm_codes)(codes, scale, weight, out) }
    }

    /// `residual = (residual + norm_codes(..)) * factor`; a factor of 1 changes nothing.
    pub fn norm_codes_add(
        &self,
        codes: &[i8],
        scale: f32,
        weight: Option<&[f32]>,
        factor: f32,
        residual: &mut [f32],
    ) {
        assert!(weight.is_none_or(|weight| weight.len() == codes.len()), "weights of the norm");
        assert_eq!(codes.len(), residual.len(), "values");
        // SAFETY: equal lengths.
        unsafe { (self.norm_codes_add)(codes, scale, weight, factor, residual) }
    }

    /// Rule 6: RMSNorm of floats, times `weight` where there is one.
    pub fn norm(&self, x: &[f32], weight: Option<&[f32]>, out: &mut [f32]) {
        assert!(weight.is_none_or(|weight| weight.len() == x.len()), "weights of the norm");
        assert_eq!(x.len(), out.len(), "values");
        // SAFETY: equal lengths.
        unsafe { (self.norm)(x, weight, out) }
    }

    /// [`Kernels::norm`], then [`Kernels::quantise`]; returns the sum of the codes.
    pub fn norm_quantise(&self, x: &[f32], weight: Option<&[f32]>, scale: f32, out: &mut [i8]) -> i32 {
        assert!(weight.is_none_or(|weight| weight.len() == x.len()), "weights of the norm");
        assert_eq!(x.len(), out.len(), "codes");
        // SAFETY: equal lengths.
        unsafe { (self.norm_quantise)(x, weight, scale, out) }
    }

    /// Rule 6: the 32-lane sum of the products of two vectors.
    pub fn dot(&self, a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len(), "factors");
        // SAFETY: equal lengths.
        unsafe { (self.dot)(a, b) }
    }

    /// `x = (x + y) * factor`.
    pub fn add_scaled(&self, x: &mut [f32], y: &[f32], factor: f32) {
        assert_eq!(x.len(), y.len(), "summands");
        // SAFETY: equal lengths.
        unsafe { (self.add_scaled)(x, y, factor) }
    }

    /// Rule 11: one row of a gathered table, `out = (value * scale) * factor`.
    pub fn expand_row(&self, row: &[u8], bits: Bits, scale: f32, factor: f32, out: &mut [f32]) {
        assert_eq!(row.len() * bits.per_byte(), out.len(), "values of a row");
        // SAFETY: lengths fit each other.
        unsafe { (self.expand_row)(row, bits, scale, factor, out) }
    }

    /// Rule 7 on every head of `heads`, `[heads x dim]`: the first `cosine.len()` of the `dim / 2` pairs turn.
    pub fn rope(&self, heads: &mut [f32], dim: usize, cosine: &[f32], sine: &[f32]) {
        assert!(dim > 0 && heads.len().is_multiple_of(dim), "whole heads of {dim}");
        assert_eq!(cosine.len(), sine.len(), "cosines and sines");
        assert!(cosine.len() <= dim / 2, "{} frequencies for {} pairs", cosine.len(), dim / 2);
        for head in heads.chunks_exact_mut(dim) {
            // SAFETY: at most one frequency for each pair.
            unsafe { (self.rope)(head, cosine, sine) }
        }
    }

    /// Rule 10: `out[token][row] = lane_sum(x[token] * weights[row]) * factor`. `weights` are bf16 bits, row-major
    /// `[rows x columns]`; `x` is `[tokens x columns]`, `out` `[tokens x rows]`.
    pub fn project(&self, weights: &[u16], x: Block<'_, f32>, factor: f32, out: BlockMut<'_, f32>) {
        assert_eq!(x.rows(), out.rows(), "tokens");
        assert_eq!(weights.len(), out.columns() * x.columns(), "weights");
        // SAFETY: shapes fit each other.
        unsafe { (self.project)(weights, x, factor, out) }
    }

    /// Rule 12: values to f16 bits.
    pub fn store_f16(&self, x: &[f32], out: &mut [u16]) {
        assert_eq!(x.len(), out.len(), "f16 values");
        // SAFETY: equal lengths.
        unsafe { (self.store_f16)(x, out) }
    }

    /// Rule 12: values of one token and KV head to codes; returns their scale.
    pub fn store_i8(&self, x: &[f32], out: &mut [i8]) -> f32 {
        assert_eq!(x.len(), out.len(), "codes");
        // SAFETY: equal lengths.
        unsafe { (self.store_i8)(x, out) }
    }

    /// Rule 8, one block: the heads `q`, `[heads x dim]`, against the visible keys of one block of 64. Overwrites `state`,
    /// which was reset to these heads; `keys` and `values` hold the visible rows only, in order, at least one.
    pub fn attend_block(&self, q: &[f32], keys: KvRows<'_>, values: KvRows<'_>, state: &mut AttentionState) {
        let (heads, dim) = (state.heads(), state.dim());
        assert!(dim > 0 && dim.is_multiple_of(LANES), "a head of {dim} values is not a multiple of {LANES}");
        assert_eq!(q.len(), heads * dim, "query heads");
        assert!(keys.is_whole(dim) && values.is_whole(dim), "whole rows of {dim} values");
        let count = keys.count(dim);
        assert!(count > 0 && count <= KEY_BLOCK, "{count} keys in a block of {KEY_BLOCK}");
        assert_eq!(count, values.count(dim), "as many values as keys");
        assert_eq!(
            std::mem::discriminant(&keys),
            std::mem::discriminant(&values),
            "one format for keys and values"
        );
        // SAFETY: `count` rows of keys and values in one format, heads and state of the same shape.
        unsafe { (self.attend_block)(q, dim, keys, values, state.parts()) };
        state.set_blocks(1);
    }

    /// Rule 8, merge: `block` is later than everything in `state`. The first block is taken as it is.
    pub fn merge(&self, state: &mut AttentionState, block: &mut AttentionState) {
        assert_eq!(
            (state.heads(), state.dim()),
            (block.heads(), block.dim()),
            "shape of the softmax in progress"
        );
        match state.blocks() {
            0 => std::mem::swap(state, block),
            blocks => {
                let dim = state.dim();
                // SAFETY: equal shapes.
                unsafe { (self.merge)(state.parts(), block.parts(), dim) };
                state.set_blocks(blocks + block.blocks());
            }
        }
    }

    /// [`Kernels::attend_block`] on the next block, merged into `state`; `scratch` is any state to work in.
    pub fn attend(
        &self,
        q: &[f32],
        keys: KvRows<'_>,
        values: KvRows<'_>,
        scratch: &mut AttentionState,
        state: &mut AttentionState,
    ) {
        if state.blocks() == 0 {
            return self.attend_block(q, keys, values, state);
        }
        scratch.reset(state.heads(), state.dim());
        self.attend_block(q, keys, values, scratch);
        self.merge(state, scratch);
    }

    /// Rule 8, the end: `out = weighted values / sum`, `[heads x dim]`.
    pub fn attention_output(&self, state: &AttentionState, out: &mut [f32]) {
        assert!(state.blocks() > 0, "attention over no key");
        assert_eq!(out.len(), state.heads() * state.dim(), "heads of the output");
        // SAFETY: equal shapes.
        unsafe { (self.finish)(state.weighted(), state.sums(), state.dim(), out) }
    }
}
