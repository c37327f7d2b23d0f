//! Rule 2 on the tile layout by `maddubs`: 8 rows a register, 4 activations as one broadcast.
//!
//! `maddubs` adds pairs of products of a u8 and an s8 in i16 and saturates, so the codes must be small and the sums short:
//! every few groups they are widened to i32. 4-bit codes are shifted down (15 * 128 * 2 * 8 steps fit); 2-bit codes need
//! one shift of four, because planes 1 and 3 may stay scaled by 4 in a sum of their own. 8-bit codes do not fit at all
//! (255 * 128 * 2 saturates) and are split into even and odd bytes as i16, which `pmaddwd` multiplies exactly.

use std::arch::x86_64::*;

use rawloop_spec::tile::{VECTOR_BYTES, VECTOR_ROWS};

use crate::kernels::view::{Activations, BlockMut};
use crate::kernels::x86::{HOT_COLUMNS, Hot};

/// Bytes of a register: half a vector of the layout, 8 rows.
const HALF: usize = VECTOR_BYTES / 2;
/// Groups whose i16 sums cannot saturate: 4 * 2 * 15 * 128 * 2 = 30720 at 4 bits, 4 * 2 * 12 * 128 * 2 = 24576 at 2.
const SPAN: usize = 4;

/// See `Kernels::read`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn read(bytes: &[u8]) -> u64 {
    let blocks = bytes.chunks_exact(4 * HALF);
    let mut words = [0u64; 4];
    for (i, &byte) in blocks.remainder().iter().enumerate() {
        words[i / 8 % 4] ^= (byte as u64) << (i % 8 * 8);
    }
    let mut acc = [_mm256_setzero_si256(); 4];
    for block in blocks {
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: a block is four registers.
            let vector = unsafe { _mm256_loadu_si256(block.as_ptr().add(i * HALF).cast()) };
            *acc = _mm256_xor_si256(*acc, vector);
        }
    }
    let all = _mm256_xor_si256(_mm256_xor_si256(acc[0], acc[1]), _mm256_xor_si256(acc[2], acc[3]));
    let mut folded = [0u64; 4];
    // SAFETY: four words are a register.
    unsafe { _mm256_storeu_si256(folded.as_mut_ptr().cast(), all) };
    folded.iter().chain(&words).fold(0, |all, word| all ^ word)
}

/// Four activations in every lane.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn broadcast(x: *const i8) -> __m256i {
    // SAFETY: the caller's: four codes lie at `x`.
    _mm256_set1_epi32(unsafe { x.cast::<i32>().read_unaligned() })
}

/// i16 pairs to i32 sums.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(pairs: __m256i) -> __m256i {
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

/// See `Kernels::matvec`, 2 and 4 bits.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn matvec<const WIDTH: usize>(
    weights: &[u8],
    columns: usize,
    x: &[i8],
    x_sum: i32,
    out: &mut [i32],
) {
    let planes = 8 / WIDTH;
    let vectors = planes;
    let group_bytes = vectors * VECTOR_BYTES;
    let groups = columns / (4 * planes);
    let zero = _mm256_set1_epi32((1i32 << (WIDTH - 1)).wrapping_mul(x_sum));
    debug_assert_eq!(weights.len() * planes, out.len() * columns);
    let mut hot = Hot::new();
    for tile in 0..out.len() / (vectors * VECTOR_ROWS) {
        let mut acc = [[_mm256_setzero_si256(); 4]; 2]; // [part][register]; a part is two vectors, 32 rows
        for (block, x) in x.chunks(HOT_COLUMNS).enumerate() {
            let start = tile * groups + block * (HOT_COLUMNS / (4 * planes));
            let count = x.len() / (4 * planes);
            let x = hot.copy(x);
            for first in (0..count).step_by(SPAN) {
                let span = SPAN.min(count - first);
                for (part, acc) in acc.iter_mut().enumerate().take(vectors / 2) {
                    // SAFETY: the span lies in the tile; the broadcasts end at `columns`.
                    unsafe {
                        let at = (start + first) * group_bytes + part * 2 * VECTOR_BYTES;
                        let w = weights.as_ptr().add(at);
                        span_of::<WIDTH>(w, group_bytes, span, x.add(first * 4 * planes), acc);
                    }
                }
            }
        }
        for (part, acc) in acc.into_iter().enumerate().take(vectors / 2) {
            for (i, acc) in acc.into_iter().enumerate() {
                // SAFETY: 8 rows of this tile.
                unsafe {
                    let to = out.as_mut_ptr().add(tile * vectors * VECTOR_ROWS + part * 32 + i * 8);
                    _mm256_storeu_si256(to.cast(), _mm256_sub_epi32(acc, zero));
                }
            }
        }
    }
}

