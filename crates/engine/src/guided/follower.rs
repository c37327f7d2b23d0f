//! Follows one grammar token by token: which tokens can come next, which must.
//!
//! The grammar library does the work; this keeps its answers for the present state, so that asking twice costs once, and adds
//! two rules:
//!
//! - The mask is the law. The library would also accept other ways to cut forced text into tokens; here only what the mask
//!   shows is accepted, so a draft is checked by the same rule that samples.
//! - Where only one continuation exists its tokens are handed out as [`Follower::forced`], and the mask is that one token.
//!
//! Stops are not part of a grammar: [`Follower::may_stop`] says whether the text is complete, and the caller decides which
//! tokens end an answer.
//!
//! The library allocates for each mask (32 KB for 262,144 tokens) and for each token; nothing is allocated here once the
//! buffers have grown.

use std::sync::Arc;

use llguidance::Matcher;
use llguidance::toktrie::TokenizerEnv;

use super::GuidedError;
use super::number_guard::{DigitTokens, NumberGuard};
use super::vocabulary::Vocabulary;

/// A grammar that is ready to be followed, any number of times.
pub struct CompiledGrammar {
    /// At the start, with what can follow there found already.
    start: Follower,
}

impl CompiledGrammar {
    /// Prepares a grammar that has just been compiled. With `digits` it is JSON, whose numbers are guarded.
    ///
    /// # Errors
    /// A grammar that allows nothing, not even the end, or that is too complex from the first token on.
    pub(super) fn new(
        matcher: Matcher,
        vocabulary: Arc<Vocabulary>,
        digits: Option<Arc<DigitTokens>>,
    ) -> Result<CompiledGrammar, GuidedError> {
        let words = vocabulary.tok_trie().vocab_size().div_ceil(32);
        let mut start = Follower {
            matcher,
            vocabulary,
            digits,
            guard: NumberGuard::Outside,
            guards: Vec::new(),
            forced: Vec::new(),
            forced_at: 0,
            mask: vec![0; words],
            may_stop: false,
            known: Known::Nothing,
        };
        start.prepare().map_err(|error| GuidedError::Nothing(error.to_string()))?;
        Ok(CompiledGrammar { start })
    }

    /// Begins to follow it, with caches of its own.
    pub(super) fn follow(&self) -> Follower {
        let mut follower = self.start.clone();
        follower.matcher = self.start.matcher.deep_clone();
        if follower.digits.is_some() {
            follower.guards.reserve(1024);
        }
        follower
    }
}

impl std::fmt::Debug for CompiledGrammar {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("CompiledGrammar").field("json", &self.start.digits.is_some()).finish_non_exhaustive()
    }
}

/// A place in a grammar. Clones go on independently but share caches: use them on one thread.
#[derive(Clone)]
pub(super) struct Follower {
    matcher: Matcher,
    vocabulary: Arc<Vocabulary>,
    digits: Option<Arc<DigitTokens>>,
    guard: NumberGuard,
    /// The guard before each accepted token.
    guards: Vec<NumberGuard>,
    /// Tokens that must follow, from `forced_at` on.
    forced: Vec<u32>,
    forced_at: usize,
    /// Tokens that can follow.
    mask: Vec<u32>,
    may_stop: bool,
    /// What of it is that of the present state.
    known: Known,
}

/// How much is known of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    /// `forced`, of which there are none.
    Choice,
    /// `forced`, `mask` and `may_stop`.
    All,
}

impl Follower {
    /// Finds out what can follow.
    fn prepare(&mut self) -> Result<(), GuidedError> {
        self.prepare_forced()?;
        if self.known == Known::Choice {
            self.find_mask()?;
            self.known = Known::All;
        }
        Ok(())
    }

