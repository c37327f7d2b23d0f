//! What Gemma 4 is, as data: geometry, tensors, the stage program and the constants of the arithmetic contract.
//!
//! No I/O and no weights in here. A [`Geometry`] comes from a checkpoint's configuration or a preset; [`tensor`] lists every
//! tensor a pack of that geometry holds; [`Program`] lists the stages a token passes. `rawloop-ref` interprets the program
//! with plain loops, every backend executes the same list its own way.
//!
//! Invariants: nothing here depends on a backend; no literal of one model outside [`presets`]; every number that decides a
//! bit of the output ([`contract`]) stands here once. Reading order: [`geometry`], [`program`], [`contract`], [`tile`].

pub mod bits;
pub mod config;
pub mod contract;
pub mod drafter;
pub mod geometry;
pub mod presets;
pub mod program;
pub mod tap;
pub mod tensor;
pub mod tile;

pub use bits::Bits;
pub use config::{TextConfig, Unsupported};
pub use drafter::{DrafterGeometry, DrafterLayer, OrderedHead};
pub use geometry::{AttentionKind, Geometry, Layer, LayerBits, LinearKind, Rope};
pub use program::{Linear, Program, Stage};
pub use tap::{TapSink, TapValue};
pub use tensor::{Class, Format, TensorSpec};
