//! The list of a prompt's pass: up to [`WIDEST`] neighbouring positions of one sequence whose outputs nobody wants, so that layers behind the last K/V owner
//! do not run (`kernels/bulk_*.cu`).
//!
//! The same stages as in `plan`, each linear as a matrix product that reads its weights once for all columns. Sliding layers keep the window and the pass
//! beside their ring while they attend, because a pass is wider than the ring's slack. Lists are launched as they are: a prompt has any length, and a
//! graph for each would cost more than it saves.

mod cuts;
mod per_layer;

use std::sync::Arc;

use rawloop_backend::columns;
use rawloop_spec::AttentionKind;
use rawloop_spec::contract::KEY_BLOCK;

use crate::driver::{Device, Launch};
use crate::form::Role;
use crate::kv::KvLayout;
use crate::memory::DeviceBytes;
use crate::options::DriverError;
use crate::params::{BulkAttention, Column, Enter, Linear, Matrix, Project, Scale, argument};
use crate::plan::{Builder, OutputKind};
use crate::weights::Weights;
use cuts::{CHUNK, GROUP_ROWS, GROUP_THREADS, cuts, group_cut, group_shared, has_room, parts};

/// Tokens of a prompt in one pass at most.
pub const WIDEST: usize = 1024;
/// Columns of a pass at least; fewer are quicker in the wide form.
pub(crate) const LEAST: usize = 48;
/// Rows and columns that a block of the grid of a linear makes.
const TILE: usize = 128;
/// Columns of one of its blocks where there are few rows or columns.
const FEW: usize = 32;
/// Chunks under way in a linear.
const STAGES: usize = 3;
/// Shared memory of a linear at most.
const LINEAR_SHARED: usize = STAGES * (16_384 + TILE * 144);
/// Threads of a linear, of attention and of the projection.
const BULK_THREADS: u32 = 256;
/// Rows and columns of the projection to the per-layer inputs.
const PROJECT_TILE: usize = 64;
const PROJECT_COLUMNS: usize = 48;
const PROJECT_THREADS: u32 = 128;
/// Columns of it where the next lanes of the sum come while some are multiplied.
const AHEAD_COLUMNS: usize = 96;
/// Rows and columns of it in large tiles, and its shared memory: three stages of sixteen elements, three levels of the tree.
const SQUARE_ROWS: usize = 112;
const SQUARE_COLUMNS: usize = 128;
const SQUARE_SHARED: usize = 4 * (3 * 2 * 16 * 132 + 3 * 56 * BULK_THREADS as usize);
/// What a round of large tiles takes, and one of the others.
const SQUARE_COST: usize = 3;
const AHEAD_COST: usize = 2;
/// Chunks of 256 inputs there at most.
const AHEAD_CHUNKS: usize = 10;
/// Columns of a block that enters several at once (`kernels/bulk_enter.cu`).
const ENTER_AT_ONCE: usize = 4;
/// Its threads at most.
const ENTER_THREADS: usize = 640;

/// Tiles of columns in the passes of a prompt of `count` columns: what a column more costs, if it costs anything.
pub(crate) fn tiles(mut count: usize, width: usize) -> usize {
    let mut tiles = 0;
    while count > 0 {
        let pass = columns::next_width(count, width);
        tiles += pass.div_ceil(TILE);
        count -= pass;
    }
    tiles
}

/// Where the values of a prompt's pass lie on the card.
pub(crate) struct BulkRoom {
    columns: DeviceBytes,
    hidden: [DeviceBytes; 2],
    by_lanes: DeviceBytes,
    per_layer_inputs: DeviceBytes,
    table_rows: DeviceBytes,
    table_scales: DeviceBytes,
    q: DeviceBytes,
    k: DeviceBytes,
    v: DeviceBytes,
    input: DeviceBytes,
    product: DeviceBytes,
    ffn: DeviceBytes,
    sums: DeviceBytes,
    beside: DeviceBytes,
    /// Bytes from a column's codes to the next column's, and the same of the FFN's hidden.
    stride: usize,
    ffn_stride: usize,
    /// Columns at most.
    pub width: usize,
    beside_slots: usize,
}

