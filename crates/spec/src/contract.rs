//! The constants and the scalar functions of the arithmetic contract that more than one crate needs (docs/spec.md).
//!
//! `rawloop-ref` spells out the rules for vectors; what stands here is what the converter writes into a pack (GELU tables,
//! inverse frequencies), what every backend makes per position on the host (rope rows), and the exponential that vector
//! kernels must equal bit for bit. f32 is IEEE single, round to nearest even, subnormals kept; `mul_add` is a true fused
//! multiply-add and appears only where the contract says `fma`.

/// Lanes of every float sum (rule 6).
pub const LANES: usize = 32;
/// Keys of one attention block, aligned to absolute position (rule 8).
pub const KEY_BLOCK: usize = 64;
/// Added to the mean square before the root (rule 6).
pub const RMS_EPSILON: f32 = 1e-6;
/// Largest finite f16; larger magnitudes saturate to it in the KV cache (rule 12).
pub const F16_MAX: f32 = 65504.0;
/// The head's fixed point keeps this many bits below the leading one (rule 9).
pub const HEAD_FRACTION_BITS: i32 = 21;
/// The head's exponent is not taken below this, so that its scale stays a normal number (rule 9).
pub const HEAD_LOWEST_EXPONENT: i32 = -100;

/// log2(e), rounded once.
pub const LOG2_E: f32 = f32::from_bits(0x3fb8_aa3b);
/// Upper part of ln 2: 15 significant bits, so that `n * LN2_HIGH` is exact for every exponent `n`.
pub const LN2_HIGH: f32 = f32::from_bits(0x3f31_7200);
/// ln 2 - [`LN2_HIGH`], rounded once.
pub const LN2_LOW: f32 = f32::from_bits(0x35bf_be8e);
/// Below this the exponential is 0 (rule 8); `exp` of anything not below it is a normal number.
pub const EXP_LOW: f32 = -87.0;
/// Coefficients of r^6, r^5, ... r^2; those of r^1 and r^0 are 1. A minimax fit of relative error 3.1e-9 on |r| <= ln2 / 2.
pub const EXP_COEFFICIENTS: [f32; 5] = [
    f32::from_bits(0x3ab5_121a),
    f32::from_bits(0x3c09_1cf1),
    f32::from_bits(0x3d2a_ac79),
    f32::from_bits(0x3e2a_aa49),
    f32::from_bits(0x3eff_fffe),
];

/// The contract's exponential (rule 8) for `x <= 0`; 0 below [`EXP_LOW`].
pub fn exp(x: f32) -> f32 {
    // NaN, which no rule produces, also ends as 0 and never as a wild shift.
    if x.is_nan() || x < EXP_LOW {
        return 0.0;
    }
    let n = (x * LOG2_E).round_ties_even();
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut p = EXP_COEFFICIENTS[0];
    for &coefficient in &EXP_COEFFICIENTS[1..] {
        p = p.mul_add(r, coefficient);
    }
    p = p.mul_add(r, 1.0);
    p = p.mul_add(r, 1.0);
    // x <= 0, so n <= 0, and n >= -126 because x >= -87: the scale is a normal number.
    p * f32::from_bits(((n as i32 + 127) as u32) << 23)
}

/// tanh on the contract's exponential (rule 9): `(1 - t) / (1 + t)` with `t = exp(-2 |x|)`, and the sign of `x`.
pub fn tanh(x: f32) -> f32 {
    let t = exp(-2.0 * x.abs());
    ((1.0 - t) / (1.0 + t)).copysign(x)
}

/// Soft cap of a logit: `tanh(z / cap) * cap` (rule 9).
pub fn soft_cap(z: f32, cap: f32) -> f32 {
    tanh(z / cap) * cap
}

/// Rule 1: `clamp(rne(x / s), -128, 127)` with a true division. NaN becomes 0.
pub fn quantise(x: f32, scale: f32) -> i8 {
    (x / scale).round_ties_even().clamp(-128.0, 127.0) as i8
}

/// Rule 6: the 32-lane sum of `count` products given by `factors`.
pub fn lane_sum(count: usize, factors: impl Fn(usize) -> (f32, f32)) -> f32 {
    let mut lanes = [0f32; LANES];
    for i in 0..count {
        let (a, b) = factors(i);
        lanes[i % LANES] = a.mul_add(b, lanes[i % LANES]);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Rule 5: GELU in its tanh form, in f64, rounded once.
pub fn gelu(x: f64) -> f32 {
    const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
    (0.5 * x * (1.0 + libm::tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))) as f32
}

/// Rule 5: entry `code + 128` is the GELU of `f32(code) * scale`.
pub fn gelu_table(scale: f32) -> [f32; 256] {
    core::array::from_fn(|i| gelu(((i as f32 - 128.0) * scale) as f64))
}

/// The drafter's GELU: the tanh form in f32 on the contract's [`tanh`], no fused operation.
pub fn gelu_float(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = f32::from_bits(0x3f4c_422a);
    let inner = SQRT_2_OVER_PI * (x + 0.044715 * (x * x * x));
    0.5 * x * (1.0 + tanh(inner))
}

/// Rule 7: `1 / f32(theta^(2 i / dim))` for the first `count` pairs of a head of `dim` values.
pub fn inverse_frequencies(theta: f64, dim: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| 1.0 / libm::pow(theta, (2 * i) as f64 / dim as f64) as f32).collect()
}

