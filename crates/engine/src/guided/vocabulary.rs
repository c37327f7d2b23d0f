//! The tokenizer as the grammar library sees it: the bytes of every token, and how bytes that are certain become tokens.
//!
//! Masks are found by walking a trie of the tokens' bytes. Three kinds of tokens are left out of text:
//!
//! - Special tokens carry a mark that no text has, so a grammar reaches them by id only.
//! - Reserved tokens (`<unused12>`) are ordinary to the tokenizer, but a model that emits one is off its rails; they carry
//!   the mark too.
//! - A byte token whose byte is also a character token has no bytes here: the model was trained on the other one.
//!
//! Invariant: no two tokens of text have the same bytes, so a mask never hides one behind another.

use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::{SimpleVob, TokRxInfo, TokTrie, TokenizerEnv};
use rawloop_tokenizer::{SpecialTokens, Tokenizer};

use super::GuidedError;
use crate::chat::ControlTokens;

/// Bytes of tokens, and the tokenizer.
pub(super) struct Vocabulary {
    tokenizer: Tokenizer,
    trie: TokTrie,
}

impl Vocabulary {
    /// Builds the trie: a third of a second for 262,144 tokens.
    pub fn new(tokenizer: Tokenizer, control: &ControlTokens) -> Result<Vocabulary, GuidedError> {
        let size = tokenizer.vocab_size();
        let words: Vec<Vec<u8>> = (0..size).map(|id| word(&tokenizer, id)).collect();
        let info = TokRxInfo::new(size, control.eos);
        // Tokens of more than a kilobyte break an assertion of the trie.
        let trie = catch_unwind(|| Ok(TokTrie::from(&info, &words)))
            .map_err(|error| GuidedError::Tokenizer(GuidedError::text(&error)))?;
        Ok(Vocabulary { tokenizer, trie })
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Whether the token stands for text: neither special nor reserved nor a second spelling.
    pub fn is_text(&self, id: u32) -> bool {
        let word = self.trie.token(id);
        !word.is_empty() && word[0] != TokTrie::SPECIAL_TOKEN_MARKER
    }

    /// The bytes of a text token.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.trie.token(id)
    }

    /// Every token of text.
    pub fn text_tokens(&self) -> SimpleVob {
        let mut all = self.trie.alloc_token_set();
        for id in (0..self.tokenizer.vocab_size()).filter(|&id| self.is_text(id)) {
            all.allow_token(id);
        }
        all
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        let ids = self.tokenizer.encode(text, SpecialTokens::Text);
        if ids.iter().all(|&id| self.is_text(id)) {
            return ids;
        }
        // Text that spells a reserved token: in pieces.
        let pieces = |id: u32| {
            if self.is_text(id) {
                return vec![id];
            }
            self.tokenizer.token_bytes(id).map(|bytes| self.trie.greedy_tokenize(&bytes)).unwrap_or_default()
        };
        ids.into_iter().flat_map(pieces).collect()
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| self.encode(text))
    }
}

/// The bytes of a token in the trie.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let spelling = tokenizer.spelling(id).unwrap_or_default();
    if tokenizer.is_special(id) || is_reserved(spelling) {
        let mut marked = vec![TokTrie::SPECIAL_TOKEN_MARKER];
        marked.extend_from_slice(spelling.as_bytes());
        return marked;
    }
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    if tokenizer.is_byte(id) && has_character_token(tokenizer, bytes[0]) {
        return Vec::new();
    }
    bytes.into_owned()
}

/// `<unused0>`, `<unused1>`, ... and the place holder of the multimodal part.
fn is_reserved(spelling: &str) -> bool {
    let number = spelling.strip_prefix("<unused").and_then(|rest| rest.strip_suffix('>'));
    number.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        || spelling == "[multimodal]"
}

/// Whether a token of one character stands for the byte too.
fn has_character_token(tokenizer: &Tokenizer, byte: u8) -> bool {
    let character = match byte {
        b' ' => '\u{2581}',
        0..0x80 => char::from(byte),
        _ => return false,
    };
    let id = tokenizer.token_id(character.encode_utf8(&mut [0; 4]));
    id.is_some_and(|id| !tokenizer.is_byte(id))
}
