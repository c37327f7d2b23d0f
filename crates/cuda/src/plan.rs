//! A pass as a list of launches: which kernel, which grid, which addresses.
//!
//! Two forms of a layer exist. The **narrow** form serves one column: seven kernels a layer, norms and residual sums folded into the entry of
//! the stage that needs them. The **wide** form serves up to [`WIDTH`] columns with one reading of the weights: the same linears, with norms, storing of K/V and merging of
//! attention in kernels of their own. Everything that varies from token to token (ids, positions, K/V addresses) lies on the card, so a list is
//! recorded once as a graph and serves every token of its form.
//!
//! Order matters for early starts: only the first kernel of a list waits for everything before it, every other one may copy what no kernel
//! of the list writes before its predecessor has finished. K/V of earlier positions are such a thing in the narrow form, not in the wide one.
//!
//! Above 600 lines because that is checked by reading: who writes a value and who reads it early stand in one file, both forms side by side.
//! `form.rs` has what lists differ in, `room.rs` where values lie, `runner.rs` what makes graphs of lists.

use std::collections::HashMap;
use std::sync::Arc;

use bytemuck::Pod;
use rawloop_spec::AttentionKind;
use rawloop_spec::contract::KEY_BLOCK;

use crate::driver::{Device, Function, Launch};
use crate::form::{Form, Reach, Role};
use crate::kv::KvLayout;
use crate::options::{DriverError, KvFormat};
use crate::params::{Attention, Enter, Head, Linear, Matrix, Merge, Project, Scale, argument};
use crate::room::{Room, TapRoom};
use crate::rope::RopeTable;
use crate::weights::{LayerWeights, Weights};

/// Columns of one wide pass at most.
pub(crate) const WIDTH: usize = 32;
/// Columns of the smaller of the two wide kernels.
const EIGHT: usize = 8;
/// Shared memory of a block that the larger one needs for E4B.
const WIDEST_SHARED: usize = 200_000;
/// Threads of a stage kernel.
pub(crate) const THREADS: u32 = 384;
/// Warps of a stage kernel, units of 512 bytes in the ring of one at most, and those that are copied together.
const WARPS: usize = 12;
const DEPTH: usize = 12;
/// Weights of a block of the grid that come at once at most.
const WHOLE: usize = 80 << 10;
/// Bytes of the rings of the head, which streams longest.
const HEAD_RING: usize = WARPS * 16 * 512;
/// Threads of an attention kernel.
const ATTENTION_THREADS: u32 = 256;
/// Shared memory of an attention block over many keys: two or three of them side by side hide each other's loads.
const LONG_SHARED: usize = 100_000;
/// Blocks of keys merged at once.
const MERGE_CHUNK: usize = 16;

/// Columns of a wide pass at most on this device.
pub(crate) fn width(device: &Device) -> usize {
    if device.shared >= WIDEST_SHARED { WIDTH } else { EIGHT }
}

/// Everything a list is built from.
pub(crate) struct Builder<'a> {
    pub device: &'a Arc<Device>,
    pub functions: &'a mut Functions,
    pub weights: &'a Weights,
    pub room: &'a Room,
    pub layout: &'a KvLayout,
    pub rope: &'a RopeTable,
    pub taps: TapRoom,
}

