//! A hub on this machine: the paths and headers of the real one, and every way in which it or the network can fail.
//!
//! Two listeners, so that a redirect leads to another origin. A script is asked before each answer and may spoil it.

#![allow(dead_code)] // each test file uses a part of it

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whether it came to the content server.
    pub content: bool,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    /// How many requests with this path came before.
    pub before: usize,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// First byte that is asked for.
    pub fn from(&self) -> usize {
        let range = self.header("range").and_then(|value| value.strip_prefix("bytes="));
        range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap())
    }
}

/// How an answer is spoiled.
#[derive(Clone, Debug)]
pub enum Act {
    /// Another status, with headers and a body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// So many bytes of the body, then the connection closes.
    Cut(usize),
    /// The whole file, whatever range was asked for.
    IgnoreRange,
    /// One bit of the file, counted from its start, is another.
    Flip(usize),
    /// So many bytes, then silence.
    Stall(usize),
    /// So many bytes every ten milliseconds.
    Throttle(usize),
    /// A range that begins elsewhere.
    OtherRange,
    /// Bytes after the end, and no length.
    More,
    /// Another entity tag.
    Tag(String),
}

type Script = Box<dyn FnMut(&Request) -> Option<Act> + Send>;

/// A repository at one commit.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    pub commit: String,
    /// Small ones are served by the hub, `.safetensors` by the content server.
    pub files: BTreeMap<String, Vec<u8>>,
}

#[derive(Default)]
struct State {
    repositories: BTreeMap<String, Contents>,
    requests: Vec<Request>,
    script: Option<Script>,
}

/// The hub. Its threads end with the test's process.
pub struct Hub {
    pub url: String,
    pub content_url: String,
    state: Arc<Mutex<State>>,
}

