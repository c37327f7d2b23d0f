//! What a server may be told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rawloop_engine::sequence::POOL_BUDGET;
use rawloop_engine::{Draft, SamplingOptions};

use crate::batch::BatchOptions;
use crate::http::Catalog;

/// How to serve. [`ServerOptions::new`] is safe on any machine: this machine's own programs only, nothing of a request touches
/// the file system, everything has a bound.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen.
    pub address: SocketAddr,
    /// What requests call the model.
    pub name: String,
    /// Keys of which a request needs one; none lets every request through.
    pub keys: Vec<String>,
    /// Lets everybody in who can reach an address that is not this machine's own, without a key.
    pub open: bool,
    /// Pages of these origins may ask (`https://example.org`).
    pub origins: Vec<String>,
    /// Requests that are answered at the same time.
    pub parallel: usize,
    /// Requests that may wait for one of those places.
    pub waiting: usize,
    /// Time for one request, waiting included.
    pub time_limit: Duration,
    /// Time for a client to send its request once it has begun.
    pub read_limit: Duration,
    /// Bytes of a request's body.
    pub body_limit: usize,
    /// Connections at the same time.
    pub connections: usize,
    /// Tokens of an answer where a request does not say.
    pub max_tokens: usize,
    /// Special tokens written in prompts and messages are control tokens.
    pub special_tokens: bool,
    /// Whether the model thinks where a request does not say.
    pub thinking: bool,
    /// Sampling where a request does not say; none takes the model's own.
    pub sampling: Option<SamplingOptions>,
    /// Where drafts come from.
    pub draft: Draft,
    /// Prompt tokens per call of the engine; none takes what the backend says of itself.
    pub chunk: Option<usize>,
    /// Bytes of caches that wait for a prompt that goes on with them.
    pub cache_budget: usize,
    /// How steps are joined.
    pub batch: BatchOptions,
    /// Models that requests may have fetched to this machine's disk; none fetches nothing.
    pub catalog: Option<Arc<dyn Catalog>>,
    /// Time that answers have to end in when the server is asked to stop.
    pub grace: Duration,
}

impl ServerOptions {
    /// The usual bounds, on this machine's own address.
    pub fn new(name: impl Into<String>) -> ServerOptions {
        ServerOptions {
            address: SocketAddr::from(([127, 0, 0, 1], 8080)),
            name: name.into(),
            keys: Vec::new(),
            open: false,
            origins: Vec::new(),
            parallel: 8,
            waiting: 64,
            time_limit: Duration::from_secs(600),
            read_limit: Duration::from_secs(30),
            body_limit: 8 << 20,
            connections: 1024,
            max_tokens: 2048,
            special_tokens: false,
            thinking: false,
            sampling: None,
            draft: Draft::Auto,
            chunk: None,
            cache_budget: POOL_BUDGET,
            batch: BatchOptions::default(),
            catalog: None,
            grace: Duration::from_secs(10),
        }
    }

    /// Whether only this machine's own programs can reach it.
    pub fn is_local(&self) -> bool {
        self.address.ip().is_loopback()
    }
}
