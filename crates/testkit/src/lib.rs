//! What every backend must pass, and the reference in a backend's clothes to pass it against.
//!
//! [`RefBackend`] puts the interpreter of `rawloop-ref` behind the engine's trait, so that `--backend ref` works everywhere
//! and a test compares like with like. [`conformance`] runs a backend and the reference over the same tokens and finds the
//! first stage at which they differ. [`drafts`] has what a drafter's tests share. [`goldens`] reads what Transformers said;
//! [`allocations`] counts them.

#![deny(unsafe_code)]

pub mod allocations;
pub mod conformance;
pub mod drafts;
pub mod goldens;
pub mod reference;

pub use reference::RefBackend;
