//! Loops of this folder's table; see `kernels/peak.rs`.

use std::arch::wasm32::*;
use std::hint::black_box;

use super::fma::fma;
use crate::kernels::peak::PeakLoop;

/// Sums under way.
const SUMS: usize = 8;

/// Products of 16 bits: no instruction multiplies bytes.
pub(in super::super) fn int8_peak(table: &str) -> Option<PeakLoop> {
    (table == "simd128").then_some(PeakLoop { run: int8, operations: SUMS as u64 * 8 })
}

/// Multiply-adds with one rounding.
pub(in super::super) fn f32_peak(table: &str) -> Option<PeakLoop> {
    (table == "simd128").then_some(PeakLoop { run: f32_lanes, operations: SUMS as u64 * 4 })
}

unsafe fn int8(steps: u64) {
    let mut acc = [i32x4_splat(0); SUMS];
    for _ in 0..steps {
        let (codes, x) = (black_box(i16x8_splat(3)), i16x8_splat(-5));
        for (i, acc) in acc.iter_mut().enumerate() {
            let codes = i16x8_add(codes, i16x8_splat(i as i16));
            *acc = i32x4_add(*acc, i32x4_dot_i16x8(codes, x));
        }
    }
    black_box(acc);
}

unsafe fn f32_lanes(steps: u64) {
    let (a, b) = (black_box(f32x4_splat(0.5)), black_box(f32x4_splat(1e-3)));
    let mut acc = [f32x4_splat(0.0); SUMS];
    for _ in 0..steps {
        for acc in &mut acc {
            *acc = fma(a, b, *acc);
        }
    }
    black_box(acc);
}
