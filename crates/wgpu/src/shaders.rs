//! The kernels: their sources, what they bind, and the pipelines made of them.
//!
//! A kernel is a WGSL file behind `params.wgsl`, `arithmetic.wgsl` and one of the two `fused_*.wgsl`, with constants written before it. So
//! one file serves all widths of codes and all numbers of columns, and a compiler sees numbers where it can unroll. Sources go through wgpu
//! on every adapter; what Metal gets is committed in `goldens/` (tests/metal.rs).

use std::collections::HashMap;
use std::fmt::Write;

use wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, BufferBindingType,
    ComputePipeline, ComputePipelineDescriptor, PipelineCompilationOptions, PipelineLayoutDescriptor,
    ShaderModuleDescriptor, ShaderRuntimeChecks, ShaderSource, ShaderStages,
};

use crate::gpu::Gpu;

/// Whether a kernel only reads a storage buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bind {
    Read,
    Write,
}
use Bind::{Read, Write as Store};

/// A kernel's source and its storage buffers, from binding 1 on; those of the part that makes its inputs, from binding 8 on. `sequence` is the
/// K/V of group 1, for kernels that run per sequence.
pub(crate) struct Kernel {
    pub name: &'static str,
    parts: &'static [&'static str],
    source: &'static str,
    buffers: &'static [Bind],
    inputs: &'static [Bind],
    sequence: Option<Bind>,
}

/// The first binding of the part that makes inputs.
pub(crate) const INPUTS: u32 = 8;

/// Which parts stand before a kernel besides the arithmetic: linears, by where their input comes from, and what runs per sequence.
const PLAIN: [&str; 2] = [include_str!("../shaders/dot.wgsl"), INPUT_PLAIN];
const INPUT_PLAIN: &str = include_str!("../shaders/input_plain.wgsl");
/// Instead of it where loads are early.
const INPUT_TAKEN: &str = include_str!("../shaders/input_taken.wgsl");
const ENTRY: &str = include_str!("../shaders/entry.wgsl");
const ENTERED: [&str; 3] =
    [include_str!("../shaders/dot.wgsl"), ENTRY, include_str!("../shaders/input_entered.wgsl")];
const MERGED: [&str; 2] = [include_str!("../shaders/dot.wgsl"), include_str!("../shaders/input_merged.wgsl")];
const SEQUENCE: &str = include_str!("../shaders/sequence.wgsl");
const VECTORS: &str = include_str!("../shaders/vectors.wgsl");

const LINEAR: &str = include_str!("../shaders/linear.wgsl");
const QKV: &str = include_str!("../shaders/qkv.wgsl");
const GATE_UP: &str = include_str!("../shaders/gate_up.wgsl");
const LAYER_GATE: &str = include_str!("../shaders/layer_gate.wgsl");
const ATTEND: &str = include_str!("../shaders/attend.wgsl");
const SPREAD: &str = include_str!("../shaders/spread.wgsl");
/// Where attention has its queries from.
const MADE: &str = include_str!("../shaders/queries_made.wgsl");
const FRESH: &str = include_str!("../shaders/queries_fresh.wgsl");

const fn kernel_of(
    name: &'static str,
    parts: &'static [&'static str],
    source: &'static str,
    buffers: &'static [Bind],
    inputs: &'static [Bind],
) -> Kernel {
    Kernel { name, parts, source, buffers, inputs, sequence: None }
}

const fn per_sequence(kernel: Kernel, bind: Bind) -> Kernel {
    Kernel { sequence: Some(bind), ..kernel }
}

/// Buffers of an entry inside of a linear: joining codes, norms, the stream.
const ENTERS: &[Bind] = &[Read, Read, Store];
/// Of attention: columns, tops and sums of blocks; and what it makes queries of.
const BLOCKS: &[Bind] = &[Read, Store, Store];
const HEADS: &[Bind] = &[Read, Read, Read, Store];

