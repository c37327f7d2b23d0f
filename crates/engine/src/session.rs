//! Conversations over one backend: prompts in, text out, and a cache that follows.
//!
//! A session knows which ids its KV caches hold ([`PrefixPool`]) and prefills only what a prompt adds to them. It does not know
//! about turns and roles: [`crate::conversation`] does, and renders them to ids.
//!
//! Invariant: an answer is a function of prompt and options alone. Reuse, cancelled turns and failed steps before it change
//! the time it takes and nothing else.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rawloop_tokenizer::SpecialText;
use web_time::Instant;

use crate::EngineError;
use crate::backend::{Backend, BackendError, StepOutput, Wanted};
use crate::generate::{Finish, Means, Request, Step, ThoughtBudget, Timings, check, generate};
use crate::guided::{Guide, Preparing, SharedEnvironment, SharedGrammar, Thinking};
use crate::model::Model;
use crate::repetition::Repetition;
use crate::sample::{LogProbabilities, Sampler, SamplingOptions};
use crate::sequence::{
    POOL_BUDGET, PoolOptions, PoolSummary, PrefixPool, SNAPSHOT_BUDGET, Sequence, SharedPool,
};
use crate::speculate::{Draft, Speculation};
use crate::text::TextStream;

/// How to answer.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateOptions {
    /// Tokens of the answer at most.
    pub max_tokens: usize,
    /// Tokens that end the answer besides the pack's.
    pub stop_ids: Vec<u32>,
    /// Texts that end the answer and are not part of it.
    pub stop_strings: Vec<String>,
    /// Go on past the pack's own stop ids: for measurements and gates.
    pub ignore_eos: bool,
    /// Prompt tokens per step; none takes what the backend says of itself ([`BackendInfo::prompt_step`]).
    ///
    /// [`BackendInfo::prompt_step`]: crate::backend::BackendInfo::prompt_step
    pub chunk: Option<usize>,
    /// Whether control tokens are spelled out in the text.
    pub special: SpecialText,
    /// How tokens are picked.
    pub sampling: SamplingOptions,
    /// Positions in the prompt where a snapshot is worth keeping ([`Request::marks`]).
    pub marks: Vec<usize>,
    /// What the answer has to look like. A thought comes before it where the prompt leaves room for one.
    pub constraint: Option<Guide>,
    /// Tokens of thoughts at most; then the thought is closed and the answer begins. None lets the model decide.
    pub thinking_budget: Option<usize>,
    /// Where drafts come from. Changes the time that an answer takes and nothing else.
    pub draft: Draft,
    /// End an answer that repeats a few tokens without end.
    pub detect_loops: bool,
}

impl GenerateOptions {
    /// The model's own sampling, at most `max_tokens` tokens.
    pub fn of(model: &Model, max_tokens: usize) -> GenerateOptions {
        GenerateOptions { sampling: model.sampling(), ..GenerateOptions::greedy(max_tokens) }
    }

    /// The likeliest tokens, at most `max_tokens` of them.
    pub fn greedy(max_tokens: usize) -> GenerateOptions {
        GenerateOptions {
            max_tokens,
            stop_ids: Vec::new(),
            stop_strings: Vec::new(),
            ignore_eos: false,
            chunk: None,
            special: SpecialText::Drop,
            sampling: SamplingOptions::greedy(),
            marks: Vec::new(),
            constraint: None,
            thinking_budget: None,
            draft: Draft::Auto,
            detect_loops: true,
        }
    }
}

/// What a caller sees of an answer while it is made.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Part of the prompt is done.
    Prefill {
        /// Prompt tokens in the cache now.
        done: usize,
        /// Prompt tokens there are.
        total: usize,
    },
    /// A token of the answer.
    Token {
        /// The token.
        id: u32,
        /// The text that it made certain; may be empty, and may hold text of earlier tokens.
        text: &'a str,
        /// How likely it was, where asked for.
        log_probabilities: Option<&'a LogProbabilities>,
    },
    /// Text that was held back until the end. Comes last and at most once.
    Rest {
        /// The text.
        text: &'a str,
    },
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its tokens, without a stop id.
    pub ids: Vec<u32>,
    /// Its text, up to a stop string: what the events held, put together.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// The stop id that ended it, where one did.
    pub stop: Option<u32>,
    /// How long it took.
    pub timings: Timings,
}

