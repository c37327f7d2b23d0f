//! A pass as a list of dispatches: which kernel, which buffers, which numbers.
//!
//! Two lists are made when a backend opens: for one column and for several. A list is the stage program with every stage as a few dispatches; bind
//! groups are built once. What changes from pass to pass is the number of columns, their tokens and positions (a buffer), and the
//! K/V of the sequences they belong to (group 1). A prefill pass leaves out the steps that are marked so.
//!
//! With one column a dispatch costs more than the small stages between linears, so those run inside of their neighbours ([`Fold`]); with several
//! they would run once for each workgroup and column, and stay apart. `stages.rs` has the stages.

use bytemuck::cast_slice;
use rawloop_spec::Geometry;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding, BufferUsages,
};

use crate::gpu::Gpu;
use crate::kv::{KvBinding, KvLayout};
use crate::options::{Fold, KvFormat};
use crate::params::Params;
use crate::room::Room;
use crate::rope::RopeTables;
use crate::shaders::{INPUTS, Pipeline, Pipelines};
use crate::stages::{Entry, Joining};
use crate::weights::Weights;

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
    /// Attention of each sequence: blocks, head groups, columns; then the merge, where there are more blocks than `folded`.
    Attention { merge: Dispatch, folded: usize, groups: usize, heads: usize, layer: usize, reach: Reach },
    /// `x` workgroups of a projection that merges blocks itself; of `plain` where there are more than `folded`.
    Merging { plain: Dispatch, folded: usize, x: usize, reach: Reach },
}

/// The blocks of keys that a layer's tokens see.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    /// Positions, 0 for all.
    pub window: usize,
    /// Most blocks that one token sees.
    pub most: usize,
}

impl Reach {
    /// Blocks of the tokens at `low ..= high`.
    pub fn blocks(&self, low: usize, high: usize) -> usize {
        let begin = if self.window == 0 { 0 } else { (low + 1).saturating_sub(self.window) };
        (high / 64 - begin / 64 + 1).min(self.most)
    }
}

/// One step of a list.
pub(crate) struct Step {
    pub dispatch: Dispatch,
    pub grid: Grid,
    /// The stages that it does, in order.
    pub roles: [Option<Role>; 2],
    /// Whether a prefill pass runs it.
    pub prefill: bool,
    /// Which of the two streams is the current one behind it.
    pub side: usize,
}

impl Step {
    /// The last stage that it does.
    pub fn role(&self) -> Option<Role> {
        self.roles[1].or(self.roles[0])
    }

    /// Whether the stage made the codes of its input itself.
    pub fn entered(&self) -> bool {
        use Role::{EnterFfn, EnterPle, EnterQkv};
        let first = matches!(self.roles[0], Some(EnterQkv(_) | EnterFfn(_) | EnterPle(_)));
        first && self.roles[1].is_some()
    }
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

/// A list under construction.
pub(crate) struct List {
    /// Numbers of dispatches, in one uniform buffer.
    buffer: Buffer,
    numbers: Vec<Params>,
    pub steps: Vec<Step>,
    pub several: bool,
    pub fold: Fold,
    /// What has yet to join the stream, and where the stream is.
    pub joining: Joining,
    pub side: usize,
}

impl List {
    pub fn push(&mut self, dispatch: Dispatch, grid: Grid, roles: [Option<Role>; 2]) {
        self.steps.push(Step { dispatch, grid, roles, prefill: true, side: self.side });
    }
}

/// Makes lists.
pub(crate) struct Builder<'a> {
    pub gpu: &'a Gpu,
    pub pipelines: &'a mut Pipelines,
    pub weights: &'a Weights,
    pub room: &'a Room,
    pub layout: &'a KvLayout,
    pub rope: &'a RopeTables,
    pub fold: Fold,
}

pub(crate) fn format_number(format: KvFormat) -> u32 {
    match format {
        KvFormat::F32 => 0,
        KvFormat::F16 => 1,
        KvFormat::I8 => 2,
    }
}

/// Query heads of one KV head that a workgroup takes: a divisor of their number, `most` at most.
pub(crate) fn heads_together(geometry: &Geometry, most: usize) -> usize {
    let group = geometry.heads / geometry.kv_heads;
    (1..=most).rev().find(|count| group.is_multiple_of(*count)).unwrap_or(1)
}

