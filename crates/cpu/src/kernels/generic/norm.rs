//! Rule 6: RMSNorm from the codes of a calibrated linear, and from floats; with what follows it in a layer.
//!
//! `y = (x * r) * w` with `r = 1 / sqrt(ms + 1e-6)`. From codes the mean square is exact: an integer sum, scaled once.

use rawloop_spec::contract::{LANES, RMS_EPSILON};

use super::lanes::{Lanes, dot, full};

/// `r` of a row of codes with scale `scale`.
#[inline(always)]
fn root_of_codes(codes: &[i8], scale: f32) -> f32 {
    let squares: i32 = codes.iter().map(|&code| code as i32 * code as i32).sum();
    let mean = squares as f32 * (scale * scale) / codes.len() as f32;
    1.0 / (mean + RMS_EPSILON).sqrt()
}

/// `r` of a row of floats.
#[inline(always)]
unsafe fn root_of_values<L: Lanes>(x: &[f32]) -> f32 {
    // SAFETY: `generic`'s contract.
    let mean = unsafe { dot::<L>(x, x) } / x.len() as f32;
    1.0 / (mean + RMS_EPSILON).sqrt()
}

/// Weights of `count` lanes at `at`; 1 without a weight, which changes nothing.
#[inline(always)]
unsafe fn weights<L: Lanes>(weight: Option<&[f32]>, at: usize, count: usize) -> L {
    // SAFETY: `generic`'s contract; `at + count` is inside the weight.
    unsafe {
        match weight {
            Some(weight) if count == LANES => L::load(weight.as_ptr().add(at)),
            Some(weight) => L::load_part(weight.as_ptr().add(at), count, 0.0),
            None => L::splat(1.0),
        }
    }
}

/// Norm of `codes * scale` into `out`.
#[inline(always)]
pub(crate) unsafe fn norm_codes<L: Lanes>(codes: &[i8], scale: f32, weight: Option<&[f32]>, out: &mut [f32]) {
    debug_assert_eq!(codes.len(), out.len());
    let end = full(codes.len());
    let root = root_of_codes(codes, scale);
    // SAFETY: `generic`'s contract; every vector ends inside the slices.
    unsafe {
        let (s, r) = (L::splat(scale), L::splat(root));
        for at in (0..end).step_by(LANES) {
            let x = L::load_i8(codes.as_ptr().add(at)).mul(s);
            x.mul(r).mul(weights(weight, at, LANES)).store(out.as_mut_ptr().add(at));
        }
        if end < codes.len() {
            let rest = codes.len() - end;
            let x = L::load_i8_part(codes.as_ptr().add(end), rest).mul(s);
            x.mul(r).mul(weights(weight, end, rest)).store_part(out.as_mut_ptr().add(end), rest);
        }
    }
}

/// `residual = (residual + norm(codes * scale)) * factor`: the end of a half layer.
#[inline(always)]
pub(crate) unsafe fn norm_codes_add<L: Lanes>(
    codes: &[i8],
    scale: f32,
    weight: Option<&[f32]>,
    factor: f32,
    residual: &mut [f32],
) {
    debug_assert_eq!(codes.len(), residual.len());
    let end = full(codes.len());
    let root = root_of_codes(codes, scale);
    // SAFETY: `generic`'s contract; every vector ends inside the slices.
    unsafe {
        let (s, r, f) = (L::splat(scale), L::splat(root), L::splat(factor));
        for at in (0..end).step_by(LANES) {
            let x = L::load_i8(codes.as_ptr().add(at)).mul(s);
            let y = x.mul(r).mul(weights(weight, at, LANES));
            let to = residual.as_mut_ptr().add(at);
            L::load(to).add(y).mul(f).store(to);
        }
        if end < codes.len() {
            let rest = codes.len() - end;
            let x = L::load_i8_part(codes.as_ptr().add(end), rest).mul(s);
            let y = x.mul(r).mul(weights(weight, end, rest));
            let to = residual.as_mut_ptr().add(end);
            L::load_part(to, rest, 0.0).add(y).mul(f).store_part(to, rest);
        }
    }
}

/// Norm of floats into `out`.
#[inline(always)]
pub(crate) unsafe fn norm<L: Lanes>(x: &[f32], weight: Option<&[f32]>, out: &mut [f32]) {
    debug_assert_eq!(x.len(), out.len());
    let end = full(x.len());
    // SAFETY: `generic`'s contract; every vector ends inside the slices.
    unsafe {
        let r = L::splat(root_of_values::<L>(x));
        for at in (0..end).step_by(LANES) {
            let y = L::load(x.as_ptr().add(at)).mul(r).mul(weights(weight, at, LANES));
            y.store(out.as_mut_ptr().add(at));
        }
        if end < x.len() {
            let rest = x.len() - end;
            let y = L::load_part(x.as_ptr().add(end), rest, 0.0).mul(r).mul(weights(weight, end, rest));
            y.store_part(out.as_mut_ptr().add(end), rest);
        }
    }
}

/// Norm of floats, quantised (rule 1) for the linear that follows. Returns the sum of the codes.
#[inline(always)]
pub(crate) unsafe fn norm_quantise<L: Lanes>(
    x: &[f32],
    weight: Option<&[f32]>,
    scale: f32,
    out: &mut [i8],
) -> i32 {
    debug_assert_eq!(x.len(), out.len());
    let end = full(x.len());
    // SAFETY: `generic`'s contract; every vector ends inside the slices.
    unsafe {
        let (r, s) = (L::splat(root_of_values::<L>(x)), L::splat(scale));
        let mut total = L::splat(0.0);
        for at in (0..end).step_by(LANES) {
            let y = L::load(x.as_ptr().add(at)).mul(r).mul(weights(weight, at, LANES));
            let codes = y.div(s).to_code();
            codes.store_i8(out.as_mut_ptr().add(at));
            total = total.add(codes);
        }
        if end < x.len() {
            let rest = x.len() - end;
            let y = L::load_part(x.as_ptr().add(end), rest, 0.0).mul(r).mul(weights(weight, end, rest));
            // A lane beyond the end is 0 * r * 0, or NaN where r overflowed: code 0 either way.
            let codes = y.div(s).to_code();
            codes.store_i8_part(out.as_mut_ptr().add(end), rest);
            total = total.add(codes);
        }
        total.integer_sum()
    }
}