/// All kernels.
pub(crate) static KERNELS: [Kernel; 22] = [
    kernel_of("probe", &[], include_str!("../shaders/probe.wgsl"), &[Read, Store], &[]),
    kernel_of("gather", &[], include_str!("../shaders/gather.wgsl"), &[Read, Read, Read, Store], &[]),
    kernel_of("project", &[], include_str!("../shaders/project.wgsl"), &[Read, Read, Store], &[]),
    kernel_of("layer_inputs", &[], include_str!("../shaders/layer_inputs.wgsl"), &[Read, Read, Store], &[]),
    kernel_of("enter", &[ENTRY], include_str!("../shaders/enter.wgsl"), &[Read, Read, Store, Store], &[]),
    kernel_of("linear", &PLAIN, LINEAR, &[Read, Read, Store], &[Read]),
    kernel_of("merge_linear", &MERGED, LINEAR, &[Read, Read, Store], &[Read, Read, Read, Store, Store]),
    kernel_of("qkv", &PLAIN, QKV, &[Read, Read, Read, Read, Store], &[Read]),
    kernel_of("enter_qkv", &ENTERED, QKV, &[Read, Read, Read, Read, Store], ENTERS),
    kernel_of("gate_up", &PLAIN, GATE_UP, &[Read, Read, Read, Store, Store], &[Read]),
    kernel_of("enter_gate_up", &ENTERED, GATE_UP, &[Read, Read, Read, Store, Store], ENTERS),
    kernel_of("layer_gate", &PLAIN, LAYER_GATE, &[Read, Read, Read, Store, Store], &[Read]),
    kernel_of("enter_layer_gate", &ENTERED, LAYER_GATE, &[Read, Read, Read, Store, Store], ENTERS),
    per_sequence(
        kernel_of(
            "heads",
            &[SEQUENCE, VECTORS],
            include_str!("../shaders/heads.wgsl"),
            &[Read],
            &[Read, Read, Read, Store],
        ),
        Store,
    ),
    per_sequence(kernel_of("attend", &[SEQUENCE, MADE], ATTEND, BLOCKS, &[Read]), Read),
    per_sequence(kernel_of("heads_attend", &[SEQUENCE, VECTORS, FRESH], ATTEND, BLOCKS, HEADS), Store),
    per_sequence(kernel_of("spread", &[SEQUENCE, MADE], SPREAD, BLOCKS, &[Read]), Read),
    per_sequence(kernel_of("heads_spread", &[SEQUENCE, VECTORS, FRESH], SPREAD, BLOCKS, HEADS), Store),
    per_sequence(
        kernel_of(
            "merge",
            &[SEQUENCE],
            include_str!("../shaders/merge.wgsl"),
            &[Read, Read, Read, Store, Store],
            &[],
        ),
        Read,
    ),
    kernel_of(
        "limbs",
        &[ENTRY],
        include_str!("../shaders/limbs.wgsl"),
        &[Read, Read, Store, Store, Store, Store],
        &[],
    ),
    kernel_of(
        "head",
        &[],
        include_str!("../shaders/head.wgsl"),
        &[Read, Read, Read, Read, Store, Store],
        &[],
    ),
    kernel_of("pick", &[], include_str!("../shaders/pick.wgsl"), &[Read, Store, Store, Store], &[]),
];

/// What an adapter's arithmetic lets the kernels do (`arithmetic.rs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// `fma` rounds once, so it is used; otherwise 64-bit integers do it.
    pub native_fused: bool,
    /// 16-bit floats become 32-bit ones exactly, subnormals included.
    pub native_half: bool,
    /// A compiler stands behind that may reassociate sums, as Metal's does by default and a browser's may.
    pub reassociates: bool,
}

/// The text of a kernel.
pub(crate) fn text(kernel: &Kernel, variant: Variant, constants: &[(&str, u32)]) -> String {
    let mut text = String::new();
    for (name, value) in constants {
        // Writing to a string does not fail.
        let _ = writeln!(text, "const {name}: u32 = {value}u;");
    }
    let _ = writeln!(text, "const NATIVE_HALF: bool = {};", variant.native_half);
    let _ = writeln!(text, "const REASSOCIATES: bool = {};", variant.reassociates);
    text.push_str(include_str!("../shaders/params.wgsl"));
    text.push_str(if variant.native_fused {
        include_str!("../shaders/fused_native.wgsl")
    } else {
        include_str!("../shaders/fused_soft.wgsl")
    });
    text.push_str(include_str!("../shaders/arithmetic.wgsl"));
    let early = constants.contains(&("EARLY", 1));
    let part = |part: &&'static str| if early && *part == INPUT_PLAIN { INPUT_TAKEN } else { *part };
    kernel.parts.iter().for_each(|text_of| text.push_str(part(text_of)));
    text.push_str(kernel.source);
    text
}

