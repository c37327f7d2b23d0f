//! A pass as a list of dispatches: which kernel, which buffers, which numbers.
//!
//! Two lists are made when a backend opens: for one column and for several. A list is the stage program with every stage as a few dispatches; bind
//! groups are built once. What changes from pass to pass is the number of columns, their tokens and positions (a buffer), and the
//! K/V of the sequences they belong to (group 1). A prefill pass leaves out the steps that are marked so.

use bytemuck::cast_slice;
use rawloop_spec::{AttentionKind, Bits, Geometry};
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding, BufferUsages,
};

use crate::gpu::Gpu;
use crate::kv::{KvBinding, KvLayout, LayerRoom};
use crate::options::KvFormat;
use crate::params::Params;
use crate::room::{Room, WIDE};
use crate::rope::RopeTables;
use crate::shaders::{Pipeline, Pipelines};
use crate::weights::{LayerWeights, Matrix, Table, Weights};

/// Bytes from one dispatch's numbers to the next's: the largest alignment that an adapter may ask for.
const PARAMS_STRIDE: usize = 256;

/// A stage's place in the program, for taps and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Embed,
    LayerInputs,
    /// An entry before q, k, v of a layer; behind the last layer, before the head.
    EnterQkv(usize),
    Qkv(usize),
    Heads(usize),
    Attention(usize),
    Output(usize),
    EnterFfn(usize),
    GateUp(usize),
    Down(usize),
    EnterPle(usize),
    PleGate(usize),
    PleProjection(usize),
    Head,
    Pick,
}

/// One kernel with its buffers.
pub(crate) struct Dispatch {
    pub pipeline: Pipeline,
    pub group: BindGroup,
}

/// How often a step is dispatched.
pub(crate) enum Grid {
    /// `x` workgroups a column.
    Columns(usize),
    /// `x` workgroups for each `wide` columns.
    Blocks(usize, usize),
    /// `x` workgroups a layer for each `wide` columns, of as many layers as the pass needs.
    Layers(usize, usize),
    /// `x` workgroups a column, for each sequence with its K/V of a layer.
    Heads { x: usize, layer: usize },
    /// Attention of each sequence: blocks, head groups, columns; then the merge.
    Attention { merge: Dispatch, groups: usize, heads: usize, layer: usize, window: usize, partials: usize },
}

/// One step of a list.
pub(crate) struct Step {
    pub dispatch: Dispatch,
    pub grid: Grid,
    pub role: Role,
    /// Whether a prefill pass runs it.
    pub prefill: bool,
}

/// A list.
pub(crate) struct Plan {
    pub steps: Vec<Step>,
    pub head: Vec<Step>,
    pub head_logits: Vec<Step>,
    pub pick: Step,
    pub pick_chain: Step,
    /// Layers whose inputs a prefill pass needs.
    pub prefill_layers: usize,
}

/// Numbers of dispatches, in one uniform buffer.
struct Numbers {
    buffer: Buffer,
    list: Vec<Params>,
}

/// Makes lists.
pub(crate) struct Builder<'a> {
    pub gpu: &'a Gpu,
    pub pipelines: &'a mut Pipelines,
    pub weights: &'a Weights,
    pub room: &'a Room,
    pub layout: &'a KvLayout,
    pub rope: &'a RopeTables,
}

fn format_number(format: KvFormat) -> u32 {
    match format {
        KvFormat::F32 => 0,
        KvFormat::F16 => 1,
        KvFormat::I8 => 2,
    }
}

fn width(bits: Bits) -> u32 {
    bits.width() as u32
}

/// Query heads of one KV head that a workgroup takes: a divisor of their number, four at most.
fn heads_together(geometry: &Geometry) -> usize {
    let group = geometry.heads / geometry.kv_heads;
    (1..=4).rev().find(|count| group.is_multiple_of(*count)).unwrap_or(1)
}

const JOIN: u32 = 1;
const NORM: u32 = 2;
const CODES: u32 = 4;
const FLOATS: u32 = 8;

