//! Conversations over one backend: prompts in, text out, and a cache that follows.
//!
//! A session knows which ids its KV caches hold ([`PrefixPool`]) and prefills only what a prompt adds to them. It does not know
//! about turns and roles: [`crate::conversation`] does, and renders them to ids.
//!
//! Invariant: an answer is a function of prompt and options alone. Reuse, cancelled turns and failed steps before it change
//! the time it takes and nothing else.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rawloop_tokenizer::SpecialText;

use crate::EngineError;
use crate::backend::{Backend, StepOutput};
use crate::generate::{Finish, Request, Step, Timings, check, generate};
use crate::model::Model;
use crate::sample::{LogProbabilities, Sampler, SamplingOptions};
use crate::sequence::{POOL_BUDGET, PoolOptions, PrefixPool, SNAPSHOT_BUDGET, Sequence};
use crate::text::TextStream;

/// Prompt tokens per step where nothing else is said: a wide enough product for the CPU, and well under a second of E2B.
pub const CHUNK: usize = 256;

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
    /// Prompt tokens per step.
    pub chunk: usize,
    /// Whether control tokens are spelled out in the text.
    pub special: SpecialText,
    /// How tokens are picked.
    pub sampling: SamplingOptions,
    /// Positions in the prompt where a snapshot is worth keeping ([`Request::marks`]).
    pub marks: Vec<usize>,
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
            chunk: CHUNK,
            special: SpecialText::Drop,
            sampling: SamplingOptions::greedy(),
            marks: Vec::new(),
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
    pool: PrefixPool,
    output: StepOutput,
    /// Kept while the options stay the same, because it holds buffers as long as the vocabulary.
    sampler: Option<Sampler>,
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
        let cost = model.cache_cost(backend.info().kv);
        let options = PoolOptions { snapshots, budget: caches, cost };
        let pool = PrefixPool::create(backend.as_mut(), options)?;
        Ok(Session { model, backend, pool, output: StepOutput::default(), sampler: None })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The backend.
    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    /// The cache of the last answer.
    pub fn sequence(&self) -> &Sequence {
        self.pool.current()
    }

    /// All caches.
    pub fn pool(&self) -> &PrefixPool {
        &self.pool
    }

    /// Forgets everything; memory stays.
    ///
    /// # Errors
    /// The backend cannot start over.
    pub fn reset(&mut self) -> Result<(), EngineError> {
        self.pool.clear(self.backend.as_mut())?;
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
        let tokenizer = self.model.tokenizer();
        let room = options.max_tokens.min(self.backend.info().context);
        let mut text = TextStream::new(options.special, &options.stop_strings);
        // Eight bytes a token are more than any language needs on average; beyond that the text grows as it must.
        let mut answer =
            Collected { ids: Vec::with_capacity(room), text: String::with_capacity(8 * room), failed: None };
        let request = Request {
            prompt,
            stops: &stops,
            max_tokens: options.max_tokens,
            chunk: options.chunk,
            marks: &options.marks,
        };
        check(self.backend.as_ref(), &request)?;
        let sequence = self.pool.choose(self.backend.as_mut(), prompt)?;
        let outcome = generate(
            self.backend.as_mut(),
            sequence,
            &mut sampler,
            &mut self.output,
            &request,
            cancel,
            &mut |step| match step {
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
                    if text.stopped() { ControlFlow::Break(()) } else { flow }
                }
            },
        );
        self.sampler = Some(sampler);
        let outcome = outcome?;
        if let Some(error) = answer.failed {
            return Err(error.into());
        }
        let rest = text.finish();
        if !rest.is_empty() {
            answer.text.push_str(rest);
            // The answer is over; there is nothing left to end.
            let _ = on_event(Event::Rest { text: rest });
        }
        let finish = if text.stopped() { Finish::Stop } else { outcome.finish };
        let Collected { ids, text, .. } = answer;
        Ok(Answer { ids, text, finish, stop: outcome.stop, timings: outcome.timings })
    }

    fn sampler_for(&mut self, options: &SamplingOptions) -> Result<Sampler, EngineError> {
        match self.sampler.take() {
            Some(sampler) if sampler.options() == options => Ok(sampler),
            _ => Ok(Sampler::new(options.clone(), self.backend.vocab(), self.model.soft_cap())?),
        }
    }
}

/// What has come of an answer.
struct Collected {
    ids: Vec<u32>,
    text: String,
    failed: Option<rawloop_tokenizer::DecodeError>,
}
