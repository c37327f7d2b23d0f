//! An answer as Python reads it.
//!
//! Dropping the object cancels the answer. `wait` gives up the interpreter's lock, and comes back several times a second to
//! look for signals, which only the interpreter can deliver: Ctrl-C ends the answer, not the wait for it.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde_json::Value;

use crate::failure::Failure;
use crate::mailbox::{Event, Mailbox, Taken};

/// How long a signal may wait.
const PATIENCE: Duration = Duration::from_millis(20);

/// An answer that is being made on a thread of its own.
#[pyclass(frozen, module = "rawloop._native")]
#[derive(Debug)]
pub struct Stream {
    mailbox: Arc<Mailbox>,
}

impl Stream {
    /// Begins an answer. `work` makes it and hands back the last event.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn begin(
        mailbox: Arc<Mailbox>,
        work: impl FnOnce(&Mailbox) -> Result<String, Failure> + Send + 'static,
    ) -> Result<Stream, Failure> {
        let inside = Arc::clone(&mailbox);
        let make = move || {
            let _closing = inside.closing();
            let last = match work(&inside) {
                Ok(answer) => Event::Done(answer),
                Err(failure) => Event::Failed(failure),
            };
            inside.finish(last);
        };
        let begun = std::thread::Builder::new().name("answer".into()).spawn(make);
        match begun {
            Ok(_) => Ok(Stream { mailbox }),
            Err(error) => {
                drop(mailbox.closing());
                Err(Failure::new("BackendError", format!("no thread to answer on: {error}")))
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.mailbox.cancel();
    }
}

#[pymethods]
impl Stream {
    /// The events there are, at least one; None behind the last.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<Bound<'py, PyTuple>>>> {
        loop {
            match py.detach(|| self.mailbox.take(PATIENCE)) {
                Taken::Events(events) => return tuples(py, events).map(Some),
                Taken::Over => return Ok(None),
                Taken::Nothing => {}
            }
            if let Err(signal) = py.check_signals() {
                self.mailbox.cancel();
                return Err(signal);
            }
        }
    }

    /// The events there are, perhaps none; None behind the last.
    fn ready<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<Bound<'py, PyTuple>>>> {
        match self.mailbox.take(Duration::ZERO) {
            Taken::Events(events) => tuples(py, events).map(Some),
            Taken::Nothing => Ok(Some(Vec::new())),
            Taken::Over => Ok(None),
        }
    }

    /// Calls `waker` once when there is something to read, from any thread. False, and no call, where there is already.
    fn arm(&self, waker: Py<PyAny>) -> bool {
        self.mailbox.arm(waker)
    }

    /// The result, as JSON, of the call that was asked for. False where none waits.
    fn reply(&self, result: &str) -> PyResult<bool> {
        let value: Value = serde_json::from_str(result).map_err(Failure::messages)?;
        Ok(self.mailbox.reply(Ok(value)))
    }

    /// Says why the call that was asked for has no result. False where none waits.
    fn refuse(&self, reason: String) -> bool {
        self.mailbox.reply(Err(reason))
    }

    /// Ends the answer within a token or a chunk of the prompt.
    fn cancel(&self) {
        self.mailbox.cancel();
    }
}

fn tuples(py: Python<'_>, events: Vec<Event>) -> PyResult<Vec<Bound<'_, PyTuple>>> {
    events.into_iter().map(|event| tuple(py, event)).collect()
}

/// A name, and what belongs to it.
fn tuple(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyTuple>> {
    match event {
        Event::Prefill(done, total) => ("prefill", done, total).into_pyobject(py),
        Event::Thought(text) => ("thought", text).into_pyobject(py),
        Event::Text(text) => ("text", text).into_pyobject(py),
        Event::Call { name, arguments } => ("call", name, arguments).into_pyobject(py),
        Event::Ask(call) => {
            let arguments = Value::Object(call.arguments).to_string();
            ("ask", call.index, call.id, call.name, arguments).into_pyobject(py)
        }
        Event::Result { call, text } => ("result", call.id, call.name, text).into_pyobject(py),
        Event::Piece(index, count) => ("piece", index, count).into_pyobject(py),
        Event::Done(answer) => ("done", answer).into_pyobject(py),
        Event::Failed(failure) => ("failed", failure.class, failure.message).into_pyobject(py),
    }
}
