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
