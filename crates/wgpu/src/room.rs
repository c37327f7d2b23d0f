//! What flows between the kernels of a pass, on the device. One room per backend; passes take turns in it.

use rawloop_spec::Geometry;
use wgpu::{Buffer, BufferUsages};

use crate::gpu::{Gpu, STORAGE};
use crate::kv::KvLayout;
use crate::params::Column;

/// Columns of a pass at most; no more than a ring's slack.
pub(crate) const WIDTH: usize = 64;
/// Columns that a wide kernel takes at once.
pub(crate) const WIDE: usize = 8;
/// Words of the chain before its emitted ids (`shaders/pick.wgsl`).
pub(crate) const CHAIN_HEADER: usize = 32;
/// Stop ids that the device knows; the host knows them all.
pub(crate) const MOST_STOPS: usize = 29;
/// Ids that one run of a chain can emit.
pub(crate) const EMITTED: usize = 1 << 12;
/// Partial attention results that there is room for, at least.
const PARTIALS: usize = 2048;
/// Bytes from one entry of the uniform of first columns to the next: the largest alignment that an adapter may ask for.
pub(crate) const FIRST_STRIDE: usize = 256;

/// The buffers.
pub(crate) struct Room {
    pub columns: Buffer,
    pub first: Buffer,
    /// Two residual streams, which are read and written in turns, then the codes of the input of a stage that made them itself.
    pub hidden: Buffer,
    pub projection: Buffer,
    pub layer_inputs: Buffer,
    pub input: Buffer,
    /// Codes of q, of k and of v, each with the width of the widest layer.
    pub qkv: Buffer,
    pub query: Buffer,
    pub tops: Buffer,
    pub partial: Buffer,
    pub attention: Buffer,
    pub o_input: Buffer,
    pub joining: Buffer,
    pub gate_up: Buffer,
    pub ffn: Buffer,
    pub layer_gate: Buffer,
    pub product: Buffer,
    pub last: Buffer,
    pub limbs: Buffer,
    pub units: Buffer,
    pub logits: Buffer,
    pub best: Buffer,
    pub chain: Buffer,
    pub picks: Buffer,
    /// What the host maps: picks or logits of a step.
    pub staging: Buffer,
    /// Values of the widest stages, for strides.
    pub heads_width: usize,
    pub kv_width: usize,
    pub ffn_width: usize,
    /// Rows of logits that there is room for.
    pub logit_rows: usize,
    /// Entries of `best` a column.
    pub best_stride: usize,
    /// Partial attention results that there is room for.
    pub partials: usize,
    pub bytes: usize,
}

impl Room {
    /// Bytes of a column's q, k and v.
    pub fn qkv_width(&self) -> usize {
        self.heads_width + 2 * self.kv_width
    }

    /// Room for passes of [`WIDTH`] columns.
    pub fn new(gpu: &Gpu, geometry: &Geometry, layout: &KvLayout) -> Room {
        let dim = geometry.layers.iter().map(|layer| layer.head_dim).max().unwrap_or(0);
        let ffn_width = geometry.layers.iter().map(|layer| layer.ffn).max().unwrap_or(0);
        let (heads_width, kv_width) = (geometry.heads * dim, geometry.kv_heads * dim);
        let (hidden, vocab) = (geometry.hidden, geometry.vocab);
        let inputs = geometry.layers.len() * geometry.ple_width;
        let partials = PARTIALS.max(layout.context.div_ceil(64) + 1);
        let binding = usize::try_from(gpu.limits.max_storage_buffer_binding_size).unwrap_or(usize::MAX);
        let logit_rows = (binding / (4 * vocab)).clamp(1, WIDTH);
        let best_stride = vocab.div_ceil(64);
        let mut bytes = 0;
        let mut wide = |size: usize| {
            bytes += size * WIDTH;
            gpu.storage(size * WIDTH)
        };
        let first = gpu.buffer(FIRST_STRIDE * WIDTH, BufferUsages::UNIFORM | BufferUsages::COPY_DST);
        let mut entries = vec![0u32; FIRST_STRIDE / 4 * WIDTH];
        (0..WIDTH).for_each(|column| entries[column * FIRST_STRIDE / 4] = column as u32);
        gpu.write(&first, 0, bytemuck::cast_slice(&entries));
        let room = Room {
            columns: wide(size_of::<Column>()),
            first,
            hidden: wide(8 * hidden + hidden.div_ceil(WIDTH)),
            projection: wide(4 * inputs),
            layer_inputs: wide(4 * inputs),
            input: wide(hidden),
            qkv: wide(heads_width + 2 * kv_width),
            query: wide(4 * heads_width),
            tops: gpu.storage(8 * partials * geometry.heads),
            partial: gpu.storage(4 * partials * heads_width),
            attention: wide(4 * heads_width),
            o_input: wide(heads_width),
            joining: wide(hidden),
            gate_up: wide(2 * ffn_width),
            ffn: wide(ffn_width),
            layer_gate: wide(geometry.ple_width),
            product: wide(geometry.ple_width),
            last: wide(4 * hidden),
            limbs: wide(3 * hidden),
            units: wide(4),
            logits: gpu.storage(4 * vocab * logit_rows),
            best: wide(8 * best_stride),
            chain: gpu.buffer(4 * (CHAIN_HEADER + EMITTED), STORAGE),
            picks: wide(4),
            staging: gpu.buffer(4 * vocab * logit_rows, BufferUsages::MAP_READ | BufferUsages::COPY_DST),
            heads_width,
            kv_width,
            ffn_width,
            logit_rows,
            best_stride,
            partials,
            bytes: 0,
        };
        let more = room.tops.size() + room.partial.size() + room.logits.size() + room.chain.size();
        Room { bytes: bytes + more as usize, ..room }
    }
}
