//! An operation over a text of any length.
//!
//! 1. Options and texts are checked, and what the context leaves for a text is worked out, before the model runs.
//! 2. A text that fits is one prompt. A longer one is split ([`super::split()`]) and treated as the table says ([`Long`]).
//! 3. Strings that should be from the text and are not are dropped.
//!
//! An answer is a function of text and options: each prompt stands for itself, whatever the session did before.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::ask::{Answered, Asker, OpStats};
use super::options::LEAST_PIECE;
use super::prompt::{fill, template, wording};
use super::shape::Form;
use super::spans::Haystack;
use super::split::{Piece, count, split};
use super::table::{Long, Op, Shape};
use super::{OpError, OpOptions, find, merge, points, spans};
use crate::session::Session;

/// Tokens by which a text may grow where it meets the words around it.
const SLACK: usize = 8;

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
pub enum OpEvent<'a> {
    /// A piece of a long text comes next. A text that fits has none.
    Piece {
        /// Which one, from 0.
        index: usize,
        /// Pieces of this round.
        count: usize,
    },
    /// Part of a prompt is done.
    Prefill {
        /// Prompt tokens in the cache now.
        done: usize,
        /// Prompt tokens there are.
        total: usize,
    },
    /// More of the answer. Only answers in text come in parts.
    Text(&'a str),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpAnswer {
    /// The answer as text: JSON where it is JSON.
    pub text: String,
    /// The answer as JSON where it is; for redacted text what was taken out and where.
    pub value: Option<Value>,
    /// Whether every part of it ended by itself, and not at its limit.
    pub whole: bool,
    /// Pieces that the text was split into.
    pub pieces: usize,
    /// Strings that the model named and that are not in the text.
    pub dropped: usize,
    /// What it took.
    pub stats: OpStats,
}

