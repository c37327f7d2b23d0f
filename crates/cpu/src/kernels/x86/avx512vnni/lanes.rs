//! 32 lanes as two registers of 512 bits.

use std::arch::x86_64::*;

use rawloop_spec::contract::F16_MAX;

use crate::kernels::generic::lanes::Lanes;

#[derive(Clone, Copy)]
pub(super) struct Zmm(__m512, __m512);

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// One operation on both registers.
#[inline(always)]
fn both(a: Zmm, operation: impl Fn(__m512) -> __m512) -> Zmm {
    Zmm(operation(a.0), operation(a.1))
}

// SAFETY (all blocks): the trait's contract, the CPU has AVX-512 F, BW, DQ and VL and pointers reach 32 elements.
impl Lanes for Zmm {
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the trait's contract.
        let v = unsafe { _mm512_set1_ps(value) };
        Zmm(v, v)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Zmm(_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(16))) }
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: the trait's contract.
        unsafe {
            let widen =
                |at: usize| _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.add(at).cast())));
            Zmm(widen(0), widen(16))
        }
    }

    #[inline(always)]
    unsafe fn load_i32(from: *const i32) -> Self {
        // SAFETY: the trait's contract.
        unsafe {
            Zmm(
                _mm512_cvtepi32_ps(_mm512_loadu_si512(from.cast())),
                _mm512_cvtepi32_ps(_mm512_loadu_si512(from.add(16).cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: the trait's contract.
        unsafe {
            Zmm(
                _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())),
                _mm512_cvtph_ps(_mm256_loadu_si256(from.add(16).cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: the trait's contract.
        unsafe {
            let widen = |at: usize| {
                let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.add(at).cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
            };
            Zmm(widen(0), widen(16))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the trait's contract.
        unsafe {
            _mm512_storeu_ps(to, self.0);
            _mm512_storeu_ps(to.add(16), self.1);
        }
    }

    #[inline(always)]
    unsafe fn store_i8(self, to: *mut i8) {
        // SAFETY: the trait's contract.
        unsafe {
            _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(self.0)));
            _mm_storeu_si128(to.add(16).cast(), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(self.1)));
        }
    }

    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        // SAFETY: the trait's contract.
        unsafe {
            let sign = _mm512_set1_ps(-0.0);
            let limit = _mm512_set1_ps(F16_MAX);
            let narrow = |x: __m512| {
                // Where x is NaN only its sign stays.
                let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(x, x);
                let magnitude = _mm512_maskz_min_ps(number, _mm512_andnot_ps(sign, x), limit);
                _mm512_cvtps_ph::<NEAREST>(_mm512_or_ps(magnitude, _mm512_and_ps(sign, x)))
            };
            _mm256_storeu_si256(to.cast(), narrow(self.0));
            _mm256_storeu_si256(to.add(16).cast(), narrow(self.1));
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Zmm(_mm512_add_ps(self.0, other.0), _mm512_add_ps(self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Zmm(_mm512_sub_ps(self.0, other.0), _mm512_sub_ps(self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Zmm(_mm512_mul_ps(self.0, other.0), _mm512_mul_ps(self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Zmm(_mm512_div_ps(self.0, other.0), _mm512_div_ps(self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn fma(self, factor: Self, addend: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe {
            Zmm(_mm512_fmadd_ps(self.0, factor.0, addend.0), _mm512_fmadd_ps(self.1, factor.1, addend.1))
        }
    }

    #[inline(always)]
    unsafe fn round(self) -> Self {
        // SAFETY: the trait's contract.
        both(self, |x| unsafe { _mm512_roundscale_ps::<NEAREST>(x) })
    }

    #[inline(always)]
    unsafe fn to_code(self) -> Self {
        // SAFETY: the trait's contract.
        both(self, |x| unsafe {
            let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(x, x);
            let low = _mm512_max_ps(x, _mm512_set1_ps(-128.0));
            let clamped = _mm512_maskz_min_ps(number, low, _mm512_set1_ps(127.0));
            _mm512_roundscale_ps::<NEAREST>(clamped)
        })
    }

    #[inline(always)]
    unsafe fn power_of_two(self) -> Self {
        // SAFETY: the trait's contract.
        both(self, |n| unsafe {
            let biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        })
    }

    #[inline(always)]
    unsafe fn keep_where_at_least(self, x: Self, low: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe {
            Zmm(
                _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(x.0, low.0), self.0),
                _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(x.1, low.1), self.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: the trait's contract.
        unsafe {
            let l16 = _mm512_add_ps(self.0, self.1);
            let l8 = _mm256_add_ps(_mm512_castps512_ps256(l16), _mm512_extractf32x8_ps::<1>(l16));
            let l4 = _mm_add_ps(_mm256_castps256_ps128(l8), _mm256_extractf128_ps::<1>(l8));
            let l2 = _mm_add_ps(l4, _mm_movehl_ps(l4, l4));
            _mm_cvtss_f32(_mm_add_ss(l2, _mm_movehdup_ps(l2)))
        }
    }

    #[inline(always)]
    unsafe fn sums<const N: usize>(vectors: [Self; N], to: &mut [f32; N]) {
        if N != 8 {
            for (sum, vector) in to.iter_mut().zip(vectors) {
                // SAFETY: the trait's contract.
                *sum = unsafe { vector.sum() };
            }
            return;
        }
        // Eight trees share their shuffles: each step puts the lower halves of two vectors beside each other, the upper
        // halves likewise, and adds. 33 instructions instead of 72.
        // SAFETY: the trait's contract; N is 8.
        unsafe {
            let v: [__m512; 8] = std::array::from_fn(|i| _mm512_add_ps(vectors[i].0, vectors[i].1));
            let halves = |a, b| {
                let low = _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b);
                _mm512_add_ps(low, _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b))
            };
            let (ab, cd, ef, gh) =
                (halves(v[0], v[1]), halves(v[2], v[3]), halves(v[4], v[5]), halves(v[6], v[7]));
            let quarters = |a, b| {
                let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
                _mm512_add_ps(low, _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b))
            };
            let (abcd, efgh) = (quarters(ab, cd), quarters(ef, gh));
            let low = _mm512_shuffle_ps::<0b01_00_01_00>(abcd, efgh);
            let pairs = _mm512_add_ps(low, _mm512_shuffle_ps::<0b11_10_11_10>(abcd, efgh));
            let low = _mm512_shuffle_ps::<0b10_00_10_00>(pairs, pairs);
            let sums = _mm512_add_ps(low, _mm512_shuffle_ps::<0b11_01_11_01>(pairs, pairs));
            // Now each 128 bits hold two results: a e, b f, c g, d h.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
            let ordered = _mm512_permutexvar_ps(order, sums);
            _mm256_storeu_ps(to.as_mut_ptr(), _mm512_castps512_ps256(ordered));
        }
    }
}
