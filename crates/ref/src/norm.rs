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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_norms_divide_by_the_root_of_the_mean_square() {
        let codes = [3, -4, 0, 12];
        let root = ((9.0 + 16.0 + 144.0) * 0.25 / 4.0f32 + 1e-6).sqrt();
        let expected: Vec<f32> = codes.iter().map(|&c| c as f32 * 0.5 / root * 2.0).collect();
        let from_codes = norm_codes(&codes, 0.5, Some(&[2.0; 4]));
        let from_floats = norm_floats(&[1.5, -2.0, 0.0, 6.0], &[2.0; 4]);
        for i in 0..4 {
            assert!((from_codes[i] - expected[i]).abs() < 1e-6);
            assert!((from_floats[i] - expected[i]).abs() < 1e-6);
        }
        assert_eq!(norm_codes(&codes, 0.5, None)[3] * 2.0, from_codes[3]);
    }
}