/// A backend, a cache and a tokenizer. See the module documentation.
pub struct Session {
    model: Arc<Model>,
    backend: Box<dyn Backend>,
    pool: SharedPool,
    /// The cache of the last answer, or of the one that is made.
    current: Option<Sequence>,
    /// Whether caches go back to the pool after each answer, because other sessions have the same pool.
    shares: bool,
    nowhere: Sequence,
    output: StepOutput,
    /// Kept while the options stay the same, because it holds buffers as long as the vocabulary.
    sampler: Option<Sampler>,
    /// Kept for what it learned about drafts.
    speculation: Speculation,
    /// The vocabulary as grammars need it; built when the first one is used.
    environment: SharedEnvironment,
    /// The grammar used last.
    grammar: Option<SharedGrammar>,
}

impl Session {
    /// A session with an empty cache.
    ///
    /// # Errors
    /// No memory for the cache.
    pub fn new(model: Arc<Model>, backend: Box<dyn Backend>) -> Result<Session, EngineError> {
        Session::with_snapshots(model, backend, SNAPSHOT_BUDGET)
    }

    /// A session that keeps at most so many bytes of ring snapshots for each cache; 0 suits a single answer, and keeps no
    /// other caches either.
    ///
    /// # Errors
    /// No memory for the cache.
    pub fn with_snapshots(
        model: Arc<Model>,
        backend: Box<dyn Backend>,
        budget: usize,
    ) -> Result<Session, EngineError> {
        let caches = if budget == 0 { 0 } else { POOL_BUDGET };
        Session::with_budgets(model, backend, budget, caches)
    }

    /// A session that keeps at most `snapshots` bytes of ring snapshots for each cache, and at most `caches` bytes of caches
    /// beside the current one.
    ///
    /// # Errors
    /// No memory for the cache.
    pub fn with_budgets(
        model: Arc<Model>,
        mut backend: Box<dyn Backend>,
        snapshots: usize,
        caches: usize,
    ) -> Result<Session, EngineError> {
        let cost = backend.info().cost;
        let pool = PrefixPool::new(PoolOptions { snapshots, budget: caches, cost });
        let current = pool.create(backend.as_mut())?;
        let environment = SharedEnvironment::new(model.tokenizer().clone());
        let mut session = Session::on(model, backend, SharedPool::new(pool), environment);
        (session.current, session.shares) = (Some(current), false);
        Ok(session)
    }

