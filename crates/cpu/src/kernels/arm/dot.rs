//! The byte products of Arm, one function an instruction.
//!
//! Inline assembly, because the intrinsics of `dotprod` and `i8mm` are unstable in Rust 1.95. Each block is one instruction
//! without memory or flags, so the compiler still allocates the registers and is free to move it.

use std::arch::aarch64::*;
use std::arch::asm;

/// Adds to each i32 of `acc` the four products of its bytes in `codes` and the bytes `4 * LANE ..` of `x`.
///
/// # Safety
/// The CPU has `dotprod`.
#[inline(always)]
pub(super) unsafe fn sdot<const LANE: usize>(
    mut acc: int32x4_t,
    codes: int8x16_t,
    x: int8x16_t,
) -> int32x4_t {
    // SAFETY: the instruction is there by the caller's promise; it reads and writes registers only.
    unsafe {
        asm!(
            "sdot {acc:v}.4s, {codes:v}.16b, {x:v}.4b[{lane}]",
            acc = inout(vreg) acc,
            codes = in(vreg) codes,
            x = in(vreg) x,
            lane = const LANE,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

/// Adds to `acc`, a 2 x 2 matrix, the products of the 2 x 8 bytes of `codes` (rows) and of `x` (tokens).
///
/// # Safety
/// The CPU has `i8mm`.
#[inline(always)]
pub(super) unsafe fn smmla(mut acc: int32x4_t, codes: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: as above.
    unsafe {
        asm!(
            "smmla {acc:v}.4s, {codes:v}.16b, {x:v}.16b",
            acc = inout(vreg) acc,
            codes = in(vreg) codes,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

/// Asks for the line at `at` to be brought into the second-level cache. Any address will do.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    // SAFETY: a hint; it does not fault and changes nothing that a program can see.
    unsafe { asm!("prfm pldl2keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags)) }
}