/// Rule 7: cosine and sine rows of one position, in `cosine` and `sine`, one value per frequency.
pub fn rope_row(position: usize, inverse_frequencies: &[f32], cosine: &mut [f32], sine: &mut [f32]) {
    for (i, &frequency) in inverse_frequencies.iter().enumerate() {
        let angle = (position as f32 * frequency) as f64;
        cosine[i] = libm::cos(angle) as f32;
        sine[i] = libm::sin(angle) as f32;
    }
}

/// Rule 12: f32 to f16 bits, nearest even, subnormals kept, saturating at [`F16_MAX`].
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = x.abs();
    if magnitude.is_nan() {
        return sign;
    }
    if magnitude >= F16_MAX {
        return sign | 0x7bff;
    }
    if magnitude < f32::from_bits(0x3880_0000) {
        // Below 2^-14: a subnormal of unit 2^-24. Scaling by a power of two is exact, the rounding is the cast's.
        let units = (magnitude * 16_777_216.0).round_ties_even();
        return sign | units as u16;
    }
    // 13 fraction bits go; a carry out of the fraction moves the exponent, as it should.
    let body = magnitude.to_bits() - (112 << 23);
    let rounded = body + 0x0fff + ((body >> 13) & 1);
    sign | ((rounded >> 13) as u16).min(0x7bff)
}

/// f16 bits to f32, exact.
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = ((bits & 0x8000) as u32) << 16;
    let exponent = ((bits >> 10) & 0x1f) as u32;
    let fraction = (bits & 0x3ff) as u32;
    let magnitude = match exponent {
        0 => fraction as f32 * f32::from_bits(0x3380_0000),
        31 => f32::from_bits(0x7f80_0000 | (fraction << 13)),
        _ => f32::from_bits(((exponent + 112) << 23) | (fraction << 13)),
    };
    f32::from_bits(magnitude.to_bits() | sign)
}

/// bf16 bits to f32, exact.
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_the_true_exponential_and_never_subnormal() {
        for i in 0..=870_000 {
            let x = -(i as f32) * 1e-4;
            let truth = libm::exp(x as f64);
            let error = (exp(x) as f64 / truth - 1.0).abs();
            assert!(error < 1.3e-7, "exp({x}) = {} is off by {error:e}", exp(x));
        }
        assert!(exp(EXP_LOW) >= f32::MIN_POSITIVE);
        assert_eq!(exp(-87.000_01), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn exp_equals_the_golden_made_with_rational_arithmetic() {
        let golden = include_str!("../../../goldens/exp.txt");
        for line in golden.lines() {
            let (x, y) = line.split_once(' ').unwrap();
            let bits = |text| u32::from_str_radix(text, 16).unwrap();
            let x = f32::from_bits(bits(x));
            assert_eq!(exp(x).to_bits(), bits(y), "exp({x:e})");
        }
        assert!(golden.lines().count() >= 9_999);
    }

    #[test]
    fn f16_conversion_is_the_nearest_even_for_every_half_and_every_midpoint() {
        for bits in 0..0x7bff_u16 {
            let (low, high) = (f16_to_f32(bits), f16_to_f32(bits + 1));
            assert_eq!(f32_to_f16(low), bits);
            assert_eq!(f32_to_f16(-low), bits | 0x8000);
            let middle = low + (high - low) / 2.0;
            assert_eq!(f32_to_f16(middle), bits + (bits & 1), "midpoint above {bits:#x}");
            assert_eq!(f32_to_f16(f32::from_bits(middle.to_bits() + 1)), bits + 1);
            if middle > 0.0 {
                assert_eq!(f32_to_f16(f32::from_bits(middle.to_bits() - 1)), bits);
            }
        }
        assert_eq!(f32_to_f16(1e9), 0x7bff);
        assert_eq!(f32_to_f16(f32::NEG_INFINITY), 0xfbff);
    }

    #[test]
    fn tanh_and_soft_cap_are_odd_and_bounded() {
        for i in 0..20_000 {
            let x = i as f32 * 1e-3;
            assert!((tanh(x) as f64 - libm::tanh(x as f64)).abs() < 2e-7);
            assert_eq!(tanh(-x), -tanh(x));
            let capped = 30.0 * libm::tanh(x as f64 * 10.0 / 30.0);
            assert!((soft_cap(x * 10.0, 30.0) as f64 - capped).abs() < 1e-5);
        }
    }

    #[test]
    fn lane_sum_follows_the_lanes() {
        // 33 elements: lane 0 takes two, the others one; then a tree.
        let values: Vec<f32> = (0..33).map(|i| 1.0 + i as f32 * 1e-3).collect();
        let mut lanes: Vec<f32> = values[..32].iter().map(|v| v * v).collect();
        lanes[0] = values[32].mul_add(values[32], lanes[0]);
        for half in [16, 8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        assert_eq!(lane_sum(33, |i| (values[i], values[i])), lanes[0]);
    }

    #[test]
    fn quantise_rounds_half_to_even_and_clamps() {
        let cases =
            [(0.5, 0), (1.5, 2), (-0.5, 0), (-1.5, -2), (2.5, 2), (127.5, 127), (500.0, 127), (-129.0, -128)];
        for (x, code) in cases {
            assert_eq!(quantise(x, 1.0), code, "{x}");
        }
    }
}
