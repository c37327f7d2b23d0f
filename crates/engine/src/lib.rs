//! The engine: everything between a backend that knows ids and a person who knows text.
//!
//! [`backend`] is the seam to the crates that run the model. No file format and no kernel in here.

pub mod backend;
pub mod sample;
