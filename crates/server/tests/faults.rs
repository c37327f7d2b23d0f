//! Clients that go, stall, flood and lie; a server that is told to end.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use rawloop_server::http::App;
use serde_json::{Value, json};
use support::Running;
use support::watched::Watched;

/// An answer that nobody waits for to end, of [`Watched::slow`].
fn forever(stream: bool) -> Value {
    let messages = json!([{ "role": "user", "content": "Hello!" }]);
    json!({ "messages": messages, "max_completion_tokens": 1_000_000, "stream": stream })
}

/// An answer of many tokens.
fn long(stream: bool) -> Value {
    json!({ "messages": [{ "role": "user", "content": "Hello!" }], "max_completion_tokens": 900, "stream": stream,
        "temperature": 1.0, "seed": 3, "logit_bias": { "1": -100, "106": -100 } })
}

fn short() -> Value {
    json!({ "messages": [{ "role": "user", "content": "Hello!" }], "max_completion_tokens": 16, "temperature": 0 })
}

fn raw(server: &Running, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

fn post(body: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_client_that_goes_frees_its_place() {
    let server = Running::with(Watched::slow(), |options| (options.parallel, options.waiting) = (1, 4));
    for stream in [true, false] {
        let response = raw(&server, &post(&forever(stream).to_string()));
        server.until(|app| app.queue.counts().1 > 0).await;
        drop(response);
        server.idle().await;
        let (status, answer) = server.post("/v1/chat/completions", &short()).await;
        assert_eq!(status, 200, "{answer}");
    }
    // One that waits behind another and goes never runs.
    let first = raw(&server, &post(&forever(true).to_string()));
    server.until(|app| app.queue.counts().1 > 0).await;
    let second = raw(&server, &post(&forever(false).to_string()));
    server.until(|app| app.queue.counts().0 > 0).await;
    drop((first, second));
    server.idle().await;
}

#[tokio::test]
async fn a_full_queue_says_when_to_come_back() {
    let server = Running::with(Watched::slow(), |options| (options.parallel, options.waiting) = (1, 1));
    let held: Vec<TcpStream> = (0..2).map(|_| raw(&server, &post(&forever(true).to_string()))).collect();
    server.until(|app| app.queue.counts() == (1, 1)).await;
    let response =
        reqwest::Client::new().post(server.url("/v1/chat/completions")).json(&short()).send().await.unwrap();
    assert_eq!(response.status(), 429);
    let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["code"], "rate_limit_exceeded");
    drop(held);
    server.idle().await;
    assert_eq!(server.post("/v1/chat/completions", &short()).await.0, 200);
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_nobody_up() {
    let server = Running::start(|options| options.parallel = 2);
    let stalled = raw(&server, &post(&long(true).to_string()));
    let (_, expected) = server.post("/v1/chat/completions", &short()).await;
    for _ in 0..5 {
        let (status, answer) = server.post("/v1/chat/completions", &short()).await;
        assert_eq!((status, &answer["choices"]), (200, &expected["choices"]));
    }
    // Its answer is made to the end all the same, and waits for it.
    server.idle().await;
    let mut text = String::new();
    stalled.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut stalled = stalled;
    let mut bytes = [0; 4096];
    while !text.contains("[DONE]") {
        let read = stalled.read(&mut bytes).unwrap();
        assert!(read > 0, "the stream broke off");
        text += &String::from_utf8_lossy(&bytes[..read]);
    }
}

#[tokio::test]
async fn half_a_request_and_no_request_end() {
    let server = Running::start(|options| {
        options.read_limit = Duration::from_millis(300);
        options.body_limit = 2000;
    });
    let mut half = raw(
        &server,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{\"messages\"",
    );
    let mut answer = String::new();
    half.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut bytes = [0; 4096];
    let read = half.read(&mut bytes).unwrap();
    answer += &String::from_utf8_lossy(&bytes[..read]);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    // One that breaks off in the middle is no failure of anybody else's.
    drop(raw(
        &server,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{",
    ));
    let large = json!({ "messages": [{ "role": "user", "content": "x".repeat(3000) }] });
    let (status, error) = server.post("/v1/chat/completions", &large).await;
    assert_eq!((status, error["error"]["code"].as_str()), (413, Some("request_too_large")));
    let mut chunked = raw(
        &server,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    chunked.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    for _ in 0..3 {
        let _ = chunked.write_all(format!("400\r\n{}\r\n", "x".repeat(0x400)).as_bytes());
    }
    let read = chunked.read(&mut bytes).unwrap();
    assert!(String::from_utf8_lossy(&bytes[..read]).starts_with("HTTP/1.1 413"));
    let mut header = raw(
        &server,
        &format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "y".repeat(100_000)),
    );
    header.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // Refused with a status, or the connection is closed while it still sends.
    if let Ok(read @ 1..) = header.read(&mut bytes) {
        assert!(String::from_utf8_lossy(&bytes[..read]).starts_with("HTTP/1.1 431"));
    }
    drop(raw(&server, "\x16\x03\x01 nonsense\r\n\r\n"));
    assert_eq!(server.post("/v1/chat/completions", &short()).await.0, 200);
}

#[tokio::test]
async fn an_answer_that_takes_too_long_ends_with_a_word() {
    let mut limit = Duration::from_millis(60);
    let server = Running::with(Watched::slow(), |options| options.time_limit = limit);
    let (status, answer) = server.post("/v1/chat/completions", &forever(false)).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (504, Some("timeout")), "{answer}");
    server.idle().await;
    // A stream that has begun says it in its last message. How long it takes to begin is the machine's affair.
    loop {
        let server = Running::with(Watched::slow(), |options| options.time_limit = limit);
        let url = server.url("/v1/chat/completions");
        let response = reqwest::Client::new().post(url).json(&forever(true)).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        server.idle().await;
        if status == 200 {
            let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
            let last: Value = serde_json::from_str(last).unwrap();
            assert_eq!(last["error"]["code"], "timeout", "{text}");
            break;
        }
        assert!(status == 504 && text.contains("timeout"), "{status} {text}");
        limit *= 2;
    }
}

/// The bound of the queue is one of answers, and it is looked at before anything of them is made.
#[tokio::test]
async fn answers_take_places_and_give_them_back() {
    let server = Running::with(Watched::slow(), |options| (options.parallel, options.waiting) = (2, 8));
    let many = |n: u64| {
        let mut body = forever(true);
        body["n"] = n.into();
        body
    };
    let held = raw(&server, &post(&many(8).to_string()));
    server.until(|app| app.queue.taken() == 8).await;
    let (status, answer) = server.post("/v1/chat/completions", &many(3)).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (429, Some("rate_limit_exceeded")), "{answer}");
    for n in [11, 1 << 20, u64::from(u32::MAX)] {
        let (status, answer) = server.post("/v1/chat/completions", &many(n)).await;
        assert_eq!((status, answer["error"]["param"].as_str()), (400, Some("n")), "{answer}");
    }
    let other = raw(&server, &post(&many(2).to_string()));
    server.until(|app| app.queue.taken() == 10).await;
    drop((held, other));
    server.idle().await;
    // One that makes no sense gives its places back too.
    let mut wrong = many(10);
    wrong["tool_choice"] = "required".into();
    assert_eq!(server.post("/v1/chat/completions", &wrong).await.0, 400);
    server.idle().await;
}

#[tokio::test]
async fn a_million_prompts_are_refused_before_they_are_read() {
    let server = Running::start(|_| {});
    let prompts = vec!["a"; 1_000_000];
    let (status, answer) = server.post("/v1/completions", &json!({ "prompt": prompts })).await;
    assert_eq!((status, answer["error"]["param"].as_str()), (400, Some("prompt")), "{answer}");
    for (prompt, n, param) in [
        (json!(["a", "b"]), u32::MAX, "prompt"),
        (json!("a"), u32::MAX, "n"),
        (json!([[5], [6]]), 37, "prompt"),
    ] {
        let body = json!({ "prompt": prompt, "n": n });
        let (status, answer) = server.post("/v1/completions", &body).await;
        assert_eq!((status, answer["error"]["param"].as_str()), (400, Some(param)), "{answer}");
    }
    let (status, answer) = server.post("/v1/completions", &json!({ "prompt": [] })).await;
    assert_eq!((status, answer["error"]["param"].as_str()), (400, Some("prompt")), "{answer}");
    server.idle().await;
}

#[tokio::test]
async fn keys_hosts_and_origins_decide_who_may_ask() {
    let server = Running::start(|options| options.keys = vec!["one".into(), "two".into()]);
    let client = reqwest::Client::new();
    let ask = |key: Option<&str>| {
        let request = client.get(server.url("/v1/models"));
        match key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
        .send()
    };
    for (key, status) in
        [(None, 401), (Some("three"), 401), (Some("on"), 401), (Some("one"), 200), (Some("two"), 200)]
    {
        let response = ask(key).await.unwrap();
        assert_eq!(response.status(), status, "{key:?}");
        if status == 401 {
            assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], "invalid_api_key");
        }
    }
    for path in ["/health", "/", "/openapi.json"] {
        assert_eq!(client.get(server.url(path)).send().await.unwrap().status(), 200, "{path}");
    }
    assert_eq!(client.get(server.url("/metrics")).send().await.unwrap().status(), 401);

    let server = Running::start(|options| options.origins = vec!["https://friend.example".into()]);
    let with =
        |name: &'static str, value: &str| client.get(server.url("/v1/models")).header(name, value).send();
    assert_eq!(with("host", "evil.example").await.unwrap().status(), 403);
    assert_eq!(with("host", "localhost:99").await.unwrap().status(), 200);
    assert_eq!(with("origin", "https://evil.example").await.unwrap().status(), 403);
    let friend = with("origin", "https://friend.example").await.unwrap();
    assert_eq!(
        (friend.status().as_u16(), friend.headers()["access-control-allow-origin"].to_str().unwrap()),
        (200, "https://friend.example")
    );
    let own = format!("http://{}", server.address);
    let own = with("origin", &own).await.unwrap();
    assert!(own.status() == 200 && own.headers().get("access-control-allow-origin").is_none());
}

