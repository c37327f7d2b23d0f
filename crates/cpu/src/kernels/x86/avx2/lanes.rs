//! 32 lanes as four registers of 256 bits.

use std::arch::x86_64::*;

use rawloop_spec::contract::F16_MAX;

use crate::kernels::generic::lanes::Lanes;

#[derive(Clone, Copy)]
pub(super) struct Ymm([__m256; 4]);

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

impl Ymm {
    #[inline(always)]
    fn each(self, operation: impl Fn(__m256) -> __m256) -> Self {
        let v = self.0;
        Ymm([operation(v[0]), operation(v[1]), operation(v[2]), operation(v[3])])
    }

    #[inline(always)]
    fn zip(self, other: Self, operation: impl Fn(__m256, __m256) -> __m256) -> Self {
        let (v, w) = (self.0, other.0);
        Ymm([operation(v[0], w[0]), operation(v[1], w[1]), operation(v[2], w[2]), operation(v[3], w[3])])
    }

    /// From the four groups of 8 elements.
    #[inline(always)]
    fn groups(group: impl Fn(usize) -> __m256) -> Self {
        Ymm([group(0), group(8), group(16), group(24)])
    }
}

// SAFETY (all blocks): the trait's contract, the CPU has AVX2, FMA and F16C and pointers reach 32 elements.
impl Lanes for Ymm {
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the trait's contract.
        Ymm([unsafe { _mm256_set1_ps(value) }; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the trait's contract.
        Ymm::groups(|at| unsafe { _mm256_loadu_ps(from.add(at)) })
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: the trait's contract.
        Ymm::groups(|at| unsafe {
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.add(at).cast())))
        })
    }

    #[inline(always)]
    unsafe fn load_i32(from: *const i32) -> Self {
        // SAFETY: the trait's contract.
        Ymm::groups(|at| unsafe { _mm256_cvtepi32_ps(_mm256_loadu_si256(from.add(at).cast())) })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: the trait's contract.
        Ymm::groups(|at| unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.add(at).cast())) })
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: the trait's contract.
        Ymm::groups(|at| unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.add(at).cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
        })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the trait's contract.
        unsafe {
            _mm256_storeu_ps(to, self.0[0]);
            _mm256_storeu_ps(to.add(8), self.0[1]);
            _mm256_storeu_ps(to.add(16), self.0[2]);
            _mm256_storeu_ps(to.add(24), self.0[3]);
        }
    }

    #[inline(always)]
    unsafe fn store_i8(self, to: *mut i8) {
        // SAFETY: the trait's contract. Packing works within 128 bits; the permutation puts the groups of 4 in order.
        unsafe {
            let n = |i: usize| _mm256_cvtps_epi32(self.0[i]);
            let words = _mm256_packs_epi16(_mm256_packs_epi32(n(0), n(1)), _mm256_packs_epi32(n(2), n(3)));
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(words, order));
        }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        // SAFETY: the trait's contract.
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            let limit = _mm256_set1_ps(F16_MAX);
            for (i, x) in self.0.into_iter().enumerate() {
                // Where x is NaN only its sign stays.
                let number = _mm256_cmp_ps::<_CMP_ORD_Q>(x, x);
                let magnitude = _mm256_and_ps(number, _mm256_min_ps(_mm256_andnot_ps(sign, x), limit));
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_or_ps(
                    magnitude,
                    _mm256_and_ps(sign, x),
                ));
                _mm_storeu_si128(to.add(8 * i).cast(), halves);
            }
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        self.zip(other, |a, b| unsafe { _mm256_add_ps(a, b) })
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        self.zip(other, |a, b| unsafe { _mm256_sub_ps(a, b) })
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        self.zip(other, |a, b| unsafe { _mm256_mul_ps(a, b) })
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        self.zip(other, |a, b| unsafe { _mm256_div_ps(a, b) })
    }

    #[inline(always)]
    unsafe fn fma(self, factor: Self, addend: Self) -> Self {
        let (a, b, c) = (self.0, factor.0, addend.0);
        // SAFETY: the trait's contract.
        let fma = |i: usize| unsafe { _mm256_fmadd_ps(a[i], b[i], c[i]) };
        Ymm([fma(0), fma(1), fma(2), fma(3)])
    }

    #[inline(always)]
    unsafe fn round(self) -> Self {
        // SAFETY: the trait's contract.
        self.each(|x| unsafe { _mm256_round_ps::<NEAREST>(x) })
    }

    #[inline(always)]
    unsafe fn to_code(self) -> Self {
        // SAFETY: the trait's contract.
        self.each(|x| unsafe {
            let number = _mm256_cmp_ps::<_CMP_ORD_Q>(x, x);
            let low = _mm256_max_ps(x, _mm256_set1_ps(-128.0));
            let clamped = _mm256_and_ps(number, _mm256_min_ps(low, _mm256_set1_ps(127.0)));
            _mm256_round_ps::<NEAREST>(clamped)
        })
    }

    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        // SAFETY: the trait's contract.
        self.each(|n| unsafe {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        })
    }

    #[inline(always)]
    unsafe fn keep_where_at_least(self, x: Self, low: Self) -> Self {
        // SAFETY: the trait's contract.
        let keep = x.zip(low, |x, low| unsafe { _mm256_cmp_ps::<_CMP_GE_OQ>(x, low) });
        // SAFETY: the trait's contract.
        self.zip(keep, |value, keep| unsafe { _mm256_and_ps(value, keep) })
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: the trait's contract.
        unsafe {
            let v = self.0;
            let l8 = _mm256_add_ps(_mm256_add_ps(v[0], v[2]), _mm256_add_ps(v[1], v[3]));
            let l4 = _mm_add_ps(_mm256_castps256_ps128(l8), _mm256_extractf128_ps::<1>(l8));
            let l2 = _mm_add_ps(l4, _mm_movehl_ps(l4, l4));
            _mm_cvtss_f32(_mm_add_ss(l2, _mm_movehdup_ps(l2)))
        }
    }
}
