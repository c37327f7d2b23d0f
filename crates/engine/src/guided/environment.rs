//! What every constraint over one vocabulary shares: the trie, its slices, the fixed masks, the limits.
//!
//! Building it for 262,144 tokens takes about a second of one core, once per process. It is needed first when an answer begins,
//! so [`SharedEnvironment::start`] builds it on a thread of its own while the prompt is prefilled; whoever needs it waits for
//! the rest. Without a call to `start` the first use builds it.
//!
//! Slices are sets of tokens that stay inside a JSON string (of at most ten characters, of any length). Where a grammar
//! allows a whole slice its mask is one `or`; without slices each mask inside a string walks the trie, 2.5 ms instead of 20
//! microseconds. Two slices are kept of the four that the library proposes: the others cost 0.3 s of start-up and save
//! nothing on average.
//!
//! Grammars are compiled on a thread with a deep stack: the library descends once per rule, and a grammar is a user's input.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::thread;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::{InferenceCapabilities, SimpleVob, TokEnv};
use llguidance::{Matcher, ParserFactory};
use rawloop_tokenizer::Tokenizer;

use super::grammar::Grammar;
use super::number_guard::DigitTokens;
use super::vocabulary::Vocabulary;
use super::{CompiledGrammar, GuidedError};
use crate::chat::ControlTokens;

/// Sets of tokens that are found as a whole.
const SLICES: [&str; 2] = [r#"[^"\\\x00-\x1F\x7F]{1,10}"#, r#"[^"\\\x00-\x1F\x7F]+"#];

/// Stack for compiling. The library takes about 3 KB a rule that leads to a rule, and there are at most
/// [`super::lark::RULES`].
const STACK: usize = 64 << 20;

/// A vocabulary prepared for constraints. See the module documentation.
pub struct Environment {
    vocabulary: Arc<Vocabulary>,
    factory: ParserFactory,
    control: ControlTokens,
    text: SimpleVob,
    digits: Arc<DigitTokens>,
}

impl Environment {
    /// Prepares a vocabulary.
    ///
    /// # Errors
    /// A tokenizer without Gemma's control tokens, or one that the trie cannot hold.
    pub fn new(tokenizer: &Tokenizer) -> Result<Environment, GuidedError> {
        let control =
            ControlTokens::find(tokenizer).map_err(|error| GuidedError::Tokenizer(error.to_string()))?;
        let vocabulary = Arc::new(Vocabulary::new(tokenizer.clone(), &control)?);
        let tokens: TokEnv = vocabulary.clone();
        let slices = SLICES.map(str::to_owned);
        // What it was given is not used again where it fails.
        let build =
            AssertUnwindSafe(|| ParserFactory::new(&tokens, InferenceCapabilities::default(), &slices));
        let mut factory =
            catch_unwind(build).map_err(|error| GuidedError::Tokenizer(GuidedError::text(&error)))?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits { verbose_errors: false, ..ParserLimits::default() };
        let text = vocabulary.text_tokens();
        let digits = Arc::new(DigitTokens::new(&vocabulary));
        Ok(Environment { vocabulary, factory, control, text, digits })
    }

    /// Compiles a grammar. The result makes any number of constraints.
    ///
    /// # Errors
    /// What in the grammar is not supported or does not parse, a grammar beyond its limits, one that nothing follows.
    pub fn compile(&self, grammar: &Grammar) -> Result<CompiledGrammar, GuidedError> {
        let matcher = self.matcher(grammar.source()).map_err(|problem| grammar.explain(problem))?;
        let digits = grammar.is_json().then(|| Arc::clone(&self.digits));
        CompiledGrammar::new(matcher, self.vocabulary.clone(), digits)
    }

    fn matcher(&self, source: &TopLevelGrammar) -> Result<Matcher, String> {
        let source = source.clone();
        thread::scope(|scope| {
            let compile = thread::Builder::new()
                .name("grammar".into())
                .stack_size(STACK)
                .spawn_scoped(scope, move || self.factory.create_parser(source))
                .map_err(|error| format!("no thread to compile it on: {error}"))?;
            match compile.join() {
                Ok(Ok(parser)) => Ok(Matcher::new(Ok(parser))),
                Ok(Err(error)) => Err(GuidedError::text(&error)),
                Err(_) => Err("the compiler of grammars failed".into()),
            }
        })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.vocabulary.tokenizer()
    }

    /// The ids of the control tokens.
    pub fn control(&self) -> &ControlTokens {
        &self.control
    }

    /// Every token of text: not special, not reserved.
    pub(super) fn text(&self) -> &SimpleVob {
        &self.text
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Environment").field("tokenizer", self.tokenizer()).finish_non_exhaustive()
    }
}

/// An environment that is built when it is first needed, or ahead of that on another thread. Clones share it.
#[derive(Clone, Debug)]
pub struct SharedEnvironment(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tokenizer: Tokenizer,
    built: OnceLock<Result<Arc<Environment>, GuidedError>>,
}

impl SharedEnvironment {
    /// An environment for this tokenizer. Nothing is built yet.
    pub fn new(tokenizer: Tokenizer) -> SharedEnvironment {
        SharedEnvironment(Arc::new(Shared { tokenizer, built: OnceLock::new() }))
    }

    /// Begins to build it on a thread of its own, if nobody has. Where no thread can be had the first use builds it.
    pub fn start(&self) {
        if self.0.built.get().is_some() {
            return;
        }
        let shared = Arc::clone(&self.0);
        // The handle is not needed: whoever asks for the environment waits for it.
        let _ = thread::Builder::new().name("guided".into()).spawn(move || {
            shared.get();
        });
    }

    /// Whether it has been built, or cannot be.
    pub fn is_ready(&self) -> bool {
        self.0.built.get().is_some()
    }

    /// The environment, when it is ready.
    ///
    /// # Errors
    /// As [`Environment::new`].
    pub fn get(&self) -> Result<Arc<Environment>, GuidedError> {
        self.0.get().clone()
    }
}

impl Shared {
    fn get(&self) -> &Result<Arc<Environment>, GuidedError> {
        self.built.get_or_init(|| Environment::new(&self.tokenizer).map(Arc::new))
    }
}
