//! Conversations.
//!
//! One turn at a time: the one that runs is known by its mailbox. A turn that was cancelled, because its reader is gone or
//! said so, is waited for; beside any other one a second turn is refused, and so is a change of the history.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use rawloop_engine::chat::{Message, Tool};
use rawloop_engine::conversation::{SavedChat, ToolSettings};
use rawloop_engine::tools::{PlanOptions, ToolChoice};
use rawloop_engine::{ChatOptions, ChatSession, EngineError};

use crate::failure::Failure;
use crate::mailbox::Mailbox;
use crate::settings::{self, LastForm, Settings};
use crate::stream::Stream;
use crate::work;

/// A conversation.
#[pyclass(frozen, module = "rawloop._native")]
pub struct Chat {
    session: ChatSession,
    forms: LastForm,
    running: Mutex<Option<Arc<Mailbox>>>,
    /// The conversation's own options while a turn with calls has put others in their place.
    own: Arc<Mutex<Option<ChatOptions>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Chat {
    pub fn new(session: ChatSession) -> Chat {
        Chat { session, forms: LastForm::default(), running: Mutex::default(), own: Arc::default() }
    }

    fn options(&self) -> ChatOptions {
        lock(&self.own).clone().unwrap_or_else(|| self.session.options())
    }

    /// Does something while no turn runs, and none can begin.
    fn between<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Option<Arc<Mailbox>>) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        let done = py.detach(|| {
            loop {
                let mut running = lock(&self.running);
                match &*running {
                    Some(turn) if !turn.is_over() => {
                        if !turn.is_cancelled() {
                            return Err(Failure::busy());
                        }
                        let turn = Arc::clone(turn);
                        drop(running);
                        turn.wait_over();
                    }
                    _ => return work(&mut running),
                }
            }
        });
        Ok(done?)
    }

    fn change<R: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&ChatSession) -> Result<R, EngineError> + Send,
    ) -> PyResult<R> {
        self.between(py, |_| Ok(change(&self.session)?))
    }

    fn begin_tools(
        &self,
        text: String,
        tools: Vec<Tool>,
        how: ToolSettings,
        settings: &Settings,
        mailbox: Arc<Mailbox>,
    ) -> Result<Stream, Failure> {
        // The engine takes the conversation's own options for a turn with calls, so they are changed for as long as it
        // runs; nobody else's turn can begin meanwhile.
        let own = self.session.options();
        let mut options = own.clone();
        settings::apply(settings, self.session.model(), &self.forms, &mut options)?;
        let (session, place) = (self.session.clone(), Arc::clone(&self.own));
        *lock(&place) = Some(own.clone());
        let begun = Stream::begin(mailbox, move |mailbox| {
            let changed = session.change_options(|current| *current = options);
            let answer = match changed {
                Ok(()) => work::tool_turn(&session, &text, tools, &how, mailbox),
                Err(error) => Err(error.into()),
            };
            let restored = session.change_options(|current| *current = own);
            *lock(&place) = None;
            restored?;
            answer
        });
        if begun.is_err() {
            *lock(&self.own) = None;
        }
        begun
    }
}

#[pymethods]
impl Chat {
    /// Answers messages (JSON, in OpenAI's shape) with settings (JSON) for this turn.
    fn send(&self, py: Python<'_>, messages: &str, settings: &str) -> PyResult<Stream> {
        let messages: Vec<Message> = serde_json::from_str(messages).map_err(Failure::messages)?;
        let settings = settings::parse(settings)?;
        self.between(py, |running| {
            let mut options = self.session.options();
            settings::apply(&settings, self.session.model(), &self.forms, &mut options)?;
            let (session, mailbox) = (self.session.clone(), Arc::new(Mailbox::default()));
            *running = Some(Arc::clone(&mailbox));
            Stream::begin(mailbox, move |mailbox| work::turn(&session, messages, &options, mailbox))
        })
    }

    /// Answers a text with tools (JSON, in OpenAI's shape) that the reader of the stream runs. `how` is what may be called
    /// (JSON), the rounds of calls and the calls of one answer at most.
    fn send_with_tools(
        &self,
        py: Python<'_>,
        text: String,
        settings: &str,
        tools: &str,
        how: (String, usize, usize),
    ) -> PyResult<Stream> {
        let tools: Vec<Tool> = serde_json::from_str(tools).map_err(Failure::option)?;
        let (choice, rounds, most_calls) = how;
        let choice: ToolChoice = serde_json::from_str(&choice).map_err(Failure::option)?;
        let settings = settings::parse(settings)?;
        let how = ToolSettings { choice, rounds, plan: PlanOptions { most_calls } };
        self.between(py, |running| {
            let mailbox = Arc::new(Mailbox::default());
            *running = Some(Arc::clone(&mailbox));
            let begun = self.begin_tools(text, tools, how, &settings, Arc::clone(&mailbox));
            if begun.is_err() {
                // Nothing runs that could say so.
                drop(mailbox.closing());
            }
            begun
        })
    }

