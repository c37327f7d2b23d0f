//! Register-only loops: what the multipliers of a CPU give when nothing waits for memory.
//!
//! A prefill is judged by the share of this that it reaches, so each family is measured by the instructions that its kernels
//! are made of: `vpdpbusd` at the width of the table; `maddubs` with the widening that 4-bit codes need every eighth time; `fma`.
//! Enough sums are under way to hide latency. The portable loops read 64 codes from the first-level cache, as the portable kernels do.
//!
//! A table that this file does not know has no loop: no figure is better than one of other instructions.

use std::hint::black_box;

use super::Kernels;

/// Steps of a loop, and what one step does.
#[derive(Clone, Copy)]
pub(crate) struct PeakLoop {
    pub(super) run: unsafe fn(u64),
    /// Multiply-adds of a step.
    pub operations: u64,
}

impl PeakLoop {
    /// Runs so many steps.
    pub fn run(self, steps: u64) {
        // SAFETY: the loop belongs to a table, and tables are handed out for the CPU they run on.
        unsafe { (self.run)(steps) }
    }
}

impl Kernels {
    /// Products of a code and an activation, added to i32.
    pub(crate) fn int8_peak(&self) -> Option<PeakLoop> {
        match self.name() {
            "portable" => Some(PeakLoop { run: portable::int8, operations: 64 }),
            #[cfg(target_arch = "x86_64")]
            "avx2" => Some(PeakLoop { run: x86::int8_avx2, operations: 8 * 6 * 32 }),
            #[cfg(target_arch = "x86_64")]
            "avxvnni" => Some(PeakLoop { run: x86::int8_avxvnni, operations: 12 * 32 }),
            #[cfg(target_arch = "x86_64")]
            "avx512vl" => Some(PeakLoop { run: x86::int8_avx512vl, operations: 12 * 32 }),
            #[cfg(target_arch = "x86_64")]
            "avx512vnni" => Some(PeakLoop { run: x86::int8_avx512vnni, operations: 16 * 64 }),
            #[cfg(target_arch = "aarch64")]
            name => super::arm::int8_peak(name),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            name => super::wasm::int8_peak(name),
            #[allow(unreachable_patterns)] // Where a line above takes every name.
            _ => None,
        }
    }

    /// Fused multiply-adds of floats.
    pub(crate) fn f32_peak(&self) -> Option<PeakLoop> {
        match self.name() {
            "portable" => Some(PeakLoop { run: portable::f32, operations: 32 }),
            #[cfg(target_arch = "x86_64")]
            "avx2" | "avxvnni" | "avx512vl" => Some(PeakLoop { run: x86::f32_avx2, operations: 12 * 8 }),
            #[cfg(target_arch = "x86_64")]
            "avx512vnni" => Some(PeakLoop { run: x86::f32_avx512, operations: 16 * 16 }),
            #[cfg(target_arch = "aarch64")]
            name => super::arm::f32_peak(name),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            name => super::wasm::f32_peak(name),
            #[allow(unreachable_patterns)] // Where a line above takes every name.
            _ => None,
        }
    }
}

mod portable {
    use super::black_box;

    /// Codes as i16: the widest products that every compiler finds a vector for.
    pub(super) unsafe fn int8(steps: u64) {
        let (codes, x) = ([3i16; 64], black_box(-5i16));
        let mut acc = [0i32; 64];
        for _ in 0..steps {
            for (acc, &code) in acc.iter_mut().zip(black_box(&codes)) {
                *acc = acc.wrapping_add(code as i32 * x as i32);
            }
        }
        black_box(acc);
    }

    /// A library call each, where the compiler may not assume the instruction.
    pub(super) unsafe fn f32(steps: u64) {
        let (a, b) = ([0.5f32; 32], black_box(0.25f32));
        let mut acc = [0f32; 32];
        for _ in 0..steps {
            for (acc, a) in acc.iter_mut().zip(black_box(&a)) {
                *acc = a.mul_add(b, *acc);
            }
        }
        black_box(acc);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::*;

    use super::black_box;

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) unsafe fn int8_avx512vnni(steps: u64) {
        let (codes, x) = (black_box(_mm512_set1_epi8(3)), black_box(_mm512_set1_epi8(-5)));
        let mut acc = [_mm512_setzero_si512(); 16];
        for _ in 0..steps {
            for acc in &mut acc {
                *acc = _mm512_dpbusd_epi32(*acc, codes, x);
            }
        }
        black_box(acc);
    }

    #[target_feature(enable = "avx2,avx512f,avx512vl,avx512vnni")]
    pub(super) unsafe fn int8_avx512vl(steps: u64) {
        let (codes, x) = (black_box(_mm256_set1_epi8(3)), black_box(_mm256_set1_epi8(-5)));
        let mut acc = [_mm256_setzero_si256(); 12];
        for _ in 0..steps {
            for acc in &mut acc {
                *acc = _mm256_dpbusd_epi32(*acc, codes, x);
            }
        }
        black_box(acc);
    }

    #[target_feature(enable = "avx2,avxvnni")]
    pub(super) unsafe fn int8_avxvnni(steps: u64) {
        let (codes, x) = (black_box(_mm256_set1_epi8(3)), black_box(_mm256_set1_epi8(-5)));
        let mut acc = [_mm256_setzero_si256(); 12];
        for _ in 0..steps {
            for acc in &mut acc {
                *acc = _mm256_dpbusd_avx_epi32(*acc, codes, x);
            }
        }
        black_box(acc);
    }

    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn f32_avx512(steps: u64) {
        let (a, b) = (black_box(_mm512_set1_ps(0.5)), black_box(_mm512_set1_ps(1e-3)));
        let mut acc = [_mm512_setzero_ps(); 16];
        for _ in 0..steps {
            for acc in &mut acc {
                *acc = _mm512_fmadd_ps(a, b, *acc);
            }
        }
        black_box(acc);
    }

    /// Eight rounds of six `maddubs`, then six widenings: what four groups of 4-bit codes take.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn int8_avx2(steps: u64) {
        let (mut codes, x) = (black_box(_mm256_set1_epi8(3)), black_box(_mm256_set1_epi8(-5)));
        let ones = _mm256_set1_epi16(1);
        let mut acc = [_mm256_setzero_si256(); 6];
        for _ in 0..steps {
            let mut pairs = [_mm256_setzero_si256(); 6];
            for _ in 0..8 {
                for pairs in &mut pairs {
                    // SAFETY: no instruction at all. The register looks changed, so that no product is taken for another.
                    unsafe {
                        asm!("/* {0} */", inout(ymm_reg) codes, options(nomem, nostack, preserves_flags))
                    };
                    *pairs = _mm256_add_epi16(*pairs, _mm256_maddubs_epi16(codes, x));
                }
            }
            for (acc, pairs) in acc.iter_mut().zip(pairs) {
                *acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(pairs, ones));
            }
        }
        black_box(acc);
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn f32_avx2(steps: u64) {
        let (a, b) = (black_box(_mm256_set1_ps(0.5)), black_box(_mm256_set1_ps(1e-3)));
        let mut acc = [_mm256_setzero_ps(); 12];
        for _ in 0..steps {
            for acc in &mut acc {
                *acc = _mm256_fmadd_ps(a, b, *acc);
            }
        }
        black_box(acc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_this_cpu_has_its_loops() {
        for table in Kernels::available() {
            for peak in [table.int8_peak(), table.f32_peak()] {
                let peak =
                    peak.unwrap_or_else(|| panic!("{} has no loop in this file: add one", table.name()));
                peak.run(3);
                assert!(peak.operations >= 32);
            }
        }
    }
}
