//! From logits to a token: contract rule 13 in full.
//!
//! A token at absolute position `p` of a sequence is picked from the logits of the token before it in these steps, in f32,
//! every operation rounded on its own:
//!
//! 1. **Value.** `v = soft_cap(z)`, or `z` where the model has no cap (rule 9).
//! 2. **Bias.** `v = v + bias[id]` for each listed id. Suppressed ids, ids that a mask forbids, and logits that are NaN or
//!    minus infinity are no candidates, whatever their bias.
//! 3. **Penalties.** For an id that occurs in the prompt or the answer so far: `v = v / r` where `v > 0`, else `v * r`. For
//!    an id that occurs `n` times in the answer so far: `v = v - presence`, then `v = v - frequency * f32(n)`. With a
//!    window only the last so many ids of prompt and answer count. Then `v = v - min(dry * base^(L - length), 100)` for an id
//!    that would go on with a passage: `L`, at most 64, is the longest run of ids at the end of prompt and answer, without a
//!    breaker, that stands directly before an earlier occurrence of the id, and at least `length`; the power is a product.
//! 4. **Order.** Candidates are ordered by (`v` descending, id ascending); -0 equals +0. Everything below keeps this order
//!    and every sum runs along it, beginning at +0.
//! 5. **Temperature** 0 takes the first candidate. Otherwise `x = v / temperature`.
//! 6. **Top-k** keeps the first `k`; 0 keeps all.
//! 7. **Softmax.** `w = exp(x - x_first)` (rule 8's exponential). Probabilities are `w` over the sum of the `w` still kept,
//!    and are never computed: the filters below scale their thresholds instead.
//! 8. **Top-p** (below 1): a candidate stays while the sum of the `w` before it is less than `top_p * sum`.
//! 9. **Min-p** (above 0): a candidate stays if `w >= min_p`, the first one's `w` being 1.
//! 10. **Typical** (below 1): with `s` the sum of the kept `w` and `l = f32(ln(f64(s)))`, `surprise = l - (x - x_first)`,
//!     `entropy = sum of (w / s) * surprise`, `distance = |surprise - entropy|`; ordered by (distance, order of step 4) a
//!     candidate stays while the sum of the `w` before it is less than `typical * s`.
//! 11. **Draw.** `t = u * sum`, and the first candidate whose running sum exceeds `t` is taken, or the last one where none
//!     does. `u` is the top 24 bits of the first word of Philox4x32-10 times 2^-24; its key is the seed (low word, high
//!     word), its counter is (position low, position high, draw index, 0). The draw index is 0 for a token of the answer.
//!
//! Each filter keeps at least one candidate. At temperature 0 without bias and penalties the raw logits decide, as in a
//! backend's own greedy pick: the cap is monotonic up to rounding, so it is left out there and nowhere else.
//!
//! A draw depends on the seed and the position only, so a conversation that is replayed, resumed or speculated on draws the
//! same numbers. Cost: of 262,144 logits only those that could be among the first `k` are capped (`select.rs`). Nothing is
//! allocated once the buffers have grown.
//!
//! Reading order: `options.rs`, this file, `select.rs`, `filter.rs`, `penalties.rs`, `dry.rs`, `philox.rs`, `log_probabilities.rs`.

use std::collections::BTreeMap;

mod dry;
mod filter;
mod log_probabilities;
mod options;
mod penalties;
mod philox;
mod select;

pub use log_probabilities::{LogProbabilities, LogProbability};
pub use options::{OptionError, SamplingOptions};
pub use philox::{philox4x32, uniform};

use dry::Dry;
use filter::Filters;
use penalties::Penalties;
use select::{NEGLIGIBLE, Selector, value_of};

/// Which ids may be picked: bit `id % 32` of word `id / 32`. Ids behind the last word are forbidden.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a>(pub &'a [u32]);

impl Mask<'_> {
    /// Whether the id may be picked.
    pub fn allows(self, id: u32) -> bool {
        self.0.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
    }
}

/// No token can be picked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// A row of another width than the vocabulary.
    #[error("a row of {found} logits was handed to a sampler for {vocab} tokens")]
    Width {
        /// Values in the row.
        found: usize,
        /// Tokens in the vocabulary.
        vocab: usize,
    },
    /// Everything is masked, suppressed or not a number.
    #[error(
        "no token can be picked at position {position}: {numbers} of {vocab} logits are numbers and none of those is \
         allowed; if none is a number the weights or the backend are faulty, otherwise the mask or the suppressed \
         tokens leave nothing"
    )]
    NoCandidate {
        /// The position that was to be filled.
        position: usize,
        /// Logits that are finite.
        numbers: usize,
        /// Tokens in the vocabulary.
        vocab: usize,
    },
}

/// Picks tokens of one sequence. See the module documentation.
#[derive(Debug)]
pub struct Sampler {
    options: SamplingOptions,
    vocab: usize,
    cap: Option<f32>,
    penalties: Penalties,
    dry: Dry,
    selector: Selector,
    filters: Filters,
    /// The options' bias, ascending by id, each id once.
    bias: Vec<(u32, f32)>,
    /// Logits that were taken out of the row while the rest of it is searched: (id, raw logit), each id once.
    removed: Vec<(u32, f32)>,
    /// Capped logits, for the log-probabilities.
    values: Vec<f32>,
}

