//! Numbers of a running server, in the text form of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rawloop_engine::Timings;

use crate::http::App;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// What it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Numbers so far.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests by class of status: 2xx, 3xx, 4xx, 5xx.
    pub requests: [Counter; 4],
    /// Requests that found no room.
    pub refused: Counter,
    /// Answers that ended by themselves or at a bound.
    pub answers: Counter,
    /// Prompt tokens of those.
    pub prompt_tokens: Counter,
    /// Prompt tokens that a cache held.
    pub reused_tokens: Counter,
    /// Tokens of answers.
    pub tokens: Counter,
    /// Tokens drafted.
    pub drafted_tokens: Counter,
    /// Drafts that were right.
    pub accepted_tokens: Counter,
    /// Microseconds from the start of an answer to its first token.
    pub prefill_micros: Counter,
    /// Microseconds from there to the end.
    pub decode_micros: Counter,
}

impl Metrics {
    /// Takes note of a response.
    pub fn responded(&self, status: u16) {
        if let Some(class) =
            (status / 100).checked_sub(2).and_then(|class| self.requests.get(usize::from(class)))
        {
            class.add(1);
        }
    }

    /// Takes note of an answer.
    pub fn answered(&self, timings: &Timings) {
        let micros = |time: Duration| time.as_micros() as u64;
        self.answers.add(1);
        self.prompt_tokens.add(timings.prompt_tokens as u64);
        self.reused_tokens.add(timings.reused_tokens as u64);
        self.tokens.add(timings.tokens as u64);
        self.drafted_tokens.add(timings.drafted_tokens as u64);
        self.accepted_tokens.add(timings.accepted_tokens as u64);
        self.prefill_micros.add(micros(timings.prefill));
        self.decode_micros.add(micros(timings.decode));
    }
}

/// Everything, as Prometheus reads it.
pub fn render(app: &App) -> String {
    let mut text = String::new();
    let mut number = |name: &str, kind: &str, help: &str, value: f64| {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# HELP rawloop_{name} {help}\n# TYPE rawloop_{name} {kind}\nrawloop_{name} {value}"
        );
    };
    let (metrics, batch) = (&app.metrics, app.core.batch.counters());
    let (waiting, running) = app.queue.counts();
    let pool = app.core.pool.summary();
    let mut counter = |name: &str, help: &str, value: u64| number(name, "counter", help, value as f64);
    counter("refused_requests_total", "Requests that found no room in the queue.", metrics.refused.get());
    counter("answers_total", "Answers made.", metrics.answers.get());
    counter("prompt_tokens_total", "Prompt tokens of answers.", metrics.prompt_tokens.get());
    counter("reused_tokens_total", "Prompt tokens that a cache held.", metrics.reused_tokens.get());
    counter("completion_tokens_total", "Tokens of answers.", metrics.tokens.get());
    counter("drafted_tokens_total", "Tokens drafted.", metrics.drafted_tokens.get());
    counter("accepted_tokens_total", "Drafts that were right.", metrics.accepted_tokens.get());
    counter("steps_total", "Steps of the backend.", batch.steps);
    counter("step_sequences_total", "Sequences in those steps.", batch.pieces);
    counter("step_tokens_total", "Tokens of answers and drafts in those steps.", batch.columns);
    counter("step_prompt_tokens_total", "Prompt tokens in those steps.", batch.prompt_tokens);
    counter("alone_tokens_total", "Tokens of runs that had the backend to themselves.", batch.alone_tokens);
    counter("cache_forks_total", "Prompts that got a fork of a cache.", pool.counters.forked as u64);
    counter("cache_extensions_total", "Prompts that went on in a cache.", pool.counters.extended as u64);
    counter("cache_evictions_total", "Caches given up for room.", pool.counters.evicted as u64);
    let seconds = |micros: u64| micros as f64 / 1e6;
    number(
        "prefill_seconds_total",
        "counter",
        "Time to first tokens.",
        seconds(metrics.prefill_micros.get()),
    );
    number(
        "decode_seconds_total",
        "counter",
        "Time behind first tokens.",
        seconds(metrics.decode_micros.get()),
    );
    number("busy_seconds_total", "counter", "Time in steps of the backend.", seconds(batch.busy_micros));
    number(
        "gather_seconds_total",
        "counter",
        "Time in waiting for a step to fill.",
        seconds(batch.gather_micros),
    );
    number("queue_waiting", "gauge", "Answers that wait.", waiting as f64);
    number("queue_running", "gauge", "Answers that are made.", running as f64);
    number("queue_places", "gauge", "Answers that there is room for.", app.queue.places() as f64);
    number(
        "queue_places_taken",
        "gauge",
        "Those that wait, are made, or follow another one.",
        app.queue.taken() as f64,
    );
    number("cache_sequences", "gauge", "Caches that wait for a prompt.", pool.sequences as f64);
    number("cache_bytes", "gauge", "Bytes of those.", pool.bytes as f64);
    let _ = writeln!(text, "# HELP rawloop_requests_total Responses.\n# TYPE rawloop_requests_total counter");
    for (class, counter) in ["2xx", "3xx", "4xx", "5xx"].iter().zip(&metrics.requests) {
        let _ = writeln!(text, "rawloop_requests_total{{status=\"{class}\"}} {}", counter.get());
    }
    text
}
