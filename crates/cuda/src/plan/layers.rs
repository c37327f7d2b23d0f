//! The linears of a layer: q, k and v; the output projection behind attention; the FFN; the per-layer embedding.

use crate::form::Role;
use crate::options::DriverError;
use crate::params::{Linear, Matrix, Merge, argument};
use rawloop_spec::AttentionKind;

use super::stage::{Cut, OutputKind};
use crate::weights::{LayerWeights, PLE_ROWS, ffn_cut, ple_fits, ple_shared};

use super::{Builder, List, MERGE_CHUNK};

/// Copies of down's sums that the blocks of the kernel of a whole FFN share (`FFN_COPIES` in `kernels/shapes.cuh`).
const FFN_COPIES: usize = 4;
impl List<'_, '_> {
    pub(super) fn qkv(&mut self, layer: usize) -> Result<(), DriverError> {
        let weights = self.weights(layer);
        let room = self.builder.room;
        let mut matrices = vec![(weights.q, room.q.address())];
        if let Some((k, v)) = weights.kv {
            matrices.extend([(k, room.k.address()), (v, room.v.address())]);
        }
        let row_blocks = |m: &Matrix| (m.rows as usize).div_ceil(16);
        let all: usize = matrices.iter().map(|(m, _)| row_blocks(m)).sum();
        let each = all.div_ceil(self.multiprocessors()).max(1);
        let mut base = Linear {
            matrices: matrices.len() as i32,
            out_stride: room.code_stride as i32,
            zero: room.sums[self.output_sums(layer + 1)].address(),
            zero_count: (self.form.columns * self.builder.weights.geometry.hidden) as i32,
            ..Linear::default()
        };
        let mut blocks = 0;
        for (index, (matrix, out)) in matrices.iter().enumerate() {
            blocks += row_blocks(matrix).div_ceil(each);
            base.m[index] = *matrix;
            base.out[index] = *out;
            base.block_end[index] = blocks as i32;
        }
        let cut = Cut { blocks, parts: 1, row_blocks: each, spans: 1 };
        let entry = Some((weights.input_norm, weights.q.input));
        self.stage(OutputKind::Codes, base, entry, Role::Qkv(layer), cut)
    }

    pub(super) fn output(&mut self, layer: usize) -> Result<(), DriverError> {
        let weights = self.weights(layer);
        let Builder { room, weights: model, taps, .. } = &*self.builder;
        let geometry = &model.geometry;
        let shape = geometry.layers[layer];
        let merge = Merge {
            values: room.partial_values.address(),
            largest: room.partial_largest.address(),
            sums: room.partial_sums.address(),
            columns: room.columns.address(),
            tap: taps.attention,
            input: weights.o.input,
            heads: geometry.heads as i32,
            head_dim: shape.head_dim as i32,
            window: if shape.attention == AttentionKind::Sliding { geometry.window as i32 } else { 0 },
            blocks: room.blocks as i32,
        };
        let mut base = self.sums_out(weights.o, self.output_sums(layer));
        let cut = self.cut_sums(&weights.o);
        (base.zero, base.zero_count) = self.ffn_clears(&weights);
        if self.merges_apart(&merge) {
            let room = self.builder.room;
            base.input = room.input.address();
            base.input_stride = room.code_stride as i32;
            self.merge_apart(layer, merge, &weights.o)?;
        } else if self.fused() {
            base.merge = merge;
        } else {
            let room = self.builder.room;
            base.input = room.input.address();
            base.input_stride = room.code_stride as i32;
            let arguments = vec![argument(merge), argument(base.input), argument(room.code_stride as i32)];
            let shared = merge.heads as usize * 3 * MERGE_CHUNK * 4;
            let grid = (self.form.columns, 1, 1);
            let threads = self.builder.threads();
            self.push("merge_rows", grid, threads, shared, arguments, Role::Output(layer))?;
        }
        self.stage(OutputKind::Sums, base, None, Role::Output(layer), cut)?;
        self.joins(self.output_sums(layer), weights.o, weights.post_attention_norm, 1.0);
        Ok(())
    }

    pub(super) fn ffn(&mut self, layer: usize) -> Result<(), DriverError> {
        let weights = self.weights(layer);
        if self.ffn_is_one(&weights) || self.ffn_of_few_is_one(&weights) {
            return self.ffn_at_once(layer, &weights);
        }
        let room = self.builder.room;
        let row_blocks = (weights.gate.rows as usize).div_ceil(16);
        let each = row_blocks.div_ceil(self.multiprocessors()).max(1);
        let base = Linear {
            m: [weights.gate, Matrix::default(), Matrix::default()],
            matrices: 1,
            out: [room.ffn.address(), 0, 0],
            out_stride: room.code_stride as i32,
            gelu: weights.gelu,
            up_multipliers: weights.up_multipliers,
            up: weights.up_output,
            next: weights.down.input,
            zero: room.sums[1].address(),
            zero_count: (self.form.columns * self.builder.weights.geometry.hidden) as i32,
            tap_a: self.builder.taps.a,
            tap_b: self.builder.taps.b,
            ..Linear::default()
        };
        let cut = Cut { blocks: row_blocks.div_ceil(each), parts: 1, row_blocks: each, spans: 2 };
        let entry = Some((weights.pre_ffn_norm, weights.gate.input));
        self.stage(OutputKind::Ffn, base, entry, Role::GateUp(layer), cut)?;

        let mut base = self.sums_out(weights.down, 1);
        let room = self.builder.room;
        base.input = room.ffn.address();
        base.input_stride = room.code_stride as i32;
        let cut = self.cut_sums(&weights.down);
        if self.ple_is_one(&weights) {
            base.zero = room.sums[2].address();
            base.zero_count = (self.form.columns * self.builder.weights.geometry.hidden) as i32;
        }
        self.stage(OutputKind::Sums, base, None, Role::Down(layer), cut)?;
        self.joins(1, weights.down, weights.post_ffn_norm, 1.0);
        Ok(())
    }

