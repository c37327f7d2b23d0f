//! A layer's attention of 2 to 4 neighbouring columns as one kernel of clusters (`kernels/several_layer_attention.cu`): whether a layer can run that way, and what lies where in shared memory.
//! What it shares with one column stands in `layer_attention.rs`.

use rawloop_spec::AttentionKind;
use rawloop_spec::contract::KEY_BLOCK;

use crate::form::Reach;
use crate::params::Matrix;
use crate::weights::LayerWeights;

use super::layer_attention::{CONTROL, MOST_BLOCKS, PORTABLE, Shape};
use super::{List, SHORT_BLOCKS};

/// Blocks of a cluster (`SEVERAL_SIZE`), and floats from a column's scores to the next one's (`SCORE_PITCH`).
const SIZE: usize = PORTABLE;
const SCORE_PITCH: usize = 72;

/// The kernel for `columns` columns of a layer with all that E2B has, whose heads of 256 see a window and those of 512 everything.
pub(super) const fn plain_name_of_several(columns: usize, dim: i32, sliding: bool) -> Option<&'static str> {
    match (columns, dim, sliding) {
        (2, 256, true) => Some("layer_attention_2_of_256"),
        (2, 512, false) => Some("layer_attention_2_of_512"),
        (3 | 4, 256, true) => Some("layer_attention_4_of_256"),
        (3 | 4, 512, false) => Some("layer_attention_4_of_512"),
        _ => None,
    }
}

impl List<'_, '_> {
    /// How a layer runs with a kernel made for `kept` columns, if it can.
    pub(super) fn at_once_of_several(
        &self,
        layer: usize,
        weights: &LayerWeights,
        kept: usize,
        most: usize,
    ) -> Option<Shape> {
        let geometry = &self.builder.weights.geometry;
        let (q, o, dim) = (&weights.q, &weights.o, geometry.layers[layer].head_dim);
        let (warps, threads) = (self.builder.device.warps, self.builder.threads() as usize);
        let inputs = |m: &Matrix| (m.split_k * (256 / m.bits)) as usize;
        let stride = |m: &Matrix| inputs(m) + (128 / m.bits) as usize;
        let sliding = geometry.layers[layer].attention == AttentionKind::Sliding;
        // Blocks of keys that may be seen by one of the columns; up to two more than the cluster has blocks lie beside the first ones, in rows that a window of that many blocks leaves.
        let window = geometry.window;
        let shift = if sliding { kept - 1 } else { 0 };
        let blocks = if sliding { (window + kept + KEY_BLOCK - 3) / KEY_BLOCK + 1 } else { SHORT_BLOCKS };
        let alike = weights.kv.as_ref().is_none_or(|(k, v)| {
            [k, v].iter().all(|m| (m.bits, m.split_k, m.splits) == (q.bits, q.split_k, q.splits))
        });
        let spans = if weights.kv.is_some() { 3 } else { 1 };
        let row_blocks = (dim / 16).div_ceil(SIZE);
        let pairs = self.builder.rope.pairs(usize::from(!sliding));
        let possible = self.builder.taps.input == 0
            && (blocks <= SIZE || sliding && window == SIZE * KEY_BLOCK)
            && blocks <= MOST_BLOCKS
            && (sliding || self.form.reach == Reach::Short && self.builder.trial.long_always.is_none())
            && alike
            && q.splits == 1
            && [32, 64, 128, 256, 512].contains(&dim)
            && pairs.is_multiple_of(4)
            // Rows of scores, weights of two blocks of keys, values and the kernel's four warps for sums of weights.
            && warps >= 12
            && kept * spans * row_blocks * 4 <= threads
            && inputs(o).is_multiple_of(dim);
        if !possible {
            return None;
        }
        let output_blocks = (o.rows as usize).div_ceil(16).div_ceil(SIZE);
        let (units, output_units) =
            (row_blocks * spans * q.split_k as usize, output_blocks * o.split_k as usize);
        let buffer = (KEY_BLOCK + shift) * (dim * self.builder.layout.format.value_bytes() + 64);
        let entry = self.enter_bytes(1);
        // Where every block has rows of q no partial result comes before the products are over, and takes the place of the entry's codes.
        let (x, partials) = (kept * stride(q), blocks * dim * kept / SIZE * 4);
        let shared_place = if row_blocks * SIZE == dim / 16 { x.max(partials) } else { x + partials };
        let rest = 4 * (kept * dim + dim + 32 * warps + 2 * SCORE_PITCH)
            + 8 * MOST_BLOCKS
            + 8 * kept
            + row_blocks * spans * 16 * 4 * (1 + kept)
            + 4 * kept * (warps + 16)
            + kept * stride(o)
            + 4 * kept * (2 * pairs).next_multiple_of(4)
            + if spans == 3 { 4 * dim } else { 0 }
            + (spans * kept * dim).max(4 * kept * (SCORE_PITCH + 2 * KEY_BLOCK));
        let of = |late: usize| {
            let (taken, weights) = (CONTROL + 512 * output_units, CONTROL + 512 * units);
            // What comes late lies behind the weights of the output projection, where those of q, k and v and the entry were.
            let late_end = (taken + late * buffer).max(weights + if late > 0 { entry } else { 0 });
            let early_end = late_end + (2 - late) * buffer;
            let (keys, values) = match late {
                0 => (late_end, late_end + buffer),
                1 => (late_end, taken),
                _ => (taken, taken + buffer),
            };
            let (at_entry, end) =
                if late > 0 { (weights, early_end) } else { (early_end, early_end + entry) };
            Shape {
                row_blocks,
                output_blocks,
                late,
                keys,
                values,
                entry: at_entry,
                output: CONTROL,
                partials: end,
                rest: end + shared_place,
                shared: end + shared_place + rest,
            }
        };
        (0..3).map(of).find(|shape| shape.shared <= most)
    }
}
