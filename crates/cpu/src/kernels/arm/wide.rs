//! Rule 2 for five tokens and more: the codes of a strip are unpacked once, to the stack, and multiplied from there.
//!
//! Unlike on x86, unpacking is not free beside the products: both run on the same two to four pipes. In registers it costs
//! 24 instructions beside 16 a token (2 bits, 16 rows x 16 inputs), so from five tokens on it is done once for all of them.
//! A strip is 16 rows and at most 512 inputs, 8 KiB; the accumulators wait in `out` between strips.
//!
//! The two ways to multiply differ in the order of the unpacked bytes and in the shape of a register: [`Dot`] has 4 rows x 4
//! inputs, [`Matrix`] 2 rows x 8 inputs against 2 tokens x 8, twice the products an instruction.

use std::arch::aarch64::*;
use std::mem::MaybeUninit;

use rawloop_spec::tile::{VECTOR_BYTES, VECTOR_ROWS};

use super::dot::smmla;
use super::linear::{load_rows, plane, start, store, tokens};
use crate::kernels::view::{Activations, BlockMut};

/// Inputs of a strip. A multiple of 16, as every number of columns.
const STRIP_COLUMNS: usize = 512;
/// Bytes of four inputs of 16 rows, or of two inputs of 8 rows pairs.
const STEP: usize = VECTOR_BYTES;

/// Unpacked codes.
#[repr(align(64))]
struct Unpacked([MaybeUninit<i8>; STRIP_COLUMNS * VECTOR_ROWS]);

/// A way to multiply unpacked codes.
pub(super) trait Multiply {
    /// Stores 16 rows x 8 inputs, two planes of four inputs each, at `to`.
    unsafe fn unpack(first: [int8x16_t; 4], second: [int8x16_t; 4], to: *mut i8);
    /// Adds the products of `columns` inputs and `tokens` tokens to `out`.
    unsafe fn add(codes: *const i8, columns: usize, tokens: usize, place: Place);
}

/// Where a strip's activations and accumulators lie, from its first token, input and row on.
#[derive(Clone, Copy)]
pub(super) struct Place {
    x: *const i8,
    x_stride: usize,
    out: *mut i32,
    out_stride: usize,
}

impl Place {
    /// The same, `tokens` tokens further.
    #[inline(always)]
    unsafe fn after(self, tokens: usize) -> Place {
        // SAFETY: the caller's: so many tokens exist.
        unsafe {
            let (x, out) = (self.x.add(tokens * self.x_stride), self.out.add(tokens * self.out_stride));
            Place { x, out, ..self }
        }
    }
}

/// See `Kernels::matmul`.
#[inline(always)]
pub(super) unsafe fn matmul<M: Multiply, const WIDTH: usize>(
    weights: &[u8],
    columns: usize,
    x: Activations<'_>,
    mut out: BlockMut<'_, i32>,
) {
    let vectors = 8 / WIDTH;
    let group_bytes = vectors * VECTOR_BYTES;
    let group_columns = 32 / WIDTH;
    let tile_rows = vectors * VECTOR_ROWS;
    let tile_bytes = columns * 16;
    let mut unpacked = Unpacked([MaybeUninit::uninit(); STRIP_COLUMNS * VECTOR_ROWS]);
    let codes = unpacked.0.as_mut_ptr().cast::<i8>();
    for tile in 0..out.columns() / tile_rows {
        for token in 0..x.tokens() {
            out.row(token)[tile * tile_rows..][..tile_rows].fill(start::<WIDTH>(x.sum(token)));
        }
        for first in (0..columns).step_by(STRIP_COLUMNS) {
            let count = STRIP_COLUMNS.min(columns - first);
            for vector in 0..vectors {
                // SAFETY: the strip lies in the tile and fits the buffer; the tokens lie in `x` and `out`.
                unsafe {
                    let at = tile * tile_bytes + first / group_columns * group_bytes + vector * VECTOR_BYTES;
                    unpack::<M, WIDTH>(weights.as_ptr().add(at), count, codes);
                    let place = Place {
                        x: x.as_ptr().add(first),
                        x_stride: x.stride(),
                        out: out.as_mut_ptr().add(tile * tile_rows + vector * VECTOR_ROWS),
                        out_stride: out.stride(),
                    };
                    M::add(codes, count, x.tokens(), place);
                }
            }
        }
    }
}

