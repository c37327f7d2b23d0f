//! Ids to text, at once or as they come.
//!
//! Tokens are spelled out with U+2581 as a space. A run of byte tokens is text if all of it is UTF-8; otherwise **each** of
//! its bytes becomes U+FFFD, valid ones too. That is what the `tokenizers` library does, so a run has to be complete
//! before any of it is shown: a stream holds byte tokens back until another token or the end follows. In Gemma's vocabulary
//! they occur only in rare characters.
//!
//! `decode` is the stream fed with everything, so the two cannot differ.

use std::borrow::Cow;

use crate::table::{BYTE, SPECIAL};
use crate::{DecodeError, Tokenizer};

/// Whether special tokens are shown in decoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialText {
    /// By their spelling.
    Keep,
    /// Not at all, as if they were not among the ids.
    Drop,
}

/// Every byte once, so that a byte token can be lent as a slice.
static ALL_BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut value = 0;
    while value < 256 {
        bytes[value] = value as u8;
        value += 1;
    }
    bytes
};

impl Tokenizer {
    /// The text of ids.
    ///
    /// # Errors
    /// An id outside the vocabulary.
    pub fn decode(&self, ids: &[u32], special: SpecialText) -> Result<String, DecodeError> {
        let mut text = String::with_capacity(ids.len() * 4);
        let mut stream = StreamDecoder::new(special);
        for &id in ids {
            stream.push(self, id, &mut text)?;
        }
        stream.finish(&mut text);
        Ok(text)
    }

    /// The bytes that a token stands for: one for a byte token, else its spelling with spaces. Concatenated over ids they
    /// are the text as long as that is UTF-8.
    ///
    /// # Errors
    /// An id outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Result<Cow<'_, [u8]>, DecodeError> {
        let spelling = self.spelling(id)?;
        if let Some(byte) = self.byte_of(id, spelling) {
            let at = usize::from(byte);
            return Ok(Cow::Borrowed(&ALL_BYTES[at..=at]));
        }
        if !spelling.contains(SPACE) {
            return Ok(Cow::Borrowed(spelling.as_bytes()));
        }
        Ok(Cow::Owned(spelling.replace(SPACE, " ").into_bytes()))
    }

    /// The token as `tokenizer.json` spells it.
    ///
    /// # Errors
    /// An id outside the vocabulary.
    pub fn spelling(&self, id: u32) -> Result<&str, DecodeError> {
        let vocab_size = self.vocab_size();
        if id >= vocab_size {
            return Err(DecodeError::UnknownId { id, vocab_size });
        }
        // Checked when the table was loaded; an empty token would be a lesser evil than a panic.
        Ok(std::str::from_utf8(self.table.spelling(id)).unwrap_or(""))
    }

    fn byte_of(&self, id: u32, spelling: &str) -> Option<u8> {
        if self.table.flags(id) & BYTE == 0 {
            return None;
        }
        spelling.get(3..5).and_then(|digits| u8::from_str_radix(digits, 16).ok())
    }
}

const SPACE: char = '\u{2581}';

/// Decodes ids one at a time. What it has written never ends inside a character, and all of it together is what
/// [`Tokenizer::decode`] gives for all the ids.
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    special: SpecialText,
    /// The byte tokens since the last other token.
    run: Vec<u8>,
}

impl StreamDecoder {
    /// A stream that has seen nothing.
    pub fn new(special: SpecialText) -> StreamDecoder {
        // No character has more than four bytes; longer runs are rare, and the buffer is kept once it has grown.
        StreamDecoder { special, run: Vec::with_capacity(64) }
    }

    /// Takes the next id and appends to `text` what it makes certain.
    ///
    /// # Errors
    /// An id outside the vocabulary; the stream is as it was.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32, text: &mut String) -> Result<(), DecodeError> {
        let spelling = tokenizer.spelling(id)?;
        if self.special == SpecialText::Drop && tokenizer.table.flags(id) & SPECIAL != 0 {
            return Ok(());
        }
        if let Some(byte) = tokenizer.byte_of(id, spelling) {
            self.run.push(byte);
            return Ok(());
        }
        self.finish(text);
        for (place, part) in spelling.split(SPACE).enumerate() {
            if place > 0 {
                text.push(' ');
            }
            text.push_str(part);
        }
        Ok(())
    }

    /// Appends what was held back. The stream can be used again afterwards, for other ids.
    pub fn finish(&mut self, text: &mut String) {
        match std::str::from_utf8(&self.run) {
            Ok(characters) => text.push_str(characters),
            Err(_) => text.extend(self.run.iter().map(|_| char::REPLACEMENT_CHARACTER)),
        }
        self.run.clear();
    }
}
