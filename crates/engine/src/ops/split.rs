//! A long text as pieces of at most so many tokens.
//!
//! A piece ends, in this order of preference, at the end of a paragraph, a line, a sentence, a word, a token; never inside a
//! character. A better place is taken only in the second half of what fits, so that pieces stay few. The text between two
//! pieces (line ends, spaces) belongs to neither; [`Piece::before`] keeps it for answers that are joined again.

use std::ops::Range;

use rawloop_tokenizer::{SpecialTokens, Tokenizer};

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// White space between the end of the piece before and this one.
    pub before: Range<usize>,
    /// Bytes of the text, without white space at either end.
    pub text: Range<usize>,
}

/// Tokens of a text by itself.
pub fn count(tokenizer: &Tokenizer, text: &str) -> usize {
    tokenizer.encode(text, SpecialTokens::Text).len()
}

/// Splits a text. Pieces are in order, none is empty, and together with what is between them they are the text.
pub fn split(tokenizer: &Tokenizer, text: &str, budget: usize) -> Vec<Piece> {
    let budget = budget.max(1);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut end = 0;
    loop {
        let start = end + (text[end..].len() - text[end..].trim_start().len());
        if start == text.len() {
            return pieces;
        }
        let before = end..start;
        let length = piece_length(tokenizer, &text[start..], budget);
        end = start + text[start..start + length].trim_end().len();
        pieces.push(Piece { before, text: start..end });
    }
}

/// Bytes of the first piece of a text that begins with something.
fn piece_length(tokenizer: &Tokenizer, text: &str, budget: usize) -> usize {
    let mut ahead = 0;
    let mut ids = Vec::new();
    // Only as much is encoded as a piece can hold, so that splitting a book takes no square of its length.
    while ids.len() <= budget {
        if ahead == text.len() {
            return ahead;
        }
        ahead = floor(text, budget.saturating_mul(BYTES_AHEAD).max(2 * ahead).min(text.len()));
        ids = tokenizer.encode(&text[..ahead], SpecialTokens::Text);
    }
    let mut fitting = budget;
    loop {
        let bytes: usize = ids.iter().take(fitting).map(|&id| token_length(tokenizer, id)).sum();
        let within = floor(text, bytes.min(ahead));
        // A character of several tokens that alone is over the budget: nothing smaller can be asked about.
        let whole = within.max(text.chars().next().map_or(0, char::len_utf8));
        let length = best_end(&text[..whole]);
        // Cut off from what follows, the last word may be spelled with other tokens, and more of them.
        let excess = count(tokenizer, text[..length].trim_end()).saturating_sub(budget);
        if excess == 0 || fitting <= 1 {
            return length;
        }
        fitting = fitting.saturating_sub(excess).max(1);
    }
}

/// Bytes to look ahead for each token: twice what a token of plain text has.
const BYTES_AHEAD: usize = 8;

fn token_length(tokenizer: &Tokenizer, id: u32) -> usize {
    tokenizer.token_bytes(id).map_or(1, |bytes| bytes.len())
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Where to end a piece that could be all of `text`.
fn best_end(text: &str) -> usize {
    let half = text.len() / 2;
    let after = |found: Option<usize>, length: usize| found.map(|at| at + length).filter(|&end| end >= half);
    after(text.rfind("\n\n"), 2)
        .or_else(|| after(text.rfind('\n'), 1))
        .or_else(|| sentence_end(text).filter(|&end| end >= half))
        .or_else(|| {
            let space = text.char_indices().rfind(|(_, c)| c.is_whitespace());
            space.map(|(at, c)| at + c.len_utf8()).filter(|&end| end >= half)
        })
        .unwrap_or(text.len())
}

/// Behind the last mark that ends a sentence: one of Latin script before white space, or one that needs none.
fn sentence_end(text: &str) -> Option<usize> {
    let mut following = None;
    for (at, c) in text.char_indices().rev() {
        let ends = match c {
            '.' | '!' | '?' | '\u{2026}' => following.is_some_and(char::is_whitespace),
            '\u{3002}' | '\u{ff01}' | '\u{ff1f}' => true,
            _ => false,
        };
        if ends {
            return Some(at + c.len_utf8());
        }
        following = Some(c);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_place_in_the_second_half_is_taken() {
        assert_eq!(best_end("One two.\n\nThree four."), 10);
        assert_eq!(best_end("One two three.\nFour"), 15);
        assert_eq!(best_end("A.\n\nOne two three. Four"), 18);
        assert_eq!(best_end("one two three four"), 14);
        assert_eq!(best_end("onetwothree"), 11);
        assert_eq!(best_end("\u{4e00}\u{4e8c}\u{4e09}\u{3002}\u{56db}"), 12);
        assert_eq!(sentence_end("3.14 is a number"), None);
    }
}
