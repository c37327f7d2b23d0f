//! The KV cache of one sequence: rings for sliding layers, growing rows for full ones, in one allocation on the card.
//!
//! The layout is the CPU's: rows of one layer and head lie one after the other, i8 rows have their scales in an array of their own, a
//! ring's slots are a multiple of 64 so that a block of 64 aligned positions never wraps. Kernels get a column's base address and a
//! layer's offsets. All of the context is allocated when a sequence is made.
//!
//! A ring has the reach (the window, or the drafter's where that is wider) and [`SLACK`] slots more, which is what a pass may store before its
//! first token attends, and how far a sequence can be rewound. Invariant: a ring holds `floor .. position`.

use std::sync::Arc;

use rawloop_backend::CacheCost;
use rawloop_spec::contract::KEY_BLOCK;
use rawloop_spec::{AttentionKind, DrafterGeometry, Geometry};

use crate::driver::Device;
use crate::memory::DeviceBytes;
use crate::options::{DriverError, KvFormat};

/// Slots of a ring beyond what a token looks back at.
pub(crate) const SLACK: usize = 64;

/// Keys, then values.
pub(crate) const SIDES: [usize; 2] = [0, 1];

/// Where the rows of one owning layer lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerRoom {
    pub ring: bool,
    pub slots: usize,
    pub dim: usize,
    pub kv_heads: usize,
    /// Byte offsets of the rows of keys and values.
    pub rows: [usize; 2],
    /// Byte offsets of their scales.
    pub scales: [usize; 2],
}

/// Where everything lies in the memory of any sequence of one model.
#[derive(Clone, Debug)]
pub(crate) struct KvLayout {
    pub format: KvFormat,
    pub context: usize,
    /// Positions before the next one that some layer or the drafter may read.
    pub reach: usize,
    pub layers: Vec<LayerRoom>,
    pub bytes: usize,
}

impl KvLayout {
    /// The layout for a model; none where it would not fit the address space.
    pub fn new(
        geometry: &Geometry,
        drafter: Option<&DrafterGeometry>,
        format: KvFormat,
        context: usize,
    ) -> Option<KvLayout> {
        // The drafter sees one key more than its window, none of them its own.
        let reach = drafter.map_or(geometry.window, |drafter| drafter.window.max(geometry.window));
        let mut bytes = 0usize;
        let mut take = |size: usize| -> Option<usize> {
            let start = bytes.checked_next_multiple_of(256)?;
            bytes = start.checked_add(size)?;
            Some(start)
        };
        let mut layers = Vec::new();
        for layer in &geometry.layers[..geometry.own_layers()] {
            let ring = layer.attention == AttentionKind::Sliding;
            let slots = if ring { reach + SLACK } else { context };
            let slots = slots.checked_next_multiple_of(KEY_BLOCK)?;
            let rows = slots.checked_mul(geometry.kv_heads)?;
            let row_bytes = rows.checked_mul(layer.head_dim)?.checked_mul(format.value_bytes())?;
            let scale_bytes = if format == KvFormat::I8 { rows.checked_mul(4)? } else { 0 };
            layers.push(LayerRoom {
                ring,
                slots,
                dim: layer.head_dim,
                kv_heads: geometry.kv_heads,
                rows: [take(row_bytes)?, take(row_bytes)?],
                scales: [take(scale_bytes)?, take(scale_bytes)?],
            });
        }
        Some(KvLayout { format, context, reach, layers, bytes: bytes.max(256) })
    }

    /// What a cache takes: the card's memory is had for the whole context from the start.
    pub fn cost(&self) -> CacheCost {
        CacheCost { fixed: self.bytes, position: 0 }
    }

    /// Rings, in layer order.
    pub fn rings(&self) -> impl Iterator<Item = (usize, &LayerRoom)> {
        self.layers.iter().enumerate().filter(|(_, room)| room.ring)
    }

    /// The lowest position that every ring still holds once `position` positions were stored.
    fn floor_at(&self, position: usize) -> usize {
        self.rings().map(|(_, room)| position.saturating_sub(room.slots)).max().unwrap_or(0)
    }

    /// Bytes of one row of one head as `kv_row` shows it.
    pub fn row_bytes(&self, room: &LayerRoom) -> usize {
        let scale = if self.format == KvFormat::I8 { 4 } else { 0 };
        scale + room.dim * self.format.value_bytes()
    }
}

impl LayerRoom {
    fn slot(&self, position: usize) -> usize {
        if self.ring { position % self.slots } else { position }
    }
}

/// The cache of one sequence.
pub(crate) struct KvCache {
    pub layout: Arc<KvLayout>,
    memory: DeviceBytes,
    position: usize,
    floor: usize,
}

impl KvCache {
    /// An empty cache.
    pub fn new(device: &Arc<Device>, layout: Arc<KvLayout>) -> Result<KvCache, DriverError> {
        let memory = DeviceBytes::zeroed(device, layout.bytes)?;
        Ok(KvCache { layout, memory, position: 0, floor: 0 })
    }

