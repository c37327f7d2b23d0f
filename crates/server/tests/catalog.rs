//! Models beside the loaded one: what is listed, and fetching one, from beginning to end and to any other end.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use rawloop_server::http::Stage;
use rawloop_server::{Catalog, CatalogModel, ModelState, PullProgress};
use serde_json::{Value, json};
use support::Running;

/// What a pull does next.
enum Step {
    Tell(&'static str, u64, u64),
    End(Result<(), String>),
    Panic,
}

/// A catalog whose pulls do what a test says, one step after the other.
#[derive(Debug)]
struct Told {
    steps: Mutex<Receiver<Step>>,
    begun: AtomicUsize,
    cancelled: AtomicUsize,
    /// A cancelled pull does not end.
    holds: AtomicBool,
    ready: AtomicBool,
    /// The list does not come.
    lists_hold: AtomicBool,
    /// How many wait for the list.
    listing: AtomicUsize,
}

impl Told {
    fn new() -> (Arc<Told>, Sender<Step>) {
        let (sender, steps) = mpsc::channel();
        let told = Told {
            steps: Mutex::new(steps),
            begun: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            holds: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            lists_hold: AtomicBool::new(false),
            listing: AtomicUsize::new(0),
        };
        (Arc::new(told), sender)
    }

    fn model(&self, id: &str) -> CatalogModel {
        let state = match id {
            "tiny" => ModelState::Loaded,
            "big" if !self.ready.load(Ordering::SeqCst) => ModelState::Absent,
            _ => ModelState::Ready,
        };
        let note = (id == "big").then(|| "terms to accept".to_owned());
        CatalogModel { id: id.into(), name: id.to_uppercase(), state, bytes: Some(7), note }
    }
}

impl Catalog for Told {
    fn models(&self) -> Vec<CatalogModel> {
        self.listing.fetch_add(1, Ordering::SeqCst);
        while self.lists_hold.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.listing.fetch_sub(1, Ordering::SeqCst);
        ["tiny", "big", "other"].iter().map(|id| self.model(id)).collect()
    }

    fn find(&self, name: &str) -> Result<CatalogModel, String> {
        self.models()
            .into_iter()
            .find(|model| model.id == name)
            .ok_or_else(|| format!("there is no model {name:?} in the catalog"))
    }

    fn pull(
        &self,
        id: &str,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(PullProgress),
    ) -> Result<(), String> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let steps = self.steps.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        loop {
            if cancel.load(Ordering::SeqCst) {
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                while self.holds.load(Ordering::SeqCst) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                return Err("interrupted".into());
            }
            match steps.recv_timeout(std::time::Duration::from_millis(5)) {
                Ok(Step::Tell(status, completed, total)) => {
                    report(PullProgress { status: status.into(), completed, total });
                }
                Ok(Step::End(result)) => {
                    self.ready.store(id == "big" && result.is_ok(), Ordering::SeqCst);
                    return result;
                }
                Ok(Step::Panic) => panic!("a fault"),
                Err(_) => {}
            }
        }
    }
}

fn server(told: &Arc<Told>) -> Running {
    let catalog = Arc::clone(told);
    Running::start(|options| options.catalog = Some(catalog))
}

/// Lines of a pull as they come.
struct Lines {
    response: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<Vec<u8>>> + Send>>,
    rest: Vec<u8>,
}

impl Lines {
    async fn of(server: &Running, model: &str) -> Lines {
        let request = reqwest::Client::new().post(server.url("/api/pull")).json(&json!({ "model": model }));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        let response = Box::pin(response.bytes_stream().map(|bytes| bytes.map(|bytes| bytes.to_vec())));
        Lines { response, rest: Vec::new() }
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            self.rest.extend(self.response.next().await?.unwrap());
        }
    }

    /// The first line that has a status which begins so.
    async fn until(&mut self, status: &str) -> Value {
        loop {
            let line = self.next().await.expect("the lines ended");
            if line["status"].as_str().is_some_and(|text| text.starts_with(status)) {
                return line;
            }
        }
    }

    async fn last(mut self) -> Value {
        let mut last = Value::Null;
        while let Some(line) = self.next().await {
            last = line;
        }
        last
    }
}

