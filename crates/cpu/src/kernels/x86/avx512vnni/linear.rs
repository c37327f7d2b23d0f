//! Rule 2 on the tile layout by `vpdpbusd`: 16 rows a register, 4 activations as one broadcast.
//!
//! No horizontal sums and no tails: a register of weights is 16 rows of 4 inputs, and the accumulators come out as 16 rows.
//! **One token** reads at memory speed: codes are masked where they lie and never shifted, each plane has its own
//! accumulator, and the factor of its position is shifted out at the end. **Several tokens** are bound by `vpdpbusd`: codes
//! are shifted down once per register and used for up to 8 tokens; a tile goes through in chunks of its columns that stay
//! in the first-level cache, so its bytes come from memory once.

use std::arch::x86_64::*;

use rawloop_spec::tile::{VECTOR_BYTES, VECTOR_ROWS};

use crate::kernels::view::{Activations, BlockMut};
use crate::kernels::x86::{HOT_COLUMNS, Hot};

/// See `Kernels::read`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn read(bytes: &[u8]) -> u64 {
    let blocks = bytes.chunks_exact(4 * VECTOR_BYTES);
    let mut words = [0u64; 8];
    for (i, &byte) in blocks.remainder().iter().enumerate() {
        words[i / 8 % 8] ^= (byte as u64) << (i % 8 * 8);
    }
    let mut acc = [_mm512_setzero_si512(); 4];
    for block in blocks {
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: a block is four vectors.
            let vector = unsafe { _mm512_loadu_si512(block.as_ptr().add(i * VECTOR_BYTES).cast()) };
            *acc = _mm512_xor_si512(*acc, vector);
        }
    }
    let all = _mm512_xor_si512(_mm512_xor_si512(acc[0], acc[1]), _mm512_xor_si512(acc[2], acc[3]));
    let mut folded = [0u64; 8];
    // SAFETY: eight words are a vector.
    unsafe { _mm512_storeu_si512(folded.as_mut_ptr().cast(), all) };
    folded.iter().chain(&words).fold(0, |all, word| all ^ word)
}

/// Four activations in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn broadcast(x: *const i8) -> __m512i {
    // SAFETY: the caller's: four codes lie at `x`.
    _mm512_set1_epi32(unsafe { x.cast::<i32>().read_unaligned() })
}

/// See `Kernels::matvec`. `WIDTH` is the width of a code in bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn matvec<const WIDTH: usize>(
    weights: &[u8],
    columns: usize,
    x: &[i8],
    x_sum: i32,
    out: &mut [i32],
) {
    let planes = 8 / WIDTH;
    let vectors = planes;
    // `vpdpbusd` takes four cycles, so at least four sums must be under way; columns are a multiple of 32.
    let unroll = if WIDTH == 8 { 4 } else { 1 };
    let groups = columns / (4 * planes);
    let zero = _mm512_set1_epi32((1i32 << (WIDTH - 1)).wrapping_mul(x_sum));
    let masks: [__m512i; 4] = std::array::from_fn(|plane| {
        let shift = (plane * WIDTH) % 8;
        _mm512_set1_epi8((((1u32 << WIDTH) - 1) << shift) as i8)
    });
    debug_assert_eq!(weights.len() * planes, out.len() * columns);
    let tiles = out.len() / (vectors * VECTOR_ROWS);
    let mut hot = Hot::new();
    for tile in 0..tiles {
        let mut acc = [[_mm512_setzero_si512(); 4]; 4]; // [plane or step][vector]
        // SAFETY: `groups` groups of `vectors` vectors make a tile; the broadcasts end at `columns`.
        unsafe {
            let mut w = weights.as_ptr().add(tile * groups * vectors * VECTOR_BYTES);
            for x in x.chunks(HOT_COLUMNS) {
                let groups = x.len() / (4 * planes);
                let mut x = hot.copy(x);
                for _ in 0..groups / unroll {
                    for step in 0..unroll {
                        for vector in 0..vectors {
                            let codes =
                                _mm512_loadu_si512(w.add((step * vectors + vector) * VECTOR_BYTES).cast());
                            for plane in 0..planes {
                                let codes =
                                    if WIDTH == 8 { codes } else { _mm512_and_si512(codes, masks[plane]) };
                                let x = broadcast(x.add((step * planes + plane) * 4));
                                let acc = &mut acc[step + plane][vector];
                                *acc = _mm512_dpbusd_epi32(*acc, codes, x);
                            }
                        }
                    }
                    w = w.add(unroll * vectors * VECTOR_BYTES);
                    x = x.add(unroll * planes * 4);
                }
            }
            let to = out.as_mut_ptr().add(tile * vectors * VECTOR_ROWS);
            let [first, second, third, fourth] = acc;
            let sums = first.into_iter().zip(second).zip(third).zip(fourth).take(vectors);
            for (vector, (((a, b), c), d)) in sums.enumerate() {
                let sum = match WIDTH {
                    8 => _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d)),
                    4 => _mm512_add_epi32(a, _mm512_srai_epi32::<4>(b)),
                    _ => _mm512_add_epi32(
                        _mm512_add_epi32(a, _mm512_srai_epi32::<2>(b)),
                        _mm512_add_epi32(_mm512_srai_epi32::<4>(c), _mm512_srai_epi32::<6>(d)),
                    ),
                };
                _mm512_storeu_si512(to.add(vector * VECTOR_ROWS).cast(), _mm512_sub_epi32(sum, zero));
            }
        }
    }
}

