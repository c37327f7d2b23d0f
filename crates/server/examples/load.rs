//! Load: clients that stream chats from a server, and what they see.
//!
//! ```text
//! cargo run --release -p rawloop-server --example load -- --pack models/tiny/tiny.rlp --clients 64 --seconds 600 --cache 4
//! cargo run --release -p rawloop-server --example load -- --url http://127.0.0.1:8080 --clients 8 --seconds 20
//! ```
//!
//! With `--pack` the server is a process of its own, started with this program and ended with it; else it is the one at `--url`.
//!
//! Every question is first asked alone. Then each client asks one question after the other, and every answer has to be the one that
//! was had alone. Says on the way how it goes, and prints one JSON object at the end: tokens a second over all clients, the
//! time between two pieces of text (median, 99 of 100, longest) and to the first one, refusals, errors, what the server's
//! thread did, processor time and changes of threads of server and clients for each token, and the server's memory at up to 120 moments.
//!
//! Ends with an error where an answer differs, a request fails in another way than `429`, or memory is not flat ([`judge`]).

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::{Draft, Model};
use rawloop_pack::Pack;
use rawloop_server::{Server, ServerOptions};
use serde_json::{Value, json};

/// Questions, each of them asked by several clients.
const QUESTIONS: usize = 16;
/// Moments at which memory is looked at.
const MOMENTS: u32 = 120;
/// Errors that are kept.
const KEPT: usize = 10;
/// Moments in a third of what memory is judged by, at least.
const LEAST: usize = 8;
/// Seconds behind the first cache that was given up in which memory is not judged: the server's twenty threads have heaps and freed blocks of their
/// own in the system's allocator, which fill up to what each has needed at its busiest, most of it within a minute.
const SETTLING: f64 = 60.0;
/// Bytes for each answer by which memory may grow: an allocation takes 32 at least, so one that is lost with each answer is twice too much.
const PER_ANSWER: u64 = 16;
/// The share of all memory by which it may grow in any case: heaps that are still filling up, which shorter runs cannot tell from what is lost.
const SHARE: f64 = 0.02;
/// What a client waits after its first failure in a row, and at most after a later one, each twice as long as the one before.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];
/// Makes this program the server.
const SERVES: &str = "--serves";

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
    cache: Option<usize>,
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

fn settings_of(mut arguments: impl Iterator<Item = String>) -> Result<Settings, String> {
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
        cache: None,
    };
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
            SERVES => {}
            "--cache" => settings.cache = Some((number()? * 1e6) as usize),
            _ => {
                return Err(format!(
                    "{flag}: --pack, --url, --clients, --seconds, --tokens, --words, --parallel, --cache, --temperature or --draft is expected"
                ));
            }
        }
    }
    Ok(settings)
}