async fn state(server: &Running, id: &str) -> Value {
    let (status, body) = server.get("/api/models").await;
    assert_eq!(status, 200);
    let models = body["models"].as_array().unwrap();
    models.iter().find(|model| model["id"] == id).cloned().unwrap_or_default()
}

async fn idle(told: &Told, server: &Running, cancelled: usize) {
    while told.cancelled.load(Ordering::SeqCst) < cancelled
        || state(server, "big").await["state"] == "pulling"
    {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// Waits until so many requests watch the stage: those that follow a pull, and those that wait for one to stop.
async fn stands(server: &Running, requests: usize) {
    server.until(|app| app.stage.receiver_count() == requests).await;
}

#[tokio::test]
async fn without_a_catalog_the_loaded_model_is_listed_and_nothing_is_fetched() {
    let server = Running::start(|_| {});
    let (status, body) = server.get("/api/models").await;
    let models = body["models"].as_array().unwrap();
    assert_eq!((status, models.len()), (200, 1));
    assert_eq!((&models[0]["id"], &models[0]["state"]), (&json!("tiny"), &json!("loaded")));
    assert!(models[0]["bytes"].as_u64().unwrap() > 1000);
    let (status, body) = server.post("/api/pull", &json!({ "model": "big" })).await;
    assert_eq!(status, 403);
    assert!(body["error"].as_str().unwrap().contains("rawloop serve --pull"), "{body}");
}

#[tokio::test]
async fn a_model_is_fetched_with_progress_and_its_state_follows() {
    let (told, steps) = Told::new();
    let server = server(&told);
    assert_eq!(state(&server, "tiny").await["state"], "loaded");
    let big = state(&server, "big").await;
    assert_eq!(
        (&big["state"], &big["name"], &big["note"]),
        (&json!("absent"), &json!("BIG"), &json!("terms to accept"))
    );
    assert_eq!(state(&server, "other").await["command"], "rawloop serve --model other");

    let mut lines = Lines::of(&server, "big").await;
    steps.send(Step::Tell("Fetching x", 10, 40)).unwrap();
    let line = lines.until("Fetching x").await;
    assert_eq!((&line["completed"], &line["total"]), (&json!(10), &json!(40)));
    let big = state(&server, "big").await;
    assert_eq!(
        (&big["state"], &big["completed"], &big["total"]),
        (&json!("pulling"), &json!(10), &json!(40))
    );
    // Another one waits its turn; the same one is watched.
    let (status, body) = server.post("/api/pull", &json!({ "model": "other" })).await;
    assert_eq!(status, 409);
    assert!(body["error"].as_str().unwrap().contains("big is being fetched"), "{body}");
    let mut second = Lines::of(&server, "big").await;
    assert_eq!(second.until("Fetching x").await["completed"], 10);
    assert_eq!(told.begun.load(Ordering::SeqCst), 1);
    // One of two goes: the other still watches.
    drop(lines);
    steps.send(Step::Tell("Converting: tensors", 5, 9)).unwrap();
    second.until("Converting: tensors").await;
    steps.send(Step::End(Ok(()))).unwrap();
    assert_eq!(second.last().await, json!({ "status": "success" }));
    assert_eq!(told.cancelled.load(Ordering::SeqCst), 0);
    let big = state(&server, "big").await;
    assert_eq!((&big["state"], &big["command"]), (&json!("ready"), &json!("rawloop serve --model big")));
}

#[tokio::test]
async fn a_model_that_is_not_loaded_is_named_with_what_to_do() {
    let (told, _steps) = Told::new();
    let server = server(&told);
    for (name, word) in [
        ("other", "on its disk: a server started with `rawloop serve --model other` runs it"),
        ("big", "can be fetched"),
        ("nothing", "this server runs `tiny`"),
    ] {
        let body = json!({ "model": name, "messages": [{ "role": "user", "content": "x" }] });
        let (status, answer) = server.post("/v1/chat/completions", &body).await;
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("model_not_found")));
        assert!(answer["error"]["message"].as_str().unwrap().contains(word), "{answer}");
    }
}

