//! One answer to make, and what is told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_engine::chat::{Message, Output, ParsedCall};
use rawloop_engine::sample::{LogProbabilities, LogProbability};
use rawloop_engine::{ChatOptions, EngineError, Finish, GenerateOptions, Timings};
use tokio::sync::mpsc::UnboundedSender;

use super::{Form, Place};

/// What is answered. Answers to one request share what is large.
pub enum What {
    /// A conversation.
    Chat {
        /// Its messages, without the instructions.
        messages: Arc<Vec<Message>>,
        /// How to answer.
        options: Box<ChatOptions>,
    },
    /// Ids, as they stand.
    Raw {
        /// The ids.
        prompt: Arc<Vec<u32>>,
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
    pub form: Arc<Form>,
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
    /// Its room in the queue, for as long as it exists.
    pub place: Place,
}

/// Room for one of a request's answers, and where it is told: what a task is made of once there is a place for it.
#[derive(Debug)]
pub struct Slot {
    /// Which of the request's answers it is.
    pub index: usize,
    /// Ends the request.
    pub cancel: Arc<AtomicBool>,
    /// Where events go.
    pub events: UnboundedSender<(usize, Event)>,
    /// Its room.
    pub place: Place,
}

impl Slot {
    /// A task without followers.
    pub fn task(self, what: What, form: Arc<Form>, tokens: bool) -> Task {
        let Slot { index, cancel, events, place } = self;
        Task { what, form, index, followers: Vec::new(), cancel, tokens, events, place }
    }
}

/// Answers to one prompt: the first runs it, the others follow.
pub fn with_followers(mut tasks: impl Iterator<Item = Task>) -> Vec<Task> {
    let mut first: Vec<Task> = tasks.next().into_iter().collect();
    if let Some(first) = first.first_mut() {
        first.followers = tasks.collect();
    }
    first
}

impl Task {
    /// Whether nobody wants it any more.
    pub fn is_gone(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.events.is_closed()
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
    /// Tokens of its thought.
    pub reasoning_tokens: usize,
}

/// How likely a token was that had to follow.
pub fn certain(id: u32) -> LogProbabilities {
    LogProbabilities { picked: LogProbability { id, value: 0.0 }, top: Vec::new() }
}
