//! Rule 2 on the tile layout by `sdot`: 4 rows a register, 16 activations in another, 4 of them chosen by lane.
//!
//! So an activation is loaded once and nothing is broadcast. Codes of 2 and 4 bits are below 128 and pass as signed bytes; their
//! zero point comes off with the sum of the activations. Codes of 8 bits change their top bit, which takes 128 off: they are
//! values then, and there is no zero point left.
//!
//! One token takes a whole tile at a time, one sequential stream, with 16 registers of sums. Up to four tokens take a strip of
//! 16 rows and unpack in registers; more go to `wide.rs`.

use std::arch::aarch64::*;

use rawloop_spec::tile::{VECTOR_BYTES, VECTOR_ROWS};

use super::dot::{prefetch, sdot};
use super::wide;
use crate::kernels::view::{Activations, BlockMut};

/// Bytes of a register: a quarter of a vector of the layout, 4 rows.
const QUARTER: usize = VECTOR_BYTES / 4;
/// Bytes of a tile that a few tokens go through together.
const CHUNK_BYTES: usize = 8 * 1024;
/// Tokens whose sums fit the registers beside packed codes, unpacked codes and activations: 16 + 4 + 4 + 4.
const FEW: usize = 4;

/// Four rows a register, 16 rows: a vector of the layout.
pub(super) type Rows16 = [int32x4_t; 4];

/// See `Kernels::read`.
pub(super) unsafe fn read(bytes: &[u8]) -> u64 {
    let blocks = bytes.chunks_exact(8 * QUARTER);
    let mut words = [0u64; 2];
    for (i, &byte) in blocks.remainder().iter().enumerate() {
        words[i / 8 % 2] ^= (byte as u64) << (i % 8 * 8);
    }
    // SAFETY: a block is eight registers.
    let all = unsafe {
        let mut acc = [vdupq_n_u8(0); 8];
        for block in blocks {
            for (i, acc) in acc.iter_mut().enumerate() {
                *acc = veorq_u8(*acc, vld1q_u8(block.as_ptr().add(i * QUARTER)));
            }
        }
        let [a, b, c, d, e, f, g, h] = acc;
        let (ab, cd) = (veorq_u8(a, b), veorq_u8(c, d));
        let (ef, gh) = (veorq_u8(e, f), veorq_u8(g, h));
        vreinterpretq_u64_u8(veorq_u8(veorq_u8(ab, cd), veorq_u8(ef, gh)))
    };
    // SAFETY: both lanes exist.
    let (low, high) = unsafe { (vgetq_lane_u64::<0>(all), vgetq_lane_u64::<1>(all)) };
    low ^ high ^ words[0] ^ words[1]
}

/// What the sums of a token start from: the zero point's share, none where codes are values already.
#[inline(always)]
pub(super) fn start<const WIDTH: usize>(x_sum: i32) -> i32 {
    if WIDTH == 8 { 0 } else { (1i32 << (WIDTH - 1)).wrapping_mul(x_sum).wrapping_neg() }
}

/// The codes of `PLANE` in 16 bytes.
#[inline(always)]
pub(super) unsafe fn plane<const WIDTH: usize, const PLANE: usize>(packed: uint8x16_t) -> int8x16_t {
    // SAFETY: NEON is part of the target.
    unsafe {
        let codes = match (WIDTH, PLANE) {
            (2, 0) => vandq_u8(packed, vdupq_n_u8(0x03)),
            (2, 1) => vandq_u8(vshrq_n_u8::<2>(packed), vdupq_n_u8(0x03)),
            (2, 2) => vandq_u8(vshrq_n_u8::<4>(packed), vdupq_n_u8(0x03)),
            (2, _) => vshrq_n_u8::<6>(packed),
            (4, 0) => vandq_u8(packed, vdupq_n_u8(0x0f)),
            (4, _) => vshrq_n_u8::<4>(packed),
            _ => veorq_u8(packed, vdupq_n_u8(0x80)),
        };
        vreinterpretq_s8_u8(codes)
    }
}

/// See `Kernels::matvec`, 2 bits: 64 rows and 16 inputs a group.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn matvec_i2(weights: &[u8], columns: usize, x: &[i8], x_sum: i32, out: &mut [i32]) {
    for (tile, out) in weights.chunks_exact(columns * 16).zip(out.chunks_exact_mut(64)) {
        // SAFETY: a group is four vectors and 16 activations; a tile has 64 rows.
        unsafe {
            let mut acc = [[vdupq_n_s32(start::<2>(x_sum)); 4]; 4];
            for (group, x) in tile.chunks_exact(4 * VECTOR_BYTES).zip(x.chunks_exact(16)) {
                let (w, x) = (group.as_ptr(), vld1q_s8(x.as_ptr()));
                // Spelled out: as a loop over vectors it is not unrolled, and the sums go through memory.
                quarters(w, x, &mut acc[0]);
                quarters(w.add(VECTOR_BYTES), x, &mut acc[1]);
                quarters(w.add(2 * VECTOR_BYTES), x, &mut acc[2]);
                quarters(w.add(3 * VECTOR_BYTES), x, &mut acc[3]);
            }
            for (vector, acc) in acc.into_iter().enumerate() {
                store(out.as_mut_ptr().add(vector * VECTOR_ROWS), acc);
            }
        }
    }
}

