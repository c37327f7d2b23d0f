//! The wgpu backend of rawloop: one set of WGSL kernels for Vulkan, Metal and DX12.
//!
//! A decoded token is one compute pass of a few dispatches a stage; the picked id never leaves the device before the next token starts. All
//! arithmetic is the contract's, to the bit, on every adapter whose additions and multiplications round to nearest: what WGSL leaves open
//! (division, root, fused multiply-add, conversions, contraction) is done by integer operations or corrected by them (`shaders/arithmetic.wgsl`),
//! and an adapter is asked when it is opened whether that works out (`arithmetic.rs`).
//!
//! Reading order: `shaders/dot.wgsl` and `shaders/linear.wgsl` for a kernel, `plan.rs` for the list of dispatches, `backend.rs` for passes,
//! `chain.rs` for the decode run. docs/wgpu.md has the measurements.

mod adapter;
mod arithmetic;
mod backend;
mod chain;
mod gpu;
mod import;
mod kv;
#[cfg(test)]
mod metal;
mod options;
mod params;
mod plan;
mod profile;
mod room;
mod rope;
mod runner;
mod sequence;
mod shaders;
mod snapshot;
mod stages;
mod taps;
mod wait;
mod weights;

pub use adapter::{AdapterReport, adapters};
pub use arithmetic::Arithmetic;
pub use backend::WgpuBackend;
pub use options::{DEFAULT_CONTEXT, Fold, GpuError, KvFormat, TablePlace, WgpuError, WgpuOptions};
pub use profile::StageTime;
pub use shaders::Variant;

/// What an adapter's arithmetic is; opens it for that.
///
/// # Errors
/// There is none of that name, or it fails.
pub fn arithmetic(adapter: Option<&str>) -> Result<Arithmetic, WgpuError> {
    let gpu = gpu::Gpu::open(&adapter::choose(adapter)?, false)?;
    Ok(arithmetic::ask(&gpu)?)
}
