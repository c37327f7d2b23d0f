//! The stages of a list as dispatches: kernels, constants, numbers and buffers of each.
//!
//! A linear's input comes from a buffer, or from an entry or a merge that its own workgroups run (`shaders/input_*.wgsl`); which of these is
//! the list's choice. What a linear of the residual stream leaves in `room.joining` joins the stream at the next entry.

use rawloop_spec::{AttentionKind, Bits};
use wgpu::Buffer;

use crate::kv::LayerRoom;
use crate::options::KvFormat;
use crate::params::Params;
use crate::plan::{Builder, Grid, List, Reach, Role, Step, format_number, heads_together};
use crate::room::{WIDE, WIDTH};
use crate::weights::{Matrix, Table};

/// What has yet to join the residual stream: the scale of its codes, and the factor behind. Its norm is the first of the entry's.
pub(crate) type Joining = Option<(f32, f32)>;

/// An entry of a stage.
pub(crate) struct Entry<'a> {
    /// The norm of what joins, then the stage's own.
    pub norms: &'a Buffer,
    pub normed: bool,
    /// Of the codes that it makes.
    pub scale: f32,
    pub role: Role,
}

/// Columns that the head takes at once where there are several.
const HEAD_WIDE: usize = 4;

/// Query heads of a workgroup of `shaders/spread.wgsl` at most.
pub(crate) const MOST_SPREAD: usize = 2;

const JOIN: u32 = 1;
const NORM: u32 = 2;

fn width(bits: Bits) -> u32 {
    bits.width() as u32
}

/// Vectors of weights that a thread of a linear has under way at most (`shaders/dot.wgsl` loads no more).
const MOST_LOADS: usize = 8;

