//! Load: clients that stream chats from a server, and what they see.
//!
//! ```text
//! cargo run --release -p rawloop-server --example load -- --pack models/tiny/tiny.rlp --clients 8 --seconds 20
//! cargo run --release -p rawloop-server --example load -- --url http://127.0.0.1:8080 --clients 64 --seconds 600
//! ```
//!
//! With `--pack` the server is part of this process, on two threads; else it is the one at `--url`.
//!
//! Each client asks one question after the other and checks that every answer to a question is the same. Prints one JSON object:
//! tokens a second over all clients, the time between two pieces of text (median, 99 of 100, longest), the time to the first one,
//! errors, and the memory of the server at the beginning and at the end where it tells.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::{Draft, Model};
use rawloop_pack::Pack;
use rawloop_server::{Server, ServerOptions};
use serde_json::{Value, json};

#[derive(Clone)]
struct Settings {
    url: String,
    clients: usize,
    seconds: f64,
    tokens: usize,
    words: usize,
    pack: Option<PathBuf>,
    draft: Draft,
    temperature: f64,
}

#[derive(Default)]
struct Seen {
    tokens: usize,
    answers: usize,
    refused: usize,
    errors: Vec<String>,
    first: Vec<f64>,
    between: Vec<f64>,
    texts: HashMap<usize, String>,
    memory: Vec<u64>,
}

fn settings() -> Result<Settings, String> {
    let mut settings = Settings {
        url: "http://127.0.0.1:8080".into(),
        clients: 8,
        seconds: 10.0,
        tokens: 64,
        words: 12,
        pack: None,
        draft: Draft::Auto,
        temperature: 0.0,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number = || value.parse::<f64>().map_err(|_| format!("{flag} {value}: a number is expected"));
        match flag.as_str() {
            "--pack" => settings.pack = Some(value.into()),
            "--draft" => settings.draft = if value == "off" { Draft::Off } else { Draft::Auto },
            "--url" => settings.url.clone_from(&value),
            "--clients" => settings.clients = number()? as usize,
            "--seconds" => settings.seconds = number()?,
            "--temperature" => settings.temperature = number()?,
            "--tokens" => settings.tokens = number()? as usize,
            "--words" => settings.words = number()? as usize,
            _ => {
                return Err(format!(
                    "{flag}: --pack, --url, --clients, --seconds, --tokens, --words, --temperature or --draft is expected"
                ));
            }
        }
    }
    Ok(settings)
}

