//! How likely the model found a token: `ln` of the softmax over the whole vocabulary.
//!
//! Computed from the soft-capped logits before bias, penalties, temperature and filters, so that the numbers describe the
//! model and not the sampler, and none of them is minus infinity because of a filter. With `m` the largest capped logit,
//! `s` the 32-lane sum (rule 6) of `exp(v - m) * 1` over the ids in ascending order: `(v - m) - f32(ln(f64(s)))`. This
//! values the whole vocabulary, 40 ms at 262,144 tokens, and is done only where asked for.

use rawloop_spec::contract;

use super::select::value_of;

/// One token and its log-probability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogProbability {
    /// The token.
    pub id: u32,
    /// Natural logarithm of its probability.
    pub value: f32,
}

/// The log-probability of a picked token and of the likeliest ones; reused from token to token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogProbabilities {
    /// The token that was picked.
    pub picked: LogProbability,
    /// The likeliest tokens, the likeliest first, lowest id first among equals.
    pub top: Vec<LogProbability>,
}

impl LogProbabilities {
    /// An empty report with room for what the options ask for.
    pub fn with_room(options: &super::SamplingOptions) -> LogProbabilities {
        let top = Vec::with_capacity(options.log_probabilities.unwrap_or(0) as usize);
        LogProbabilities { top, ..LogProbabilities::default() }
    }
}

impl super::Sampler {
    /// Fills `report` for a token picked from `logits` (`[vocab]`, before the soft cap) with the number of alternatives
    /// that the options ask for. Does nothing where the options ask for no log-probabilities.
    pub fn report(&mut self, logits: &[f32], picked: u32, report: &mut LogProbabilities) {
        let Some(count) = self.options.log_probabilities else { return };
        let cap = self.cap;
        let values = &mut self.values;
        values.clear();
        values.extend(logits.iter().map(|&raw| value_of(raw, cap)));
        let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum = contract::lane_sum(values.len(), |i| (contract::exp(values[i] - largest), 1.0));
        let log_sum = libm::log(f64::from(sum)) as f32;
        // A token that cannot occur (its logit is minus infinity or NaN) is given the lowest number that JSON can carry.
        let of = |id: u32| {
            let value = values.get(id as usize).map_or(f32::NAN, |v| v - largest - log_sum);
            LogProbability { id, value: if value.is_finite() { value } else { f32::MIN } }
        };
        report.picked = of(picked);
        report.top.clear();
        if count > 0 {
            self.selector.search(values, count as usize, None, None, None);
            self.selector.finish(count as usize);
            report.top.extend(self.selector.ordered().iter().map(|&key| of(key as u32)));
        }
    }
}