#[tokio::test]
async fn an_address_of_the_network_needs_a_key() {
    let mut options = rawloop_server::ServerOptions::new("tiny");
    options.address = "0.0.0.0:0".parse().unwrap();
    let refused = rawloop_server::Server::bind(options.clone(), support::tiny(), support::cpu(64));
    assert!(refused.err().unwrap().to_string().contains("--api-key"));
    options.keys = vec!["key".into()];
    assert!(rawloop_server::Server::bind(options, support::tiny(), support::cpu(64)).is_ok());
}

#[tokio::test]
async fn a_path_of_a_request_reaches_no_file() {
    let server = Running::start(|_| {});
    for path in [
        "/../Cargo.toml",
        "/..%2fCargo.toml",
        "/%2e%2e/Cargo.toml",
        "//etc/passwd",
        "/app/../../Cargo.toml",
        "/C:/x",
        "/.git/config",
    ] {
        let mut stream =
            raw(&server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    let page = reqwest::get(server.url("/")).await.unwrap();
    let headers = page.headers().clone();
    assert!(
        headers["content-security-policy"]
            .to_str()
            .unwrap()
            .starts_with("default-src 'none'; script-src 'self'")
    );
    let again = reqwest::Client::new()
        .get(server.url("/"))
        .header("if-none-match", &headers["etag"])
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), 304);
}

