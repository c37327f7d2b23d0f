//! What the page asks for, as JSON, and what it is told.

use serde::{Deserialize, Serialize};

/// How to open a pack.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Opening {
    /// Positions that a conversation can hold; the model's own limit where it is lower.
    pub context: usize,
    /// Check every hash first.
    pub verify: bool,
}

impl Default for Opening {
    fn default() -> Opening {
        Opening { context: 4096, verify: false }
    }
}

/// How to answer. What is not said is the model's own sampling.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asking {
    /// Tokens of the answer at most; 512 where nothing is said.
    pub max_tokens: Option<usize>,
    /// 0 takes the likeliest token.
    pub temperature: Option<f32>,
    /// Where the draws begin.
    pub seed: Option<u64>,
    /// Instructions before the first message.
    pub system: Option<String>,
    /// Think first.
    pub thinking: bool,
}

/// What was opened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Opened {
    /// Adapter and interface.
    pub device: String,
    /// Whether its arithmetic was found to be the contract's.
    pub exact: bool,
    /// Where it was not: what, and how often of the pairs that were tried.
    pub inexact: Vec<(String, usize)>,
    /// Bytes on the device without K/V.
    pub device_bytes: usize,
    /// Positions a conversation can hold.
    pub context: usize,
    /// Whether the weights are random.
    pub synthetic: bool,
}

/// How an answer went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// Its tokens.
    pub ids: Vec<u32>,
    /// Its text.
    pub text: String,
    /// Why it ended.
    pub finish_reason: &'static str,
    /// Tokens of the prompt, and how many of them the cache held.
    pub prompt_tokens: usize,
    /// See `prompt_tokens`.
    pub reused_tokens: usize,
    /// From the question to the first token, in milliseconds.
    pub first_token_ms: f64,
    /// Tokens a second behind the first one.
    pub tokens_per_second: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_a_default_and_what_is_unknown_is_named() {
        let opening: Opening = serde_json::from_str(r#"{"verify": true}"#).unwrap();
        assert_eq!(opening, Opening { context: 4096, verify: true });
        let asking: Asking = serde_json::from_str(r#"{"temperature": 0, "seed": 7}"#).unwrap();
        assert_eq!(asking, Asking { temperature: Some(0.0), seed: Some(7), ..Asking::default() });
        let error = serde_json::from_str::<Asking>(r#"{"temprature": 0}"#).unwrap_err().to_string();
        assert!(error.contains("temprature"), "{error}");
    }
}
