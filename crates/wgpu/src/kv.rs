//! The KV cache of one sequence: a buffer for each layer that owns K/V, rings for sliding layers and growing rows for full ones.
//!
//! A layer's buffer has the key rows, head after head, then the value rows, then with i8 the scales of both, in words of 4 bytes. A ring's
//! slots are a multiple of 64, so that a block of 64 aligned positions never wraps. All of the context is allocated when a sequence is made.
//!
//! A ring has the window and [`SLACK`] slots more, which is what a pass may store before its first token attends, and how far a sequence can
//! be rewound. Invariant: a ring holds `floor .. position`.

use std::sync::Arc;

use rawloop_backend::CacheCost;
use rawloop_spec::contract::KEY_BLOCK;
use rawloop_spec::{AttentionKind, Geometry};
use wgpu::{BindGroup, BindGroupDescriptor, BindGroupEntry, Buffer, BufferBinding};

use crate::gpu::Gpu;
use crate::options::{GpuError, KvFormat};
use crate::shaders::Pipeline;

/// Slots of a ring beyond the window.
pub(crate) const SLACK: usize = 64;

/// Where the rows of one owning layer lie in its buffer, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerRoom {
    pub ring: bool,
    pub slots: usize,
    pub dim: usize,
    pub kv_heads: usize,
    /// Words of one row of one head.
    pub row_words: usize,
    /// Words before the rows of keys and values.
    pub rows: [usize; 2],
    /// Words before their scales.
    pub scales: [usize; 2],
    /// Words of the buffer.
    pub words: usize,
}

impl LayerRoom {
    fn slot(&self, position: usize) -> usize {
        if self.ring { position % self.slots } else { position }
    }
}

/// The layout of any sequence of one model.
#[derive(Clone, Debug)]
pub(crate) struct KvLayout {
    pub format: KvFormat,
    pub context: usize,
    pub window: usize,
    pub layers: Vec<LayerRoom>,
}

impl KvLayout {
    /// The layout for a model; none where it would not fit the address space.
    pub fn new(geometry: &Geometry, format: KvFormat, context: usize) -> Option<KvLayout> {
        let mut layers = Vec::new();
        for layer in &geometry.layers[..geometry.own_layers()] {
            let ring = layer.attention == AttentionKind::Sliding;
            let slots = if ring { geometry.window + SLACK } else { context };
            let slots = slots.checked_next_multiple_of(KEY_BLOCK)?;
            let row_words = layer.head_dim / format.per_word();
            let rows = slots.checked_mul(geometry.kv_heads)?;
            let side = rows.checked_mul(row_words)?;
            let scales = if format == KvFormat::I8 { rows } else { 0 };
            let words = side.checked_mul(2)?.checked_add(2 * scales)?;
            layers.push(LayerRoom {
                ring,
                slots,
                dim: layer.head_dim,
                kv_heads: geometry.kv_heads,
                row_words,
                rows: [0, side],
                scales: [2 * side, 2 * side + scales],
                words,
            });
        }
        Some(KvLayout { format, context, window: geometry.window, layers })
    }

    /// What a cache takes: buffers have the length of the context from the start.
    pub fn cost(&self) -> CacheCost {
        CacheCost { fixed: self.layers.iter().map(|room| 4 * room.words).sum(), position: 0 }
    }

    /// Rings, in layer order.
    pub fn rings(&self) -> impl Iterator<Item = (usize, &LayerRoom)> {
        self.layers.iter().enumerate().filter(|(_, room)| room.ring)
    }

    fn floor_at(&self, position: usize) -> usize {
        self.rings().map(|(_, room)| position.saturating_sub(room.slots)).max().unwrap_or(0)
    }

    /// Bytes of one row of one head as `kv_row` shows it.
    pub fn row_bytes(&self, room: &LayerRoom) -> usize {
        4 * room.row_words + if self.format == KvFormat::I8 { 4 } else { 0 }
    }
}

/// What the kernels of one layer bind of a sequence.
pub(crate) struct LayerGroups {
    pub store: BindGroup,
    pub read: BindGroup,
}

/// The cache of one sequence.
pub(crate) struct KvCache {
    pub layout: Arc<KvLayout>,
    pub groups: Vec<LayerGroups>,
    buffers: Vec<Buffer>,
    position: usize,
    floor: usize,
}