    /// One of several sessions over one backend, each with a handle of its own to it. They share the caches of `pool` and the
    /// prepared vocabulary; between answers a session holds no cache. The pool has to be a clone of this session alone
    /// ([`SharedPool::another`]).
    pub fn on(
        model: Arc<Model>,
        backend: Box<dyn Backend>,
        pool: SharedPool,
        environment: SharedEnvironment,
    ) -> Session {
        Session {
            model,
            backend,
            pool,
            current: None,
            shares: true,
            nowhere: Sequence::nowhere(),
            output: StepOutput::default(),
            sampler: None,
            speculation: Speculation::new(Draft::Auto),
            environment,
            grammar: None,
        }
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The backend.
    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    /// The cache of the last answer; an empty one where it went back to a pool that others use too.
    pub fn sequence(&self) -> &Sequence {
        self.current.as_ref().unwrap_or(&self.nowhere)
    }

    /// All other caches, counted.
    pub fn pool(&self) -> PoolSummary {
        self.pool.summary()
    }

    /// The vocabulary as grammars need it: for plans that are made outside of a session ([`crate::tools::plan`]).
    /// [`SharedEnvironment::start`] builds it ahead of its first use.
    pub fn environment(&self) -> &SharedEnvironment {
        &self.environment
    }

    /// Forgets everything; memory stays.
    ///
    /// # Errors
    /// The backend cannot start over.
    pub fn reset(&mut self) -> Result<(), EngineError> {
        self.pool.lock().clear(self.backend.as_mut());
        if let Some(current) = &mut self.current {
            current.rewind(self.backend.as_mut(), 0)?;
        }
        Ok(())
    }

    /// Answers a prompt. Whoever sets `cancel`, from any thread, ends the answer within one token or one prompt chunk; what
    /// came so far is the answer then.
    ///
    /// # Errors
    /// An option out of range or a prompt that cannot be answered, before any work; later whatever the backend reports. The
    /// session is usable afterwards in every case.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Answer, EngineError> {
        let mut stops = options.stop_ids.clone();
        if !options.ignore_eos {
            stops.extend(self.model.stops());
        }
        let mut sampler = self.sampler_for(&options.sampling)?;
        let constraint = self.prepare(options.constraint.as_ref(), prompt, &stops);
        let model = Arc::clone(&self.model);
        let (tokenizer, control) = (model.tokenizer(), model.control());
        let budget = options.thinking_budget.map(|most| ThoughtBudget::new(tokenizer, control, most, prompt));
        let info = self.backend.info();
        let room = options.max_tokens.min(info.context);
        let chunk = options.chunk.unwrap_or(info.prompt_step);
        let mut text = TextStream::new(options.special, &options.stop_strings);
        // A measurement goes on past every end.
        let watched = options.detect_loops && !options.ignore_eos;
        let mut repetition = watched.then(Repetition::new);
        // Eight bytes a token are more than any language needs on average; beyond that the text grows as it must.
        let mut answer = Collected {
            ids: Vec::with_capacity(room),
            text: String::with_capacity(8 * room),
            failed: None,
            loops: false,
        };
        let request = Request {
            prompt,
            stops: &stops,
            max_tokens: options.max_tokens,
            chunk,
            marks: &options.marks,
            constraint,
            budget,
        };
        check(self.backend.as_ref(), &request)?;
        self.choose(prompt)?;
        let base = self.keep_bases(prompt, options, chunk, cancel, on_event);
        self.speculation.set(options.draft);
        let Some(sequence) = &mut self.current else {
            let problem = "no cache was found for the prompt";
            return Err(BackendError::Failed(problem.into()).into());
        };
        let means = Means {
            sequence,
            sampler: &mut sampler,
            output: &mut self.output,
            speculation: &mut self.speculation,
        };
        let outcome = base.and_then(|base| {
            let made = generate(self.backend.as_mut(), means, request, cancel, &mut |step| match step {
                Step::Prefill { done, total } => on_event(Event::Prefill { done, total }),
                Step::Token { id, log_probabilities } => {
                    let piece = match text.push(tokenizer, id) {
                        Ok(piece) => piece,
                        Err(error) => {
                            answer.failed = Some(error);
                            return ControlFlow::Break(());
                        }
                    };
                    answer.ids.push(id);
                    answer.text.push_str(piece);
                    let flow = on_event(Event::Token { id, text: piece, log_probabilities });
                    answer.loops = repetition.as_mut().is_some_and(|loops| loops.push(tokenizer, id));
                    if text.stopped() || answer.loops { ControlFlow::Break(()) } else { flow }
                }
            });
            made.map(|outcome| (outcome, base))
        });
        self.sampler = Some(sampler);
        if self.shares {
            self.give_back();
        }
        let (mut outcome, base) = outcome?;
        // What was run for a base is part of this prompt.
        outcome.timings.reused_tokens -= base.tokens.min(outcome.timings.reused_tokens);
        outcome.timings.prefill += base.time;
        if let Some(error) = answer.failed {
            return Err(error.into());
        }
        let rest = text.finish();
        if !rest.is_empty() {
            answer.text.push_str(rest);
            // The answer is over; there is nothing left to end.
            let _ = on_event(Event::Rest { text: rest });
        }
        let finish = match outcome.finish {
            _ if text.stopped() => Finish::Stop,
            Finish::Cancelled if answer.loops => Finish::Loop,
            finish => finish,
        };
        let Collected { ids, text, .. } = answer;
        Ok(Answer { ids, text, finish, stop: outcome.stop, timings: outcome.timings })
    }