/// Kernels that were looked up.
#[derive(Default)]
pub(crate) struct Functions(HashMap<&'static str, Function>);

impl Functions {
    pub fn get(&mut self, device: &Device, name: &'static str) -> Result<Function, DriverError> {
        if let Some(function) = self.0.get(name) {
            return Ok(*function);
        }
        let function = device.function(name)?;
        self.0.insert(name, function);
        Ok(function)
    }
}

/// A linear whose sums have yet to join the residual stream.
#[derive(Clone, Copy)]
struct Joining {
    sums: u64,
    matrix: Matrix,
    norm: u64,
    scalar: f32,
}

/// A list under construction.
struct List<'a, 'b> {
    builder: &'a mut Builder<'b>,
    form: Form,
    launches: Vec<Launch>,
    /// Which of the two buffers holds the residual stream.
    stream: usize,
    joining: Option<Joining>,
}

impl Builder<'_> {
    /// The launches of a form.
    ///
    /// # Errors
    /// A kernel is missing or would need more shared memory than there is.
    pub fn build(&mut self, form: Form) -> Result<Vec<Launch>, DriverError> {
        let own = self.layout.layers.len();
        let layers = self.weights.geometry.layers.len();
        let mut list = List { builder: self, form, launches: Vec::new(), stream: 0, joining: None };
        list.inputs(if form.full { layers } else { own - 1 })?;
        for layer in 0..if form.full { layers } else { own - 1 } {
            list.qkv(layer)?;
            list.attention(layer, false)?;
            list.output(layer)?;
            list.ffn(layer)?;
            list.ple(layer)?;
        }
        if form.full {
            list.last()?;
            if form.chained {
                list.head()?;
                list.pick()?;
            }
        } else {
            list.qkv(own - 1)?;
            list.attention(own - 1, true)?;
        }
        Ok(list.launches)
    }

    /// The head over `count` columns from `first` on, at most two: logits or best rows.
    pub fn head(
        &mut self,
        first: usize,
        count: usize,
        best: u64,
        logits: u64,
        early: bool,
    ) -> Result<Launch, DriverError> {
        let m = self.weights.head;
        let hidden = self.weights.geometry.hidden;
        let row_blocks = (m.rows as usize).div_ceil(16);
        let each = row_blocks.div_ceil(self.device.about.multiprocessors).clamp(1, 128);
        let (name, tokens) = if count == 1 { ("head", 1) } else { ("head_wide", 2) };
        let x = m.split_k as usize * 128 + 32;
        let shared = HEAD_RING + each * 16 * 3 * tokens * 4 + 3 * tokens * x;
        let head = Head {
            m,
            hidden: self.room.last.address() + (4 * first * hidden) as u64,
            logits,
            best,
            width: hidden as i32,
            count: count as i32,
            row_blocks: each as i32,
            fill: 0,
        };
        let grid = (row_blocks.div_ceil(each) as u32, 1, 1);
        self.launch(name, grid, THREADS, shared, vec![argument(head)], early, Role::Head)
    }

    #[allow(clippy::too_many_arguments)] // the fields of a launch
    pub fn launch(
        &mut self,
        name: &'static str,
        grid: (u32, u32, u32),
        threads: u32,
        shared: usize,
        arguments: Vec<Box<[u64]>>,
        early: bool,
        role: Role,
    ) -> Result<Launch, DriverError> {
        let function = self.functions.get(self.device, name)?;
        if shared > function.dynamic {
            let why = format!("it needs {shared} bytes of shared memory, a block has {}", function.dynamic);
            return Err(DriverError { what: format!("preparing kernel {name}"), why });
        }
        Ok(Launch { name, function, grid, threads, shared, arguments, early, role })
    }
}

impl List<'_, '_> {
    fn narrow(&self) -> bool {
        self.form.columns == 1
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
        self.launches.push(launch);
        Ok(())
    }

    fn push_one<T: Pod>(
        &mut self,
        name: &'static str,
        grid: (usize, usize, usize),
        threads: u32,
        shared: usize,
        params: T,
        role: Role,
    ) -> Result<(), DriverError> {
        self.push(name, grid, threads, shared, vec![argument(params)], role)
    }

    fn weights(&self, layer: usize) -> LayerWeights {
        self.builder.weights.layers[layer].clone()
    }

    /// Rules 10 and 11: the stream's start and the per-layer inputs of the first `layers` layers.
    fn inputs(&mut self, layers: usize) -> Result<(), DriverError> {
        let Builder { weights, room, device, .. } = &*self.builder;
        let (weights, room) = (*weights, *room);
        let geometry = &weights.geometry;
        let (hidden, width, columns) = (geometry.hidden, geometry.ple_width, self.form.columns);
        let multiprocessors = device.about.multiprocessors;
        let stream = room.hidden[0].address();
        let arguments = vec![argument(weights.embed), argument(room.columns.address()), argument(stream)];
        self.push("embed", (columns, 1, 1), 256, 0, arguments, Role::Embed)?;
        let stride = geometry.layers.len() * width;
        let table_bytes = weights.ple.columns as usize * weights.ple.bits as usize / 8;
        // Eight columns at a time: the sums of a row stay in registers.
        for first in (0..columns).step_by(EIGHT) {
            let count = EIGHT.min(columns - first);
            let at = |address: u64, bytes: usize| address + (first * bytes) as u64;
            let project = Project {
                weights: weights.model_projection,
                hidden: at(stream, 4 * hidden),
                out: at(room.per_layer_inputs.address(), 4 * stride),
                columns: at(room.columns.address(), size_of::<crate::params::Column>()),
                table_rows: at(room.table_rows.address(), table_bytes),
                table_scales: at(room.table_scales.address(), 4 * geometry.layers.len()),
                table: weights.ple,
                factor: (1.0 / (hidden as f64).sqrt()) as f32,
                rows: (layers * width) as i32,
                width: hidden as i32,
                chunks: weights.projection_chunks as i32,
                out_stride: stride as i32,
                count: count as i32,
            };
            let (name, kept) = if self.narrow() { ("project", 1) } else { ("project_wide", EIGHT) };
            let blocks = (layers * width).div_ceil(64).clamp(1, multiprocessors) + 1;
            self.push_one(name, (blocks, 1, 1), 512, kept * hidden * 4, project, Role::Project)?;
        }
        let arguments = vec![
            argument(weights.ple),
            argument(room.table_rows.address()),
            argument(room.table_scales.address()),
            argument(weights.ple_norm),
            argument(room.per_layer_inputs.address()),
            argument(stride as i32),
            argument(width as i32),
            argument(std::f64::consts::FRAC_1_SQRT_2 as f32),
        ];
        self.push("combine", (layers.max(1), columns, 1), 32, 0, arguments, Role::Combine)
    }

