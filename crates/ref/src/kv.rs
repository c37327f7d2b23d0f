//! Rule 12: the KV cache, stored as it is compared: rows of bytes.
//!
//! The reference keeps every position of every owning layer, sliding ones too, so that no ring can hide a mistake.

use rawloop_spec::Geometry;
use rawloop_spec::contract::{f16_to_f32, f32_to_f16, quantise};

use crate::attention::Visible;

/// How K and V are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KvFormat {
    /// IEEE single.
    F32,
    /// IEEE half, nearest even, saturating.
    #[default]
    F16,
    /// int8 with one f32 scale per token and KV head, scale first.
    I8,
}

impl KvFormat {
    /// Bytes of one token's K (or V) of one KV head.
    pub const fn head_bytes(self, head_dim: usize) -> usize {
        match self {
            KvFormat::F32 => 4 * head_dim,
            KvFormat::F16 => 2 * head_dim,
            KvFormat::I8 => 4 + head_dim,
        }
    }

    /// Stores one head's values.
    pub fn store(self, values: &[f32], bytes: &mut Vec<u8>) {
        match self {
            KvFormat::F32 => values.iter().for_each(|x| bytes.extend(x.to_le_bytes())),
            KvFormat::F16 => values.iter().for_each(|&x| bytes.extend(f32_to_f16(x).to_le_bytes())),
            KvFormat::I8 => {
                let largest = values.iter().fold(0f32, |largest, x| largest.max(x.abs()));
                let scale = largest / 127.0;
                bytes.extend(scale.to_le_bytes());
                let code = |x: &f32| if scale == 0.0 { 0 } else { quantise(*x, scale) };
                bytes.extend(values.iter().map(|x| code(x) as u8));
            }
        }
    }

    /// Reads one head's values back, as every reader sees them.
    pub fn load(self, bytes: &[u8]) -> Vec<f32> {
        let word = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        match self {
            KvFormat::F32 => bytes.chunks_exact(4).map(word).collect(),
            KvFormat::F16 => {
                bytes.chunks_exact(2).map(|b| f16_to_f32(u16::from_le_bytes([b[0], b[1]]))).collect()
            }
            KvFormat::I8 => bytes[4..].iter().map(|&code| code as i8 as f32 * word(bytes)).collect(),
        }
    }
}

/// K and V of one layer: one entry a position, each `kv_heads` rows of [`KvFormat::head_bytes`].
#[derive(Clone, Debug, Default)]
pub struct LayerKv {
    /// Key rows.
    pub keys: Vec<Vec<u8>>,
    /// Value rows.
    pub values: Vec<Vec<u8>>,
}

/// The cache of one sequence.
#[derive(Clone, Debug)]
pub struct KvCache {
    /// Storage format.
    pub format: KvFormat,
    /// One per layer; empty for layers that read another's.
    pub layers: Vec<LayerKv>,
}

impl KvCache {
    /// An empty cache.
    pub fn new(geometry: &Geometry, format: KvFormat) -> Self {
        KvCache { format, layers: vec![LayerKv::default(); geometry.layers.len()] }
    }

    /// Positions stored.
    pub fn len(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.keys.len())
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything from `position` on.
    pub fn truncate(&mut self, position: usize) {
        for layer in &mut self.layers {
            layer.keys.truncate(position);
            layer.values.truncate(position);
        }
    }

    /// What one KV head of a layer shows of the positions `first..last`.
    pub fn visible(&self, layer: usize, head: usize, head_dim: usize, first: usize, last: usize) -> Visible {
        let bytes = self.format.head_bytes(head_dim);
        let load = |row: &Vec<u8>| self.format.load(&row[head * bytes..(head + 1) * bytes]);
        let LayerKv { keys, values } = &self.layers[layer];
        Visible {
            first,
            keys: keys[first..last].iter().map(load).collect(),
            values: values[first..last].iter().map(load).collect(),
        }
    }
}