impl BulkRoom {
    /// Room for passes of a model; none where its shape is not one that the kernels know, or the device has too little shared memory.
    pub fn new(
        device: &Arc<Device>,
        weights: &Weights,
        layout: &KvLayout,
    ) -> Result<Option<BulkRoom>, DriverError> {
        let geometry = &weights.geometry;
        let layers = &geometry.layers[..layout.layers.len()];
        let group = geometry.heads / geometry.kv_heads;
        let fits = |dim: usize| {
            let (first, second) = cuts(dim);
            [32, 64, 128, 256, 512].contains(&dim)
                && [Some(first), second].into_iter().flatten().any(|cut| has_room(cut, group, device))
        };
        let bits = |m: &Matrix| m.bits > 0;
        let known = layers.iter().all(|layer| fits(layer.head_dim))
            && geometry.hidden.is_multiple_of(128)
            && weights.layers.iter().all(|layer| layer.kv.is_none_or(|(k, v)| bits(&k) && bits(&v)))
            && device.shared >= LINEAR_SHARED;
        if !known {
            return Ok(None);
        }
        let width = WIDEST.min(layout.context);
        let most = |size: fn(&rawloop_spec::Layer) -> usize| layers.iter().map(size).max().unwrap_or(0);
        let (dim, ffn) = (most(|layer| layer.head_dim), most(|layer| layer.ffn));
        let stride = geometry.hidden.max(geometry.heads * dim).max(geometry.ple_width).next_multiple_of(128);
        let ffn_stride = ffn.next_multiple_of(128);
        let beside_slots = (geometry.window + width).next_multiple_of(KEY_BLOCK) + KEY_BLOCK;
        let sliding = |layer: &&rawloop_spec::Layer| layer.attention == AttentionKind::Sliding;
        let beside_dim = layers.iter().filter(sliding).map(|layer| layer.head_dim).max().unwrap_or(0);
        let beside_rows = geometry.kv_heads * beside_slots;
        let bytes = |length: usize| DeviceBytes::zeroed(device, length);
        let floats = |count: usize| bytes(4 * width * count);
        let table_bytes = weights.ple.columns as usize * weights.ple.bits as usize / 8;
        Ok(Some(BulkRoom {
            columns: bytes(width * size_of::<Column>())?,
            hidden: [floats(geometry.hidden)?, floats(geometry.hidden)?],
            by_lanes: floats(geometry.hidden)?,
            per_layer_inputs: floats(layers.len() * geometry.ple_width)?,
            table_rows: bytes(width * table_bytes)?,
            table_scales: floats(geometry.layers.len())?,
            q: bytes(width * stride)?,
            k: bytes(width * stride)?,
            v: bytes(width * stride)?,
            input: bytes(width * stride)?,
            product: bytes(width * stride)?,
            ffn: bytes(width * ffn_stride)?,
            sums: floats(geometry.hidden)?,
            beside: bytes(2 * beside_rows * (beside_dim * layout.format.value_bytes() + 4) + 1024)?,
            stride,
            ffn_stride,
            width,
            beside_slots,
        }))
    }

    /// Copies the stream of a pass's column from one of the two buffers, in the order of the card's work.
    pub fn hand_on(&self, stream: usize, column: usize, to: &DeviceBytes) -> Result<(), DriverError> {
        let bytes = self.hidden[stream].len() / self.width;
        to.copy_from(0, &self.hidden[stream], column * bytes, bytes)
    }

    /// Where the columns of a pass go.
    pub fn columns(&self) -> u64 {
        self.columns.address()
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        let all = [
            &self.columns,
            &self.hidden[0],
            &self.hidden[1],
            &self.by_lanes,
            &self.per_layer_inputs,
            &self.table_rows,
            &self.table_scales,
            &self.q,
            &self.k,
            &self.v,
            &self.input,
            &self.product,
            &self.ffn,
            &self.sums,
            &self.beside,
        ];
        all.iter().map(|bytes| bytes.len()).sum()
    }
}

/// A linear whose sums have yet to join the stream.
type Joining = Option<(Matrix, u64, f32)>;

/// A list under construction.
pub(crate) struct Bulk<'a, 'b> {
    builder: &'a mut Builder<'b>,
    room: &'a BulkRoom,
    count: usize,
    /// Whether launches are started as they are made.
    start: bool,
    launches: Vec<Launch>,
    stream: usize,
    joining: Joining,
    /// Whether the kernel before has made the codes of the next layer's queries, keys and values.
    entered: bool,
}