/// The layouts of the groups of a sequence, and what else they bind.
pub(crate) struct KvBinding {
    /// A pipeline that stores and one that reads.
    pub store: Pipeline,
    pub read: Pipeline,
    /// The uniform of first columns, bound with an offset.
    pub first: Buffer,
}

impl KvBinding {
    fn group(&self, gpu: &Gpu, pipeline: &Pipeline, kv: &Buffer) -> Option<BindGroup> {
        let layout = pipeline.sequence.as_ref()?;
        let first = BufferBinding { buffer: &self.first, offset: 0, size: std::num::NonZeroU64::new(16) };
        Some(gpu.device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout,
            entries: &[
                BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(first) },
                BindGroupEntry { binding: 1, resource: kv.as_entire_binding() },
            ],
        }))
    }
}

impl KvCache {
    /// An empty cache.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(gpu: &Gpu, binding: &KvBinding, layout: Arc<KvLayout>) -> Result<KvCache, GpuError> {
        let buffers: Vec<Buffer> = layout.layers.iter().map(|room| gpu.storage(4 * room.words)).collect();
        // A buffer that was refused makes its groups fail too: the first complaint is the one to tell.
        gpu.check()?;
        let groups = buffers.iter().filter_map(|kv| {
            let store = binding.group(gpu, &binding.store, kv)?;
            let read = binding.group(gpu, &binding.read, kv)?;
            Some(LayerGroups { store, read })
        });
        let groups = groups.collect();
        gpu.check()?;
        Ok(KvCache { layout, groups, buffers, position: 0, floor: 0 })
    }

    /// A copy of everything held.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn fork(&self, gpu: &Gpu, binding: &KvBinding) -> Result<KvCache, GpuError> {
        let copy = KvCache::new(gpu, binding, self.layout.clone())?;
        let mut encoder = gpu.encoder();
        for (from, to) in self.buffers.iter().zip(&copy.buffers) {
            encoder.copy_buffer_to_buffer(from, 0, to, 0, from.size());
        }
        gpu.queue.submit([encoder.finish()]);
        gpu.check()?;
        Ok(KvCache { position: self.position, floor: self.floor, ..copy })
    }

    /// Positions held.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Everything up to `position` has been stored.
    pub fn advance(&mut self, position: usize) {
        self.position = position;
        self.touched(position);
    }

    /// Positions up to `position` may have been overwritten in the rings, whatever is held.
    pub fn touched(&mut self, position: usize) {
        self.floor = self.floor.max(self.layout.floor_at(position));
    }

    /// The lowest position that can be gone back to, besides 0.
    pub fn lowest(&self) -> usize {
        if self.floor == 0 { 0 } else { self.floor + self.layout.window }
    }

    /// Forgets everything from `position` on.
    ///
    /// # Errors
    /// The lowest position that can be reached, where this one cannot.
    pub fn truncate(&mut self, position: usize) -> Result<(), usize> {
        if position >= self.position {
            return Ok(());
        }
        if position == 0 {
            self.floor = 0;
        } else if position < self.lowest() {
            return Err(self.lowest());
        }
        self.position = position;
        Ok(())
    }

    /// Goes to `position`, of which the rings hold `floor ..` since they were just written.
    pub fn set(&mut self, position: usize, floor: usize) {
        (self.position, self.floor) = (position, floor);
    }

    /// Stored bytes of one side of the positions `first .. last`, head after head, each row with its scale before it.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn rows(
        &self,
        gpu: &Gpu,
        layer: usize,
        side: usize,
        first: usize,
        last: usize,
    ) -> Result<Vec<u8>, GpuError> {
        let room = &self.layout.layers[layer];
        let (width, values) = (self.layout.row_bytes(room), 4 * room.row_words);
        let buffer = &self.buffers[layer];
        let mut pieces = Vec::new();
        for head in 0..room.kv_heads {
            for (start, count) in runs(room, first, last) {
                let slot = head * room.slots + room.slot(start);
                pieces.push((buffer, 4 * (room.rows[side] + slot * room.row_words), count * values));
                if width > values {
                    pieces.push((buffer, 4 * (room.scales[side] + slot), count * 4));
                }
            }
        }
        let bytes = gpu.read(&pieces)?;
        if width == values {
            return Ok(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        for pair in pieces.chunks_exact(2) {
            let (rows, behind) = rest.split_at(pair[0].2);
            let (scales, behind) = behind.split_at(pair[1].2);
            for (row, scale) in rows.chunks_exact(values).zip(scales.chunks_exact(4)) {
                out.extend_from_slice(scale);
                out.extend_from_slice(row);
            }
            rest = behind;
        }
        Ok(out)
    }

    /// The inverse of [`KvCache::rows`].
    pub fn write_rows(
        &mut self,
        gpu: &Gpu,
        layer: usize,
        side: usize,
        first: usize,
        last: usize,
        bytes: &[u8],
    ) {
        let room = &self.layout.layers[layer];
        let (width, values) = (self.layout.row_bytes(room), 4 * room.row_words);
        let buffer = &self.buffers[layer];
        let mut rest = bytes;
        for head in 0..room.kv_heads {
            for (start, count) in runs(room, first, last) {
                let slot = head * room.slots + room.slot(start);
                let (rows, behind) = rest.split_at(count * width);
                rest = behind;
                let rows = rows.chunks_exact(width);
                let codes: Vec<u8> = rows.clone().flat_map(|row| &row[width - values..]).copied().collect();
                gpu.write(buffer, 4 * (room.rows[side] + slot * room.row_words), &codes);
                if width > values {
                    let scales: Vec<u8> = rows.flat_map(|row| &row[..4]).copied().collect();
                    gpu.write(buffer, 4 * (room.scales[side] + slot), &scales);
                }
            }
        }
    }

    /// The stored bytes of keys and of values of one position, head after head; none where it is not held.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn row(&self, gpu: &Gpu, layer: usize, position: usize) -> Result<Option<[Vec<u8>; 2]>, GpuError> {
        let Some(room) = self.layout.layers.get(layer) else { return Ok(None) };
        let lowest = if room.ring { self.floor } else { 0 };
        if !(lowest..self.position).contains(&position) {
            return Ok(None);
        }
        let side = |side| self.rows(gpu, layer, side, position, position + 1);
        Ok(Some([side(0)?, side(1)?]))
    }
}

