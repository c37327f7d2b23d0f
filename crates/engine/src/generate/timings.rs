//! How long an answer took, and what the time went into.

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
}

fn rate(count: usize, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if count == 0 || seconds == 0.0 { 0.0 } else { count as f64 / seconds }
}
