//! From an answer's options to its constraint, off the thread that prefills.
//!
//! Preparing the released vocabulary takes a second and a grammar takes milliseconds, once; a long prompt takes longer. So both
//! begin before the prefill on a thread of their own, and the loop waits for what is left of them when it picks the first
//! token. A grammar that cannot be compiled is known between two chunks of the prompt.

use std::sync::{Arc, OnceLock};
use std::thread;

use super::{AnswerPlan, CompiledGrammar, Constraint, Grammar, GuidedError, SharedEnvironment, Thinking};

/// What an answer has to look like. Two are equal if they are the same grammar or the same plan, not if they say the same.
#[derive(Clone, Debug)]
pub enum Guide {
    /// Text by a grammar, behind a thought where the prompt leaves room for one. Compiled once while it stays the same.
    Grammar(Arc<Grammar>),
    /// A plan with parts of its own: thoughts, calls. Without stops of its own it has the answer's.
    Plan(AnswerPlan),
}

impl From<Grammar> for Guide {
    fn from(grammar: Grammar) -> Guide {
        Guide::Grammar(Arc::new(grammar))
    }
}

impl From<AnswerPlan> for Guide {
    fn from(plan: AnswerPlan) -> Guide {
        Guide::Plan(plan)
    }
}

impl PartialEq for Guide {
    fn eq(&self, other: &Guide) -> bool {
        match (self, other) {
            (Guide::Grammar(one), Guide::Grammar(other)) => Arc::ptr_eq(one, other),
            (Guide::Plan(one), Guide::Plan(other)) => one.is_same(other),
            _ => false,
        }
    }
}

/// A grammar that is compiled when it is first needed, or ahead of that on another thread. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SharedGrammar(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    environment: SharedEnvironment,
    grammar: Arc<Grammar>,
    compiled: OnceLock<Result<Arc<CompiledGrammar>, GuidedError>>,
}

impl SharedGrammar {
    /// Begins to compile a grammar on a thread of its own. Where no thread can be had the first use compiles it.
    pub fn start(environment: &SharedEnvironment, grammar: &Arc<Grammar>) -> SharedGrammar {
        let (environment, grammar) = (environment.clone(), Arc::clone(grammar));
        let shared = Arc::new(Shared { environment, grammar, compiled: OnceLock::new() });
        let other = Arc::clone(&shared);
        // The handle is not needed: whoever asks for the grammar waits for it.
        let _ = thread::Builder::new().name("guided".into()).spawn(move || {
            other.get();
        });
        SharedGrammar(shared)
    }

    /// Whether it is made of this grammar.
    pub fn is_of(&self, grammar: &Arc<Grammar>) -> bool {
        Arc::ptr_eq(&self.0.grammar, grammar)
    }
}

impl Shared {
    fn get(&self) -> &Result<Arc<CompiledGrammar>, GuidedError> {
        let compile = || Ok(Arc::new(self.environment.get()?.compile(&self.grammar)?));
        self.compiled.get_or_init(compile)
    }
}

/// A constraint on its way.
#[derive(Debug)]
pub struct Preparing(Source);

#[derive(Debug)]
enum Source {
    Plan(SharedEnvironment, AnswerPlan),
    Grammar { grammar: SharedGrammar, thinking: Thinking, stops: Vec<u32> },
}

impl Preparing {
    /// Begins to prepare a guide that is used once.
    pub fn new(
        environment: &SharedEnvironment,
        guide: &Guide,
        thinking: Thinking,
        stops: &[u32],
    ) -> Preparing {
        match guide {
            Guide::Plan(plan) => Preparing::plan(environment, plan.clone().stops_or(stops)),
            Guide::Grammar(grammar) => {
                Preparing::grammar(SharedGrammar::start(environment, grammar), thinking, stops)
            }
        }
    }

    /// A plan that is there already.
    pub(crate) fn plan(environment: &SharedEnvironment, plan: AnswerPlan) -> Preparing {
        environment.start();
        Preparing(Source::Plan(environment.clone(), plan))
    }

    /// Text by a grammar.
    pub(crate) fn grammar(grammar: SharedGrammar, thinking: Thinking, stops: &[u32]) -> Preparing {
        Preparing(Source::Grammar { grammar, thinking, stops: stops.to_vec() })
    }

    /// Whether it has failed already. Does not wait.
    ///
    /// # Errors
    /// As [`Preparing::wait`].
    pub fn check(&self) -> Result<(), GuidedError> {
        match &self.0 {
            Source::Grammar { grammar, .. } => match grammar.0.compiled.get() {
                Some(Err(error)) => Err(error.clone()),
                _ => Ok(()),
            },
            Source::Plan(..) => Ok(()),
        }
    }

    /// The constraint, when it is ready.
    ///
    /// # Errors
    /// What in the grammar is not supported, or a vocabulary that cannot be prepared.
    pub fn wait(self) -> Result<Constraint, GuidedError> {
        match self.0 {
            Source::Plan(environment, plan) => Ok(plan.begin(&*environment.get()?)),
            Source::Grammar { grammar, thinking, stops } => {
                let compiled = grammar.0.get().clone()?;
                let plan = AnswerPlan::grammar(compiled).thinking(thinking).stops(&stops);
                Ok(plan.begin(&*grammar.0.environment.get()?))
            }
        }
    }
}
