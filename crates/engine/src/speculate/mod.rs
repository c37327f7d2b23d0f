//! Speculation: tokens are drafted cheaply, one step of the model checks several at once, and the answer stays what it was.
//!
//! A step over the last token and `d` drafts gives what the model would say behind each of them. Each place is then picked by
//! the same rule as always, with the draw of its own position (contract rule 13); a draft that equals the pick saved a
//! step, the first that does not ends the round, and what lies behind it in the cache is cut off. Nothing is ever accepted
//! because it was drafted. So the tokens are the same with and without, at every temperature, under every grammar, and the
//! only thing that drafts decide is time.
//!
//! Drafts come from the pack's drafter (its assistant model) or from the text itself (`lookup.rs`). How many there
//! are follows from what they were worth (`depth.rs`). The loop around this is `crate::generate`.

use std::time::Duration;

use web_time::Instant;

use crate::backend::{Backend, BackendError, SequenceId};

mod depth;
mod lookup;

use depth::{Costs, Worth};

pub use depth::DEEPEST;

/// Where drafts come from, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Draft {
    /// Nowhere.
    Off,
    /// From the drafter and from the text, as many as pay; nowhere where the model has no drafter.
    #[default]
    Auto,
    /// Always so many from the drafter, at most [`DEEPEST`].
    Fixed(usize),
    /// From the text only, as many as pay.
    Lookup,
}

/// Who drafted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Drafter,
    Text,
}

/// Drafts for one sequence after the other, with what was learned about them. See the module documentation.
#[derive(Debug)]
pub struct Speculation {
    draft: Draft,
    costs: Costs,
    drafter: Worth,
    text: Worth,
    drafts: Vec<u32>,
    source: Source,
}

impl Speculation {
    /// Speculation that has learned nothing yet.
    pub fn new(draft: Draft) -> Speculation {
        let (drafter, text) = (Worth::new(), Worth::new());
        let drafts = Vec::with_capacity(DEEPEST);
        Speculation { draft, costs: Costs::default(), drafter, text, drafts, source: Source::Text }
    }

    /// Changes where drafts come from; what was learned stays.
    pub fn set(&mut self, draft: Draft) {
        self.draft = draft;
    }

    /// Tokens to go without drafts: `usize::MAX` where there are never any.
    pub(crate) fn resting(&self, has_drafter: bool) -> usize {
        match self.draft {
            Draft::Off => usize::MAX,
            Draft::Auto | Draft::Fixed(_) if !has_drafter => usize::MAX,
            Draft::Fixed(depth) => {
                if depth == 0 {
                    usize::MAX
                } else {
                    0
                }
            }
            Draft::Auto => self.drafter.resting().min(self.text.resting()),
            Draft::Lookup => self.text.resting(),
        }
    }

    /// Drafts at most `most` tokens behind `history`, whose last token the sequence does not hold yet. With `from_hidden` the
    /// sequence is where the drafter can start from.
    ///
    /// # Errors
    /// The backend failed.
    pub(crate) fn propose(
        &mut self,
        backend: &mut dyn Backend,
        sequence: SequenceId,
        history: &[u32],
        most: usize,
        from_hidden: bool,
    ) -> Result<(), BackendError> {
        self.drafts.clear();
        let most = most.min(DEEPEST);
        let (depth, rate) = match self.draft {
            Draft::Off => return Ok(()),
            Draft::Fixed(depth) => (depth.min(most), 0.0),
            Draft::Auto if from_hidden => self.drafter.depth(&self.costs, most),
            Draft::Auto | Draft::Lookup => (0, 0.0),
        };
        if matches!(self.draft, Draft::Auto | Draft::Lookup) && self.look_up(history, most, rate) {
            return Ok(());
        }
        let Some(&token) = history.last().filter(|_| from_hidden && depth > 0) else { return Ok(()) };
        self.source = Source::Drafter;
        let clock = Instant::now();
        backend.draft(sequence, token, depth, &mut self.drafts)?;
        self.drafter.drafted(self.drafts.len(), clock.elapsed());
        Ok(())
    }

    /// Drafts from the text, where that makes more than `rate` tokens a second.
    fn look_up(&mut self, history: &[u32], most: usize, rate: f64) -> bool {
        if self.text.resting() > 0 {
            return false;
        }
        let clock = Instant::now();
        lookup::look_up(history, most, &mut self.drafts);
        if self.drafts.is_empty() {
            return false;
        }
        self.text.drafted(self.drafts.len(), clock.elapsed());
        let (depth, by_text) = self.text.depth(&self.costs, self.drafts.len());
        self.drafts.truncate(if by_text > rate { depth } else { 0 });
        self.source = Source::Text;
        !self.drafts.is_empty()
    }

    /// The drafts.
    pub(crate) fn drafts(&self) -> &[u32] {
        &self.drafts
    }

    /// Keeps only the first drafts: the others cannot follow.
    pub(crate) fn keep(&mut self, drafts: usize) {
        self.drafts.truncate(drafts);
    }

    /// Takes note of a step over the last token and the drafts, of which `accepted` were right.
    pub(crate) fn verified(&mut self, time: Duration, accepted: usize) {
        let drafted = self.drafts.len();
        self.costs.add(drafted + 1, time);
        match self.source {
            Source::Drafter => self.drafter.verified(drafted, accepted),
            Source::Text => self.text.verified(drafted, accepted),
        }
        self.went_on(accepted + 1);
    }

    /// What a step over one token takes, where one was measured; else 0.
    pub(crate) fn plain_step(&self) -> Duration {
        self.costs.plain()
    }

    /// Takes note of tokens that took a step each.
    pub(crate) fn stepped(&mut self, time: Duration, tokens: usize) {
        if tokens > 0 {
            self.costs.add(1, time / tokens as u32);
            self.went_on(tokens);
        }
    }

    fn went_on(&mut self, tokens: usize) {
        self.drafter.went_on(tokens);
        self.text.went_on(tokens);
    }
}