    /// Whether one kernel does the FFN: one column, no taps, a second `down`, and a kernel behind it that reads copies of its sums.
    pub(super) fn ffn_is_one(&self, weights: &LayerWeights) -> bool {
        self.narrow() && weights.ffn_down != 0 && self.ple_is_one(weights)
    }

    /// The same for a few columns, which share one copy of the sums.
    fn ffn_of_few_is_one(&self, weights: &LayerWeights) -> bool {
        self.ffn_of_several(weights).is_some() && self.ple_is_one(weights)
    }

    /// The sums, and how many, that the kernel before such an FFN clears for it: `per_layer` of the layer before has read them then.
    pub(super) fn ffn_clears(&self, weights: &LayerWeights) -> (u64, i32) {
        let copies = match (self.ffn_is_one(weights), self.ffn_of_few_is_one(weights)) {
            (true, _) => FFN_COPIES,
            (_, true) => self.form.columns,
            _ => return (0, 0),
        };
        let hidden = self.builder.weights.geometry.hidden;
        (self.builder.room.sums[1].address(), (copies * hidden) as i32)
    }

    /// Shared memory of a block of the FFN of one column, of which two never share a multiprocessor: products would take twice their time there while others have none.
    pub(super) fn ffn_bytes(&self, weights: &LayerWeights) -> usize {
        let hidden = self.builder.weights.geometry.hidden;
        ffn_cut(&weights.gate, weights.down.bits as usize, hidden).1.max(self.builder.device.shared / 2)
    }