    /// Answers a prompt `count` times, each with the next seed, so that every answer can be had alone. `on_event` is told which
    /// one it sees. The prompt is prefilled once, where the session keeps snapshots. Ends with an answer that was cancelled.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub fn generate_many(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        count: usize,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(usize, Event<'_>) -> ControlFlow<()>,
    ) -> Result<Vec<Answer>, EngineError> {
        let mut options = options.clone();
        let mut answers = Vec::with_capacity(count);
        for index in 0..count {
            let answer = self.generate(prompt, &options, cancel, &mut |event| on_event(index, event))?;
            let cancelled = answer.finish == Finish::Cancelled;
            answers.push(answer);
            if cancelled {
                break;
            }
            options.sampling.seed = options.sampling.seed.wrapping_add(1);
        }
        Ok(answers)
    }

    /// Makes the cache current that answers a prompt with the least work.
    fn choose(&mut self, prompt: &[u32]) -> Result<(), BackendError> {
        let mut pool = self.pool.lock();
        let chosen = match self.current.take() {
            Some(current) => pool.exchange(self.backend.as_mut(), current, prompt),
            None => pool.take(self.backend.as_mut(), prompt),
        };
        drop(pool);
        self.current = Some(match chosen {
            Ok(chosen) => chosen,
            // A session that has nobody to share with has a cache at any time.
            Err(error) if self.shares => return Err(error),
            Err(_) => self.pool.lock().create(self.backend.as_mut())?,
        });
        Ok(())
    }

    fn give_back(&mut self) {
        if let Some(sequence) = self.current.take() {
            self.pool.lock().give_back(self.backend.as_mut(), sequence);
        }
    }

    /// Brings the beginning of a prompt into the cache and keeps a base of it, where other requests may begin alike while this
    /// one is running. Nothing of it is needed for the answer: where it is cancelled the loop will find out.
    fn keep_bases(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        chunk: usize,
        cancel: &AtomicBool,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Base, EngineError> {
        let mut base = Base::default();
        let Some(sequence) = self.current.as_mut().filter(|_| self.shares) else { return Ok(base) };
        let end = prompt.len() - 1;
        let whole = self.pool.keeps_prompts().then_some(end);
        let clock = Instant::now();
        for mark in options.marks.iter().copied().filter(|&mark| mark <= end).chain(whole) {
            if !self.pool.lock().lacks_base(&prompt[..mark]) {
                continue;
            }
            let backend = self.backend.as_mut();
            if sequence.reuse(backend, prompt)? > mark {
                // Somebody who goes on in a conversation: its beginning was a base when it began.
                continue;
            }
            while sequence.ids().len() < mark {
                if cancel.load(Ordering::Relaxed) {
                    return Ok(base);
                }
                let held = sequence.ids().len();
                let next = mark.min(held + chunk);
                sequence.append(backend, &prompt[held..next], Wanted::Nothing, &mut self.output)?;
                base.tokens += next - held;
                base.time = clock.elapsed();
                if on_event(Event::Prefill { done: next, total: prompt.len() }).is_break() {
                    cancel.store(true, Ordering::Relaxed);
                    return Ok(base);
                }
            }
            sequence.keep_snapshot(backend);
            self.pool.lock().keep_base(backend, sequence);
        }
        Ok(base)
    }

    /// Begins to prepare what holds the answer to a form.
    fn prepare(&mut self, guide: Option<&Guide>, prompt: &[u32], stops: &[u32]) -> Option<Preparing> {
        match guide? {
            Guide::Plan(plan) => Some(Preparing::plan(&self.environment, plan.clone().stops_or(stops))),
            Guide::Grammar(grammar) => {
                let shared = match self.grammar.take() {
                    Some(shared) if shared.is_of(grammar) => shared,
                    _ => SharedGrammar::start(&self.environment, grammar),
                };
                self.grammar = Some(shared.clone());
                let thinking = Thinking::of_prompt(self.model.control(), prompt);
                Some(Preparing::grammar(shared, thinking, stops))
            }
        }
    }

    fn sampler_for(&mut self, options: &SamplingOptions) -> Result<Sampler, EngineError> {
        match self.sampler.take() {
            Some(sampler) if sampler.options() == options => Ok(sampler),
            _ => Ok(Sampler::new(options.clone(), self.backend.vocab(), self.model.soft_cap())?),
        }
    }
}

impl Drop for Session {
    /// Gives the cache's memory back: where a panic ended an answer the backend may live on, with other sessions on it.
    fn drop(&mut self) {
        if let Some(current) = self.current.take() {
            current.free(self.backend.as_mut());
        }
    }
}

/// What was run of a prompt for a base.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    tokens: usize,
    time: Duration,
}

/// What has come of an answer.
struct Collected {
    ids: Vec<u32>,
    text: String,
    failed: Option<rawloop_tokenizer::DecodeError>,
    /// It repeats itself without end.
    loops: bool,
}