impl<'a, 'b> Bulk<'a, 'b> {
    /// The launches of a pass of `count` columns, and which buffer has the stream that enters the last layer that owns K/V.
    ///
    /// # Errors
    /// A kernel is missing or would need more shared memory than there is.
    pub fn build(
        builder: &'a mut Builder<'b>,
        room: &'a BulkRoom,
        count: usize,
        start: bool,
    ) -> Result<(Vec<Launch>, usize), DriverError> {
        let own = builder.layout.layers.len();
        let mut list = Bulk {
            builder,
            room,
            count,
            start,
            launches: Vec::new(),
            stream: 0,
            joining: None,
            entered: false,
        };
        list.inputs(own - 1)?;
        for layer in 0..own - 1 {
            list.qkv(layer, true)?;
            list.attention(layer, true)?;
            list.behind(layer)?;
        }
        list.qkv(own - 1, false)?;
        list.attention(own - 1, false)?;
        Ok((list.launches, list.stream))
    }

    fn push(
        &mut self,
        name: &'static str,
        grid: (usize, usize, usize),
        threads: u32,
        shared: usize,
        arguments: Vec<Box<[u64]>>,
        role: Role,
    ) -> Result<(), DriverError> {
        let early = !self.launches.is_empty();
        let grid = (grid.0 as u32, grid.1 as u32, grid.2 as u32);
        let launch = self.builder.launch(name, grid, threads, shared, arguments, early, role)?;
        self.push_launch(launch)
    }

    fn push_launch(&mut self, launch: Launch) -> Result<(), DriverError> {
        if self.start {
            self.builder.device.launch(&launch)?;
        }
        self.launches.push(launch);
        Ok(())
    }

    /// Rules 10 and 11 for the first `layers` layers.
    fn inputs(&mut self, layers: usize) -> Result<(), DriverError> {
        let (weights, room) = (self.builder.weights, self.room);
        let geometry = &weights.geometry;
        let (hidden, width) = (geometry.hidden, geometry.ple_width);
        let arguments = vec![
            argument(weights.embed),
            argument(room.columns()),
            argument(room.hidden[0].address()),
            argument(room.by_lanes.address()),
            argument(room.sums.address()),
        ];
        self.push("bulk_embed", (self.count, 1, 1), 256, 0, arguments, Role::Embed)?;
        let project = Project {
            weights: weights.model_projection,
            hidden: room.by_lanes.address(),
            out: room.per_layer_inputs.address(),
            columns: room.columns(),
            table_rows: room.table_rows.address(),
            table_scales: room.table_scales.address(),
            table: weights.ple,
            factor: (1.0 / (hidden as f64).sqrt()) as f32,
            rows: (layers * width) as i32,
            width: hidden as i32,
            chunks: weights.projection_chunks as i32,
            out_stride: (layers * width) as i32,
            count: self.count as i32,
        };
        let tiles =
            |rows: usize, columns: usize| ((layers * width).div_ceil(rows), self.count.div_ceil(columns));
        let (few, many) = (tiles(SQUARE_ROWS, SQUARE_COLUMNS), tiles(PROJECT_TILE, AHEAD_COLUMNS));
        let device = self.builder.device;
        let rounds = |tiles: (usize, usize)| (tiles.0 * tiles.1).div_ceil(device.about.multiprocessors);
        let large = hidden.is_multiple_of(512)
            && SQUARE_SHARED + 1024 <= device.shared
            && rounds(few) * SQUARE_COST < rounds(many) * AHEAD_COST;
        let (name, tiles, threads, shared) = match self.ahead_shared() {
            _ if large => ("bulk_project_square", few, BULK_THREADS, SQUARE_SHARED),
            Some(shared) => ("bulk_project_ahead", many, BULK_THREADS, shared),
            None => {
                let shared = (PROJECT_TILE + PROJECT_COLUMNS) * (hidden / 8 + 4) * 4;
                ("bulk_project", tiles(PROJECT_TILE, PROJECT_COLUMNS), PROJECT_THREADS, shared)
            }
        };
        // The first row of blocks brings the table's rows.
        let grid = (tiles.0, tiles.1 + 1, 1);
        self.push(name, grid, threads, shared, vec![argument(project)], Role::Project)?;
        let arguments = vec![
            argument(weights.ple),
            argument(room.table_rows.address()),
            argument(room.table_scales.address()),
            argument(weights.ple_norm),
            argument(room.per_layer_inputs.address()),
            argument((layers * width) as i32),
            argument(width as i32),
            argument(std::f64::consts::FRAC_1_SQRT_2 as f32),
        ];
        self.push("combine", (layers.max(1), self.count, 1), 32, 0, arguments, Role::Combine)
    }

