//! What is known to go wrong in servers of this model, by number: docs/cases.md has the list.

mod support;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use support::Running;
use support::watched::{Asked, Watched, endless};

const PATH: &str = "/v1/chat/completions";

/// A greedy request, with more fields.
fn ask(text: &str, more: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": text }], "temperature": 0,
        "max_completion_tokens": 60 });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The chunks of a stream, which ends with its mark.
async fn chunks(server: &Running, mut body: Value) -> Vec<Value> {
    body["stream"] = true.into();
    let data = server.stream(PATH, &body).await;
    let (end, chunks) = data.split_last().unwrap();
    assert_eq!(end, "[DONE]");
    chunks.iter().map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// The reasons that a stream's chunks give, with the place of each.
fn reasons(chunks: &[Value]) -> Vec<(usize, String)> {
    let reason = |(index, chunk): (usize, &Value)| {
        Some((index, chunk["choices"][0]["finish_reason"].as_str()?.to_owned()))
    };
    chunks.iter().enumerate().filter_map(reason).collect()
}

#[tokio::test]
async fn case_33_calls_in_a_stream_have_openais_form() {
    let server = Running::start(|_| {});
    let tool = |name: &str| {
        json!({ "type": "function", "function": { "name": name, "parameters": { "type": "object",
            "properties": { "a": { "type": "integer", "minimum": 0, "maximum": 9 } }, "required": ["a"],
            "additionalProperties": false } } })
    };
    let tools = json!([tool("add"), tool("take")]);
    // One call, which ends the answer; and calls without end, which the limit cuts.
    for (bias, reason) in
        [(json!({}), "tool_calls"), (json!({ "1": -100, "50": -100, "106": -100 }), "length")]
    {
        let more = json!({ "tools": tools, "tool_choice": "required", "logit_bias": bias });
        let chunks = chunks(&server, ask("What is 2 + 3?", more)).await;
        let ids: BTreeSet<&str> = chunks.iter().map(|chunk| chunk["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 1, "one answer has one id");
        assert_eq!(reasons(&chunks), [(chunks.len() - 1, reason.to_owned())], "{chunks:?}");
        let mut calls: Vec<(String, String)> = Vec::new();
        for delta in
            chunks.iter().flat_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array()).flatten()
        {
            let index = delta["index"].as_u64().unwrap() as usize;
            let function = &delta["function"];
            if index == calls.len() {
                let id = delta["id"].as_str().unwrap();
                assert!(id.starts_with("call_") && delta["type"] == "function", "{delta}");
                assert!(["add", "take"].contains(&function["name"].as_str().unwrap()), "{delta}");
                calls.push((id.into(), String::new()));
            } else {
                assert!(index + 1 == calls.len() && delta["id"].is_null(), "{delta}");
            }
            calls[index].1 += function["arguments"].as_str().unwrap_or_default();
        }
        let ids: BTreeSet<&String> = calls.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), calls.len(), "each call has an id of its own");
        for (_, arguments) in &calls {
            assert!(serde_json::from_str::<Value>(arguments).unwrap()["a"].is_u64(), "{arguments}");
        }
        assert!(if reason == "length" { calls.len() > 1 } else { !calls.is_empty() }, "{calls:?}");
    }
}

#[tokio::test]
async fn case_84_stop_strings_are_applied() {
    let server = Running::start(|_| {});
    let question = "What is the capital of France?";
    let (_, whole) = server.post(PATH, &ask(question, json!({}))).await;
    let whole = whole["choices"][0]["message"]["content"].as_str().unwrap();
    let (before, _) = whole.split_once("Paris").unwrap();
    for stop in [json!("Paris"), json!(["zebra", "Paris", "quince", "violin"])] {
        let body = ask(question, json!({ "stop": stop }));
        let (status, answer) = server.post(PATH, &body).await;
        let choice = &answer["choices"][0];
        assert_eq!((status, &choice["finish_reason"]), (200, &json!("stop")));
        assert_eq!(choice["message"]["content"].as_str().unwrap().trim_end(), before.trim_end());
        let chunks = chunks(&server, body).await;
        let text: String =
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(text, choice["message"]["content"].as_str().unwrap());
    }
    for wrong in [json!(""), json!(["a", "b", "c", "d", "e"]), json!(["a", ""]), json!(7)] {
        let (status, answer) = server.post(PATH, &ask(question, json!({ "stop": wrong }))).await;
        assert_eq!(status, 400, "{wrong}: {answer}");
        assert!(answer["error"]["param"].as_str().unwrap().starts_with("stop"), "{answer}");
    }
}