/// The constants of a linear kernel with so many inputs of so many bits, and the columns it takes at once.
fn shape(list: &List, inputs: usize, bits: Bits) -> ([(&'static str, u32); 5], usize) {
    if list.several {
        return ([("SLICES", 16), ("COLUMNS", WIDE as u32), ("LOADS", 1), ("EARLY", 0), ("INPUTS", 0)], WIDE);
    }
    let (slices, early) = (64, list.fold.early);
    // All of a thread's vectors, in as few equal rounds as can be.
    let all = (inputs * bits.width() / 32).div_ceil(slices).max(1);
    let loads = if early { all.div_ceil(all.div_ceil(MOST_LOADS)) } else { 1 };
    // The number of inputs, so that a compiler sees how many rounds there are.
    let known = if early { inputs } else { 0 };
    let constants = [
        ("SLICES", slices),
        ("COLUMNS", 1),
        ("LOADS", loads),
        ("EARLY", usize::from(early)),
        ("INPUTS", known),
    ];
    (constants.map(|(name, value)| (name, value as u32)), 1)
}

/// Where a stage's input comes from, for its kernel.
struct Input<'a> {
    entered: bool,
    buffers: Vec<&'a Buffer>,
    constants: Vec<(&'static str, u32)>,
    /// The entry's numbers.
    params: Params,
    role: Option<Role>,
}

impl<'a> Builder<'a> {
    fn words(&self) -> usize {
        self.weights.geometry.hidden / 4
    }

    /// The word of the stream's buffer where codes of an input are kept.
    pub fn entered(&self) -> usize {
        2 * WIDTH * self.weights.geometry.hidden
    }

    pub fn gather(&mut self, list: &mut List, table: &Table, output: &Buffer, role: Role) {
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
            let dispatch =
                self.dispatch(list, "gather", &[("BITS", width(table.bits))], params, &buffers, &[]);
            let words = table.columns / (32 / table.bits.width());
            list.push(dispatch, Grid::Columns(words.div_ceil(64)), [Some(role), None]);
        }
    }

    pub fn layer_inputs(&mut self, list: &mut List) {
        let (weights, room) = (self.weights, self.room);
        let geometry = &weights.geometry;
        let all = geometry.layers.len() * geometry.ple_width;
        let columns = if list.several { 4 } else { 1 };
        let early = ("EARLY", u32::from(list.fold.early));
        let roles = [Some(Role::LayerInputs), None];
        let params = Params {
            inputs: geometry.hidden as u32,
            out_stride: all as u32,
            factor: (1.0 / (geometry.hidden as f64).sqrt()) as f32,
            ..Params::default()
        };
        let buffers = [&weights.model_projection, &room.hidden, &room.projection];
        let dispatch = self.dispatch(list, "project", &[("COLUMNS", columns), early], params, &buffers, &[]);
        list.push(dispatch, Grid::Layers(geometry.ple_width / 16, columns as usize), roles);
        let params = Params {
            in_stride: all as u32,
            factor: std::f64::consts::FRAC_1_SQRT_2 as f32,
            ..Params::default()
        };
        let buffers = [&room.projection, &weights.ple_norm, &room.layer_inputs];
        let constants = [("WIDTH", geometry.ple_width as u32)];
        let dispatch = self.dispatch(list, "layer_inputs", &constants, params, &buffers, &[]);
        list.push(dispatch, Grid::Layers(1, 1), roles);
    }

    /// The numbers of an entry; what waited joins the stream, in the other buffer where `apart`.
    fn enter(&self, list: &mut List, entry: &Entry<'_>, apart: bool) -> Params {
        let joining = list.joining.take();
        let place = |side: usize| (side * WIDTH * self.weights.geometry.hidden) as u32;
        let before = list.side;
        if joining.is_some() && apart {
            list.side = 1 - before;
        }
        let (join_scale, scalar) = joining.unwrap_or((0.0, 1.0));
        Params {
            flags: if joining.is_some() { JOIN } else { 0 } | if entry.normed { NORM } else { 0 },
            input_scale: entry.scale,
            join_scale,
            scalar,
            stream_in: place(before),
            stream_out: place(list.side),
            ..Params::default()
        }
    }

    /// The input of a stage behind an entry, which runs inside of the stage or before it.
    fn input(&mut self, list: &mut List, entry: &Entry<'a>) -> Input<'a> {
        let room = self.room;
        let hidden = ("HIDDEN", self.weights.geometry.hidden as u32);
        let early = ("EARLY_ENTRY", u32::from(list.fold.early_entries));
        if list.fold.entries {
            let params = self.enter(list, entry, true);
            let buffers = vec![&room.joining, entry.norms, &room.hidden];
            let constants = vec![hidden, early, ("ENTERED", self.entered() as u32)];
            return Input { entered: true, buffers, constants, params, role: Some(entry.role) };
        }
        let params = self.enter(list, entry, false);
        let buffers = [&room.joining, entry.norms, &room.hidden, &room.input];
        let dispatch = self.dispatch(list, "enter", &[hidden, early], params, &buffers, &[]);
        list.push(dispatch, Grid::Columns(1), [Some(entry.role), None]);
        let params = Params { in_stride: self.words() as u32, ..Params::default() };
        Input { entered: false, buffers: vec![&room.input], constants: Vec::new(), params, role: None }
    }

    /// Behind the last layer: the final norm and the fixed point of the head.
    pub fn limbs(&mut self, list: &mut List, entry: &Entry<'_>) {
        let room = self.room;
        let params = self.enter(list, entry, false);
        let buffers = [&room.joining, entry.norms, &room.hidden, &room.last, &room.limbs, &room.units];
        let constants = [
            ("HIDDEN", self.weights.geometry.hidden as u32),
            ("EARLY_ENTRY", u32::from(list.fold.early_entries)),
        ];
        let dispatch = self.dispatch(list, "limbs", &constants, params, &buffers, &[]);
        list.push(dispatch, Grid::Columns(1), [Some(entry.role), None]);
        if let Some(step) = list.steps.last_mut() {
            step.prefill = false;
        }
    }

    /// A linear from one buffer to another: with each the words of a column, and words before the output.
    pub fn linear(
        &mut self,
        list: &mut List,
        matrix: &Matrix,
        (input, in_stride): (&Buffer, usize),
        (output, out_stride, offset): (&Buffer, usize, usize),
        role: Role,
    ) {
        let (shape, wide) = shape(list, matrix.inputs, matrix.bits);
        for part in &matrix.parts {
            let params = Params {
                inputs: matrix.inputs as u32,
                first_row: part.first_row as u32,
                in_stride: in_stride as u32,
                out_stride: out_stride as u32,
                other_offset: offset as u32,
                output_scale: matrix.output_scale,
                ..Params::default()
            };
            let buffers = [&part.buffer, &matrix.multipliers, output];
            let mut constants = vec![("BITS", width(matrix.bits))];
            constants.extend(shape);
            let dispatch = self.dispatch(list, "linear", &constants, params, &buffers, &[input]);
            let rows = part.rows.min(matrix.rows - part.first_row);
            list.push(dispatch, Grid::Blocks(rows.div_ceil(16), wide), [Some(role), None]);
        }
    }

    /// The entry of a layer, and its q, k and v.
    pub fn qkv(&mut self, list: &mut List, index: usize) {
        let (room, layer) = (self.room, &self.weights.layers[index]);
        let q = &layer.q;
        let (k, v) = layer.kv.as_ref().map_or((q, q), |(k, v)| (k, v));
        let [one, stride] = [room.heads_width / 4, room.qkv_width() / 4];
        let alike = |m: &Matrix| m.parts.len() == 1 && m.bits == q.bits && m.rows.is_multiple_of(16);
        let entry = Entry {
            norms: &layer.qkv_norms,
            normed: true,
            scale: q.input_scale,
            role: Role::EnterQkv(index),
        };
        if !(list.fold.qkv && alike(q) && alike(k) && alike(v)) {
            let folds = std::mem::replace(&mut list.fold.entries, false);
            self.input(list, &entry);
            list.fold.entries = folds;
            let input = (&room.input, self.words());
            self.linear(list, q, input, (&room.qkv, stride, 0), Role::Qkv(index));
            if let Some((k, v)) = &layer.kv {
                self.linear(list, k, input, (&room.qkv, stride, one), Role::Qkv(index));
                self.linear(list, v, input, (&room.qkv, stride, one + room.kv_width / 4), Role::Qkv(index));
            }
            return;
        }
        let (shape, wide) = shape(list, q.inputs, q.bits);
        let input = self.input(list, &entry);
        let owned = if layer.kv.is_some() { k.rows } else { 0 };
        let params = Params {
            rows: q.rows as u32,
            count: owned as u32,
            inputs: q.inputs as u32,
            out_stride: stride as u32,
            other_stride: one as u32,
            other_offset: (room.kv_width / 4) as u32,
            output_scale: q.output_scale,
            up_scale: k.output_scale,
            next_scale: v.output_scale,
            ..input.params
        };
        let buffers =
            [&q.parts[0].buffer, &k.parts[0].buffer, &v.parts[0].buffer, &layer.qkv_multipliers, &room.qkv];
        let mut constants = vec![("BITS", width(q.bits))];
        constants.extend(shape);
        constants.extend(input.constants);
        let name = if input.entered { "enter_qkv" } else { "qkv" };
        let dispatch = self.dispatch(list, name, &constants, params, &buffers, &input.buffers);
        let grid = Grid::Blocks((q.rows + 2 * owned) / 16, wide);
        list.push(dispatch, grid, roles(input.role, Role::Qkv(index)));
    }

    /// The entry of the FFN, gate and up.
    pub fn gate_up(&mut self, list: &mut List, index: usize) {
        let (room, layer) = (self.room, &self.weights.layers[index]);
        let (gate, up) = (&layer.gate, &layer.up);
        let (shape, wide) = shape(list, gate.inputs, gate.bits.max(up.bits));
        let entry = Entry {
            norms: &layer.ffn_norms,
            normed: true,
            scale: gate.input_scale,
            role: Role::EnterFfn(index),
        };
        let input = self.input(list, &entry);
        let params = Params {
            rows: gate.rows as u32,
            inputs: gate.inputs as u32,
            out_stride: (room.ffn_width / 4) as u32,
            output_scale: gate.output_scale,
            up_scale: up.output_scale,
            next_scale: layer.down.input_scale,
            ..input.params
        };
        let buffers =
            [&gate.parts[0].buffer, &up.parts[0].buffer, &layer.gate_up_factors, &room.ffn, &room.gate_up];
        let mut constants = vec![("BITS", width(gate.bits)), ("BITS_UP", width(up.bits))];
        constants.extend(shape);
        constants.extend(input.constants);
        let name = if input.entered { "enter_gate_up" } else { "gate_up" };
        let dispatch = self.dispatch(list, name, &constants, params, &buffers, &input.buffers);
        let grid = Grid::Blocks(gate.rows.div_ceil(16), wide);
        list.push(dispatch, grid, roles(input.role, Role::GateUp(index)));
    }

    /// The entry of the per-layer embeddings, and their gate.
    pub fn layer_gate(&mut self, list: &mut List, index: usize) {
        let (weights, room) = (self.weights, self.room);
        let (layer, ple) = (&weights.layers[index], weights.geometry.ple_width);
        let gate = &layer.ple_gate;
        let (shape, wide) = shape(list, gate.inputs, gate.bits);
        let entry = Entry {
            norms: &layer.ple_norms,
            normed: false,
            scale: gate.input_scale,
            role: Role::EnterPle(index),
        };
        let input = self.input(list, &entry);
        let params = Params {
            rows: gate.rows as u32,
            inputs: gate.inputs as u32,
            out_stride: (ple / 4) as u32,
            other_stride: (weights.geometry.layers.len() * ple) as u32,
            other_offset: (index * ple) as u32,
            output_scale: gate.output_scale,
            next_scale: layer.ple_projection.input_scale,
            ..input.params
        };
        let buffers = [
            &gate.parts[0].buffer,
            &layer.ple_gate_factors,
            &room.layer_inputs,
            &room.product,
            &room.layer_gate,
        ];
        let mut constants = vec![("BITS", width(gate.bits))];
        constants.extend(shape);
        constants.extend(input.constants);
        let name = if input.entered { "enter_layer_gate" } else { "layer_gate" };
        let dispatch = self.dispatch(list, name, &constants, params, &buffers, &input.buffers);
        let grid = Grid::Blocks(gate.rows.div_ceil(16), wide);
        list.push(dispatch, grid, roles(input.role, Role::PleGate(index)));
    }

    /// The numbers that all kernels of a layer's attention share, and what its tokens see.
    fn attention_params(&self, index: usize) -> (Params, Reach) {
        let geometry = &self.weights.geometry;
        let shape = geometry.layers[index];
        let kv: LayerRoom = self.layout.layers[shape.producer];
        let window = if kv.ring { geometry.window } else { 0 };
        let most = if kv.ring { window.div_ceil(64) + 1 } else { self.layout.context.div_ceil(64) };
        let params = Params {
            heads: geometry.heads as u32,
            kv_heads: geometry.kv_heads as u32,
            head_dim: shape.head_dim as u32,
            pairs: self.rope.pairs(usize::from(shape.attention == AttentionKind::Full)) as u32,
            window: window as u32,
            slots: kv.slots as u32,
            ring: u32::from(kv.ring),
            owns: u32::from(self.weights.layers[index].kv.is_some()),
            kv_values: kv.rows[1] as u32,
            kv_key_scales: kv.scales[0] as u32,
            kv_value_scales: kv.scales[1] as u32,
            partials: most as u32,
            ..Params::default()
        };
        (params, Reach { window, most })
    }

    /// Head norms, rope, K/V, the blocks of attention and their merge.
    pub fn attention(&mut self, list: &mut List, index: usize) {
        let (weights, room, rope) = (self.weights, self.room, self.rope);
        let geometry = &weights.geometry;
        let (layer, shape) = (&weights.layers[index], geometry.layers[index]);
        let (common, reach) = self.attention_params(index);
        let (k_scale, v_scale) =
            layer.kv.as_ref().map_or((0.0, 0.0), |(k, v)| (k.output_scale, v.output_scale));
        let vectors = Params {
            in_stride: (room.qkv_width() / 4) as u32,
            other_stride: (room.heads_width / 4) as u32,
            other_offset: (room.kv_width / 4) as u32,
            out_stride: room.heads_width as u32,
            output_scale: layer.q.output_scale,
            up_scale: k_scale,
            next_scale: v_scale,
            ..common
        };
        let format = ("FORMAT", format_number(self.layout.format));
        let table = rope.buffer(usize::from(shape.attention == AttentionKind::Full));
        let sources = [&room.qkv, &layer.head_norms, table, &room.query];
        if !list.fold.heads {
            let dispatch = self.dispatch(list, "heads", &[format], vectors, &[&room.columns], &sources);
            let x = geometry.heads + if layer.kv.is_some() { 2 * geometry.kv_heads } else { 0 };
            list.push(dispatch, Grid::Heads { x, layer: shape.producer }, [Some(Role::Heads(index)), None]);
        }
        let dim = ("DIM", shape.head_dim as u32);
        let buffers = [&room.columns, &room.tops, &room.partial];
        let spread = list.fold.spread > 0;
        let heads = heads_together(geometry, if spread { list.fold.spread.min(MOST_SPREAD) } else { 4 });
        let mut constants = vec![format, ("HEADS", heads as u32), dim];
        if spread {
            constants.push(("STAGED", staged(shape.head_dim, self.layout.format)));
        }
        let dispatch = if list.fold.heads {
            let name = if spread { "heads_spread" } else { "heads_attend" };
            self.dispatch(list, name, &constants, vectors, &buffers, &sources)
        } else {
            let params = Params { in_stride: room.heads_width as u32, ..common };
            let name = if spread { "spread" } else { "attend" };
            self.dispatch(list, name, &constants, params, &buffers, &[&room.query])
        };
        let params = Params {
            in_stride: room.heads_width as u32,
            out_stride: (room.heads_width / 4) as u32,
            input_scale: layer.o.input_scale,
            ..common
        };
        let buffers = [&room.columns, &room.tops, &room.partial, &room.attention, &room.o_input];
        let early = ("EARLY", u32::from(list.fold.early));
        let merge = self.dispatch(list, "merge", &[dim, early], params, &buffers, &[]);
        let folded = self.merges(list, index);
        let grid = Grid::Attention {
            merge,
            folded,
            groups: geometry.heads / heads,
            heads: geometry.heads,
            layer: shape.producer,
            reach,
        };
        let attention = (folded == 0).then_some(Role::Attention(index));
        let made = list.fold.heads.then_some(Role::Heads(index));
        let roles = if made.is_some() { [made, attention] } else { [attention, None] };
        list.push(dispatch, grid, roles);
    }

    /// Blocks of attention that the output projection of a layer merges at most.
    fn merges(&self, list: &List, index: usize) -> usize {
        if self.weights.layers[index].o.parts.len() == 1 { list.fold.merge.min(64) } else { 0 }
    }

    /// The output projection.
    pub fn output(&mut self, list: &mut List, index: usize) {
        let (weights, room) = (self.weights, self.room);
        let o = &weights.layers[index].o;
        let input = (&room.o_input, room.heads_width / 4);
        let output = (&room.joining, self.words(), 0);
        list.joining = Some((o.output_scale, 1.0));
        let folded = self.merges(list, index);
        self.linear(list, o, input, output, Role::Output(index));
        if folded == 0 {
            return;
        }
        let Some(Step { dispatch: plain, grid: Grid::Blocks(x, _), .. }) = list.steps.pop() else { return };
        let (common, reach) = self.attention_params(index);
        let params = Params {
            inputs: o.inputs as u32,
            out_stride: self.words() as u32,
            output_scale: o.output_scale,
            input_scale: o.input_scale,
            ..common
        };
        let (shape, _) = shape(list, o.inputs, o.bits);
        let geometry = &weights.geometry;
        let mut constants = vec![
            ("BITS", width(o.bits)),
            ("HEADS", geometry.heads as u32),
            ("DIM", geometry.layers[index].head_dim as u32),
            ("MERGED", folded as u32),
        ];
        constants.extend(shape);
        let buffers = [&o.parts[0].buffer, &o.multipliers, &room.joining];
        let sources = [&room.columns, &room.tops, &room.partial, &room.attention, &room.o_input];
        let dispatch = self.dispatch(list, "merge_linear", &constants, params, &buffers, &sources);
        let roles = [Some(Role::Attention(index)), Some(Role::Output(index))];
        list.push(dispatch, Grid::Merging { plain, folded, x, reach }, roles);
    }

    pub fn head(&mut self, list: &mut List, logits: bool) -> Vec<Step> {
        let (weights, room) = (self.weights, self.room);
        let head = &weights.head;
        let columns = if list.several { HEAD_WIDE } else { 1 };
        let from = list.steps.len();
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
            let constants = [("SLICES", 16), ("COLUMNS", columns as u32), ("LOGITS", u32::from(logits))];
            let dispatch = self.dispatch(list, "head", &constants, params, &buffers, &[]);
            let rows = part.rows.min(head.rows - part.first_row);
            list.push(dispatch, Grid::Blocks(rows.div_ceil(64), columns), [Some(Role::Head), None]);
        }
        list.steps.split_off(from)
    }

    pub fn pick(&mut self, list: &mut List, chain: bool) -> Step {
        let room = self.room;
        let stride = room.best_stride as u32;
        let params = Params { count: stride, in_stride: stride, ..Params::default() };
        let buffers = [&room.best, &room.columns, &room.chain, &room.picks];
        let constants = [("CHAIN", u32::from(chain))];
        let dispatch = self.dispatch(list, "pick", &constants, params, &buffers, &[]);
        let (grid, roles) = (Grid::Columns(1), [Some(Role::Pick), None]);
        Step { dispatch, grid, roles, prefill: false, side: list.side }
    }
}

/// Values' rows that `shaders/spread.wgsl` has in workgroup memory at once: as many as 1,024 vectors of four words hold.
fn staged(head_dim: usize, format: KvFormat) -> u32 {
    let row = head_dim / (4 * format.per_word());
    (8..=64).rev().filter(|rows: &usize| rows.is_power_of_two()).find(|rows| rows * row <= 1024).unwrap_or(8)
        as u32
}

/// The stages of a step that may have run its entry.
fn roles(entry: Option<Role>, stage: Role) -> [Option<Role>; 2] {
    if entry.is_some() { [entry, Some(stage)] } else { [Some(stage), None] }
}