/// Adds up to [`SPAN`] groups of 32 rows and one token to `acc`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn span_of<const WIDTH: usize>(
    weights: *const u8,
    group_bytes: usize,
    groups: usize,
    x: *const i8,
    acc: &mut [__m256i; 4],
) {
    let planes = 8 / WIDTH;
    let low = _mm256_set1_epi8(((1u32 << WIDTH) - 1) as i8);
    let next = _mm256_set1_epi8(0x0c);
    let mut plain = [_mm256_setzero_si256(); 4];
    let mut scaled = [_mm256_setzero_si256(); 4]; // 2 bits: 4 times the sums of planes 1 and 3
    for group in 0..groups {
        // SAFETY: the caller's.
        unsafe {
            let w = weights.add(group * group_bytes);
            let x = x.add(group * 4 * planes);
            if WIDTH == 4 {
                let (x0, x1) = (broadcast(x), broadcast(x.add(4)));
                for (i, plain) in plain.iter_mut().enumerate() {
                    let codes = _mm256_loadu_si256(w.add(i * HALF).cast());
                    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), low);
                    let sum = _mm256_maddubs_epi16(_mm256_and_si256(codes, low), x0);
                    *plain = _mm256_add_epi16(*plain, _mm256_add_epi16(sum, _mm256_maddubs_epi16(high, x1)));
                }
            } else {
                let (x0, x1) = (broadcast(x), broadcast(x.add(4)));
                let (x2, x3) = (broadcast(x.add(8)), broadcast(x.add(12)));
                for (i, (plain, scaled)) in plain.iter_mut().zip(&mut scaled).enumerate() {
                    let codes = _mm256_loadu_si256(w.add(i * HALF).cast());
                    let high = _mm256_srli_epi16::<4>(codes);
                    let p0 = _mm256_maddubs_epi16(_mm256_and_si256(codes, low), x0);
                    let p1 = _mm256_maddubs_epi16(_mm256_and_si256(codes, next), x1);
                    let p2 = _mm256_maddubs_epi16(_mm256_and_si256(high, low), x2);
                    let p3 = _mm256_maddubs_epi16(_mm256_and_si256(high, next), x3);
                    *plain = _mm256_add_epi16(*plain, _mm256_add_epi16(p0, p2));
                    *scaled = _mm256_add_epi16(*scaled, _mm256_add_epi16(p1, p3));
                }
            }
        }
    }
    for ((acc, plain), scaled) in acc.iter_mut().zip(plain).zip(scaled) {
        let mut sum = widen(plain);
        if WIDTH == 2 {
            sum = _mm256_add_epi32(sum, _mm256_srai_epi32::<2>(widen(scaled)));
        }
        *acc = _mm256_add_epi32(*acc, sum);
    }
}

/// See `Kernels::matvec`, 8 bits.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn matvec_i8(weights: &[u8], columns: usize, x: &[i8], x_sum: i32, out: &mut [i32]) {
    let zero = x_sum.wrapping_mul(128).wrapping_neg();
    let mut hot = Hot::new();
    for (tile, out) in weights.chunks_exact(columns * VECTOR_ROWS).zip(out.chunks_exact_mut(VECTOR_ROWS)) {
        let mut acc = [[_mm256_set1_epi32(zero); 2]; 1];
        for (weights, x) in tile.chunks(HOT_COLUMNS * VECTOR_ROWS).zip(x.chunks(HOT_COLUMNS)) {
            // SAFETY: as many codes as the weights have columns.
            unsafe { add_i8(weights, hot.copy(x), 0, &mut acc) };
        }
        // SAFETY: 16 rows of this tile.
        unsafe { store(out.as_mut_ptr(), acc[0]) };
    }
}

