//! The table of kernels, and which tables this CPU can run.
//!
//! A table exists for every instruction set the crate was compiled with, and is handed out only after the CPU was asked for
//! its features. That check is what makes the `unsafe` calls in `call.rs` sound, so no other way to a table may exist.

use rawloop_spec::Bits;

use super::attention::{KvRows, PartialMut};
use super::portable;
use super::view::{Activations, Block, BlockMut};

/// Dots of whole tiles with one token: weights, columns, codes, sum of the codes, accumulators.
pub(super) type Matvec = unsafe fn(&[u8], usize, &[i8], i32, &mut [i32]);
/// Dots of whole tiles with several tokens: weights, columns, tokens, accumulators `[tokens x rows]`.
pub(super) type Matmul = unsafe fn(&[u8], usize, Activations<'_>, BlockMut<'_, i32>);

/// Kernels of one instruction set. Get one from [`Kernels::detect`]; all of them give the same bytes.
#[derive(Debug)]
#[allow(clippy::type_complexity)] // The methods of the same names carry the documentation; an alias each would hide the shape.
pub struct Kernels {
    pub(super) name: &'static str,
    pub(super) read: unsafe fn(&[u8]) -> u64,
    pub(super) matvec_i2: Matvec,
    pub(super) matvec_i4: Matvec,
    pub(super) matvec_i8: Matvec,
    pub(super) matmul_i2: Matmul,
    pub(super) matmul_i4: Matmul,
    pub(super) matmul_i8: Matmul,
    pub(super) quantise: unsafe fn(&[f32], f32, &mut [i8]) -> i32,
    pub(super) requantise: unsafe fn(Block<'_, i32>, &[f32], f32, BlockMut<'_, i8>),
    pub(super) gate_codes: unsafe fn(&[i8], &[f32; 256], &[i8], f32, f32, &mut [i8]) -> i32,
    pub(super) gate_values: unsafe fn(&[i8], &[f32; 256], &[f32], f32, &mut [i8]) -> i32,
    pub(super) norm_codes: unsafe fn(&[i8], f32, Option<&[f32]>, &mut [f32]),
    pub(super) norm_codes_add: unsafe fn(&[i8], f32, Option<&[f32]>, f32, &mut [f32]),
    pub(super) norm: unsafe fn(&[f32], Option<&[f32]>, &mut [f32]),
    pub(super) norm_quantise: unsafe fn(&[f32], Option<&[f32]>, f32, &mut [i8]) -> i32,
    pub(super) dot: unsafe fn(&[f32], &[f32]) -> f32,
    pub(super) add_scaled: unsafe fn(&mut [f32], &[f32], f32),
    pub(super) expand_row: unsafe fn(&[u8], Bits, f32, f32, &mut [f32]),
    pub(super) rope: unsafe fn(&mut [f32], &[f32], &[f32]),
    pub(super) project: unsafe fn(&[u16], Block<'_, f32>, f32, BlockMut<'_, f32>),
    pub(super) store_f16: unsafe fn(&[f32], &mut [u16]),
    pub(super) store_i8: unsafe fn(&[f32], &mut [i8]) -> f32,
    pub(super) attend_block: unsafe fn(&[f32], usize, KvRows<'_>, KvRows<'_>, PartialMut<'_>),
    pub(super) merge: unsafe fn(PartialMut<'_>, PartialMut<'_>, usize),
    pub(super) finish: unsafe fn(&[f32], &[f32], usize, &mut [f32]),
    pub(super) limbs: unsafe fn(&[f32], &mut [i8], &mut [i8], &mut [i8]) -> (f32, i32),
    pub(super) logits: unsafe fn(&[i32], &[i32], &[i32], f32, &[f32], &mut [f32]),
    pub(super) could_pass: unsafe fn(&[i32], &[i32], i32, f32, &[f32], f32) -> bool,
}

impl Kernels {
    /// The tables that this CPU can run, fastest first; the last is `portable`.
    pub fn available() -> Vec<&'static Kernels> {
        let mut tables = Vec::new();
        #[cfg(target_arch = "x86_64")]
        tables.extend(super::x86::available());
        #[cfg(target_arch = "aarch64")]
        tables.extend(super::arm::available());
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        tables.extend(super::wasm::available());
        tables.push(&portable::KERNELS);
        tables
    }

    /// The fastest table that this CPU can run.
    pub fn detect() -> &'static Kernels {
        Self::available()[0]
    }

    /// The table called `name`, if this CPU can run it.
    pub fn by_name(name: &str) -> Option<&'static Kernels> {
        Self::available().into_iter().find(|table| table.name == name)
    }

    /// Name of the instruction set: `portable`; `avx2`, `avxvnni`, `avx512vl`, `avx512vnni`; `neon`, `neon-i8mm`; `simd128`,
    /// `relaxed-simd`.
    pub fn name(&self) -> &'static str {
        self.name
    }
}