/// Runs an operation on as many texts as it takes. Whoever sets `cancel`, or breaks out of `on_event`, ends it within one
/// token or prompt chunk; the session is usable afterwards in every case.
///
/// # Errors
/// Options or texts that make no sense, before the model runs; an answer that is not in its form, also not the second time;
/// a failure of the session; [`OpError::Cancelled`].
pub fn run(
    session: &mut Session,
    op: &'static Op,
    texts: &[&str],
    options: &OpOptions,
    cancel: &AtomicBool,
    on_event: &mut dyn FnMut(OpEvent<'_>) -> ControlFlow<()>,
) -> Result<OpAnswer, OpError> {
    options.check(op)?;
    if texts.len() != op.inputs {
        return Err(OpError::Inputs { op: op.name, expected: op.inputs, found: texts.len() });
    }
    if let Some(at) = texts.iter().position(|text| text.trim().is_empty()) {
        return Err(OpError::Empty { op: op.name, index: at + 1 });
    }
    let asker = Asker { session, op, chunk: options.chunk, cancel, on_event, stats: OpStats::default() };
    let mut run = Run { plan: Plan::new(&asker, op, options)?, asker, pieces: 1, whole: true };
    let (text, value, dropped) = run.go(texts)?;
    Ok(OpAnswer { text, value, whole: run.whole, pieces: run.pieces, dropped, stats: run.asker.stats })
}

/// How one operation asks, in the context there is.
struct Plan {
    template: &'static str,
    values: Vec<(&'static str, String)>,
    form: Form,
    /// Tokens of a piece at most.
    piece: usize,
    /// Tokens of an answer at most; none where an answer is as long as its piece.
    answer: Option<usize>,
    /// Tokens that prompt and answer share.
    room: usize,
    most: usize,
}

impl Plan {
    fn new(asker: &Asker<'_>, op: &'static Op, options: &OpOptions) -> Result<Plan, OpError> {
        let (form, extracted) = Form::of(op, options)?;
        // A schema that cannot be followed is refused before the model runs.
        form.grammar()?;
        let mut values: Vec<(&str, String)> = Vec::new();
        for option in op.options {
            if let Some(value) = options.value(op, option.name) {
                let shown = match option.name {
                    "labels" => options.list(op, "labels")?.join(", "),
                    "fields" | "schema" => extracted.clone().unwrap_or_default(),
                    _ => wording(op, option.name, value),
                };
                values.push((option.name, shown));
            }
        }
        let most = if op.shape == Shape::Strings { options.number(op, "count")? } else { 0 };
        let template = template(op, options);
        let mut plan = Plan { template, values, form, piece: 0, answer: None, room: 0, most };
        let overhead = asker.prompt(&plan.message("", ""))?.0.len() + SLACK;
        let context = asker.session.backend().info().context;
        plan.room = context.saturating_sub(overhead);
        let wanted = options.piece_tokens.unwrap_or(op.piece_tokens);
        plan.piece = match op.long {
            // An answer may be longer than its piece: other languages take more tokens.
            Long::Join => wanted.min(plan.room * 2 / 5),
            _ => {
                let answer =
                    options.answer_tokens.unwrap_or(op.answer_tokens).clamp(1, (plan.room / 2).max(1));
                plan.answer = Some(answer);
                wanted.min(plan.room - plan.room.min(answer))
            }
        };
        if plan.piece < LEAST_PIECE {
            return Err(OpError::NoRoom { op: op.name, context, room: plan.piece, least: LEAST_PIECE });
        }
        Ok(plan)
    }

    fn message(&self, text: &str, other: &str) -> String {
        fill(self.template, |place| match place {
            "text" => Some(text.to_owned()),
            "other" => Some(other.to_owned()),
            _ => self.values.iter().find(|(name, _)| *name == place).map(|(_, value)| value.clone()),
        })
    }

    fn answer_tokens(&self, text_tokens: usize) -> usize {
        self.answer.unwrap_or((2 * text_tokens + 64).min(self.room - self.room.min(text_tokens)))
    }
}

struct Run<'a> {
    plan: Plan,
    asker: Asker<'a>,
    pieces: usize,
    whole: bool,
}

type Outcome = (String, Option<Value>, usize);

impl Run<'_> {
    fn go(&mut self, texts: &[&str]) -> Result<Outcome, OpError> {
        let text = texts.first().copied().unwrap_or_default().trim();
        match self.asker.op.long {
            Long::Reduce(style) => {
                let other = texts.get(1).copied().unwrap_or_default().trim();
                let each = self.plan.piece / texts.len().max(1);
                let text = self.condense(text, each, style)?;
                let other = self.condense(other, each, style)?;
                let is_text = matches!(self.plan.form, Form::Text);
                let message = self.plan.message(&text, &other);
                let answer =
                    self.asker.ask(&message, &self.plan.form, self.plan.answer_tokens(0), is_text)?;
                self.whole &= answer.whole;
                if let (Shape::Points, Some(value)) = (self.asker.op.shape, &answer.value) {
                    let sorted = points::sorted(value);
                    return Ok((sorted.to_string(), Some(sorted), 0));
                }
                Ok((answer.text, answer.value, 0))
            }
            Long::Join => self.join(text),
            Long::Vote => {
                let mut answers = Vec::new();
                self.each(text, false, &mut |_, answer| {
                    answers.push(answer.text);
                    ControlFlow::Continue(())
                })?;
                Ok((merge::vote(&answers).cloned().unwrap_or_default(), None, 0))
            }
            Long::First(none) => {
                let mut found = none.to_owned();
                self.each(text, false, &mut |_, answer| {
                    let said = !is_none(&answer.text, none);
                    if said {
                        found = answer.text;
                    }
                    if said { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                // It is short, and which piece it comes from is known at the end.
                if (self.asker.on_event)(OpEvent::Text(&found)).is_break() {
                    return Err(OpError::Cancelled);
                }
                Ok((found, None, 0))
            }
            Long::Merge => self.merge(text),
        }
    }

    /// Asks about each piece until it is told to end. The answer comes with its piece.
    fn each(
        &mut self,
        text: &str,
        show: bool,
        take: &mut dyn FnMut(&Piece, Answered) -> ControlFlow<()>,
    ) -> Result<(), OpError> {
        let pieces = self.split(text);
        for (index, piece) in pieces.iter().enumerate() {
            self.next(index, pieces.len())?;
            if show
                && index > 0
                && (self.asker.on_event)(OpEvent::Text(&text[piece.before.clone()])).is_break()
            {
                return Err(OpError::Cancelled);
            }
            let part = &text[piece.text.clone()];
            let message = self.plan.message(part, "");
            let tokens = self.plan.answer_tokens(count(self.asker.session.model().tokenizer(), part));
            let answer = self.asker.ask(&message, &self.plan.form, tokens, show)?;
            self.whole &= answer.whole;
            if take(piece, answer).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn split(&mut self, text: &str) -> Vec<Piece> {
        let pieces = split(self.asker.session.model().tokenizer(), text, self.plan.piece);
        self.pieces = self.pieces.max(pieces.len());
        pieces
    }

    /// Reports a piece of several.
    fn next(&mut self, index: usize, count: usize) -> Result<(), OpError> {
        if count > 1 && (self.asker.on_event)(OpEvent::Piece { index, count }).is_break() {
            return Err(OpError::Cancelled);
        }
        Ok(())
    }

    fn join(&mut self, text: &str) -> Result<Outcome, OpError> {
        let mut joined = String::with_capacity(text.len());
        self.each(text, true, &mut |piece, answer| {
            joined.push_str(&text[piece.before.clone()]);
            joined.push_str(&answer.text);
            ControlFlow::Continue(())
        })?;
        Ok((joined, None, 0))
    }

    fn merge(&mut self, text: &str) -> Result<Outcome, OpError> {
        let shape = self.asker.op.shape;
        let mut lists: Vec<Vec<String>> = Vec::new();
        let mut all = Value::Null;
        self.each(text, false, &mut |_, answer| {
            let value = answer.value.unwrap_or_default();
            if shape == Shape::Strings {
                let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                lists.push(words.map(str::to_owned).collect());
            } else {
                merge::join(&mut all, value);
            }
            ControlFlow::Continue(())
        })?;
        match shape {
            Shape::Strings => {
                let words = Value::from(merge::most_common(&lists, self.plan.most));
                Ok((words.to_string(), Some(words), 0))
            }
            Shape::Lists => {
                let dropped = spans::keep_found(&mut all, &Haystack::new(text));
                Ok((all.to_string(), Some(all), dropped))
            }
            Shape::Redacted => {
                let hay = Haystack::new(text);
                let dropped = spans::keep_found(&mut all, &hay);
                let found = spans::spans(&all, &hay);
                if found.is_empty() && dropped > 0 {
                    return Err(OpError::NotInText { op: self.asker.op.name, named: dropped });
                }
                let (redacted, list) = spans::redact(text, &found);
                if (self.asker.on_event)(OpEvent::Text(&redacted)).is_break() {
                    return Err(OpError::Cancelled);
                }
                Ok((redacted, Some(list), dropped))
            }
            _ => {
                let all = self.plan.form.fit(all).map_err(|expected| {
                    let answer = String::new();
                    OpError::Shape { op: self.asker.op.name, expected, answer }
                })?;
                Ok((all.to_string(), Some(all), 0))
            }
        }
    }

    /// Summarizes the pieces of a text until what is left fits.
    fn condense(&mut self, text: &str, budget: usize, style: Option<&str>) -> Result<String, OpError> {
        let mut text = text.to_owned();
        let mut left = count(self.asker.session.model().tokenizer(), &text);
        if left <= budget {
            return Ok(text);
        }
        let other;
        let (plan, form) = match style {
            None => (&self.plan, Form::Text),
            Some(style) => {
                let options = OpOptions::new().with("style", style);
                other = Plan::new(&self.asker, find("summarize")?, &options)?;
                (&other, Form::Text)
            }
        };
        let piece = plan.piece.min(self.plan.piece);
        // Pieces are at least half full, so summaries of a third of one shrink any text.
        let mut most = plan.answer_tokens(0).min(piece / 3).max(1);
        while left > budget {
            let pieces = split(self.asker.session.model().tokenizer(), &text, piece);
            self.pieces = self.pieces.max(pieces.len());
            let mut summaries = Vec::with_capacity(pieces.len());
            for (index, part) in pieces.iter().enumerate() {
                if pieces.len() > 1
                    && (self.asker.on_event)(OpEvent::Piece { index, count: pieces.len() }).is_break()
                {
                    return Err(OpError::Cancelled);
                }
                let message = plan.message(&text[part.text.clone()], "");
                let summary = self.asker.ask(&message, &form, most, false)?;
                self.whole &= summary.whole;
                summaries.push(summary.text);
            }
            text = summaries.join("\n\n");
            let now = count(self.asker.session.model().tokenizer(), &text);
            if now >= left {
                most = (most / 2).max(1);
            }
            left = now;
        }
        Ok(text)
    }
}

/// Whether an answer says that there is none, give or take its end.
fn is_none(answer: &str, none: &str) -> bool {
    let plain = |text: &str| text.trim().trim_end_matches('.').to_lowercase();
    answer.trim().is_empty() || plain(answer) == plain(none)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::NOT_SAID;

    #[test]
    fn an_answer_that_says_nothing_is_known() {
        assert!(is_none(" not in the text", NOT_SAID) && is_none("", NOT_SAID));
        assert!(!is_none("It is not in the text that she left.", NOT_SAID));
    }
}
