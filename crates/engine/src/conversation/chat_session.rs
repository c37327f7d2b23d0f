//! What callers hold: a conversation that may be cloned, sent to other threads, forked and edited.
//!
//! A clone is the same conversation; [`ChatSession::fork`] makes another one with the same history, [`ChatSession::beside`] an
//! empty one, both on the same backend and its caches. No lock is held while an answer is made except the backend itself, so
//! history and options can be read at any time; what changes them is refused while a turn is running.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use rawloop_pack::Pack;

use super::gate::{Entered, Gate, Shared, lock};
use super::history::{close_calls, turns};
use super::saved::SavedChat;
use super::turn::{self, ChatEvent, ChatOptions, Prompt, Turn};
use crate::EngineError;
use crate::backend::{Backend, BackendInfo};
use crate::chat::{Content, Message, Output, Role};
use crate::generate::{Finish, Timings};
use crate::guided::{AnswerPlan, Environment, SharedEnvironment};
use crate::model::{Engine, Model, ModelSource};
use crate::session::Session;

/// What is said of a call that nobody answered.
const NO_RESULT: &str = "the call was not run";

/// A conversation. See the module documentation.
#[derive(Clone)]
pub struct ChatSession {
    runtime: Arc<Runtime>,
    gate: Arc<Gate>,
    state: Arc<Mutex<State>>,
}

/// What conversations share.
struct Runtime {
    model: Arc<Model>,
    info: BackendInfo,
    environment: SharedEnvironment,
    session: Shared<Session>,
}

/// What a conversation is.
#[derive(Clone)]
pub(super) struct State {
    pub options: ChatOptions,
    pub messages: Vec<Message>,
    pub totals: Totals,
}

/// Work of a conversation so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Answers begun.
    pub turns: usize,
    /// Prompt tokens, reused ones included.
    pub prompt_tokens: usize,
    /// Prompt tokens that a cache held already.
    pub reused_tokens: usize,
    /// Tokens of answers.
    pub tokens: usize,
}

impl Totals {
    /// Prompt tokens that were run.
    pub fn prefilled_tokens(&self) -> usize {
        self.prompt_tokens - self.reused_tokens
    }
}

/// How many tokens a conversation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenCounts {
    /// Instructions and declared tools.
    pub system: usize,
    /// The whole history, instructions included.
    pub history: usize,
    /// The prompt of an answer to it as it is.
    pub prompt: usize,
    /// Positions there are, answers included.
    pub context: usize,
}

impl TokenCounts {
    /// Positions left behind the history.
    pub fn free(&self) -> usize {
        self.context.saturating_sub(self.history)
    }
}

/// How one turn is made.
pub(super) struct How<'a> {
    pub options: &'a ChatOptions,
    /// What the answer may be made of, in place of the options' constraint.
    pub plan: Option<AnswerPlan>,
    /// Keep what was asked where nothing of the answer was shown: results of calls that were run.
    pub keep_unseen: bool,
}

impl ChatSession {
    /// An empty conversation that has a session to itself.
    pub fn new(session: Session, options: ChatOptions) -> ChatSession {
        let model = Arc::clone(session.model());
        let info = session.backend().info();
        let environment = session.environment().clone();
        let runtime = Arc::new(Runtime { model, info, environment, session: Shared::new(session) });
        ChatSession::on(runtime, State { options, messages: Vec::new(), totals: Totals::default() })
    }

    /// Opens a model and begins a conversation with its own sampling. `catalog` finds the file of an id; `factory` makes the
    /// backend.
    ///
    /// # Errors
    /// As [`ModelSource::open`] and [`Engine::open`].
    pub fn open<E: From<EngineError>>(
        source: &ModelSource,
        catalog: impl FnOnce(&str) -> Option<PathBuf>,
        factory: impl FnOnce(&Arc<Pack>) -> Result<Box<dyn Backend>, E>,
        max_tokens: usize,
    ) -> Result<ChatSession, E> {
        let pack = source.open(catalog)?;
        let engine = Engine::open(Arc::new(pack), factory)?;
        let options = ChatOptions::of(engine.model(), max_tokens);
        Ok(ChatSession::new(engine.session()?, options))
    }

    fn on(runtime: Arc<Runtime>, state: State) -> ChatSession {
        ChatSession { runtime, gate: Arc::default(), state: Arc::new(Mutex::new(state)) }
    }

    /// Another, empty conversation on the same backend.
    pub fn beside(&self, options: ChatOptions) -> ChatSession {
        let state = State { options, messages: Vec::new(), totals: Totals::default() };
        ChatSession::on(Arc::clone(&self.runtime), state)
    }