/// Told to end under load, it lets answers end that can, ends the others with a word, and leaves nobody in the dark.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_is_in_good_order() {
    for (grace, complete) in [(Duration::from_secs(60), true), (Duration::from_millis(1), false)] {
        // Of those that are not to end by themselves none does, whoever is faster.
        let backend = if complete { support::cpu(1024) } else { Watched::slow() };
        let mut server = Running::with(backend, |options| {
            (options.parallel, options.waiting, options.grace) = (4, 60, grace);
        });
        let url = server.url("/v1/chat/completions");
        let mut body = if complete { short() } else { forever(true) };
        body["stream"] = true.into();
        let mut streams = Vec::new();
        for _ in 0..8 {
            let (url, body) = (url.clone(), body.clone());
            streams.push(tokio::spawn(async move {
                let response = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
                (response.status().as_u16(), response.text().await)
            }));
        }
        // All of them are in.
        let all = |app: &App| {
            let (waiting, running) = app.queue.counts();
            waiting + running + app.metrics_answers() as usize >= 8
        };
        server.until(all).await;
        server.stop();
        for stream in streams {
            let (status, text) = stream.await.unwrap();
            let text = text.expect("a stream ends as a stream does");
            if complete {
                assert!(status == 200 && text.contains("[DONE]"), "{status} {text}");
            } else {
                assert!(matches!(status, 200 | 503) && text.contains("shut down"), "{status} {text}");
            }
        }
    }
}