impl Hub {
    pub fn start() -> Hub {
        let state = Arc::new(Mutex::new(State::default()));
        let hub = TcpListener::bind("127.0.0.1:0").unwrap();
        let content = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let (hub_url, content_url) = (url(&hub), url(&content));
        for (listener, is_content) in [(hub, false), (content, true)] {
            let (state, content_url) = (Arc::clone(&state), content_url.clone());
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let (state, content_url) = (Arc::clone(&state), content_url.clone());
                    // A client that goes away is part of the tests.
                    thread::spawn(move || serve(stream, is_content, &content_url, &state));
                }
            });
        }
        Hub { url: hub_url, content_url, state }
    }

    /// Puts a repository there, or another commit of it.
    pub fn put(&self, repository: &str, commit: char, files: &[(&str, &[u8])]) {
        let files = files.iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect();
        let contents = Contents { commit: commit.to_string().repeat(40), files };
        self.state.lock().unwrap().repositories.insert(repository.into(), contents);
    }

    /// Puts the files of a folder there.
    pub fn put_folder(&self, repository: &str, commit: char, folder: &std::path::Path) {
        let files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| {
                (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap())
            })
            .collect();
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        self.put(repository, commit, &files);
    }

    /// What is asked before each answer.
    pub fn script(&self, script: impl FnMut(&Request) -> Option<Act> + Send + 'static) {
        self.state.lock().unwrap().script = Some(Box::new(script));
    }

    /// Everything answers as it should again.
    pub fn heal(&self) {
        self.state.lock().unwrap().script = None;
    }

    /// The requests since the last call.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    /// The requests for a file's bytes since the last call, at whichever server has them.
    pub fn downloads(&self, name: &str) -> Vec<Request> {
        let content = name.ends_with(".safetensors");
        self.requests()
            .into_iter()
            .filter(|request| request.content == content && request.path.ends_with(name))
            .collect()
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Git's name of a file.
pub fn git(bytes: &[u8]) -> String {
    hex(&Sha1::new().chain_update(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that follow from a seed.
pub fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

fn serve(stream: TcpStream, content: bool, content_url: &str, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    if line.starts_with("CONNECT ") {
        let request = Request { content, path: line.trim().into(), headers, before: 0 };
        state.lock().unwrap().requests.push(request);
        return tunnel(stream, reader, &path);
    }
    let path = path.split('?').next()?.to_owned();
    let (request, act, found) = {
        let mut state = state.lock().unwrap();
        let before =
            state.requests.iter().filter(|other| other.path == path && other.content == content).count();
        let request = Request { content, path, headers, before };
        let act = state.script.as_mut().and_then(|script| script(&request));
        state.requests.push(request.clone());
        let found = find(&state, &request);
        (request, act, found)
    };
    let mut out = Answer { stream, status: 200, headers: Vec::new() };
    if let Some(Act::Status(status, headers, body)) = act {
        out.status = status;
        out.headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        return out.send(body.as_bytes());
    }
    match found {
        Found::Nothing => {
            out.status = 404;
            out.header("X-Error-Code", "RepoNotFound");
            out.send(b"{\"error\": \"Repository not found\"}")
        }
        Found::NoEntry => {
            out.status = 404;
            out.header("X-Error-Code", "EntryNotFound");
            out.send(b"Entry not found")
        }
        Found::Text(text) => match act {
            Some(Act::Cut(bytes)) => out.send_part(text.len(), &text.as_bytes()[..bytes]),
            _ => out.send(text.as_bytes()),
        },
        Found::Redirect { name, etag } => {
            out.status = 302;
            let etag = match act {
                Some(Act::Tag(tag)) => tag,
                _ => etag,
            };
            out.header("X-Linked-Etag", &format!("\"{etag}\""));
            out.header("Location", &format!("{content_url}{name}?signature=secret"));
            out.send(b"")
        }
        Found::File { mut bytes, etag } => file(out, &request, act, &mut bytes, etag),
    }
}

/// As a proxy: whatever one side says goes to the other.
fn tunnel(mut client: TcpStream, mut reader: BufReader<TcpStream>, address: &str) -> Option<()> {
    let mut server = TcpStream::connect(address).ok()?;
    client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").ok()?;
    let mut to_server = server.try_clone().ok()?;
    thread::spawn(move || std::io::copy(&mut reader, &mut to_server));
    std::io::copy(&mut server, &mut client).ok()?;
    client.shutdown(std::net::Shutdown::Both).ok()
}

fn file(mut out: Answer, request: &Request, act: Option<Act>, bytes: &mut [u8], etag: String) -> Option<()> {
    let etag = match &act {
        Some(Act::Tag(tag)) => tag.clone(),
        _ => etag,
    };
    out.header("ETag", &format!("\"{etag}\""));
    if let Some(Act::Flip(place)) = act {
        bytes[place] ^= 1;
    }
    let total = bytes.len();
    let mut from = request.from();
    let changed = request.header("if-range").is_some_and(|tag| tag != format!("\"{etag}\""));
    if matches!(act, Some(Act::IgnoreRange)) || changed {
        from = 0;
    }
    if from >= total && from > 0 {
        out.status = 416;
        out.header("Content-Range", &format!("bytes */{total}"));
        return out.send(b"");
    }
    if request.header("range").is_some() && from > 0 {
        out.status = 206;
        from = if matches!(act, Some(Act::OtherRange)) { from - 1 } else { from };
        out.header("Content-Range", &format!("bytes {from}-{}/{total}", total - 1));
    }
    let body = &bytes[from..];
    match act {
        Some(Act::Cut(count)) => out.send_part(body.len(), &body[..count.min(body.len())]),
        Some(Act::Stall(count)) => {
            out.head(Some(body.len()))?;
            out.stream.write_all(&body[..count.min(body.len())]).ok()?;
            // Until the client goes.
            out.stream.read(&mut [0]).ok().map(|_| ())
        }
        Some(Act::Throttle(count)) => {
            out.head(Some(body.len()))?;
            for block in body.chunks(count) {
                out.stream.write_all(block).ok()?;
                thread::sleep(Duration::from_millis(10));
            }
            Some(())
        }
        Some(Act::More) => {
            out.head(None)?;
            out.stream.write_all(body).ok()?;
            out.stream.write_all(b"more").ok()
        }
        _ => out.send(body),
    }
}

enum Found {
    Nothing,
    NoEntry,
    Text(String),
    Redirect { name: String, etag: String },
    File { bytes: Vec<u8>, etag: String },
}

fn find(state: &State, request: &Request) -> Found {
    let path = request.path.trim_start_matches('/');
    if let Some(rest) = path.strip_prefix("api/models/") {
        let Some((name, _)) = rest.split_once("/revision/") else { return Found::Nothing };
        return state
            .repositories
            .get(name)
            .map_or(Found::Nothing, |contents| Found::Text(listing(contents)));
    }
    let Some((repository, rest)) = path.split_once("/resolve/") else { return Found::Nothing };
    let Some((commit, name)) = rest.split_once('/') else { return Found::Nothing };
    let Some(contents) = state.repositories.get(repository) else { return Found::Nothing };
    let Some(bytes) = contents.files.get(name).filter(|_| contents.commit == commit) else {
        return Found::NoEntry;
    };
    match name.ends_with(".safetensors") {
        true if !request.content => Found::Redirect { name: request.path.clone(), etag: sha256(bytes) },
        // A content server has names of its own for the same bytes.
        true => Found::File { bytes: bytes.clone(), etag: format!("content-{}", bytes.len()) },
        false => Found::File { bytes: bytes.clone(), etag: git(bytes) },
    }
}

fn listing(contents: &Contents) -> String {
    let sibling = |(name, bytes): (&String, &Vec<u8>)| match name.ends_with(".safetensors") {
        true => json!({"rfilename": name, "size": bytes.len(), "blobId": git(b"pointer"),
            "lfs": {"sha256": sha256(bytes), "size": bytes.len(), "pointerSize": 134}}),
        false => json!({"rfilename": name, "size": bytes.len(), "blobId": git(bytes)}),
    };
    let siblings: Vec<_> = contents.files.iter().map(sibling).collect();
    json!({"id": "x", "sha": contents.commit, "gated": false, "siblings": siblings}).to_string()
}

struct Answer {
    stream: TcpStream,
    status: u16,
    headers: Vec<(String, String)>,
}

impl Answer {
    fn header(&mut self, name: &str, value: &str) {
        self.headers.push((name.into(), value.into()));
    }

    fn head(&mut self, length: Option<usize>) -> Option<()> {
        let mut text = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if let Some(length) = length {
            text += &format!("Content-Length: {length}\r\n");
        }
        self.stream.write_all(format!("{text}\r\n").as_bytes()).ok()
    }

    fn send(mut self, body: &[u8]) -> Option<()> {
        self.head(Some(body.len()))?;
        self.stream.write_all(body).ok()
    }

    fn send_part(mut self, length: usize, body: &[u8]) -> Option<()> {
        self.head(Some(length))?;
        self.stream.write_all(body).ok()
    }
}