    /// Another conversation with the same history and options on the same backend. What the caches hold serves both.
    pub fn fork(&self) -> ChatSession {
        let state = State { totals: Totals::default(), ..lock(&self.state).clone() };
        ChatSession::on(Arc::clone(&self.runtime), state)
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.runtime.model
    }

    /// What runs it.
    pub fn info(&self) -> &BackendInfo {
        &self.runtime.info
    }

    /// How it converses.
    pub fn options(&self) -> ChatOptions {
        lock(&self.state).options.clone()
    }

    /// The history, without the system prompt. While a turn is running, as it was before.
    pub fn messages(&self) -> Vec<Message> {
        lock(&self.state).messages.clone()
    }

    /// Work so far.
    pub fn totals(&self) -> Totals {
        lock(&self.state).totals
    }

    /// Looks at the session below.
    ///
    /// # Errors
    /// [`EngineError::Busy`] while any conversation on it is answering.
    pub fn with_session<R>(&self, look: impl FnOnce(&Session) -> R) -> Result<R, EngineError> {
        Ok(look(&*self.runtime.session.try_take()?))
    }

    /// Changes how it converses from the next turn on.
    ///
    /// # Errors
    /// [`EngineError::Busy`] while a turn is running.
    pub fn change_options(&self, change: impl FnOnce(&mut ChatOptions)) -> Result<(), EngineError> {
        self.change(|state| change(&mut state.options))
    }

    /// Replaces the history: an edit, or a conversation that was stored elsewhere. What the caches hold of it is reused.
    ///
    /// # Errors
    /// [`EngineError::Busy`] while a turn is running.
    pub fn set_messages(&self, messages: Vec<Message>) -> Result<(), EngineError> {
        self.change(|state| state.messages = messages)
    }

    /// Takes a turn and everything behind it out of the history, and hands it out.
    ///
    /// # Errors
    /// [`EngineError::Busy`], or no such turn.
    pub fn rewind(&self, turn: usize) -> Result<Vec<Message>, EngineError> {
        self.change(|state| {
            let start = find_turn(&state.messages, turn)?.start;
            Ok(state.messages.split_off(start))
        })?
    }

    /// Takes one turn out of the history; what came later stays.
    ///
    /// # Errors
    /// [`EngineError::Busy`], or no such turn.
    pub fn remove_turn(&self, turn: usize) -> Result<Vec<Message>, EngineError> {
        self.change(|state| Ok(state.messages.drain(find_turn(&state.messages, turn)?).collect()))?
    }

    /// Changes the text of one message; what came later stays. False where there is no such message.
    ///
    /// # Errors
    /// [`EngineError::Busy`] while a turn is running.
    pub fn edit_message(&self, index: usize, text: &str) -> Result<bool, EngineError> {
        self.change(|state| match state.messages.get_mut(index) {
            Some(message) => {
                message.content = Some(Content::Text(text.into()));
                true
            }
            None => false,
        })
    }

    /// How many tokens the conversation takes.
    ///
    /// # Errors
    /// Messages that cannot be rendered.
    pub fn token_counts(&self) -> Result<TokenCounts, EngineError> {
        let State { options, messages, .. } = lock(&self.state).clone();
        let model = self.model();
        Ok(TokenCounts {
            system: turn::rendered_ids(model, &options, &[])?.len(),
            history: turn::rendered_ids(model, &options, &messages)?.len(),
            prompt: Prompt::render(model, &options, &messages)?.ids.len(),
            context: self.info().context,
        })
    }

    /// How many tokens a text would add to the prompt as the next question, the marks of its turn included.
    ///
    /// # Errors
    /// Messages that cannot be rendered.
    pub fn cost(&self, text: &str) -> Result<usize, EngineError> {
        let State { options, mut messages, .. } = lock(&self.state).clone();
        let before = turn::rendered_ids(self.model(), &options, &messages)?.len();
        close_calls(&mut messages, NO_RESULT);
        messages.push(Message::new(Role::User, text));
        Ok(Prompt::render(self.model(), &options, &messages)?.ids.len().saturating_sub(before))
    }

