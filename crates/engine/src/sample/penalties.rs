//! Step 3: how often each id has occurred, and what that takes off its logit.

use std::collections::VecDeque;

use super::SamplingOptions;

/// Counts of a sequence's ids. Does nothing, and holds nothing, where no penalty is on.
#[derive(Debug)]
pub(super) struct Penalties {
    repetition: f32,
    presence: f32,
    frequency: f32,
    /// Last ids that count; 0 counts all.
    window: usize,
    /// The ids in the window, with whether they are the answer's. Empty where all count.
    recent: VecDeque<(u32, bool)>,
    /// Whether ids that come now are the answer's.
    answering: bool,
    /// Occurrences of each id that count. Empty where no penalty is on.
    seen: Vec<Counts>,
    /// Ids that have occurred, each once, in order of first occurrence.
    unique: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    all: u32,
    answer: u32,
    listed: bool,
}

impl Penalties {
    pub(super) fn new(options: &SamplingOptions, vocab: usize) -> Penalties {
        let active = options.counts_ids();
        Penalties {
            repetition: options.repetition,
            presence: options.presence,
            frequency: options.frequency,
            window: options.penalty_window,
            recent: VecDeque::new(),
            answering: true,
            seen: if active { vec![Counts::default(); vocab] } else { Vec::new() },
            unique: Vec::with_capacity(if active { vocab } else { 0 }),
        }
    }

    pub(super) fn active(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Ids that a penalty may move.
    pub(super) fn ids(&self) -> &[u32] {
        &self.unique
    }

    pub(super) fn begin(&mut self, prompt: &[u32]) {
        self.recent.clear();
        self.unique.clear();
        self.seen.fill(Counts::default());
        self.answering = false;
        for &id in prompt {
            self.accept(id);
        }
        self.answering = true;
    }

    pub(super) fn accept(&mut self, id: u32) {
        let Some(counts) = self.seen.get_mut(id as usize) else { return };
        counts.all += 1;
        counts.answer += u32::from(self.answering);
        if !counts.listed {
            counts.listed = true;
            self.unique.push(id);
        }
        if self.window == 0 {
            return;
        }
        self.recent.push_back((id, self.answering));
        if self.recent.len() > self.window
            && let Some((leaving, of_answer)) = self.recent.pop_front()
        {
            let counts = &mut self.seen[leaving as usize];
            counts.all -= 1;
            counts.answer -= u32::from(of_answer);
        }
    }

    /// The value of an id after its penalties.
    pub(super) fn apply(&self, id: u32, value: f32) -> f32 {
        let Some(counts) = self.seen.get(id as usize) else { return value };
        let mut v = value;
        if counts.all > 0 && self.repetition != 1.0 {
            v = if v > 0.0 { v / self.repetition } else { v * self.repetition };
        }
        if counts.answer > 0 {
            v -= self.presence;
            v -= self.frequency * counts.answer as f32;
        }
        v
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn penalties(window: usize) -> Penalties {
        let options = SamplingOptions {
            repetition: 2.0,
            presence: 0.5,
            frequency: 0.25,
            penalty_window: window,
            ..SamplingOptions::greedy()
        };
        Penalties::new(&options, 10)
    }

    #[test]
    fn prompt_and_answer_count_as_the_rule_says() {
        let mut p = penalties(0);
        p.begin(&[1, 2]);
        p.accept(2);
        p.accept(3);
        p.accept(3);
        assert_eq!(p.ids(), [1, 2, 3]);
        assert_eq!(p.apply(0, 4.0), 4.0);
        assert_eq!(p.apply(1, 4.0), 2.0, "in the prompt: repetition only");
        assert_eq!(p.apply(2, 4.0), 2.0 - 0.5 - 0.25);
        assert_eq!(p.apply(3, -4.0), -8.0 - 0.5 - 0.5);
        p.begin(&[5]);
        assert_eq!(p.apply(3, -4.0), -4.0, "a new sequence forgets");
    }

    #[test]
    fn a_window_forgets_what_leaves_it() {
        let mut p = penalties(2);
        p.begin(&[1, 1]);
        p.accept(2);
        assert_eq!(p.apply(1, 4.0), 2.0, "one of the two is still inside");
        p.accept(3);
        assert_eq!(p.apply(1, 4.0), 4.0);
        assert_eq!(p.apply(2, 4.0), 1.25);
        p.accept(3);
        assert_eq!(p.apply(2, 4.0), 4.0);
        assert_eq!(p.apply(3, 4.0), 2.0 - 0.5 - 0.5);
        p.accept(100);
        assert_eq!(p.apply(3, 4.0), 1.0, "an id outside of the vocabulary is ignored");
    }
}
