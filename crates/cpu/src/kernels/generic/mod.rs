//! The float rules of the contract, each written once over [`Lanes`](lanes::Lanes).
//!
//! Bodies are `#[inline(always)]`: an instruction set calls them from a function that carries its `target_feature`, and the
//! whole body is compiled with it. All of them are `unsafe` with one contract: **the CPU has the features of the `Lanes`
//! in use, and lengths are as the method of `Kernels` of the same name checked them** (repeated in their debug assertions).

pub(crate) mod attention;
pub(crate) mod gate;
pub(crate) mod head;
pub(crate) mod lanes;
pub(crate) mod norm;
pub(crate) mod project;
pub(crate) mod quantise;
pub(crate) mod rows;
