//! What requests have in common.

use std::collections::BTreeMap;

use rawloop_engine::chat::{Content, Message, Role};
use rawloop_engine::{GenerateOptions, SamplingOptions};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::http::{App, fresh_seed};

/// Any JSON object.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct AnyObject(pub serde_json::Map<String, serde_json::Value>);

/// Texts that end an answer: one or up to four.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a string or a list of strings")]
pub enum Stops {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// What a stream holds besides the answer.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub struct StreamOptions {
    /// Ends with a chunk that has the counts of tokens.
    #[serde(default)]
    pub include_usage: Option<bool>,
}

/// How tokens are picked. What is left out is the model's own setting.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct Sampling {
    /// 0 takes the likeliest token every time.
    pub temperature: Option<f32>,
    /// Probability mass kept.
    pub top_p: Option<f32>,
    /// Candidates kept; 0 keeps all.
    pub top_k: Option<u32>,
    /// Least probability kept, as a share of the likeliest's.
    pub min_p: Option<f32>,
    /// Taken off the logit of what the answer holds, -2 to 2.
    pub presence_penalty: Option<f32>,
    /// Taken off for each time, -2 to 2.
    pub frequency_penalty: Option<f32>,
    /// Divides the logit of what occurred; 1 is off.
    pub repetition_penalty: Option<f32>,
    /// Added to the logits of token ids, -100 to 100.
    pub logit_bias: Option<BTreeMap<String, f32>>,
    /// The same seed gives the same answer.
    pub seed: Option<i64>,
}

impl Sampling {
    /// As options of the engine.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn options(&self, app: &App) -> Result<SamplingOptions, ApiError> {
        let own = app.sampling();
        let mut bias = Vec::new();
        for (id, value) in self.logit_bias.iter().flatten() {
            let id = id
                .parse()
                .map_err(|_| ApiError::field("logit_bias", format!("logit_bias: {id:?} is no token id")))?;
            bias.push((id, *value));
        }
        let options = SamplingOptions {
            temperature: self.temperature.unwrap_or(own.temperature),
            top_p: self.top_p.unwrap_or(own.top_p),
            top_k: self.top_k.unwrap_or(own.top_k),
            min_p: self.min_p.unwrap_or(own.min_p),
            presence: self.presence_penalty.unwrap_or(own.presence),
            frequency: self.frequency_penalty.unwrap_or(own.frequency),
            repetition: self.repetition_penalty.unwrap_or(own.repetition),
            bias,
            seed: self.seed.map_or_else(fresh_seed, |seed| seed as u64),
            ..own
        };
        options
            .validate(app.model().pack().geometry().vocab)
            .map_err(|error| ApiError::from(rawloop_engine::EngineError::from(error)))?;
        Ok(options)
    }
}

impl Stops {
    /// The texts.
    ///
    /// # Errors
    /// More than four, or an empty one.
    pub fn texts(stops: Option<&Stops>) -> Result<Vec<String>, ApiError> {
        let texts = match stops {
            None => Vec::new(),
            Some(Stops::One(text)) => vec![text.clone()],
            Some(Stops::Many(texts)) => texts.clone(),
        };
        if texts.len() > 4 {
            return Err(ApiError::field(
                "stop",
                format!("stop: {} texts, at most 4 are possible", texts.len()),
            ));
        }
        if texts.iter().any(String::is_empty) {
            return Err(ApiError::field("stop", "stop: an empty text would end every answer at once"));
        }
        Ok(texts)
    }
}

/// The options that every answer begins with.
pub fn generate(
    app: &App,
    max_tokens: usize,
    sampling: SamplingOptions,
    stops: Vec<String>,
) -> GenerateOptions {
    GenerateOptions {
        stop_strings: stops,
        sampling,
        chunk: app.options.chunk,
        draft: app.options.draft,
        ..GenerateOptions::greedy(max_tokens)
    }
}

/// How many answers a request asks for to each prompt. Whether there is room for them is [`App::admit`]'s to say.
///
/// # Errors
/// None at all.
pub fn answers(n: Option<u32>) -> Result<usize, ApiError> {
    match n {
        Some(0) => Err(ApiError::field("n", "n is 0: expected at least 1")),
        n => Ok(n.unwrap_or(1) as usize),
    }
}

/// Alternatives to each token, where log-probabilities are asked for.
///
/// # Errors
/// Too many, or without asking for log-probabilities.
pub fn alternatives(logprobs: Option<bool>, top: Option<u32>) -> Result<Option<u32>, ApiError> {
    match (logprobs.unwrap_or(false), top) {
        (_, Some(top)) if top > 20 => {
            Err(ApiError::field("top_logprobs", format!("top_logprobs is {top}: expected at most 20")))
        }
        (false, Some(top)) if top > 0 => {
            Err(ApiError::field("top_logprobs", "top_logprobs needs logprobs to be true"))
        }
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, _) => Ok(None),
    }
}

/// Instructions at the beginning of a conversation, apart from the rest: others may begin with the same.
pub fn split_system(mut messages: Vec<Message>) -> (Option<String>, Vec<Message>) {
    let text = match messages.first() {
        Some(Message {
            role: Role::System | Role::Developer, content: Some(Content::Text(text)), ..
        }) => text.clone(),
        _ => return (None, messages),
    };
    messages.remove(0);
    (Some(text), messages)
}