    /// Finds out what must follow, and what can where that takes no mask.
    fn prepare_forced(&mut self) -> Result<(), GuidedError> {
        if self.known != Known::Nothing {
            return Ok(());
        }
        self.may_stop = false;
        if self.forced_at == self.forced.len() && !self.matcher.is_stopped() {
            self.forced = self.matcher.compute_ff_tokens();
            self.forced_at = 0;
        }
        if let Some(error) = self.matcher.get_error() {
            return Err(GuidedError::Failed(GuidedError::text(&error)));
        }
        self.known = if let Some(&next) = self.forced.get(self.forced_at) {
            self.mask.fill(0);
            self.mask[next as usize / 32] |= 1 << (next % 32);
            Known::All
        } else if self.matcher.is_stopped() {
            self.mask.fill(0);
            self.may_stop = true;
            Known::All
        } else {
            Known::Choice
        };
        Ok(())
    }

    /// Whether the mask is there already.
    pub fn is_ready(&self) -> bool {
        self.known == Known::All
    }

    fn find_mask(&mut self) -> Result<(), GuidedError> {
        let found =
            self.matcher.compute_mask().map_err(|error| GuidedError::Failed(GuidedError::text(&error)))?;
        let words = self.mask.len();
        self.mask.copy_from_slice(&found.as_slice()[..words]);
        // The library shows the end of the text as this token.
        let end = self.vocabulary.tok_trie().eos_token() as usize;
        let (word, bit) = (end / 32, 1 << (end % 32));
        self.may_stop = self.mask[word] & bit != 0;
        self.mask[word] &= !bit;
        if let Some(digits) = &self.digits {
            self.guard.restrict(digits, &mut self.mask, self.may_stop);
        }
        Ok(())
    }

    /// The tokens that can follow, without any that ends the answer.
    pub fn mask(&mut self) -> Result<&[u32], GuidedError> {
        self.prepare()?;
        Ok(&self.mask)
    }

    /// The tokens that must follow. None where there is a choice.
    pub fn forced(&mut self) -> Result<&[u32], GuidedError> {
        self.prepare_forced()?;
        Ok(&self.forced[self.forced_at..])
    }

    /// Whether the text is complete here.
    pub fn may_stop(&mut self) -> Result<bool, GuidedError> {
        self.prepare()?;
        Ok(self.may_stop)
    }

    /// Whether the text is complete and nothing can follow.
    pub fn is_complete(&mut self) -> Result<bool, GuidedError> {
        self.prepare()?;
        Ok(self.may_stop && self.mask.iter().all(|&word| word == 0))
    }

    /// The same as far as it can be told without a mask.
    pub fn is_known_complete(&mut self) -> Result<bool, GuidedError> {
        self.prepare_forced()?;
        if self.is_ready() { self.is_complete() } else { Ok(false) }
    }

    /// Goes on by a token. False, and nothing has changed, where the mask does not show it.
    pub fn accept(&mut self, token: u32) -> Result<bool, GuidedError> {
        self.prepare()?;
        let word = self.mask.get(token as usize / 32).copied().unwrap_or(0);
        if word >> (token % 32) & 1 == 0 {
            return Ok(false);
        }
        self.known = Known::Nothing;
        self.matcher.consume_token(token).map_err(|error| GuidedError::Failed(GuidedError::text(&error)))?;
        if self.digits.is_some() {
            self.guards.push(self.guard);
            self.guard = self.guard.after(self.vocabulary.bytes(token));
        }
        if self.forced_at < self.forced.len() {
            self.forced_at += 1;
        }
        Ok(true)
    }

    /// Takes back the last tokens. The caller counts them.
    pub fn rollback(&mut self, tokens: usize) -> Result<(), GuidedError> {
        if tokens == 0 {
            return Ok(());
        }
        self.known = Known::Nothing;
        self.matcher.rollback(tokens).map_err(|error| GuidedError::Failed(GuidedError::text(&error)))?;
        if self.digits.is_some() {
            let left = self.guards.len() - tokens;
            self.guard = self.guards[left];
            self.guards.truncate(left);
        }
        self.forced.clear();
        self.forced_at = 0;
        Ok(())
    }
}
