//! Why a tokenizer cannot be baked, loaded or asked.
//!
//! Every message names the part that is wrong and, where there is something to do, what to do.

/// `bake` refuses a `tokenizer.json`.
#[derive(Debug, thiserror::Error)]
pub enum BakeError {
    /// The file is not JSON of the expected shape; the source names the field, the line and the column.
    #[error("tokenizer.json cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The file asks for something that this crate does not do exactly as `tokenizers` does.
    #[error("tokenizer.json uses {0}, which is not implemented; only byte-fallback BPE in Gemma's form is")]
    Unsupported(String),
    /// The file contradicts itself.
    #[error("tokenizer.json is inconsistent: {0}")]
    Inconsistent(String),
}

/// `Tokenizer::load` refuses a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Fewer bytes than the header has.
    #[error("tokenizer table: {found} bytes, the header alone has {expected}; the file is cut short")]
    Truncated {
        /// Bytes needed.
        expected: u64,
        /// Bytes present.
        found: u64,
    },
    /// The first eight bytes are not the magic.
    #[error(
        "tokenizer table: the first bytes are {found:02x?}, not the magic; this is not a tokenizer table"
    )]
    Magic {
        /// What stands there.
        found: [u8; 8],
    },
    /// A version that this build does not read.
    #[error(
        "tokenizer table: version {found}, this build reads {expected}; bake it again from tokenizer.json"
    )]
    Version {
        /// The version this build reads.
        expected: u32,
        /// The version in the table.
        found: u32,
    },
    /// The length in the header, or the length that the counts give, is not the length of the table.
    #[error("tokenizer table: {found} bytes, {expected} expected; the file is cut short or damaged")]
    Length {
        /// What the header asks for.
        expected: u64,
        /// Bytes present.
        found: u64,
    },
    /// The checksum does not fit the bytes.
    #[error("tokenizer table: checksum {found:08x}, {expected:08x} expected; the file is damaged")]
    Checksum {
        /// The checksum in the header.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// A section breaks one of the table's own rules although the checksum fits.
    #[error("tokenizer table: {section}: {problem}")]
    Invalid {
        /// The section's name in the description of the table.
        section: &'static str,
        /// The rule that is broken.
        problem: &'static str,
    },
}

/// Bytes that cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The bytes are not UTF-8.
    #[error("the text is not UTF-8: byte {offset} begins no character")]
    InvalidUtf8 {
        /// Offset of the first byte that is not part of a character.
        offset: usize,
    },
}

/// Ids that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The id is not in the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocab_size}")]
    UnknownId {
        /// The id.
        id: u32,
        /// Number of ids, the first being 0.
        vocab_size: u32,
    },
}
