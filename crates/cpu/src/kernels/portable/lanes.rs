//! 32 lanes as an array; the compiler uses whatever vectors the target has.

use rawloop_spec::contract::{self, LANES};

use crate::kernels::generic::lanes::Lanes;

#[derive(Clone, Copy)]
pub(super) struct Array([f32; LANES]);

impl Array {
    #[inline(always)]
    fn from(value: impl Fn(usize) -> f32) -> Self {
        Array(std::array::from_fn(value))
    }

    #[inline(always)]
    fn zip(self, other: Self, operation: impl Fn(f32, f32) -> f32) -> Self {
        Array::from(|i| operation(self.0[i], other.0[i]))
    }
}

// SAFETY (all blocks): the trait's contract, pointers reach 32 elements.
impl Lanes for Array {
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Array([value; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: 32 elements.
        Array(unsafe { from.cast::<[f32; LANES]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: 32 elements.
        let values = unsafe { from.cast::<[i8; LANES]>().read_unaligned() };
        Array::from(|i| values[i] as f32)
    }

    #[inline(always)]
    unsafe fn load_i32(from: *const i32) -> Self {
        // SAFETY: 32 elements.
        let values = unsafe { from.cast::<[i32; LANES]>().read_unaligned() };
        Array::from(|i| values[i] as f32)
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: 32 elements.
        let values = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        Array::from(|i| contract::f16_to_f32(values[i]))
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: 32 elements.
        let values = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        Array::from(|i| contract::bf16_to_f32(values[i]))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: 32 elements.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn store_i8(self, to: *mut i8) {
        let codes = self.0.map(|lane| lane as i8);
        // SAFETY: 32 elements.
        unsafe { to.cast::<[i8; LANES]>().write_unaligned(codes) }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        let halves = self.0.map(contract::f32_to_f16);
        // SAFETY: 32 elements.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(halves) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }

    #[inline(always)]
    unsafe fn fma(self, factor: Self, addend: Self) -> Self {
        Array::from(|i| self.0[i].mul_add(factor.0[i], addend.0[i]))
    }

    #[inline(always)]
    unsafe fn round(self) -> Self {
        Array(self.0.map(f32::round_ties_even))
    }

    #[inline(always)]
    unsafe fn to_code(self) -> Self {
        // Adding and taking off 1.5 * 2^23 rounds to an integer, half to even: a plain addition, where rounding by name is a
        // library call on the oldest x86-64. Clamping first gives the same code, since the limits are integers.
        const SHIFT: f32 = 12_582_912.0;
        Array(self.0.map(|x| {
            let clamped = (if x.is_nan() { 0.0 } else { x }).clamp(-128.0, 127.0);
            clamped + SHIFT - SHIFT
        }))
    }

    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        // Lanes that the caller drops may hold any value, so the arithmetic wraps.
        Array(self.0.map(|n| f32::from_bits(((n as i32).wrapping_add(127) as u32) << 23)))
    }

    #[inline(always)]
    unsafe fn keep_where_at_least(self, x: Self, low: Self) -> Self {
        Array::from(|i| if x.0[i] >= low.0[i] { self.0[i] } else { 0.0 })
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let mut lanes = self.0;
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
            half /= 2;
        }
        lanes[0]
    }
}
