//! What the thread of an answer does: one function for each kind of answer, each telling a mailbox.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use rawloop_engine::chat::{Message, Tool};
use rawloop_engine::conversation::{Approval, ToolSettings, Watch};
use rawloop_engine::ops::{self, Op, OpEvent, OpOptions};
use rawloop_engine::tools::{PendingCall, ToolError, ToolFunction, Toolbox};
use rawloop_engine::{ChatEvent, ChatOptions, ChatSession, GenerateOptions, Model, Session};
use rawloop_engine::{Event as TokenEvent, Finish};
use serde_json::{Map, Value};

use crate::answer;
use crate::failure::Failure;
use crate::mailbox::{Event, Mailbox, Reply};

/// How often somebody who waits for the session looks whether it is free, or the wait was cancelled.
const PATIENCE: Duration = Duration::from_millis(2);

/// Answers messages.
pub fn turn(
    chat: &ChatSession,
    messages: Vec<Message>,
    options: &ChatOptions,
    mailbox: &Mailbox,
) -> Result<String, Failure> {
    let mut teller = Teller::new(chat.model(), mailbox);
    let turn = chat.send_with(messages, options, mailbox.cancelled(), &mut |event| teller.tell(event))?;
    Ok(answer::turn(&turn, options.generate.sampling.seed, teller.logprobs))
}

/// Answers a text with tools that the reader of the mailbox runs.
pub fn tool_turn(
    chat: &ChatSession,
    text: &str,
    tools: Vec<Tool>,
    settings: &ToolSettings,
    mailbox: &Mailbox,
) -> Result<String, Failure> {
    let reply = Arc::new(Mutex::new(None));
    let toolbox = tools.into_iter().fold(Toolbox::new(), |toolbox, declaration| {
        toolbox.with(Remote { declaration, reply: Arc::clone(&reply) })
    });
    let mut teller = Teller::new(chat.model(), mailbox);
    // The reader approves and runs in one go, since both are Python; the tool below only hands on what came of it.
    let mut approve = |call: &PendingCall| match mailbox.ask(call.clone()) {
        Some(result) => {
            *reply.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            Approval::Run
        }
        None => Approval::Refuse("the call was cancelled before it had a result".into()),
    };
    let mut watch = Watch {
        cancel: mailbox.cancelled(),
        approve: &mut approve,
        on_event: &mut |event| teller.tell(event),
    };
    let seed = chat.options().generate.sampling.seed;
    let done = chat.respond_with_tools(text, &toolbox, settings, &mut watch)?;
    Ok(answer::tool_turn(&done, seed, teller.logprobs))
}

/// Continues a text as it stands.
pub fn continuation(
    session: &Mutex<Session>,
    prompt: &[u32],
    options: &GenerateOptions,
    mailbox: &Mailbox,
) -> Result<String, Failure> {
    let mut logprobs = Vec::new();
    let Some(answer) = with_session(session, mailbox, |session| {
        let model = Arc::clone(session.model());
        session.generate(prompt, options, mailbox.cancelled(), &mut |event| {
            match event {
                TokenEvent::Prefill { done, total } => mailbox.push(Event::Prefill(done, total)),
                TokenEvent::Token { text, log_probabilities, .. } => {
                    logprobs.extend(log_probabilities.map(|report| answer::logprob(&model, report)));
                    if !text.is_empty() {
                        mailbox.push(Event::Text(text.into()));
                    }
                }
                TokenEvent::Rest { text } => mailbox.push(Event::Text(text.into())),
            }
            ControlFlow::Continue(())
        })
    }) else {
        let nothing = rawloop_engine::Answer {
            ids: Vec::new(),
            text: String::new(),
            finish: Finish::Cancelled,
            stop: None,
            timings: Default::default(),
        };
        return Ok(answer::continuation(&nothing, options.sampling.seed, Vec::new()));
    };
    Ok(answer::continuation(&answer?, options.sampling.seed, logprobs))
}

/// Runs an operation.
pub fn operation(
    session: &Mutex<Session>,
    op: &'static Op,
    texts: &[String],
    options: &OpOptions,
    mailbox: &Mailbox,
) -> Result<String, Failure> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let Some(answer) = with_session(session, mailbox, |session| {
        ops::run(session, op, &texts, options, mailbox.cancelled(), &mut |event| {
            mailbox.push(match event {
                OpEvent::Piece { index, count } => Event::Piece(index, count),
                OpEvent::Prefill { done, total } => Event::Prefill(done, total),
                OpEvent::Text(text) => Event::Text(text.into()),
            });
            ControlFlow::Continue(())
        })
    }) else {
        return Err(ops::OpError::Cancelled.into());
    };
    Ok(answer::operation(&answer?))
}

/// Waits for the session; none where the wait is cancelled.
fn with_session<R>(
    session: &Mutex<Session>,
    mailbox: &Mailbox,
    work: impl FnOnce(&mut Session) -> R,
) -> Option<R> {
    loop {
        if mailbox.is_cancelled() {
            return None;
        }
        match session.try_lock() {
            Ok(mut session) => return Some(work(&mut session)),
            Err(TryLockError::Poisoned(session)) => return Some(work(&mut session.into_inner())),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PATIENCE),
        }
    }
}

/// Puts the steps of a turn into a mailbox.
struct Teller<'a> {
    model: &'a Model,
    mailbox: &'a Mailbox,
    logprobs: Vec<Value>,
}

impl<'a> Teller<'a> {
    fn new(model: &'a Model, mailbox: &'a Mailbox) -> Teller<'a> {
        Teller { model, mailbox, logprobs: Vec::new() }
    }

    fn tell(&mut self, event: ChatEvent<'_>) -> ControlFlow<()> {
        let event = match event {
            ChatEvent::Prefill { done, total } => Event::Prefill(done, total),
            ChatEvent::Reasoning(text) => Event::Thought(text.into()),
            ChatEvent::Text(text) => Event::Text(text.into()),
            ChatEvent::Call(call) => Event::Call {
                name: call.name.clone(),
                arguments: Value::Object(call.arguments.clone()).to_string(),
            },
            ChatEvent::Result { call, result } => Event::Result { call: call.clone(), text: result.into() },
            ChatEvent::Token { log_probabilities, .. } => {
                self.logprobs.extend(log_probabilities.map(|report| answer::logprob(self.model, report)));
                return ControlFlow::Continue(());
            }
        };
        self.mailbox.push(event);
        ControlFlow::Continue(())
    }
}

/// A tool that the reader has run when it is called.
struct Remote {
    declaration: Tool,
    reply: Arc<Mutex<Option<Reply>>>,
}

impl ToolFunction for Remote {
    fn declaration(&self) -> Tool {
        self.declaration.clone()
    }

    fn call(&self, _: Map<String, Value>) -> Result<Value, ToolError> {
        let reply = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take();
        match reply {
            Some(reply) => reply.map_err(ToolError::Failed),
            None => Err(ToolError::Failed("the call had no result".into())),
        }
    }
}
