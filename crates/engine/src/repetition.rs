//! Notices an answer that repeats a few tokens without end, which a small or damaged model does until its limit.
//!
//! A pattern is one to eight tokens. It is a loop when it has filled at least 96 tokens and come at least 24 times. Text of digits,
//! spaces and punctuation repeats by right (a table of zeros, a line of dashes), so a pattern without a letter needs
//! ten times as much.
//!
//! For each length the token is compared with the one that many places before it; the count of equal ones is the length of
//! the run. Eight comparisons a token, nothing allocated until a run is long enough to be looked at.

use rawloop_tokenizer::Tokenizer;

/// Tokens of a pattern at most.
const LONGEST: usize = 8;
/// Tokens that a loop fills, and how often its pattern comes.
const TOKENS: usize = 96;
const TIMES: usize = 24;
/// As many times that for a pattern without letters.
const WITHOUT_LETTERS: usize = 10;

/// Watches one answer.
#[derive(Debug)]
pub(crate) struct Repetition {
    /// The last tokens, that of place `p` at `p % LONGEST`.
    last: [u32; LONGEST],
    seen: usize,
    /// Tokens in a row that equal the one `index + 1` places before.
    equal: [usize; LONGEST],
}

impl Repetition {
    pub fn new() -> Repetition {
        Repetition { last: [0; LONGEST], seen: 0, equal: [0; LONGEST] }
    }

    /// Takes the next token; true where it is part of a loop.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> bool {
        let has_letter = |ids: &[u32]| {
            ids.iter()
                .any(|&id| tokenizer.spelling(id).is_ok_and(|text| text.chars().any(char::is_alphabetic)))
        };
        self.advance(id, has_letter)
    }

    fn advance(&mut self, id: u32, has_letter: impl Fn(&[u32]) -> bool) -> bool {
        let mut found = None;
        for length in 1..=LONGEST.min(self.seen) {
            let before = self.last[(self.seen - length) % LONGEST];
            let equal = &mut self.equal[length - 1];
            *equal = if before == id { *equal + 1 } else { 0 };
            // The first pattern is not counted among the equal ones.
            if found.is_none() && *equal + length >= TOKENS.max(TIMES * length) {
                found = Some((length, *equal + length));
            }
        }
        self.last[self.seen % LONGEST] = id;
        self.seen += 1;
        let Some((length, run)) = found else { return false };
        // Every token of the pattern is among the last ones, whatever their order.
        let mut pattern = [0; LONGEST];
        for (back, slot) in pattern[..length].iter_mut().enumerate() {
            *slot = self.last[(self.seen - 1 - back) % LONGEST];
        }
        let needed = TOKENS.max(TIMES * length);
        run >= WITHOUT_LETTERS * needed || has_letter(&pattern[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens until the loop is noticed. Ids from 100 on have letters.
    fn noticed(ids: impl IntoIterator<Item = u32>) -> Option<usize> {
        let mut repetition = Repetition::new();
        ids.into_iter()
            .position(|id| repetition.advance(id, |pattern| pattern.iter().any(|&id| id >= 100)))
            .map(|at| at + 1)
    }

    /// Case 66.
    #[test]
    fn a_pattern_of_three_tokens_that_comes_forty_times_is_a_loop() {
        let lead = (200..230).chain([5, 6]);
        let canned = lead.chain([101, 7, 102].into_iter().cycle().take(120));
        assert_eq!(noticed(canned), Some(32 + 96));
        assert_eq!(noticed(std::iter::repeat_n(100, 200)), Some(96));
        let eight = (100..108).cycle().take(400);
        assert_eq!(noticed(eight), Some(192), "long patterns have to come as often");
    }

    #[test]
    fn longer_patterns_and_broken_runs_are_none() {
        assert_eq!(noticed((100..109).cycle().take(2000)), None);
        let broken = (0..3000u32).map(|at| if at % 90 == 89 { at } else { 100 });
        assert_eq!(noticed(broken), None);
    }

    #[test]
    fn tables_of_zeros_are_none() {
        // 30 rows of `0, 0, 0, ...` and a new line; a single row of 200; a rule of 300 dashes.
        let row = |count: usize| [10, 11].into_iter().cycle().take(2 * count).chain([12]);
        let table = (0..30).flat_map(|_| row(30));
        assert_eq!(noticed(table), None);
        assert_eq!(noticed(row(200)), None);
        assert_eq!(noticed(std::iter::repeat_n(13, 300)), None);
        assert_eq!(noticed(std::iter::repeat_n(13, 2000)), Some(960), "without end it is one too");
    }
}
