//! The CUDA backend of rawloop.
//!
//! A decoded token is a graph of kernels, three a layer where a card has clusters and about one a stage where not, chained by programmatic dependent
//! launch: each copies its first weights before its input exists. The picked id never leaves the card before the next token starts. Kernels are CUDA C++ in `kernels/`, compiled
//! ahead into one binary that the program embeds; the driver is opened at run time, so nothing of CUDA is needed elsewhere.
//!
//! Reading order: `kernels/linear.cuh` and `kernels/enter.cuh` for what all kernels share, `kernels/layer_attention.cu`, `layer_ffn.cu` and `ple.cu` for a layer,
//! `kernels/stages.cu` for what runs in their place, `plan` for the list of launches, `bulk` for a prompt's, `backend.rs`
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
