//! Rule 8: heads that share a KV head, over one block of at most 64 keys; merging blocks; the final division.
//!
//! Several query heads go through a block together, so a key is read and widened once for all of them. Scores are kept as
//! `[key][head]`: then the maximum, the exponential and the sum of a block run across heads, and every head still sees its
//! keys in order. `HEADS` heads go together (8, 4, 2, 1 cover every count), `AT_ONCE` of them in registers:
//! as many as the register file holds beside a key, `EIGHT` of eight and `FOUR` of four.

use std::mem::MaybeUninit;

use rawloop_spec::contract::{self, KEY_BLOCK, LANES};

use super::lanes::Lanes;
use crate::kernels::attention::{KvRows, PartialMut};

/// Rows of keys or values in one storage format; `row * dim + at` is inside the data.
trait Rows: Copy {
    unsafe fn load<L: Lanes>(self, row: usize, dim: usize, at: usize) -> L;
}

#[derive(Clone, Copy)]
struct F32Rows(*const f32);
#[derive(Clone, Copy)]
struct F16Rows(*const u16);
#[derive(Clone, Copy)]
struct I8Rows(*const i8, *const f32);

impl Rows for F32Rows {
    #[inline(always)]
    unsafe fn load<L: Lanes>(self, row: usize, dim: usize, at: usize) -> L {
        // SAFETY: the trait's contract.
        unsafe { L::load(self.0.add(row * dim + at)) }
    }
}

impl Rows for F16Rows {
    #[inline(always)]
    unsafe fn load<L: Lanes>(self, row: usize, dim: usize, at: usize) -> L {
        // SAFETY: the trait's contract.
        unsafe { L::load_f16(self.0.add(row * dim + at)) }
    }
}

impl Rows for I8Rows {
    #[inline(always)]
    unsafe fn load<L: Lanes>(self, row: usize, dim: usize, at: usize) -> L {
        // SAFETY: the trait's contract; there is one scale a row.
        unsafe { L::load_i8(self.0.add(row * dim + at)).mul(L::splat(*self.1.add(row))) }
    }
}

/// Query values that are copied at most: 8 heads of 512.
const MOST_QUERY: usize = 8 * 512;

/// Each query value is loaded once for every key, and a vector that crosses a cache line costs two loads: queries that lie
/// 16 bytes off lost 20 % of the speed. Copying them is 1 % of a block.
#[repr(align(64))]
struct Aligned([MaybeUninit<f32>; MOST_QUERY]);

impl Aligned {
    #[inline(always)]
    fn copy<'a>(&'a mut self, q: &'a [f32]) -> &'a [f32] {
        if q.as_ptr().addr().is_multiple_of(64) || q.len() > MOST_QUERY {
            return q;
        }
        let to = self.0.as_mut_ptr().cast::<f32>();
        // SAFETY: the buffer has room for `q`, and as many elements are written as are handed out.
        unsafe {
            to.copy_from_nonoverlapping(q.as_ptr(), q.len());
            std::slice::from_raw_parts(to, q.len())
        }
    }
}

/// One block: overwrites `out` with maximum, sum and weighted values of the heads in `q`, `[heads x dim]`.
#[inline(always)]
pub(crate) unsafe fn attend_block<L: Lanes, const EIGHT: usize, const FOUR: usize>(
    q: &[f32],
    dim: usize,
    keys: KvRows<'_>,
    values: KvRows<'_>,
    mut out: PartialMut<'_>,
) {
    let count = keys.count(dim);
    let mut aligned = Aligned([MaybeUninit::uninit(); MOST_QUERY]);
    let q = aligned.copy(q);
    // SAFETY: `generic`'s contract: both hold `count` rows of `dim`, in the same format.
    unsafe {
        match (keys, values) {
            (KvRows::F32(k), KvRows::F32(v)) => {
                heads::<L, _, EIGHT, FOUR>(q, dim, count, F32Rows(k.as_ptr()), F32Rows(v.as_ptr()), &mut out)
            }
            (KvRows::F16(k), KvRows::F16(v)) => {
                heads::<L, _, EIGHT, FOUR>(q, dim, count, F16Rows(k.as_ptr()), F16Rows(v.as_ptr()), &mut out)
            }
            (KvRows::I8 { codes: k, scales: ks }, KvRows::I8 { codes: v, scales: vs }) => {
                let (k, v) = (I8Rows(k.as_ptr(), ks.as_ptr()), I8Rows(v.as_ptr(), vs.as_ptr()));
                heads::<L, _, EIGHT, FOUR>(q, dim, count, k, v, &mut out)
            }
            _ => unreachable!("the method of `Kernels` checks that keys and values have one format"),
        }
    }
}

/// Splits the heads into groups that the code below is compiled for.
#[inline(always)]
unsafe fn heads<L: Lanes, S: Rows, const EIGHT: usize, const FOUR: usize>(
    q: &[f32],
    dim: usize,
    count: usize,
    keys: S,
    values: S,
    out: &mut PartialMut<'_>,
) {
    let total = q.len() / dim;
    let mut head = 0;
    while head < total {
        // SAFETY: `generic`'s contract; `q` and `out` hold the heads from `head` on.
        unsafe {
            let q = q.as_ptr().add(head * dim);
            let m = out.max.as_mut_ptr().add(head);
            let l = out.sum.as_mut_ptr().add(head);
            let a = out.weighted.as_mut_ptr().add(head * dim);
            match total - head {
                8.. => {
                    group::<L, S, 8, EIGHT>(q, dim, count, keys, values, m, l, a);
                    head += 8;
                }
                4.. => {
                    group::<L, S, 4, FOUR>(q, dim, count, keys, values, m, l, a);
                    head += 4;
                }
                2.. => {
                    group::<L, S, 2, 1>(q, dim, count, keys, values, m, l, a);
                    head += 2;
                }
                _ => {
                    group::<L, S, 1, 1>(q, dim, count, keys, values, m, l, a);
                    head += 1;
                }
            }
        }
    }
}

