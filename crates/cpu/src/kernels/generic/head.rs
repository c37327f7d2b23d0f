//! Rule 9: the head's fixed point. A float vector becomes three vectors of signed 8-bit limbs, and three integer dots are
//! put together exactly.
//!
//! `|n| <= 2^22`, so the sum of 65536 inputs times codes of magnitude 2 stays below 2^39: f64 holds it exactly, and one
//! conversion rounds it to f32. Plain loops; the compiler widens them for each instruction set.

use rawloop_spec::contract::{HEAD_FRACTION_BITS, HEAD_LOWEST_EXPONENT};

/// Limbs of one float vector. Returns `2^-t` and what the lowest limb can add to a row at most.
#[inline(always)]
pub(crate) fn limbs(h: &[f32], top: &mut [i8], middle: &mut [i8], low: &mut [i8]) -> (f32, i32) {
    debug_assert!(h.len() == top.len() && h.len() == middle.len() && h.len() == low.len());
    let largest = h.iter().fold(0u32, |largest, h| largest.max(h.to_bits() & 0x7fff_ffff));
    let exponent = ((largest >> 23) as i32 - 127).max(HEAD_LOWEST_EXPONENT);
    let t = HEAD_FRACTION_BITS - exponent;
    // -107 <= t <= 121: both powers are normal, in f64 and in f32.
    let scale = f64::from_bits(((t + 1023) as u64) << 52);
    let inverse = f64::from_bits(((1023 - t) as u64) << 52) as f32;
    let mut reach = 0;
    for (i, &h) in h.iter().enumerate() {
        let n = (h as f64 * scale).round_ties_even() as i32;
        let l = n as i8;
        // An infinite input makes n too large for three limbs; its logits mean nothing, but nothing may overflow.
        let rest = n.wrapping_sub(l as i32) >> 8;
        let m = rest as i8;
        low[i] = l;
        middle[i] = m;
        top[i] = ((rest - m as i32) >> 8) as i8;
        // Values of a code are -2, -1, 0 and 1.
        reach += if l < 0 { -2 * l as i32 } else { l as i32 };
    }
    (inverse, reach)
}

/// `z = (f32(acc) * 2^-t) * w_scale` for some rows, from their three dots.
#[inline(always)]
pub(crate) fn logits(
    top: &[i32],
    middle: &[i32],
    low: &[i32],
    inverse: f32,
    scales: &[f32],
    out: &mut [f32],
) {
    let rows = out.len();
    let (top, middle, low, scales) = (&top[..rows], &middle[..rows], &low[..rows], &scales[..rows]);
    for row in 0..rows {
        let acc = top[row] as f64 * 65_536.0 + middle[row] as f64 * 256.0 + low[row] as f64;
        out[row] = acc as f32 * inverse * scales[row];
    }
}

/// Whether a row could pass `best`, given its two upper dots and the reach of the third. Rounding and a multiplication by
/// a scale >= 0 keep the order, so a row that cannot is not looked at again.
#[inline(always)]
pub(crate) fn could_pass(
    top: &[i32],
    middle: &[i32],
    reach: i32,
    inverse: f32,
    scales: &[f32],
    best: f32,
) -> bool {
    let rows = scales.len();
    let (top, middle) = (&top[..rows], &middle[..rows]);
    let mut passes = false;
    for row in 0..rows {
        let acc = top[row] as f64 * 65_536.0 + middle[row] as f64 * 256.0 + reach as f64;
        passes |= acc as f32 * inverse * scales[row] > best;
    }
    passes
}