/// See `Kernels::matmul`, 8 bits.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn matmul_i8(
    weights: &[u8],
    columns: usize,
    x: Activations<'_>,
    mut out: BlockMut<'_, i32>,
) {
    for (index, tile) in weights.chunks_exact(columns * VECTOR_ROWS).enumerate() {
        let mut token = 0;
        while token < x.tokens() {
            // SAFETY: tokens from `token` on lie in `x` and `out`.
            unsafe {
                let codes = x.as_ptr().add(token * x.stride());
                let to = out.as_mut_ptr().add(token * out.stride() + index * VECTOR_ROWS);
                let sums = &x.sums()[token..];
                token += match sums.len() {
                    4.. => tile_i8::<4>(tile, codes, x.stride(), sums, to, out.stride()),
                    2.. => tile_i8::<2>(tile, codes, x.stride(), sums, to, out.stride()),
                    _ => tile_i8::<1>(tile, codes, x.stride(), sums, to, out.stride()),
                };
            }
        }
    }
}

/// One tile, `TOKENS` tokens; returns their number.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn tile_i8<const TOKENS: usize>(
    tile: &[u8],
    x: *const i8,
    x_stride: usize,
    sums: &[i32],
    out: *mut i32,
    out_stride: usize,
) -> usize {
    let mut acc = [[_mm256_setzero_si256(); 2]; TOKENS];
    for (acc, sum) in acc.iter_mut().zip(sums) {
        *acc = [_mm256_set1_epi32(sum.wrapping_mul(128).wrapping_neg()); 2];
    }
    // SAFETY: the caller's.
    unsafe {
        add_i8(tile, x, x_stride, &mut acc);
        for (token, acc) in acc.into_iter().enumerate() {
            store(out.add(token * out_stride), acc);
        }
    }
    TOKENS
}

/// Adds the products of some columns of a tile: 16 rows times `TOKENS` tokens.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn add_i8<const TOKENS: usize>(
    weights: &[u8],
    x: *const i8,
    x_stride: usize,
    acc: &mut [[__m256i; 2]; TOKENS],
) {
    let low = _mm256_set1_epi16(0xff);
    for (group, w) in weights.chunks_exact(VECTOR_BYTES).enumerate() {
        // SAFETY: a group is two registers; the broadcasts end where the weights' columns do.
        unsafe {
            let codes: [__m256i; 2] =
                std::array::from_fn(|i| _mm256_loadu_si256(w.as_ptr().add(i * HALF).cast()));
            let even = codes.map(|codes| _mm256_and_si256(codes, low));
            let odd = codes.map(|codes| _mm256_srli_epi16::<8>(codes));
            for (token, acc) in acc.iter_mut().enumerate() {
                let x = broadcast(x.add(token * x_stride + group * 4));
                let x_even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(x));
                let x_odd = _mm256_srai_epi16::<8>(x);
                for (i, acc) in acc.iter_mut().enumerate() {
                    let sum = _mm256_madd_epi16(even[i], x_even);
                    let sum = _mm256_add_epi32(sum, _mm256_madd_epi16(odd[i], x_odd));
                    *acc = _mm256_add_epi32(*acc, sum);
                }
            }
        }
    }
}

/// 16 accumulators.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(to: *mut i32, acc: [__m256i; 2]) {
    // SAFETY: the caller's: 16 elements lie at `to`.
    unsafe {
        _mm256_storeu_si256(to.cast(), acc[0]);
        _mm256_storeu_si256(to.add(8).cast(), acc[1]);
    }
}

/// Columns that go through together: their codes of a tile stay in a first-level cache.
const CHUNK_GROUPS: usize = 64;
/// Tokens that go through together at most.
const MOST: usize = 4;

