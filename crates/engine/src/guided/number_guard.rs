//! Keeps numbers in JSON to a length that a reader can hold.
//!
//! JSON's grammar lets digits go on for ever, and a small model that has begun `0.3333` does go on until the token limit; an
//! exponent such as `1e999` is JSON that most readers refuse, and a whole number of 30 digits is one that they round. So each
//! part of a number has at most as many digits as [`Part::most`] says: more than a double needs, enough for every 64-bit
//! number, and every number that is written can be read. Where a schema allows longer numbers only, they are left alone.
//!
//! The guard follows the answer's bytes to know whether it is inside a string or a number. Only tokens with a digit can
//! lengthen a number, and few tokens have one (digits are single tokens in Gemma's vocabulary), so they are tried one by one.

use llguidance::toktrie::{TokTrie, TokenizerEnv};

use super::vocabulary::Vocabulary;

/// A part of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Fraction,
    Exponent,
}

impl Part {
    /// Digits that the part has at most.
    fn most(self) -> u8 {
        match self {
            Part::Whole => 19,
            Part::Fraction => 20,
            Part::Exponent => 2,
        }
    }
}

/// The tokens that could make a number too long.
#[derive(Debug)]
pub(super) struct DigitTokens {
    tokens: Vec<(u32, Vec<u8>)>,
}

impl DigitTokens {
    pub fn new(vocabulary: &Vocabulary) -> DigitTokens {
        let trie: &TokTrie = vocabulary.tok_trie();
        let ids = 0..trie.vocab_size() as u32;
        let has_digit =
            |id: &u32| vocabulary.is_text(*id) && vocabulary.bytes(*id).iter().any(u8::is_ascii_digit);
        let tokens = ids.filter(has_digit).map(|id| (id, vocabulary.bytes(id).to_vec())).collect();
        DigitTokens { tokens }
    }
}

/// Where in a JSON text the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberGuard {
    /// Between values.
    Outside,
    /// In a string; with whether a backslash was just read.
    String { escaped: bool },
    /// In a number; with the digits of its present part.
    Number { part: Part, digits: u8 },
}

impl NumberGuard {
    /// The state behind a byte, or nothing where the byte makes a number too long.
    fn step(self, byte: u8) -> Option<NumberGuard> {
        use NumberGuard::{Number, Outside, String};
        Some(match (self, byte) {
            (String { escaped: true }, _) => String { escaped: false },
            (String { .. }, b'\\') => String { escaped: true },
            (String { .. }, b'"') => Outside,
            (String { .. }, _) => self,
            (Number { part, digits }, b'0'..=b'9') if digits == part.most() => return None,
            (Number { part, digits }, b'0'..=b'9') => Number { part, digits: digits + 1 },
            (Number { .. }, b'.') => Number { part: Part::Fraction, digits: 0 },
            (Number { .. }, b'e' | b'E') => Number { part: Part::Exponent, digits: 0 },
            (Number { .. }, b'+' | b'-') => self,
            (_, b'"') => String { escaped: false },
            (_, b'0'..=b'9') => Number { part: Part::Whole, digits: 1 },
            _ => Outside,
        })
    }

    /// The state behind some bytes, whether or not they make a number too long.
    pub fn after(self, bytes: &[u8]) -> NumberGuard {
        bytes.iter().fold(self, |state, &byte| state.step(byte).unwrap_or(state))
    }

    /// Takes tokens that make a number too long out of a mask, unless nothing would be left.
    pub fn restrict(self, digits: &DigitTokens, mask: &mut [u32], may_stop: bool) {
        let too_long = |bytes: &[u8]| bytes.iter().try_fold(self, |state, &byte| state.step(byte)).is_none();
        let forbidden = || {
            let tokens = digits.tokens.iter().filter(|(_, bytes)| too_long(bytes));
            tokens.map(|&(id, _)| (id as usize / 32, 1u32 << (id % 32)))
        };
        let allowed = |mask: &[u32], (word, bit): &(usize, u32)| mask[*word] & bit != 0;
        if !forbidden().any(|place| allowed(mask, &place)) {
            return;
        }
        let left = |mask: &[u32]| mask.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        let removed = forbidden().filter(|place| allowed(mask, place)).count();
        if may_stop || left(mask) > removed {
            forbidden().for_each(|(word, bit)| mask[word] &= !bit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(text: &str) -> bool {
        text.bytes().try_fold(NumberGuard::Outside, NumberGuard::step).is_some()
    }

    #[test]
    fn long_numbers_and_exponents_end() {
        assert!(fits("[1, -2.5e+99, 0.12345678901234567890, 9223372036854775807]"));
        assert!(!fits("[1e999"));
        assert!(!fits("{\"a\":1E+100"));
        assert!(!fits(&"1".repeat(20)));
        assert!(fits(&format!("{}.{}e-12", "1".repeat(19), "2".repeat(20))));
        assert!(!fits(&format!("0.{}", "3".repeat(21))));
    }

    #[test]
    fn strings_may_hold_any_digits() {
        let digits = "9".repeat(100);
        assert!(fits(&format!("{{\"{digits}\": \"1e999 {digits}\", \"b\\\"{digits}\": [1,2]}}")));
        assert!(
            !fits(&format!("{{\"a\\\\\": {digits}}}")),
            "the escaped backslash does not escape the quote"
        );
    }

    #[test]
    fn what_is_too_long_leaves_the_mask_unless_nothing_is_left() {
        let digits = DigitTokens { tokens: vec![(3, b"7".to_vec()), (40, b"12".to_vec())] };
        let state = NumberGuard::Number { part: Part::Exponent, digits: 1 };
        let mut mask = [1 << 3 | 1 << 5, 1 << 8];
        state.restrict(&digits, &mut mask, false);
        assert_eq!(mask, [1 << 3 | 1 << 5, 0], "two digits do not fit, one does");
        let state = NumberGuard::Number { part: Part::Exponent, digits: 2 };
        state.restrict(&digits, &mut mask, false);
        assert_eq!(mask, [1 << 5, 0]);
        let mut mask = [1 << 3, 0];
        state.restrict(&digits, &mut mask, false);
        assert_eq!(mask, [1 << 3, 0]);
        state.restrict(&digits, &mut mask, true);
        assert_eq!(mask, [0, 0], "the answer can end");
    }
}