/// What joins the residual stream: the linear whose output codes it is, its norm, and the factor behind.
type Joining<'a> = Option<(&'a Matrix, &'a Buffer, f32)>;

impl Builder<'_> {
    /// What sequences bind: made of the same kernels as the lists.
    pub fn binding(&mut self) -> KvBinding {
        let format = format_number(self.layout.format);
        let geometry = &self.weights.geometry;
        let (heads, dim) = (heads_together(geometry) as u32, geometry.layers[0].head_dim as u32);
        KvBinding {
            store: self.pipelines.get(self.gpu, "heads", &[("FORMAT", format)]),
            read: self.pipelines.get(
                self.gpu,
                "attend",
                &[("FORMAT", format), ("HEADS", heads), ("DIM", dim)],
            ),
            first: self.room.first.clone(),
        }
    }

    /// The list for one column, or for several.
    pub fn build(&mut self, several: bool) -> Plan {
        let geometry = &self.weights.geometry;
        // 20 dispatches a layer are more than there are; parts of tables and of the head come on top.
        let parts = self.weights.head.parts.len() * 2
            + self.weights.embed.parts.len()
            + self.weights.ple.as_ref().map_or(0, |ple| ple.parts.len());
        let room = PARAMS_STRIDE * (geometry.layers.len() * 24 + parts + 16);
        let buffer = self.gpu.buffer(room, BufferUsages::UNIFORM | BufferUsages::COPY_DST);
        let mut numbers = Numbers { buffer, list: Vec::new() };
        let plan = self.list(&mut numbers, several);
        let mut bytes = vec![0u8; PARAMS_STRIDE * numbers.list.len()];
        for (entry, params) in bytes.chunks_exact_mut(PARAMS_STRIDE).zip(&numbers.list) {
            entry[..size_of::<Params>()].copy_from_slice(cast_slice(std::slice::from_ref(params)));
        }
        self.gpu.write(&numbers.buffer, 0, &bytes);
        plan
    }

    fn dispatch(
        &mut self,
        numbers: &mut Numbers,
        name: &'static str,
        constants: &[(&'static str, u32)],
        params: Params,
        buffers: &[&Buffer],
    ) -> Dispatch {
        let pipeline = self.pipelines.get(self.gpu, name, constants);
        let offset = (numbers.list.len() * PARAMS_STRIDE) as u64;
        numbers.list.push(params);
        let size = std::num::NonZeroU64::new(size_of::<Params>() as u64);
        let uniform = BindingResource::Buffer(BufferBinding { buffer: &numbers.buffer, offset, size });
        let mut entries = vec![BindGroupEntry { binding: 0, resource: uniform }];
        entries.extend(
            (1..)
                .zip(buffers)
                .map(|(binding, buffer)| BindGroupEntry { binding, resource: buffer.as_entire_binding() }),
        );
        let descriptor =
            BindGroupDescriptor { label: Some(name), layout: &pipeline.group, entries: &entries };
        let group = self.gpu.device.create_bind_group(&descriptor);
        Dispatch { pipeline, group }
    }

    fn list(&mut self, numbers: &mut Numbers, several: bool) -> Plan {
        let (weights, room) = (self.weights, self.room);
        let geometry = &weights.geometry;
        let layers = geometry.layers.len();
        let last_owner = geometry.own_layers() - 1;
        let mut steps = Vec::new();
        self.gather(numbers, &mut steps, &weights.embed, &room.hidden, Role::Embed);
        if let Some(ple) = &weights.ple {
            self.gather(numbers, &mut steps, ple, &room.layer_inputs, Role::LayerInputs);
        }
        self.layer_inputs(numbers, &mut steps, several);
        let mut joining: Joining = None;
        for (index, layer) in weights.layers.iter().enumerate() {
            let from = steps.len();
            self.enter(
                numbers,
                &mut steps,
                joining,
                Some(&layer.input_norm),
                &layer.q,
                Role::EnterQkv(index),
            );
            self.attention(numbers, &mut steps, index, several);
            // Of the last owner a prefill pass needs no more than its K/V.
            let keep = steps[from..].iter().position(|step| matches!(step.role, Role::Attention(_)));
            let stop = from + keep.unwrap_or(0);
            self.linear(
                numbers,
                &mut steps,
                &layer.o,
                (&room.o_input, room.heads_width),
                (&room.joining, geometry.hidden),
                several,
                Role::Output(index),
            );
            let join = Some((&layer.o, &layer.post_attention_norm, 1.0));
            self.enter(
                numbers,
                &mut steps,
                join,
                Some(&layer.pre_ffn_norm),
                &layer.gate,
                Role::EnterFfn(index),
            );
            self.gate_up(numbers, &mut steps, layer, several, index);
            self.linear(
                numbers,
                &mut steps,
                &layer.down,
                (&room.ffn, room.ffn_width),
                (&room.joining, geometry.hidden),
                several,
                Role::Down(index),
            );
            let join = Some((&layer.down, &layer.post_ffn_norm, 1.0));
            self.enter(numbers, &mut steps, join, None, &layer.ple_gate, Role::EnterPle(index));
            self.layer_gate(numbers, &mut steps, index, several);
            self.linear(
                numbers,
                &mut steps,
                &layer.ple_projection,
                (&room.product, geometry.ple_width),
                (&room.joining, geometry.hidden),
                several,
                Role::PleProjection(index),
            );
            joining = Some((&layer.ple_projection, &layer.post_ple_norm, layer.layer_scalar));
            if index >= last_owner {
                let first = if index == last_owner { stop } else { from };
                steps[first..].iter_mut().for_each(|step| step.prefill = false);
            }
        }
        self.last(numbers, &mut steps, joining, layers);
        let head = self.head(numbers, false);
        let head_logits = self.head(numbers, true);
        Plan {
            steps,
            head,
            head_logits,
            pick: self.pick(numbers, false),
            pick_chain: self.pick(numbers, true),
            prefill_layers: last_owner,
        }
    }

    fn gather(
        &mut self,
        numbers: &mut Numbers,
        steps: &mut Vec<Step>,
        table: &Table,
        output: &Buffer,
        role: Role,
    ) {
        for part in &table.parts {
            let params = Params {
                inputs: table.columns as u32,
                first_row: part.first_row as u32,
                count: part.rows as u32,
                block: table.block as u32,
                out_stride: table.columns as u32,
                factor: table.factor,
                ..Params::default()
            };
            let buffers = [&self.room.columns, &part.buffer, &table.scales, output];
            let dispatch = self.dispatch(numbers, "gather", &[("BITS", width(table.bits))], params, &buffers);
            let words = table.columns / (32 / table.bits.width());
            steps.push(Step { dispatch, grid: Grid::Columns(words.div_ceil(64)), role, prefill: true });
        }
    }

    fn layer_inputs(&mut self, numbers: &mut Numbers, steps: &mut Vec<Step>, several: bool) {
        let (weights, room) = (self.weights, self.room);
        let geometry = &weights.geometry;
        let all = geometry.layers.len() * geometry.ple_width;
        let columns = if several { 4 } else { 1 };
        let params = Params {
            inputs: geometry.hidden as u32,
            out_stride: all as u32,
            factor: (1.0 / (geometry.hidden as f64).sqrt()) as f32,
            ..Params::default()
        };
        let buffers = [&weights.model_projection, &room.hidden, &room.projection];
        let dispatch = self.dispatch(numbers, "project", &[("COLUMNS", columns)], params, &buffers);
        let grid = Grid::Layers(geometry.ple_width / 16, columns as usize);
        steps.push(Step { dispatch, grid, role: Role::LayerInputs, prefill: true });
        let params = Params {
            in_stride: all as u32,
            factor: std::f64::consts::FRAC_1_SQRT_2 as f32,
            ..Params::default()
        };
        let buffers = [&room.projection, &weights.ple_norm, &room.layer_inputs];
        let constants = [("WIDTH", geometry.ple_width as u32)];
        let dispatch = self.dispatch(numbers, "layer_inputs", &constants, params, &buffers);
        steps.push(Step { dispatch, grid: Grid::Layers(1, 1), role: Role::LayerInputs, prefill: true });
    }

    /// The entry of a stage that quantises for `next`.
    fn enter(
        &mut self,
        numbers: &mut Numbers,
        steps: &mut Vec<Step>,
        joining: Joining,
        norm: Option<&Buffer>,
        next: &Matrix,
        role: Role,
    ) {
        let flags = CODES | if norm.is_some() { NORM } else { 0 };
        let step = self.entry(numbers, joining, norm, flags, next.input_scale, role);
        steps.push(step);
    }

    /// The final norm and the fixed point of the head.
    fn last(&mut self, numbers: &mut Numbers, steps: &mut Vec<Step>, joining: Joining, layers: usize) {
        let (weights, room) = (self.weights, self.room);
        let role = Role::EnterQkv(layers);
        let step = self.entry(numbers, joining, Some(&weights.final_norm), FLOATS | NORM, 0.0, role);
        steps.push(Step { prefill: false, ..step });
        let hidden = weights.geometry.hidden as u32;
        let params = Params { inputs: hidden, in_stride: hidden / 4, ..Params::default() };
        let buffers = [&room.last, &room.limbs, &room.units];
        let dispatch = self.dispatch(numbers, "limbs", &[], params, &buffers);
        steps.push(Step { dispatch, grid: Grid::Columns(1), role: Role::Head, prefill: false });
    }

    fn entry(
        &mut self,
        numbers: &mut Numbers,
        joining: Joining,
        norm: Option<&Buffer>,
        flags: u32,
        input_scale: f32,
        role: Role,
    ) -> Step {
        let (weights, room) = (self.weights, self.room);
        let words = (weights.geometry.hidden / 4) as u32;
        let (scale, join_norm, scalar) = match joining {
            Some((matrix, norm, scalar)) => (matrix.output_scale, norm, scalar),
            None => (0.0, &weights.final_norm, 1.0),
        };
        let params = Params {
            flags: flags | if joining.is_some() { JOIN } else { 0 },
            in_stride: words,
            out_stride: words,
            output_scale: scale,
            input_scale,
            scalar,
            ..Params::default()
        };
        let norm = norm.unwrap_or(&weights.final_norm);
        let buffers = [&room.joining, join_norm, &room.hidden, norm, &room.input, &room.last];
        let constants = [("HIDDEN", weights.geometry.hidden as u32)];
        let dispatch = self.dispatch(numbers, "enter", &constants, params, &buffers);
        Step { dispatch, grid: Grid::Columns(1), role, prefill: true }
    }

    /// The constants of a linear kernel, and the columns it takes at once.
    fn shape(several: bool) -> ([(&'static str, u32); 2], usize) {
        match several {
            false => ([("SLICES", 64), ("COLUMNS", 1)], 1),
            true => ([("SLICES", 16), ("COLUMNS", WIDE as u32)], WIDE),
        }
    }

    #[allow(clippy::too_many_arguments)] // two buffers with their widths
    fn linear(
        &mut self,
        numbers: &mut Numbers,
        steps: &mut Vec<Step>,
        matrix: &Matrix,
        input: (&Buffer, usize),
        output: (&Buffer, usize),
        several: bool,
        role: Role,
    ) {
        let (shape, wide) = Self::shape(several);
        for part in &matrix.parts {
            let params = Params {
                inputs: matrix.inputs as u32,
                first_row: part.first_row as u32,
                in_stride: (input.1 / 4) as u32,
                out_stride: (output.1 / 4) as u32,
                output_scale: matrix.output_scale,
                ..Params::default()
            };
            let buffers = [&part.buffer, &matrix.multipliers, input.0, output.0];
            let constants = [("BITS", width(matrix.bits)), shape[0], shape[1]];
            let dispatch = self.dispatch(numbers, "linear", &constants, params, &buffers);
            let rows = part.rows.min(matrix.rows - part.first_row);
            steps.push(Step { dispatch, grid: Grid::Blocks(rows.div_ceil(16), wide), role, prefill: true });
        }
    }

    fn gate_up(
        &mut self,
        numbers: &mut Numbers,
        steps: &mut Vec<Step>,
        layer: &LayerWeights,
        several: bool,
        index: usize,
    ) {
        let room = self.room;
        let (shape, wide) = Self::shape(several);
        let (gate, up) = (&layer.gate, &layer.up);
        let params = Params {
            rows: gate.rows as u32,
            inputs: gate.inputs as u32,
            in_stride: (gate.inputs / 4) as u32,
            out_stride: (room.ffn_width / 4) as u32,
            output_scale: gate.output_scale,
            up_scale: up.output_scale,
            next_scale: layer.down.input_scale,
            ..Params::default()
        };
        let buffers = [
            &gate.parts[0].buffer,
            &up.parts[0].buffer,
            &layer.gate_up_multipliers,
            &room.input,
            &layer.gelu,
            &room.ffn,
            &room.gate_up,
        ];
        let constants = [("BITS", width(gate.bits)), ("BITS_UP", width(up.bits)), shape[0], shape[1]];
        let dispatch = self.dispatch(numbers, "gate_up", &constants, params, &buffers);
        let grid = Grid::Blocks(gate.rows.div_ceil(16), wide);
        steps.push(Step { dispatch, grid, role: Role::GateUp(index), prefill: true });
    }

    fn layer_gate(&mut self, numbers: &mut Numbers, steps: &mut Vec<Step>, index: usize, several: bool) {
        let (weights, room) = (self.weights, self.room);
        let (shape, wide) = Self::shape(several);
        let (layer, ple) = (&weights.layers[index], weights.geometry.ple_width);
        let gate = &layer.ple_gate;
        let params = Params {
            inputs: gate.inputs as u32,
            in_stride: (gate.inputs / 4) as u32,
            out_stride: (ple / 4) as u32,
            other_stride: (weights.geometry.layers.len() * ple) as u32,
            other_offset: (index * ple) as u32,
            output_scale: gate.output_scale,
            next_scale: layer.ple_projection.input_scale,
            ..Params::default()
        };
        let buffers = [
            &gate.parts[0].buffer,
            &gate.multipliers,
            &room.input,
            &layer.ple_gelu,
            &room.layer_inputs,
            &room.product,
            &room.layer_gate,
        ];
        let constants = [("BITS", width(gate.bits)), shape[0], shape[1]];
        let dispatch = self.dispatch(numbers, "layer_gate", &constants, params, &buffers);
        let grid = Grid::Blocks(gate.rows.div_ceil(16), wide);
        steps.push(Step { dispatch, grid, role: Role::PleGate(index), prefill: true });
    }

    fn attention(&mut self, numbers: &mut Numbers, steps: &mut Vec<Step>, index: usize, several: bool) {
        let (weights, room, rope) = (self.weights, self.room, self.rope);
        let geometry = &weights.geometry;
        let (layer, shape) = (&weights.layers[index], geometry.layers[index]);
        let input = (&room.input, geometry.hidden);
        self.linear(numbers, steps, &layer.q, input, (&room.q, room.heads_width), several, Role::Qkv(index));
        if let Some((k, v)) = &layer.kv {
            self.linear(numbers, steps, k, input, (&room.k, room.kv_width), several, Role::Qkv(index));
            self.linear(numbers, steps, v, input, (&room.v, room.kv_width), several, Role::Qkv(index));
        }
        let set = usize::from(shape.attention == AttentionKind::Full);
        let kv: LayerRoom = self.layout.layers[shape.producer];
        let window = if kv.ring { geometry.window } else { 0 };
        let blocks = if kv.ring { window.div_ceil(64) + 1 } else { self.layout.context.div_ceil(64) };
        let common = Params {
            heads: geometry.heads as u32,
            kv_heads: geometry.kv_heads as u32,
            head_dim: shape.head_dim as u32,
            pairs: rope.pairs(set) as u32,
            window: window as u32,
            slots: kv.slots as u32,
            ring: u32::from(kv.ring),
            kv_values: kv.rows[1] as u32,
            kv_key_scales: kv.scales[0] as u32,
            kv_value_scales: kv.scales[1] as u32,
            partials: blocks as u32,
            ..Params::default()
        };
        let (k_scale, v_scale) =
            layer.kv.as_ref().map_or((0.0, 0.0), |(k, v)| (k.output_scale, v.output_scale));
        let params = Params {
            in_stride: (room.heads_width / 4) as u32,
            other_stride: (room.kv_width / 4) as u32,
            out_stride: room.heads_width as u32,
            output_scale: layer.q.output_scale,
            up_scale: k_scale,
            next_scale: v_scale,
            ..common
        };
        let format = ("FORMAT", format_number(self.layout.format));
        let table = rope.buffer(set);
        let buffers = [&room.columns, &room.q, &room.k, &room.v, &layer.head_norms, table, &room.query];
        let dispatch = self.dispatch(numbers, "heads", &[format], params, &buffers);
        let x = geometry.heads + if layer.kv.is_some() { 2 * geometry.kv_heads } else { 0 };
        let grid = Grid::Heads { x, layer: shape.producer };
        steps.push(Step { dispatch, grid, role: Role::Heads(index), prefill: true });

        let heads = heads_together(geometry);
        let dim = ("DIM", shape.head_dim as u32);
        let params = Params { in_stride: room.heads_width as u32, ..common };
        let buffers = [&room.columns, &room.query, &room.tops, &room.partial];
        let constants = [format, ("HEADS", heads as u32), dim];
        let dispatch = self.dispatch(numbers, "attend", &constants, params, &buffers);
        let params = Params {
            in_stride: room.heads_width as u32,
            out_stride: (room.heads_width / 4) as u32,
            input_scale: layer.o.input_scale,
            ..common
        };
        let buffers = [&room.columns, &room.tops, &room.partial, &room.attention, &room.o_input];
        let merge = self.dispatch(numbers, "merge", &[dim], params, &buffers);
        let groups = geometry.heads / heads;
        let (layer, heads) = (shape.producer, geometry.heads);
        let grid = Grid::Attention { merge, groups, heads, layer, window, partials: blocks };
        steps.push(Step { dispatch, grid, role: Role::Attention(index), prefill: true });
    }

    fn head(&mut self, numbers: &mut Numbers, logits: bool) -> Vec<Step> {
        let (weights, room) = (self.weights, self.room);
        let head = &weights.head;
        let mut steps = Vec::new();
        for part in &head.parts {
            let params = Params {
                rows: head.rows as u32,
                inputs: head.inputs as u32,
                first_row: part.first_row as u32,
                in_stride: (head.inputs / 4) as u32,
                out_stride: room.best_stride as u32,
                ..Params::default()
            };
            let buffers =
                [&part.buffer, &head.multipliers, &room.limbs, &room.units, &room.logits, &room.best];
            let constants = [("SLICES", 16), ("LOGITS", u32::from(logits))];
            let dispatch = self.dispatch(numbers, "head", &constants, params, &buffers);
            let rows = part.rows.min(head.rows - part.first_row);
            let grid = Grid::Columns(rows.div_ceil(64));
            steps.push(Step { dispatch, grid, role: Role::Head, prefill: false });
        }
        steps
    }

    fn pick(&mut self, numbers: &mut Numbers, chain: bool) -> Step {
        let room = self.room;
        let stride = room.best_stride as u32;
        let params = Params { count: stride, in_stride: stride, ..Params::default() };
        let buffers = [&room.best, &room.columns, &room.chain, &room.picks];
        let dispatch = self.dispatch(numbers, "pick", &[("CHAIN", u32::from(chain))], params, &buffers);
        Step { dispatch, grid: Grid::Columns(1), role: Role::Pick, prefill: false }
    }
}
