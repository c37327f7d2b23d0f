//! The KV cache of one sequence: rings for sliding layers, growing rows for full ones, in one anonymous mapping.
//!
//! A row is the keys (or values) of one position and KV head. Rows of one layer and head lie one after the other, as
//! attention reads them; i8 rows have their scales in an array of their own. Position `p` of a sliding layer is slot
//! `p % slots`; `slots` is a multiple of 64, so a block of 64 aligned positions never wraps. Full layers have a slot for every
//! position of the context; the system hands out zero pages on the first write, so what is never used costs nothing.
//!
//! A ring has the window (the drafter's, where that is wider) and [`SLACK`] slots more. 64 of slack is what a chunk of prefill or a
//! verify pass may store before its first token attends, and how far a sequence can be rewound: more would cost E2B 0.8 MB for
//! every 64 and save only joins of a few microseconds in chunks that take milliseconds.
//!
//! Invariant: a ring holds the positions `floor .. position`, and whatever a token at `position` may look at (`reach` back)
//! is not below `floor`. Read `snapshot.rs` next.

use std::ops::Range;
use std::sync::Arc;

use memmap2::MmapMut;
use rawloop_backend::CacheCost;
use rawloop_spec::contract::KEY_BLOCK;
use rawloop_spec::{AttentionKind, DrafterGeometry, Geometry};

use crate::kernels::{Kernels, KvRows};

/// Slots of a ring beyond what a token looks back at.
pub(crate) const SLACK: usize = 64;

/// What the system hands out at a time, at most: systems on aarch64 have pages of 4, 16 or 64 KB, and a cost is no less than what is taken.
const PAGE: usize = if cfg!(target_arch = "aarch64") { 65_536 } else { 4096 };

/// How K and V are stored (contract rule 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KvFormat {
    /// IEEE single.
    F32,
    /// IEEE half, nearest even, saturating.
    #[default]
    F16,
    /// int8 with one f32 scale per position and KV head.
    I8,
}

impl KvFormat {
    /// `f32`, `f16`, `i8`.
    pub const fn name(self) -> &'static str {
        match self {
            KvFormat::F32 => "f32",
            KvFormat::F16 => "f16",
            KvFormat::I8 => "i8",
        }
    }

    /// Bytes of one value.
    const fn value_bytes(self) -> usize {
        match self {
            KvFormat::F32 => 4,
            KvFormat::F16 => 2,
            KvFormat::I8 => 1,
        }
    }

    /// Bytes of one row of `dim` values, with its scale where it has one.
    pub(crate) const fn row_bytes(self, dim: usize) -> usize {
        match self {
            KvFormat::I8 => 4 + dim,
            _ => self.value_bytes() * dim,
        }
    }
}

/// Where the rows of one owning layer lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerRoom {
    pub ring: bool,
    pub slots: usize,
    pub dim: usize,
    pub kv_heads: usize,
    /// Keys and values: byte offsets of their rows.
    rows: [usize; 2],
    /// Byte offsets of their scales.
    scales: [usize; 2],
}

/// Keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Keys = 0,
    Values = 1,
}

/// Where everything lies in the mapping of any sequence of one model.
#[derive(Clone, Debug)]
pub(crate) struct KvLayout {
    pub format: KvFormat,
    pub context: usize,
    /// Positions before the next one that some layer or the drafter may read.
    pub reach: usize,
    pub layers: Vec<LayerRoom>,
    bytes: usize,
}

impl KvLayout {
    /// The layout for a model; none where it would not fit the address space.
    pub fn new(
        geometry: &Geometry,
        drafter: Option<&DrafterGeometry>,
        format: KvFormat,
        context: usize,
    ) -> Option<KvLayout> {
        let reach = drafter.map_or(geometry.window, |drafter| drafter.window.max(geometry.window));
        let mut bytes = 0usize;
        let mut take = |size: usize| -> Option<usize> {
            let start = bytes.checked_next_multiple_of(64)?;
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
        Some(KvLayout { format, context, reach, layers, bytes: bytes.max(1) })
    }

    /// What a cache takes once its rings have been all round, or were copied. Rows of full layers grow page by page, each head's keys and values
    /// for themselves.
    pub fn cost(&self) -> CacheCost {
        let mut cost = CacheCost::default();
        for room in &self.layers {
            let row = 2 * room.kv_heads * self.format.row_bytes(room.dim);
            if room.ring {
                cost.fixed += row * room.slots;
            } else {
                let areas = if self.format == KvFormat::I8 { 4 } else { 2 };
                cost.fixed += areas * room.kv_heads * PAGE;
                cost.position += row;
            }
        }
        cost
    }

    /// Rings, in layer order.
    pub fn rings(&self) -> impl Iterator<Item = (usize, &LayerRoom)> {
        self.layers.iter().enumerate().filter(|(_, room)| room.ring)
    }

    /// The lowest position that every ring still holds once `position` positions were stored; 0 where there is no ring.
    fn floor_at(&self, position: usize) -> usize {
        self.rings().map(|(_, room)| position.saturating_sub(room.slots)).max().unwrap_or(0)
    }
}

impl LayerRoom {
    /// The slot of a position.
    pub fn slot(&self, position: usize) -> usize {
        if self.ring { position % self.slots } else { position }
    }

