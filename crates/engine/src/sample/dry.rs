//! Step 3's last part: what would repeat a passage ("don't repeat yourself").
//!
//! The penalties before it count ids and hit words that any text needs. This one looks at passages: where the last `L` ids have
//! occurred before, the id that followed them there would make the repetition longer, and pays
//! `dry * base^(L - length)` for it, the more the longer the passage is. A breaker (a new line, a quote) ends a passage: what
//! stands around it repeats by right.
//!
//! A search is one pass over the ids. Nothing is allocated once the buffers have grown.

use super::SamplingOptions;

/// Ids of a passage at most.
const LONGEST: usize = 64;
/// Taken off a logit at most, as much as a bias can.
const MOST: f32 = 100.0;
/// Ids of an answer that are made room for.
const ROOM: usize = 1 << 15;

/// The passages of one sequence. Does nothing, and holds nothing, where it is off.
#[derive(Debug)]
pub(super) struct Dry {
    multiplier: f32,
    base: f32,
    length: usize,
    /// Last ids that count; 0 counts all.
    window: usize,
    breakers: Vec<u32>,
    history: Vec<u32>,
    /// For each id the longest passage that it would go on with. Empty where it is off.
    passage: Vec<u8>,
    /// Ids whose passage is not 0.
    ids: Vec<u32>,
}

impl Dry {
    pub(super) fn new(options: &SamplingOptions, vocab: usize) -> Dry {
        let active = options.dry > 0.0;
        Dry {
            multiplier: options.dry,
            base: options.dry_base,
            length: options.dry_length as usize,
            window: options.penalty_window,
            breakers: options.dry_breakers.clone(),
            history: Vec::new(),
            passage: if active { vec![0; vocab] } else { Vec::new() },
            ids: Vec::with_capacity(if active { vocab } else { 0 }),
        }
    }

    pub(super) fn active(&self) -> bool {
        !self.passage.is_empty()
    }

    pub(super) fn begin(&mut self, prompt: &[u32]) {
        if self.active() {
            self.history.clear();
            self.history.reserve(prompt.len() + ROOM);
            self.history.extend_from_slice(prompt);
        }
    }

    pub(super) fn accept(&mut self, id: u32) {
        if self.active() {
            self.history.push(id);
        }
    }

    /// Finds the ids that would go on with a passage.
    pub(super) fn search(&mut self) {
        for id in self.ids.drain(..) {
            self.passage[id as usize] = 0;
        }
        if !self.active() {
            return;
        }
        let first = if self.window == 0 { 0 } else { self.history.len().saturating_sub(self.window) };
        let held = &self.history[first..];
        let Some(&last) = held.last() else { return };
        for at in 1..held.len() {
            if held[at - 1] != last {
                continue;
            }
            let same = held[..at].iter().rev().zip(held.iter().rev());
            let same = same.take(LONGEST).take_while(|(a, b)| a == b && !self.breakers.contains(a)).count();
            let id = held[at];
            let Some(longest) = self.passage.get_mut(id as usize) else { continue };
            if same >= self.length {
                if *longest == 0 {
                    self.ids.push(id);
                }
                *longest = (*longest).max(same as u8);
            }
        }
    }

    /// The ids of the last search.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The value of an id after its penalty.
    pub(super) fn apply(&self, id: u32, value: f32) -> f32 {
        match self.passage.get(id as usize) {
            Some(&length) if length > 0 => {
                let mut penalty = self.multiplier;
                for _ in self.length..usize::from(length) {
                    penalty *= self.base;
                }
                value - penalty.min(MOST)
            }
            _ => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dry(history: &[u32], window: usize) -> Dry {
        let options = SamplingOptions {
            dry: 0.5,
            dry_base: 2.0,
            dry_length: 2,
            dry_breakers: vec![9],
            penalty_window: window,
            ..SamplingOptions::greedy()
        };
        let mut dry = Dry::new(&options, 20);
        let (prompt, answer) = history.split_at(history.len() / 2);
        dry.begin(prompt);
        answer.iter().for_each(|&id| dry.accept(id));
        dry.search();
        dry
    }

    #[test]
    fn what_would_make_a_repetition_longer_pays_by_its_length() {
        let dry = dry(&[1, 2, 3, 4, 5, 2, 3, 6, 1, 2, 3], 0);
        assert_eq!(dry.ids(), [4, 6]);
        assert_eq!(dry.apply(4, 1.0), 1.0 - 0.5 * 2.0, "three ids have come before");
        assert_eq!(dry.apply(6, 1.0), 1.0 - 0.5, "two have");
        assert_eq!(dry.apply(5, 1.0), 1.0);
    }

    #[test]
    fn short_repetitions_breakers_and_what_left_the_window_are_free() {
        assert!(dry(&[1, 2, 5, 3, 2], 0).ids().is_empty(), "one id is no passage");
        assert!(dry(&[1, 9, 3, 4, 1, 9, 3], 0).ids().is_empty(), "a breaker ends it");
        assert!(dry(&[1, 2, 3, 4, 1, 2, 3], 4).ids().is_empty());
        assert_eq!(dry(&[1, 2, 3, 4, 1, 2, 3], 7).ids(), [4]);
    }

    #[test]
    fn a_long_passage_pays_no_more_than_a_bias_can() {
        let mut history: Vec<u32> = (0..19).filter(|&id| id != 9).collect();
        history.extend_from_within(..17);
        let dry = dry(&history, 0);
        assert_eq!(dry.ids(), [18]);
        assert_eq!(dry.apply(18, 3.0), 3.0 - 100.0);
    }
}