    /// The FFN made for what E2B has, where a layer has that.
    fn plain_ffn(&self, base: &Linear, values: usize) -> Option<&'static str> {
        let ([gate, down, _], width) = (&base.m, 4 * self.builder.threads() as i32);
        // A few columns read their streams behind the wait (`ffn_of_several` in kernels/several_ffn.cu).
        let plain = (self.narrow() || base.late > 0)
            && base.enter.is_plain(width, true, false)
            && gate.bits == down.bits
            && gate.split_k * (256 / gate.bits) == width
            && (gate.rows as usize).is_multiple_of(values)
            && down.rows == width
            && [gate.output, base.up, base.next].iter().all(|scale| scale.inverse != 0.0);
        match gate.bits {
            _ if !plain => None,
            bits if !self.narrow() => self.plain_ffn_of_several(bits, gate.rows as usize / values),
            2 => Some("layer_ffn_2"),
            4 => Some("layer_ffn_4"),
            _ => None,
        }
    }

    /// Whether a layer's per-layer embedding is as E2B has it, which a kernel is made for.
    fn plain_ple(&self, base: &Linear) -> bool {
        let ([gate, projection, _], width) = (&base.m, 4 * self.builder.threads() as i32);
        base.enter.is_plain(width, false, false)
            && gate.split_k * 32 == width
            && projection.rows % (16 * base.row_blocks) == 0
            && gate.output.inverse != 0.0
            && base.next.inverse != 0.0
    }

    fn ffn_at_once(&mut self, layer: usize, weights: &LayerWeights) -> Result<(), DriverError> {
        let room = self.builder.room;
        let hidden = self.builder.weights.geometry.hidden;
        let (blocks, _, values) = ffn_cut(&weights.gate, weights.down.bits as usize, hidden);
        let (mut name, shared) =
            self.ffn_of_several(weights).unwrap_or(("layer_ffn", self.ffn_bytes(weights)));
        let columns = self.form.columns;
        let mut base = self.sums_out(weights.gate, 1);
        base.m[1] = Matrix { codes: weights.ffn_down, ..weights.down };
        base.gelu = weights.gelu;
        base.up_multipliers = weights.up_multipliers;
        base.up = weights.up_output;
        base.next = weights.down.input;
        if self.launches.last().map(|launch| launch.role) == Some(Role::Attend(layer)) {
            // All of this layer's attention is that kernel, beside a block of which there is no room; a half of the multiprocessors have none.
            base.late = blocks.div_ceil(2) as i32;
        }
        base.columns = columns as i32;
        (base.zero, base.zero_count) = (room.sums[2].address(), (columns * hidden) as i32);
        base.enter = self.enter(weights.pre_ffn_norm, weights.gate.input);
        base.stamps = self.stamped();
        if let Some(plain) = self.plain_ffn(&base, values) {
            name = plain;
        }
        let threads = self.builder.threads();
        self.push_one(name, (blocks, 1, 1), threads, shared, base, Role::Ffn(layer))?;
        self.ffn_in_clusters();
        self.joins(1, weights.down, weights.post_ffn_norm, 1.0);
        Ok(())
    }

    pub(super) fn ple(&mut self, layer: usize) -> Result<(), DriverError> {
        let weights = self.weights(layer);
        if self.ple_is_one(&weights) {
            return self.ple_at_once(layer, &weights);
        }
        let Builder { room, weights: model, .. } = &*self.builder;
        let width = model.geometry.ple_width;
        let base = Linear {
            m: [weights.ple_gate, Matrix::default(), Matrix::default()],
            matrices: 1,
            out: [room.product.address(), 0, 0],
            out_stride: room.code_stride as i32,
            gelu: weights.ple_gelu,
            ple: room.per_layer_inputs.address() + (4 * layer * width) as u64,
            ple_stride: (model.geometry.layers.len() * width) as i32,
            next: weights.ple_projection.input,
            tap_a: self.builder.taps.a,
            ..Linear::default()
        };
        let row_blocks = (weights.ple_gate.rows as usize).div_ceil(16);
        let cut = Cut { blocks: row_blocks, parts: 1, row_blocks: 1, spans: 1 };
        let entry = Some((0, weights.ple_gate.input));
        self.stage(OutputKind::Product, base, entry, Role::PleGate(layer), cut)?;

        let mut base = self.sums_out(weights.ple_projection, 2);
        let room = self.builder.room;
        base.input = room.product.address();
        base.input_stride = room.code_stride as i32;
        let cut = self.cut_sums(&weights.ple_projection);
        self.stage(OutputKind::Sums, base, None, Role::PleProjection(layer), cut)?;
        self.joins(2, weights.ple_projection, weights.post_ple_norm, weights.layer_scalar);
        Ok(())
    }

    /// Shared memory of a block of the kernel that has both linears of the per-layer embedding.
    fn ple_bytes(&self, weights: &LayerWeights) -> usize {
        match self.ple_of_several(weights) {
            Some((_, bytes)) => bytes,
            None => ple_shared(&weights.ple_gate, &weights.ple_projection, self.enter_bytes(1)),
        }
    }

    /// Whether one kernel does the per-layer embedding: one column (or a few), no taps, and what `ple_fits` asks.
    fn ple_is_one(&self, weights: &LayerWeights) -> bool {
        let (gate, projection) = (&weights.ple_gate, &weights.ple_projection);
        (self.narrow() || self.is_several())
            && self.builder.taps.input == 0
            && !self.builder.trial.ple_apart
            && ple_fits(gate, projection, self.ple_bytes(weights), self.builder.device)
    }

    fn ple_at_once(&mut self, layer: usize, weights: &LayerWeights) -> Result<(), DriverError> {
        let Builder { room, weights: model, .. } = &*self.builder;
        let (width, hidden) = (model.geometry.ple_width, model.geometry.hidden);
        let mut base = self.sums_out(weights.ple_gate, 2);
        base.m[1] = weights.ple_projection;
        base.gelu = weights.ple_gelu;
        base.ple = room.per_layer_inputs.address() + (4 * layer * width) as u64;
        base.ple_stride = (model.geometry.layers.len() * width) as i32;
        base.columns = self.form.columns as i32;
        base.next = weights.ple_projection.input;
        base.enter = self.enter(0, weights.ple_gate.input);
        base.stamps = self.stamped();
        let mut grid = (weights.ple_gate.rows as usize / PLE_ROWS, 1, 1);
        let (threads, mut shared) = (self.builder.threads(), self.ple_bytes(weights));
        let mut name = self.ple_of_several(weights).map_or("per_layer", |(name, _)| name);
        if self.ffn_is_one(weights) {
            // Two row blocks of the projection a warp; the stream and the gate are in registers.
            let warps = self.builder.device.warps;
            name = "per_layer_shares";
            grid.1 = (base.m[1].rows as usize).div_ceil(16).div_ceil(2 * warps);
            base.row_blocks = 2 * warps as i32;
            shared = warps * 1024 + hidden * 16 + 1024 + PLE_ROWS * 4 * (1 + warps);
            if self.plain_ple(&base) {
                name = "per_layer_plain";
            }
        }
        if self.is_several() {
            let share = self.ple_share(weights);
            grid.1 = (base.m[1].rows as usize).div_ceil(16).div_ceil(share);
            base.row_blocks = share as i32;
            if let Some(plain) = self.plain_ple_of_several()
                && share == 2 * self.builder.device.warps
                && self.plain_ple(&base)
            {
                name = plain;
            }
        }
        self.push_one(name, grid, threads, shared, base, Role::Ple(layer))?;
        self.enters_in_clusters();
        self.joins(2, weights.ple_projection, weights.post_ple_norm, weights.layer_scalar);
        Ok(())
    }
}