    /// A copy of everything held.
    pub fn fork(&self, device: &Arc<Device>) -> Result<KvCache, DriverError> {
        let copy = KvCache::new(device, self.layout.clone())?;
        copy.memory.copy_from(0, &self.memory, 0, self.layout.bytes)?;
        device.synchronize()?;
        Ok(KvCache { position: self.position, floor: self.floor, ..copy })
    }

    /// Where it lies on the card.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Positions held.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Everything up to `position` has been stored.
    pub fn advance(&mut self, position: usize) {
        self.position = position;
        self.floor = self.floor.max(self.layout.floor_at(position));
    }

    /// Positions up to `position` may have been overwritten in the rings, whatever is held.
    pub fn touched(&mut self, position: usize) {
        self.floor = self.floor.max(self.layout.floor_at(position));
    }

    /// The lowest position that can be gone back to, besides 0.
    pub fn lowest(&self) -> usize {
        if self.floor == 0 { 0 } else { self.floor + self.layout.reach }
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
    pub fn rows(&self, layer: usize, side: usize, first: usize, last: usize) -> Result<Vec<u8>, DriverError> {
        let room = &self.layout.layers[layer];
        let (width, value) = (self.layout.row_bytes(room), room.dim * self.layout.format.value_bytes());
        let mut out = vec![0; room.kv_heads * (last - first) * width];
        for head in 0..room.kv_heads {
            for (start, count) in runs(room, first, last) {
                let slot = head * room.slots + room.slot(start);
                let mut values = vec![0u8; count * value];
                self.memory.read(room.rows[side] + slot * value, &mut values)?;
                let mut scales = vec![0u8; if width > value { count * 4 } else { 0 }];
                if !scales.is_empty() {
                    self.memory.read(room.scales[side] + slot * 4, &mut scales)?;
                }
                let at = (head * (last - first) + start - first) * width;
                for (index, row) in out[at..at + count * width].chunks_exact_mut(width).enumerate() {
                    if width > value {
                        row[..4].copy_from_slice(&scales[index * 4..index * 4 + 4]);
                    }
                    row[width - value..].copy_from_slice(&values[index * value..(index + 1) * value]);
                }
            }
        }
        Ok(out)
    }

    /// The inverse of [`KvCache::rows`].
    pub fn write_rows(
        &mut self,
        layer: usize,
        side: usize,
        first: usize,
        last: usize,
        bytes: &[u8],
    ) -> Result<(), DriverError> {
        let room = self.layout.layers[layer];
        let (width, value) = (self.layout.row_bytes(&room), room.dim * self.layout.format.value_bytes());
        for head in 0..room.kv_heads {
            for (start, count) in runs(&room, first, last) {
                let slot = head * room.slots + room.slot(start);
                let at = (head * (last - first) + start - first) * width;
                let rows = bytes[at..at + count * width].chunks_exact(width);
                let values: Vec<u8> = rows.clone().flat_map(|row| &row[width - value..]).copied().collect();
                self.memory.write(room.rows[side] + slot * value, &values)?;
                if width > value {
                    let scales: Vec<u8> = rows.flat_map(|row| &row[..4]).copied().collect();
                    self.memory.write(room.scales[side] + slot * 4, &scales)?;
                }
            }
        }
        Ok(())
    }

    /// The stored bytes of one position, head after head; none where it is not held.
    pub fn row(&self, layer: usize, side: usize, position: usize) -> Result<Option<Vec<u8>>, DriverError> {
        let Some(room) = self.layout.layers.get(layer) else { return Ok(None) };
        let lowest = if room.ring { self.floor } else { 0 };
        if !(lowest..self.position).contains(&position) {
            return Ok(None);
        }
        self.rows(layer, side, position, position + 1).map(Some)
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

    fn layout(format: KvFormat) -> KvLayout {
        let preset = presets::by_name("tiny-e4b").unwrap();
        KvLayout::new(&preset.geometry(), Some(&preset.drafter(false)), format, 1000).unwrap()
    }

    #[test]
    fn rooms_do_not_overlap_and_start_on_256_bytes() {
        for format in [KvFormat::F32, KvFormat::F16, KvFormat::I8] {
            let layout = layout(format);
            let mut ends = 0;
            for room in &layout.layers {
                let rows = room.slots * room.kv_heads;
                for side in SIDES {
                    assert!(room.rows[side] >= ends && room.rows[side] % 256 == 0);
                    ends = room.rows[side] + rows * room.dim * format.value_bytes();
                }
                for side in SIDES {
                    assert!(room.scales[side] >= ends);
                    ends = room.scales[side] + if format == KvFormat::I8 { rows * 4 } else { 0 };
                }
                assert_eq!(room.slots % KEY_BLOCK, 0);
            }
            assert!(ends <= layout.bytes);
        }
    }

    #[test]
    fn a_run_ends_where_the_ring_does() {
        let layout = layout(KvFormat::F16);
        let (_, room) = layout.rings().next().unwrap();
        let all: Vec<_> = runs(room, room.slots - 3, room.slots + 5).collect();
        assert_eq!(all, [(room.slots - 3, 3), (room.slots, 5)]);
        let full = layout.layers.iter().find(|room| !room.ring).unwrap();
        assert_eq!(runs(full, 10, 900).collect::<Vec<_>>(), [(10, 890)]);
    }
}
