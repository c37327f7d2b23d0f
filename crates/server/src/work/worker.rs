//! The threads that answer.
//!
//! Each has a seat at the backend, a conversation and a plain session, all on the same caches. A panic in one request is told to its
//! client and costs the thread its sessions, which are made anew.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use rawloop_engine::backend::BackendError;
use rawloop_engine::chat::{Output, RenderOptions};
use rawloop_engine::guided::{SharedEnvironment, Thinking};
use rawloop_engine::sample::LogProbabilities;
use rawloop_engine::sequence::SharedPool;
use rawloop_engine::{
    ChatEvent, ChatOptions, ChatSession, EngineError, Finish, GenerateOptions, Model, Session,
};

use super::form::Plans;
use super::score::scores;
use super::task::certain;
use super::{Event, Finished, Queue, Task, What};
use crate::batch::{Batch, Seat};

/// What the workers share.
pub struct Core {
    /// The model.
    pub model: Arc<Model>,
    /// Its backend.
    pub batch: Batch,
    /// Its caches.
    pub pool: SharedPool,
    /// Its vocabulary as grammars need it.
    pub environment: SharedEnvironment,
    /// Forms that were compiled.
    pub plans: Plans,
}

/// Threads that answer. Dropping them closes the queue and waits until each has ended what it is at.
pub struct Workers {
    queue: Arc<Queue<Task>>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // A panic outside of a request is one at the end.
            let _ = thread.join();
        }
    }
}

/// Starts so many workers.
///
/// # Errors
/// The system gives no thread.
pub fn start(core: &Arc<Core>, queue: &Arc<Queue<Task>>, count: usize) -> std::io::Result<Workers> {
    let mut workers = Workers { queue: Arc::clone(queue), threads: Vec::with_capacity(count) };
    let worker = |number: usize| {
        let (core, queue) = (Arc::clone(core), Arc::clone(queue));
        let name = format!("worker-{number}");
        std::thread::Builder::new().name(name).spawn(move || {
            let mut worker = Worker::new(&core);
            while let Some((client, task)) = queue.next() {
                let clock = Instant::now();
                let (index, events) = (task.index, task.events.clone());
                let run = AssertUnwindSafe(|| worker.run(&core, &queue, client, task));
                if catch_unwind(run).is_err() {
                    let problem = "a fault in the server; the request is lost, others are not";
                    let error = EngineError::Backend(BackendError::Failed(problem.into()));
                    let _ = events.send((index, Event::Failed(error)));
                    worker = Worker::new(&core);
                }
                queue.done(clock.elapsed());
            }
        })
    };
    for number in 0..count {
        workers.threads.push(worker(number)?);
    }
    Ok(workers)
}

struct Worker {
    seat: Seat,
    chat: ChatSession,
    chat_pool: SharedPool,
    raw: Session,
    raw_pool: SharedPool,
}

impl Worker {
    fn new(core: &Core) -> Worker {
        let seat = core.batch.seat();
        let session = |pool: &SharedPool| {
            let (model, environment) = (Arc::clone(&core.model), core.environment.clone());
            Session::on(model, Box::new(seat.backend()), pool.clone(), environment)
        };
        let (chat_pool, raw_pool) = (core.pool.another(), core.pool.another());
        let chat = ChatSession::new(session(&chat_pool), ChatOptions::of(&core.model, 1));
        let raw = session(&raw_pool);
        Worker { seat, chat, chat_pool, raw, raw_pool }
    }

    /// Answers, and says how it went.
    fn run(&mut self, core: &Core, queue: &Queue<Task>, client: u64, mut task: Task) {
        if task.is_gone() {
            return;
        }
        let followers = std::mem::take(&mut task.followers);
        let share = !followers.is_empty();
        self.chat_pool.keep_prompts(share);
        self.raw_pool.keep_prompts(share);
        let mut followers = Followers { queue, client, tasks: followers };
        let (index, events) = (task.index, task.events.clone());
        let sitting = self.seat.sit();
        let answered = match task.what {
            What::Chat { .. } => converse(&self.chat, core, task, &mut followers),
            What::Raw { .. } => complete(&mut self.raw, &self.seat, core, task, &mut followers),
        };
        drop(sitting);
        // Those that wait for the prompt: it has run, or they will find out why not.
        followers.release();
        // A client that has gone is not told.
        let _ = events.send((
            index,
            match answered {
                Ok(finished) => Event::Done(Box::new(finished)),
                Err(error) => Event::Failed(error),
            },
        ));
    }
}

/// Other answers to the same prompt.
struct Followers<'a> {
    queue: &'a Queue<Task>,
    client: u64,
    tasks: Vec<Task>,
}

impl Followers<'_> {
    fn release(&mut self) {
        if !self.tasks.is_empty() {
            self.queue.push_followers(self.client, std::mem::take(&mut self.tasks));
        }
    }
}

