//! Rules 1 and 3: floats and accumulators to int8 codes, always by a true division.
//!
//! A multiplication by the reciprocal moves codes that lie near a half; the division costs less than 1 % of a prefill.

use rawloop_spec::contract::LANES;

use super::lanes::{Lanes, full};
use crate::kernels::view::{Block, BlockMut};

/// Rule 1. Returns the sum of the codes.
#[inline(always)]
pub(crate) unsafe fn quantise<L: Lanes>(x: &[f32], scale: f32, out: &mut [i8]) -> i32 {
    debug_assert_eq!(x.len(), out.len());
    let end = full(x.len());
    // SAFETY: `generic`'s contract; every vector ends inside both slices.
    unsafe {
        let s = L::splat(scale);
        let mut total = L::splat(0.0);
        for at in (0..end).step_by(LANES) {
            let codes = L::load(x.as_ptr().add(at)).div(s).to_code();
            codes.store_i8(out.as_mut_ptr().add(at));
            total = total.add(codes);
        }
        if end < x.len() {
            let codes = L::load_part(x.as_ptr().add(end), x.len() - end, 0.0).div(s).to_code();
            codes.store_i8_part(out.as_mut_ptr().add(end), x.len() - end);
            total = total.add(codes);
        }
        total.integer_sum()
    }
}

/// Rules 2 and 3: `clamp(rne(f32(acc) * multiplier / scale))` for each row and token.
#[inline(always)]
pub(crate) unsafe fn requantise<L: Lanes>(
    acc: Block<'_, i32>,
    multipliers: &[f32],
    scale: f32,
    mut out: BlockMut<'_, i8>,
) {
    debug_assert_eq!(acc.columns(), multipliers.len());
    debug_assert_eq!((acc.rows(), acc.columns()), (out.rows(), out.columns()));
    let end = full(multipliers.len());
    let rest = multipliers.len() - end;
    for token in 0..acc.rows() {
        let (acc, out) = (acc.row(token), out.row(token));
        // SAFETY: `generic`'s contract; every vector ends inside the three rows.
        unsafe {
            let s = L::splat(scale);
            for at in (0..end).step_by(LANES) {
                let y = L::load_i32(acc.as_ptr().add(at)).mul(L::load(multipliers.as_ptr().add(at)));
                y.div(s).to_code().store_i8(out.as_mut_ptr().add(at));
            }
            if rest > 0 {
                let mut part = [0i32; LANES];
                part[..rest].copy_from_slice(&acc[end..]);
                let m = L::load_part(multipliers.as_ptr().add(end), rest, 0.0);
                let y = L::load_i32(part.as_ptr()).mul(m);
                y.div(s).to_code().store_i8_part(out.as_mut_ptr().add(end), rest);
            }
        }
    }
}
