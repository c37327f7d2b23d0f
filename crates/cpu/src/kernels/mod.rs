//! What a CPU computes: one table of functions per instruction set, chosen once at start-up.
//!
//! Every table gives the same bytes. Integer sums are exact, so their order is free; float sums have the 32 lanes of contract
//! rule 6 whatever the width of a register (two of 512 bits, four of 256, or plain loops). That is why a model's output
//! does not depend on the machine, and why the tests of this module ask for equality and nothing else.
//!
//! ```text
//! generic/     float rules written once over `Lanes`, a vector of 32 f32
//! portable/    `Lanes` as an array; integer loops; the table every other one falls back to
//! x86/avx2/    `Lanes` as 4 x 256 bits; `maddubs` dots
//! x86/vnni256/ the floats of AVX2; `vpdpbusd` dots on 256 bits, in two encodings
//! x86/avx512vnni/  `Lanes` as 2 x 512 bits; `vpdpbusd` dots
//! arm/         `Lanes` as 8 x 128 bits; `sdot` dots, and `smmla` with many tokens
//! wasm/        `Lanes` as 8 x 128 bits; dots of 16 bits and `fma` made of doubles, or relaxed ones where they are exact
//! ```
//!
//! The files of each folder carry the same names, so two instruction sets can be read side by side. A new one is a folder
//! with `lanes.rs`, `linear.rs`, a table in `mod.rs`, and a line in [`Kernels::available`].
//!
//! Callers use the methods of [`Kernels`] (`call.rs`): they check every length once, outside the loops. The functions in the
//! tables are `unsafe` and check nothing. Reading order: `call.rs`, `generic/lanes.rs`, `portable/linear.rs`, then an ISA.

#[cfg(target_arch = "aarch64")]
mod arm;
mod attention;
mod call;
mod generic;
mod head;
mod peak;
mod portable;
mod table;
mod view;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use attention::{AttentionState, KvRows};
pub use head::{Best, HeadInput};
pub(crate) use peak::PeakLoop;
pub use table::Kernels;
pub use view::{Activations, Block, BlockMut, Shared, Tiles, TilesError};
