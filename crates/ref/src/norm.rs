//! Rule 6: RMSNorm, from the codes of a calibrated linear or from floats.

use rawloop_spec::contract::{RMS_EPSILON, lane_sum};

/// `1 / sqrt(mean square + epsilon)`, root and quotient each rounded once.
fn reciprocal_root(mean_square: f32) -> f32 {
    1.0 / (mean_square + RMS_EPSILON).sqrt()
}

/// The norm of values `code * scale`; the sum of squares is exact. Without `weight` every factor is left out.
pub fn norm_codes(codes: &[i8], scale: f32, weight: Option<&[f32]>) -> Vec<f32> {
    let sum: i32 = codes.iter().map(|&code| code as i32 * code as i32).sum();
    let mean_square = (sum as f32 * (scale * scale)) / codes.len() as f32;
    let r = reciprocal_root(mean_square);
    let normed = codes.iter().map(|&code| (code as f32 * scale) * r);
    match weight {
        Some(weight) => normed.zip(weight).map(|(y, w)| y * w).collect(),
        None => normed.collect(),
    }
}

/// The norm of floats.
pub fn norm_floats(x: &[f32], weight: &[f32]) -> Vec<f32> {
    let mean_square = lane_sum(x.len(), |i| (x[i], x[i])) / x.len() as f32;
    let r = reciprocal_root(mean_square);
    x.iter().zip(weight).map(|(x, w)| (x * r) * w).collect()
}