#[tokio::main]
async fn main() -> Result<(), String> {
    let mut settings = settings()?;
    let mut server = None;
    if let Some(pack) = &settings.pack {
        let started = serve(pack, &settings).map_err(|error| error.to_string())?;
        settings.url = format!("http://{}", started.address().map_err(|error| error.to_string())?);
        server = Some(Arc::clone(started.app()));
        tokio::spawn(started.run(std::future::pending()));
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(settings.seconds);
    let clients: Vec<_> = (0..settings.clients)
        .map(|number| tokio::spawn(client(number, settings.clone(), end, Arc::clone(&seen))))
        .collect();
    for client in clients {
        client.await.map_err(|error| error.to_string())?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let mut seen = seen.lock().map_err(|error| error.to_string())?;
    let (first, between) = (spread(&mut seen.first), spread(&mut seen.between));
    // Of a server in this process: sequences a step, and what its thread did with the time.
    let batch = server.map(|app| {
        let counters = app.core.batch.counters();
        json!({
            "steps": counters.steps,
            "sequences_per_step": counters.pieces as f64 / counters.steps.max(1) as f64,
            "alone_tokens": counters.alone_tokens,
            "busy_share": counters.busy_micros as f64 / 1e6 / seconds,
            "gather_share": counters.gather_micros as f64 / 1e6 / seconds,
        })
    });
    let report = json!({
        "batch": batch,
        "clients": settings.clients,
        "seconds": seconds,
        "answers": seen.answers,
        "tokens": seen.tokens,
        "tokens_per_second": seen.tokens as f64 / seconds,
        "ms_to_first_text": first,
        "ms_between_texts": between,
        "refused_429": seen.refused,
        "errors": seen.errors,
        "memory_bytes_first_last": [seen.memory.first(), seen.memory.last()],
    });
    println!("{}", serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?);
    if seen.errors.is_empty() { Ok(()) } else { Err("there were errors".into()) }
}

/// A server in this process.
fn serve(pack: &Path, settings: &Settings) -> Result<Server, Box<dyn std::error::Error>> {
    let model = Arc::new(Model::open(Arc::new(Pack::open(pack)?))?);
    let cpu = CpuOptions { threads: Some(2), context: 2048, ..CpuOptions::default() };
    let backend = CpuBackend::open(Arc::clone(model.pack()), &cpu)?;
    let mut options = ServerOptions::new("load");
    options.address.set_port(0);
    options.draft = settings.draft;
    Ok(Server::bind(options, model, Box::new(backend))?)
}

async fn client(number: usize, settings: Settings, end: Instant, seen: Arc<Mutex<Seen>>) {
    let client = reqwest::Client::new();
    let mut round = 0;
    while Instant::now() < end {
        // A few questions, each of them asked by several clients.
        let question = (number + round) % 16;
        round += 1;
        if let Err(error) = ask(&client, question, &settings, &seen).await
            && let Ok(mut seen) = seen.lock()
        {
            seen.errors.push(error);
        }
    }
}

/// One question.
async fn ask(
    client: &reqwest::Client,
    question: usize,
    settings: &Settings,
    seen: &Mutex<Seen>,
) -> Result<(), String> {
    let words = "Tell me about birds and rivers in one long story ".repeat(settings.words.div_ceil(10));
    let body = json!({
        "messages": [{ "role": "user", "content": format!("{question}. {words}") }],
        "max_completion_tokens": settings.tokens,
        "stream": true,
        "stream_options": { "include_usage": true },
        "temperature": settings.temperature,
        "seed": question,
    });
    let started = Instant::now();
    let url = format!("{}/v1/chat/completions", settings.url);
    let response = client.post(url).json(&body).send().await.map_err(|error| error.to_string())?;
    if response.status() == 429 {
        seen.lock().map_err(|error| error.to_string())?.refused += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
        return Ok(());
    }
    let (mut text, mut rest, mut times) = (String::new(), Vec::new(), Vec::new());
    let mut last = None;
    let mut stream = response.bytes_stream();
    while let Some(bytes) = stream.next().await {
        rest.extend_from_slice(&bytes.map_err(|error| error.to_string())?);
        while let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=at).collect();
            let Some(data) = line.strip_prefix(b"data: ") else { continue };
            let Ok(value) = serde_json::from_slice::<Value>(data) else { continue };
            if let Some(piece) =
                value["choices"][0]["delta"]["content"].as_str().filter(|piece| !piece.is_empty())
            {
                text.push_str(piece);
                times.push(started.elapsed().as_secs_f64());
            }
            if value["usage"].is_object() || value["error"].is_object() {
                last = Some(value);
            }
        }
    }
    let last = last.ok_or("a stream ended without usage")?;
    let tokens = last["usage"]["completion_tokens"].as_u64().ok_or_else(|| last.to_string())? as usize;
    let mut seen = seen.lock().map_err(|error| error.to_string())?;
    seen.answers += 1;
    seen.tokens += tokens;
    seen.first.extend(times.first().map(|seconds| seconds * 1e3));
    seen.between.extend(times.windows(2).map(|pair| (pair[1] - pair[0]) * 1e3));
    seen.memory.extend(last["rawloop"]["memory_bytes"].as_u64());
    if seen.texts.entry(question).or_insert_with(|| text.clone()) != &text {
        return Err(format!("question {question} has two answers"));
    }
    Ok(())
}

fn spread(values: &mut [f64]) -> Value {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        values
            .get(((values.len() as f64 - 1.0) * share) as usize)
            .map(|value| (value * 100.0).round() / 100.0)
    };
    json!({ "median": at(0.5), "p99": at(0.99), "longest": at(1.0) })
}
