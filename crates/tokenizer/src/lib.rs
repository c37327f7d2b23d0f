//! Gemma's tokenizer as one table that is mapped, not parsed.
//!
//! `tokenizer.json` holds a byte-pair encoding with 262,144 tokens and 514,906 merges; parsing it takes longer than loading
//! the model. [`bake()`] turns it once into a binary table, [`Tokenizer::load`] checks the table in milliseconds and uses it
//! where it lies. Ids equal those of the `tokenizers` library, which the tests hold against it; what that library would do
//! differently is refused when the table is baked.
//!
//! Two decisions that a caller meets:
//!
//! - Nothing is added: no `<bos>`, no end token. The chat template writes control tokens, as text.
//! - Text says whether control tokens in it count. [`SpecialTokens::Text`] never yields a special id, whatever the text is.
//!
//! Reading order: `table.rs` (the format, byte for byte), `encode.rs`, `merge.rs`, `decode.rs`; then `json.rs` and `bake.rs`.
//!
//! ```
//! # fn run(json: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! use rawloop_tokenizer::{SpecialText, SpecialTokens, Tokenizer, bake};
//!
//! let tokenizer = Tokenizer::load(bake(json)?)?;
//! let ids = tokenizer.encode("Why is the sky blue?", SpecialTokens::Text);
//! assert_eq!(tokenizer.decode(&ids, SpecialText::Keep)?, "Why is the sky blue?");
//! # Ok(())
//! # }
//! ```

mod added;
mod bake;
mod decode;
mod encode;
mod error;
mod json;
mod merge;
mod table;

use bytes::Bytes;

pub use bake::bake;
pub use decode::{SpecialText, StreamDecoder};
pub use encode::{EncodeBuffers, SpecialTokens};
pub use error::{BakeError, DecodeError, EncodeError, LoadError};

use added::AddedTokens;
use table::{BYTE, SPECIAL, Table};

/// A loaded tokenizer. Cloning it shares the table.
#[derive(Clone)]
pub struct Tokenizer {
    table: Table,
    added: AddedTokens,
    /// Ids of the one-character tokens below U+0080.
    ascii: [u32; 128],
}

impl Tokenizer {
    /// Checks a baked table and uses it in place.
    ///
    /// A vector or a static slice converts by itself; for a file mapping use `Bytes::from_owner`, which keeps the owner
    /// alive as long as the tokenizer.
    ///
    /// # Errors
    /// Whatever is wrong with the bytes. A table that loads is one that `bake` wrote, up to a collision of the checksum,
    /// and no table that loads makes a later call panic.
    pub fn load(table: impl Into<Bytes>) -> Result<Tokenizer, LoadError> {
        let table = Table::load(table.into())?;
        let added = AddedTokens::load(&table)?;
        let ascii = std::array::from_fn(|point| table.char_id(char::from(point as u8)));
        Ok(Tokenizer { table, added, ascii })
    }

    /// Number of ids; the first is 0.
    pub fn vocab_size(&self) -> u32 {
        self.table.tokens()
    }

    /// The id of a token by its spelling in `tokenizer.json`, where a space is written U+2581.
    pub fn token_id(&self, spelling: &str) -> Option<u32> {
        self.table.find(spelling.as_bytes())
    }

    /// Whether the id is a special (control) token.
    pub fn is_special(&self, id: u32) -> bool {
        self.table.flags(id) & SPECIAL != 0
    }

    /// Whether the id stands for a single byte.
    pub fn is_byte(&self, id: u32) -> bool {
        self.table.flags(id) & BYTE != 0
    }

    /// Ids of the special tokens, ascending.
    pub fn special_ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.vocab_size()).filter(|&id| self.is_special(id))
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("vocab_size", &self.vocab_size()).finish_non_exhaustive()
    }
}
