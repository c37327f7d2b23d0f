//! AVX2 with FMA and F16C: registers of 256 bits, integer dots by `maddubs` (u8 times s8, pairs added in i16).

mod lanes;
mod linear;
mod rows;

use crate::kernels::table::Kernels;

/// The table, where the CPU has what it needs.
pub(super) fn table() -> Option<&'static Kernels> {
    let usable = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    usable.then_some(&KERNELS)
}

/// A constant, so that a table that improves on it can take the rest from here.
pub(super) const KERNELS: Kernels = Kernels {
    name: "avx2",
    read: linear::read,
    matvec_i2: linear::matvec::<2>,
    matvec_i4: linear::matvec::<4>,
    matvec_i8: linear::matvec_i8,
    matmul_i2: linear::matmul::<2>,
    matmul_i4: linear::matmul::<4>,
    matmul_i8: linear::matmul_i8,
    quantise: rows::quantise,
    requantise: rows::requantise,
    gate_codes: rows::gate_codes,
    gate_values: rows::gate_values,
    norm_codes: rows::norm_codes,
    norm_codes_add: rows::norm_codes_add,
    norm: rows::norm,
    norm_quantise: rows::norm_quantise,
    dot: rows::dot,
    add_scaled: rows::add_scaled,
    expand_row: rows::expand_row,
    rope: rows::rope,
    project: rows::project,
    store_f16: rows::store_f16,
    store_i8: rows::store_i8,
    attend_block: rows::attend_block,
    merge: rows::merge,
    finish: rows::finish,
    limbs: rows::limbs,
    logits: rows::logits,
    could_pass: rows::could_pass,
};