fn main() -> Result<(), String> {
    let settings = settings_of(std::env::args().skip(1))?;
    match std::env::args().any(|argument| argument == SERVES) {
        true => serve(&settings).map_err(|error| error.to_string()),
        false => load(settings),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn load(mut settings: Settings) -> Result<(), String> {
    let server = settings.pack.is_some().then(Started::new).transpose().map_err(|error| error.to_string())?;
    if let Some(server) = &server {
        settings.url.clone_from(&server.url);
    }
    let server = server.as_ref().map(|server| server.process.id());
    let alone = Arc::new(Mutex::new(Seen::default()));
    let mut expected = Vec::new();
    for question in 0..QUESTIONS {
        let said = ask(&reqwest::Client::new(), question, &settings, &alone).await?;
        expected.push(said.ok_or("the server is busy with others: an answer alone cannot be had")?);
    }
    let expected = Arc::new(expected);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let before = numbers(&settings.url).await?;
    let (started, used) = (Instant::now(), [server, Some(std::process::id())].map(Used::now));
    let end = started + Duration::from_secs_f64(settings.seconds);
    let clients: Vec<_> = (0..settings.clients)
        .map(|number| {
            let (settings, expected, seen) = (settings.clone(), Arc::clone(&expected), Arc::clone(&seen));
            tokio::spawn(client(number, settings, expected, end, seen))
        })
        .collect();
    let (memory, missed) = watch(&settings, server, &seen, started).await?;
    for client in clients {
        client.await.map_err(|error| error.to_string())?;
    }
    let seconds = started.elapsed().as_secs_f64();
    // A server that has gone says nothing more; what was seen of it is reported all the same.
    let since = numbers(&settings.url).await.ok().map(|numbers| numbers.since(&before));
    let seen = seen.lock().map_err(|error| error.to_string())?;
    let flat = judge(&memory);
    let [server, clients] = used.map(|used| used.map(|used| used.since(seen.tokens)));
    let batch = since.map(|since| {
        json!({
            "steps": since.of("steps_total"),
            "sequences_per_step": since.of("step_sequences_total") / since.of("steps_total").max(1.0),
            "alone_tokens": since.of("alone_tokens_total"),
            "busy_share": since.of("busy_seconds_total") / seconds,
            "gather_share": since.of("gather_seconds_total") / seconds,
        })
    });
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
        "per_token": { "server": server, "clients": clients },
        "memory": {
            "moments_missed": missed,
            "judged": flat.as_ref().map(Flat::report),
            "moments": memory.iter().map(Moment::report).collect::<Vec<_>>(),
        },
    });
    println!("{}", serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?);
    if seen.failed > 0 {
        return Err(format!("{} requests failed or had another answer than alone", seen.failed));
    }
    match flat {
        Some(flat) if !flat.holds() => Err(format!("memory is not flat: {}", flat.report())),
        Some(_) => Ok(()),
        None => {
            eprintln!(
                "memory is not judged: the caches have not been full for long enough (--cache, --seconds)"
            );
            Ok(())
        }
    }
}

/// Memory at a moment.
struct Moment {
    seconds: f64,
    /// Answers so far.
    answers: usize,
    /// Resident bytes of the server, and those of them that are no part of a file.
    bytes: u64,
    own: Option<u64>,
    /// What waits in the caches, and how many were given up for room.
    sequences: f64,
    cached: f64,
    evicted: f64,
}

impl Moment {
    fn report(&self) -> Value {
        json!({
            "seconds": (self.seconds * 10.0).round() / 10.0,
            "bytes": self.bytes,
            "own_bytes": self.own,
            "pool": [self.sequences, self.cached],
        })
    }
}

/// The server's memory once its caches are full.
struct Flat {
    /// From when on.
    since: f64,
    /// Medians of the first and of the last third of the moments.
    first: u64,
    last: u64,
    /// Answers between the middles of these thirds.
    answers: usize,
    /// By how much memory may have grown meanwhile.
    tolerance: u64,
}

impl Flat {
    fn holds(&self) -> bool {
        self.last <= self.first + self.tolerance
    }

    fn report(&self) -> Value {
        json!({
            "since_seconds": self.since,
            "median_of_first_third": self.first,
            "median_of_last_third": self.last,
            "answers_between": self.answers,
            "tolerance": self.tolerance,
            "flat": self.holds(),
        })
    }
}

/// Whether memory stays where it is. Caches grow to their budget and are meant to: what comes before the first of them was given up for room
/// is not looked at, nor is [`SETTLING`] behind it. Medians, because what runs at a moment is in memory too.
fn judge(memory: &[Moment]) -> Option<Flat> {
    let full = memory.iter().find(|moment| moment.evicted > 0.0)?.seconds;
    let judged: Vec<&Moment> = memory.iter().filter(|moment| moment.seconds >= full + SETTLING).collect();
    let third = judged.len() / 3;
    if third < LEAST {
        return None;
    }
    let median = |moments: &[&Moment]| {
        let mut bytes: Vec<u64> = moments.iter().map(|moment| moment.bytes).collect();
        bytes.sort_unstable();
        (bytes[third / 2], moments[third / 2].answers)
    };
    let ((first, before), (last, after)) =
        (median(&judged[..third]), median(&judged[judged.len() - third..]));
    let answers = after - before;
    let tolerance = (PER_ANSWER * answers as u64).max((SHARE * first as f64) as u64);
    Some(Flat { since: judged[0].seconds.round(), answers, first, last, tolerance })
}