/// Bytes of a tile that go through together; they stay in a first-level cache of 32 KiB beside the activations.
const CHUNK_BYTES: usize = 16 * 1024;
/// The same where two halves of a tile take turns and memory has to keep up with both.
const SMALL_CHUNK_BYTES: usize = 4 * 1024;
/// Tokens that go through together at most: 16 sums leave registers for the codes (12 tokens lost 40 % to spills at 4 bits).
const MOST: usize = 8;
/// Tokens that go through with the whole width of a 2-bit tile at most.
const WHOLE: usize = 5;

/// Where one call of [`patch`] reads and writes.
#[derive(Clone, Copy)]
struct Patch {
    /// First vector of weights.
    weights: *const u8,
    /// Groups of columns in this chunk.
    groups: usize,
    /// Codes of the first token at the first column of this chunk, and the distance to the next token.
    x: *const i8,
    x_stride: usize,
    /// Accumulators of the first token, and the distance to the next.
    out: *mut i32,
    out_stride: usize,
}

/// See `Kernels::matmul`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
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
    let tokens = x.tokens();
    let passes = tokens.div_ceil(MOST);
    // Vectors of a 2-bit tile that go together: all four while their sums fit the registers.
    let (side, chunk_bytes) = match (WIDTH, tokens) {
        (2, ..=WHOLE) => (4, CHUNK_BYTES),
        (2, ..=MOST) => (2, SMALL_CHUNK_BYTES),
        _ => (2, CHUNK_BYTES),
    };
    debug_assert_eq!(weights.len() * planes, out.columns() * columns);
    for tile in 0..out.columns() / tile_rows {
        for token in 0..tokens {
            let zero = (1i32 << (WIDTH - 1)).wrapping_mul(x.sum(token)).wrapping_neg();
            out.row(token)[tile * tile_rows..][..tile_rows].fill(zero);
        }
        let mut first = 0;
        while first < groups {
            let chunk = (chunk_bytes / group_bytes).min(groups - first);
            for vector in (0..vectors).step_by(side) {
                let mut token = 0;
                for pass in 0..passes {
                    // As even as possible: 9 tokens are 5 and 4, not 8 and 1.
                    let count = (tokens - token).div_ceil(passes - pass);
                    // SAFETY: the chunk lies in the tile, the tokens in `x` and `out`.
                    unsafe {
                        let patch = Patch {
                            weights: weights
                                .as_ptr()
                                .add((tile * groups + first) * group_bytes + vector * VECTOR_BYTES),
                            groups: chunk,
                            x: x.as_ptr().add(token * x.stride() + first * 4 * planes),
                            x_stride: x.stride(),
                            out: out
                                .as_mut_ptr()
                                .add(token * out.stride() + tile * tile_rows + vector * VECTOR_ROWS),
                            out_stride: out.stride(),
                        };
                        match (WIDTH, side) {
                            (8, _) => by_count::<WIDTH, 1>(patch, count),
                            (2, 4) => by_small_count::<WIDTH>(patch, count),
                            _ => by_count::<WIDTH, 2>(patch, count),
                        }
                    }
                    token += count;
                }
            }
            first += chunk;
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn by_count<const WIDTH: usize, const VECTORS: usize>(p: Patch, count: usize) {
    // SAFETY: the caller's.
    unsafe {
        match count {
            1 => patch::<WIDTH, VECTORS, 1, 2>(p),
            2 => patch::<WIDTH, VECTORS, 2, 2>(p),
            3 => patch::<WIDTH, VECTORS, 3, 2>(p),
            4 => patch::<WIDTH, VECTORS, 4, 2>(p),
            5 => patch::<WIDTH, VECTORS, 5, 2>(p),
            6 => patch::<WIDTH, VECTORS, 6, 2>(p),
            7 => patch::<WIDTH, VECTORS, 7, 1>(p),
            _ => patch::<WIDTH, VECTORS, MOST, 1>(p),
        }
    }
}

/// Up to [`WHOLE`] tokens on the whole width of a 2-bit tile.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn by_small_count<const WIDTH: usize>(p: Patch, count: usize) {
    // SAFETY: the caller's.
    unsafe {
        match count {
            1 => patch::<WIDTH, 4, 1, 2>(p),
            2 => patch::<WIDTH, 4, 2, 2>(p),
            3 => patch::<WIDTH, 4, 3, 1>(p),
            4 => patch::<WIDTH, 4, 4, 1>(p),
            _ => patch::<WIDTH, 4, WHOLE, 1>(p),
        }
    }
}

/// Sums of a patch: `SETS` for each register of rows and token.
type Sums<const VECTORS: usize, const TOKENS: usize> = [[__m512i; VECTORS]; TOKENS];

/// Adds the products of one chunk: `VECTORS` registers of rows times `TOKENS` tokens.
///
/// With `SETS` = 2 every other plane has sums of its own: then its codes need no shift, only a mask, and few tokens still
/// make enough independent sums. With 7 tokens and more the registers do not suffice, and shifts cost nothing beside the
/// products.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn patch<const WIDTH: usize, const VECTORS: usize, const TOKENS: usize, const SETS: usize>(p: Patch) {
    let planes = 8 / WIDTH;
    let group_bytes = planes * VECTOR_BYTES;
    let low = _mm512_set1_epi8(((1u32 << WIDTH) - 1) as i8);
    let next = _mm512_set1_epi8((((1u32 << WIDTH) - 1) << (WIDTH % 8)) as i8);
    let second = SETS - 1;
    // SAFETY: the caller's: the chunk and the tokens lie inside the matrices.
    unsafe {
        let x: [*const i8; TOKENS] = std::array::from_fn(|token| p.x.add(token * p.x_stride));
        let out: [*mut i32; TOKENS] = std::array::from_fn(|token| p.out.add(token * p.out_stride));
        let mut acc: [Sums<VECTORS, TOKENS>; SETS] = [[[_mm512_setzero_si512(); VECTORS]; TOKENS]; SETS];
        for (out, acc) in out.iter().zip(&mut acc[0]) {
            for (vector, acc) in acc.iter_mut().enumerate() {
                *acc = _mm512_loadu_si512(out.add(vector * VECTOR_ROWS).cast());
            }
        }
        // One group of 2 or 4 planes a step; at 8 bits two groups, one for each set (groups are a multiple of 8).
        let step = if WIDTH == 8 { 2 } else { 1 };
        for group in (0..p.groups).step_by(step) {
            let w = p.weights.add(group * group_bytes);
            let packed: [__m512i; VECTORS] =
                std::array::from_fn(|vector| _mm512_loadu_si512(w.add(vector * VECTOR_BYTES).cast()));
            for vector in 0..VECTORS {
                ask_ahead::<WIDTH, TOKENS>(w.wrapping_add(vector * VECTOR_BYTES));
            }
            // Spelled out: as a loop over four planes it is not unrolled, and the sums go through memory.
            let at = group * planes * 4;
            if WIDTH == 8 {
                products(&packed, &x, at, &mut acc[0]);
                let packed: [__m512i; VECTORS] = std::array::from_fn(|vector| {
                    _mm512_loadu_si512(w.add(group_bytes + vector * VECTOR_BYTES).cast())
                });
                products(&packed, &x, at + 4, &mut acc[second]);
                ask_ahead::<WIDTH, TOKENS>(w.wrapping_add(group_bytes));
                continue;
            }
            products(&packed.map(|codes| _mm512_and_si512(codes, low)), &x, at, &mut acc[0]);
            if SETS == 2 {
                products(&packed.map(|codes| _mm512_and_si512(codes, next)), &x, at + 4, &mut acc[1]);
                if WIDTH == 2 {
                    let high = packed.map(|codes| _mm512_srli_epi16::<4>(codes));
                    products(&high.map(|codes| _mm512_and_si512(codes, low)), &x, at + 8, &mut acc[0]);
                    products(&high.map(|codes| _mm512_and_si512(codes, next)), &x, at + 12, &mut acc[1]);
                }
                continue;
            }
            if WIDTH == 2 {
                let codes = packed.map(|codes| _mm512_and_si512(_mm512_srli_epi16::<2>(codes), low));
                products(&codes, &x, at + 4, &mut acc[0]);
            }
            let codes = packed.map(|codes| _mm512_and_si512(_mm512_srli_epi16::<4>(codes), low));
            products(&codes, &x, at + 2 * planes, &mut acc[0]);
            if WIDTH == 2 {
                let codes = packed.map(|codes| _mm512_and_si512(_mm512_srli_epi16::<6>(codes), low));
                products(&codes, &x, at + 12, &mut acc[0]);
            }
        }
        for (token, out) in out.iter().enumerate() {
            for (vector, &first) in acc[0][token].iter().enumerate() {
                // A set of its own holds planes that were left scaled by the place they lie at.
                let other = acc[second][token][vector];
                let sum = match (SETS, WIDTH) {
                    (1, _) => first,
                    (_, 8) => _mm512_add_epi32(first, other),
                    (_, 4) => _mm512_add_epi32(first, _mm512_srai_epi32::<4>(other)),
                    (_, _) => _mm512_add_epi32(first, _mm512_srai_epi32::<2>(other)),
                };
                _mm512_storeu_si512(out.add(vector * VECTOR_ROWS).cast(), sum);
            }
        }
    }
}

