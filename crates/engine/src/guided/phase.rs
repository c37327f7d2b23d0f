//! What an answer consists of: a thought, a text, calls; and which part it is in.
//!
//! ```text
//! start -- <|channel> --> thought -- <channel|> --> start
//! start -- text -------> text or grammar -- stop --> ended
//! start, text -- <|tool_call> --> calls -- stop --> ended
//! ```
//!
//! The grammar begins with the first byte that is not thought, and there is nothing between the two: before the mark of a
//! thought only that mark or the grammar can stand. A thought is free text; it has no other marks, and ends with its own only.

use std::sync::Arc;

use super::{CompiledGrammar, Constraint, Environment};
use crate::chat::ControlTokens;

/// Whether a thought comes before the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Thinking {
    /// None can.
    #[default]
    Off,
    /// One can: the model decides with its first token.
    Allowed,
    /// One must.
    Required,
    /// The prompt has opened one already.
    Open,
}

impl Thinking {
    /// What a prompt leaves room for: it may have opened a thought, or asked for one.
    pub fn of_prompt(control: &ControlTokens, prompt: &[u32]) -> Thinking {
        let marks = [control.channel_open, control.channel_close, control.turn_close];
        match prompt.iter().rev().find(|id| marks.contains(id)) {
            Some(&mark) if mark == control.channel_open => Thinking::Open,
            _ if prompt.contains(&control.think) => Thinking::Allowed,
            _ => Thinking::Off,
        }
    }
}

/// What may be said outside of thoughts and calls.
#[derive(Clone, Debug)]
pub(super) enum Text {
    /// Nothing: calls only.
    Nothing,
    /// Any text without control tokens.
    Free,
    /// Text that follows a grammar.
    Grammar(Arc<CompiledGrammar>),
}

/// The plan of an answer; [`AnswerPlan::begin`] makes a constraint of it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AnswerPlan {
    pub(super) thinking: Thinking,
    pub(super) text: Text,
    pub(super) calls: Option<Arc<CompiledGrammar>>,
    pub(super) stops: Vec<u32>,
}

impl AnswerPlan {
    /// Text that follows a grammar.
    pub fn grammar(grammar: impl Into<Arc<CompiledGrammar>>) -> AnswerPlan {
        AnswerPlan::new(Text::Grammar(grammar.into()), None)
    }

    /// Any text, without control tokens or reserved tokens: no call can begin.
    pub fn free() -> AnswerPlan {
        AnswerPlan::new(Text::Free, None)
    }

    /// Calls and nothing else, by a grammar from [`crate::tools::call_grammar`].
    pub fn calls(calls: impl Into<Arc<CompiledGrammar>>) -> AnswerPlan {
        AnswerPlan::new(Text::Nothing, Some(calls.into()))
    }

    fn new(text: Text, calls: Option<Arc<CompiledGrammar>>) -> AnswerPlan {
        AnswerPlan { thinking: Thinking::Off, text, calls, stops: Vec::new() }
    }

    /// Lets the model call instead of answering, or behind free text.
    pub fn or_calls(mut self, calls: impl Into<Arc<CompiledGrammar>>) -> AnswerPlan {
        self.calls = Some(calls.into());
        self
    }

    /// Whether a thought comes first.
    pub fn thinking(mut self, thinking: Thinking) -> AnswerPlan {
        self.thinking = thinking;
        self
    }

    /// The tokens that end the answer where it is complete; without any, the ends of a turn and of a text.
    pub fn stops(mut self, stops: &[u32]) -> AnswerPlan {
        self.stops = stops.to_vec();
        self
    }

    /// Adds stops where there are none.
    pub(crate) fn stops_or(self, stops: &[u32]) -> AnswerPlan {
        if self.stops.is_empty() { self.stops(stops) } else { self }
    }

    /// Whether the two are the same grammars with the same marks around them.
    pub(super) fn is_same(&self, other: &AnswerPlan) -> bool {
        let same = |one: &Arc<CompiledGrammar>, other: &Arc<CompiledGrammar>| Arc::ptr_eq(one, other);
        let texts = match (&self.text, &other.text) {
            (Text::Grammar(one), Text::Grammar(other)) => same(one, other),
            (Text::Free, Text::Free) | (Text::Nothing, Text::Nothing) => true,
            _ => false,
        };
        let calls = match (&self.calls, &other.calls) {
            (Some(one), Some(other)) => same(one, other),
            (None, None) => true,
            _ => false,
        };
        texts && calls && self.thinking == other.thinking && self.stops == other.stops
    }

    /// Begins an answer.
    pub fn begin(&self, environment: &Environment) -> Constraint {
        Constraint::new(self, environment)
    }
}

/// Which part an answer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing has been said. With whether a thought may still come.
    Start { thought: bool },
    /// In a thought.
    Thought,
    /// In free text.
    Free,
    /// In text by a grammar.
    Grammar,
    /// In calls.
    Calls,
    /// Behind a stop.
    Ended,
}