    /// Shared memory of the projection that brings the next lanes of its sums while it multiplies (`kernels/bulk_project.cu`), where it knows the width.
    fn ahead_shared(&self) -> Option<usize> {
        let (weights, device) = (self.builder.weights, self.builder.device);
        let shared = 2 * (PROJECT_TILE + AHEAD_COLUMNS) * (weights.geometry.hidden / 16 + 4) * 4;
        let known = weights.geometry.hidden.is_multiple_of(256) && weights.projection_chunks <= AHEAD_CHUNKS;
        (known && shared + 1024 <= device.shared).then_some(shared)
    }

    /// What waits joins the stream; codes of the next linear behind `norm`.
    fn enter(&mut self, norm: u64, input: Scale) -> Result<(), DriverError> {
        let room = self.room;
        let hidden = self.builder.weights.geometry.hidden;
        let mut enter = Enter {
            hidden_in: room.hidden[self.stream].address(),
            norm,
            input,
            count: Scale::new(hidden as f32),
            hidden: hidden as i32,
            ..Enter::default()
        };
        if let Some((matrix, join_norm, scalar)) = self.joining.take() {
            self.stream ^= 1;
            enter.sums = room.sums.address();
            enter.multipliers = matrix.multipliers;
            enter.join_norm = join_norm;
            enter.join = matrix.output;
            enter.scalar = scalar;
            // The next sums are added to zeros.
            enter.clear = 1;
            enter.hidden_out = room.hidden[self.stream].address();
        }
        let mut arguments =
            vec![argument(enter), argument(room.input.address()), argument(room.stride as i32)];
        if hidden <= 4 * ENTER_THREADS {
            arguments.push(argument(self.count as i32));
            let (blocks, threads) = (self.count.div_ceil(ENTER_AT_ONCE), (hidden / 4).next_multiple_of(32));
            let (grid, shared) = ((blocks, 1, 1), ENTER_AT_ONCE * hidden * 4);
            return self.push("enter_by_four", grid, threads as u32, shared, arguments, Role::Other);
        }
        arguments.push(argument(0u64));
        let threads = self.builder.threads();
        self.push("enter_rows", (self.count, 1, 1), threads, hidden * 17, arguments, Role::Other)
    }

    /// One linear, or several of the same input; all have codes of one width.
    fn linear(
        &mut self,
        matrices: &[(Matrix, u64)],
        inputs: usize,
        output: OutputKind,
        base: Linear,
        role: Role,
    ) -> Result<(), DriverError> {
        let mut linear = Linear {
            matrices: matrices.len() as i32,
            columns: self.count as i32,
            inputs: inputs as i32,
            output_kind: output as i32,
            ..base
        };
        let spans = if matches!(output, OutputKind::Ffn) { 2 } else { 1 };
        for (index, (matrix, out)) in matrices.iter().enumerate() {
            (linear.m[index], linear.out[index]) = (*matrix, *out);
        }
        let mut cut_by = |rows: usize| {
            let mut blocks = 0;
            for (end, (matrix, _)) in linear.block_end.iter_mut().zip(matrices) {
                blocks += ((matrix.rows as usize).div_ceil(16) * spans).div_ceil(rows / 16);
                *end = blocks as i32;
            }
            blocks
        };
        let multiprocessors = self.builder.device.about.multiprocessors;
        let sums = matches!(output, OutputKind::Sums);
        if matrices[0].0.bits == 4 && self.has_group_products() {
            let blocks = cut_by(GROUP_ROWS);
            let cut = group_cut(blocks, self.count, inputs.div_ceil(CHUNK), sums, multiprocessors);
            if let Some((name, columns, parts)) = cut {
                let grid = (blocks, self.count.div_ceil(columns), parts);
                let shared = group_shared(columns);
                return self.push(name, grid, GROUP_THREADS, shared, vec![argument(linear)], role);
            }
        }
        let blocks = cut_by(TILE);
        // Fewer columns a block where blocks would be fewer than multiprocessors; K in parts where sums are wanted.
        let few = blocks * self.count.div_ceil(TILE) * 2 < multiprocessors;
        let columns = if few { FEW } else { TILE };
        let chunks = inputs.div_ceil(CHUNK);
        let mut grid = (blocks, self.count.div_ceil(columns), 1);
        if sums {
            grid.2 = parts(grid.0 * grid.1, chunks, multiprocessors);
        }
        let (name, codes, column) = match (matrices[0].0.bits, few) {
            (2, false) => ("bulk_2", 4096, 192),
            (2, true) => ("bulk_2_few", 4096, 192),
            (4, false) => ("bulk_4", 8192, 160),
            (4, true) => ("bulk_4_few", 8192, 160),
            (_, false) => ("bulk_8", 16_384, 144),
            (_, true) => ("bulk_8_few", 16_384, 144),
        };
        let shared = STAGES * (codes + columns * column);
        self.push(name, grid, BULK_THREADS, shared, vec![argument(linear)], role)
    }

