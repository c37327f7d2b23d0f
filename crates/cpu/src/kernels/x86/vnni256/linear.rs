//! Rule 2 on the tile layout by `vpdpbusd` on 256 bits: 8 rows a register, 4 activations as one broadcast.
//!
//! One driver serves one token and several: it walks a tile in chunks of its columns that stay in the first-level cache and
//! adds to the accumulators in `out`. With one token, codes are masked and every other plane has its own sums (16 registers
//! allow two sets); with several, codes are shifted down once and used for all.
//!
//! The bodies are generic over the encoding and therefore `inline(always)` without a `target_feature` of their own; they hold
//! no closures, because one that is not inlined would be compiled without the instruction set.

use std::arch::x86_64::*;

use rawloop_spec::tile::{VECTOR_BYTES, VECTOR_ROWS};

use crate::kernels::view::{Activations, BlockMut};
use crate::kernels::x86::{HOT_COLUMNS, Hot};

/// Bytes of a register: half a vector of the layout, 8 rows.
const HALF: usize = VECTOR_BYTES / 2;
/// Bytes of a tile that go through together.
const CHUNK_BYTES: usize = 8 * 1024;
/// Tokens that go through together at most: 10 sums, 2 codes, a broadcast and a mask fit 16 registers.
const MOST: usize = 5;

/// `vpdpbusd`: adds four products of a u8 and an s8 to each i32.
trait Dot {
    unsafe fn dot(acc: __m256i, codes: __m256i, x: __m256i) -> __m256i;
}

struct Vex;
struct Evex;

impl Dot for Vex {
    #[inline(always)]
    unsafe fn dot(acc: __m256i, codes: __m256i, x: __m256i) -> __m256i {
        // SAFETY: the caller's: the CPU has AVX-VNNI.
        unsafe { _mm256_dpbusd_avx_epi32(acc, codes, x) }
    }
}

impl Dot for Evex {
    #[inline(always)]
    unsafe fn dot(acc: __m256i, codes: __m256i, x: __m256i) -> __m256i {
        // SAFETY: the caller's: the CPU has AVX-512 VNNI and VL.
        unsafe { _mm256_dpbusd_epi32(acc, codes, x) }
    }
}

/// The kernels in the encoding of AVX-VNNI.
pub(super) mod vex {
    use super::*;

    /// See `Kernels::matvec`.
    #[target_feature(enable = "avx2,avxvnni")]
    pub(in super::super) unsafe fn matvec<const WIDTH: usize>(
        weights: &[u8],
        columns: usize,
        x: &[i8],
        x_sum: i32,
        out: &mut [i32],
    ) {
        // SAFETY: the caller's.
        unsafe { one_token::<Vex, WIDTH>(weights, columns, x, x_sum, out) }
    }

    /// See `Kernels::matmul`.
    #[target_feature(enable = "avx2,avxvnni")]
    pub(in super::super) unsafe fn matmul<const WIDTH: usize>(
        weights: &[u8],
        columns: usize,
        x: Activations<'_>,
        out: BlockMut<'_, i32>,
    ) {
        // SAFETY: the caller's.
        unsafe { several_tokens::<Vex, WIDTH>(weights, columns, x, out) }
    }
}

/// The kernels in the encoding of AVX-512 VL.
pub(super) mod evex {
    use super::*;

    /// See `Kernels::matvec`.
    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(in super::super) unsafe fn matvec<const WIDTH: usize>(
        weights: &[u8],
        columns: usize,
        x: &[i8],
        x_sum: i32,
        out: &mut [i32],
    ) {
        // SAFETY: the caller's.
        unsafe { one_token::<Evex, WIDTH>(weights, columns, x, x_sum, out) }
    }

    /// See `Kernels::matmul`.
    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(in super::super) unsafe fn matmul<const WIDTH: usize>(
        weights: &[u8],
        columns: usize,
        x: Activations<'_>,
        out: BlockMut<'_, i32>,
    ) {
        // SAFETY: the caller's.
        unsafe { several_tokens::<Evex, WIDTH>(weights, columns, x, out) }
    }
}

/// Four activations in every lane.
#[inline(always)]
unsafe fn broadcast(x: *const i8) -> __m256i {
    // SAFETY: the caller's: four codes lie at `x`.
    unsafe { _mm256_set1_epi32(x.cast::<i32>().read_unaligned()) }
}