/// `first .. last` as runs of neighbouring slots: where each starts, and how many positions it has.
fn runs(room: &LayerRoom, first: usize, last: usize) -> impl Iterator<Item = (usize, usize)> {
    let (slots, ring) = (room.slots, room.ring);
    let mut at = first;
    std::iter::from_fn(move || {
        if at >= last {
            return None;
        }
        let count = if ring { (slots - at % slots).min(last - at) } else { last - at };
        at += count;
        Some((at - count, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawloop_spec::presets;

    #[test]
    fn a_layer_has_room_for_rows_and_scales_and_whole_blocks() {
        let geometry = presets::by_name("tiny-e4b").unwrap().geometry();
        for format in [KvFormat::F32, KvFormat::F16, KvFormat::I8] {
            let layout = KvLayout::new(&geometry, format, 1000).unwrap();
            for room in &layout.layers {
                assert_eq!(room.slots % KEY_BLOCK, 0);
                let rows = room.slots * room.kv_heads;
                assert_eq!(room.rows[1], rows * room.row_words);
                assert_eq!(room.scales[0], 2 * room.rows[1]);
                assert_eq!(room.words, room.scales[1] + if format == KvFormat::I8 { rows } else { 0 });
                assert_eq!(room.rows[1] % 4, 0);
            }
        }
    }

    #[test]
    fn a_run_ends_where_the_ring_does() {
        let geometry = presets::by_name("tiny-e4b").unwrap().geometry();
        let layout = KvLayout::new(&geometry, KvFormat::F16, 1000).unwrap();
        let (_, room) = layout.rings().next().unwrap();
        let all: Vec<_> = runs(room, room.slots - 3, room.slots + 5).collect();
        assert_eq!(all, [(room.slots - 3, 3), (room.slots, 5)]);
        let full = layout.layers.iter().find(|room| !room.ring).unwrap();
        assert_eq!(runs(full, 10, 900).collect::<Vec<_>>(), [(10, 890)]);
    }
}
