//! What can be wrong with a pack, said so that the reader of the message knows which file, which part and what to do.
//!
//! Values that come out of a damaged or hostile file are shortened and escaped before they enter a message.

use std::io;
use std::path::Path;

use rawloop_spec::Unsupported;

const DAMAGED: &str = "the file is damaged or not whole: copy it again or convert the checkpoint again";

/// A refusal to read or write a pack.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The operating system refused.
    #[error("{file}: cannot {action}: {source}")]
    Io {
        /// The pack.
        file: String,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The host stores numbers the other way round.
    #[error("{file}: packs are little endian and this host is big endian, which is not supported")]
    BigEndian {
        /// The pack.
        file: String,
    },
    /// Another kind of file.
    #[error(
        "{file}: not a pack: it starts with {found}, expected RAWLOOP\\0; \
         make a pack from a checkpoint with `rawloop convert`"
    )]
    Magic {
        /// The file.
        file: String,
        /// Its first bytes, escaped.
        found: String,
    },
    /// A pack of another version.
    #[error(
        "{file}: pack format version {found}, this build reads version {expected}; \
         convert the checkpoint again with this build or open the file with the build that wrote it"
    )]
    Version {
        /// The pack.
        file: String,
        /// Its version.
        found: u32,
        /// The version this build reads.
        expected: u32,
    },
    /// The file has another length than its header says.
    #[error("{file}: {found} bytes long, expected {expected}; {DAMAGED}")]
    Length {
        /// The pack.
        file: String,
        /// Bytes it has.
        found: u64,
        /// Bytes it should have.
        expected: String,
    },
    /// The header contradicts itself or the file.
    #[error("{file}: header: {field} is {found}, expected {expected}; {DAMAGED}")]
    Header {
        /// The pack.
        file: String,
        /// The field, as docs/pack-format.md names it.
        field: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// The manifest is no manifest, or a field of it is out of bounds.
    #[error("{file}: manifest: {field} is {found}, expected {expected}; convert the checkpoint again")]
    Manifest {
        /// The pack.
        file: String,
        /// The field.
        field: String,
        /// Its value.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A geometry the engine does not run.
    #[error("{file}: geometry: {source}")]
    Geometry {
        /// The pack.
        file: String,
        /// The field and what is wrong with it.
        source: Unsupported,
    },
    /// An entry of the manifest or the stored values are not what the geometry asks for.
    #[error("{file}: tensor {tensor}: {what} is {found}, expected {expected}; convert the checkpoint again")]
    Tensor {
        /// The pack.
        file: String,
        /// The tensor.
        tensor: String,
        /// Which property.
        what: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// The same for a blob.
    #[error("{file}: blob {blob}: {what} is {found}, expected {expected}; convert the checkpoint again")]
    Blob {
        /// The pack.
        file: String,
        /// The blob.
        blob: String,
        /// Which property.
        what: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// Bytes changed since the pack was written.
    #[error("{file}: {part}: sha-256 is {found}, the manifest says {expected}; {DAMAGED}")]
    Hash {
        /// The pack.
        file: String,
        /// Tensor or blob, with its kind.
        part: String,
        /// Hash of the bytes.
        found: String,
        /// Hash in the manifest.
        expected: String,
    },
    /// Something lies where nothing belongs.
    #[error("{file}: the byte at {offset}, in the padding before {next}, is not zero; {DAMAGED}")]
    Padding {
        /// The pack.
        file: String,
        /// What follows the padding.
        next: String,
        /// Where.
        offset: u64,
    },
    /// No such tensor, or one of another format than asked for.
    #[error("{file}: tensor {tensor} was asked for as {asked}, the pack has {found}")]
    Access {
        /// The pack.
        file: String,
        /// The tensor.
        tensor: String,
        /// The format asked for.
        asked: &'static str,
        /// What there is.
        found: String,
    },
}

impl PackError {
    pub(crate) fn io(file: &Path, action: &'static str) -> impl FnOnce(io::Error) -> PackError {
        move |source| PackError::Io { file: file.display().to_string(), action, source }
    }
}

/// A value from a file, quoted, escaped and cut to a length that fits a message.
pub(crate) fn shown(text: &str) -> String {
    const LIMIT: usize = 80;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