/// Sends an event; a break where nobody reads any more.
fn tell(task: &Task, event: Event) -> ControlFlow<()> {
    match task.events.send((task.index, event)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

fn likelihood(id: u32, given: Option<&LogProbabilities>) -> LogProbabilities {
    // A token that had to follow is certain.
    given.cloned().unwrap_or_else(|| certain(id))
}

/// Answers a conversation.
fn converse(
    chat: &ChatSession,
    core: &Core,
    mut task: Task,
    followers: &mut Followers<'_>,
) -> Result<Finished, EngineError> {
    let What::Chat { messages, options } = &mut task.what else { return Err(EngineError::EmptyPrompt) };
    let (messages, mut options) = (Arc::unwrap_or_clone(std::mem::take(messages)), options.clone());
    options.tools.clone_from(&task.form.tools);
    if let Some(plan) = core.plans.of(&task.form, &core.environment)? {
        let thinking = thinking(&core.model, &options, &messages)?;
        options.generate.constraint = Some(plan.thinking(thinking).into());
    }
    let seed = options.generate.sampling.seed;
    let chat = chat.beside((*options).clone());
    // Tokens whose text has not come, and those whose text was a thought.
    let (mut open, mut reasoning_tokens) = (0, 0);
    let turn = chat.send_with(messages, &options, &task.cancel, &mut |event| match event {
        ChatEvent::Prefill { .. } => tell(&task, Event::Prefill),
        ChatEvent::Token { id, log_probabilities } => {
            followers.release();
            open += 1;
            let wanted = options.generate.sampling.log_probabilities.is_some();
            match task.tokens {
                true => tell(&task, Event::Token(id, wanted.then(|| likelihood(id, log_probabilities)))),
                false => ControlFlow::Continue(()),
            }
        }
        ChatEvent::Reasoning(text) => {
            reasoning_tokens += std::mem::take(&mut open);
            tell(&task, Event::Reasoning(text.into()))
        }
        ChatEvent::Text(text) => {
            open = 0;
            tell(&task, Event::Text(text.into()))
        }
        ChatEvent::Call(call) => {
            open = 0;
            tell(&task, Event::Call(call.clone()))
        }
        ChatEvent::Result { .. } => ControlFlow::Continue(()),
    })?;
    let (finish, timings) = (turn.finish, turn.timings);
    Ok(Finished { output: turn.output, finish, timings, seed, reasoning_tokens })
}

/// Whether a thought can come before the answer to a conversation.
fn thinking(
    model: &Model,
    options: &ChatOptions,
    messages: &[rawloop_engine::chat::Message],
) -> Result<Thinking, EngineError> {
    use rawloop_engine::chat::{Message, Role};
    let system = options.system.as_deref().map(|text| Message::new(Role::System, text));
    let messages: Vec<Message> = system.iter().chain(messages).cloned().collect();
    let render = RenderOptions {
        enable_thinking: options.thinking,
        tools: &options.tools,
        special_tokens: options.special_tokens,
        ..RenderOptions::default()
    };
    let ids = model.render(&render, &messages)?.to_ids(model.tokenizer());
    Ok(Thinking::of_prompt(model.control(), &ids))
}

/// Continues ids.
fn complete(
    session: &mut Session,
    seat: &Seat,
    core: &Core,
    task: Task,
    followers: &mut Followers<'_>,
) -> Result<Finished, EngineError> {
    let What::Raw { prompt, options, score } = &task.what else { return Err(EngineError::EmptyPrompt) };
    let mut options: GenerateOptions = (**options).clone();
    if let Some(plan) = core.plans.of(&task.form, &core.environment)? {
        options.constraint = Some(plan.into());
    }
    if let Some(top) = *score {
        let scored = scores(&mut seat.backend(), &core.model, prompt, top, &task)?;
        let _ = tell(&task, Event::Scored(scored));
    }
    let seed = options.sampling.seed;
    let wanted = options.sampling.log_probabilities.is_some();
    let mut output = Output::default();
    let answer = session.generate(prompt, &options, &task.cancel, &mut |event| match event {
        rawloop_engine::Event::Prefill { .. } => tell(&task, Event::Prefill),
        rawloop_engine::Event::Token { id, text, log_probabilities } => {
            followers.release();
            if task.tokens {
                let log = wanted.then(|| likelihood(id, log_probabilities));
                if tell(&task, Event::Token(id, log)).is_break() {
                    return ControlFlow::Break(());
                }
            }
            if text.is_empty() { ControlFlow::Continue(()) } else { tell(&task, Event::Text(text.into())) }
        }
        rawloop_engine::Event::Rest { text } => tell(&task, Event::Text(text.into())),
    })?;
    output.text = answer.text;
    let (finish, timings) = (answer.finish, answer.timings);
    Ok(Finished { output, finish, timings, seed, reasoning_tokens: 0 })
}

/// What an answer's end is called by OpenAI.
pub fn finish_reason(finished: &Finished) -> &'static str {
    match finished.finish {
        Finish::Stop if !finished.output.calls.is_empty() => "tool_calls",
        Finish::Stop => "stop",
        Finish::Length | Finish::Context | Finish::Loop | Finish::Cancelled => "length",
    }
}
