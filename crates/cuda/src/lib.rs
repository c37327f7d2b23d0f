//! The CUDA backend of rawloop.
//!
//! A decoded token is a graph of kernels, about one a stage, chained by programmatic dependent launch: each copies its first weights
//! before its input exists. The picked id never leaves the card before the next token starts. Kernels are CUDA C++ in `kernels/`, compiled
//! ahead into one binary that the program embeds; the driver is opened at run time, so nothing of CUDA is needed elsewhere.
//!
//! Reading order: `kernels/linear.cuh` and `kernels/stages.cu` for the design of a stage, `plan` for the list of launches, `backend.rs`
//! for passes and the decode run, `weights.rs` and `kv.rs` for what lies on the card. docs/cuda.md has the measurements. What is still being
//! measured ([`Trial`]) has its kernels behind `kernels/ways.cu`, which the program does not embed.

mod backend;
mod bulk;
mod chain;
mod draft;
mod drafter_weights;
mod draw;
mod driver;
mod form;
mod hidden;
mod kv;
mod memory;
mod options;
mod params;
mod plan;
mod room;
mod rope;
mod runner;
mod sequence;
mod snapshot;
mod stages;
mod taps;
mod weights;

pub use backend::CudaBackend;
pub use bulk::WIDEST as PROMPT_WIDTH;
pub use driver::{DeviceReport, report};
pub use options::{CudaError, CudaOptions, DEFAULT_CONTEXT, DriverError, KvFormat, TablePlace, Trial};
pub use stages::StageClocks;