/// One vector of 2-bit codes times the activations of a group.
#[inline(always)]
unsafe fn quarters(w: *const u8, x: int8x16_t, acc: &mut Rows16) {
    for (quarter, acc) in acc.iter_mut().enumerate() {
        // SAFETY: the caller's: a vector lies at `w`, and the CPU has `dotprod`.
        unsafe {
            let w = vld1q_u8(w.add(quarter * QUARTER));
            *acc = sdot::<0>(*acc, plane::<2, 0>(w), x);
            *acc = sdot::<1>(*acc, plane::<2, 1>(w), x);
            *acc = sdot::<2>(*acc, plane::<2, 2>(w), x);
            *acc = sdot::<3>(*acc, plane::<2, 3>(w), x);
        }
    }
}

/// See `Kernels::matvec`, 4 bits: 32 rows and 8 inputs a group, two groups at a time.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn matvec_i4(weights: &[u8], columns: usize, x: &[i8], x_sum: i32, out: &mut [i32]) {
    for (tile, out) in weights.chunks_exact(columns * 16).zip(out.chunks_exact_mut(32)) {
        // SAFETY: two groups are four vectors and 16 activations; columns are a multiple of 32; a tile has 32 rows.
        unsafe {
            let mut even = [[vdupq_n_s32(start::<4>(x_sum)); 4]; 2];
            let mut odd = [[vdupq_n_s32(0); 4]; 2];
            for (groups, x) in tile.chunks_exact(4 * VECTOR_BYTES).zip(x.chunks_exact(16)) {
                let x = vld1q_s8(x.as_ptr());
                for vector in 0..2 {
                    let w = groups.as_ptr().add(vector * VECTOR_BYTES);
                    nibbles::<0, 1>(w, x, &mut even[vector], &mut odd[vector]);
                }
                for vector in 0..2 {
                    let w = groups.as_ptr().add((2 + vector) * VECTOR_BYTES);
                    nibbles::<2, 3>(w, x, &mut even[vector], &mut odd[vector]);
                }
            }
            for (vector, (even, odd)) in even.into_iter().zip(odd).enumerate() {
                store(out.as_mut_ptr().add(vector * VECTOR_ROWS), add(even, odd));
            }
        }
    }
}

/// One vector of 4-bit codes: the low ones times the activations of lane `LOW`, the high ones times those of `HIGH`.
#[inline(always)]
unsafe fn nibbles<const LOW: usize, const HIGH: usize>(
    w: *const u8,
    x: int8x16_t,
    even: &mut Rows16,
    odd: &mut Rows16,
) {
    for (quarter, (even, odd)) in even.iter_mut().zip(odd).enumerate() {
        // SAFETY: the caller's: a vector lies at `w`, and the CPU has `dotprod`.
        unsafe {
            let w = vld1q_u8(w.add(quarter * QUARTER));
            *even = sdot::<LOW>(*even, plane::<4, 0>(w), x);
            *odd = sdot::<HIGH>(*odd, plane::<4, 1>(w), x);
        }
    }
}

/// See `Kernels::matvec`, 8 bits: 16 rows and 4 inputs a group, four groups at a time.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn matvec_i8(weights: &[u8], columns: usize, x: &[i8], _x_sum: i32, out: &mut [i32]) {
    for (tile, out) in weights.chunks_exact(columns * 16).zip(out.chunks_exact_mut(16)) {
        // SAFETY: four groups are four vectors and 16 activations; columns are a multiple of 32; a tile has 16 rows.
        unsafe {
            let mut acc = [[vdupq_n_s32(0); 4]; 4];
            for (groups, x) in tile.chunks_exact(4 * VECTOR_BYTES).zip(x.chunks_exact(16)) {
                let (w, x) = (groups.as_ptr(), vld1q_s8(x.as_ptr()));
                products::<0>(values(w), x, &mut acc[0]);
                products::<1>(values(w.add(VECTOR_BYTES)), x, &mut acc[1]);
                products::<2>(values(w.add(2 * VECTOR_BYTES)), x, &mut acc[2]);
                products::<3>(values(w.add(3 * VECTOR_BYTES)), x, &mut acc[3]);
            }
            let [a, b, c, d] = acc;
            store(out.as_mut_ptr(), add(add(a, b), add(c, d)));
        }
    }
}