/// Asks for weights that come later. One token needs no help (it lost speed by it); several fill the reorder buffer with
/// products before the next line of weights comes into sight. While memory sets the pace the second-level cache is near
/// enough; where products do, a line should be in the first when it is wanted.
#[inline]
#[target_feature(enable = "avx512f")]
fn ask_ahead<const WIDTH: usize, const TOKENS: usize>(weights: *const u8) {
    if 8 / WIDTH * TOKENS <= 8 {
        _mm_prefetch::<_MM_HINT_T1>(weights.wrapping_add(8192).cast());
    } else {
        _mm_prefetch::<_MM_HINT_T0>(weights.wrapping_add(4096).cast());
    }
}

/// One plane: `VECTORS` registers of codes times the four activations at `at` of each token.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn products<const VECTORS: usize, const TOKENS: usize>(
    codes: &[__m512i; VECTORS],
    x: &[*const i8; TOKENS],
    at: usize,
    acc: &mut Sums<VECTORS, TOKENS>,
) {
    for (x, acc) in x.iter().zip(acc) {
        // SAFETY: the caller's.
        let x = unsafe { broadcast(x.add(at)) };
        for (codes, acc) in codes.iter().zip(acc) {
            *acc = _mm512_dpbusd_epi32(*acc, *codes, x);
        }
    }
}
