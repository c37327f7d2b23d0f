//! The pack: one `*.rlp` file that holds a model exactly as kernels read it.
//!
//! A fixed header, the tensors in the order in which a token meets them, blobs (tokenizer table, chat template, licence)
//! and a JSON manifest at the end, because hashes are known only when everything before it is written. Loading is mapping
//! and parsing: nothing is copied, nothing repacked. `docs/pack-format.md` describes every byte.
//!
//! Invariants: a [`Pack`] that opened has exactly the tensors of [`rawloop_spec::tensor`] for its geometry, each inside the
//! file, aligned, apart from the others, and its scales, norms and tables are usable numbers; so no later access needs a
//! check. No size read from a file is trusted before it is compared with the file's length. A target path holds a whole
//! pack or what it held before, never a part of one ([`PackWriter`]).
//!
//! Reading order: [`manifest`], [`layout`], [`header`], then [`Pack`] and `check`; [`PackWriter`] for the other direction.

mod account;
mod check;
mod compare;
mod derived;
mod error;
mod hash;
pub mod header;
pub mod layout;
pub mod manifest;
mod memory;
mod pack;
mod values;
mod verify;
mod writer;

pub use account::{BytesPerToken, ClassAccount, account};
pub use compare::{CompareReport, FamilyReport, compare};
pub use error::PackError;
pub use header::Header;
pub use manifest::{
    BlobEntry, CHAT_TEMPLATE, Generation, Head, LICENSE, Manifest, ModelInfo, Provenance, SourceFile,
    TOKENIZER, TensorEntry,
};
pub use pack::{Pack, Tensor};
pub use verify::VerifyReport;
pub use writer::PackWriter;

/// Version of the format this crate writes and reads.
pub const FORMAT_VERSION: u32 = 1;
