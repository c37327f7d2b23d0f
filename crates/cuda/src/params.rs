//! Arguments of kernels: twins of the structs in `kernels/shapes.cuh`, `inputs.cu`, `head.cu`, `draft.cu` and `draw.cu`, field by field. Addresses are u64.

use bytemuck::{Pod, Zeroable};

/// One token of a pass.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Column {
    pub kv: u64,
    pub token: u32,
    pub position: i32,
}

/// Stop ids that a decode run knows on the card.
pub(crate) const MOST_STOPS: usize = 32;

/// The token chain of a decode run.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Chain {
    pub emitted: u64,
    pub best: u64,
    pub count: i32,
    pub done: i32,
    pub arrived: i32,
    pub stop_count: i32,
    pub stops: [u32; MOST_STOPS],
}

/// Ids that a drawn run never picks, at most.
pub(crate) const MOST_SUPPRESSED: usize = 16;

/// How tokens of a run are drawn.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Draw {
    pub temperature: f32,
    pub top_p: f32,
    pub min_p: f32,
    /// 0: none.
    pub cap: f32,
    pub seed: [u32; 2],
    pub top_k: i32,
    pub suppressed: i32,
    pub suppress: [u32; MOST_SUPPRESSED],
}

/// A scale that divides, and its rounded inverse; 0 where a remainder could lose bits (the kernels divide then).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub(crate) struct Scale {
    pub value: f32,
    pub inverse: f32,
}

