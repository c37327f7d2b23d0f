//! An answer as an iterator of events, made on a thread of its own.
//!
//! Dropping the iterator cancels the answer and returns at once; the thread ends within one token or one chunk of the prompt,
//! and the next question waits for that. What was made of the answer until then is in the history. A reader that is slow holds
//! nobody up: events wait for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::chat_session::{ChatSession, How};
use super::gate::Entered;
use super::tool_turn::{Approval, ToolSettings, Watch};
use super::turn::{ChatEvent, ChatOptions, Turn};
use crate::EngineError;
use crate::chat::{Message, ParsedCall, Role};
use crate::generate::Timings;
use crate::tools::{PendingCall, Toolbox};

/// Where the events of a turn go.
type OnEvent<'a> = &'a mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>;

/// A step of a streamed answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// Part of the prompt is done.
    Prefill {
        /// Prompt tokens in the cache now.
        done: usize,
        /// Prompt tokens there are.
        total: usize,
    },
    /// More of the thought.
    ThinkingDelta(String),
    /// More of the answer.
    Delta(String),
    /// A complete call.
    ToolCall(ParsedCall),
    /// What a call gave, where calls are run on the way.
    ToolResult {
        /// The call.
        call: PendingCall,
        /// What the model is told.
        result: String,
    },
    /// How long it took, all answers of a turn with calls together: the last but one.
    Stats(Timings),
    /// The whole turn, the last answer of one with calls: the last one.
    Done(Box<Turn>),
}

/// A streamed answer. See the module documentation.
#[derive(Debug)]
pub struct ResponseStream {
    events: Receiver<Result<StreamEvent, EngineError>>,
    cancel: Arc<AtomicBool>,
}

impl ResponseStream {
    /// The flag that ends the answer; the stream then ends with what came so far.
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }
}

impl Iterator for ResponseStream {
    type Item = Result<StreamEvent, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.events.recv().ok()
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl ChatSession {
    /// Answers a user's message on a thread of its own.
    ///
    /// # Errors
    /// [`EngineError::Busy`] while another turn of this conversation is running, or no thread can be had. Later ones come out
    /// of the stream.
    pub fn stream_response(&self, text: &str) -> Result<ResponseStream, EngineError> {
        self.stream(vec![Message::new(Role::User, text)], self.options())
    }

    /// Adds messages and answers them with these options on a thread of its own.
    ///
    /// # Errors
    /// As [`ChatSession::stream_response`].
    pub fn stream(
        &self,
        messages: Vec<Message>,
        options: ChatOptions,
    ) -> Result<ResponseStream, EngineError> {
        let chat = self.clone();
        self.spawn(move |entered, cancel, on_event| {
            let how = How { options: &options, plan: None, keep_unseen: false };
            let turn = chat.run(entered, messages, how, cancel, on_event)?;
            Ok((turn.timings, turn))
        })
    }

    /// Answers a user's message with the help of tools on a thread of its own. `approve` is asked there about each call.
    ///
    /// # Errors
    /// As [`ChatSession::stream_response`].
    pub fn stream_with_tools(
        &self,
        text: &str,
        toolbox: Arc<Toolbox>,
        settings: ToolSettings,
        mut approve: impl FnMut(&PendingCall) -> Approval + Send + 'static,
    ) -> Result<ResponseStream, EngineError> {
        let (chat, text) = (self.clone(), text.to_owned());
        self.spawn(move |entered, cancel, on_event| {
            let mut watch = Watch { cancel, approve: &mut approve, on_event };
            let done = chat.tool_turn(entered, &text, &toolbox, &settings, &mut watch)?;
            // There is one at least: what fails before it is an error.
            let last = done.turns.last().cloned().ok_or(EngineError::EmptyPrompt)?;
            Ok((done.timings(), last))
        })
    }

    /// Makes a turn on a thread of its own.
    fn spawn(
        &self,
        make: impl FnOnce(&Entered, &AtomicBool, OnEvent<'_>) -> Result<(Timings, Turn), EngineError>
        + Send
        + 'static,
    ) -> Result<ResponseStream, EngineError> {
        let cancel = Arc::new(AtomicBool::new(false));
        let entered = self.enter(Some(Arc::clone(&cancel)))?;
        let (sender, events) = channel();
        let flag = Arc::clone(&cancel);
        let work = move || {
            entered.moved();
            let made = make(&entered, &flag, &mut |event| match owned(event) {
                Some(event) => send(&sender, Ok(event)),
                None => ControlFlow::Continue(()),
            });
            // The next turn may begin before the last event is read.
            drop(entered);
            match made {
                Ok((timings, turn)) => {
                    let _ = send(&sender, Ok(StreamEvent::Stats(timings)));
                    let _ = send(&sender, Ok(StreamEvent::Done(Box::new(turn))));
                }
                Err(error) => {
                    let _ = send(&sender, Err(error));
                }
            }
        };
        std::thread::Builder::new()
            .name("answer".into())
            .spawn(work)
            .map_err(|error| EngineError::Thread(error.to_string()))?;
        Ok(ResponseStream { events, cancel })
    }
}

/// Hands an event to the reader; a break where there is none any more.
fn send(
    sender: &Sender<Result<StreamEvent, EngineError>>,
    event: Result<StreamEvent, EngineError>,
) -> ControlFlow<()> {
    match sender.send(event) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

fn owned(event: ChatEvent<'_>) -> Option<StreamEvent> {
    Some(match event {
        ChatEvent::Prefill { done, total } => StreamEvent::Prefill { done, total },
        ChatEvent::Reasoning(text) => StreamEvent::ThinkingDelta(text.into()),
        ChatEvent::Text(text) => StreamEvent::Delta(text.into()),
        ChatEvent::Call(call) => StreamEvent::ToolCall(call.clone()),
        ChatEvent::Result { call, result } => {
            StreamEvent::ToolResult { call: call.clone(), result: result.into() }
        }
        ChatEvent::Token { .. } => return None,
    })
}
