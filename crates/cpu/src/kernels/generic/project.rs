//! Rule 10: bf16 rows times float vectors, each dot a 32-lane sum, times a constant.
//!
//! `ROWS x TOKENS` dots run together: each loaded weight serves all tokens, each loaded input all rows. One row and one
//! token already have enough independent lanes to read at memory speed.

use rawloop_spec::contract::LANES;

use super::lanes::{Lanes, full};
use crate::kernels::view::{Block, BlockMut};

/// `out[token][row] = lane_sum(x[token] * weights[row]) * factor`; `weights` is row-major `[rows x columns]`.
#[inline(always)]
pub(crate) unsafe fn project<L: Lanes, const ROWS: usize, const TOKENS: usize>(
    weights: &[u16],
    x: Block<'_, f32>,
    factor: f32,
    mut out: BlockMut<'_, f32>,
) {
    debug_assert_eq!(weights.len(), out.columns() * x.columns());
    let columns = x.columns();
    let (rows, tokens) = (out.columns(), x.rows());
    // One token gains nothing from a second row: both are bound by memory.
    let many = if tokens == 1 { 0 } else { rows / ROWS * ROWS };
    // SAFETY: `generic`'s contract; rows and tokens are inside the blocks.
    unsafe {
        for row in (0..many).step_by(ROWS) {
            let mut token = 0;
            while token + TOKENS <= tokens {
                patch::<L, ROWS, TOKENS>(weights, columns, row, x, token, factor, &mut out);
                token += TOKENS;
            }
            if token + 2 <= tokens {
                patch::<L, ROWS, 2>(weights, columns, row, x, token, factor, &mut out);
                token += 2;
            }
            if token < tokens {
                patch::<L, ROWS, 1>(weights, columns, row, x, token, factor, &mut out);
            }
        }
        for row in many..rows {
            for token in 0..tokens {
                patch::<L, 1, 1>(weights, columns, row, x, token, factor, &mut out);
            }
        }
    }
}

#[inline(always)]
unsafe fn patch<L: Lanes, const ROWS: usize, const TOKENS: usize>(
    weights: &[u16],
    columns: usize,
    row: usize,
    x: Block<'_, f32>,
    token: usize,
    factor: f32,
    out: &mut BlockMut<'_, f32>,
) {
    let end = full(columns);
    let w: [&[u16]; ROWS] = std::array::from_fn(|r| &weights[(row + r) * columns..][..columns]);
    let x: [&[f32]; TOKENS] = std::array::from_fn(|t| x.row(token + t));
    // SAFETY: `generic`'s contract; every vector ends inside its row. Loops and no closures: a closure that is not inlined
    // would be compiled without the instruction set.
    unsafe {
        let mut lanes = [[L::splat(0.0); ROWS]; TOKENS];
        for at in (0..end).step_by(LANES) {
            let mut loaded = [L::splat(0.0); ROWS];
            for (loaded, w) in loaded.iter_mut().zip(&w) {
                *loaded = L::load_bf16(w.as_ptr().add(at));
            }
            for (x, lanes) in x.iter().zip(&mut lanes) {
                let x = L::load(x.as_ptr().add(at));
                for (w, lanes) in loaded.iter().zip(lanes) {
                    *lanes = x.fma(*w, *lanes);
                }
            }
        }
        if end < columns {
            // 0 * -0 leaves a lane as it is.
            let mut loaded = [L::splat(0.0); ROWS];
            for (loaded, w) in loaded.iter_mut().zip(&w) {
                let mut padded = [0x8000u16; LANES];
                padded[..columns - end].copy_from_slice(&w[end..]);
                *loaded = L::load_bf16(padded.as_ptr());
            }
            for (x, lanes) in x.iter().zip(&mut lanes) {
                let x = L::load_part(x.as_ptr().add(end), columns - end, 0.0);
                for (w, lanes) in loaded.iter().zip(lanes) {
                    *lanes = x.fma(*w, *lanes);
                }
            }
        }
        for (t, lanes) in lanes.into_iter().enumerate() {
            for (r, lanes) in lanes.into_iter().enumerate() {
                out.row(token + t)[row + r] = lanes.sum() * factor;
            }
        }
    }
}