/// 16 rows of packed codes.
#[inline(always)]
unsafe fn load(w: *const u8) -> [uint8x16_t; 4] {
    // SAFETY: the caller's: a vector lies at `w`.
    unsafe {
        [vld1q_u8(w), vld1q_u8(w.add(QUARTER)), vld1q_u8(w.add(2 * QUARTER)), vld1q_u8(w.add(3 * QUARTER))]
    }
}

/// 16 rows of 8-bit codes as values.
#[inline(always)]
unsafe fn values(w: *const u8) -> [int8x16_t; 4] {
    // SAFETY: the caller's.
    unsafe { planes::<8, 0>(load(w)) }
}

/// One plane of 16 rows.
#[inline(always)]
unsafe fn planes<const WIDTH: usize, const PLANE: usize>(w: [uint8x16_t; 4]) -> [int8x16_t; 4] {
    // SAFETY: NEON is part of the target.
    unsafe {
        [
            plane::<WIDTH, PLANE>(w[0]),
            plane::<WIDTH, PLANE>(w[1]),
            plane::<WIDTH, PLANE>(w[2]),
            plane::<WIDTH, PLANE>(w[3]),
        ]
    }
}

/// 16 rows times four activations.
#[inline(always)]
unsafe fn products<const LANE: usize>(codes: [int8x16_t; 4], x: int8x16_t, acc: &mut Rows16) {
    for (acc, codes) in acc.iter_mut().zip(codes) {
        // SAFETY: the caller's: the CPU has `dotprod`.
        *acc = unsafe { sdot::<LANE>(*acc, codes, x) };
    }
}

#[inline(always)]
fn add(a: Rows16, b: Rows16) -> Rows16 {
    // SAFETY: NEON is part of the target.
    unsafe { [vaddq_s32(a[0], b[0]), vaddq_s32(a[1], b[1]), vaddq_s32(a[2], b[2]), vaddq_s32(a[3], b[3])] }
}

/// 16 accumulators from memory.
#[inline(always)]
pub(super) unsafe fn load_rows(from: *const i32) -> Rows16 {
    // SAFETY: the caller's: 16 elements lie at `from`.
    unsafe { [vld1q_s32(from), vld1q_s32(from.add(4)), vld1q_s32(from.add(8)), vld1q_s32(from.add(12))] }
}

/// 16 accumulators to memory.
#[inline(always)]
pub(super) unsafe fn store(to: *mut i32, acc: Rows16) {
    for (quarter, acc) in acc.into_iter().enumerate() {
        // SAFETY: the caller's: 16 elements lie at `to`.
        unsafe { vst1q_s32(to.add(quarter * 4), acc) }
    }
}

/// Several tokens by `sdot` alone.
pub(super) mod dotprod {
    use super::*;

    /// See `Kernels::matmul`.
    #[target_feature(enable = "neon,dotprod")]
    pub(in super::super) unsafe fn matmul<const WIDTH: usize>(
        weights: &[u8],
        columns: usize,
        x: Activations<'_>,
        out: BlockMut<'_, i32>,
    ) {
        // SAFETY: the caller's.
        unsafe {
            if x.tokens() <= FEW {
                few::<WIDTH>(weights, columns, x, out)
            } else {
                wide::matmul::<wide::Dot, WIDTH>(weights, columns, x, out)
            }
        }
    }
}

/// Several tokens by `smmla` where it pays.
pub(super) mod i8mm {
    use super::*;

    /// See `Kernels::matmul`.
    #[target_feature(enable = "neon,dotprod,i8mm")]
    pub(in super::super) unsafe fn matmul<const WIDTH: usize>(
        weights: &[u8],
        columns: usize,
        x: Activations<'_>,
        out: BlockMut<'_, i32>,
    ) {
        // SAFETY: the caller's.
        unsafe {
            if x.tokens() <= FEW {
                few::<WIDTH>(weights, columns, x, out)
            } else {
                wide::matmul::<wide::Matrix, WIDTH>(weights, columns, x, out)
            }
        }
    }
}

