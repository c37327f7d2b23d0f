//! Rule 2 on the tile layout: 4 rows of 4 bytes a vector, and two ways to multiply them.
//!
//! [`Words`] is `i32x4.dot_i16x8_s`: seen as 16-bit lanes, a mask leaves the codes of the even bytes and a shift those of the odd
//! ones; four activations are broadcast and split the same way. [`Bytes`] is `i16x8.relaxed_dot_i8x16_i7x16_s`, which is
//! exact although its name says relaxed: engines may differ where the second operand has its top bit set, and codes of 2 and 4
//! bits have not; a pair of products, at most 2 * 128 * 127, fits 16 bits. Codes of 8 bits do not, and take the words.
//!
//! The products of all planes are added up before the accumulator is touched, since an engine on x86 has 16 registers for
//! everything.

use std::arch::wasm32::*;

use rawloop_spec::tile::{VECTOR_BYTES, VECTOR_ROWS};

use crate::kernels::view::{Activations, BlockMut};

/// Bytes of a vector: 4 rows.
const QUARTER: usize = VECTOR_BYTES / 4;
/// Tokens that codes are unpacked once for.
const MOST: usize = 4;

/// The codes of 16 bytes, or the activations of a group, in as many vectors as it takes; the others are not looked at.
type Operands = [v128; 8];

/// A way to multiply.
pub(super) trait Multiply {
    /// The codes of 16 bytes, plane after plane.
    fn unpack<const WIDTH: usize>(w: v128) -> Operands;
    /// The activations of the group at `x` in the same order, each four of them in every lane.
    unsafe fn activations<const WIDTH: usize>(x: *const i8) -> Operands;
    /// The sum of all products of a group and 4 rows.
    fn products<const WIDTH: usize>(codes: &Operands, x: &Operands) -> v128;
}

/// By products of 16 bits: even bytes, then odd ones, of each plane.
pub(super) struct Words;

impl Multiply for Words {
    #[inline(always)]
    fn unpack<const WIDTH: usize>(w: v128) -> Operands {
        let mask = i16x8_splat((1 << WIDTH) - 1);
        let mut codes = [mask; 8];
        for plane in 0..8 / WIDTH {
            let shift = (plane * WIDTH) as u32;
            codes[2 * plane] = v128_and(u16x8_shr(w, shift), mask);
            // The highest plane of the odd bytes has nothing above it.
            let odd = u16x8_shr(w, 8 + shift);
            codes[2 * plane + 1] = if plane + 1 == 8 / WIDTH { odd } else { v128_and(odd, mask) };
        }
        codes
    }

    #[inline(always)]
    unsafe fn activations<const WIDTH: usize>(x: *const i8) -> Operands {
        let mut words = [i16x8_splat(0); 8];
        for plane in 0..8 / WIDTH {
            // SAFETY: the caller's: the activations of a group lie at `x`.
            let four = unsafe { v128_load32_splat(x.add(4 * plane).cast()) };
            words[2 * plane] = i16x8_shr(i16x8_shl(four, 8), 8);
            words[2 * plane + 1] = i16x8_shr(four, 8);
        }
        words
    }

    #[inline(always)]
    fn products<const WIDTH: usize>(codes: &Operands, x: &Operands) -> v128 {
        let mut sum = i32x4_dot_i16x8(codes[0], x[0]);
        for i in 1..16 / WIDTH {
            sum = i32x4_add(sum, i32x4_dot_i16x8(codes[i], x[i]));
        }
        sum
    }
}

/// By products of bytes; 2 and 4 bits only.
#[cfg(target_feature = "relaxed-simd")]
pub(super) struct Bytes;

#[cfg(target_feature = "relaxed-simd")]
impl Multiply for Bytes {
    #[inline(always)]
    fn unpack<const WIDTH: usize>(w: v128) -> Operands {
        let mask = i8x16_splat((1 << WIDTH) - 1);
        let mut codes = [mask; 8];
        for (plane, codes) in codes.iter_mut().enumerate().take(8 / WIDTH) {
            // By words: x86 has no shift of bytes, and the mask drops what comes from the neighbour.
            *codes = v128_and(u16x8_shr(w, (plane * WIDTH) as u32), mask);
        }
        codes
    }

    #[inline(always)]
    unsafe fn activations<const WIDTH: usize>(x: *const i8) -> Operands {
        let mut fours = [i8x16_splat(0); 8];
        for (plane, four) in fours.iter_mut().enumerate().take(8 / WIDTH) {
            // SAFETY: the caller's: the activations of a group lie at `x`.
            *four = unsafe { v128_load32_splat(x.add(4 * plane).cast()) };
        }
        fours
    }

    #[inline(always)]
    fn products<const WIDTH: usize>(codes: &Operands, x: &Operands) -> v128 {
        const { assert!(WIDTH < 8, "the top bit of a code would be set") };
        let mut sum = i32x4_splat(0);
        for plane in 0..8 / WIDTH {
            let pairs = i16x8_relaxed_dot_i8x16_i7x16(x[plane], codes[plane]);
            sum = i32x4_add(sum, i32x4_extadd_pairwise_i16x8(pairs));
        }
        sum
    }
}