/// The catalog may look at a disk: the threads that send streams, two of them here, do not wait for it.
#[tokio::test]
async fn a_catalog_that_takes_its_time_holds_nobody_up() {
    let (told, _steps) = Told::new();
    let server = Arc::new(server(&told));
    told.lists_hold.store(true, Ordering::SeqCst);
    let asks = [
        ("/v1/detokenize", json!({ "model": "other", "tokens": [] })),
        ("/api/show", json!({ "model": "other" })),
        ("/api/generate", json!({ "model": "other", "prompt": "" })),
        ("/v1/models/other", Value::Null),
    ];
    let asked = asks.map(|(path, body)| {
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            match body {
                Value::Null => server.get(path).await,
                body => server.post(path, &body).await,
            }
        })
    });
    while told.listing.load(Ordering::SeqCst) < 4 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(server.get("/health").await.0, 200);
    told.lists_hold.store(false, Ordering::SeqCst);
    for asked in asked {
        let (status, answer) = asked.await.unwrap();
        assert!(status == 404 && answer.to_string().contains("on its disk"), "{status} {answer}");
    }
}

#[tokio::test]
async fn names_are_of_the_catalog_and_nothing_else() {
    let (told, _steps) = Told::new();
    let server = server(&told);
    for name in ["nothing", "../big", "/etc/passwd", "https://example.org/big", "big/", "", "big\0"] {
        let (status, body) = server.post("/api/pull", &json!({ "model": name })).await;
        assert_eq!(status, 404, "{name}: {body}");
        assert!(body["error"].as_str().unwrap().contains("no model"), "{body}");
    }
    assert_eq!(server.post("/api/pull", &json!({ "model": 7 })).await.0, 400);
    assert_eq!(server.post("/api/pull", &json!({})).await.0, 400);
    assert_eq!(told.begun.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_connection_that_closes_stops_the_pull_and_the_next_one_begins_again() {
    let (told, steps) = Told::new();
    let server = server(&told);
    let mut lines = Lines::of(&server, "big").await;
    steps.send(Step::Tell("Fetching x", 1, 4)).unwrap();
    lines.until("Fetching x").await;
    drop(lines);
    idle(&told, &server, 1).await;

    // A client that wants no stream and goes. The pull takes a while to stop.
    told.holds.store(true, Ordering::SeqCst);
    let request = reqwest::Client::new().post(server.url("/api/pull"));
    let request = tokio::spawn(request.json(&json!({ "model": "big", "stream": false })).send());
    while told.begun.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    request.abort();
    while told.cancelled.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    stands(&server, 0).await;
    // One that comes meanwhile waits for that and begins anew.
    let body = json!({ "name": "big:latest", "stream": false });
    let next = server.post("/api/pull", &body);
    let release = async {
        stands(&server, 1).await;
        assert_eq!(told.begun.load(Ordering::SeqCst), 2);
        told.holds.store(false, Ordering::SeqCst);
        steps.send(Step::End(Ok(()))).unwrap();
    };
    let ((status, body), ()) = tokio::join!(next, release);
    assert_eq!((status, body), (200, json!({ "status": "success" })));
    assert_eq!(told.begun.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_fails_is_said_and_makes_room() {
    let (told, steps) = Told::new();
    let server = server(&told);
    steps.send(Step::End(Err("big is gated: accept its terms".into()))).unwrap();
    assert_eq!(
        Lines::of(&server, "big").await.last().await,
        json!({ "error": "big is gated: accept its terms" })
    );
    steps.send(Step::End(Err("the disk is full".into()))).unwrap();
    let (status, body) = server.post("/api/pull", &json!({ "model": "big", "stream": false })).await;
    assert_eq!((status, body), (500, json!({ "error": "the disk is full" })));
    steps.send(Step::Panic).unwrap();
    let last = Lines::of(&server, "big").await.last().await;
    assert!(last["error"].as_str().unwrap().contains("a fault"), "{last}");
    steps.send(Step::End(Ok(()))).unwrap();
    assert_eq!(Lines::of(&server, "big").await.last().await, json!({ "status": "success" }));
}

#[tokio::test]
async fn a_server_that_ends_ends_the_pull_in_words() {
    let (told, steps) = Told::new();
    let mut server = server(&told);
    let mut lines = Lines::of(&server, "big").await;
    steps.send(Step::Tell("Fetching x", 1, 4)).unwrap();
    lines.until("Fetching x").await;
    server.stop();
    let last = lines.last().await;
    assert!(last["error"].as_str().unwrap().contains("shut down; what has been fetched is kept"), "{last}");
    while told.cancelled.load(Ordering::SeqCst) < 1 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// Nobody asks for a line of a client that does not read: the pull stops all the same, and before the client has gone.
#[tokio::test]
async fn a_server_that_ends_stops_the_pull_of_a_client_that_does_not_read() {
    let (told, steps) = Told::new();
    let catalog = Arc::clone(&told);
    let mut server = Running::start(|options| {
        options.catalog = Some(catalog);
        options.grace = std::time::Duration::from_secs(3600);
    });
    let mut lines = Lines::of(&server, "big").await;
    // Far more than what sockets hold, in one line, so that nobody asks for the next.
    let status: &'static str = "x".repeat(16 << 20).leak();
    steps.send(Step::Tell(status, 1, 4)).unwrap();
    lines.until("Starting").await;
    // The long line is on its way and stands still.
    lines.response.next().await.unwrap().unwrap();
    server.stop();
    while told.cancelled.load(Ordering::SeqCst) < 1 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    // The connection has to be closed before the test waits for the server: both are this thread's.
    drop(lines);
    stands(&server, 0).await;
}

#[tokio::test]
async fn a_server_that_ends_begins_no_pull() {
    let (told, steps) = Told::new();
    let mut server = server(&told);
    let mut lines = Lines::of(&server, "big").await;
    steps.send(Step::Tell("Fetching x", 1, 4)).unwrap();
    lines.until("Fetching x").await;
    told.holds.store(true, Ordering::SeqCst);
    drop(lines);
    while told.cancelled.load(Ordering::SeqCst) < 1 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    stands(&server, 0).await;
    // One that waits for another to stop is told while that one still does.
    let request = reqwest::Client::new().post(server.url("/api/pull")).json(&json!({ "model": "big" }));
    let waits = tokio::spawn(request.send());
    stands(&server, 1).await;
    server.stop();
    let response = waits.await.unwrap().unwrap();
    assert_eq!(response.status(), 503);
    assert!(response.text().await.unwrap().contains("shut down"));
    told.holds.store(false, Ordering::SeqCst);
    drop(server);
    assert_eq!(told.begun.load(Ordering::SeqCst), 1);

    // So is one that comes when the end has begun, on a connection that was there.
    let (told, _steps) = Told::new();
    let server = self::server(&told);
    server.app.stage.send_replace(Stage::Closing);
    let (status, body) = server.post("/api/pull", &json!({ "model": "big" })).await;
    assert!(status == 503 && body["error"].as_str().unwrap().contains("shut down"), "{status} {body}");
    assert_eq!(told.begun.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn where_there_are_keys_the_catalog_needs_one() {
    let (told, _steps) = Told::new();
    let catalog = Arc::clone(&told);
    let server = Running::start(|options| {
        options.catalog = Some(catalog);
        options.keys = vec!["secret".into()];
    });
    assert_eq!(server.get("/api/models").await.0, 401);
    assert_eq!(server.post("/api/pull", &json!({ "model": "big" })).await.0, 401);
    assert_eq!(told.begun.load(Ordering::SeqCst), 0);
}
