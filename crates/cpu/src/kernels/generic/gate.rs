//! Rule 5: `table[gate] * up`, quantised for the linear that follows.
//!
//! The table is GELU over the 256 codes of the gate's output, made by the converter. `up` is the code of the up projection
//! in the FFN and the per-layer input, a float, in the per-layer gate.

use rawloop_spec::contract::LANES;

use super::lanes::{Lanes, full};

/// The FFN: `up` are codes of scale `up_scale`. Returns the sum of the codes written.
#[inline(always)]
pub(crate) unsafe fn gate_codes<L: Lanes>(
    gate: &[i8],
    table: &[f32; 256],
    up: &[i8],
    up_scale: f32,
    scale: f32,
    out: &mut [i8],
) -> i32 {
    debug_assert!(gate.len() == up.len() && up.len() == out.len());
    let end = full(gate.len());
    // SAFETY: `generic`'s contract; every vector ends inside the slices; the rest goes through buffers of 32.
    unsafe {
        let (su, s) = (L::splat(up_scale), L::splat(scale));
        let mut total = L::splat(0.0);
        for at in (0..end).step_by(LANES) {
            let u = L::load_i8(up.as_ptr().add(at)).mul(su);
            let codes = L::look_up(table.as_ptr(), gate.as_ptr().add(at)).mul(u).div(s).to_code();
            codes.store_i8(out.as_mut_ptr().add(at));
            total = total.add(codes);
        }
        if end < gate.len() {
            let rest = gate.len() - end;
            let u = L::load_i8_part(up.as_ptr().add(end), rest).mul(su);
            total = total.add(rest_of::<L>(&gate[end..], table, u, s, &mut out[end..]));
        }
        total.integer_sum()
    }
}

/// The per-layer gate: `up` are floats. Returns the sum of the codes written.
#[inline(always)]
pub(crate) unsafe fn gate_values<L: Lanes>(
    gate: &[i8],
    table: &[f32; 256],
    up: &[f32],
    scale: f32,
    out: &mut [i8],
) -> i32 {
    debug_assert!(gate.len() == up.len() && up.len() == out.len());
    let end = full(gate.len());
    // SAFETY: as above.
    unsafe {
        let s = L::splat(scale);
        let mut total = L::splat(0.0);
        for at in (0..end).step_by(LANES) {
            let u = L::load(up.as_ptr().add(at));
            let codes = L::look_up(table.as_ptr(), gate.as_ptr().add(at)).mul(u).div(s).to_code();
            codes.store_i8(out.as_mut_ptr().add(at));
            total = total.add(codes);
        }
        if end < gate.len() {
            let u = L::load_part(up.as_ptr().add(end), gate.len() - end, 0.0);
            total = total.add(rest_of::<L>(&gate[end..], table, u, s, &mut out[end..]));
        }
        total.integer_sum()
    }
}

/// Fewer than 32 elements; lanes beyond them have `up` 0 and so give code 0.
#[inline(always)]
unsafe fn rest_of<L: Lanes>(gate: &[i8], table: &[f32; 256], up: L, scale: L, out: &mut [i8]) -> L {
    let mut padded = [0i8; LANES];
    padded[..gate.len()].copy_from_slice(gate);
    // SAFETY: 32 codes are in the buffer, `out` has as many elements as `gate`.
    unsafe {
        let codes = L::look_up(table.as_ptr(), padded.as_ptr()).mul(up).div(scale).to_code();
        codes.store_i8_part(out.as_mut_ptr(), gate.len());
        codes
    }
}
