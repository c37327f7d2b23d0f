//! One answer to make, and what is told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_engine::chat::{Message, Output, ParsedCall};
use rawloop_engine::sample::{LogProbabilities, LogProbability};
use rawloop_engine::{ChatOptions, EngineError, Finish, GenerateOptions, Timings};
use tokio::sync::mpsc::UnboundedSender;

use super::Form;

/// What is answered.
pub enum What {
    /// A conversation.
    Chat {
        /// Its messages, without the instructions.
        messages: Vec<Message>,
        /// How to answer.
        options: Box<ChatOptions>,
    },
    /// Ids, as they stand.
    Raw {
        /// The ids.
        prompt: Vec<u32>,
        /// How to go on.
        options: Box<GenerateOptions>,
        /// How likely each id of the prompt is, with so many alternatives.
        score: Option<u32>,
    },
}

/// One answer to make.
pub struct Task {
    /// What is answered.
    pub what: What,
    /// What the answer has to look like.
    pub form: Form,
    /// Which of the request's answers it is.
    pub index: usize,
    /// Other answers to the same prompt, which begin when this one has run it.
    pub followers: Vec<Task>,
    /// Ends it.
    pub cancel: Arc<AtomicBool>,
    /// Whether tokens are told one by one.
    pub tokens: bool,
    /// Where events go.
    pub events: UnboundedSender<(usize, Event)>,
}

impl Task {
    /// Whether nobody wants it any more.
    pub fn is_gone(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.events.is_closed()
    }

    /// Answers that it stands for.
    pub fn answers(&self) -> usize {
        1 + self.followers.len()
    }
}

/// What happens on the way of an answer.
#[derive(Debug)]
pub enum Event {
    /// Part of the prompt is done.
    Prefill,
    /// How likely the ids of the prompt are; none of the first.
    Scored(Vec<LogProbabilities>),
    /// A token; the text that it makes certain follows.
    Token(u32, Option<LogProbabilities>),
    /// More of the thought.
    Reasoning(String),
    /// More of the answer.
    Text(String),
    /// A whole call.
    Call(ParsedCall),
    /// The end.
    Done(Box<Finished>),
    /// The end, without an answer.
    Failed(EngineError),
}

/// A finished answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Thought, text and calls, put together.
    pub output: Output,
    /// Why it ended.
    pub finish: Finish,
    /// How long it took.
    pub timings: Timings,
    /// Seed of its random numbers.
    pub seed: u64,
}

/// How likely a token was that had to follow.
pub fn certain(id: u32) -> LogProbabilities {
    LogProbabilities { picked: LogProbability { id, value: 0.0 }, top: Vec::new() }
}