/// See `Kernels::read`.
pub(super) unsafe fn read(bytes: &[u8]) -> u64 {
    let blocks = bytes.chunks_exact(4 * QUARTER);
    let mut words = [0u64; 2];
    for (i, &byte) in blocks.remainder().iter().enumerate() {
        words[i / 8 % 2] ^= (byte as u64) << (i % 8 * 8);
    }
    let mut acc = [i64x2_splat(0); 4];
    for block in blocks {
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: a block is four vectors.
            *acc = v128_xor(*acc, unsafe { v128_load(block.as_ptr().add(i * QUARTER).cast()) });
        }
    }
    let all = v128_xor(v128_xor(acc[0], acc[1]), v128_xor(acc[2], acc[3]));
    u64x2_extract_lane::<0>(all) ^ u64x2_extract_lane::<1>(all) ^ words[0] ^ words[1]
}

/// The zero point's share of a token's sums.
#[inline(always)]
fn start<const WIDTH: usize>(x_sum: i32) -> v128 {
    i32x4_splat((1i32 << (WIDTH - 1)).wrapping_mul(x_sum).wrapping_neg())
}

/// See `Kernels::matvec`. A whole tile at a time, one sequential stream.
pub(super) unsafe fn matvec<M: Multiply, const WIDTH: usize>(
    weights: &[u8],
    columns: usize,
    x: &[i8],
    x_sum: i32,
    out: &mut [i32],
) {
    let planes = 8 / WIDTH;
    let group_bytes = planes * VECTOR_BYTES;
    let quarters = 4 * planes;
    let tiles = weights.chunks_exact(columns * VECTOR_ROWS);
    for (tile, out) in tiles.zip(out.chunks_exact_mut(planes * VECTOR_ROWS)) {
        let mut acc = [start::<WIDTH>(x_sum); 16];
        for (group, x) in tile.chunks_exact(group_bytes).zip(x.chunks_exact(4 * planes)) {
            // SAFETY: a group holds so many vectors and activations.
            unsafe {
                let x = M::activations::<WIDTH>(x.as_ptr());
                for (quarter, acc) in acc.iter_mut().enumerate().take(quarters) {
                    let w = v128_load(group.as_ptr().add(quarter * QUARTER).cast());
                    *acc = i32x4_add(*acc, M::products::<WIDTH>(&M::unpack::<WIDTH>(w), &x));
                }
            }
        }
        for (quarter, acc) in acc.into_iter().enumerate().take(quarters) {
            // SAFETY: 4 rows of this tile.
            unsafe { v128_store(out.as_mut_ptr().add(4 * quarter).cast(), acc) }
        }
    }
}

/// See `Kernels::matmul`.
pub(super) unsafe fn matmul<M: Multiply, const WIDTH: usize>(
    weights: &[u8],
    columns: usize,
    x: Activations<'_>,
    mut out: BlockMut<'_, i32>,
) {
    let rows = 8 / WIDTH * VECTOR_ROWS;
    for (index, tile) in weights.chunks_exact(columns * VECTOR_ROWS).enumerate() {
        for token in (0..x.tokens()).step_by(MOST) {
            let count = MOST.min(x.tokens() - token);
            for vector in 0..8 / WIDTH {
                // SAFETY: the tokens lie in `x` and `out`, the vector in the tile.
                unsafe {
                    let weights = tile.as_ptr().add(vector * VECTOR_BYTES);
                    let at = token * out.stride() + index * rows + vector * VECTOR_ROWS;
                    let (to, to_stride) = (out.as_mut_ptr().add(at), out.stride());
                    let codes = x.as_ptr().add(token * x.stride());
                    let sums = &x.sums()[token..token + count];
                    strip::<M, WIDTH>(weights, columns, codes, x.stride(), sums, to, to_stride);
                }
            }
        }
    }
}

/// 16 rows times at most [`MOST`] tokens.
#[inline(always)]
unsafe fn strip<M: Multiply, const WIDTH: usize>(
    weights: *const u8,
    columns: usize,
    x: *const i8,
    x_stride: usize,
    sums: &[i32],
    out: *mut i32,
    out_stride: usize,
) {
    let planes = 8 / WIDTH;
    let mut acc = [[i32x4_splat(0); 4]; MOST];
    for (acc, &sum) in acc.iter_mut().zip(sums) {
        *acc = [start::<WIDTH>(sum); 4];
    }
    // SAFETY: the caller's.
    unsafe {
        for group in 0..columns / (4 * planes) {
            let w = weights.add(group * planes * VECTOR_BYTES);
            let mut codes = [[i16x8_splat(0); 8]; 4];
            for (quarter, codes) in codes.iter_mut().enumerate() {
                *codes = M::unpack::<WIDTH>(v128_load(w.add(quarter * QUARTER).cast()));
            }
            for (token, acc) in acc.iter_mut().enumerate().take(sums.len()) {
                let x = M::activations::<WIDTH>(x.add(token * x_stride + group * 4 * planes));
                for (acc, codes) in acc.iter_mut().zip(&codes) {
                    *acc = i32x4_add(*acc, M::products::<WIDTH>(codes, &x));
                }
            }
        }
        for (token, acc) in acc.iter().enumerate().take(sums.len()) {
            for (quarter, &acc) in acc.iter().enumerate() {
                v128_store(out.add(token * out_stride + 4 * quarter).cast(), acc);
            }
        }
    }
}