/// An answer whose client reads nothing ends too: its stream is stuck behind a full socket, where nobody asks for the next event.
#[tokio::test]
async fn the_end_does_not_wait_for_a_client_that_does_not_read() {
    let mut server = Running::with(Watched::slow(), |options| {
        // It is in every message: a few hundred of them are more than the system keeps for a connection.
        options.name = "m".repeat(1 << 16);
        options.grace = Duration::from_millis(1);
    });
    let app = Arc::clone(&server.app);
    let mut body = forever(true);
    body["logprobs"] = true.into();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(1 << 12).unwrap();
    let stream = socket.connect(server.address).await.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    (&stream).write_all(post(&body.to_string()).as_bytes()).unwrap();
    server
        .until(|app| {
            let counters = app.core.batch.counters();
            counters.columns + counters.alone_tokens > 400
        })
        .await;
    server.stop();
    // The answer has a million tokens: it has been told to end.
    drop(server);
    assert_eq!((app.metrics_answers(), app.queue.taken()), (0, 0));
    drop(stream);
}

/// 64 clients at once, streaming; each gets what it would get alone, or an honest 429.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_get_their_own_answers() {
    let server = Arc::new(Running::start(|options| (options.parallel, options.waiting) = (8, 64)));
    let bodies: Arc<Vec<Value>> = Arc::new(
        ["Hello!", "What is 2 + 2?", "Name the capital of France.", "Write a word."]
            .iter()
            .flat_map(|text| {
                (0..2).map(move |kind| {
                    json!({ "messages": [{ "role": "system", "content": "You answer in one sentence. ".repeat(4) }, { "role": "user", "content": text }],
                        "max_completion_tokens": 24, "stream": true, "temperature": f64::from(kind), "seed": 7 })
                })
            })
            .collect(),
    );
    let mut expected = Vec::new();
    for body in bodies.iter() {
        expected.push(said(&server, body).await.unwrap());
    }
    let expected = Arc::new(expected);
    let rounds: usize = std::env::var("RAWLOOP_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    let clients = (0..64usize).map(|number| {
        let (server, bodies, expected) = (Arc::clone(&server), Arc::clone(&bodies), Arc::clone(&expected));
        tokio::spawn(async move {
            for round in 0..rounds {
                let which = (number + round) % bodies.len();
                match said(&server, &bodies[which]).await {
                    Ok(text) => assert_eq!(text, expected[which]),
                    Err(status) => assert_eq!(status, 429),
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    server.idle().await;
    assert!(server.app.core.batch.counters().pieces > 0);
}

/// What a stream says; the status where there is none.
async fn said(server: &Running, body: &Value) -> Result<String, u16> {
    let response =
        reqwest::Client::new().post(server.url("/v1/chat/completions")).json(body).send().await.unwrap();
    if response.status() != 200 {
        return Err(response.status().as_u16());
    }
    let mut bytes = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.trim_end().ends_with("data: [DONE]"), "{text}");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")?.strip_prefix('{'));
    let chunks = data.map(|data| serde_json::from_str::<Value>(&format!("{{{data}")).unwrap());
    Ok(chunks
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect())
}

#[tokio::test]
async fn a_conversation_reuses_its_cache() {
    let server = Running::start(|_| {});
    let system =
        "You are a helpful assistant who answers in one short sentence and knows a lot about birds. "
            .repeat(2);
    let mut messages =
        json!([{ "role": "system", "content": system }, { "role": "user", "content": "Hello!" }]);
    let ask =
        |messages: &Value| json!({ "messages": messages, "max_completion_tokens": 16, "temperature": 0 });
    let (_, first) = server.post("/v1/chat/completions", &ask(&messages)).await;
    assert_eq!(first["rawloop"]["reused_tokens"], 0, "{first}");
    let list = messages.as_array_mut().unwrap();
    list.push(first["choices"][0]["message"].clone());
    list.push(json!({ "role": "user", "content": "And now?" }));
    let (_, second) = server.post("/v1/chat/completions", &ask(&messages)).await;
    let reused = second["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(reused + 1 >= first["usage"]["prompt_tokens"].as_u64().unwrap(), "{second}");
    // Another conversation with the same instructions.
    let other =
        json!([{ "role": "system", "content": system }, { "role": "user", "content": "Something else." }]);
    let (_, other) = server.post("/v1/chat/completions", &ask(&other)).await;
    assert!(other["rawloop"]["reused_tokens"].as_u64().unwrap() > 20, "{other}");
    let metrics = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
    for line in metrics.lines() {
        assert!(line.starts_with("# ") || line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok(), "{line}");
    }
    assert!(metrics.contains("rawloop_answers_total 3\n"), "{metrics}");
}

/// Splitmix64.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) as usize
}

/// Puts something else at a random place of a value.
fn spoil(value: &mut Value, state: &mut u64) {
    let others = [
        json!(null),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("\u{0}<|turn>"),
        json!([]),
        json!({}),
        json!(true),
        json!([[[]]]),
        json!(0),
        json!("x".repeat(300)),
        json!({ "type": "object", "$ref": "#" }),
        json!(18_446_744_073_709_551_615_u64),
    ];
    match value {
        Value::Object(fields) if !fields.is_empty() && !random(state).is_multiple_of(4) => {
            let which = random(state) % fields.len();
            if let Some((_, value)) = fields.iter_mut().nth(which) {
                spoil(value, state);
            }
        }
        Value::Array(items) if !items.is_empty() && !random(state).is_multiple_of(4) => {
            let which = random(state) % items.len();
            spoil(&mut items[which], state);
        }
        value => *value = others[random(state) % others.len()].clone(),
    }
}

/// A thousand requests that are wrong somewhere: each is answered or refused in words, and none is the server's fault.
#[tokio::test]
async fn a_thousand_wrong_requests_get_answers_in_words() {
    let server = Running::start(|options| options.max_tokens = 4);
    let client = reqwest::Client::new();
    let messages = json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": [{ "type": "text", "text": "Hello!" }] },
        { "role": "assistant", "content": null, "tool_calls": [{ "id": "a", "type": "function", "function": { "name": "f", "arguments": "{\"x\": 1}" } }] },
        { "role": "tool", "tool_call_id": "a", "content": "2" }]);
    let tools = json!([{ "type": "function", "function": { "name": "f", "description": "d", "parameters": { "type": "object",
        "properties": { "x": { "type": "integer" } }, "required": ["x"] } } }]);
    let chat = json!({ "model": "tiny", "messages": messages, "tools": tools, "tool_choice": "auto", "max_completion_tokens": 3, "n": 1,
        "temperature": 0.5, "top_p": 0.9, "stop": ["a", "b"], "logprobs": true, "top_logprobs": 2, "seed": 1, "logit_bias": { "5": 1 },
        "stream": false, "stream_options": { "include_usage": true }, "response_format": { "type": "json_schema",
        "json_schema": { "name": "n", "schema": { "type": "object", "properties": { "a": { "enum": [1, 2] } } } } },
        "reasoning_effort": "none", "chat_template_kwargs": { "enable_thinking": false } });
    let text = json!({ "prompt": ["a", "b"], "max_tokens": 2, "echo": true, "logprobs": 1, "suffix": null, "n": 1, "stop": "x" });
    let ollama = json!({ "model": "tiny", "messages": [{ "role": "user", "content": "x", "images": [] }], "stream": false,
        "options": { "num_predict": 2, "stop": ["x"], "temperature": 0 }, "format": "json", "think": false });
    let response = json!({ "input": [{ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "x" }] },
        { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" }, { "type": "function_call_output", "call_id": "c", "output": "1" }],
        "max_output_tokens": 2, "text": { "format": { "type": "text" } }, "tools": [{ "type": "function", "name": "f", "parameters": {} }] });
    let paths = [
        ("/v1/chat/completions", chat),
        ("/v1/completions", text),
        ("/api/chat", ollama),
        ("/v1/responses", response),
    ];
    let mut state = 1;
    let mut refused = 0;
    for number in 0..1000 {
        let (path, body) = &paths[number % paths.len()];
        let mut body = body.clone();
        for _ in 0..=random(&mut state) % 2 {
            spoil(&mut body, &mut state);
        }
        let mut bytes = body.to_string().into_bytes();
        match number % 10 {
            0 => bytes.truncate(random(&mut state) % bytes.len()),
            1 => {
                let place = random(&mut state) % bytes.len();
                bytes[place] = random(&mut state) as u8;
            }
            _ => {}
        }
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let answer = client.post(server.url(path)).body(bytes).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        assert!(
            (200..300).contains(&status) || (400..500).contains(&status),
            "{number} {path} {shown}: {status} {text}"
        );
        assert!(text.len() > 10, "{number} {path} {shown}: {status} {text:?}");
        refused += usize::from(status >= 400);
    }
    assert!((200..1000).contains(&refused), "{refused}");
    server.idle().await;
}