    /// The entry of a stage that quantises with `input` behind `norm`; the joining linear is used up.
    fn enter(&mut self, norm: u64, input: Scale) -> Enter {
        let room = self.builder.room;
        let hidden_in = room.hidden[self.stream].address();
        let mut enter = Enter {
            hidden_in,
            norm,
            input,
            count: Scale::new(self.builder.weights.geometry.hidden as f32),
            hidden: self.builder.weights.geometry.hidden as i32,
            ..Enter::default()
        };
        if let Some(joining) = self.joining.take() {
            self.stream ^= 1;
            enter.sums = joining.sums;
            enter.multipliers = joining.matrix.multipliers;
            enter.join_norm = joining.norm;
            enter.join = joining.matrix.output;
            enter.scalar = joining.scalar;
            enter.hidden_out = room.hidden[self.stream].address();
            enter.tap_joined = self.builder.taps.joined;
        }
        enter
    }

    /// Whether columns enter and merge in the kernels of the linears, as in the narrow form.
    fn fused(&self) -> bool {
        self.narrow() || self.form.columns <= EIGHT && self.builder.device.shared >= WIDEST_SHARED
    }

    /// Shared memory of the entries of some columns: three vectors of floats, and one of floats and one of codes a column. The width is a
    /// multiple of 32.
    fn enter_bytes(&self, columns: usize) -> usize {
        self.builder.weights.geometry.hidden * (12 + 5 * columns)
    }

    /// One linear stage. `base` has everything but the entry, the cut and the columns.
    fn stage(
        &mut self,
        output: OutputKind,
        mut base: Linear,
        entry: Option<(u64, Scale)>,
        role: Role,
        cut: Cut,
    ) -> Result<(), DriverError> {
        let (narrow, columns) = (self.narrow(), self.form.columns);
        let stride = self.builder.room.code_stride;
        let (name, kept) = match columns {
            1 => ("stage_narrow", 1),
            2..=EIGHT => ("stage_wide", EIGHT),
            _ => ("stage_widest", WIDTH),
        };
        let fused = self.fused();
        let split_k = base.m.iter().map(|m| m.split_k as usize).max().unwrap_or(0);
        // All of a block's weights come at once where they fit.
        let units = cut.row_blocks * cut.spans * split_k;
        let ring = if units * 512 > WHOLE { DEPTH } else { 0 };
        base.ring = ring as i32;
        let mut shared = 512 * if ring == 0 { units } else { WARPS * ring };
        if let Some((norm, scale)) = entry {
            let enter = self.enter(norm, scale);
            if fused {
                base.enter = enter;
                base.input_kind = 1;
                shared += self.enter_bytes(columns);
            } else {
                self.enter_rows(enter, role)?;
                base.input = self.builder.room.input.address();
                base.input_stride = stride as i32;
            }
        }
        if fused && base.merge.heads > 0 {
            base.input_kind = 2;
            shared += columns * base.merge.heads as usize * 3 * MERGE_CHUNK * 4;
        }
        base.columns = columns as i32;
        base.output_kind = output as i32;
        base.row_blocks = cut.row_blocks as i32;
        base.tap_input = self.builder.taps.input;
        let x = base.m.iter().filter(|m| m.bits > 0).map(|m| (m.split_k * (256 / m.bits)) as usize);
        let x = x.max().unwrap_or(0) + if narrow { 0 } else { 32 };
        let rows = cut.row_blocks * 16 * cut.spans;
        // The GELU table is counted whether the stage has one or not.
        shared += 1024 + rows * 4 + rows * kept * 4 + kept * x;
        self.push_one(name, (cut.blocks, cut.parts, 1), THREADS, shared, base, role)
    }

