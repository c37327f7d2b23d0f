//! A vector of 32 f32, the unit of every float rule, and what the rules need of it.
//!
//! Rule 6 sums over 32 lanes, so 32 is the width that all instruction sets share: two registers of 512 bits, four of 256,
//! eight of 128, or an array. Each method is one IEEE operation per lane, so an implementation has no freedom in the result.
//! A length that is not a multiple of 32 ends in [`Lanes::load_part`] and [`Lanes::store_part`], which go through a buffer.
//!
//! Safety of all methods: the CPU has the instruction set of the type; pointers reach 32 elements (or `count`).

use rawloop_spec::contract::{EXP_COEFFICIENTS, EXP_LOW, LANES, LN2_HIGH, LN2_LOW, LOG2_E};

pub(crate) trait Lanes: Copy {
    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn load_i8(from: *const i8) -> Self;
    unsafe fn load_i32(from: *const i32) -> Self;
    unsafe fn load_f16(from: *const u16) -> Self;
    unsafe fn load_bf16(from: *const u16) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Stores lanes that hold integers in -128..=127.
    unsafe fn store_i8(self, to: *mut i8);
    /// Nearest even, subnormals kept, larger magnitudes saturate at 65504, NaN becomes a zero of its sign (rule 12).
    unsafe fn store_f16(self, to: *mut u16);

    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    /// `self * factor + addend`, rounded once.
    unsafe fn fma(self, factor: Self, addend: Self) -> Self;
    /// Nearest integer, half to even.
    unsafe fn round(self) -> Self;
    /// `clamp(rne(self), -128, 127)`; NaN becomes 0 (rules 1 and 3).
    unsafe fn to_code(self) -> Self;
    /// 2 to the power of lanes that hold integers in -126..=127.
    unsafe fn power_of_two(self) -> Self;
    /// `self` where `x >= low`, else +0 (also where `x` is NaN).
    unsafe fn keep_where_at_least(self, x: Self, low: Self) -> Self;
    /// The tree of rule 6: `l[i] += l[i + h]` for h = 16, 8, 4, 2, 1.
    unsafe fn sum(self) -> f32;

    /// The trees of several vectors; an instruction set can share their shuffles.
    #[inline(always)]
    unsafe fn sums<const N: usize>(vectors: [Self; N], to: &mut [f32; N]) {
        for (sum, vector) in to.iter_mut().zip(vectors) {
            // SAFETY: as for every method.
            *sum = unsafe { vector.sum() };
        }
    }

    /// `table[code + 128]` for 32 codes; `table` has 256 entries.
    #[inline(always)]
    unsafe fn look_up(table: *const f32, codes: *const i8) -> Self {
        let mut values = [0f32; LANES];
        for (i, value) in values.iter_mut().enumerate() {
            // SAFETY: a code plus 128 is below 256.
            *value = unsafe { *table.add((*codes.add(i) as i32 + 128) as usize) };
        }
        // SAFETY: 32 values.
        unsafe { Self::load(values.as_ptr()) }
    }

    /// The first `count` lanes from memory, the others `fill`.
    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize, fill: f32) -> Self {
        let mut buffer = [fill; LANES];
        // SAFETY: `from` reaches `count` elements, and count <= 32.
        unsafe {
            std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), count);
            Self::load(buffer.as_ptr())
        }
    }

    /// Stores the first `count` lanes.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, count: usize) {
        let mut buffer = [0f32; LANES];
        // SAFETY: `to` reaches `count` elements, and count <= 32.
        unsafe {
            self.store(buffer.as_mut_ptr());
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), to, count);
        }
    }

    /// The first `count` of codes, the others 0.
    #[inline(always)]
    unsafe fn load_i8_part(from: *const i8, count: usize) -> Self {
        let mut buffer = [0i8; LANES];
        // SAFETY: `from` reaches `count` elements, and count <= 32.
        unsafe {
            std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), count);
            Self::load_i8(buffer.as_ptr())
        }
    }

    /// Stores the first `count` of lanes that hold codes.
    #[inline(always)]
    unsafe fn store_i8_part(self, to: *mut i8, count: usize) {
        let mut buffer = [0i8; LANES];
        // SAFETY: `to` reaches `count` elements, and count <= 32.
        unsafe {
            self.store_i8(buffer.as_mut_ptr());
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), to, count);
        }
    }

    /// The contract's exponential of lanes that are at most 0 (rule 8): `contract::exp`, lane by lane.
    #[inline(always)]
    unsafe fn exp(self) -> Self {
        // SAFETY: as for every method. Below `EXP_LOW` the steps give garbage that the last one drops.
        unsafe {
            let n = self.mul(Self::splat(LOG2_E)).round();
            let r = n.fma(Self::splat(-LN2_HIGH), self);
            let r = n.fma(Self::splat(-LN2_LOW), r);
            let mut p = Self::splat(EXP_COEFFICIENTS[0]);
            for &coefficient in &EXP_COEFFICIENTS[1..] {
                p = p.fma(r, Self::splat(coefficient));
            }
            p = p.fma(r, Self::splat(1.0));
            p = p.fma(r, Self::splat(1.0));
            p.mul(n.power_of_two()).keep_where_at_least(self, Self::splat(EXP_LOW))
        }
    }

    /// The sum of lanes that hold integers, as an integer.
    #[inline(always)]
    unsafe fn integer_sum(self) -> i32 {
        let mut lanes = [0f32; LANES];
        // SAFETY: as for every method.
        unsafe { self.store(lanes.as_mut_ptr()) };
        lanes.iter().map(|&lane| lane as i32).sum()
    }
}

/// Where the full vectors of `len` elements end.
#[inline(always)]
pub(crate) const fn full(len: usize) -> usize {
    len / LANES * LANES
}

/// Rule 6: the 32-lane sum of products.
#[inline(always)]
pub(crate) unsafe fn dot<L: Lanes>(a: &[f32], b: &[f32]) -> f32 {
    debug_assert_eq!(a.len(), b.len());
    let end = full(a.len());
    // SAFETY: `generic`'s contract; every vector ends inside both slices. A lane that is left alone takes 0 * -0, which is
    // the one product that changes no lane, not even -0.
    unsafe {
        let mut lanes = L::splat(0.0);
        for at in (0..end).step_by(LANES) {
            lanes = L::load(a.as_ptr().add(at)).fma(L::load(b.as_ptr().add(at)), lanes);
        }
        if end < a.len() {
            let rest = a.len() - end;
            let x = L::load_part(a.as_ptr().add(end), rest, 0.0);
            lanes = x.fma(L::load_part(b.as_ptr().add(end), rest, -0.0), lanes);
        }
        lanes.sum()
    }
}
