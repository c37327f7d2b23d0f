//! A budget for thoughts: after so many tokens the thought is closed, by tokens that the model would have used.
//!
//! A thought is `<|channel>thought\n`, its text, a new line, `<channel|>`. The header does not count and is never cut: a header
//! that is left open would be continued in the answer. When the budget is spent a new line is forced, where the thought does
//! not end with one, and then the mark, both as tokens; so the model goes on behind a thought of the form it was trained on. A budget
//! of 0 leaves the header and the mark. All thoughts of an answer share one budget.

use rawloop_tokenizer::{SpecialTokens, Tokenizer};

use crate::chat::ControlTokens;

/// Counts the tokens of thoughts. See the module documentation.
#[derive(Clone, Debug)]
pub struct ThoughtBudget {
    open: u32,
    close: u32,
    header: Vec<u32>,
    new_line: u32,
    left: usize,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Outside,
    /// In the header, behind so many of its tokens.
    Header(usize),
    /// In the text; with whether a new line came last.
    Text {
        new_line: bool,
    },
}

impl ThoughtBudget {
    /// A budget of `most` tokens for an answer behind `prompt`, which may have opened a thought.
    pub fn new(tokenizer: &Tokenizer, control: &ControlTokens, most: usize, prompt: &[u32]) -> ThoughtBudget {
        let header = tokenizer.encode("thought\n", SpecialTokens::Text);
        let new_line = tokenizer.encode("\n", SpecialTokens::Text);
        let mut budget = ThoughtBudget {
            open: control.channel_open,
            close: control.channel_close,
            header,
            new_line: new_line.first().copied().unwrap_or(control.channel_close),
            left: usize::MAX,
            place: Place::Outside,
        };
        prompt.iter().for_each(|&id| budget.accept(id));
        budget.left = most;
        budget
    }

    /// The token that has to follow, where the budget is spent.
    pub fn forced(&self) -> Option<u32> {
        match self.place {
            Place::Text { new_line } if self.left == 0 => {
                Some(if new_line { self.close } else { self.new_line })
            }
            _ => None,
        }
    }

    /// Goes on by a token.
    pub fn accept(&mut self, id: u32) {
        self.place = match self.place {
            Place::Outside if id == self.open => Place::Header(0),
            Place::Outside => Place::Outside,
            _ if id == self.close => Place::Outside,
            Place::Header(at) if self.header.get(at) == Some(&id) => {
                if at + 1 == self.header.len() {
                    Place::Text { new_line: true }
                } else {
                    Place::Header(at + 1)
                }
            }
            Place::Header(_) | Place::Text { .. } => {
                self.left = self.left.saturating_sub(1);
                Place::Text { new_line: id == self.new_line }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: u32 = 100;
    const CLOSE: u32 = 101;
    const THOUGHT: u32 = 7;
    const LINE: u32 = 8;

    fn budget(left: usize) -> ThoughtBudget {
        let header = vec![THOUGHT, LINE];
        ThoughtBudget { open: OPEN, close: CLOSE, header, new_line: LINE, left, place: Place::Outside }
    }

    /// What comes of a model that would go on thinking for ever, once it begins.
    fn thought(mut budget: ThoughtBudget, model: &[u32]) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut model = model.iter().copied();
        while let Some(id) = budget.forced().or_else(|| model.next()) {
            budget.accept(id);
            ids.push(id);
            if id == CLOSE {
                break;
            }
        }
        ids
    }

    #[test]
    fn a_spent_budget_ends_the_line_and_closes_the_thought() {
        let model = [OPEN, THOUGHT, LINE, 1, 2, 3, 4, 5];
        assert_eq!(thought(budget(3), &model), [OPEN, THOUGHT, LINE, 1, 2, 3, LINE, CLOSE]);
        assert_eq!(thought(budget(0), &model), [OPEN, THOUGHT, LINE, CLOSE]);
        assert_eq!(
            thought(budget(2), &[OPEN, THOUGHT, LINE, 1, LINE, 2]),
            [OPEN, THOUGHT, LINE, 1, LINE, CLOSE]
        );
        assert_eq!(thought(budget(9), &[OPEN, THOUGHT, LINE, 1, CLOSE]), [OPEN, THOUGHT, LINE, 1, CLOSE]);
    }

    #[test]
    fn an_answer_is_no_thought_and_a_missing_header_counts() {
        assert_eq!(thought(budget(0), &[1, 2, CLOSE]), [1, 2, CLOSE]);
        assert_eq!(thought(budget(1), &[OPEN, 1, 2]), [OPEN, 1, LINE, CLOSE]);
    }

    #[test]
    fn all_thoughts_share_the_budget() {
        let mut budget = budget(2);
        for id in [OPEN, THOUGHT, LINE, 1, CLOSE, OPEN, THOUGHT, LINE, 2] {
            assert_eq!(budget.forced(), None);
            budget.accept(id);
        }
        assert_eq!(budget.forced(), Some(LINE));
    }
}