impl<'a> Builder<'a> {
    /// What sequences bind: made of the same kernels as the lists.
    pub fn binding(&mut self) -> KvBinding {
        let format = format_number(self.layout.format);
        let geometry = &self.weights.geometry;
        let (heads, dim) = (heads_together(geometry, 4) as u32, geometry.layers[0].head_dim as u32);
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
        let fold = if several { Fold { qkv: self.fold.qkv, ..Fold::NONE } } else { self.fold };
        let (numbers, steps) = (Vec::new(), Vec::new());
        let mut list = List { buffer, numbers, steps, several, fold, joining: None, side: 0 };
        let plan = self.list(&mut list);
        let mut bytes = vec![0u8; PARAMS_STRIDE * list.numbers.len()];
        for (entry, params) in bytes.chunks_exact_mut(PARAMS_STRIDE).zip(&list.numbers) {
            entry[..size_of::<Params>()].copy_from_slice(cast_slice(std::slice::from_ref(params)));
        }
        self.gpu.write(&list.buffer, 0, &bytes);
        plan
    }

    /// A kernel with its own buffers, and with those of its inputs.
    pub fn dispatch(
        &mut self,
        list: &mut List,
        name: &'static str,
        constants: &[(&'static str, u32)],
        params: Params,
        buffers: &[&Buffer],
        inputs: &[&Buffer],
    ) -> Dispatch {
        let pipeline = self.pipelines.get(self.gpu, name, constants);
        let offset = (list.numbers.len() * PARAMS_STRIDE) as u64;
        list.numbers.push(params);
        let size = std::num::NonZeroU64::new(size_of::<Params>() as u64);
        let uniform = BindingResource::Buffer(BufferBinding { buffer: &list.buffer, offset, size });
        let mut entries = vec![BindGroupEntry { binding: 0, resource: uniform }];
        let numbered = (1..).zip(buffers).chain((INPUTS..).zip(inputs));
        entries.extend(
            numbered
                .map(|(binding, buffer)| BindGroupEntry { binding, resource: buffer.as_entire_binding() }),
        );
        let descriptor =
            BindGroupDescriptor { label: Some(name), layout: &pipeline.group, entries: &entries };
        let group = self.gpu.device.create_bind_group(&descriptor);
        Dispatch { pipeline, group }
    }

    fn list(&mut self, list: &mut List) -> Plan {
        let (weights, room) = (self.weights, self.room);
        let geometry = &weights.geometry;
        let last_owner = geometry.own_layers() - 1;
        let to_stream = (&room.joining, geometry.hidden / 4);
        self.gather(list, &weights.embed, &room.hidden, Role::Embed);
        if let Some(ple) = &weights.ple {
            self.gather(list, ple, &room.layer_inputs, Role::LayerInputs);
        }
        self.layer_inputs(list);
        for (index, layer) in weights.layers.iter().enumerate() {
            let from = list.steps.len();
            self.qkv(list, index);
            self.attention(list, index);
            // Of the last owner a prefill pass needs no more than its K/V.
            let stores = |step: &Step| step.roles.contains(&Some(Role::Heads(index)));
            let stop = list.steps[from..].iter().rposition(stores).map_or(from, |at| from + at + 1);
            self.output(list, index);
            self.gate_up(list, index);
            let input = (&room.ffn, room.ffn_width / 4);
            self.linear(list, &layer.down, input, (to_stream.0, to_stream.1, 0), Role::Down(index));
            list.joining = Some((layer.down.output_scale, 1.0));
            self.layer_gate(list, index);
            let (input, role) = ((&room.product, geometry.ple_width / 4), Role::PleProjection(index));
            self.linear(list, &layer.ple_projection, input, (to_stream.0, to_stream.1, 0), role);
            list.joining = Some((layer.ple_projection.output_scale, layer.layer_scalar));
            if index >= last_owner {
                let first = if index == last_owner { stop } else { from };
                list.steps[first..].iter_mut().for_each(|step| step.prefill = false);
            }
        }
        let entry = Entry {
            norms: &weights.final_norms,
            normed: true,
            scale: 0.0,
            role: Role::EnterQkv(geometry.layers.len()),
        };
        self.limbs(list, &entry);
        let (head, head_logits) = (self.head(list, false), self.head(list, true));
        let (pick, pick_chain) = (self.pick(list, false), self.pick(list, true));
        let steps = std::mem::take(&mut list.steps);
        Plan { steps, head, head_logits, pick, pick_chain, prefill_layers: last_owner }
    }
}
