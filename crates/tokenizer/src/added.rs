//! Finds added tokens in text: at the leftmost place where one begins, the longest one.
//!
//! Added tokens (control tokens, HTML tags, runs of newlines and tabs in Gemma's file) are cut out of the text before any
//! merge runs. They are kept sorted by spelling, so that the tokens that continue a prefix are a range, and each further
//! byte narrows the range by binary search. No automaton is built or stored: text rarely contains a first byte of an
//! added token, and one step costs at most two searches in 6,414 entries.
//!
//! A match attempt reads at most as many bytes as the longest added token has, so time is linear in the text.

use crate::LoadError;
use crate::table::{SPECIAL, Table};

/// For each first byte, the range of added tokens in their sorted order.
#[derive(Clone)]
pub(crate) struct AddedTokens {
    first: [(u32, u32); 256],
}

/// An added token in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    pub start: usize,
    pub end: usize,
    pub id: u32,
    pub special: bool,
}

impl AddedTokens {
    /// Reads the first bytes, and checks the order that `longest_at` relies on.
    pub fn load(table: &Table) -> Result<AddedTokens, LoadError> {
        let mut first = [(0, 0); 256];
        let mut before: &[u8] = &[];
        for (place, id) in table.added_ids().enumerate() {
            let spelling = table.spelling(id);
            if spelling <= before {
                return Err(LoadError::Invalid { section: "added", problem: "not ascending by spelling" });
            }
            let range = &mut first[usize::from(spelling[0])];
            if range.0 == range.1 {
                *range = (place as u32, place as u32);
            }
            range.1 += 1;
            before = spelling;
        }
        Ok(AddedTokens { first })
    }

    /// The next added token at or after `from`.
    pub fn next(&self, table: &Table, text: &str, from: usize) -> Option<Match> {
        let bytes = text.as_bytes();
        (from..bytes.len()).find_map(|start| {
            let (low, high) = self.first[usize::from(bytes[start])];
            if low == high {
                return None;
            }
            let (length, id) = longest(table, &bytes[start..], low as usize, high as usize)?;
            Some(Match { start, end: start + length, id, special: table.flags(id) & SPECIAL != 0 })
        })
    }
}

/// The longest added token that `text` begins with, among those in `low..high`, which share its first byte.
fn longest(table: &Table, text: &[u8], mut low: usize, mut high: usize) -> Option<(usize, u32)> {
    let spelling = |place: usize| table.added_id(place).map_or(&[][..], |id| table.spelling(id));
    let mut best = None;
    let mut length = 1;
    // The tokens in low..high begin with text[..length].
    while low < high {
        if spelling(low).len() == length {
            best = table.added_id(low).map(|id| (length, id));
            low += 1;
        }
        let Some(&next) = text.get(length) else { break };
        let byte = |place: usize| spelling(place).get(length).copied();
        low = partition(low, high, |place| byte(place) < Some(next));
        high = partition(low, high, |place| byte(place) == Some(next));
        length += 1;
    }
    best
}

/// The first place in `low..high` for which `before` is false, all places before it being true.
fn partition(mut low: usize, mut high: usize, before: impl Fn(usize) -> bool) -> usize {
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
