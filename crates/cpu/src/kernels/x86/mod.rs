//! x86-64: AVX2 since 2013, AVX-512 with VNNI on servers since 2019, AVX-VNNI on laptops since 2021.

mod avx2;
mod avx512vnni;
mod vnni256;

use super::table::Kernels;

/// Columns whose codes are copied to the stack before they are used, with one token.
///
/// Weights stream through the first-level cache and push out the activations of a long row before the next tile reads them
/// again; each of those misses costs the stream more than its bytes (12288 columns: 0.80 of a plain read's speed). A copy
/// of 768 codes is used within 12 KiB of weights at 4 bits, so it stays, and the misses come in one burst: 1.07 to 1.13.
const HOT_COLUMNS: usize = 768;

/// The copy.
struct Hot([i8; HOT_COLUMNS]);

impl Hot {
    fn new() -> Self {
        Hot([0; HOT_COLUMNS])
    }

    /// The codes of `x`, at most [`HOT_COLUMNS`], in memory that was just written.
    #[inline(always)]
    fn copy(&mut self, x: &[i8]) -> *const i8 {
        self.0[..x.len()].copy_from_slice(x);
        self.0.as_ptr()
    }
}

/// The tables that this CPU can run, fastest first.
pub(super) fn available() -> impl Iterator<Item = &'static Kernels> {
    let [avxvnni, avx512vl] = vnni256::tables();
    [avx512vnni::table(), avx512vl, avxvnni, avx2::table()].into_iter().flatten()
}
