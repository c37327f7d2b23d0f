//! The CPU backend of rawloop.
//!
//! Two things carry it: [`kernels`], one table of functions per instruction set, all equal bit for bit, and [`team`], a few
//! threads that spin between the stages of a token. Read [`kernels`] first.

pub mod kernels;
mod sync;
pub mod team;
