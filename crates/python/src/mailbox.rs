//! Between the thread that makes an answer and the one that reads it.
//!
//! The maker puts events in and never waits for a reader, with one exception: it asks for the result of a tool's call, and
//! waits until there is one or the answer is cancelled. The reader takes everything there is at once, waits with a time
//! limit (it has signals to look at), or leaves a function of Python's that is called when there is something.
//!
//! Invariant: nobody holds the lock in here while waiting for the interpreter's, so a reader that holds the interpreter's
//! may take this one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use rawloop_engine::tools::PendingCall;
use serde_json::Value;

use crate::failure::Failure;

/// A step of an answer.
#[derive(Debug)]
pub enum Event {
    /// Prompt tokens done, and how many there are.
    Prefill(usize, usize),
    /// More of the thought.
    Thought(String),
    /// More of the answer.
    Text(String),
    /// A complete call.
    Call { name: String, arguments: String },
    /// A call whose result is waited for.
    Ask(PendingCall),
    /// What the model is told of a call.
    Result { call: PendingCall, text: String },
    /// A piece of a long text comes next: which one, of how many.
    Piece(usize, usize),
    /// The whole answer, as JSON.
    Done(String),
    /// It failed.
    Failed(Failure),
}

/// What became of a call.
pub type Reply = Result<Value, String>;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
    cancelled: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    /// Nothing comes any more.
    over: bool,
    /// Called once, when something comes.
    waker: Option<Py<PyAny>>,
    /// A call waits.
    asking: bool,
    reply: Option<Reply>,
}

/// What a reader finds.
#[derive(Debug)]
pub enum Taken {
    /// Events.
    Events(Vec<Event>),
    /// None yet.
    Nothing,
    /// None any more.
    Over,
}

impl Mailbox {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is one step, so a panic between two leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The flag that ends the answer.
    pub fn cancelled(&self) -> &AtomicBool {
        &self.cancelled
    }

    /// Whether the answer was told to end.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Ends the answer within a token or a chunk of the prompt.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        // Under the lock, so that a maker about to wait for a reply sees the flag or the call.
        let _state = self.state();
        self.changed.notify_all();
    }

    /// Puts an event in.
    pub fn push(&self, event: Event) {
        self.change(|state| state.events.push_back(event));
    }

    /// Puts the last event in.
    pub fn finish(&self, event: Event) {
        self.change(|state| {
            state.events.push_back(event);
            state.over = true;
        });
    }

    /// Nothing comes any more, whatever happened.
    fn close(&self) {
        self.change(|state| state.over = true);
    }

    /// Closes it at the end of a scope, also where that ends in a panic.
    pub fn closing(&self) -> Closing<'_> {
        Closing(self)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        let waker = state.waker.take();
        self.changed.notify_all();
        drop(state);
        if let Some(waker) = waker {
            // Without an interpreter, or with a loop that is closed, there is nobody to tell.
            Python::try_attach(|py| {
                let _ = waker.call0(py);
                drop(waker);
            });
        }
    }

    /// Puts a call in and waits for its result. None where the answer is cancelled meanwhile.
    pub fn ask(&self, call: PendingCall) -> Option<Reply> {
        self.change(|state| {
            state.asking = true;
            state.events.push_back(Event::Ask(call));
        });
        let mut state = self.state();
        while state.reply.is_none() && !self.is_cancelled() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asking = false;
        state.reply.take()
    }

    /// Gives the call that waits its result. False where none does.
    pub fn reply(&self, reply: Reply) -> bool {
        let mut state = self.state();
        let waits = state.asking && state.reply.is_none();
        if waits {
            state.reply = Some(reply);
            self.changed.notify_all();
        }
        waits
    }

    /// Takes what there is; waits up to `patience` for it.
    pub fn take(&self, patience: Duration) -> Taken {
        let state = self.state();
        let waits = |state: &mut State| state.events.is_empty() && !state.over;
        let (mut state, _) =
            self.changed.wait_timeout_while(state, patience, waits).unwrap_or_else(PoisonError::into_inner);
        match (state.events.is_empty(), state.over) {
            (false, _) => Taken::Events(state.events.drain(..).collect()),
            (true, true) => Taken::Over,
            (true, false) => Taken::Nothing,
        }
    }

    /// Leaves a function to call when something comes. False where something is there already.
    pub fn arm(&self, waker: Py<PyAny>) -> bool {
        let mut state = self.state();
        let waits = state.events.is_empty() && !state.over;
        let old = if waits { state.waker.replace(waker) } else { Some(waker) };
        drop(state);
        drop(old);
        waits
    }

    /// Whether the answer is made.
    pub fn is_over(&self) -> bool {
        self.state().over
    }

    /// Waits until the answer is made.
    pub fn wait_over(&self) {
        let state = self.state();
        let _over =
            self.changed.wait_while(state, |state| !state.over).unwrap_or_else(PoisonError::into_inner);
    }
}

/// See [`Mailbox::closing`].
#[derive(Debug)]
pub struct Closing<'a>(&'a Mailbox);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
