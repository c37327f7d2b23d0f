//! WebAssembly with 128-bit vectors: `simd128`, and `relaxed-simd` on top of it.
//!
//! WebAssembly cannot be asked for its features at run time: a module with an unknown instruction does not load. So a table
//! exists where the crate is compiled with `-C target-feature=+simd128` (every browser since 2023) or `+simd128,+relaxed-simd`.
//!
//! Two things are missing from `simd128`. There is no fused multiply-add with one rounding, and the contract asks for one:
//! `fma.rs` makes it from doubles, at a tenth of the speed. And bytes cannot be multiplied: `linear.rs` widens to 16 bits.
//! `relaxed-simd` has both, but its multiply-add may round once or twice, as the engine likes, the same way all the time. So
//! it is tried at start-up, and the table is handed out only where it rounds once.

mod fma;
mod lanes;
mod linear;
mod peak;

use lanes::Wasm;
use linear::Words;
pub(super) use peak::{f32_peak, int8_peak};

use super::generic::{attention, gate, head, lanes as sums, norm, project, quantise, rows};
use super::table::Kernels;

/// The tables of this module, fastest first.
pub(super) fn available() -> impl Iterator<Item = &'static Kernels> {
    #[cfg(target_feature = "relaxed-simd")]
    let relaxed = fma::relaxed_rounds_once().then_some(&RELAXED_SIMD);
    #[cfg(not(target_feature = "relaxed-simd"))]
    let relaxed = None;
    [relaxed, Some(&SIMD128)].into_iter().flatten()
}

static SIMD128: Kernels = table::<false>("simd128");

#[cfg(target_feature = "relaxed-simd")]
static RELAXED_SIMD: Kernels = Kernels {
    matvec_i2: linear::matvec::<linear::Bytes, 2>,
    matvec_i4: linear::matvec::<linear::Bytes, 4>,
    matmul_i2: linear::matmul::<linear::Bytes, 2>,
    matmul_i4: linear::matmul::<linear::Bytes, 4>,
    ..table::<true>("relaxed-simd")
};

/// The table whose multiply-add is made of doubles, or the engine's own.
const fn table<const RELAXED: bool>(name: &'static str) -> Kernels {
    Kernels {
        name,
        read: linear::read,
        matvec_i2: linear::matvec::<Words, 2>,
        matvec_i4: linear::matvec::<Words, 4>,
        matvec_i8: linear::matvec::<Words, 8>,
        matmul_i2: linear::matmul::<Words, 2>,
        matmul_i4: linear::matmul::<Words, 4>,
        matmul_i8: linear::matmul::<Words, 8>,
        quantise: quantise::quantise::<Wasm<RELAXED>>,
        requantise: quantise::requantise::<Wasm<RELAXED>>,
        gate_codes: gate::gate_codes::<Wasm<RELAXED>>,
        gate_values: gate::gate_values::<Wasm<RELAXED>>,
        norm_codes: norm::norm_codes::<Wasm<RELAXED>>,
        norm_codes_add: norm::norm_codes_add::<Wasm<RELAXED>>,
        norm: norm::norm::<Wasm<RELAXED>>,
        norm_quantise: norm::norm_quantise::<Wasm<RELAXED>>,
        dot: sums::dot::<Wasm<RELAXED>>,
        add_scaled: rows::add_scaled::<Wasm<RELAXED>>,
        expand_row: rows::expand_row,
        rope: rows::rope::<Wasm<RELAXED>>,
        project: project::project::<Wasm<RELAXED>, 1, 1>,
        store_f16: rows::store_f16::<Wasm<RELAXED>>,
        store_i8: rows::store_i8::<Wasm<RELAXED>>,
        attend_block: attention::attend_block::<Wasm<RELAXED>, 1, 1>,
        merge: attention::merge::<Wasm<RELAXED>>,
        finish: attention::finish::<Wasm<RELAXED>>,
        limbs: head::limbs,
        logits: head::logits,
        could_pass: head::could_pass,
    }
}