/// What `/metrics` says.
struct Numbers(Vec<(String, f64)>);

impl Numbers {
    fn of(&self, name: &str) -> f64 {
        let found = self.0.iter().find(|(other, _)| other.strip_prefix("rawloop_") == Some(name));
        found.map_or(0.0, |(_, value)| *value)
    }

    fn since(&self, before: &Numbers) -> Numbers {
        let grown = |(name, value): &(String, f64)| {
            let name = name.strip_prefix("rawloop_").unwrap_or(name);
            (format!("rawloop_{name}"), value - before.of(name))
        };
        Numbers(self.0.iter().map(grown).collect())
    }
}

async fn numbers(url: &str) -> Result<Numbers, String> {
    let text = async { reqwest::get(format!("{url}/metrics")).await?.text().await };
    let text = text.await.map_err(|error| error.to_string())?;
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Ok(Numbers(text.lines().filter_map(line).collect()))
}

/// Looks at memory, and says how it goes. Also at how many moments the server said nothing.
async fn watch(
    settings: &Settings,
    server: Option<u32>,
    seen: &Mutex<Seen>,
    started: Instant,
) -> Result<(Vec<Moment>, usize), String> {
    let step = Duration::from_secs_f64(settings.seconds) / MOMENTS;
    let (mut memory, mut missed) = (Vec::new(), 0);
    for moment in 1..=MOMENTS {
        tokio::time::sleep_until((started + step * moment).into()).await;
        let Ok(pool) = numbers(&settings.url).await else {
            missed += 1;
            continue;
        };
        let seconds = started.elapsed().as_secs_f64();
        let (tokens, answers, failed, told) = {
            let seen = seen.lock().map_err(|error| error.to_string())?;
            (seen.tokens, seen.answers, seen.failed, seen.memory)
        };
        let Some(bytes) = server.map_or(told, |server| resident(server, "VmRSS:")) else { continue };
        memory.push(Moment {
            seconds,
            answers,
            bytes,
            own: server.and_then(|server| resident(server, "RssAnon:")),
            sequences: pool.of("cache_sequences"),
            cached: pool.of("cache_bytes"),
            evicted: pool.of("cache_evictions_total"),
        });
        if moment % 4 == 0 {
            eprintln!(
                "{seconds:6.1} s: {answers} answers, {:.0} tokens/s, {failed} wrong, {:.1} MB",
                tokens as f64 / seconds,
                bytes as f64 / 1e6
            );
        }
    }
    Ok((memory, missed))
}

/// Bytes of memory that a process uses, by the name of a line of the system's, where it has such a line.
fn resident(process: u32, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(1024 * line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?)
}

/// Processor time and changes of threads of a process, where the system says.
struct Used {
    process: u32,
    user: u64,
    system: u64,
    /// Threads that went to sleep.
    sleeps: u64,
}

impl Used {
    fn now(process: Option<u32>) -> Option<Used> {
        let process = process?;
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // Behind the name, which may hold anything.
        let behind = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let fields: Vec<u64> = behind.map(|field| field.parse().unwrap_or(0)).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        let mut used = Used { process, user: field(11), system: field(12), sleeps: 0 };
        let threads = std::fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            used.sleeps += line.and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        Some(used)
    }

