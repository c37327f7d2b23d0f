//! The CPU backend of rawloop.
//!
//! Three things carry it: [`kernels`], one table of functions per instruction set, all equal bit for bit; [`team`], a few
//! threads that spin between the stages of a token; and [`CpuBackend`], which runs the stage program with both. Read [`kernels`]
//! first, then `backend.rs`.

mod backend;
mod columns;
mod cost;
mod counters;
mod crew;
mod cut;
mod draft;
mod drafter_weights;
mod executor;
pub mod kernels;
mod kv;
mod options;
mod parts;
mod peak;
mod sequence;
mod snapshot;
mod stages;
mod stream;
mod sync;
pub mod team;
pub mod topology;
mod weights;
mod workspace;

pub use backend::CpuBackend;
pub use cost::{Cost, StageCost};
pub use counters::{Clock, Counters, STAGE_KINDS};
pub use kv::KvFormat;
pub use options::{CpuError, CpuOptions, DEFAULT_CONTEXT, MOST_THREADS};