    /// Byte ranges of the values and of the scales of some slots of one head.
    fn ranges(&self, format: KvFormat, side: Side, head: usize, slots: Range<usize>) -> [Range<usize>; 2] {
        let first = head * self.slots + slots.start;
        let bytes = self.dim * format.value_bytes();
        let values = self.rows[side as usize] + first * bytes;
        let scales = match format {
            KvFormat::I8 => {
                let start = self.scales[side as usize] + first * 4;
                start..start + 4 * slots.len()
            }
            _ => 0..0,
        };
        [values..values + slots.len() * bytes, scales]
    }
}

/// The cache of one sequence.
pub(crate) struct KvCache {
    layout: Arc<KvLayout>,
    map: MmapMut,
    position: usize,
    floor: usize,
}

impl KvCache {
    /// An empty cache.
    ///
    /// # Errors
    /// The system refuses the mapping.
    pub fn new(layout: Arc<KvLayout>) -> std::io::Result<KvCache> {
        let map = MmapMut::map_anon(layout.bytes)?;
        Ok(KvCache { layout, map, position: 0, floor: 0 })
    }

    /// A copy of everything held.
    ///
    /// # Errors
    /// The system refuses the mapping.
    pub fn fork(&self) -> std::io::Result<KvCache> {
        let mut copy = KvCache::new(self.layout.clone())?;
        for room in &self.layout.layers {
            let used = if room.ring { room.slots } else { self.position };
            for side in [Side::Keys, Side::Values] {
                for head in 0..room.kv_heads {
                    for range in room.ranges(self.layout.format, side, head, 0..used) {
                        copy.map[range.clone()].copy_from_slice(&self.map[range]);
                    }
                }
            }
        }
        (copy.position, copy.floor) = (self.position, self.floor);
        Ok(copy)
    }

    /// The layout.
    pub fn layout(&self) -> &KvLayout {
        &self.layout
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

    /// Stores one head's key and value (rule 12). Positions are stored before [`KvCache::advance`] counts them.
    pub fn store(
        &mut self,
        kernels: &Kernels,
        layer: usize,
        head: usize,
        position: usize,
        key: &[f32],
        value: &[f32],
    ) {
        let room = self.layout.layers[layer];
        let slot = room.slot(position);
        for (side, row) in [(Side::Keys, key), (Side::Values, value)] {
            let [values, scale] = room.ranges(self.layout.format, side, head, slot..slot + 1);
            match self.layout.format {
                KvFormat::F32 => self.map[values].copy_from_slice(bytemuck::cast_slice(row)),
                KvFormat::F16 => kernels.store_f16(row, bytemuck::cast_slice_mut(&mut self.map[values])),
                KvFormat::I8 => {
                    let s = kernels.store_i8(row, bytemuck::cast_slice_mut(&mut self.map[values]));
                    self.map[scale].copy_from_slice(&s.to_ne_bytes());
                }
            }
        }
    }

    /// Rows of one head for positions that lie in one block of 64.
    pub fn rows(&self, layer: usize, side: Side, head: usize, positions: Range<usize>) -> KvRows<'_> {
        let room = &self.layout.layers[layer];
        let slot = room.slot(positions.start);
        self.slots(room, side, head, slot..slot + positions.len())
    }

    fn slots(&self, room: &LayerRoom, side: Side, head: usize, slots: Range<usize>) -> KvRows<'_> {
        let [values, scales] = room.ranges(self.layout.format, side, head, slots);
        match self.layout.format {
            KvFormat::F32 => KvRows::F32(bytemuck::cast_slice(&self.map[values])),
            KvFormat::F16 => KvRows::F16(bytemuck::cast_slice(&self.map[values])),
            KvFormat::I8 => KvRows::I8 {
                codes: bytemuck::cast_slice(&self.map[values]),
                scales: bytemuck::cast_slice(&self.map[scales]),
            },
        }
    }

    /// The stored bytes of one position, head after head, scales before their codes; none where it is not held.
    pub fn row(&self, layer: usize, side: Side, position: usize) -> Option<Vec<u8>> {
        let room = self.layout.layers.get(layer)?;
        let lowest = if room.ring { self.floor } else { 0 };
        if !(lowest..self.position).contains(&position) {
            return None;
        }
        Some(self.stored(layer, side, position))
    }

    /// [`KvCache::row`] without asking whether the position is counted yet.
    pub fn stored(&self, layer: usize, side: Side, position: usize) -> Vec<u8> {
        let room = &self.layout.layers[layer];
        let mut bytes = Vec::with_capacity(room.kv_heads * self.layout.format.row_bytes(room.dim));
        for head in 0..room.kv_heads {
            self.copy_out(room, side, head, room.slot(position), &mut bytes);
        }
        bytes
    }

    /// Appends one slot's scale, where it has one, and values.
    pub fn copy_out(&self, room: &LayerRoom, side: Side, head: usize, slot: usize, bytes: &mut Vec<u8>) {
        let [values, scale] = room.ranges(self.layout.format, side, head, slot..slot + 1);
        bytes.extend_from_slice(&self.map[scale]);
        bytes.extend_from_slice(&self.map[values]);
    }

    /// The inverse of [`KvCache::copy_out`]; `bytes` is one slot's.
    pub fn copy_in(&mut self, layer: usize, side: Side, head: usize, slot: usize, bytes: &[u8]) {
        let room = self.layout.layers[layer];
        let [values, scale] = room.ranges(self.layout.format, side, head, slot..slot + 1);
        let (first, rest) = bytes.split_at(scale.len());
        self.map[scale].copy_from_slice(first);
        self.map[values].copy_from_slice(rest);
    }
}