#[inline(always)]
unsafe fn one_token<D: Dot, const WIDTH: usize>(
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
    // Two vectors, 32 rows, go together; at 8 bits a tile has one.
    let side = if WIDTH == 8 { 1 } else { 2 };
    let stream = if WIDTH == 2 { 16 } else { HOT_COLUMNS };
    out.fill((1i32 << (WIDTH - 1)).wrapping_mul(x_sum).wrapping_neg());
    debug_assert_eq!(weights.len() * planes, out.len() * columns);
    let mut hot = Hot::new();
    for tile in 0..out.len() / (vectors * VECTOR_ROWS) {
        for (block, x) in x.chunks(HOT_COLUMNS).enumerate() {
            let first = block * (HOT_COLUMNS / (4 * planes));
            let count = x.len() / (4 * planes);
            let x = hot.copy(x);
            // Few groups at a time, so that the two halves of a 2-bit tile stay one stream from memory.
            for start in (0..count).step_by(stream) {
                let span = stream.min(count - start);
                for vector in (0..vectors).step_by(side) {
                    // SAFETY: the span lies in the tile, the rows in `out`, the broadcasts end at `columns`.
                    unsafe {
                        let at = (tile * groups + first + start) * group_bytes + vector * VECTOR_BYTES;
                        let w = weights.as_ptr().add(at);
                        let x = x.add(start * 4 * planes);
                        let to = out.as_mut_ptr().add((tile * vectors + vector) * VECTOR_ROWS);
                        if WIDTH == 8 {
                            strip_i8::<D>(w, span, x, to);
                        } else {
                            strip::<D, WIDTH>(w, group_bytes, span, x, to);
                        }
                    }
                }
            }
        }
    }
}

/// 32 rows, one token, 2 or 4 bits.
#[inline(always)]
unsafe fn strip<D: Dot, const WIDTH: usize>(
    weights: *const u8,
    group_bytes: usize,
    groups: usize,
    x: *const i8,
    out: *mut i32,
) {
    // SAFETY: the caller's.
    unsafe {
        let low = _mm256_set1_epi8(((1u32 << WIDTH) - 1) as i8);
        let next = _mm256_set1_epi8((((1u32 << WIDTH) - 1) << WIDTH) as i8);
        let mut plain = [_mm256_setzero_si256(); 4];
        let mut scaled = [_mm256_setzero_si256(); 4]; // planes 1 and 3, left where they lie
        for group in 0..groups {
            let w = weights.add(group * group_bytes);
            let x = x.add(group * 4 * (8 / WIDTH));
            let (x0, x1) = (broadcast(x), broadcast(x.add(4)));
            for (i, (plain, scaled)) in plain.iter_mut().zip(&mut scaled).enumerate() {
                let codes = _mm256_loadu_si256(w.add(i * HALF).cast());
                *plain = D::dot(*plain, _mm256_and_si256(codes, low), x0);
                *scaled = D::dot(*scaled, _mm256_and_si256(codes, next), x1);
                if WIDTH == 2 {
                    let (x2, x3) = (broadcast(x.add(8)), broadcast(x.add(12)));
                    let high = _mm256_srli_epi16::<4>(codes);
                    *plain = D::dot(*plain, _mm256_and_si256(high, low), x2);
                    *scaled = D::dot(*scaled, _mm256_and_si256(high, next), x3);
                }
            }
        }
        for (i, (plain, scaled)) in plain.into_iter().zip(scaled).enumerate() {
            let to = out.add(i * 8).cast::<__m256i>();
            let scaled =
                if WIDTH == 2 { _mm256_srai_epi32::<2>(scaled) } else { _mm256_srai_epi32::<4>(scaled) };
            let sum = _mm256_add_epi32(plain, scaled);
            _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), sum));
        }
    }
}

/// 16 rows, one token, 8 bits: four groups at once, so that eight sums are under way. Groups are a multiple of 8.
#[inline(always)]
unsafe fn strip_i8<D: Dot>(weights: *const u8, groups: usize, x: *const i8, out: *mut i32) {
    // SAFETY: the caller's.
    unsafe {
        let mut acc = [[_mm256_setzero_si256(); 2]; 4];
        for group in (0..groups).step_by(4) {
            for (step, acc) in acc.iter_mut().enumerate() {
                let w = weights.add((group + step) * VECTOR_BYTES);
                let x = broadcast(x.add((group + step) * 4));
                acc[0] = D::dot(acc[0], _mm256_loadu_si256(w.cast()), x);
                acc[1] = D::dot(acc[1], _mm256_loadu_si256(w.add(HALF).cast()), x);
            }
        }
        let [a, b, c, d] = acc;
        for half in 0..2 {
            let to = out.add(half * 8).cast::<__m256i>();
            let sum = _mm256_add_epi32(a[half], b[half]);
            let sum = _mm256_add_epi32(sum, _mm256_add_epi32(c[half], d[half]));
            _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), sum));
        }
    }
}

