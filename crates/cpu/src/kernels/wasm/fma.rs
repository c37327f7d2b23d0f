//! A fused multiply-add of singles, made of doubles.
//!
//! The product of two singles is exact in a double. Adding the third rounds to 53 bits, and rounding that to 24 gives the right
//! single unless the first rounding landed exactly half-way between two singles, or the single is subnormal and has its
//! half-way points elsewhere. Where one of four lanes may be such, the sums are rounded to odd: their error is computed
//! exactly (six additions), and a sum that is not exact gets an odd last bit, towards the true value. A number that was rounded
//! to odd with two bits or more to spare rounds to the right single.
//!
//! Short factors land half-way often (one of 500 products of a single and a bf16 does, without an error), so the check is for
//! four lanes and not for 32: that was a quarter slower.

use std::arch::wasm32::*;

/// `a * b + c` in each of four lanes, rounded once; `RELAXED` only where [`relaxed_rounds_once`].
#[inline(always)]
pub(super) fn fma<const RELAXED: bool>(a: v128, b: v128, c: v128) -> v128 {
    #[cfg(target_feature = "relaxed-simd")]
    if RELAXED {
        return f32x4_relaxed_madd(a, b, c);
    }
    let upper = |v: v128| i64x2_shuffle::<1, 1>(v, v);
    let low = Sum::of(a, b, c);
    let high = Sum::of(upper(a), upper(b), upper(c));
    let result = join(low.sum, high.sum);
    if v128_any_true(is_doubtful(&low, &high, result)) {
        return join(low.rounded_to_odd(), high.rounded_to_odd());
    }
    result
}

/// Whether this engine's multiply-add rounds once. An engine is the same for all operands and all the time.
#[cfg(target_feature = "relaxed-simd")]
pub(super) fn relaxed_rounds_once() -> bool {
    // (1 + 2^-23)^2 - (1 + 2^-22) is 2^-46; with the product rounded first it is 0.
    let a = f32x4_splat(std::hint::black_box(1.0 + f32::EPSILON));
    let c = f32x4_splat(std::hint::black_box(-1.0 - 2.0 * f32::EPSILON));
    let expected = f32x4_splat(f32::EPSILON * f32::EPSILON);
    i32x4_all_true(f32x4_eq(f32x4_relaxed_madd(a, a, c), expected))
}

/// Two pairs of doubles to four singles.
#[inline(always)]
fn join(low: v128, high: v128) -> v128 {
    i64x2_shuffle::<0, 2>(f32x4_demote_f64x2_zero(low), f32x4_demote_f64x2_zero(high))
}

/// Lanes whose result may be wrong: half-way between two singles before rounding, or at most the smallest normal one, 0 among them.
#[inline(always)]
fn is_doubtful(low: &Sum, high: &Sum, result: v128) -> v128 {
    // A double has 29 bits that a single has not; they are in its lower word.
    let words = i32x4_shuffle::<0, 2, 4, 6>(low.sum, high.sum);
    let half_way = i32x4_eq(v128_and(words, i32x4_splat((1 << 29) - 1)), i32x4_splat(1 << 28));
    v128_or(half_way, f32x4_le(f32x4_abs(result), f32x4_splat(f32::MIN_POSITIVE)))
}

/// `product + addend` in two lanes of doubles.
struct Sum {
    product: v128,
    addend: v128,
    sum: v128,
}

impl Sum {
    /// Of the two lower lanes of each.
    #[inline(always)]
    fn of(a: v128, b: v128, c: v128) -> Sum {
        let product = f64x2_mul(f64x2_promote_low_f32x4(a), f64x2_promote_low_f32x4(b));
        let addend = f64x2_promote_low_f32x4(c);
        Sum { product, addend, sum: f64x2_add(product, addend) }
    }

    #[inline(always)]
    fn rounded_to_odd(&self) -> v128 {
        let Sum { product, addend, sum } = *self;
        let part = f64x2_sub(sum, product);
        let error = f64x2_add(f64x2_sub(product, f64x2_sub(sum, part)), f64x2_sub(addend, part));
        // An infinite sum has a NaN for an error, which is not above 0: it stays.
        let inexact = f64x2_gt(f64x2_abs(error), f64x2_splat(0.0));
        // All ones, -1, where the true value is nearer to 0 than the sum.
        let beyond = i64x2_shr(v128_xor(error, sum), 63);
        let truncated = i64x2_add(sum, v128_and(beyond, inexact));
        v128_or(truncated, v128_and(inexact, i64x2_splat(1)))
    }
}