    /// Whether the device has products of warpgroups, and the kernels that are loaded are built for them.
    fn has_group_products(&mut self) -> bool {
        let device = self.builder.device;
        let room = group_shared(256) + 1024 <= device.shared;
        !self.builder.trial.bulk_by_warps
            && device.about.capability.0 == 9
            && room
            && self.builder.functions.get(device, "bulk_wgmma_4_256").is_ok()
    }

    fn qkv(&mut self, layer: usize, queries: bool) -> Result<(), DriverError> {
        let (room, weights) = (self.room, self.builder.weights.layers[layer].clone());
        let hidden = self.builder.weights.geometry.hidden;
        if !std::mem::take(&mut self.entered) {
            self.enter(weights.input_norm, weights.q.input)?;
        }
        let mut matrices = Vec::with_capacity(3);
        if queries {
            matrices.push((weights.q, room.q.address()));
        }
        if let Some((k, v)) = weights.kv {
            matrices.extend([(k, room.k.address()), (v, room.v.address())]);
        }
        let base = Linear {
            input: room.input.address(),
            input_stride: room.stride as i32,
            out_stride: room.stride as i32,
            ..Linear::default()
        };
        for some in matrices.chunk_by(|a, b| a.0.bits == b.0.bits) {
            self.linear(some, hidden, OutputKind::Codes, base, Role::Qkv(layer))?;
        }
        Ok(())
    }

    /// Storing and, where wanted, attention.
    fn attention(&mut self, layer: usize, attend: bool) -> Result<(), DriverError> {
        let weights = self.builder.weights.layers[layer].clone();
        let Builder { layout, rope, weights: model, .. } = &*self.builder;
        let (room, geometry) = (self.room, &model.geometry);
        let shape = geometry.layers[layer];
        let kv = layout.layers[layer];
        let set = usize::from(shape.attention != AttentionKind::Sliding);
        let side = geometry.kv_heads * room.beside_slots * shape.head_dim * layout.format.value_bytes();
        let scales = geometry.kv_heads * room.beside_slots * 4;
        let mut params = BulkAttention {
            columns: room.columns(),
            q: room.q.address(),
            q_norm: weights.q_norm,
            k_norm: weights.k_norm,
            rope: rope.address(set),
            out: room.input.address(),
            beside: if kv.ring { room.beside.address() } else { 0 },
            keys: kv.rows[0] as u64,
            values: kv.rows[1] as u64,
            key_scales: kv.scales[0] as u64,
            value_scales: kv.scales[1] as u64,
            beside_keys: 0,
            beside_values: side as u64,
            beside_key_scales: 2 * side as u64,
            beside_value_scales: (2 * side + scales) as u64,
            input: weights.o.input,
            q_scale: weights.q.output.value,
            rope_stride: rope.stride() as i32,
            pairs: rope.pairs(set) as i32,
            slots: kv.slots as i32,
            beside_slots: room.beside_slots as i32,
            dim: shape.head_dim as i32,
            heads: geometry.heads as i32,
            kv_heads: geometry.kv_heads as i32,
            window: if kv.ring { geometry.window as i32 } else { 0 },
            stride: room.stride as i32,
            count: self.count as i32,
            format: crate::plan::format_index(layout.format) as i32,
            ..BulkAttention::default()
        };
        if let Some((k, v)) = weights.kv {
            (params.k, params.k_scale) = (room.k.address(), k.output.value);
            (params.v, params.v_scale) = (room.v.address(), v.output.value);
        }
        let (kv_heads, group) = (geometry.kv_heads, geometry.heads / geometry.kv_heads);
        let before = if kv.ring { geometry.window + KEY_BLOCK } else { 0 };
        let (dim, role) = (shape.head_dim, Role::Attend(layer));
        let arguments = || vec![argument(params)];
        self.push("bulk_store", (self.count + before, kv_heads, 1), 64, 2 * dim * 4, arguments(), role)?;
        if attend {
            let device = self.builder.device;
            let (first, second) = cuts(dim);
            let blocks = self.count.div_ceil((first.1 / group).max(1)) * kv_heads;
            let second = second.filter(|&cut| {
                has_room(cut, group, device)
                    && (blocks <= device.about.multiprocessors || !has_room(first, group, device))
            });
            let (name, rows, shared) = second.unwrap_or(first);
            let grid = (self.count.div_ceil(rows / group), kv_heads, 1);
            self.push(name, grid, BULK_THREADS, shared, arguments(), role)?;
        }
        if kv.ring && !attend {
            self.push("bulk_keep", (self.count.min(kv.slots), kv_heads, 1), 64, 0, arguments(), role)?;
        }
        Ok(())
    }

