//! Loops of this folder's table; see `kernels/peak.rs`.

use std::arch::wasm32::*;
use std::hint::black_box;

use super::fma::fma;
use crate::kernels::peak::PeakLoop;

/// Sums under way, in vectors.
const SUMS: usize = 8;

/// Products of codes: of bytes where there are such.
pub(in super::super) fn int8_peak(table: &str) -> Option<PeakLoop> {
    match table {
        "simd128" => Some(PeakLoop { run: words, operations: SUMS as u64 * 8 }),
        #[cfg(target_feature = "relaxed-simd")]
        "relaxed-simd" => Some(PeakLoop { run: bytes, operations: SUMS as u64 * 16 }),
        _ => None,
    }
}

/// Multiply-adds with one rounding.
pub(in super::super) fn f32_peak(table: &str) -> Option<PeakLoop> {
    match table {
        "simd128" => Some(PeakLoop { run: f32_lanes::<false>, operations: SUMS as u64 * 4 }),
        #[cfg(target_feature = "relaxed-simd")]
        "relaxed-simd" => Some(PeakLoop { run: f32_lanes::<true>, operations: SUMS as u64 * 4 }),
        _ => None,
    }
}

unsafe fn words(steps: u64) {
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

#[cfg(target_feature = "relaxed-simd")]
unsafe fn bytes(steps: u64) {
    let mut acc = [i32x4_splat(0); SUMS];
    for _ in 0..steps {
        let (codes, x) = (black_box(i8x16_splat(3)), i8x16_splat(-5));
        for (i, acc) in acc.iter_mut().enumerate() {
            let codes = i8x16_add(codes, i8x16_splat(i as i8));
            let pairs = i16x8_relaxed_dot_i8x16_i7x16(x, codes);
            *acc = i32x4_add(*acc, i32x4_extadd_pairwise_i16x8(pairs));
        }
    }
    black_box(acc);
}

unsafe fn f32_lanes<const RELAXED: bool>(steps: u64) {
    let (a, b) = (black_box(f32x4_splat(0.5)), black_box(f32x4_splat(1e-3)));
    let mut acc = [f32x4_splat(0.0); SUMS];
    for _ in 0..steps {
        for acc in &mut acc {
            *acc = fma::<RELAXED>(a, b, *acc);
        }
    }
    black_box(acc);
}
