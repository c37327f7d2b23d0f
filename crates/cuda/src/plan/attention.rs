//! Attention of a layer: storing K/V, and the kernel, grid and shared memory for the keys that there may be.

use rawloop_spec::AttentionKind;
use rawloop_spec::contract::KEY_BLOCK;

use crate::driver::Launch;
use crate::form::{Reach, Role};
use crate::options::{DriverError, KvFormat};
use crate::params::{Attention, argument};

use super::long::attend_many;
use super::{Builder, EIGHT, List, SHORT_BLOCKS};

/// Threads of an attention kernel.
const ATTENTION_THREADS: u32 = 256;

impl List<'_, '_> {
    /// Storing and attention; only storing where `store_only`.
    pub(super) fn attention(&mut self, layer: usize, store_only: bool) -> Result<(), DriverError> {
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
        if !store_only && let Some(launch) = self.attention_of_several(params, Role::Attend(layer))? {
            self.launches.push(launch);
            return Ok(());
        }
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
        let (reach, columns, role) = (self.form.reach, self.form.columns, Role::Attend(layer));
        let launch = attend(self.builder, params, reach, columns, role)?;
        self.launches.push(launch);
        Ok(())
    }
}

/// Attention of some columns: the kernel, the grid and the shared memory for the keys that there may be.
pub(crate) fn attend(
    builder: &mut Builder<'_>,
    mut params: Attention,
    reach: Reach,
    columns: usize,
    role: Role,
) -> Result<Launch, DriverError> {
    if let Some(launch) = attend_many(builder, params, reach, columns, role)? {
        return Ok(launch);
    }
    let (dim, kv_heads, sliding) = (params.dim as usize, params.kv_heads as usize, params.window > 0);
    let group = params.heads as usize / kv_heads;
    // Four heads a block of the grid read keys and values a quarter as often: where there are many columns.
    let heads = if group >= 4 && columns > EIGHT { 4 } else { 1 };
    let format = builder.layout.format;
    let name = attend_name(format, heads);
    let blocks = if sliding { params.window as usize / KEY_BLOCK + 1 } else { SHORT_BLOCKS };
    let most = builder.functions.get(builder.device, name)?.dynamic;
    let (shared, one_buffer) = attend_bytes(format, dim, heads, params.pairs as usize, most);
    params.one_buffer = i32::from(one_buffer);
    let parts = kv_heads * group.div_ceil(heads);
    let grid = (blocks.min(params.blocks as usize) as u32, parts as u32, columns as u32);
    builder.launch(name, grid, ATTENTION_THREADS, shared, vec![argument(params)], true, role)
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