    /// Answers a user's message.
    ///
    /// # Errors
    /// As [`ChatSession::send`].
    pub fn respond(
        &self,
        text: &str,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Turn, EngineError> {
        self.send(vec![Message::new(Role::User, text)], cancel, on_event)
    }

    /// Adds messages (a user's, or the results of calls) and answers them.
    ///
    /// # Errors
    /// [`EngineError::Busy`] while another turn of this conversation is running; as [`Session::generate`]; messages that
    /// cannot be rendered. The history is as before then.
    pub fn send(
        &self,
        messages: Vec<Message>,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Turn, EngineError> {
        self.send_with(messages, &self.options(), cancel, on_event)
    }

    /// As [`ChatSession::send`] with options for this turn alone.
    ///
    /// # Errors
    /// As [`ChatSession::send`].
    pub fn send_with(
        &self,
        messages: Vec<Message>,
        options: &ChatOptions,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Turn, EngineError> {
        let entered = self.enter(None)?;
        let how = How { options, plan: None, keep_unseen: false };
        self.run(&entered, messages, how, cancel, on_event)
    }

    /// Begins to prepare the vocabulary for constraints on a thread of its own. Turns with tools, or with a grammar, would
    /// otherwise wait for it once: a second or so of the released vocabulary.
    pub fn prepare_constraints(&self) {
        self.runtime.environment.start();
    }

    pub(super) fn environment(&self) -> Result<Arc<Environment>, EngineError> {
        Ok(self.runtime.environment.get()?)
    }

    /// The conversation as it can be stored.
    pub fn saved(&self) -> SavedChat {
        let State { options, messages, .. } = lock(&self.state).clone();
        SavedChat::of(self.model(), &options, messages)
    }

    /// Goes on with a stored conversation in place of this one. Tools, which are code, stay those of this one.
    ///
    /// # Errors
    /// [`EngineError::Busy`], the conversation was stored with another model, or its answers have a form that is not known
    /// here.
    pub fn restore(&self, saved: SavedChat) -> Result<(), EngineError> {
        saved.check_model(self.model())?;
        self.change(|state| {
            saved.options(&mut state.options)?;
            state.messages = saved.messages;
            Ok(())
        })?
    }

    /// Writes the conversation to a file: the old file or the new one is there at any time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        Ok(self.saved().write(path)?)
    }

    /// Goes on with the conversation of a file in place of this one.
    ///
    /// # Errors
    /// As [`ChatSession::restore`] and [`SavedChat::read`].
    pub fn load(&self, path: &Path) -> Result<(), EngineError> {
        self.restore(SavedChat::read(path)?)
    }

    pub(super) fn enter(&self, cancelled: Option<Arc<AtomicBool>>) -> Result<Entered, EngineError> {
        self.gate.enter(cancelled)
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> Result<R, EngineError> {
        let _entered = self.enter(None)?;
        Ok(change(&mut lock(&self.state)))
    }

    /// Changes the history of a turn that is running.
    pub(super) fn amend<R>(&self, _: &Entered, change: impl FnOnce(&mut Vec<Message>) -> R) -> R {
        change(&mut lock(&self.state).messages)
    }

    /// One turn.
    pub(super) fn run(
        &self,
        _: &Entered,
        messages: Vec<Message>,
        how: How<'_>,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(ChatEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Turn, EngineError> {
        let mut history = self.messages();
        if messages.first().is_some_and(|message| message.role != Role::Tool) {
            close_calls(&mut history, NO_RESULT);
        }
        history.extend(messages);
        let Some(mut session) = self.runtime.session.take(cancel)? else {
            // Cancelled while another conversation had the backend: results of calls that have run stay all the same.
            if how.keep_unseen {
                lock(&self.state).messages = history;
            }
            let (output, ids) = (Output::default(), Vec::new());
            return Ok(Turn { output, ids, finish: Finish::Cancelled, timings: Timings::default() });
        };
        let turn = turn::answer(&mut session, how.options, how.plan, &history, cancel, on_event)?;
        drop(session);
        let mut state = lock(&self.state);
        let totals = &mut state.totals;
        totals.turns += 1;
        totals.prompt_tokens += turn.timings.prompt_tokens;
        totals.reused_tokens += turn.timings.reused_tokens;
        totals.tokens += turn.timings.tokens;
        let unseen = turn.finish == Finish::Cancelled && turn.output == Output::default();
        match (unseen, how.keep_unseen) {
            (true, false) => {}
            (true, true) => state.messages = history,
            (false, _) => {
                history.push(turn::as_message(&turn.output, history.len()));
                state.messages = history;
            }
        }
        Ok(turn)
    }
}

impl std::fmt::Debug for ChatSession {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("ChatSession")
            .field("messages", &lock(&self.state).messages.len())
            .finish_non_exhaustive()
    }
}

fn find_turn(messages: &[Message], turn: usize) -> Result<std::ops::Range<usize>, EngineError> {
    let all = turns(messages);
    all.get(turn).cloned().ok_or(EngineError::NoSuchTurn { turn, turns: all.len() })
}