impl Scale {
    pub fn new(value: f32) -> Scale {
        const FAR: f32 = (1u64 << 60) as f32;
        let inside = (1.0 / FAR..=FAR).contains(&value);
        Scale { value, inverse: if inside { 1.0 / value } else { 0.0 } }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Matrix {
    pub codes: u64,
    pub multipliers: u64,
    pub rows: i32,
    pub split_k: i32,
    pub splits: i32,
    pub bits: i32,
    pub input: Scale,
    pub output: Scale,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Enter {
    pub sums: u64,
    pub multipliers: u64,
    pub join_norm: u64,
    pub hidden_in: u64,
    pub hidden_out: u64,
    pub norm: u64,
    pub tap_joined: u64,
    pub join: Scale,
    pub count: Scale,
    pub input: Scale,
    pub scalar: f32,
    pub hidden: i32,
    pub clear: i32,
    pub fill: i32,
}

/// Values of the stream that a lane of the plain entry's sum of squares adds, as kernels/enter.cuh has it.
pub(crate) const SQUARES_STEPS: i32 = 48;

impl Enter {
    /// Whether a block whose threads have `values` together enters plainly (`enter_places` in kernels/enter.cuh): scales have inverses, nothing is tapped or cleared; with a norm, or without
    /// one. All of the values join, or, where a list `begins`, none. Their squares are added by lanes that have [`SQUARES_STEPS`] each.
    pub fn is_plain(&self, values: i32, norm: bool, begins: bool) -> bool {
        self.hidden == values
            && values == 32 * SQUARES_STEPS
            && (begins || self.join.inverse != 0.0)
            && (self.sums == 0) == begins
            && self.input.inverse != 0.0
            && self.tap_joined == 0
            && self.clear == 0
            && (self.norm != 0) == norm
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Merge {
    pub values: u64,
    pub largest: u64,
    pub sums: u64,
    pub columns: u64,
    pub tap: u64,
    pub input: Scale,
    pub heads: i32,
    pub head_dim: i32,
    pub window: i32,
    pub blocks: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Linear {
    pub m: [Matrix; 3],
    pub enter: Enter,
    pub merge: Merge,
    pub input: u64,
    pub out: [u64; 3],
    pub sums: u64,
    pub gelu: u64,
    pub up_multipliers: u64,
    pub ple: u64,
    pub zero: u64,
    pub tap_input: u64,
    pub tap_a: u64,
    pub tap_b: u64,
    pub stamps: u64,
    pub up: Scale,
    pub next: Scale,
    pub block_end: [i32; 3],
    pub row_blocks: i32,
    pub input_stride: i32,
    pub out_stride: i32,
    pub sums_stride: i32,
    pub ple_stride: i32,
    pub zero_count: i32,
    pub columns: i32,
    pub matrices: i32,
    pub input_kind: i32,
    pub output_kind: i32,
    pub inputs: i32,
    pub ring: i32,
    pub late: i32,
}

/// Clocks of a stage (`Stamp` in `kernels/stages.cu`): nanoseconds of the card and cycles of the multiprocessor for each.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Stamps(pub [[u64; 2]; 5]);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Attention {
    pub columns: u64,
    pub q: u64,
    pub k: u64,
    pub v: u64,
    pub q_float: u64,
    pub q_norm: u64,
    pub k_norm: u64,
    pub rope: u64,
    pub values: u64,
    pub largest: u64,
    pub sums: u64,
    pub tap_query: u64,
    pub chain: u64,
    pub keys: u64,
    pub values_at: u64,
    pub key_scales: u64,
    pub value_scales: u64,
    pub q_scale: f32,
    pub k_scale: f32,
    pub v_scale: f32,
    pub rope_stride: i32,
    pub pairs: i32,
    pub slots: i32,
    pub ring: i32,
    pub dim: i32,
    pub heads: i32,
    pub kv_heads: i32,
    pub window: i32,
    pub blocks: i32,
    pub q_stride: i32,
    pub kv_stride: i32,
    pub early: i32,
    pub past: i32,
    pub one_buffer: i32,
    pub fill: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct BulkAttention {
    pub columns: u64,
    pub q: u64,
    pub k: u64,
    pub v: u64,
    pub q_norm: u64,
    pub k_norm: u64,
    pub rope: u64,
    pub out: u64,
    pub beside: u64,
    pub keys: u64,
    pub values: u64,
    pub key_scales: u64,
    pub value_scales: u64,
    pub beside_keys: u64,
    pub beside_values: u64,
    pub beside_key_scales: u64,
    pub beside_value_scales: u64,
    pub input: Scale,
    pub q_scale: f32,
    pub k_scale: f32,
    pub v_scale: f32,
    pub rope_stride: i32,
    pub pairs: i32,
    pub slots: i32,
    pub beside_slots: i32,
    pub dim: i32,
    pub heads: i32,
    pub kv_heads: i32,
    pub window: i32,
    pub stride: i32,
    pub count: i32,
    pub format: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Table {
    pub codes: u64,
    pub scales: u64,
    pub bits: i32,
    pub columns: i32,
    pub scales_per_row: i32,
    pub factor: f32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Project {
    pub weights: u64,
    pub hidden: u64,
    pub out: u64,
    pub columns: u64,
    pub table_rows: u64,
    pub table_scales: u64,
    pub table: Table,
    pub factor: f32,
    pub rows: i32,
    pub width: i32,
    pub chunks: i32,
    pub out_stride: i32,
    pub count: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct EmbedProject {
    pub project: Project,
    pub embed: Table,
    pub stream: u64,
    pub zero: u64,
    pub zero_count: i32,
    pub fill: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Head {
    pub m: Matrix,
    pub hidden: u64,
    pub logits: u64,
    pub best: u64,
    pub width: i32,
    pub count: i32,
    pub row_blocks: i32,
    pub fill: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct FinalHead {
    pub head: Head,
    pub enter: Enter,
    pub last: u64,
    pub chain: u64,
    pub column: u64,
}

/// A linear of the drafter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct DraftLinear {
    pub weights: u64,
    pub beside: u64,
    pub out: u64,
    pub input: u64,
    pub join: u64,
    pub join_norm: u64,
    pub norm: u64,
    pub stream_out: u64,
    pub normed: u64,
    pub column: u64,
    pub merge: Merge,
    pub embed: Table,
    pub count: Scale,
    pub scalar: f32,
    pub rows: i32,
    pub width: i32,
    pub chunks: i32,
    pub kind: i32,
    pub fill: i32,
}

/// What a cycle of drafts keeps on the card.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct DraftChain {
    pub drafts: u64,
    pub best: u64,
    pub count: i32,
    pub fill: i32,
}

/// An argument's bytes in the form a launch keeps.
pub(crate) fn argument<T: Pod>(value: T) -> Box<[u64]> {
    let mut words = vec![0u64; size_of::<T>().div_ceil(8)].into_boxed_slice();
    bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..size_of::<T>()]
        .copy_from_slice(bytemuck::bytes_of(&value));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernels' quotient, step by step.
    fn quotient(x: f32, s: Scale) -> f32 {
        let first = x * s.inverse;
        let q = (-first).mul_add(s.value, x).mul_add(s.inverse, first);
        (-q).mul_add(s.value, x).mul_add(s.inverse, q)
    }

    #[test]
    fn the_quotient_by_an_inverse_is_the_rounded_quotient() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for _ in 0..300_000 {
            let scale = Scale::new(f32::from_bits((107 + next() % 25) << 23 | next() >> 9));
            // Anything, then the neighbourhood of a half, where a wrong bit would change a code.
            let any = f32::from_bits((100 + next() % 40) << 23 | next() >> 9 | next() & 1 << 31);
            let half = (next() % 257) as f32 - 128.5;
            let near = f32::from_bits((half * scale.value).to_bits() + next() % 5 - 2);
            for x in [any, near] {
                assert_eq!(quotient(x, scale).to_bits(), (x / scale.value).to_bits(), "{x:e} / {scale:?}");
            }
        }
        assert_eq!(Scale::new(0.0).inverse, 0.0);
        assert_eq!(Scale::new(1e-30).inverse, 0.0);
    }

    /// The kernels' root and its reciprocal from a guess at the latter, step by step.
    fn reciprocal_root(v: f32, guess: f32) -> f32 {
        let (near, half) = (v * guess, 0.5 * guess);
        let miss = (-near).mul_add(half, 0.5);
        let (nearer, halved) = (near.mul_add(miss, near), half.mul_add(miss, half));
        let root = (-nearer).mul_add(nearer, v).mul_add(halved, nearer);
        let inverse = halved + halved;
        let rest = (-root).mul_add(inverse, 1.0);
        rest.mul_add(rest, rest).mul_add(inverse, inverse)
    }

    #[test]
    fn the_reciprocal_root_is_rounded_twice_for_every_mantissa() {
        for bits in 1.0f32.to_bits()..4.0f32.to_bits() {
            let v = f32::from_bits(bits);
            let (want, near) = (1.0 / v.sqrt(), (1.0 / f64::from(v).sqrt()) as f32);
            // The card's guess is within 2^-22.9, which is less than three units in the last place.
            for offset in [-3, bits as i32 % 3, 3] {
                let found = reciprocal_root(v, f32::from_bits(near.to_bits().wrapping_add_signed(offset)));
                // Roots whose bits are all ones go the other way (contract.cuh).
                let other_way = bits << 9 >= 0xffff_fc00;
                assert!(found == want || other_way, "{v:e}, {offset}: {found:e}, not {want:e}");
            }
        }
    }
}