/// The kernel of a name.
pub(crate) fn kernel(name: &str) -> &'static Kernel {
    // Names are constants of this crate, and a test asks for each.
    KERNELS.iter().find(|kernel| kernel.name == name).unwrap_or(&KERNELS[0])
}

/// A pipeline and the layouts of its groups.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub pipeline: ComputePipeline,
    pub group: BindGroupLayout,
    pub sequence: Option<BindGroupLayout>,
}

/// Name and constants of a pipeline.
type Form = (&'static str, Vec<(&'static str, u32)>);

/// Pipelines that were made.
pub(crate) struct Pipelines {
    pub variant: Variant,
    made: HashMap<Form, Pipeline>,
}

fn entry(binding: u32, ty: BufferBindingType, has_dynamic_offset: bool) -> BindGroupLayoutEntry {
    let ty = BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None };
    BindGroupLayoutEntry { binding, visibility: ShaderStages::COMPUTE, ty, count: None }
}

fn storage(binding: u32, bind: Bind) -> BindGroupLayoutEntry {
    entry(binding, BufferBindingType::Storage { read_only: bind == Read }, false)
}

impl Pipelines {
    /// None made yet.
    pub fn new(variant: Variant) -> Pipelines {
        Pipelines { variant, made: HashMap::new() }
    }

    /// The pipeline of a kernel with these constants.
    pub fn get(&mut self, gpu: &Gpu, name: &'static str, constants: &[(&'static str, u32)]) -> Pipeline {
        let variant = self.variant;
        self.made
            .entry((name, constants.to_vec()))
            .or_insert_with(|| make(gpu, kernel(name), variant, constants))
            .clone()
    }
}

fn make(gpu: &Gpu, kernel: &Kernel, variant: Variant, constants: &[(&str, u32)]) -> Pipeline {
    let layout = |entries: &[BindGroupLayoutEntry]| {
        let label = Some(kernel.name);
        gpu.device.create_bind_group_layout(&BindGroupLayoutDescriptor { label, entries })
    };
    let mut entries = vec![entry(0, BufferBindingType::Uniform, false)];
    entries.extend(kernel.buffers.iter().zip(1..).map(|(&bind, index)| storage(index, bind)));
    entries.extend(kernel.inputs.iter().zip(INPUTS..).map(|(&bind, index)| storage(index, bind)));
    let group = layout(&entries);
    let sequence =
        kernel.sequence.map(|bind| layout(&[entry(0, BufferBindingType::Uniform, true), storage(1, bind)]));
    let label = Some(kernel.name);
    let descriptor =
        ShaderModuleDescriptor { label, source: ShaderSource::Wgsl(text(kernel, variant, constants).into()) };
    let module = if cfg!(debug_assertions) {
        gpu.device.create_shader_module(descriptor)
    } else {
        // SAFETY: the plan sizes every buffer for the widest pass and the whole context, token ids are checked before they are sent,
        // and no loop's bound comes from weights; builds with debug assertions run the same kernels with checks.
        unsafe { gpu.device.create_shader_module_trusted(descriptor, ShaderRuntimeChecks::unchecked()) }
    };
    let groups: Vec<Option<&BindGroupLayout>> =
        [Some(&group), sequence.as_ref()].into_iter().filter(Option::is_some).collect();
    let layout = gpu.device.create_pipeline_layout(&PipelineLayoutDescriptor {
        label,
        bind_group_layouts: &groups,
        immediate_size: 0,
    });
    let pipeline = gpu.device.create_compute_pipeline(&ComputePipelineDescriptor {
        label,
        layout: Some(&layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: PipelineCompilationOptions {
            zero_initialize_workgroup_memory: false,
            ..Default::default()
        },
        cache: None,
    });
    Pipeline { pipeline, group, sequence }
}
