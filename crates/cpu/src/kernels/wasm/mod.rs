//! WebAssembly with 128-bit vectors: `simd128`, in every browser since 2023.
//!
//! WebAssembly cannot be asked for its features at run time: a module with an unknown instruction does not load. So the table
//! exists where the crate is compiled with `-C target-feature=+simd128`, and nothing is detected.
//!
//! Two things are missing. There is no fused multiply-add with one rounding (`relaxed_madd` may round twice, as the machine
//! likes), and the contract asks for one: `fma.rs` makes it from doubles. And bytes cannot be multiplied: `linear.rs` widens to 16 bits.

mod fma;
mod lanes;
mod linear;
mod peak;

use lanes::Wasm;
pub(super) use peak::{f32_peak, int8_peak};

use super::generic::{attention, gate, head, lanes as sums, norm, project, quantise, rows};
use super::table::Kernels;

/// The tables of this module.
pub(super) fn available() -> impl Iterator<Item = &'static Kernels> {
    [&SIMD128].into_iter()
}

static SIMD128: Kernels = Kernels {
    name: "simd128",
    read: linear::read,
    matvec_i2: linear::matvec::<2>,
    matvec_i4: linear::matvec::<4>,
    matvec_i8: linear::matvec::<8>,
    matmul_i2: linear::matmul::<2>,
    matmul_i4: linear::matmul::<4>,
    matmul_i8: linear::matmul::<8>,
    quantise: quantise::quantise::<Wasm>,
    requantise: quantise::requantise::<Wasm>,
    gate_codes: gate::gate_codes::<Wasm>,
    gate_values: gate::gate_values::<Wasm>,
    norm_codes: norm::norm_codes::<Wasm>,
    norm_codes_add: norm::norm_codes_add::<Wasm>,
    norm: norm::norm::<Wasm>,
    norm_quantise: norm::norm_quantise::<Wasm>,
    dot: sums::dot::<Wasm>,
    add_scaled: rows::add_scaled::<Wasm>,
    expand_row: rows::expand_row,
    rope: rows::rope::<Wasm>,
    project: project::project::<Wasm, 1, 1>,
    store_f16: rows::store_f16::<Wasm>,
    store_i8: rows::store_i8::<Wasm>,
    attend_block: attention::attend_block::<Wasm, 1, 1>,
    merge: attention::merge::<Wasm>,
    finish: attention::finish::<Wasm>,
    limbs: head::limbs,
    logits: head::logits,
    could_pass: head::could_pass,
};
