//! The linears of a layer: q, k and v; the output projection behind attention; the FFN; the per-layer embedding.

use crate::form::Role;
use crate::options::{DriverError, Ffn};
use crate::params::{Linear, Matrix, Merge, argument};
use rawloop_spec::AttentionKind;

use super::stage::{Cut, OutputKind};
use crate::weights::{FFN_GROUPS, LayerWeights};

use super::{Builder, List, MERGE_CHUNK};

/// Rows of the gate in a block of the kernel that has both linears of the per-layer embedding.
pub(super) const PLE_ROWS: usize = 32;
/// Copies of down's sums that the blocks of the kernel of a whole FFN share (`FFN_COPIES` in `kernels/shapes.cuh`).
const FFN_COPIES: usize = 4;
/// The kernel that has it in clusters.
const IN_CLUSTERS: &str = "layer_ffn_cluster";
/// Blocks of one.
const FFN_CLUSTER: usize = 8;
/// Groups of down's inputs that a block makes there.
const CLUSTER_GROUPS: usize = 8;
/// More than the shared memory that these kernels declare by themselves.
pub(super) const STATIC_SHARED: usize = 1024;

/// How one kernel does an FFN.
#[derive(Clone, Copy)]
struct FfnForm {
    /// Of down's sums.
    copies: usize,
    clusters: bool,
    /// Bytes of a block, and blocks.
    shared: usize,
    blocks: usize,
}

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
        let each = all.div_ceil(self.entry_blocks()).max(1);
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
        if let Some(form) = self.ffn_form(&weights) {
            return self.ffn_at_once(layer, &weights, form);
        }
        let room = self.builder.room;
        let row_blocks = (weights.gate.rows as usize).div_ceil(16);
        let each = row_blocks.div_ceil(self.entry_blocks()).max(1);
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

    /// Where one kernel does the FFN, in which way: one column, no taps, a short entry, and room for a block's weights.
    fn ffn_form(&self, weights: &LayerWeights) -> Option<FfnForm> {
        let (gate, down, way) = (&weights.gate, &weights.down, self.builder.trial.ffn);
        let hidden = self.builder.weights.geometry.hidden;
        let clusters = way == Ffn::InClusters;
        let groups = if clusters { CLUSTER_GROUPS } else { FFN_GROUPS };
        let values = groups * 32 / down.bits as usize;
        let units = values / 16 * 2 * gate.split_k as usize;
        let mut shared = 256 + units * 512 + hidden * 12 + 1024 + 16 * values;
        let mut blocks = (gate.rows as usize).div_ceil(values);
        if clusters {
            // Units of down, and the sums that all blocks of a cluster put to one of them.
            let row_blocks = hidden.div_ceil(16);
            shared += row_blocks.next_multiple_of(4) * 512;
            shared += row_blocks.next_multiple_of(FFN_CLUSTER) * 64;
            blocks = blocks.next_multiple_of(FFN_CLUSTER);
        }
        let fits = self.narrow()
            && (clusters || way != Ffn::Apart && weights.ffn_down != 0)
            && self.builder.taps.input == 0
            && gate.splits == 1
            && hidden <= 4 * self.builder.threads() as usize
            && shared + STATIC_SHARED <= self.builder.device.shared
            && (!clusters || self.builder.holds_cluster(IN_CLUSTERS, shared, FFN_CLUSTER));
        // Only the kernel that has both linears of the per-layer embedding reads more than one copy.
        let copies = if way == Ffn::InCopies && self.ple_is_one(weights) { FFN_COPIES } else { 1 };
        fits.then_some(FfnForm { copies, clusters, shared, blocks })
    }

    /// Whether the FFN of a layer is the one kernel that leaves room beside a block of more than half of shared memory.
    pub(super) fn ffn_keeps_apart(&self, layer: usize) -> bool {
        self.ffn_form(&self.weights(layer)).is_some_and(|form| !form.clusters)
    }

    /// The sums, and how many, that the kernel before such an FFN clears for it: `per_layer` of the layer before has read them then.
    pub(super) fn ffn_clears(&self, weights: &LayerWeights) -> (u64, i32) {
        let hidden = self.builder.weights.geometry.hidden;
        let sums = self.builder.room.sums[1].address();
        self.ffn_form(weights).map_or((0, 0), |form| (sums, (form.copies * hidden) as i32))
    }

    fn ffn_at_once(
        &mut self,
        layer: usize,
        weights: &LayerWeights,
        form: FfnForm,
    ) -> Result<(), DriverError> {
        let room = self.builder.room;
        let hidden = self.builder.weights.geometry.hidden;
        let mut base = self.sums_out(weights.gate, 1);
        base.m[1] = match form.clusters {
            true => weights.down,
            false => Matrix { codes: weights.ffn_down, ..weights.down },
        };
        base.gelu = weights.gelu;
        base.up_multipliers = weights.up_multipliers;
        base.up = weights.up_output;
        base.next = weights.down.input;
        base.copies = form.copies as i32;
        let behind = self.launches.last().map(|launch| launch.role);
        if behind == Some(Role::Attend(layer)) && !form.clusters {
            // All of this layer's attention is that kernel, a block of which may leave no room beside it; a half of the multiprocessors have none.
            base.late = form.blocks.div_ceil(2) as i32;
        }
        if self.ple_is_one(weights) {
            (base.zero, base.zero_count) = (room.sums[2].address(), hidden as i32);
        }
        base.enter = self.enter(weights.pre_ffn_norm, weights.gate.input);
        base.stamps = self.stamped();
        let name = if form.clusters { IN_CLUSTERS } else { "layer_ffn" };
        let grid = (form.blocks, 1, 1);
        self.push_one(name, grid, self.builder.threads(), form.shared, base, Role::Ffn(layer))?;
        if let Some(launch) = self.launches.last_mut().filter(|_| form.clusters) {
            launch.cluster = FFN_CLUSTER as u32;
        }
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

    /// Shared memory of a block of the kernel that has both linears of the per-layer embedding (`kernels/ple.cu`).
    fn ple_bytes(&self, weights: &LayerWeights) -> usize {
        if let Some((_, bytes, _)) = self.ple_of_several(weights) {
            return bytes;
        }
        let units = PLE_ROWS / 16 * weights.ple_gate.split_k as usize
            + (weights.ple_projection.rows as usize).div_ceil(16);
        let x = weights.ple_gate.split_k as usize * 32;
        units * 512 + self.enter_bytes(1) + 1024 + PLE_ROWS * 8 + x
    }

    /// Whether one kernel does the per-layer embedding: one column (or a few), no taps, 8 bits, whole units, and room for all weights of a block.
    fn ple_is_one(&self, weights: &LayerWeights) -> bool {
        let (gate, projection) = (&weights.ple_gate, &weights.ple_projection);
        (self.narrow() || self.is_several())
            && self.builder.taps.input == 0
            && !self.builder.trial.ple_apart
            && gate.bits == 8
            && projection.bits == 8
            && gate.splits == 1
            && projection.splits == 1
            && (gate.rows as usize).is_multiple_of(PLE_ROWS)
            && self.ple_bytes(weights) + STATIC_SHARED <= self.builder.device.shared
    }

    fn ple_at_once(&mut self, layer: usize, weights: &LayerWeights) -> Result<(), DriverError> {
        let Builder { room, weights: model, .. } = &*self.builder;
        let width = model.geometry.ple_width;
        let mut base = self.sums_out(weights.ple_gate, 2);
        base.m[1] = weights.ple_projection;
        base.gelu = weights.ple_gelu;
        base.ple = room.per_layer_inputs.address() + (4 * layer * width) as u64;
        base.ple_stride = (model.geometry.layers.len() * width) as i32;
        base.columns = self.form.columns as i32;
        base.next = weights.ple_projection.input;
        base.enter = self.enter(0, weights.ple_gate.input);
        base.stamps = self.stamped();
        let grid = (weights.ple_gate.rows as usize / PLE_ROWS, 1, 1);
        let (threads, shared) = (self.builder.threads(), self.ple_bytes(weights));
        let copies = self.ffn_form(weights).map_or(1, |form| form.copies);
        let name = if copies > 1 { "per_layer_copies" } else { "per_layer" };
        let (name, cluster) =
            self.ple_of_several(weights).map_or((name, 1), |(name, _, cluster)| (name, cluster));
        self.push_one(name, grid, threads, shared, base, Role::Ple(layer))?;
        if let Some(launch) = self.launches.last_mut() {
            launch.cluster = cluster as u32;
        }
        self.joins(2, weights.ple_projection, weights.post_ple_norm, weights.layer_scalar);
        Ok(())
    }
}
