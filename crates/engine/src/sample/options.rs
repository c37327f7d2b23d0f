//! What a caller may ask of the sampler, with the ranges that make sense.

use rawloop_pack::Generation;
use serde::{Deserialize, Serialize};

use crate::backend::Draw;

/// How tokens are picked. [`SamplingOptions::greedy`] is plain argmax, [`SamplingOptions::from_pack`] what the model's
/// authors recommend. Every field is described, with its formula, in the module documentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplingOptions {
    /// 0 picks the likeliest token; up to 100.
    pub temperature: f32,
    /// Candidates kept; 0 keeps all, which values and sorts everything that could change a sum (16 ms at 262,144 bell-shaped
    /// logits, where 64 candidates take 0.08 ms).
    pub top_k: u32,
    /// Probability mass kept, 0 to 1; 1 keeps all.
    pub top_p: f32,
    /// Least probability kept, as a share of the likeliest candidate's; 0 to 1, 0 keeps all.
    pub min_p: f32,
    /// Mass kept of the candidates closest to the expected surprise, 0 to 1; 1 keeps all.
    pub typical: f32,
    /// Divides the logit of what occurred already; 1 is off, up to 10.
    pub repetition: f32,
    /// Taken off the logit of what the answer contains already; -2 to 2.
    pub presence: f32,
    /// Taken off the logit for each time the answer contains it; -2 to 2.
    pub frequency: f32,
    /// Taken off the logit of what would repeat a passage; 0 is off, up to 10.
    pub dry: f32,
    /// Its factor for each id that the passage is longer than `dry_length`; 1 to 4.
    pub dry_base: f32,
    /// Ids of the shortest passage that counts; 1 to 64.
    pub dry_length: u32,
    /// Ids that end a passage.
    pub dry_breakers: Vec<u32>,
    /// How many of the last ids count for the penalties; 0 counts all.
    pub penalty_window: usize,
    /// Key of the random numbers.
    pub seed: u64,
    /// Added to the logits of single ids; -100 to 100. The last entry counts where an id is listed twice.
    pub bias: Vec<(u32, f32)>,
    /// Ids that are never picked.
    pub suppress: Vec<u32>,
    /// Report the log-probability of each token and of this many alternatives, at most 20.
    pub log_probabilities: Option<u32>,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        SamplingOptions::greedy()
    }
}

/// An option out of its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field} is {found}: expected {expected}")]
pub struct OptionError {
    /// Name of the option.
    pub field: &'static str,
    /// What was asked for.
    pub found: String,
    /// What is possible.
    pub expected: String,
}

impl SamplingOptions {
    /// The likeliest token, always.
    pub fn greedy() -> SamplingOptions {
        SamplingOptions {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical: 1.0,
            repetition: 1.0,
            presence: 0.0,
            frequency: 0.0,
            dry: 0.0,
            dry_base: 1.75,
            dry_length: 2,
            dry_breakers: Vec::new(),
            penalty_window: 0,
            seed: 0,
            bias: Vec::new(),
            suppress: Vec::new(),
            log_probabilities: None,
        }
    }

    /// The generation defaults of a pack.
    pub fn from_pack(generation: &Generation) -> SamplingOptions {
        SamplingOptions {
            temperature: if generation.do_sample { generation.temperature } else { 0.0 },
            top_k: generation.top_k,
            top_p: generation.top_p,
            suppress: generation.suppress.clone(),
            ..SamplingOptions::greedy()
        }
    }

    /// Whether a backend's own argmax is the answer, so that no logits need to leave it.
    pub fn is_plain_greedy(&self) -> bool {
        self.temperature == 0.0
            && self.bias.is_empty()
            && self.suppress.is_empty()
            && self.log_probabilities.is_none()
            && !self.has_penalties()
    }

