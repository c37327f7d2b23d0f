//! Rule 9: logits in fixed point, and the greedy pick.

use rawloop_spec::contract::{HEAD_FRACTION_BITS, HEAD_LOWEST_EXPONENT};

/// The final hidden state as integers `n` with `h = n * 2^-shift`, `|n| <= 2^22`.
pub fn fixed_point(hidden: &[f32]) -> (Vec<i32>, i32) {
    let largest = hidden.iter().fold(0f32, |largest, h| largest.max(h.abs()));
    if largest == 0.0 {
        return (vec![0; hidden.len()], 0);
    }
    let exponent = ((largest.to_bits() >> 23) as i32 - 127).max(HEAD_LOWEST_EXPONENT);
    let shift = HEAD_FRACTION_BITS - exponent;
    // f64 holds the product exactly, so the only rounding is the one written.
    let n = hidden.iter().map(|&h| (h as f64 * power_of_two(shift)).round_ties_even() as i32).collect();
    (n, shift)
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Logits before the soft cap, `[vocab]`; `codes` is `[vocab x hidden]`.
///
/// A plain i64 sum: three 8-bit limbs, as kernels do it, recombine to the same integer.
pub fn logits(codes: &[i8], scales: &[f32], hidden: &[f32]) -> Vec<f32> {
    let (n, shift) = fixed_point(hidden);
    let unit = power_of_two(-shift) as f32;
    let rows = codes.chunks_exact(hidden.len()).zip(scales);
    rows.map(|(row, scale)| {
        let sum: i64 = row.iter().zip(&n).map(|(&code, &n)| code as i64 * n as i64).sum();
        (sum as f32 * unit) * scale
    })
    .collect()
}

/// The id of the largest logit; the lowest id among equals.
pub fn pick(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = id;
        }
    }
    best as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_pick_the_lowest_id() {
        assert_eq!(pick(&[1.0, 3.0, 3.0, 2.0, 3.0]), 1);
        assert_eq!(pick(&[-1.0, -1.0]), 0);
        assert_eq!(pick(&[0.0, -0.0]), 0);
    }

    #[test]
    fn fixed_point_keeps_22_bits_and_never_more() {
        for largest in [1.0, 1.999_999_9, 2.0, 3.7e-5, 1e9, 1e-35] {
            let hidden = [largest, -largest, largest / 3.0, 0.0];
            let (n, shift) = fixed_point(&hidden);
            assert!(n.iter().all(|n| n.abs() <= 1 << 22), "{largest}: {n:?}");
            assert!(largest < 1e-30 || n[0] >= 1 << 21, "{largest}: {n:?}");
            let back = n[2] as f64 * power_of_two(-shift);
            assert!((back - hidden[2] as f64).abs() <= power_of_two(-shift) / 2.0);
        }
        assert_eq!(fixed_point(&[0.0, -0.0]), (vec![0, 0], 0));
    }

    #[test]
    fn logits_are_a_dot_product_in_the_units_of_the_row() {
        let hidden = [0.5, -1.25, 3.0];
        let codes = [1, -2, 1, 0, 1, -1];
        assert_eq!(logits(&codes, &[2.0, 0.5], &hidden), [2.0 * (0.5 + 2.5 + 3.0), 0.5 * (-1.25 - 3.0)]);
    }
}
