//! What decides the next token besides the model: sampling options, a grammar, a thinking budget.
//!
//! The loop asks in this order: must a token follow, and which does the model's output allow. Both answers depend on the tokens
//! accepted so far and on nothing else, which is what makes speculation exact.

use std::time::Duration;

use web_time::Instant;

use crate::EngineError;
use crate::backend::Draw;
use crate::guided::{Beside, Constraint, GuidedError};
use crate::sample::{LogProbabilities, Sampler};

use super::thought::ThoughtBudget;

/// What the tokens of one answer obey.
pub(super) struct Rules<'a> {
    pub sampler: &'a mut Sampler,
    /// In a box, since it goes from thread to thread and is large.
    pub constraint: Option<Box<Constraint>>,
    pub budget: Option<ThoughtBudget>,
    /// How likely the token picked last was.
    report: LogProbabilities,
    /// Who finds masks while a step runs.
    beside: Option<Beside>,
    /// The constraint is there now.
    ahead: bool,
    /// What the answer has waited for the grammar.
    guide: Duration,
}

impl<'a> Rules<'a> {
    pub fn new(
        sampler: &'a mut Sampler,
        constraint: Option<Constraint>,
        budget: Option<ThoughtBudget>,
        beside: Option<Beside>,
        prompt: &[u32],
    ) -> Rules<'a> {
        sampler.begin(prompt);
        let report = LogProbabilities::with_room(sampler.options());
        let constraint = constraint.map(Box::new);
        Rules { sampler, constraint, budget, report, beside, ahead: false, guide: Duration::ZERO }
    }

    /// Whether the model's own argmax is the next token, wherever none must follow.
    pub fn takes_picks(&self) -> bool {
        self.constraint.is_none() && self.sampler.options().is_plain_greedy()
    }

    /// Whether that is so everywhere.
    pub fn is_plain(&self) -> bool {
        self.takes_picks() && self.budget.is_none()
    }

    /// How every next token is drawn, where that is the same everywhere and depends on the logits alone.
    pub fn draw(&self) -> Option<Draw<'_>> {
        let free = self.constraint.is_none() && self.budget.is_none();
        free.then(|| self.sampler.options().draw()).flatten()
    }

    /// The token that has to follow, whatever the model says.
    pub fn forced(&mut self) -> Result<Option<u32>, EngineError> {
        if let Some(id) = self.budget.as_ref().and_then(ThoughtBudget::forced) {
            return Ok(Some(id));
        }
        let forced = self.asked(|constraint| Ok(constraint.forced()?.first().copied()))?;
        Ok(forced.flatten())
    }

    /// Asks the grammar, if there is one, and takes note of how long that took.
    fn asked<R>(
        &mut self,
        ask: impl FnOnce(&mut Constraint) -> Result<R, GuidedError>,
    ) -> Result<Option<R>, GuidedError> {
        let Some(constraint) = &mut self.constraint else { return Ok(None) };
        let clock = Instant::now();
        let answer = ask(constraint);
        self.guide += clock.elapsed();
        answer.map(Some)
    }

    /// What the answer has waited for the grammar so far.
    pub fn guide(&self) -> Duration {
        self.guide
    }

    /// The token for `position`, from the logits before it.
    pub fn pick(&mut self, logits: &mut [f32], position: usize) -> Result<u32, EngineError> {
        let clock = Instant::now();
        let mask = self.constraint.as_deref_mut().map(Constraint::mask).transpose()?;
        if mask.is_some() {
            self.guide += clock.elapsed();
        }
        let id = self.sampler.pick(logits, position, mask)?;
        self.sampler.report(logits, id, &mut self.report);
        Ok(id)
    }

    /// How likely the token of the last [`Rules::pick`] was, where asked for.
    pub fn report(&self) -> Option<&LogProbabilities> {
        self.sampler.options().log_probabilities.map(|_| &self.report)
    }

    /// Goes on by a token.
    pub fn accept(&mut self, id: u32) -> Result<(), EngineError> {
        self.asked(|constraint| constraint.accept(id))?;
        self.sampler.accept(id);
        if let Some(budget) = &mut self.budget {
            budget.accept(id);
        }
        Ok(())
    }

    /// Whether a token that was accepted has ended the answer.
    pub fn has_ended(&self) -> bool {
        self.constraint.as_deref().is_some_and(Constraint::has_ended)
    }

    /// Whether nothing but a stop can follow, as far as that is known before the next step.
    pub fn is_complete(&mut self) -> Result<bool, EngineError> {
        let waits = self.beside.is_none();
        let ask = |constraint: &mut Constraint| {
            if waits { constraint.is_complete() } else { constraint.is_known_complete() }
        };
        Ok(self.asked(ask)?.unwrap_or(false))
    }

    /// The same behind the step, where it is certain.
    pub fn has_no_choice(&mut self) -> Result<bool, EngineError> {
        Ok(self.asked(Constraint::is_complete)?.unwrap_or(false))
    }

    /// Lets the mask of the next pick be found while a step runs. Nothing else may be asked before [`Rules::look_back`].
    pub fn look_ahead(&mut self) {
        let Some(beside) = &self.beside else { return };
        if let Some(constraint) = self.constraint.take_if(|constraint| !constraint.is_ready()) {
            self.constraint = beside.hand_over(constraint).err();
            self.ahead = self.constraint.is_none();
        }
    }

    /// Takes back what [`Rules::look_ahead`] handed over.
    pub fn look_back(&mut self) -> Result<(), EngineError> {
        if let (true, Some(beside)) = (std::mem::take(&mut self.ahead), &self.beside) {
            let clock = Instant::now();
            self.constraint = Some(beside.take_back()?);
            self.guide += clock.elapsed();
        }
        Ok(())
    }

    /// How many drafts, from the first one on, could be picked at all.
    pub fn agrees(&mut self, drafts: &[u32]) -> Result<usize, EngineError> {
        Ok(self.asked(|constraint| constraint.agrees(drafts))?.unwrap_or(drafts.len()))
    }
}