    /// Ends the turn that runs, where one does.
    fn cancel(&self) {
        let running = lock(&self.running).clone();
        if let Some(turn) = running {
            turn.cancel();
        }
    }

    /// Whether a turn runs.
    fn is_running(&self) -> bool {
        let running = lock(&self.running).clone();
        running.is_some_and(|turn| !turn.is_over())
    }

    /// Another conversation with the same history on the same backend. While a turn runs, with the history as far as it is.
    fn fork(&self, py: Python<'_>) -> PyResult<Chat> {
        let forked = py.detach(|| {
            let (fork, options) = (self.session.fork(), self.options());
            fork.change_options(|current| *current = options)?;
            Ok::<_, Failure>(Chat::new(fork))
        });
        Ok(forked?)
    }

    /// The history, without the system prompt, as JSON.
    fn messages(&self) -> PyResult<String> {
        let text = serde_json::to_string(&self.session.messages());
        Ok(text.map_err(Failure::messages)?)
    }

    /// Replaces the history.
    fn set_messages(&self, py: Python<'_>, messages: &str) -> PyResult<()> {
        let messages: Vec<Message> = serde_json::from_str(messages).map_err(Failure::messages)?;
        self.change(py, |session| session.set_messages(messages))
    }

    /// Takes a turn and everything behind it out of the history.
    fn rewind(&self, py: Python<'_>, turn: usize) -> PyResult<String> {
        let removed = self.change(py, |session| session.rewind(turn))?;
        Ok(serde_json::to_string(&removed).map_err(Failure::messages)?)
    }

    /// Takes one turn out of the history.
    fn remove_turn(&self, py: Python<'_>, turn: usize) -> PyResult<String> {
        let removed = self.change(py, |session| session.remove_turn(turn))?;
        Ok(serde_json::to_string(&removed).map_err(Failure::messages)?)
    }

    /// Changes the text of a message. False where there is none.
    fn edit_message(&self, py: Python<'_>, index: usize, text: &str) -> PyResult<bool> {
        self.change(py, |session| session.edit_message(index, text))
    }

    /// Turns in the history.
    fn turns(&self) -> usize {
        rawloop_engine::conversation::turns(&self.session.messages()).len()
    }

    /// The settings, as JSON.
    fn settings(&self) -> String {
        settings::json(&self.options()).to_string()
    }

    /// Changes settings from the next turn on.
    fn configure(&self, py: Python<'_>, settings: &str) -> PyResult<()> {
        let settings = settings::parse(settings)?;
        self.between(py, |_| {
            let mut options = self.session.options();
            settings::apply(&settings, self.session.model(), &self.forms, &mut options)?;
            Ok(self.session.change_options(|current| *current = options)?)
        })
    }

    /// Tokens of system prompt, history, prompt, and context.
    fn token_counts(&self, py: Python<'_>) -> PyResult<(usize, usize, usize, usize)> {
        let counts = py.detach(|| self.session.token_counts()).map_err(Failure::from)?;
        Ok((counts.system, counts.history, counts.prompt, counts.context))
    }

    /// Tokens that a text would add.
    fn cost(&self, py: Python<'_>, text: &str) -> PyResult<usize> {
        Ok(py.detach(|| self.session.cost(text)).map_err(Failure::from)?)
    }

    /// Answers, prompt tokens, reused prompt tokens and answer tokens so far.
    fn totals(&self) -> (usize, usize, usize, usize) {
        let totals = self.session.totals();
        (totals.turns, totals.prompt_tokens, totals.reused_tokens, totals.tokens)
    }

    /// Writes the conversation to a file.
    fn save(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.change(py, |session| session.save(Path::new(path)))
    }

    /// Goes on with the conversation of a file.
    fn load(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.change(py, |session| session.load(Path::new(path)))
    }

    /// The conversation as JSON.
    fn dump(&self) -> PyResult<String> {
        Ok(serde_json::to_string(&self.session.saved()).map_err(Failure::messages)?)
    }

    /// Goes on with a conversation that was JSON.
    fn restore(&self, py: Python<'_>, saved: &str) -> PyResult<()> {
        let saved: SavedChat =
            serde_json::from_str(saved).map_err(|error| Failure::new("SessionFileError", error))?;
        self.change(py, |session| session.restore(saved))
    }

    /// Prepares the vocabulary for answers with a form, on a thread of its own.
    fn prepare_constraints(&self) {
        self.session.prepare_constraints();
    }
}
