//! Finished answers as JSON.

use rawloop_engine::chat::ParsedCall;
use rawloop_engine::conversation::ToolTurn;
use rawloop_engine::ops::OpAnswer;
use rawloop_engine::sample::LogProbabilities;
use rawloop_engine::{Answer, Finish, Model, Timings, Turn};
use rawloop_tokenizer::SpecialText;
use serde_json::{Value, json};

/// A turn without calls that were run.
pub fn turn(turn: &Turn, seed: u64, logprobs: Vec<Value>) -> String {
    whole(turn, &turn.timings, seed, logprobs, &[], false)
}

/// A turn with calls: the text is the last answer's, the times are those of all answers together.
pub fn tool_turn(done: &ToolTurn, seed: u64, logprobs: Vec<Value>) -> String {
    let mut times = Timings::default();
    for timings in done.turns.iter().map(|turn| &turn.timings) {
        times.prompt_tokens += timings.prompt_tokens;
        times.reused_tokens += timings.reused_tokens;
        times.tokens += timings.tokens;
        times.forced_tokens += timings.forced_tokens;
        times.prefill += timings.prefill;
        times.decode += timings.decode;
        times.decode_tokens += timings.decode_tokens;
        times.decode_steps += timings.decode_steps;
        times.verify_steps += timings.verify_steps;
        times.verified_tokens += timings.verified_tokens;
        times.drafted_tokens += timings.drafted_tokens;
        times.accepted_tokens += timings.accepted_tokens;
    }
    let results: Vec<Value> = done
        .results
        .iter()
        .map(|(call, told)| {
            json!({ "id": call.id, "name": call.name, "arguments": call.arguments, "told": told })
        })
        .collect();
    let nothing = Turn {
        output: Default::default(),
        ids: Vec::new(),
        finish: Finish::Cancelled,
        timings: Timings::default(),
    };
    whole(done.last().unwrap_or(&nothing), &times, seed, logprobs, &results, done.limited)
}

fn whole(
    turn: &Turn,
    times: &Timings,
    seed: u64,
    logprobs: Vec<Value>,
    results: &[Value],
    limited: bool,
) -> String {
    let output = &turn.output;
    let call = |call: &ParsedCall| json!({ "name": call.name, "arguments": call.arguments });
    let warnings: Vec<String> = output.warnings.iter().map(ToString::to_string).collect();
    json!({
        "text": output.text,
        "reasoning": output.reasoning,
        "calls": output.calls.iter().map(call).collect::<Vec<_>>(),
        "results": results,
        "limited": limited,
        "warnings": warnings,
        "ids": turn.ids,
        "finish": turn.finish.name(),
        "seed": seed,
        "logprobs": logprobs,
        "stats": stats(times),
    })
    .to_string()
}

/// The continuation of a text.
pub fn continuation(answer: &Answer, seed: u64, logprobs: Vec<Value>) -> String {
    json!({
        "text": answer.text,
        "ids": answer.ids,
        "finish": answer.finish.name(),
        "seed": seed,
        "logprobs": logprobs,
        "stats": stats(&answer.timings),
    })
    .to_string()
}

/// The answer of an operation.
pub fn operation(answer: &OpAnswer) -> String {
    let stats = &answer.stats;
    json!({
        "text": answer.text,
        "value": answer.value,
        "whole": answer.whole,
        "pieces": answer.pieces,
        "dropped": answer.dropped,
        "prompts": stats.prompts,
        "retried": stats.retried,
        "prompt_tokens": stats.prompt_tokens,
        "reused_tokens": stats.reused_tokens,
        "tokens": stats.tokens,
    })
    .to_string()
}

/// How likely a token was, with its text.
pub fn logprob(model: &Model, report: &LogProbabilities) -> Value {
    let one = |id: u32, value: f32| {
        let text = model.tokenizer().decode(&[id], SpecialText::Keep).unwrap_or_default();
        json!({ "id": id, "text": text, "logprob": f64::from(value) })
    };
    let mut value = one(report.picked.id, report.picked.value);
    value["top"] = report.top.iter().map(|other| one(other.id, other.value)).collect();
    value
}

fn stats(times: &Timings) -> Value {
    json!({
        "prompt_tokens": times.prompt_tokens,
        "reused_tokens": times.reused_tokens,
        "tokens": times.tokens,
        "forced_tokens": times.forced_tokens,
        "prefill_seconds": times.prefill.as_secs_f64(),
        "decode_seconds": times.decode.as_secs_f64(),
        "decode_steps": times.decode_steps,
        "verify_steps": times.verify_steps,
        "drafted_tokens": times.drafted_tokens,
        "accepted_tokens": times.accepted_tokens,
        "prefill_rate": times.prefill_rate(),
        "decode_rate": times.decode_rate(),
    })
}
