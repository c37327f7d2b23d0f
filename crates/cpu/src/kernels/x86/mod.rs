//! x86-64: AVX2 for every machine since 2013, AVX-512 with VNNI for most since 2019.

mod avx2;
mod avx512vnni;

use super::table::Kernels;

/// The tables that this CPU can run, fastest first.
pub(super) fn available() -> impl Iterator<Item = &'static Kernels> {
    [avx512vnni::table(), avx2::table()].into_iter().flatten()
}