    /// For each of so many tokens, 0 where the process has gone. The system counts time in hundredths of a second.
    fn since(&self, tokens: usize) -> Option<Value> {
        let (now, tokens) = (Used::now(Some(self.process))?, tokens.max(1) as f64);
        Some(json!({
            "user_micros": now.user.saturating_sub(self.user) as f64 * 1e4 / tokens,
            "system_micros": now.system.saturating_sub(self.system) as f64 * 1e4 / tokens,
            "sleeps": now.sleeps.saturating_sub(self.sleeps) as f64 / tokens,
        }))
    }
}

/// A server that runs as long as this is there.
struct Started {
    process: Child,
    url: String,
}

impl Started {
    /// This program, with the same arguments and one that makes it the server.
    fn new() -> std::io::Result<Started> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args().skip(1)).args([SERVES, "yes"]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut url = String::new();
        let read = match process.stdout.take() {
            Some(output) => BufReader::new(output).read_line(&mut url)?,
            None => 0,
        };
        let started = Started { process, url: url.trim().to_owned() };
        match read {
            0 => Err(std::io::Error::other("the server ended before it listened")),
            _ => Ok(started),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Serves until the input ends, as the program itself does.
fn serve(settings: &Settings) -> Result<(), Box<dyn std::error::Error>> {
    let Some(pack) = &settings.pack else { return Err("--pack is missing".into()) };
    let server = open(pack, settings)?;
    println!("http://{}", server.address()?);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    Ok(server.run_until_signalled()?)
}

fn open(pack: &Path, settings: &Settings) -> Result<Server, Box<dyn std::error::Error>> {
    let model = Arc::new(Model::open(Arc::new(Pack::open(pack)?))?);
    let cpu = CpuOptions { threads: Some(2), context: 2048, ..CpuOptions::default() };
    let backend = CpuBackend::open(Arc::clone(model.pack()), &cpu)?;
    let mut options = ServerOptions::new("load");
    options.address.set_port(0);
    options.draft = settings.draft;
    options.parallel = settings.parallel;
    options.cache_budget = settings.cache.unwrap_or(options.cache_budget);
    Ok(Server::bind(options, model, Box::new(backend))?)
}

async fn client(
    number: usize,
    settings: Settings,
    expected: Arc<Vec<String>>,
    end: Instant,
    seen: Arc<Mutex<Seen>>,
) {
    let client = reqwest::Client::builder().pool_max_idle_per_host(1).build().unwrap_or_default();
    let (mut round, mut pause) = (0, PAUSES[0]);
    while Instant::now() < end {
        let question = (number + round) % QUESTIONS;
        round += 1;
        let problem = match ask(&client, question, &settings, &seen).await {
            Ok(Some(text)) if text != expected[question] => {
                format!("question {question} has another answer than alone")
            }
            Ok(_) => {
                pause = PAUSES[0];
                continue;
            }
            Err(error) => error,
        };
        if let Ok(mut seen) = seen.lock() {
            seen.failed += 1;
            if seen.errors.len() < KEPT {
                seen.errors.push(problem);
            }
        }
        // A server that is gone refuses in microseconds: clients that asked on at once would take the machine for themselves.
        tokio::time::sleep(pause.min(end.saturating_duration_since(Instant::now()))).await;
        pause = (2 * pause).min(PAUSES[1]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_whose_server_is_gone_waits_longer_each_time() {
        let mut settings = settings_of(std::iter::empty()).unwrap();
        // Had and given back, so nobody listens there.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        settings.url = format!("http://127.0.0.1:{port}");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let started = Instant::now();
        let end = started + Duration::from_millis(400);
        client(0, settings, Arc::new(vec![String::new(); QUESTIONS]), end, Arc::clone(&seen)).await;
        assert!(started.elapsed() >= Duration::from_millis(400));
        // At 0, 50, 150 and 350 ms, or later.
        assert!((1..=4).contains(&seen.lock().unwrap().failed), "{} attempts", seen.lock().unwrap().failed);
    }
}
