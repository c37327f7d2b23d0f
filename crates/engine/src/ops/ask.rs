//! One prompt, one answer: the only place of the operations that runs the model.
//!
//! The answer is the text behind thoughts, without white space around it. One that is empty or not in its form is asked for
//! once more, sampled with a fixed seed: greedily it would be the same again.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::OpError;
use super::run::OpEvent;
use super::shape::Form;
use super::table::Op;
use crate::EngineError;
use crate::chat::{Message, OutputEvent, OutputOptions, OutputParser, RenderOptions, Role};
use crate::generate::Finish;
use crate::guided::Guide;
use crate::sample::SamplingOptions;
use crate::session::{Event, GenerateOptions, Session};

/// Characters of a wrong answer that an error shows.
const SHOWN: usize = 200;
const RETRY_SEED: u64 = 1;

/// What running the model took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpStats {
    /// Prompts.
    pub prompts: usize,
    /// Of those, prompts that were asked a second time.
    pub retried: usize,
    /// Tokens of all prompts.
    pub prompt_tokens: usize,
    /// Of those, tokens whose K/V were still held.
    pub reused_tokens: usize,
    /// Tokens of all answers.
    pub tokens: usize,
    /// Steps that verified drafts.
    pub verify_steps: usize,
    /// Tokens that those gave.
    pub verified_tokens: usize,
}

impl OpStats {
    /// Tokens that a step with drafts gave on average, or none where there was no such step.
    pub fn tokens_per_verify(&self) -> Option<f64> {
        (self.verify_steps > 0).then(|| self.verified_tokens as f64 / self.verify_steps as f64)
    }
}

/// An answer in its form.
#[derive(Clone, Debug)]
pub struct Answered {
    pub text: String,
    pub value: Option<Value>,
    /// It ended by itself.
    pub whole: bool,
}

/// A session that answers the prompts of one run.
pub struct Asker<'a> {
    pub session: &'a mut Session,
    pub op: &'static Op,
    pub chunk: Option<usize>,
    pub cancel: &'a AtomicBool,
    pub on_event: &'a mut dyn FnMut(OpEvent<'_>) -> ControlFlow<()>,
    pub stats: OpStats,
}

impl Asker<'_> {
    /// Tokens of a message with everything around it.
    pub fn prompt(&self, message: &str) -> Result<(Vec<u32>, bool), OpError> {
        let model = self.session.model();
        let rendered = model
            .render(&RenderOptions::default(), &[Message::new(Role::User, message)])
            .map_err(EngineError::from)?;
        Ok((rendered.to_ids(model.tokenizer()), rendered.opens_thought()))
    }

    /// Answers a message. `show` hands the text on while it is made.
    pub fn ask(
        &mut self,
        message: &str,
        form: &Form,
        tokens: usize,
        show: bool,
    ) -> Result<Answered, OpError> {
        let constraint = form.grammar()?.map(Guide::from);
        let greedy = GenerateOptions { chunk: self.chunk, constraint, ..GenerateOptions::greedy(tokens) };
        let (text, finish) = self.answer(message, &greedy, show)?;
        let whole = finish == Finish::Stop;
        match form.read(&text) {
            Ok((text, value)) if !text.is_empty() => return Ok(Answered { text, value, whole }),
            _ if !whole => return Err(OpError::Cut { op: self.op.name, tokens }),
            _ => {}
        }
        self.stats.retried += 1;
        let sampling = SamplingOptions { seed: RETRY_SEED, ..self.session.model().sampling() };
        let (text, finish) = self.answer(message, &GenerateOptions { sampling, ..greedy }, show)?;
        let whole = finish == Finish::Stop;
        let read = form.read(&text).map_err(|expected| match whole {
            false => OpError::Cut { op: self.op.name, tokens },
            true => OpError::Shape { op: self.op.name, expected, answer: text.chars().take(SHOWN).collect() },
        })?;
        Ok(Answered { text: read.0, value: read.1, whole })
    }

    fn answer(
        &mut self,
        message: &str,
        options: &GenerateOptions,
        show: bool,
    ) -> Result<(String, Finish), OpError> {
        let (prompt, in_thought) = self.prompt(message)?;
        let model = std::sync::Arc::clone(self.session.model());
        let mut parser = OutputParser::new(OutputOptions { in_thought, tools: Vec::new() });
        let mut trimmed = Trimmed::default();
        let mut failed = None;
        let on_event = &mut *self.on_event;
        let answer = self.session.generate(&prompt, options, self.cancel, &mut |event| match event {
            Event::Prefill { done, total } => on_event(OpEvent::Prefill { done, total }),
            Event::Token { id, .. } => {
                let mut flow = ControlFlow::Continue(());
                let mut take = |event| {
                    if let OutputEvent::Text(text) = event {
                        let more = trimmed.push(&text);
                        if show && !more.is_empty() {
                            flow = on_event(OpEvent::Text(&more));
                        }
                    }
                };
                if let Err(error) = parser.push_token(model.tokenizer(), model.control(), id, &mut take) {
                    failed = Some(error);
                }
                if failed.is_some() || parser.is_done() { ControlFlow::Break(()) } else { flow }
            }
            Event::Rest { .. } => ControlFlow::Continue(()),
        });
        let answer = answer?;
        if let Some(error) = failed {
            return Err(EngineError::from(error).into());
        }
        self.stats.prompts += 1;
        self.stats.prompt_tokens += answer.timings.prompt_tokens;
        self.stats.reused_tokens += answer.timings.reused_tokens;
        self.stats.tokens += answer.timings.tokens;
        self.stats.verify_steps += answer.timings.verify_steps;
        self.stats.verified_tokens += answer.timings.verified_tokens;
        let ended = parser.is_done();
        if answer.finish == Finish::Cancelled && !ended {
            return Err(OpError::Cancelled);
        }
        let mut rest = String::new();
        parser.finish(&mut |event| {
            if let OutputEvent::Text(text) = event {
                rest.push_str(&trimmed.push(&text));
            }
        });
        if show && !rest.is_empty() {
            // The answer is over; there is nothing left to end.
            let _ = (self.on_event)(OpEvent::Text(&rest));
        }
        Ok((trimmed.text, if ended { Finish::Stop } else { answer.finish }))
    }
}

/// A stream without white space at its ends.
#[derive(Default)]
struct Trimmed {
    text: String,
    /// White space that is part of the text if more follows.
    held: String,
}

impl Trimmed {
    /// What is certain now.
    fn push(&mut self, text: &str) -> String {
        let body = text.trim_end();
        let mut more = String::new();
        if !body.is_empty() {
            if self.text.is_empty() {
                self.held.clear();
                more.push_str(body.trim_start());
            } else {
                more.push_str(&std::mem::take(&mut self.held));
                more.push_str(body);
            }
            self.text.push_str(&more);
        }
        self.held.push_str(&text[body.len()..]);
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_an_answer_is_never_shown() {
        let mut trimmed = Trimmed::default();
        let shown: Vec<String> =
            ["\n", " a", " ", "\n", "b \n", "c", "\n\n"].iter().map(|part| trimmed.push(part)).collect();
        assert_eq!(shown.concat(), trimmed.text);
        assert_eq!(trimmed.text, "a \nb \nc");
    }
}
