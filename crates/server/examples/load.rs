//! Load: clients that stream chats from a server, and what they see.
//!
//! ```text
//! cargo run --release -p rawloop-server --example load -- --pack models/tiny/tiny.rlp --clients 64 --seconds 600
//! cargo run --release -p rawloop-server --example load -- --url http://127.0.0.1:8080 --clients 8 --seconds 20
//! ```
//!
//! With `--pack` the server is part of this process, on two threads; else it is the one at `--url`.
//!
//! Every question is first asked alone. Then each client asks one question after the other, and every answer has to be the one that
//! was had alone. Says on the way how it goes, and prints one JSON object at the end: tokens a second over all clients, the
//! time between two pieces of text (median, 99 of 100, longest) and to the first one, refusals, errors, what the server's
//! thread did, processor time and changes of threads for each token, and memory at up to 30 moments. What is measured
//! is counted in tables of a fixed size, so that memory that grows is the server's.
//!
//! Ends with an error where an answer differs, a request fails in another way than `429`, or memory is not flat: where the last third of
//! the time needs a fiftieth more than the one before. (The first one fills caches and touches the pack's pages; runs of less than a minute are
//! not judged.)

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::{Draft, Model};
use rawloop_pack::Pack;
use rawloop_server::http::App;
use rawloop_server::{Server, ServerOptions};
use serde_json::{Value, json};

/// Questions, each of them asked by several clients.
const QUESTIONS: usize = 16;
/// Moments at which memory is looked at.
const MOMENTS: u32 = 30;
/// Errors that are kept.
const KEPT: usize = 10;

#[derive(Clone)]
struct Settings {
    url: String,
    clients: usize,
    seconds: f64,
    tokens: usize,
    words: usize,
    parallel: usize,
    pack: Option<PathBuf>,
    draft: Draft,
    temperature: f64,
}

/// Times in a table of a fixed size, in steps of 3 of 100.
struct Spread {
    counts: Vec<u64>,
    longest: f64,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { counts: vec![0; 1024], longest: 0.0 }
    }
}

impl Spread {
    /// The first five bits of the fraction make 32 places of every power of two microseconds.
    fn add(&mut self, seconds: f64) {
        let place = ((seconds * 1e6).max(1.0) as f32).to_bits() >> 18;
        let place = (place - (1_f32.to_bits() >> 18)) as usize;
        self.counts[place.min(1023)] += 1;
        self.longest = self.longest.max(seconds);
    }

    /// Milliseconds within which so large a share was.
    fn within(&self, share: f64) -> f64 {
        let all: u64 = self.counts.iter().sum();
        let mut left = (all as f64 * share) as u64;
        let place = self.counts.iter().position(|&count| {
            let here = left < count;
            left = left.saturating_sub(count);
            here
        });
        let bits = (place.unwrap_or(0) as u32 + 1 + (1_f32.to_bits() >> 18)) << 18;
        f64::from(f32::from_bits(bits)) / 1e3
    }

    fn report(&self) -> Value {
        let round = |milliseconds: f64| (milliseconds * 100.0).round() / 100.0;
        json!({ "median": round(self.within(0.5)), "p99": round(self.within(0.99)), "longest": round(self.longest * 1e3) })
    }
}

#[derive(Default)]
struct Seen {
    tokens: usize,
    answers: usize,
    refused: usize,
    failed: usize,
    errors: Vec<String>,
    first: Spread,
    between: Spread,
    /// What the server said of its memory last.
    memory: Option<u64>,
}