/// Unpacks 16 rows x `columns` inputs.
#[inline(always)]
unsafe fn unpack<M: Multiply, const WIDTH: usize>(weights: *const u8, columns: usize, to: *mut i8) {
    let group_bytes = 8 / WIDTH * VECTOR_BYTES;
    // SAFETY: the caller's; columns are a multiple of 16.
    unsafe {
        for step in 0..columns / 16 {
            let w = weights.add(step * (WIDTH / 2) * group_bytes);
            let to = to.add(step * 4 * STEP);
            match WIDTH {
                2 => {
                    M::unpack(planes::<2, 0>(w), planes::<2, 1>(w), to);
                    M::unpack(planes::<2, 2>(w), planes::<2, 3>(w), to.add(2 * STEP));
                }
                4 => {
                    M::unpack(planes::<4, 0>(w), planes::<4, 1>(w), to);
                    let w = w.add(group_bytes);
                    M::unpack(planes::<4, 0>(w), planes::<4, 1>(w), to.add(2 * STEP));
                }
                _ => {
                    M::unpack(planes::<8, 0>(w), planes::<8, 0>(w.add(group_bytes)), to);
                    let w = w.add(2 * group_bytes);
                    M::unpack(planes::<8, 0>(w), planes::<8, 0>(w.add(group_bytes)), to.add(2 * STEP));
                }
            }
        }
    }
}

/// One plane of the 16 rows at `w`.
#[inline(always)]
unsafe fn planes<const WIDTH: usize, const PLANE: usize>(w: *const u8) -> [int8x16_t; 4] {
    // SAFETY: the caller's: a vector lies at `w`.
    unsafe {
        [
            plane::<WIDTH, PLANE>(vld1q_u8(w)),
            plane::<WIDTH, PLANE>(vld1q_u8(w.add(16))),
            plane::<WIDTH, PLANE>(vld1q_u8(w.add(32))),
            plane::<WIDTH, PLANE>(vld1q_u8(w.add(48))),
        ]
    }
}

/// 16 bytes at a time from the strip.
#[inline(always)]
unsafe fn load(codes: *const i8) -> [int8x16_t; 4] {
    // SAFETY: the caller's: 64 codes lie there.
    unsafe { [vld1q_s8(codes), vld1q_s8(codes.add(16)), vld1q_s8(codes.add(32)), vld1q_s8(codes.add(48))] }
}

/// By `sdot`: up to five tokens at a time, 20 sums beside 4 codes and 5 activations.
pub(super) struct Dot;

impl Dot {
    const MOST: usize = 5;

    #[inline(always)]
    unsafe fn some<const TOKENS: usize>(codes: *const i8, columns: usize, place: Place) {
        // SAFETY: the caller's.
        unsafe {
            let mut acc = [[vdupq_n_s32(0); 4]; TOKENS];
            for (token, acc) in acc.iter_mut().enumerate() {
                *acc = load_rows(place.out.add(token * place.out_stride));
            }
            for step in 0..columns / 16 {
                let codes = codes.add(step * 4 * STEP);
                let mut x = [vdupq_n_s8(0); TOKENS];
                for (token, x) in x.iter_mut().enumerate() {
                    *x = vld1q_s8(place.x.add(token * place.x_stride + step * 16));
                }
                tokens::<0, TOKENS>(load(codes), &x, &mut acc);
                tokens::<1, TOKENS>(load(codes.add(STEP)), &x, &mut acc);
                tokens::<2, TOKENS>(load(codes.add(2 * STEP)), &x, &mut acc);
                tokens::<3, TOKENS>(load(codes.add(3 * STEP)), &x, &mut acc);
            }
            for (token, acc) in acc.into_iter().enumerate() {
                store(place.out.add(token * place.out_stride), acc);
            }
        }
    }
}

impl Multiply for Dot {
    #[inline(always)]
    unsafe fn unpack(first: [int8x16_t; 4], second: [int8x16_t; 4], to: *mut i8) {
        for quarter in 0..4 {
            // SAFETY: the caller's: there is room for two steps.
            unsafe {
                vst1q_s8(to.add(quarter * 16), first[quarter]);
                vst1q_s8(to.add(STEP + quarter * 16), second[quarter]);
            }
        }
    }

    #[inline(always)]
    unsafe fn add(codes: *const i8, columns: usize, tokens: usize, place: Place) {
        let passes = tokens.div_ceil(Self::MOST);
        let mut token = 0;
        for pass in 0..passes {
            let count = (tokens - token).div_ceil(passes - pass);
            // SAFETY: the caller's.
            unsafe {
                let place = place.after(token);
                match count {
                    1 => Self::some::<1>(codes, columns, place),
                    2 => Self::some::<2>(codes, columns, place),
                    3 => Self::some::<3>(codes, columns, place),
                    4 => Self::some::<4>(codes, columns, place),
                    _ => Self::some::<{ Self::MOST }>(codes, columns, place),
                }
            }
            token += count;
        }
    }
}