    /// The draw that a backend can make by itself, where the logits alone decide and none of them has to leave it.
    pub fn draw(&self) -> Option<Draw<'_>> {
        let plain = self.bias.is_empty() && self.log_probabilities.is_none() && !self.has_penalties();
        (plain && self.temperature > 0.0 && self.typical >= 1.0).then_some(Draw {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            seed: self.seed,
            suppress: &self.suppress,
        })
    }

    /// Whether any penalty is on.
    pub fn has_penalties(&self) -> bool {
        self.counts_ids() || self.dry != 0.0
    }

    /// Whether a penalty is on that counts ids.
    pub(super) fn counts_ids(&self) -> bool {
        self.repetition != 1.0 || self.presence != 0.0 || self.frequency != 0.0
    }

    /// Checks every field against its range and every id against the vocabulary.
    ///
    /// # Errors
    /// Names the first field that is out of its range, and the range.
    pub fn validate(&self, vocab: usize) -> Result<(), OptionError> {
        let within = |field, value: f32, low: f32, high: f32| {
            // A NaN is within no range.
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let expected = format!("a number from {low} to {high}");
            Err(OptionError { field, found: value.to_string(), expected })
        };
        within("temperature", self.temperature, 0.0, 100.0)?;
        if self.temperature != 0.0 && self.temperature < 0.001 {
            // Below this v / temperature leaves the range in which f32 tells neighbours apart.
            let expected = "0 (greedy) or a number from 0.001 to 100".into();
            return Err(OptionError { field: "temperature", found: self.temperature.to_string(), expected });
        }
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("typical", self.typical, 0.0, 1.0)?;
        within("repetition", self.repetition, 0.1, 10.0)?;
        within("presence", self.presence, -2.0, 2.0)?;
        within("frequency", self.frequency, -2.0, 2.0)?;
        within("dry", self.dry, 0.0, 10.0)?;
        within("dry_base", self.dry_base, 1.0, 4.0)?;
        within("dry_length", self.dry_length as f32, 1.0, 64.0)?;
        let known = |field, id: u32| {
            if (id as usize) < vocab {
                return Ok(());
            }
            let expected = format!("token ids below {vocab}");
            Err(OptionError { field, found: format!("for token {id}"), expected })
        };
        for &(id, bias) in &self.bias {
            within("bias", bias, -100.0, 100.0)?;
            known("bias", id)?;
        }
        for &id in &self.suppress {
            known("suppress", id)?;
        }
        match self.log_probabilities {
            Some(count) if count > 20 => Err(OptionError {
                field: "log_probabilities",
                found: count.to_string(),
                expected: "at most 20 alternatives".into(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_out_of_range_is_named_with_its_range() {
        type Spoil = fn(&mut SamplingOptions);
        let cases: [(&str, Spoil); 17] = [
            ("temperature", |o| o.temperature = -0.5),
            ("temperature", |o| o.temperature = f32::NAN),
            ("temperature", |o| o.temperature = 1e-6),
            ("temperature", |o| o.temperature = f32::INFINITY),
            ("top_p", |o| o.top_p = 1.5),
            ("min_p", |o| o.min_p = -0.1),
            ("typical", |o| o.typical = 2.0),
            ("repetition", |o| o.repetition = 0.0),
            ("presence", |o| o.presence = 3.0),
            ("frequency", |o| o.frequency = -3.0),
            ("dry", |o| o.dry = -1.0),
            ("dry_base", |o| o.dry_base = 0.5),
            ("dry_length", |o| o.dry_length = 0),
            ("bias", |o| o.bias = vec![(3, 101.0)]),
            ("bias", |o| o.bias = vec![(100, 1.0)]),
            ("suppress", |o| o.suppress = vec![u32::MAX]),
            ("log_probabilities", |o| o.log_probabilities = Some(25)),
        ];
        for (field, spoil) in cases {
            let mut options = SamplingOptions::greedy();
            assert_eq!(options.validate(100), Ok(()));
            spoil(&mut options);
            let error = options.validate(100).unwrap_err();
            assert_eq!(error.field, field);
            assert!(error.to_string().contains("expected"), "{error}");
        }
    }

    #[test]
    fn a_backend_draws_where_the_logits_alone_decide() {
        let options = SamplingOptions {
            temperature: 0.7,
            top_k: 40,
            top_p: 0.9,
            min_p: 0.1,
            seed: 5,
            suppress: vec![3],
            ..SamplingOptions::greedy()
        };
        let draw = options.draw().unwrap();
        assert_eq!((draw.temperature, draw.top_k, draw.top_p, draw.min_p), (0.7, 40, 0.9, 0.1));
        assert_eq!((draw.seed, draw.suppress), (5, &[3][..]));
        let spoilers: [fn(&mut SamplingOptions); 7] = [
            |o| o.temperature = 0.0,
            |o| o.bias = vec![(1, 1.0)],
            |o| o.typical = 0.9,
            |o| o.repetition = 1.1,
            |o| o.frequency = 0.1,
            |o| o.dry = 0.8,
            |o| o.log_probabilities = Some(0),
        ];
        for spoil in spoilers {
            let mut options = options.clone();
            spoil(&mut options);
            assert!(options.draw().is_none());
        }
    }

    #[test]
    fn plain_greedy_is_only_what_an_argmax_answers() {
        assert!(SamplingOptions::greedy().is_plain_greedy());
        let spoilers: [fn(&mut SamplingOptions); 7] = [
            |o| o.temperature = 1.0,
            |o| o.bias = vec![(1, 1.0)],
            |o| o.suppress = vec![1],
            |o| o.repetition = 1.1,
            |o| o.frequency = 0.1,
            |o| o.dry = 0.8,
            |o| o.log_probabilities = Some(0),
        ];
        for spoil in spoilers {
            let mut options = SamplingOptions::greedy();
            spoil(&mut options);
            assert!(!options.is_plain_greedy());
        }
    }
}
