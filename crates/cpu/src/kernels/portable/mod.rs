//! Plain Rust for any CPU: the table that every other one falls back to, and the easiest to read.

mod lanes;
mod linear;

use lanes::Array;

use super::generic::{attention, gate, head, lanes as sums, norm, project, quantise, rows};
use super::table::Kernels;

/// The table of every CPU. A constant, so that another table can take from here what it does not improve on.
pub(super) const KERNELS: Kernels = Kernels {
    name: "portable",
    read: linear::read,
    matvec_i2: linear::matvec::<2>,
    matvec_i4: linear::matvec::<4>,
    matvec_i8: linear::matvec::<8>,
    matmul_i2: linear::matmul::<2>,
    matmul_i4: linear::matmul::<4>,
    matmul_i8: linear::matmul::<8>,
    quantise: quantise::quantise::<Array>,
    requantise: quantise::requantise::<Array>,
    gate_codes: gate::gate_codes::<Array>,
    gate_values: gate::gate_values::<Array>,
    norm_codes: norm::norm_codes::<Array>,
    norm_codes_add: norm::norm_codes_add::<Array>,
    norm: norm::norm::<Array>,
    norm_quantise: norm::norm_quantise::<Array>,
    dot: sums::dot::<Array>,
    add_scaled: rows::add_scaled::<Array>,
    expand_row: rows::expand_row,
    rope: rows::rope::<Array>,
    project: project::project::<Array, 1, 1>,
    store_f16: rows::store_f16::<Array>,
    store_i8: rows::store_i8::<Array>,
    attend_block: attention::attend_block::<Array, 1, 1>,
    merge: attention::merge::<Array>,
    finish: attention::finish::<Array>,
    limbs: head::limbs,
    logits: head::logits,
    could_pass: head::could_pass,
};