/// By `smmla`: two pairs of tokens at a time, 16 sums. A lone last token is its own partner, and its twin's sums are dropped.
pub(super) struct Matrix;

impl Matrix {
    /// `TOKENS` tokens, 3 or 4 of them in two pairs, else in one.
    #[inline(always)]
    unsafe fn some<const PAIRS: usize>(codes: *const i8, columns: usize, tokens: usize, place: Place) {
        // SAFETY: the caller's.
        unsafe {
            let mut acc = [[vdupq_n_s32(0); 8]; PAIRS];
            for step in 0..columns / 16 {
                let codes = codes.add(step * 4 * STEP);
                let mut x = [[vdupq_n_s8(0); 2]; PAIRS];
                for (pair, x) in x.iter_mut().enumerate() {
                    let (a, b) = (2 * pair, (2 * pair + 1).min(tokens - 1));
                    let a = vreinterpretq_s64_s8(vld1q_s8(place.x.add(a * place.x_stride + step * 16)));
                    let b = vreinterpretq_s64_s8(vld1q_s8(place.x.add(b * place.x_stride + step * 16)));
                    *x = [vreinterpretq_s8_s64(vzip1q_s64(a, b)), vreinterpretq_s8_s64(vzip2q_s64(a, b))];
                }
                for half in 0..2 {
                    for row_pair in 0..8 {
                        let w = vld1q_s8(codes.add(half * 2 * STEP + row_pair * 16));
                        for (x, acc) in x.iter().zip(&mut acc) {
                            acc[row_pair] = smmla(acc[row_pair], w, x[half]);
                        }
                    }
                }
            }
            for (pair, acc) in acc.into_iter().enumerate() {
                let [a, b, c, d, e, f, g, h] = acc;
                let even = [vuzp1q_s32(a, b), vuzp1q_s32(c, d), vuzp1q_s32(e, f), vuzp1q_s32(g, h)];
                add_to(place.out.add(2 * pair * place.out_stride), even);
                if 2 * pair + 1 < tokens {
                    let odd = [vuzp2q_s32(a, b), vuzp2q_s32(c, d), vuzp2q_s32(e, f), vuzp2q_s32(g, h)];
                    add_to(place.out.add((2 * pair + 1) * place.out_stride), odd);
                }
            }
        }
    }
}

impl Multiply for Matrix {
    #[inline(always)]
    unsafe fn unpack(first: [int8x16_t; 4], second: [int8x16_t; 4], to: *mut i8) {
        for quarter in 0..4 {
            // SAFETY: the caller's: there is room for two steps. Rows 4 q and 4 q + 1, then the two after them.
            unsafe {
                let (a, b) = (vreinterpretq_s32_s8(first[quarter]), vreinterpretq_s32_s8(second[quarter]));
                vst1q_s8(to.add(quarter * 32), vreinterpretq_s8_s32(vzip1q_s32(a, b)));
                vst1q_s8(to.add(quarter * 32 + 16), vreinterpretq_s8_s32(vzip2q_s32(a, b)));
            }
        }
    }

    #[inline(always)]
    unsafe fn add(codes: *const i8, columns: usize, tokens: usize, place: Place) {
        for token in (0..tokens).step_by(4) {
            // SAFETY: the caller's.
            unsafe {
                match tokens - token {
                    1 => Self::some::<1>(codes, columns, 1, place.after(token)),
                    2 => Self::some::<1>(codes, columns, 2, place.after(token)),
                    3 => Self::some::<2>(codes, columns, 3, place.after(token)),
                    _ => Self::some::<2>(codes, columns, 4, place.after(token)),
                }
            }
        }
    }
}

/// Adds 16 rows to the accumulators of a token.
#[inline(always)]
unsafe fn add_to(to: *mut i32, rows: [int32x4_t; 4]) {
    // SAFETY: the caller's: 16 elements lie at `to`.
    unsafe {
        let [a, b, c, d] = load_rows(to);
        let sum =
            [vaddq_s32(a, rows[0]), vaddq_s32(b, rows[1]), vaddq_s32(c, rows[2]), vaddq_s32(d, rows[3])];
        store(to, sum);
    }
}
