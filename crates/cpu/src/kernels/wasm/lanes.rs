//! 32 lanes as eight vectors of 128 bits.

use std::arch::wasm32::*;

use rawloop_spec::contract::F16_MAX;

use super::fma;
use crate::kernels::generic::lanes::Lanes;

/// With `RELAXED` the multiply-add is the engine's, which must round once.
#[derive(Clone, Copy)]
pub(super) struct Wasm<const RELAXED: bool>([v128; 8]);

impl<const RELAXED: bool> Wasm<RELAXED> {
    #[inline(always)]
    fn groups(group: impl Fn(usize) -> v128) -> Self {
        Wasm(std::array::from_fn(|i| group(4 * i)))
    }

    #[inline(always)]
    fn each(self, operation: impl Fn(v128) -> v128) -> Self {
        Wasm(self.0.map(operation))
    }

    #[inline(always)]
    fn zip(self, other: Self, operation: impl Fn(v128, v128) -> v128) -> Self {
        Wasm(std::array::from_fn(|i| operation(self.0[i], other.0[i])))
    }
}

/// Halves in the lower half of each lane to singles. Subnormal halves become subnormal singles first, and the product is exact.
#[inline(always)]
fn widen_halves(halves: v128) -> v128 {
    let sign = i32x4_shl(v128_and(halves, i32x4_splat(0x8000)), 16);
    let magnitude = v128_and(halves, i32x4_splat(0x7fff));
    let value = f32x4_mul(i32x4_shl(magnitude, 13), f32x4_splat(f32::from_bits((127 + 112) << 23)));
    let special = v128_and(i32x4_ge(magnitude, i32x4_splat(0x7c00)), i32x4_splat(0x7f80_0000));
    v128_or(v128_or(value, special), sign)
}

/// Singles to halves in the lower half of each lane.
#[inline(always)]
fn narrow_to_halves(x: v128) -> v128 {
    // NaN is 0, and what is too large the largest half.
    let magnitude = v128_and(f32x4_pmin(f32x4_abs(x), f32x4_splat(F16_MAX)), f32x4_eq(x, x));
    let odd = v128_and(u32x4_shr(magnitude, 13), i32x4_splat(1));
    let rounded = i32x4_add(i32x4_add(magnitude, i32x4_splat(0xfff)), odd);
    let normal = i32x4_sub(u32x4_shr(rounded, 13), i32x4_splat(112 << 10));
    // The last bit of a single near a half is the last bit of a subnormal half, 2^-24: the addition rounds.
    let half = f32x4_splat(0.5);
    let subnormal = i32x4_sub(f32x4_add(magnitude, half), half);
    let small = f32x4_lt(magnitude, f32x4_splat(f32::from_bits(113 << 23)));
    let sign = v128_and(u32x4_shr(x, 16), i32x4_splat(0x8000));
    v128_or(v128_bitselect(subnormal, normal, small), sign)
}

// SAFETY (all blocks): the trait's contract, pointers reach 32 elements. Loads and stores need no alignment.
impl<const RELAXED: bool> Lanes for Wasm<RELAXED> {
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Wasm([f32x4_splat(value); 8])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the trait's contract.
        Wasm::groups(|at| unsafe { v128_load(from.add(at).cast()) })
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: the trait's contract: four bytes each.
        Wasm::groups(|at| unsafe {
            let bytes = v128_load32_zero(from.add(at).cast());
            f32x4_convert_i32x4(i32x4_extend_low_i16x8(i16x8_extend_low_i8x16(bytes)))
        })
    }

    #[inline(always)]
    unsafe fn load_i32(from: *const i32) -> Self {
        // SAFETY: the trait's contract.
        Wasm::groups(|at| unsafe { f32x4_convert_i32x4(v128_load(from.add(at).cast())) })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: the trait's contract.
        Wasm::groups(|at| unsafe { widen_halves(u32x4_load_extend_u16x4(from.add(at))) })
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: the trait's contract.
        Wasm::groups(|at| unsafe { i32x4_shl(u32x4_load_extend_u16x4(from.add(at)), 16) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        for (i, v) in self.0.into_iter().enumerate() {
            // SAFETY: the trait's contract.
            unsafe { v128_store(to.add(4 * i).cast(), v) }
        }
    }

    #[inline(always)]
    unsafe fn store_i8(self, to: *mut i8) {
        let n = self.0.map(|x| i32x4_trunc_sat_f32x4(x));
        for (i, n) in n.chunks_exact(4).enumerate() {
            let codes = i8x16_narrow_i16x8(i16x8_narrow_i32x4(n[0], n[1]), i16x8_narrow_i32x4(n[2], n[3]));
            // SAFETY: the trait's contract.
            unsafe { v128_store(to.add(16 * i).cast(), codes) }
        }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        let halves = self.0.map(narrow_to_halves);
        for (i, halves) in halves.chunks_exact(2).enumerate() {
            // SAFETY: the trait's contract.
            unsafe { v128_store(to.add(8 * i).cast(), u16x8_narrow_i32x4(halves[0], halves[1])) }
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_add(a, b))
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_sub(a, b))
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_mul(a, b))
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_div(a, b))
    }

    #[inline(always)]
    unsafe fn fma(self, factor: Self, addend: Self) -> Self {
        Wasm(std::array::from_fn(|i| fma::fma::<RELAXED>(self.0[i], factor.0[i], addend.0[i])))
    }

    #[inline(always)]
    unsafe fn round(self) -> Self {
        self.each(|x| f32x4_nearest(x))
    }

    #[inline(always)]
    unsafe fn to_code(self) -> Self {
        // With relaxed vectors the compiler makes relaxed ones of `pmin` and `pmax`, and NaN may become a limit: it is masked.
        self.each(|x| {
            let clamped = f32x4_pmin(f32x4_pmax(x, f32x4_splat(-128.0)), f32x4_splat(127.0));
            f32x4_nearest(v128_and(clamped, f32x4_eq(x, x)))
        })
    }

    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        self.each(|n| i32x4_shl(i32x4_add(i32x4_trunc_sat_f32x4(n), i32x4_splat(127)), 23))
    }

    #[inline(always)]
    unsafe fn keep_where_at_least(self, x: Self, low: Self) -> Self {
        self.zip(x.zip(low, |x, low| f32x4_ge(x, low)), |value, keep| v128_and(value, keep))
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let v = self.0;
        let (a, b) = (f32x4_add(v[0], v[4]), f32x4_add(v[1], v[5]));
        let (c, d) = (f32x4_add(v[2], v[6]), f32x4_add(v[3], v[7]));
        let l4 = f32x4_add(f32x4_add(a, c), f32x4_add(b, d));
        let l2 = f32x4_add(l4, i64x2_shuffle::<1, 1>(l4, l4));
        f32x4_extract_lane::<0>(l2) + f32x4_extract_lane::<1>(l2)
    }
}