fn settings() -> Result<Settings, String> {
    let mut settings = Settings {
        url: "http://127.0.0.1:8080".into(),
        clients: 8,
        seconds: 10.0,
        tokens: 64,
        words: 12,
        parallel: 8,
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
            "--parallel" => settings.parallel = number()? as usize,
            _ => {
                return Err(format!(
                    "{flag}: --pack, --url, --clients, --seconds, --tokens, --words, --parallel, --temperature or --draft is expected"
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
    let alone = Arc::new(Mutex::new(Seen::default()));
    let mut expected = Vec::new();
    for question in 0..QUESTIONS {
        let said = ask(&reqwest::Client::new(), question, &settings, &alone).await?;
        expected.push(said.ok_or("the server is busy with others: an answer alone cannot be had")?);
    }
    let expected = Arc::new(expected);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (started, used) = (Instant::now(), Used::now());
    let end = started + Duration::from_secs_f64(settings.seconds);
    let clients: Vec<_> = (0..settings.clients)
        .map(|number| {
            let (settings, expected, seen) = (settings.clone(), Arc::clone(&expected), Arc::clone(&seen));
            tokio::spawn(client(number, settings, expected, end, seen))
        })
        .collect();
    let memory = watch(&settings, server.as_deref(), &seen, started).await?;
    for client in clients {
        client.await.map_err(|error| error.to_string())?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let seen = seen.lock().map_err(|error| error.to_string())?;
    // Of a server in this process: sequences a step, and what its thread did with the time.
    let batch = server.as_ref().map(|app| {
        let counters = app.core.batch.counters();
        json!({
            "steps": counters.steps,
            "sequences_per_step": counters.pieces as f64 / counters.steps.max(1) as f64,
            "alone_tokens": counters.alone_tokens,
            "busy_share": counters.busy_micros as f64 / 1e6 / seconds,
            "gather_share": counters.gather_micros as f64 / 1e6 / seconds,
        })
    });
    let highest = |third: u32| {
        let within = memory.iter().filter(|moment| moment.third == third);
        within.map(|moment| moment.bytes).max().unwrap_or(0)
    };
    let (before, after) = (highest(1), highest(2));
    let flat = (settings.seconds >= 60.0).then_some(after as f64 <= before as f64 * 1.02);
    let report = json!({
        "batch": batch,
        "clients": settings.clients,
        "parallel": settings.parallel,
        "seconds": seconds,
        "answers": seen.answers,
        "tokens": seen.tokens,
        "tokens_per_second": seen.tokens as f64 / seconds,
        "ms_to_first_text": seen.first.report(),
        "ms_between_texts": seen.between.report(),
        "refused_429": seen.refused,
        "failed": seen.failed,
        "errors": seen.errors,
        "per_token": used.since(seen.tokens),
        "memory": {
            "highest_of_each_third": [highest(0), before, after],
            "flat": flat,
            "moments": memory.iter().map(Moment::report).collect::<Vec<_>>(),
        },
    });
    println!("{}", serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?);
    match (seen.failed, flat) {
        (0, None | Some(true)) => Ok(()),
        (0, Some(false)) => Err(format!("memory grew from {before} to {after} bytes")),
        (failed, _) => Err(format!("{failed} requests failed or had another answer than alone")),
    }
}

/// Memory at a moment.
struct Moment {
    seconds: f64,
    /// Which third of the time it is in.
    third: u32,
    /// Resident bytes, and those of them that are no part of a file.
    bytes: u64,
    own: Option<u64>,
    /// What waits in the pool of a server in this process: sequences and bytes.
    pool: Option<(usize, usize)>,
}

impl Moment {
    fn report(&self) -> Value {
        json!({ "seconds": (self.seconds * 10.0).round() / 10.0, "bytes": self.bytes, "own_bytes": self.own, "pool": self.pool })
    }
}

/// Looks at memory, and says how it goes.
async fn watch(
    settings: &Settings,
    server: Option<&App>,
    seen: &Mutex<Seen>,
    started: Instant,
) -> Result<Vec<Moment>, String> {
    let step = Duration::from_secs_f64(settings.seconds) / MOMENTS;
    let mut memory = Vec::new();
    for moment in 1..=MOMENTS {
        tokio::time::sleep_until((started + step * moment).into()).await;
        let pool = server.map(|app| app.core.pool.lock().summary());
        let seconds = started.elapsed().as_secs_f64();
        let (tokens, answers, failed, told) = {
            let seen = seen.lock().map_err(|error| error.to_string())?;
            (seen.tokens, seen.answers, seen.failed, seen.memory)
        };
        let here = server.is_some();
        let Some(bytes) = (if here { resident("VmRSS:") } else { told }) else { continue };
        let own = if here { resident("RssAnon:") } else { None };
        let pool = pool.map(|pool| (pool.sequences, pool.bytes));
        memory.push(Moment { seconds, third: (moment - 1) * 3 / MOMENTS, bytes, own, pool });
        eprintln!(
            "{seconds:6.1} s: {answers} answers, {:.0} tokens/s, {failed} wrong, {:.1} MB",
            tokens as f64 / seconds,
            bytes as f64 / 1e6
        );
    }
    Ok(memory)
}

/// Bytes of memory in use, by the name of a line of the system's, where it has such a line.
fn resident(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(1024 * line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?)
}

/// Processor time and changes of threads of this process, server and clients together, where the system says.
#[derive(Default)]
struct Used {
    user: u64,
    system: u64,
    /// Threads that went to sleep.
    sleeps: u64,
}

impl Used {
    fn now() -> Used {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // Behind the name, which may hold anything.
        let fields: Vec<u64> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let mut used = Used::default();
        (used.user, used.system) =
            (fields.get(11).copied().unwrap_or(0), fields.get(12).copied().unwrap_or(0));
        for thread in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            used.sleeps += line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        used
    }

    /// For each of so many tokens. The system counts time in hundredths of a second.
    fn since(&self, tokens: usize) -> Value {
        let (now, tokens) = (Used::now(), tokens.max(1) as f64);
        json!({
            "user_micros": (now.user - self.user) as f64 * 1e4 / tokens,
            "system_micros": (now.system - self.system) as f64 * 1e4 / tokens,
            "sleeps": now.sleeps.saturating_sub(self.sleeps) as f64 / tokens,
        })
    }
}

/// A server in this process.
fn serve(pack: &Path, settings: &Settings) -> Result<Server, Box<dyn std::error::Error>> {
    let model = Arc::new(Model::open(Arc::new(Pack::open(pack)?))?);
    let cpu = CpuOptions { threads: Some(2), context: 2048, ..CpuOptions::default() };
    let backend = CpuBackend::open(Arc::clone(model.pack()), &cpu)?;
    let mut options = ServerOptions::new("load");
    options.address.set_port(0);
    options.draft = settings.draft;
    options.parallel = settings.parallel;
    Ok(Server::bind(options, model, Box::new(backend))?)
}

async fn client(
    number: usize,
    settings: Settings,
    expected: Arc<Vec<String>>,
    end: Instant,
    seen: Arc<Mutex<Seen>>,
) {
    let client = reqwest::Client::new();
    let mut round = 0;
    while Instant::now() < end {
        let question = (number + round) % QUESTIONS;
        round += 1;
        let problem = match ask(&client, question, &settings, &seen).await {
            Ok(Some(text)) if text != expected[question] => {
                format!("question {question} has another answer than alone")
            }
            Ok(_) => continue,
            Err(error) => error,
        };
        if let Ok(mut seen) = seen.lock() {
            seen.failed += 1;
            if seen.errors.len() < KEPT {
                seen.errors.push(problem);
            }
        }
    }
}

/// Asks one question. Nothing where the server has no room.
async fn ask(
    client: &reqwest::Client,
    question: usize,
    settings: &Settings,
    seen: &Mutex<Seen>,
) -> Result<Option<String>, String> {
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
        return Ok(None);
    }
    let (mut text, mut rest) = (String::new(), Vec::new());
    let (mut last, mut before) = (None, None);
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
                let (now, mut seen) = (Instant::now(), seen.lock().map_err(|error| error.to_string())?);
                match before.replace(now) {
                    None => seen.first.add((now - started).as_secs_f64()),
                    Some(before) => seen.between.add((now - before).as_secs_f64()),
                }
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
    seen.memory = last["rawloop"]["memory_bytes"].as_u64();
    Ok(Some(text))
}
