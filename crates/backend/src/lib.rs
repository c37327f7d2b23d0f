//! The seam between the engine, which knows ids and text, and whatever runs the model.
//!
//! [`Backend`] is the trait; [`columns`] is what every implementation does first with a step: resolve it into columns, one
//! for each token, checked before anything changes; [`runs`] cuts a decode into runs of a device. No text, no file format and no kernel in here, so that kernels and engine are built
//! apart. The engine offers this crate as `rawloop_engine::backend`.

mod backend;
pub mod columns;
pub mod runs;

pub use backend::*;