#[inline(always)]
unsafe fn several_tokens<D: Dot, const WIDTH: usize>(
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
    let tokens = x.tokens();
    let passes = tokens.div_ceil(MOST);
    debug_assert_eq!(weights.len() * planes, out.columns() * columns);
    for tile in 0..out.columns() / tile_rows {
        for token in 0..tokens {
            let zero = (1i32 << (WIDTH - 1)).wrapping_mul(x.sum(token)).wrapping_neg();
            out.row(token)[tile * tile_rows..][..tile_rows].fill(zero);
        }
        let mut first = 0;
        while first < groups {
            let chunk = (CHUNK_BYTES / group_bytes).min(groups - first);
            for vector in 0..vectors {
                let mut token = 0;
                for pass in 0..passes {
                    let count = (tokens - token).div_ceil(passes - pass);
                    // SAFETY: the chunk lies in the tile, the tokens in `x` and `out`.
                    unsafe {
                        let at = (tile * groups + first) * group_bytes + vector * VECTOR_BYTES;
                        let to = token * out.stride() + tile * tile_rows + vector * VECTOR_ROWS;
                        let patch = Patch {
                            weights: weights.as_ptr().add(at),
                            groups: chunk,
                            x: x.as_ptr().add(token * x.stride() + first * 4 * planes),
                            x_stride: x.stride(),
                            out: out.as_mut_ptr().add(to),
                            out_stride: out.stride(),
                        };
                        match count {
                            1 => add::<D, WIDTH, 1>(patch),
                            2 => add::<D, WIDTH, 2>(patch),
                            3 => add::<D, WIDTH, 3>(patch),
                            4 => add::<D, WIDTH, 4>(patch),
                            _ => add::<D, WIDTH, MOST>(patch),
                        }
                    }
                    token += count;
                }
            }
            first += chunk;
        }
    }
}

/// Where one call of [`add`] reads and writes; as in `avx512vnni/linear.rs`.
#[derive(Clone, Copy)]
struct Patch {
    weights: *const u8,
    groups: usize,
    x: *const i8,
    x_stride: usize,
    out: *mut i32,
    out_stride: usize,
}

/// Adds the products of one chunk: 16 rows times `TOKENS` tokens.
#[inline(always)]
unsafe fn add<D: Dot, const WIDTH: usize, const TOKENS: usize>(p: Patch) {
    let planes = 8 / WIDTH;
    // SAFETY: the caller's.
    unsafe {
        let mask = _mm256_set1_epi8(((1u32 << WIDTH) - 1) as i8);
        let mut acc = [[_mm256_setzero_si256(); 2]; TOKENS];
        for (token, acc) in acc.iter_mut().enumerate() {
            let from = p.out.add(token * p.out_stride);
            acc[0] = _mm256_loadu_si256(from.cast());
            acc[1] = _mm256_loadu_si256(from.add(8).cast());
        }
        for group in 0..p.groups {
            let w = p.weights.add(group * planes * VECTOR_BYTES);
            let (a, b) = (_mm256_loadu_si256(w.cast()), _mm256_loadu_si256(w.add(HALF).cast()));
            // Three tokens and more fill the reorder buffer before the next line of weights comes into sight.
            if TOKENS > 2 {
                _mm_prefetch::<_MM_HINT_T1>(w.wrapping_add(8192).cast());
            }
            let x = p.x.add(group * planes * 4);
            if WIDTH == 8 {
                products::<D, TOKENS>(a, b, x, p.x_stride, &mut acc);
                continue;
            }
            products::<D, TOKENS>(
                _mm256_and_si256(a, mask),
                _mm256_and_si256(b, mask),
                x,
                p.x_stride,
                &mut acc,
            );
            if WIDTH == 2 {
                let a = _mm256_and_si256(_mm256_srli_epi16::<2>(a), mask);
                let b = _mm256_and_si256(_mm256_srli_epi16::<2>(b), mask);
                products::<D, TOKENS>(a, b, x.add(4), p.x_stride, &mut acc);
            }
            let a4 = _mm256_and_si256(_mm256_srli_epi16::<4>(a), mask);
            let b4 = _mm256_and_si256(_mm256_srli_epi16::<4>(b), mask);
            products::<D, TOKENS>(a4, b4, x.add(2 * planes), p.x_stride, &mut acc);
            if WIDTH == 2 {
                let a = _mm256_and_si256(_mm256_srli_epi16::<6>(a), mask);
                let b = _mm256_and_si256(_mm256_srli_epi16::<6>(b), mask);
                products::<D, TOKENS>(a, b, x.add(12), p.x_stride, &mut acc);
            }
        }
        for (token, acc) in acc.into_iter().enumerate() {
            let to = p.out.add(token * p.out_stride);
            _mm256_storeu_si256(to.cast(), acc[0]);
            _mm256_storeu_si256(to.add(8).cast(), acc[1]);
        }
    }
}

/// One plane: 16 rows of codes times four activations of each token.
#[inline(always)]
unsafe fn products<D: Dot, const TOKENS: usize>(
    a: __m256i,
    b: __m256i,
    x: *const i8,
    x_stride: usize,
    acc: &mut [[__m256i; 2]; TOKENS],
) {
    for (token, acc) in acc.iter_mut().enumerate() {
        // SAFETY: the caller's.
        unsafe {
            let x = broadcast(x.add(token * x_stride));
            acc[0] = D::dot(acc[0], a, x);
            acc[1] = D::dot(acc[1], b, x);
        }
    }
}
