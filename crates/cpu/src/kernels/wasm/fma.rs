//! A fused multiply-add of four singles, made of doubles.
//!
//! The product of two singles is exact in a double. Adding the third rounds to 53 bits, and rounding that to 24 gives the right
//! single unless the first rounding landed exactly half-way between two singles, or the single is subnormal and has its
//! half-way points elsewhere. Those lanes are rare; where one is seen, the sum is rounded to odd: its error is computed
//! exactly (six additions), and a sum that is not exact gets an odd last bit, towards the true value. A number that was rounded
//! to odd with two bits or more to spare rounds to the right single.

use std::arch::wasm32::*;

/// `a * b + c` in each of four lanes, rounded once.
#[inline(always)]
pub(super) fn fma(a: v128, b: v128, c: v128) -> v128 {
    let upper = |v: v128| i64x2_shuffle::<1, 1>(v, v);
    let low = Sum::of(a, b, c);
    let high = Sum::of(upper(a), upper(b), upper(c));
    if v128_any_true(v128_or(low.is_doubtful(), high.is_doubtful())) {
        return join(low.rounded_to_odd(), high.rounded_to_odd());
    }
    join(low.sum, high.sum)
}

/// Two pairs of doubles to four singles.
#[inline(always)]
fn join(low: v128, high: v128) -> v128 {
    i64x2_shuffle::<0, 2>(f32x4_demote_f64x2_zero(low), f32x4_demote_f64x2_zero(high))
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

    /// Lanes that may round wrongly from here: half-way between two singles, or below the smallest normal one and not 0.
    #[inline(always)]
    fn is_doubtful(&self) -> v128 {
        let below = i64x2_splat((1 << 29) - 1);
        let half_way = i64x2_eq(v128_and(self.sum, below), i64x2_splat(1 << 28));
        let small = f64x2_lt(f64x2_abs(self.sum), f64x2_splat(f32::MIN_POSITIVE as f64));
        let zero = f64x2_eq(self.sum, f64x2_splat(0.0));
        v128_or(half_way, v128_andnot(small, zero))
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