#[tokio::test]
async fn case_85_a_stream_ends_with_one_reason_and_usage_only_where_it_is_asked_for() {
    let server = Running::start(|_| {});
    let thinking =
        json!({ "chat_template_kwargs": { "enable_thinking": true }, "max_completion_tokens": 200 });
    for (more, reason) in [
        (json!({}), "stop"),
        (json!({ "max_completion_tokens": 3 }), "length"),
        (thinking.clone(), "stop"),
        (
            json!({ "chat_template_kwargs": { "enable_thinking": true }, "max_completion_tokens": 3 }),
            "length",
        ),
    ] {
        let body = ask("What is 20 + 31?", more);
        let plain = chunks(&server, body.clone()).await;
        assert_eq!(reasons(&plain), [(plain.len() - 1, reason.to_owned())], "{plain:?}");
        assert!(plain.iter().all(|chunk| chunk["usage"].is_null() && chunk["choices"][0].is_object()));
        let mut asking = body;
        asking["stream_options"] = json!({ "include_usage": true });
        let counted = chunks(&server, asking).await;
        let last = counted.last().unwrap();
        assert_eq!(last["choices"], json!([]));
        assert!(last["usage"]["completion_tokens"].as_u64().unwrap() > 0);
        assert_eq!(reasons(&counted), [(counted.len() - 2, reason.to_owned())]);
    }
    let thought = chunks(&server, ask("What is 20 + 31?", thinking)).await;
    let with_thoughts = |chunk: &&Value| chunk["choices"][0]["delta"]["reasoning_content"].is_string();
    assert!(thought.iter().filter(with_thoughts).count() > 0);
    assert!(thought.iter().filter(with_thoughts).all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
}

#[tokio::test]
async fn case_86_log_probabilities_are_those_of_the_whole_distribution() {
    let server = Running::start(|_| {});
    let likely = |more: Value| {
        ask("Hello!", json!({ "logprobs": true, "top_logprobs": 5, "seed": 5 }))
            .as_object()
            .map(|body| {
                let mut body = Value::Object(body.clone());
                for (name, value) in more.as_object().unwrap() {
                    body[name] = value.clone();
                }
                body
            })
            .unwrap()
    };
    // Filters that leave one token in the draw change no number.
    let (_, plain) = server.post(PATH, &likely(json!({}))).await;
    for filter in [json!({ "top_p": 0.01, "temperature": 1.0 }), json!({ "top_k": 1, "temperature": 1.0 })] {
        let (status, answer) = server.post(PATH, &likely(filter.clone())).await;
        assert_eq!(status, 200);
        assert_eq!(answer["choices"][0]["logprobs"], plain["choices"][0]["logprobs"], "{filter}");
        let chunks = chunks(&server, likely(filter)).await;
        let streamed: Vec<&Value> = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array())
            .flatten()
            .collect();
        let whole = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
        assert_eq!(streamed, whole.iter().collect::<Vec<_>>());
        assert_eq!(reasons(&chunks).len(), 1);
    }
    for token in plain["choices"][0]["logprobs"]["content"].as_array().unwrap() {
        assert!(token["bytes"].is_array() && token["logprob"].as_f64().unwrap() <= 0.0, "{token}");
    }
    for wrong in [json!({ "top_logprobs": 25 }), json!({ "logprobs": null }), json!({ "top_logprobs": -1 })] {
        let (status, answer) = server.post(PATH, &likely(wrong.clone())).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!("top_logprobs")), "{wrong}: {answer}");
    }
}

#[tokio::test]
async fn case_87_both_names_of_the_limit_count() {
    let server = Running::start(|_| {});
    for more in [
        json!({ "max_completion_tokens": 3 }),
        json!({ "max_completion_tokens": null, "max_tokens": 3 }),
        json!({ "max_completion_tokens": 3, "max_tokens": 3 }),
    ] {
        let (status, answer) = server.post(PATH, &ask("Tell me a story.", more.clone())).await;
        assert_eq!(status, 200, "{more}: {answer}");
        assert_eq!(answer["usage"]["completion_tokens"], 3, "{more}");
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
    }
    for (more, param) in [
        (json!({ "max_completion_tokens": 3, "max_tokens": 4 }), "max_completion_tokens"),
        (json!({ "max_completion_tokens": 0 }), "max_completion_tokens"),
        (json!({ "max_completion_tokens": "3" }), "max_completion_tokens"),
        (json!({ "max_completion_tokens": null, "max_tokens": 0 }), "max_tokens"),
        (json!({ "max_completion_tokens": null, "max_tokens": "3" }), "max_tokens"),
    ] {
        let (status, answer) = server.post(PATH, &ask("Tell me a story.", more.clone())).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{more}: {answer}");
    }
}

#[tokio::test]
async fn case_88_a_client_that_goes_during_a_long_prompt_ends_it() {
    const WORDS: usize = 10_000;
    const CHUNK: usize = 8;
    // The step that waits until the server has seen that the client is gone.
    const HELD: usize = 4;
    let (steps, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, seen) = (Arc::clone(&steps), Arc::clone(&gone));
    let (backend, _log) = Watched::boxed(1 << 20, endless(), move |asked| {
        if asked == Asked::Step && counted.fetch_add(1, Ordering::SeqCst) + 1 >= HELD {
            while !seen.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let server = Running::with(backend, |options| {
        (options.parallel, options.chunk) = (1, Some(CHUNK));
        options.batch.prompt_share = CHUNK;
    });
    for stream in [true, false] {
        steps.store(0, Ordering::SeqCst);
        gone.store(false, Ordering::SeqCst);
        let body = ask(&" word".repeat(WORDS), json!({ "stream": stream })).to_string();
        let mut client = TcpStream::connect(server.address).unwrap();
        write!(
            client,
            "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        while steps.load(Ordering::SeqCst) < HELD {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(client);
        // Whoever follows an answer watches the stage: nobody does any more.
        server.until(|app| app.stage.receiver_count() == 0).await;
        gone.store(true, Ordering::SeqCst);
        server.idle().await;
        // The step that was on its way is the last; the whole prompt has one for every chunk.
        let made = steps.load(Ordering::SeqCst);
        assert_eq!(made, HELD, "of {} steps", WORDS / CHUNK);
    }
}
