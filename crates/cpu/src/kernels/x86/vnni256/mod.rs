//! VNNI on registers of 256 bits, in its two encodings: `avxvnni` (laptops without AVX-512) and `avx512vl`.
//!
//! Both compute the same from one text; only the instruction differs. `avx512vl` serves a CPU that lowers its clock under
//! 512-bit load, and it is how a machine with AVX-512 tests the code of the other. The float rules are those of AVX2.

mod linear;

use super::avx2;
use crate::kernels::table::Kernels;

/// The tables that this CPU can run.
pub(super) fn tables() -> [Option<&'static Kernels>; 2] {
    let avx2 = avx2::table().is_some();
    let vex = avx2 && is_x86_feature_detected!("avxvnni");
    let evex = avx2 && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512vnni");
    [vex.then_some(&AVXVNNI), evex.then_some(&AVX512VL)]
}

static AVXVNNI: Kernels = Kernels {
    name: "avxvnni",
    matvec_i2: linear::vex::matvec::<2>,
    matvec_i4: linear::vex::matvec::<4>,
    matvec_i8: linear::vex::matvec::<8>,
    matmul_i2: linear::vex::matmul::<2>,
    matmul_i4: linear::vex::matmul::<4>,
    matmul_i8: linear::vex::matmul::<8>,
    ..avx2::KERNELS
};

static AVX512VL: Kernels = Kernels {
    name: "avx512vl",
    matvec_i2: linear::evex::matvec::<2>,
    matvec_i4: linear::evex::matvec::<4>,
    matvec_i8: linear::evex::matvec::<8>,
    matmul_i2: linear::evex::matmul::<2>,
    matmul_i4: linear::evex::matmul::<4>,
    matmul_i8: linear::evex::matmul::<8>,
    ..avx2::KERNELS
};
