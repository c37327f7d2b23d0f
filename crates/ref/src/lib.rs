//! The specification of the arithmetic, as a program: Gemma 4 with plain loops.
//!
//! Every backend must equal this crate at every tap. So nothing here is clever: no SIMD, no `unsafe`, no threads, one token
//! at a time; each function names its rule of the contract (docs/spec.md). Read [`forward`] first, then [`linear`],
//! [`norm`], [`attention`], [`head`]; [`drafter`] is the MTP drafter in the same style.

#![forbid(unsafe_code)]

pub mod attention;
pub mod drafter;
pub mod forward;
pub mod generate;
pub mod head;
pub mod kv;
pub mod linear;
pub mod norm;
pub mod weights;

pub use drafter::Drafter;
pub use forward::TokenState;
pub use generate::{Greedy, greedy};
pub use kv::{KvCache, KvFormat};
pub use weights::{Model, ModelError};
