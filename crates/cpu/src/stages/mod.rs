//! The stages of the program, each for all columns of a pass.
//!
//! One file a kind; `linear.rs` and `rows.rs` hold what most of them are made of: quantised linears cut into tiles, and the row
//! work between two of them. Nothing in here allocates once the backend is open.

pub(crate) mod attention;
pub(crate) mod by_keys;
mod embed;
mod ffn;
pub(crate) mod head;
pub(crate) mod linear;
mod output;
mod ple;
mod qkv;
mod rows;
