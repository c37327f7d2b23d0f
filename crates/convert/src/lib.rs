//! Official checkpoint folder to pack, and synthetic models of any shape.
//!
//! [`convert()`] reads the mobile QAT layout (safetensors, packed 2/4/8-bit codes, row scales, static activation scales) and
//! an optional MTP assistant, checks them against the configuration and the arithmetic contract, and writes one pack in
//! kernel layout. What the contract cannot run exactly is refused by name; nothing is guessed, nothing is rounded twice.
//!
//! Invariants: the same input gives the same bytes; memory does not grow with the model; a failed or cancelled conversion
//! leaves the output as it was.
//!
//! [`synth()`] makes models of any shape with random weights, for tests and benchmarks.
//!
//! Reading order: [`part`] (every tensor there is), `inventory` (the check), `plan` (which pack tensor comes from what),
//! `emit` (how it gets there), then `convert`.

mod assistant;
mod config;
mod convert;
mod emit;
mod error;
mod fields;
mod generation;
mod inventory;
mod names;
mod ordered;
pub mod part;
mod plan;
mod progress;
mod provenance;
mod quantization;
pub mod safetensors;
pub mod source;
mod synth;
mod text;
mod values;

pub use convert::{ConvertOptions, PROFILE, Report, convert};
pub use error::ConvertError;
pub use names::Names;
pub use progress::{Phase, Progress};
pub use provenance::{Origin, SOURCE_FILE};
pub use synth::{SynthOptions, SynthReport, synth};
