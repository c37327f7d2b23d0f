//! The float rules compiled for this instruction set: each function is the body of `generic` of the same name.
//!
//! Safety of all functions: the CPU has the features named, and `generic`'s contract holds.

use rawloop_spec::Bits;

use super::lanes::Ymm;
use crate::kernels::attention::{KvRows, PartialMut};
use crate::kernels::generic::{
    attention, gate, head, lanes, norm, project as projection, quantise as codes, rows,
};
use crate::kernels::view::{Block, BlockMut};

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn quantise(x: &[f32], scale: f32, out: &mut [i8]) -> i32 {
    // SAFETY: as above.
    unsafe { codes::quantise::<Ymm>(x, scale, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn requantise(acc: Block<'_, i32>, m: &[f32], scale: f32, out: BlockMut<'_, i8>) {
    // SAFETY: as above.
    unsafe { codes::requantise::<Ymm>(acc, m, scale, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn gate_codes(
    gate: &[i8],
    table: &[f32; 256],
    up: &[i8],
    up_scale: f32,
    scale: f32,
    out: &mut [i8],
) -> i32 {
    // SAFETY: as above.
    unsafe { gate::gate_codes::<Ymm>(gate, table, up, up_scale, scale, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn gate_values(
    gate: &[i8],
    table: &[f32; 256],
    up: &[f32],
    scale: f32,
    out: &mut [i8],
) -> i32 {
    // SAFETY: as above.
    unsafe { gate::gate_values::<Ymm>(gate, table, up, scale, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn norm_codes(codes: &[i8], scale: f32, weight: Option<&[f32]>, out: &mut [f32]) {
    // SAFETY: as above.
    unsafe { norm::norm_codes::<Ymm>(codes, scale, weight, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn norm_codes_add(
    codes: &[i8],
    scale: f32,
    weight: Option<&[f32]>,
    factor: f32,
    residual: &mut [f32],
) {
    // SAFETY: as above.
    unsafe { norm::norm_codes_add::<Ymm>(codes, scale, weight, factor, residual) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn norm(x: &[f32], weight: Option<&[f32]>, out: &mut [f32]) {
    // SAFETY: as above.
    unsafe { norm::norm::<Ymm>(x, weight, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn norm_quantise(x: &[f32], weight: Option<&[f32]>, scale: f32, out: &mut [i8]) -> i32 {
    // SAFETY: as above.
    unsafe { norm::norm_quantise::<Ymm>(x, weight, scale, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn dot(a: &[f32], b: &[f32]) -> f32 {
    // SAFETY: as above.
    unsafe { lanes::dot::<Ymm>(a, b) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn add_scaled(x: &mut [f32], y: &[f32], factor: f32) {
    // SAFETY: as above.
    unsafe { rows::add_scaled::<Ymm>(x, y, factor) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn expand_row(row: &[u8], bits: Bits, scale: f32, factor: f32, out: &mut [f32]) {
    rows::expand_row(row, bits, scale, factor, out)
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn rope(head: &mut [f32], cosine: &[f32], sine: &[f32]) {
    // SAFETY: as above.
    unsafe { rows::rope::<Ymm>(head, cosine, sine) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn project(weights: &[u16], x: Block<'_, f32>, factor: f32, out: BlockMut<'_, f32>) {
    // SAFETY: as above.
    unsafe { projection::project::<Ymm, 2, 1>(weights, x, factor, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn store_f16(x: &[f32], out: &mut [u16]) {
    // SAFETY: as above.
    unsafe { rows::store_f16::<Ymm>(x, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn store_i8(x: &[f32], out: &mut [i8]) -> f32 {
    // SAFETY: as above.
    unsafe { rows::store_i8::<Ymm>(x, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn attend_block(
    q: &[f32],
    dim: usize,
    keys: KvRows<'_>,
    values: KvRows<'_>,
    out: PartialMut<'_>,
) {
    // SAFETY: as above.
    unsafe { attention::attend_block::<Ymm, 2, 2>(q, dim, keys, values, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn merge(into: PartialMut<'_>, block: PartialMut<'_>, dim: usize) {
    // SAFETY: as above.
    unsafe { attention::merge::<Ymm>(into, block, dim) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn finish(weighted: &[f32], sum: &[f32], dim: usize, out: &mut [f32]) {
    // SAFETY: as above.
    unsafe { attention::finish::<Ymm>(weighted, sum, dim, out) }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn limbs(h: &[f32], top: &mut [i8], middle: &mut [i8], low: &mut [i8]) -> (f32, i32) {
    head::limbs(h, top, middle, low)
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn logits(
    top: &[i32],
    middle: &[i32],
    low: &[i32],
    inverse: f32,
    scales: &[f32],
    out: &mut [f32],
) {
    head::logits(top, middle, low, inverse, scales, out)
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn could_pass(
    top: &[i32],
    middle: &[i32],
    reach: i32,
    inverse: f32,
    scales: &[f32],
    best: f32,
) -> bool {
    head::could_pass(top, middle, reach, inverse, scales, best)
}
