//! Text to ids.
//!
//! 1. Added tokens are cut out of the text (`added.rs`). A special one counts only where the caller says that the text may
//!    contain control tokens; elsewhere its spelling is text like any other.
//! 2. The text between them is normalised (a space becomes U+2581) while its characters are mapped to ids. A character that
//!    is no token becomes the byte tokens of its UTF-8 form; those never merge.
//! 3. Where no merge can cross a boundary the text is cut into pieces (`Rules::joins`); each goes through the merge loop.
//!
//! Ids equal those of the `tokenizers` library with `add_special_tokens` off; `SpecialTokens::Text` is its
//! `encode_special_tokens`.

use crate::merge::MergeBuffers;
use crate::table::{NONE, Rules};
use crate::{EncodeError, Tokenizer};

/// What the spelling of a special token in the text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Ordinary text: for everything that a user, a tool or a document wrote.
    Text,
    /// The special token: for text that a chat template wrote.
    Parse,
}

/// Working memory of an encoder, for callers that encode often.
#[derive(Default)]
pub struct EncodeBuffers {
    piece: Vec<u32>,
    merge: MergeBuffers,
}

impl Tokenizer {
    /// Encodes text. No token is added at either end.
    pub fn encode(&self, text: &str, special: SpecialTokens) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 1);
        self.encode_into(text, special, &mut EncodeBuffers::default(), &mut ids);
        ids
    }

    /// Encodes bytes that ought to be UTF-8.
    ///
    /// # Errors
    /// The offset of the first byte that is no part of a character.
    pub fn encode_bytes(&self, text: &[u8], special: SpecialTokens) -> Result<Vec<u32>, EncodeError> {
        let text = std::str::from_utf8(text)
            .map_err(|error| EncodeError::InvalidUtf8 { offset: error.valid_up_to() })?;
        Ok(self.encode(text, special))
    }

    /// Encodes text and appends its ids to `ids`. Once the buffers have grown nothing is allocated.
    pub fn encode_into(
        &self,
        text: &str,
        special: SpecialTokens,
        buffers: &mut EncodeBuffers,
        ids: &mut Vec<u32>,
    ) {
        let rules = self.table.rules();
        let mut start = 0;
        let mut from = 0;
        while let Some(found) = self.added.next(&self.table, text, from) {
            from = found.end;
            if found.special && special == SpecialTokens::Text {
                continue;
            }
            self.encode_run(rules, &text[start..found.start], buffers, ids);
            ids.push(found.id);
            start = found.end;
        }
        self.encode_run(rules, &text[start..], buffers, ids);
    }

    /// Encodes text of mixed origin as the one text it is: merges run across segment boundaries, but special tokens are
    /// found only inside segments marked `Parse`.
    pub fn encode_segments<'s>(
        &self,
        segments: impl IntoIterator<Item = (&'s str, SpecialTokens)>,
    ) -> Vec<u32> {
        let mut buffers = EncodeBuffers::default();
        let mut ids = Vec::new();
        let mut run = String::new();
        for (text, special) in segments {
            let mut start = 0;
            let mut from = 0;
            while special == SpecialTokens::Parse
                && let Some(found) = self.added.next(&self.table, text, from)
            {
                from = found.end;
                if !found.special {
                    continue;
                }
                run.push_str(&text[start..found.start]);
                self.encode_into(&run, SpecialTokens::Text, &mut buffers, &mut ids);
                run.clear();
                ids.push(found.id);
                start = found.end;
            }
            run.push_str(&text[start..]);
        }
        self.encode_into(&run, SpecialTokens::Text, &mut buffers, &mut ids);
        ids
    }

    /// Encodes text without added tokens.
    fn encode_run(&self, rules: Rules, run: &str, buffers: &mut EncodeBuffers, ids: &mut Vec<u32>) {
        let EncodeBuffers { piece, merge } = buffers;
        let mut before = None;
        for character in run.chars() {
            let character = if character == ' ' { '\u{2581}' } else { character };
            let id = match self.ascii.get(character as usize) {
                Some(&id) => id,
                None => self.table.char_id(character),
            };
            if before.is_some_and(|before| id == NONE || !rules.joins(before, character)) {
                merge.merge(rules, piece, ids);
            }
            if id == NONE {
                let mut utf8 = [0; 4];
                ids.extend(character.encode_utf8(&mut utf8).bytes().map(|byte| self.table.byte_id(byte)));
                before = None;
            } else {
                piece.push(id);
                before = Some(character);
            }
        }
        merge.merge(rules, piece, ids);
    }
}
