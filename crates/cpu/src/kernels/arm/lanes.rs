//! 32 lanes as eight registers of 128 bits.

use std::arch::aarch64::*;
use std::arch::asm;

use rawloop_spec::contract::F16_MAX;

use crate::kernels::generic::lanes::Lanes;

#[derive(Clone, Copy)]
pub(super) struct Neon([float32x4_t; 8]);

impl Neon {
    #[inline(always)]
    fn each(self, operation: impl Fn(float32x4_t) -> float32x4_t) -> Self {
        let v = self.0;
        Neon([
            operation(v[0]),
            operation(v[1]),
            operation(v[2]),
            operation(v[3]),
            operation(v[4]),
            operation(v[5]),
            operation(v[6]),
            operation(v[7]),
        ])
    }

    #[inline(always)]
    fn zip(self, other: Self, operation: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Self {
        let (v, w) = (self.0, other.0);
        Neon([
            operation(v[0], w[0]),
            operation(v[1], w[1]),
            operation(v[2], w[2]),
            operation(v[3], w[3]),
            operation(v[4], w[4]),
            operation(v[5], w[5]),
            operation(v[6], w[6]),
            operation(v[7], w[7]),
        ])
    }

    /// From pairs of registers, the groups of 8 elements.
    #[inline(always)]
    fn pairs(pair: impl Fn(usize) -> [float32x4_t; 2]) -> Self {
        let ([a, b], [c, d], [e, f], [g, h]) = (pair(0), pair(8), pair(16), pair(24));
        Neon([a, b, c, d, e, f, g, h])
    }
}

/// Eight halves to singles. Part of every AArch64, but its intrinsic needs a type that is unstable in Rust 1.95.
#[inline(always)]
fn widen_halves(halves: uint16x8_t) -> [float32x4_t; 2] {
    let (low, high): (float32x4_t, float32x4_t);
    // SAFETY: two instructions of the base set, on registers only.
    unsafe {
        asm!(
            "fcvtl {low:v}.4s, {halves:v}.4h",
            "fcvtl2 {high:v}.4s, {halves:v}.8h",
            low = out(vreg) low,
            high = lateout(vreg) high,
            halves = in(vreg) halves,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    [low, high]
}

/// Eight singles to halves, nearest even.
#[inline(always)]
fn narrow_to_halves(low: float32x4_t, high: float32x4_t) -> uint16x8_t {
    let mut halves: uint16x8_t;
    // SAFETY: as above; the first instruction clears the upper half, the second fills it.
    unsafe {
        asm!(
            "fcvtn {halves:v}.4h, {low:v}.4s",
            "fcvtn2 {halves:v}.8h, {high:v}.4s",
            halves = out(vreg) halves,
            low = in(vreg) low,
            high = in(vreg) high,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    halves
}

// SAFETY (all blocks): the trait's contract, pointers reach 32 elements; NEON is part of the target.
impl Lanes for Neon {
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the trait's contract.
        Neon([unsafe { vdupq_n_f32(value) }; 8])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the trait's contract.
        Neon::pairs(|at| unsafe { [vld1q_f32(from.add(at)), vld1q_f32(from.add(at + 4))] })
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: the trait's contract.
        Neon::pairs(|at| unsafe {
            let words = vmovl_s8(vld1_s8(from.add(at)));
            [vcvtq_f32_s32(vmovl_s16(vget_low_s16(words))), vcvtq_f32_s32(vmovl_high_s16(words))]
        })
    }

    #[inline(always)]
    unsafe fn load_i32(from: *const i32) -> Self {
        // SAFETY: the trait's contract.
        Neon::pairs(|at| unsafe {
            [vcvtq_f32_s32(vld1q_s32(from.add(at))), vcvtq_f32_s32(vld1q_s32(from.add(at + 4)))]
        })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: the trait's contract.
        Neon::pairs(|at| widen_halves(unsafe { vld1q_u16(from.add(at)) }))
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: the trait's contract.
        Neon::pairs(|at| unsafe {
            let bits = vld1q_u16(from.add(at));
            let (low, high) = (vshll_n_u16::<16>(vget_low_u16(bits)), vshll_high_n_u16::<16>(bits));
            [vreinterpretq_f32_u32(low), vreinterpretq_f32_u32(high)]
        })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        for (i, v) in self.0.into_iter().enumerate() {
            // SAFETY: the trait's contract.
            unsafe { vst1q_f32(to.add(4 * i), v) }
        }
    }

    #[inline(always)]
    unsafe fn store_i8(self, to: *mut i8) {
        for (i, v) in self.0.chunks_exact(4).enumerate() {
            // SAFETY: the trait's contract.
            unsafe {
                let (a, b) = (vmovn_s32(vcvtq_s32_f32(v[0])), vmovn_s32(vcvtq_s32_f32(v[1])));
                let (c, d) = (vmovn_s32(vcvtq_s32_f32(v[2])), vmovn_s32(vcvtq_s32_f32(v[3])));
                let (low, high) = (vcombine_s16(a, b), vcombine_s16(c, d));
                vst1q_s8(to.add(16 * i), vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
            }
        }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        // SAFETY: the trait's contract.
        unsafe {
            let (sign, limit) = (vdupq_n_u32(1 << 31), vdupq_n_f32(F16_MAX));
            let saturated = self.each(|x| {
                // Where x is NaN only its sign stays.
                let magnitude =
                    vandq_u32(vceqq_f32(x, x), vreinterpretq_u32_f32(vminq_f32(vabsq_f32(x), limit)));
                vreinterpretq_f32_u32(vbslq_u32(sign, vreinterpretq_u32_f32(x), magnitude))
            });
            for (i, v) in saturated.0.chunks_exact(2).enumerate() {
                vst1q_u16(to.add(8 * i), narrow_to_halves(v[0], v[1]));
            }
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        self.zip(other, |a, b| unsafe { vaddq_f32(a, b) })
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        self.zip(other, |a, b| unsafe { vsubq_f32(a, b) })
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        self.zip(other, |a, b| unsafe { vmulq_f32(a, b) })
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        self.zip(other, |a, b| unsafe { vdivq_f32(a, b) })
    }

    #[inline(always)]
    unsafe fn fma(self, factor: Self, addend: Self) -> Self {
        let (a, b, c) = (self.0, factor.0, addend.0);
        // SAFETY: the trait's contract.
        let fma = |i: usize| unsafe { vfmaq_f32(c[i], a[i], b[i]) };
        Neon([fma(0), fma(1), fma(2), fma(3), fma(4), fma(5), fma(6), fma(7)])
    }

    #[inline(always)]
    unsafe fn round(self) -> Self {
        // SAFETY: the trait's contract.
        self.each(|x| unsafe { vrndnq_f32(x) })
    }

    #[inline(always)]
    unsafe fn to_code(self) -> Self {
        // SAFETY: the trait's contract. NaN passes the clamp, and the conversion makes 0 of it.
        self.each(|x| unsafe {
            let clamped = vminq_f32(vmaxq_f32(x, vdupq_n_f32(-128.0)), vdupq_n_f32(127.0));
            vcvtq_f32_s32(vcvtnq_s32_f32(clamped))
        })
    }

    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        // SAFETY: the trait's contract.
        self.each(|n| unsafe {
            let biased = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
        })
    }

    #[inline(always)]
    unsafe fn keep_where_at_least(self, x: Self, low: Self) -> Self {
        // SAFETY: the trait's contract.
        let keep = x.zip(low, |x, low| unsafe { vreinterpretq_f32_u32(vcgeq_f32(x, low)) });
        // SAFETY: the trait's contract.
        self.zip(keep, |value, keep| unsafe {
            vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(value), vreinterpretq_u32_f32(keep)))
        })
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: the trait's contract.
        unsafe {
            let v = self.0;
            let (a, b) = (vaddq_f32(v[0], v[4]), vaddq_f32(v[1], v[5]));
            let (c, d) = (vaddq_f32(v[2], v[6]), vaddq_f32(v[3], v[7]));
            let l4 = vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d));
            let l2 = vadd_f32(vget_low_f32(l4), vget_high_f32(l4));
            vget_lane_f32::<0>(l2) + vget_lane_f32::<1>(l2)
        }
    }
}
