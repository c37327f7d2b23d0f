//! Where the values of a pass lie on the card: one allocation for each, made once for the widest pass.

use std::sync::Arc;

use rawloop_spec::contract::KEY_BLOCK;

use crate::driver::Device;
use crate::kv::KvLayout;
use crate::memory::DeviceBytes;
use crate::options::DriverError;
use crate::plan::WIDTH;
use crate::weights::{MOST_SPLITS, Weights};

/// Where the values of a pass lie on the card.
pub(crate) struct Room {
    pub columns: DeviceBytes,
    pub chain: DeviceBytes,
    /// How a run draws, and the candidates of its slices.
    pub draw: DeviceBytes,
    pub lists: DeviceBytes,
    pub hidden: [DeviceBytes; 2],
    pub per_layer_inputs: DeviceBytes,
    pub table_rows: DeviceBytes,
    pub table_scales: DeviceBytes,
    pub q: DeviceBytes,
    pub k: DeviceBytes,
    pub v: DeviceBytes,
    pub input: DeviceBytes,
    pub ffn: DeviceBytes,
    pub product: DeviceBytes,
    /// Of the output, down and per-layer projections; a fourth of the output projection of every other layer, where attention runs in clusters.
    pub sums: [DeviceBytes; 4],
    pub partial_values: DeviceBytes,
    pub partial_largest: DeviceBytes,
    pub partial_sums: DeviceBytes,
    pub last: DeviceBytes,
    pub best: DeviceBytes,
    pub logits: DeviceBytes,
    /// Bytes from a column's codes to the next column's.
    pub code_stride: usize,
    /// Blocks of keys a column can see.
    pub blocks: usize,
}

impl Room {
    /// Memory for passes of a model.
    pub fn new(device: &Arc<Device>, weights: &Weights, layout: &KvLayout) -> Result<Room, DriverError> {
        let geometry = &weights.geometry;
        let (hidden, vocab) = (geometry.hidden, geometry.vocab);
        let widest =
            |size: fn(&rawloop_spec::Layer) -> usize| geometry.layers.iter().map(size).max().unwrap_or(0);
        let (dim, ffn) = (widest(|layer| layer.head_dim), widest(|layer| layer.ffn));
        // The last part of K may end in units of zeros.
        let most = hidden.max(geometry.heads * dim).max(ffn).max(geometry.ple_width);
        let code_stride = most.next_multiple_of(128) + MOST_SPLITS * 128;
        let blocks = layout.context.div_ceil(KEY_BLOCK).max(geometry.window / KEY_BLOCK + 2);
        let partials = WIDTH * geometry.heads * blocks;
        let bytes = |length: usize| DeviceBytes::zeroed(device, length);
        let codes = || bytes(WIDTH * code_stride);
        let floats = |count: usize| bytes(4 * WIDTH * count);
        let table_bytes = weights.ple.columns as usize * weights.ple.bits as usize / 8;
        Ok(Room {
            columns: bytes(WIDTH * size_of::<crate::params::Column>())?,
            chain: bytes(size_of::<crate::params::Chain>())?,
            draw: bytes(size_of::<crate::params::Draw>())?,
            lists: bytes(8 * crate::draw::LISTS)?,
            hidden: [floats(hidden)?, floats(hidden)?],
            per_layer_inputs: floats(geometry.layers.len() * geometry.ple_width)?,
            table_rows: bytes(WIDTH * table_bytes)?,
            table_scales: floats(geometry.layers.len())?,
            q: codes()?,
            k: codes()?,
            v: codes()?,
            input: codes()?,
            ffn: codes()?,
            product: codes()?,
            sums: [floats(hidden)?, floats(hidden)?, floats(hidden)?, floats(hidden)?],
            partial_values: bytes(partials * dim * 4)?,
            partial_largest: bytes(partials * 4)?,
            partial_sums: bytes(partials * 4)?,
            last: floats(hidden)?,
            best: bytes(8 * WIDTH)?,
            logits: floats(vocab)?,
            code_stride,
            blocks,
        })
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        let all = [
            &self.columns,
            &self.chain,
            &self.draw,
            &self.lists,
            &self.hidden[0],
            &self.hidden[1],
            &self.per_layer_inputs,
            &self.table_rows,
            &self.table_scales,
            &self.q,
            &self.k,
            &self.v,
            &self.input,
            &self.ffn,
            &self.product,
            &self.partial_values,
            &self.partial_largest,
            &self.partial_sums,
            &self.last,
            &self.best,
            &self.logits,
        ];
        all.into_iter().chain(&self.sums).map(|bytes| bytes.len()).sum()
    }
}

/// Where taps of the narrow form go; addresses of 0 are not written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TapRoom {
    pub input: u64,
    pub joined: u64,
    pub a: u64,
    pub b: u64,
    pub query: u64,
    pub attention: u64,
}