    fn enter_rows(&mut self, enter: Enter, role: Role) -> Result<(), DriverError> {
        let room = self.builder.room;
        let arguments = vec![
            argument(enter),
            argument(room.input.address()),
            argument(room.code_stride as i32),
            argument(0u64),
        ];
        self.push("enter_rows", (self.form.columns, 1, 1), THREADS, self.enter_bytes(1), arguments, role)
    }

    fn multiprocessors(&self) -> usize {
        self.builder.device.about.multiprocessors
    }

    fn qkv(&mut self, layer: usize) -> Result<(), DriverError> {
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
            zero: room.sums[0].address(),
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

    /// Storing and attention; only storing where `store_only`.
    fn attention(&mut self, layer: usize, store_only: bool) -> Result<(), DriverError> {
        let weights = self.weights(layer);
        let Builder { room, layout, rope, taps, weights: model, .. } = &*self.builder;
        let geometry = &model.geometry;
        let shape = geometry.layers[layer];
        let kv = layout.layers[shape.producer];
        let sliding = shape.attention == AttentionKind::Sliding;
        let set = usize::from(!sliding);
        let narrow = self.narrow();
        let owns = weights.kv.is_some();
        let mut params = Attention {
            columns: room.columns.address(),
            q: room.q.address(),
            q_norm: weights.q_norm,
            k_norm: weights.k_norm,
            rope: rope.address(set),
            values: room.partial_values.address(),
            largest: room.partial_largest.address(),
            sums: room.partial_sums.address(),
            tap_query: taps.query,
            chain: room.chain.address(),
            keys: kv.rows[0] as u64,
            values_at: kv.rows[1] as u64,
            key_scales: kv.scales[0] as u64,
            value_scales: kv.scales[1] as u64,
            q_scale: weights.q.output.value,
            rope_stride: rope.stride() as i32,
            pairs: rope.pairs(set) as i32,
            slots: kv.slots as i32,
            ring: i32::from(kv.ring),
            dim: shape.head_dim as i32,
            heads: geometry.heads as i32,
            kv_heads: geometry.kv_heads as i32,
            window: if sliding { geometry.window as i32 } else { 0 },
            blocks: room.blocks as i32,
            q_stride: room.code_stride as i32,
            kv_stride: room.code_stride as i32,
            early: i32::from(narrow),
            ..Attention::default()
        };
        if let Some((k, v)) = weights.kv {
            (params.k, params.k_scale) = (room.k.address(), k.output.value);
            (params.v, params.v_scale) = (room.v.address(), v.output.value);
        }
        let format = layout.format;
        if owns && (store_only || !narrow) {
            let name = ["store_f32", "store_f16", "store_i8"][format_index(format)];
            let grid = (self.form.columns, geometry.kv_heads, 1);
            let shared = 2 * shape.head_dim * 4;
            self.push_one(name, grid, 64, shared, params, Role::Attend(layer))?;
            if store_only {
                return Ok(());
            }
            (params.k, params.v) = (0, 0);
        }
        let geometry = &self.builder.weights.geometry;
        let (kv_heads, window) = (geometry.kv_heads, geometry.window);
        let group = geometry.heads / kv_heads;
        // Four heads a block of the grid read keys and values a quarter as often: where there are many keys or many columns.
        let long = !sliding && self.form.reach == Reach::Long;
        let heads = if group >= 4 && (long || self.form.columns > EIGHT) { 4 } else { 1 };
        let name = attend_name(format, heads);
        let blocks = match (sliding, self.form.reach) {
            (true, _) => window / KEY_BLOCK + 1,
            (false, Reach::Short) => 8,
            (false, Reach::Middle) => 32,
            (false, Reach::Long) => 160,
        };
        let function = self.builder.functions.get(self.builder.device, name)?;
        let pairs = self.builder.rope.pairs(set);
        let (shared, one_buffer) = attend_bytes(
            format,
            shape.head_dim,
            heads,
            pairs,
            if long { LONG_SHARED } else { function.dynamic },
        );
        params.one_buffer = i32::from(one_buffer);
        let parts = kv_heads * group.div_ceil(heads);
        let grid = (blocks.min(self.builder.room.blocks), parts, self.form.columns);
        self.push_one(name, grid, ATTENTION_THREADS, shared, params, Role::Attend(layer))
    }

    fn output(&mut self, layer: usize) -> Result<(), DriverError> {
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
        let mut base = self.sums_out(weights.o, 0);
        let cut = self.cut_sums(&weights.o);
        if self.fused() {
            base.merge = merge;
        } else {
            let room = self.builder.room;
            base.input = room.input.address();
            base.input_stride = room.code_stride as i32;
            let arguments = vec![argument(merge), argument(base.input), argument(room.code_stride as i32)];
            let shared = merge.heads as usize * 3 * MERGE_CHUNK * 4;
            let grid = (self.form.columns, 1, 1);
            self.push("merge_rows", grid, THREADS, shared, arguments, Role::Output(layer))?;
        }
        self.stage(OutputKind::Sums, base, None, Role::Output(layer), cut)?;
        self.joins(0, weights.o, weights.post_attention_norm, 1.0);
        Ok(())
    }

    /// The parts of a linear whose sums go to buffer `index`.
    fn sums_out(&self, matrix: Matrix, index: usize) -> Linear {
        let room = self.builder.room;
        Linear {
            m: [matrix, Matrix::default(), Matrix::default()],
            matrices: 1,
            sums: room.sums[index].address(),
            sums_stride: self.builder.weights.geometry.hidden as i32,
            ..Linear::default()
        }
    }

    fn joins(&mut self, index: usize, matrix: Matrix, norm: u64, scalar: f32) {
        self.joining = Some(Joining { sums: self.builder.room.sums[index].address(), matrix, norm, scalar });
    }

    /// Rows of a block of the grid of a linear whose K is in parts.
    fn cut_sums(&self, matrix: &Matrix) -> Cut {
        let (row_blocks, splits) = ((matrix.rows as usize).div_ceil(16), matrix.splits as usize);
        let each = (row_blocks * splits).div_ceil(self.multiprocessors()).max(1);
        Cut { blocks: row_blocks.div_ceil(each), parts: splits, row_blocks: each, spans: 1 }
    }

    fn ffn(&mut self, layer: usize) -> Result<(), DriverError> {
        let weights = self.weights(layer);
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
        self.stage(OutputKind::Sums, base, None, Role::Down(layer), cut)?;
        self.joins(1, weights.down, weights.post_ffn_norm, 1.0);
        Ok(())
    }

    fn ple(&mut self, layer: usize) -> Result<(), DriverError> {
        let weights = self.weights(layer);
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

    /// The final norm of every column.
    fn last(&mut self) -> Result<(), DriverError> {
        let enter = self.enter(self.builder.weights.final_norm, Scale::default());
        let room = self.builder.room;
        let arguments = vec![argument(enter), argument(0u64), argument(0i32), argument(room.last.address())];
        self.push(
            "enter_rows",
            (self.form.columns, 1, 1),
            THREADS,
            self.enter_bytes(1),
            arguments,
            Role::Final,
        )
    }

    fn head(&mut self) -> Result<(), DriverError> {
        // The chain's best row is its second word.
        let best = self.builder.room.chain.address() + 8;
        let launch = self.builder.head(0, 1, best, 0, true)?;
        self.launches.push(launch);
        Ok(())
    }

    fn pick(&mut self) -> Result<(), DriverError> {
        let room = self.builder.room;
        let arguments = vec![argument(room.chain.address()), argument(room.columns.address())];
        self.push("pick", (1, 1, 1), 1, 0, arguments, Role::Pick)
    }
}

/// What a stage kernel hands on (`kernels/stages.cu`).
#[derive(Clone, Copy)]
pub(crate) enum OutputKind {
    Sums = 0,
    Codes = 1,
    Ffn = 2,
    Product = 3,
}

/// How a linear is cut into blocks of the grid.
struct Cut {
    /// Blocks of the grid, and how many parts of K.
    blocks: usize,
    parts: usize,
    /// Row blocks of one; of gate and up, pairs.
    row_blocks: usize,
    /// Matrices of a block of the grid.
    spans: usize,
}

pub(crate) fn format_index(format: KvFormat) -> usize {
    match format {
        KvFormat::F32 => 0,
        KvFormat::F16 => 1,
        KvFormat::I8 => 2,
    }
}

/// The attention kernel of a format with one or four heads a block of the grid.
pub(crate) fn attend_name(format: KvFormat, heads: usize) -> &'static str {
    let names =
        [["attend_f32_1", "attend_f32_4"], ["attend_f16_1", "attend_f16_4"], ["attend_i8_1", "attend_i8_4"]];
    names[format_index(format)][usize::from(heads == 4)]
}

/// Shared memory of an attention kernel, and whether keys and values must take turns in one buffer.
pub(crate) fn attend_bytes(
    format: KvFormat,
    dim: usize,
    heads: usize,
    pairs: usize,
    most: usize,
) -> (usize, bool) {
    let buffer = KEY_BLOCK * (dim * format.value_bytes() + 64);
    let rest = heads * (dim + KEY_BLOCK) * 4 + 4 * dim * 4 + 2 * pairs * 4;
    let both = 2 * buffer + rest;
    if both <= most { (both, false) } else { (buffer + rest, true) }
}