/// See `Kernels::matmul`, 2 and 4 bits.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn matmul<const WIDTH: usize>(
    weights: &[u8],
    columns: usize,
    x: Activations<'_>,
    mut out: BlockMut<'_, i32>,
) {
    let planes = 8 / WIDTH;
    let vectors = planes;
    let group_bytes = vectors * VECTOR_BYTES;
    let groups = columns / (4 * planes);
    let tile_rows = vectors * VECTOR_ROWS;
    debug_assert_eq!(weights.len() * planes, out.columns() * columns);
    for tile in 0..out.columns() / tile_rows {
        for token in 0..x.tokens() {
            let zero = (1i32 << (WIDTH - 1)).wrapping_mul(x.sum(token)).wrapping_neg();
            out.row(token)[tile * tile_rows..][..tile_rows].fill(zero);
        }
        let mut first = 0;
        while first < groups {
            let chunk = CHUNK_GROUPS.min(groups - first);
            for vector in 0..vectors {
                let mut token = 0;
                while token < x.tokens() {
                    let count = MOST.min(x.tokens() - token);
                    // SAFETY: the chunk lies in the tile, the tokens in `x` and `out`.
                    unsafe {
                        let at = (tile * groups + first) * group_bytes + vector * VECTOR_BYTES;
                        let w = weights.as_ptr().add(at);
                        let codes = x.as_ptr().add(token * x.stride() + first * 4 * planes);
                        let to = out
                            .as_mut_ptr()
                            .add(token * out.stride() + tile * tile_rows + vector * VECTOR_ROWS);
                        let (xs, os) = (x.stride(), out.stride());
                        match count {
                            1 => patch::<WIDTH, 1>(w, chunk, codes, xs, to, os),
                            2 => patch::<WIDTH, 2>(w, chunk, codes, xs, to, os),
                            3 => patch::<WIDTH, 3>(w, chunk, codes, xs, to, os),
                            _ => patch::<WIDTH, MOST>(w, chunk, codes, xs, to, os),
                        }
                    }
                    token += count;
                }
            }
            first += chunk;
        }
    }
}

/// Adds the products of one chunk: 16 rows times `TOKENS` tokens.
#[target_feature(enable = "avx2")]
unsafe fn patch<const WIDTH: usize, const TOKENS: usize>(
    weights: *const u8,
    groups: usize,
    x: *const i8,
    x_stride: usize,
    out: *mut i32,
    out_stride: usize,
) {
    let planes = 8 / WIDTH;
    let group_bytes = planes * VECTOR_BYTES;
    let mask = _mm256_set1_epi8(((1u32 << WIDTH) - 1) as i8);
    let mut first = 0;
    while first < groups {
        // Shifted 2-bit codes fit twice as long as scaled ones; at 4 bits the limit is the same.
        let span = (if WIDTH == 2 { 2 * SPAN } else { SPAN }).min(groups - first);
        let mut acc = [[_mm256_setzero_si256(); 2]; TOKENS];
        for group in first..first + span {
            // SAFETY: the caller's.
            unsafe {
                let w = weights.add(group * group_bytes);
                // Three tokens and more fill the reorder buffer before the next line of weights comes into sight.
                if TOKENS > 2 {
                    _mm_prefetch::<_MM_HINT_T1>(w.wrapping_add(8192).cast());
                }
                let packed: [__m256i; 2] =
                    std::array::from_fn(|i| _mm256_loadu_si256(w.add(i * HALF).cast()));
                // Spelled out: as a loop over four planes it is not unrolled, and the sums go through memory.
                let at = group * planes * 4;
                products(&packed.map(|codes| _mm256_and_si256(codes, mask)), x, x_stride, at, &mut acc);
                if WIDTH == 2 {
                    let codes = packed.map(|codes| _mm256_and_si256(_mm256_srli_epi16::<2>(codes), mask));
                    products(&codes, x, x_stride, at + 4, &mut acc);
                }
                let codes = packed.map(|codes| _mm256_and_si256(_mm256_srli_epi16::<4>(codes), mask));
                products(&codes, x, x_stride, at + 4 * (planes / 2), &mut acc);
                if WIDTH == 2 {
                    let codes = packed.map(|codes| _mm256_and_si256(_mm256_srli_epi16::<6>(codes), mask));
                    products(&codes, x, x_stride, at + 12, &mut acc);
                }
            }
        }
        for (token, acc) in acc.into_iter().enumerate() {
            for (i, acc) in acc.into_iter().enumerate() {
                // SAFETY: 8 rows of this token.
                unsafe {
                    let to = out.add(token * out_stride + i * 8).cast::<__m256i>();
                    _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), widen(acc)));
                }
            }
        }
        first += span;
    }
}

/// One plane: 16 rows of codes times the four activations at `at` of each token.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn products<const TOKENS: usize>(
    codes: &[__m256i; 2],
    x: *const i8,
    x_stride: usize,
    at: usize,
    acc: &mut [[__m256i; 2]; TOKENS],
) {
    for (token, acc) in acc.iter_mut().enumerate() {
        // SAFETY: the caller's.
        let x = unsafe { broadcast(x.add(token * x_stride + at)) };
        for (codes, acc) in codes.iter().zip(acc) {
            *acc = _mm256_add_epi16(*acc, _mm256_maddubs_epi16(*codes, x));
        }
    }
}