impl Sampler {
    /// A sampler for rows of `vocab` logits that are capped at `cap`.
    ///
    /// # Errors
    /// The first option that is out of its range.
    pub fn new(options: SamplingOptions, vocab: usize, cap: Option<f32>) -> Result<Sampler, OptionError> {
        options.validate(vocab)?;
        let penalties = Penalties::new(&options, vocab);
        let dry = Dry::new(&options, vocab);
        let bias: BTreeMap<u32, f32> = options.bias.iter().copied().collect();
        let penalised = if penalties.active() || dry.active() { vocab } else { 0 };
        let touched = options.suppress.len() + bias.len() + penalised;
        Ok(Sampler {
            options,
            vocab,
            cap,
            penalties,
            dry,
            selector: Selector::with_room(touched),
            filters: Filters::default(),
            bias: bias.into_iter().collect(),
            removed: Vec::with_capacity(touched),
            values: Vec::new(),
        })
    }

    /// The options it was made with.
    pub fn options(&self) -> &SamplingOptions {
        &self.options
    }

    /// Forgets the sequence so far and begins one with this prompt.
    pub fn begin(&mut self, prompt: &[u32]) {
        self.penalties.begin(prompt);
        self.dry.begin(prompt);
    }

    /// Tells that `id` is now part of the answer. Ids outside of the vocabulary are ignored.
    pub fn accept(&mut self, id: u32) {
        self.penalties.accept(id);
        self.dry.accept(id);
    }

    /// Picks the token that goes to `position`. `logits` are `[vocab]`, before the soft cap; they are the same afterwards.
    ///
    /// # Errors
    /// Wrong width, or no candidate.
    pub fn pick(
        &mut self,
        logits: &mut [f32],
        position: usize,
        mask: Option<Mask<'_>>,
    ) -> Result<u32, SampleError> {
        if logits.len() != self.vocab {
            return Err(SampleError::Width { found: logits.len(), vocab: self.vocab });
        }
        self.find_candidates(logits, mask);
        self.restore(logits);
        let keys = self.selector.ordered();
        if keys.is_empty() {
            let numbers = logits.iter().filter(|z| z.is_finite()).count();
            return Err(SampleError::NoCandidate { position, numbers, vocab: self.vocab });
        }
        if self.options.temperature == 0.0 {
            return Ok(keys[0] as u32);
        }
        let u = uniform(self.options.seed, position as u64, 0);
        Ok(self.filters.draw(keys, &self.options, u))
    }

    /// Steps 1 to 4 and 6: leaves the candidates in the selector, in order.
    fn find_candidates(&mut self, logits: &mut [f32], mask: Option<Mask<'_>>) {
        let greedy = self.options.temperature == 0.0;
        let touches = !self.bias.is_empty() || self.penalties.active() || self.dry.active();
        let cap = if greedy && !touches { None } else { self.cap };
        let k = match (greedy, self.options.top_k) {
            (true, _) => 1,
            (false, 0) => self.vocab,
            (false, k) => (k as usize).min(self.vocab),
        };
        // What bias and penalties move is valued one by one, the rest of the row in bulk.
        self.removed.clear();
        for &id in &self.options.suppress {
            remove(logits, &mut self.removed, id);
        }
        let kept_back = self.removed.len();
        for &(id, _) in &self.bias {
            remove(logits, &mut self.removed, id);
        }
        for &id in self.penalties.ids() {
            remove(logits, &mut self.removed, id);
        }
        self.dry.search();
        for &id in self.dry.ids() {
            remove(logits, &mut self.removed, id);
        }
        let reach = (!greedy && self.options.typical >= 1.0).then_some(NEGLIGIBLE * self.options.temperature);
        self.selector.search(logits, k, cap, mask, reach);
        for &(id, raw) in &self.removed[kept_back..] {
            if mask.is_none_or(|mask| mask.allows(id)) {
                let biased = value_of(raw, cap) + self.bias_of(id);
                let penalised = self.dry.apply(id, self.penalties.apply(id, biased));
                self.selector.add(penalised, id);
            }
        }
        self.selector.finish(k);
    }

    fn bias_of(&self, id: u32) -> f32 {
        self.bias.binary_search_by_key(&id, |&(id, _)| id).map_or(0.0, |found| self.bias[found].1)
    }

    fn restore(&mut self, logits: &mut [f32]) {
        for &(id, raw) in &self.removed {
            logits[id as usize] = raw;
        }
    }
}

/// Takes a logit out of the row; one that is out already (or was never a number) stays where it is.
fn remove(logits: &mut [f32], removed: &mut Vec<(u32, f32)>, id: u32) {
    let logit = &mut logits[id as usize];
    if !logit.is_nan() {
        removed.push((id, *logit));
        *logit = f32::NAN;
    }
}

#[cfg(test)]
mod tests;
