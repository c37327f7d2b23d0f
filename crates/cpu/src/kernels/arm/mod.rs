//! AArch64: `neon` (dot products of bytes, Armv8.2, 2017 on) and `neon-i8mm` (matrix products of bytes, Armv8.6, 2021 on).
//!
//! Plain NEON is part of every AArch64 target, so the float rules need no `target_feature` and come straight from `generic`
//! over eight registers of 128 bits. The instructions that make the dots are optional, and a CPU without them takes the
//! portable table: without `sdot` a product of bytes costs four times as much, and what is left is not worth a third text.
//!
//! ```text
//! lanes.rs   32 lanes as 8 x 128 bits
//! dot.rs     the two instructions, as inline assembly: their intrinsics are unstable in Rust 1.95
//! linear.rs  one token, and up to four: codes unpacked in registers
//! wide.rs    more: the codes of a strip are unpacked once to the stack; `sdot` and `smmla` multiply from there
//! ```

mod dot;
mod lanes;
mod linear;
mod peak;
mod wide;

use std::arch::is_aarch64_feature_detected;

use lanes::Neon;
pub(super) use peak::{f32_peak, int8_peak};

use super::generic::{attention, gate, head, lanes as sums, norm, project, quantise, rows};
use super::table::Kernels;

/// The tables that this CPU can run, fastest first.
pub(super) fn available() -> impl Iterator<Item = &'static Kernels> {
    let dotprod = is_aarch64_feature_detected!("dotprod");
    let i8mm = dotprod && is_aarch64_feature_detected!("i8mm");
    [i8mm.then_some(&NEON_I8MM), dotprod.then_some(&NEON)].into_iter().flatten()
}

static NEON: Kernels = KERNELS;

static NEON_I8MM: Kernels = Kernels {
    name: "neon-i8mm",
    matmul_i2: linear::i8mm::matmul::<2>,
    matmul_i4: linear::i8mm::matmul::<4>,
    matmul_i8: linear::i8mm::matmul::<8>,
    ..KERNELS
};

const KERNELS: Kernels = Kernels {
    name: "neon",
    read: linear::read,
    matvec_i2: linear::matvec_i2,
    matvec_i4: linear::matvec_i4,
    matvec_i8: linear::matvec_i8,
    matmul_i2: linear::dotprod::matmul::<2>,
    matmul_i4: linear::dotprod::matmul::<4>,
    matmul_i8: linear::dotprod::matmul::<8>,
    quantise: quantise::quantise::<Neon>,
    requantise: quantise::requantise::<Neon>,
    gate_codes: gate::gate_codes::<Neon>,
    gate_values: gate::gate_values::<Neon>,
    norm_codes: norm::norm_codes::<Neon>,
    norm_codes_add: norm::norm_codes_add::<Neon>,
    norm: norm::norm::<Neon>,
    norm_quantise: norm::norm_quantise::<Neon>,
    dot: sums::dot::<Neon>,
    add_scaled: rows::add_scaled::<Neon>,
    expand_row: rows::expand_row,
    rope: rows::rope::<Neon>,
    // 16 registers of sums and 8 of weights; a second row would need 40.
    project: project::project::<Neon, 1, 2>,
    store_f16: rows::store_f16::<Neon>,
    store_i8: rows::store_i8::<Neon>,
    // Two heads at a time: 16 registers of sums beside the 8 of a key.
    attend_block: attention::attend_block::<Neon, 2, 2>,
    merge: attention::merge::<Neon>,
    finish: attention::finish::<Neon>,
    limbs: head::limbs,
    logits: head::logits,
    could_pass: head::could_pass,
};