/// Up to [`FEW`] tokens: strips of 16 rows, codes unpacked in registers once for all tokens.
#[inline(always)]
unsafe fn few<const WIDTH: usize>(
    weights: &[u8],
    columns: usize,
    x: Activations<'_>,
    mut out: BlockMut<'_, i32>,
) {
    let vectors = 8 / WIDTH;
    let group_bytes = vectors * VECTOR_BYTES;
    let group_columns = 32 / WIDTH;
    let groups = columns / group_columns;
    let tile_rows = vectors * VECTOR_ROWS;
    for tile in 0..out.columns() / tile_rows {
        for token in 0..x.tokens() {
            out.row(token)[tile * tile_rows..][..tile_rows].fill(start::<WIDTH>(x.sum(token)));
        }
        let mut first = 0;
        while first < groups {
            let chunk = (CHUNK_BYTES / group_bytes).min(groups - first);
            for vector in 0..vectors {
                // SAFETY: the chunk lies in the tile, the tokens in `x` and `out`.
                unsafe {
                    let at = (tile * groups + first) * group_bytes + vector * VECTOR_BYTES;
                    let strip = Strip {
                        weights: weights.as_ptr().add(at),
                        groups: chunk,
                        x: x.as_ptr().add(first * group_columns),
                        x_stride: x.stride(),
                        out: out.as_mut_ptr().add(tile * tile_rows + vector * VECTOR_ROWS),
                        out_stride: out.stride(),
                    };
                    match x.tokens() {
                        1 => strip.add::<WIDTH, 1>(),
                        2 => strip.add::<WIDTH, 2>(),
                        3 => strip.add::<WIDTH, 3>(),
                        _ => strip.add::<WIDTH, FEW>(),
                    }
                }
            }
            first += chunk;
        }
    }
}

/// Where a strip of 16 rows reads and writes: `groups` groups of a tile, some tokens.
#[derive(Clone, Copy)]
struct Strip {
    weights: *const u8,
    groups: usize,
    x: *const i8,
    x_stride: usize,
    out: *mut i32,
    out_stride: usize,
}

impl Strip {
    /// Adds the products of the strip and `TOKENS` tokens. Groups come in whole registers of 16 activations.
    #[inline(always)]
    unsafe fn add<const WIDTH: usize, const TOKENS: usize>(self) {
        let group_bytes = 8 / WIDTH * VECTOR_BYTES;
        // SAFETY: the caller's.
        unsafe {
            let mut acc = [[vdupq_n_s32(0); 4]; TOKENS];
            for (token, acc) in acc.iter_mut().enumerate() {
                *acc = load_rows(self.out.add(token * self.out_stride));
            }
            // 16 activations are 1, 2 and 4 groups, at 2, 4 and 8 bits.
            for step in 0..self.groups * 2 / WIDTH {
                let w = self.weights.add(step * (WIDTH / 2) * group_bytes);
                let mut x = [vdupq_n_s8(0); TOKENS];
                for (token, x) in x.iter_mut().enumerate() {
                    *x = vld1q_s8(self.x.add(token * self.x_stride + step * 16));
                }
                // As on other machines: products fill the reorder buffer before the next line of weights comes into sight.
                prefetch(w.wrapping_add(CHUNK_BYTES));
                if WIDTH == 2 {
                    let packed = load(w);
                    tokens::<0, TOKENS>(planes::<2, 0>(packed), &x, &mut acc);
                    tokens::<1, TOKENS>(planes::<2, 1>(packed), &x, &mut acc);
                    tokens::<2, TOKENS>(planes::<2, 2>(packed), &x, &mut acc);
                    tokens::<3, TOKENS>(planes::<2, 3>(packed), &x, &mut acc);
                } else if WIDTH == 4 {
                    let packed = load(w);
                    tokens::<0, TOKENS>(planes::<4, 0>(packed), &x, &mut acc);
                    tokens::<1, TOKENS>(planes::<4, 1>(packed), &x, &mut acc);
                    prefetch(w.wrapping_add(CHUNK_BYTES + group_bytes));
                    let packed = load(w.add(group_bytes));
                    tokens::<2, TOKENS>(planes::<4, 0>(packed), &x, &mut acc);
                    tokens::<3, TOKENS>(planes::<4, 1>(packed), &x, &mut acc);
                } else {
                    tokens::<0, TOKENS>(values(w), &x, &mut acc);
                    prefetch(w.wrapping_add(CHUNK_BYTES + group_bytes));
                    tokens::<1, TOKENS>(values(w.add(group_bytes)), &x, &mut acc);
                    prefetch(w.wrapping_add(CHUNK_BYTES + 2 * group_bytes));
                    tokens::<2, TOKENS>(values(w.add(2 * group_bytes)), &x, &mut acc);
                    prefetch(w.wrapping_add(CHUNK_BYTES + 3 * group_bytes));
                    tokens::<3, TOKENS>(values(w.add(3 * group_bytes)), &x, &mut acc);
                }
            }
            for (token, acc) in acc.into_iter().enumerate() {
                store(self.out.add(token * self.out_stride), acc);
            }
        }
    }
}

/// 16 rows times four activations of each token.
#[inline(always)]
pub(super) unsafe fn tokens<const LANE: usize, const TOKENS: usize>(
    codes: [int8x16_t; 4],
    x: &[int8x16_t; TOKENS],
    acc: &mut [Rows16; TOKENS],
) {
    for (x, acc) in x.iter().zip(acc) {
        // SAFETY: the caller's.
        unsafe { products::<LANE>(codes, *x, acc) };
    }
}
