//! Small row kernels: rope, additions, embedding rows, the KV cache's formats.

use rawloop_spec::Bits;
use rawloop_spec::contract::LANES;

use super::lanes::{Lanes, full};
use super::quantise::quantise;

/// Rule 7 on one head: pairs `(x[i], x[i + half])` turn by the angle whose cosine and sine are given; pairs beyond them pass.
#[inline(always)]
pub(crate) unsafe fn rope<L: Lanes>(head: &mut [f32], cosine: &[f32], sine: &[f32]) {
    debug_assert!(cosine.len() == sine.len() && cosine.len() <= head.len() / 2);
    let (first, second) = head.split_at_mut(head.len() / 2);
    let end = full(cosine.len());
    // SAFETY: `generic`'s contract; every vector ends inside the cosines, and both halves are at least as long.
    unsafe {
        for at in (0..end).step_by(LANES) {
            let (c, s) = (L::load(cosine.as_ptr().add(at)), L::load(sine.as_ptr().add(at)));
            let (to1, to2) = (first.as_mut_ptr().add(at), second.as_mut_ptr().add(at));
            let (x1, x2) = (L::load(to1), L::load(to2));
            c.mul(x1).sub(s.mul(x2)).store(to1);
            s.mul(x1).add(c.mul(x2)).store(to2);
        }
    }
    for i in end..cosine.len() {
        let (c, s, x1, x2) = (cosine[i], sine[i], first[i], second[i]);
        first[i] = c * x1 - s * x2;
        second[i] = s * x1 + c * x2;
    }
}

/// `x = (x + y) * factor`.
#[inline(always)]
pub(crate) unsafe fn add_scaled<L: Lanes>(x: &mut [f32], y: &[f32], factor: f32) {
    debug_assert_eq!(x.len(), y.len());
    let end = full(x.len());
    // SAFETY: `generic`'s contract; every vector ends inside both slices.
    unsafe {
        let f = L::splat(factor);
        for at in (0..end).step_by(LANES) {
            let to = x.as_mut_ptr().add(at);
            L::load(to).add(L::load(y.as_ptr().add(at))).mul(f).store(to);
        }
    }
    for i in end..x.len() {
        x[i] = (x[i] + y[i]) * factor;
    }
}

/// Rule 11: a row of a gathered table (row layout), `(value * scale) * factor`.
#[inline(always)]
pub(crate) fn expand_row(row: &[u8], bits: Bits, scale: f32, factor: f32, out: &mut [f32]) {
    debug_assert_eq!(row.len() * bits.per_byte(), out.len());
    match bits {
        Bits::Two => expand::<2>(row, scale, factor, out),
        Bits::Four => expand::<4>(row, scale, factor, out),
        Bits::Eight => expand::<8>(row, scale, factor, out),
    }
}

#[inline(always)]
fn expand<const WIDTH: usize>(row: &[u8], scale: f32, factor: f32, out: &mut [f32]) {
    let mask = (1u32 << WIDTH) - 1;
    let zero_point = 1i32 << (WIDTH - 1);
    for (&byte, out) in row.iter().zip(out.chunks_exact_mut(8 / WIDTH)) {
        for (plane, out) in out.iter_mut().enumerate() {
            let value = ((byte as u32 >> (plane * WIDTH)) & mask) as i32 - zero_point;
            *out = value as f32 * scale * factor;
        }
    }
}

/// Rule 12, f16.
#[inline(always)]
pub(crate) unsafe fn store_f16<L: Lanes>(x: &[f32], out: &mut [u16]) {
    debug_assert_eq!(x.len(), out.len());
    let end = full(x.len());
    // SAFETY: `generic`'s contract; every vector ends inside both slices.
    unsafe {
        for at in (0..end).step_by(LANES) {
            L::load(x.as_ptr().add(at)).store_f16(out.as_mut_ptr().add(at));
        }
    }
    for i in end..x.len() {
        out[i] = rawloop_spec::contract::f32_to_f16(x[i]);
    }
}

/// Rule 12, i8: codes of one token and KV head; returns their scale.
#[inline(always)]
pub(crate) unsafe fn store_i8<L: Lanes>(x: &[f32], out: &mut [i8]) -> f32 {
    debug_assert_eq!(x.len(), out.len());
    // Magnitudes of floats are ordered like their bits, and integers have no NaN to step around.
    let largest = x.iter().fold(0u32, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff));
    let scale = f32::from_bits(largest) / 127.0;
    if scale == 0.0 {
        out.fill(0);
    } else {
        // SAFETY: `generic`'s contract.
        unsafe { quantise::<L>(x, scale, out) };
    }
    scale
}
