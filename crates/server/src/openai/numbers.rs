//! What answers have in common: counts, times, log-probabilities.

use rawloop_engine::Timings;
use rawloop_engine::sample::{LogProbabilities, LogProbability};
use rawloop_tokenizer::Tokenizer;
use serde_json::{Value, json};

use crate::http::App;
use crate::work::Finished;

/// Counts of tokens over all answers to one prompt.
pub fn usage(finished: &[Finished]) -> Value {
    let prompt = finished.first().map_or(0, |one| one.timings.prompt_tokens);
    let cached = finished.first().map_or(0, |one| one.timings.reused_tokens);
    let tokens: usize = finished.iter().map(|one| one.timings.tokens).sum();
    let reasoning: usize = finished.iter().map(|one| one.reasoning_tokens).sum();
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": tokens,
        "total_tokens": prompt + tokens,
        "prompt_tokens_details": { "cached_tokens": cached },
        "completion_tokens_details": { "reasoning_tokens": reasoning },
    })
}

/// Tokens a second, with two places.
pub fn tokens_per_second(rate: f64) -> f64 {
    (rate * 100.0).round() / 100.0
}

/// What rawloop knows beyond OpenAI's counts, of the first answer.
pub fn rawloop(app: &App, finished: &[Finished]) -> Value {
    let Some(first) = finished.first() else { return Value::Null };
    let t: &Timings = &first.timings;
    let millis = |time: std::time::Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    json!({
        "finish_reason": first.finish.name(),
        "seed": first.seed,
        "prompt_tokens": t.prompt_tokens,
        "reused_tokens": t.reused_tokens,
        "prefilled_tokens": t.prefill_tokens(),
        "prefill_ms": millis(t.prefill),
        "prefill_tokens_per_second": tokens_per_second(t.prefill_rate()),
        "tokens": t.tokens,
        "forced_tokens": t.forced_tokens,
        "decode_ms": millis(t.decode),
        "decode_steps": t.decode_steps,
        "decode_tokens_per_second": tokens_per_second(t.decode_rate()),
        "verify_steps": t.verify_steps,
        "tokens_per_verify": t.tokens_per_verify().map(tokens_per_second),
        "drafted": t.drafted_tokens,
        "accepted": t.accepted_tokens,
        "context_tokens": app.info().context,
        "memory_bytes": resident(),
    })
}

/// Bytes of memory in use, where the system says.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(4096 * text.split(' ').nth(1)?.parse::<u64>().ok()?)
}

/// The text and the bytes of a token.
pub fn spell(tokenizer: &Tokenizer, id: u32) -> (String, Vec<u8>) {
    let bytes = tokenizer.token_bytes(id).map(|bytes| bytes.into_owned()).unwrap_or_default();
    (String::from_utf8_lossy(&bytes).into_owned(), bytes)
}

/// Log-probabilities of a chat's tokens.
pub fn chat_logprobs(tokenizer: &Tokenizer, tokens: &[LogProbabilities]) -> Value {
    let one = |token: &LogProbability| {
        let (text, bytes) = spell(tokenizer, token.id);
        json!({ "token": text, "logprob": token.value, "bytes": bytes })
    };
    let all: Vec<Value> = tokens
        .iter()
        .map(|token| {
            let mut value = one(&token.picked);
            value["top_logprobs"] = token.top.iter().map(one).collect();
            value
        })
        .collect();
    json!({ "content": all, "refusal": null })
}
