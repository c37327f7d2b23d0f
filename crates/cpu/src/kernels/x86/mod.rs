//! x86-64: AVX2 since 2013, AVX-512 with VNNI on servers since 2019, AVX-VNNI on laptops since 2021.

mod avx2;
mod avx512vnni;
mod vnni256;

use super::table::Kernels;

/// The tables that this CPU can run, fastest first.
pub(super) fn available() -> impl Iterator<Item = &'static Kernels> {
    let [avxvnni, avx512vl] = vnni256::tables();
    [avx512vnni::table(), avx512vl, avxvnni, avx2::table()].into_iter().flatten()
}