    /// The linears of a layer behind attention.
    fn behind(&mut self, layer: usize) -> Result<(), DriverError> {
        let (room, weights) = (self.room, self.builder.weights.layers[layer].clone());
        let geometry = &self.builder.weights.geometry;
        let shape = geometry.layers[layer];
        let (hidden, width, layers) =
            (geometry.hidden, geometry.ple_width, self.builder.layout.layers.len() - 1);
        let heads = geometry.heads * shape.head_dim;
        let sums = |input: u64, stride: usize| Linear {
            input,
            input_stride: stride as i32,
            sums: room.sums.address(),
            sums_stride: hidden as i32,
            ..Linear::default()
        };
        let codes = |out_stride: usize, gelu: u64, next: Scale| Linear {
            input: room.input.address(),
            input_stride: room.stride as i32,
            out_stride: out_stride as i32,
            gelu,
            next,
            ..Linear::default()
        };

        let base = sums(room.input.address(), room.stride);
        self.linear(&[(weights.o, 0)], heads, OutputKind::Sums, base, Role::Output(layer))?;
        self.joining = Some((weights.o, weights.post_attention_norm, 1.0));

        self.enter(weights.pre_ffn_norm, weights.gate.input)?;
        let base = Linear {
            up_multipliers: weights.up_multipliers,
            up: weights.up_output,
            ..codes(room.ffn_stride, weights.gelu, weights.down.input)
        };
        let gate = [(weights.gate, room.ffn.address())];
        self.linear(&gate, hidden, OutputKind::Ffn, base, Role::GateUp(layer))?;
        let base = sums(room.ffn.address(), room.ffn_stride);
        self.linear(&[(weights.down, 0)], shape.ffn, OutputKind::Sums, base, Role::Down(layer))?;
        self.joining = Some((weights.down, weights.post_ffn_norm, 1.0));

        if self.per_layer(layer)? {
            return Ok(());
        }
        self.enter(0, weights.ple_gate.input)?;
        let base = Linear {
            ple: room.per_layer_inputs.address() + (4 * layer * width) as u64,
            ple_stride: (layers * width) as i32,
            ..codes(room.stride, weights.ple_gelu, weights.ple_projection.input)
        };
        let gate = [(weights.ple_gate, room.product.address())];
        self.linear(&gate, hidden, OutputKind::Product, base, Role::PleGate(layer))?;
        let base = sums(room.product.address(), room.stride);
        let projection = [(weights.ple_projection, 0)];
        self.linear(&projection, width, OutputKind::Sums, base, Role::PleProjection(layer))?;
        self.joining = Some((weights.ple_projection, weights.post_ple_norm, weights.layer_scalar));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_more_makes_a_tile_more_behind_full_ones_only() {
        assert_eq!([0, 1, 128, 129, 1024, 1025].map(|count| tiles(count, 1024)), [0, 1, 1, 2, 8, 9]);
        let grows: Vec<usize> =
            (48..1100).filter(|&count| tiles(count + 1, 1024) != tiles(count, 1024)).collect();
        assert_eq!(grows, [128, 256, 384, 512, 640, 768, 896, 1024, 1025]);
    }
}
