//! How long an answer took, and what the time went into.

use std::iter::Sum;
use std::ops::Add;
use std::time::Duration;

/// How long what took, and how many steps of the model it was.
///
/// A step behind the prompt gives one token; one that verifies drafts gives those that were right and one more. Tokens that a
/// grammar forces take none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of those, tokens whose K/V were still held.
    pub reused_tokens: usize,
    /// Tokens of the answer.
    pub tokens: usize,
    /// Of those, tokens that had to follow: by a grammar, or because the thinking budget was spent.
    pub forced_tokens: usize,
    /// From the start to the first token of the answer, or to the end where there is none.
    pub prefill: Duration,
    /// From the first token of the answer to the last one, or to the stop id.
    pub decode: Duration,
    /// Tokens in `decode`: those behind the first, and the stop id.
    pub decode_tokens: usize,
    /// Steps of the model in `decode`.
    pub decode_steps: usize,
    /// Steps that verified drafts.
    pub verify_steps: usize,
    /// Tokens that those gave.
    pub verified_tokens: usize,
    /// Tokens drafted.
    pub drafted_tokens: usize,
    /// Of those, tokens that were right.
    pub accepted_tokens: usize,
    /// What drafting took.
    pub draft: Duration,
    /// What the steps that verified drafts took.
    pub verify: Duration,
    /// What a step over one token takes on average, as far as that is known; else 0.
    pub plain_step: Duration,
    /// What the answer has waited for the grammar: masks that were not found while a step ran, tokens that had to follow, checks
    /// of drafts. A part of `prefill` and `decode`.
    pub guide: Duration,
}

impl Timings {
    /// Prompt tokens that were run.
    pub fn prefill_tokens(&self) -> usize {
        self.prompt_tokens - self.reused_tokens
    }

    /// Prompt tokens run per second.
    pub fn prefill_rate(&self) -> f64 {
        rate(self.prefill_tokens(), self.prefill)
    }

    /// Tokens per second, without the first, which belongs to the prompt.
    pub fn decode_rate(&self) -> f64 {
        rate(self.decode_tokens, self.decode)
    }

    /// Tokens that a step with drafts gave on average, or none where there was no such step.
    pub fn tokens_per_verify(&self) -> Option<f64> {
        (self.verify_steps > 0).then(|| self.verified_tokens as f64 / self.verify_steps as f64)
    }

    /// How many times as fast the steps with drafts made their tokens as steps over one token would have; none where there was
    /// no such step, or no step over one token to compare with.
    pub fn draft_speedup(&self) -> Option<f64> {
        let (with, without) = (self.draft + self.verify, self.plain_step.as_secs_f64());
        let known = self.verify_steps > 0 && !with.is_zero() && without > 0.0;
        known.then(|| self.verified_tokens as f64 * without / with.as_secs_f64())
    }

    /// What the grammar took for each token of the answer; none where there was no grammar.
    pub fn guide_per_token(&self) -> Option<Duration> {
        let tokens = u32::try_from(self.tokens).ok().filter(|&tokens| tokens > 0)?;
        (!self.guide.is_zero()).then(|| self.guide / tokens)
    }
}

impl Add for Timings {
    type Output = Timings;

    /// Those of two answers, one after the other.
    fn add(self, other: Timings) -> Timings {
        Timings {
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            reused_tokens: self.reused_tokens + other.reused_tokens,
            tokens: self.tokens + other.tokens,
            forced_tokens: self.forced_tokens + other.forced_tokens,
            prefill: self.prefill + other.prefill,
            decode: self.decode + other.decode,
            decode_tokens: self.decode_tokens + other.decode_tokens,
            decode_steps: self.decode_steps + other.decode_steps,
            verify_steps: self.verify_steps + other.verify_steps,
            verified_tokens: self.verified_tokens + other.verified_tokens,
            drafted_tokens: self.drafted_tokens + other.drafted_tokens,
            accepted_tokens: self.accepted_tokens + other.accepted_tokens,
            draft: self.draft + other.draft,
            verify: self.verify + other.verify,
            // The later one has learned more.
            plain_step: if other.plain_step.is_zero() { self.plain_step } else { other.plain_step },
            guide: self.guide + other.guide,
        }
    }
}

impl Sum for Timings {
    fn sum<I: Iterator<Item = Timings>>(all: I) -> Timings {
        all.fold(Timings::default(), Add::add)
    }
}

fn rate(count: usize, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if count == 0 || seconds == 0.0 { 0.0 } else { count as f64 / seconds }
}
