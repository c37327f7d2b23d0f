//! A layer's per-layer embedding of a prompt as one kernel of clusters, from what joins from the FFN to the codes of the next layer's queries, keys and values (`kernels/bulk_per_layer.cu`).
//!
//! It wants clusters, linears of 8 bits and a stream whose four values a thread fit a block twice; where one of them is missing, an entry, two linears and the next layer's entry do the same.

use super::Bulk;
use crate::form::Role;
use crate::options::DriverError;
use crate::params::{Enter, Linear, Matrix, Scale, argument};

/// How it is cut: blocks of a cluster, columns that each of them owns.
struct PerLayerCut {
    name: &'static str,
    ranks: usize,
    own: usize,
    threads: u32,
    shared: usize,
}

impl PerLayerCut {
    /// Threads of a block at most.
    const THREADS: usize = 768;

    /// The cut for a stream of `hidden` values and per-layer inputs of `width`; none where they are too wide or have no even shares.
    fn of(hidden: usize, width: usize) -> Option<PerLayerCut> {
        let (ranks, own) = (2, 8);
        // E2B's shape has a kernel with constants.
        let name = if (hidden, width) == (1536, 256) { "bulk_per_layer_plain" } else { "bulk_per_layer_2" };
        let threads = 2 * (hidden / 4).next_multiple_of(32);
        let even = |values: usize| values.is_multiple_of(16 * ranks);
        if threads > Self::THREADS || !even(hidden) || !even(width) {
            return None;
        }
        let columns = ranks * own;
        let (gate_rows, rows) = (width / ranks, hidden / ranks);
        let parts = (threads / 32 / (gate_rows / 16)).max(1);
        let exchange = 4 * (own * (hidden + 4)).max(parts * columns * (gate_rows + 4));
        let codes = (columns * (hidden + 16)).max(4 * columns * (rows + 4));
        let shared = 128 + 128 * own + 4 * own * hidden + exchange + codes + columns * (width + 16);
        Some(PerLayerCut { name, ranks, own, threads: threads as u32, shared })
    }
}

impl Bulk<'_, '_> {
    /// What joins from the FFN, the per-layer embedding and the entry of the next layer as one kernel, where the shape is one that it knows; whether it is.
    pub(super) fn per_layer(&mut self, layer: usize) -> Result<bool, DriverError> {
        let (room, model) = (self.room, self.builder.weights);
        let (weights, next, geometry) = (&model.layers[layer], &model.layers[layer + 1], &model.geometry);
        let (gate, projection) = (weights.ple_gate, weights.ple_projection);
        let (hidden, width, device) = (geometry.hidden, geometry.ple_width, self.builder.device);
        let known = |matrix: &Matrix| matrix.bits == 8 && matrix.splits == 1;
        if !device.has_clusters() || !known(&gate) || !known(&projection) {
            return Ok(false);
        }
        let Some(cut) = PerLayerCut::of(hidden, width).filter(|cut| cut.shared + 2048 <= device.shared)
        else {
            return Ok(false);
        };
        let Some((down, join_norm, scalar)) = self.joining.take() else { return Ok(false) };
        let count = Scale::new(hidden as f32);
        let enter = Enter {
            sums: room.sums.address(),
            multipliers: down.multipliers,
            join_norm,
            hidden_in: room.hidden[self.stream].address(),
            join: down.output,
            count,
            input: gate.input,
            scalar,
            hidden: hidden as i32,
            ..Enter::default()
        };
        self.stream ^= 1;
        let leave = Enter {
            multipliers: projection.multipliers,
            join_norm: weights.post_ple_norm,
            hidden_out: room.hidden[self.stream].address(),
            norm: next.input_norm,
            join: projection.output,
            count,
            input: next.q.input,
            scalar: weights.layer_scalar,
            hidden: hidden as i32,
            ..Enter::default()
        };
        let layers = self.builder.layout.layers.len() - 1;
        let linear = Linear {
            m: [gate, projection, Matrix::default()],
            enter,
            out: [room.input.address(), 0, 0],
            gelu: weights.ple_gelu,
            ple: room.per_layer_inputs.address() + (4 * layer * width) as u64,
            next: projection.input,
            out_stride: room.stride as i32,
            ple_stride: (layers * width) as i32,
            columns: self.count as i32,
            ..Linear::default()
        };
        let blocks = self.count.div_ceil(cut.ranks * cut.own) * cut.ranks;
        let arguments = vec![argument(linear), argument(leave)];
        let grid = (blocks as u32, 1, 1);
        let mut launch = self.builder.launch(
            cut.name,
            grid,
            cut.threads,
            cut.shared,
            arguments,
            true,
            Role::Ple(layer),
        )?;
        launch.cluster = cut.ranks as u32;
        self.push_launch(launch)?;
        self.entered = true;
        Ok(true)
    }
}