#[allow(clippy::too_many_arguments)] // Pointers into one state, split by the caller.
#[inline(always)]
unsafe fn group<L: Lanes, S: Rows, const HEADS: usize, const AT_ONCE: usize>(
    q: *const f32,
    dim: usize,
    count: usize,
    keys: S,
    values: S,
    max: *mut f32,
    sum: *mut f32,
    weighted: *mut f32,
) {
    debug_assert!(count > 0 && count <= KEY_BLOCK && dim.is_multiple_of(LANES));
    debug_assert!(HEADS.is_multiple_of(AT_ONCE) && LANES.is_multiple_of(HEADS));
    // SAFETY: `generic`'s contract: `count` keys and values of `dim`, HEADS heads of q and of the result. The scores have
    // room for 64 keys, and a vector of 32 scores holds whole keys.
    unsafe {
        // 1. Scores: s = lane_sum(q * k).
        let mut scores = [[0f32; HEADS]; KEY_BLOCK];
        for (key, scores) in scores.iter_mut().enumerate().take(count) {
            for first in (0..HEADS).step_by(AT_ONCE) {
                let mut lanes = [L::splat(0.0); AT_ONCE];
                for at in (0..dim).step_by(LANES) {
                    let k: L = keys.load(key, dim, at);
                    for (head, lanes) in lanes.iter_mut().enumerate() {
                        *lanes = L::load(q.add((first + head) * dim + at)).fma(k, *lanes);
                    }
                }
                let mut sums = [0f32; AT_ONCE];
                L::sums(lanes, &mut sums);
                scores[first..first + AT_ONCE].copy_from_slice(&sums);
            }
        }
        // 2. The maximum of each head.
        let mut largest = scores[0];
        for scores in &scores[1..count] {
            for (largest, &score) in largest.iter_mut().zip(scores) {
                *largest = if score > *largest { score } else { *largest };
            }
        }
        // 3. p = exp(s - m), 32 at a time: lane i belongs to head i % HEADS.
        let mut tiled = [0f32; LANES];
        for (lane, value) in tiled.iter_mut().enumerate() {
            *value = largest[lane % HEADS];
        }
        let m = L::load(tiled.as_ptr());
        let flat = scores.as_mut_ptr().cast::<f32>();
        for at in (0..count * HEADS).step_by(LANES) {
            L::load(flat.add(at)).sub(m).exp().store(flat.add(at));
        }
        // 4. l += p in key order.
        let mut total = [0f32; HEADS];
        for scores in &scores[..count] {
            for (total, &p) in total.iter_mut().zip(scores) {
                *total += p;
            }
        }
        max.copy_from_nonoverlapping(largest.as_ptr(), HEADS);
        sum.copy_from_nonoverlapping(total.as_ptr(), HEADS);
        // 5. a[d] = fma(p, v[d], a[d]) in key order.
        for at in (0..dim).step_by(LANES) {
            for first in (0..HEADS).step_by(AT_ONCE) {
                let mut lanes = [L::splat(0.0); AT_ONCE];
                for key in 0..count {
                    let v: L = values.load(key, dim, at);
                    for (head, lanes) in lanes.iter_mut().enumerate() {
                        *lanes = L::splat(*flat.add(key * HEADS + first + head)).fma(v, *lanes);
                    }
                }
                for (head, lanes) in lanes.into_iter().enumerate() {
                    lanes.store(weighted.add((first + head) * dim + at));
                }
            }
        }
    }
}

/// Merges a later block into `into`.
#[inline(always)]
pub(crate) unsafe fn merge<L: Lanes>(into: PartialMut<'_>, block: PartialMut<'_>, dim: usize) {
    debug_assert_eq!(into.weighted.len(), block.weighted.len());
    for head in 0..into.max.len() {
        let (m, mb) = (into.max[head], block.max[head]);
        let new = if m > mb { m } else { mb };
        let (c, cb) = (contract::exp(m - new), contract::exp(mb - new));
        into.max[head] = new;
        into.sum[head] = into.sum[head].mul_add(c, block.sum[head] * cb);
        // SAFETY: `generic`'s contract; both hold `dim` values a head, and `dim` is a multiple of 32.
        unsafe {
            let (c, cb) = (L::splat(c), L::splat(cb));
            for at in (head * dim..(head + 1) * dim).step_by(LANES) {
                let to = into.weighted.as_mut_ptr().add(at);
                let later = L::load(block.weighted.as_ptr().add(at)).mul(cb);
                L::load(to).fma(c, later).store(to);
            }
        }
    }
}

/// `out = a / l`, `[heads x dim]`.
#[inline(always)]
pub(crate) unsafe fn finish<L: Lanes>(weighted: &[f32], sum: &[f32], dim: usize, out: &mut [f32]) {
    debug_assert_eq!(weighted.len(), out.len());
    for (head, &sum) in sum.iter().enumerate() {
        // SAFETY: `generic`'s contract; both hold `dim` values a head, and `dim` is a multiple of 32.
        unsafe {
            let l = L::splat(sum);
            for at in (head * dim..(head + 1) * dim).step_by(LANES) {
                L::load(weighted.as_ptr().add(at)).div(l).store(out.as_mut_ptr().add(at));
            }
        }
    }
}
