//! Register-only loops of this folder's tables; see `kernels/peak.rs`.

use std::arch::aarch64::*;
use std::hint::black_box;

use super::dot::{sdot, smmla};
use crate::kernels::peak::PeakLoop;

/// Sums under way: enough for four pipes of a latency of four.
const SUMS: usize = 16;

/// Products of bytes.
pub(in super::super) fn int8_peak(table: &str) -> Option<PeakLoop> {
    match table {
        "neon" => Some(PeakLoop { run: int8_dotprod, operations: SUMS as u64 * 16 }),
        "neon-i8mm" => Some(PeakLoop { run: int8_i8mm, operations: SUMS as u64 * 32 }),
        _ => None,
    }
}

/// Fused multiply-adds.
pub(in super::super) fn f32_peak(table: &str) -> Option<PeakLoop> {
    table.starts_with("neon").then_some(PeakLoop { run: f32_neon, operations: SUMS as u64 * 4 })
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn int8_dotprod(steps: u64) {
    let (codes, x) = (black_box(vdupq_n_s8(3)), black_box(vdupq_n_s8(-5)));
    let mut acc = [vdupq_n_s32(0); SUMS];
    for _ in 0..steps {
        for acc in &mut acc {
            // SAFETY: the function has the feature.
            *acc = unsafe { sdot::<0>(*acc, codes, x) };
        }
    }
    black_box(acc);
}

#[target_feature(enable = "neon,dotprod,i8mm")]
unsafe fn int8_i8mm(steps: u64) {
    let (codes, x) = (black_box(vdupq_n_s8(3)), black_box(vdupq_n_s8(-5)));
    let mut acc = [vdupq_n_s32(0); SUMS];
    for _ in 0..steps {
        for acc in &mut acc {
            // SAFETY: the function has the feature.
            *acc = unsafe { smmla(*acc, codes, x) };
        }
    }
    black_box(acc);
}

#[target_feature(enable = "neon")]
unsafe fn f32_neon(steps: u64) {
    let (a, b) = (black_box(vdupq_n_f32(0.5)), black_box(vdupq_n_f32(1e-3)));
    let mut acc = [vdupq_n_f32(0.0); SUMS];
    for _ in 0..steps {
        for acc in &mut acc {
            *acc = vfmaq_f32(*acc, a, b);
        }
    }
    black_box(acc);
}
