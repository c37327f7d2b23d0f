//! The server's own handlers without a network: what a request may hold, how it is checked and what the answer looks like is theirs.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use rawloop_engine::Model;
use rawloop_engine::backend::Backend;
use rawloop_server::http::{Stage, router};
use rawloop_server::{Server, ServerOptions};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::exit::{Code, Failure};

use super::work::{ANSWERS, Ask};

/// Wait before a request is put again to a line that is full, which several answers a request make it.
const AGAIN: Duration = Duration::from_millis(100);
/// Nobody waits at a connection, so time is no reason to give up.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Answers that are asked for and not yet given, at most: as many as a request has seeds for, whatever runs at a time, so that
/// `--parallel` refuses nothing.
const PLACES: usize = 1 << ANSWERS;
/// Bytes of a request's body.
const BODY: usize = 256 << 20;

/// Somebody to ask.
#[derive(Clone)]
pub struct Asker {
    router: Router,
    /// Its threads end with it.
    server: Arc<Server>,
}

impl Asker {
    /// Starts the threads that answer.
    ///
    /// # Errors
    /// The system has none.
    pub fn new(
        name: String,
        parallel: usize,
        chunk: Option<usize>,
        model: Arc<Model>,
        backend: Box<dyn Backend>,
    ) -> Result<Asker, Failure> {
        let mut options = ServerOptions::new(name);
        // A server has its port from the start; nobody is served there before it is told to run, which this one never is.
        options.address.set_port(0);
        options.parallel = parallel;
        options.waiting = PLACES.saturating_sub(parallel);
        options.time_limit = DAY;
        options.body_limit = BODY;
        options.chunk = chunk;
        let server =
            Server::bind(options, model, backend).map_err(|error| Failure::new(Code::Other, error))?;
        Ok(Asker { router: router(Arc::clone(server.app())), server: Arc::new(server) })
    }

    async fn once(&self, url: &str, body: String) -> (u16, Value) {
        let request =
            Request::post(url).header("host", "localhost").header("content-type", "application/json");
        let failed = |error: &dyn std::fmt::Display| (500, json!({"error": {"message": error.to_string()}}));
        let request = match request.body(Body::from(body)) {
            Ok(request) => request,
            Err(error) => return failed(&error),
        };
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status().as_u16();
        match to_bytes(response.into_body(), usize::MAX).await {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(value) => (status, value),
                Err(error) => failed(&error),
            },
            Err(error) => failed(&error),
        }
    }

    /// Ends what is being answered.
    pub fn end(&self) {
        self.server.app().stage.send_replace(Stage::Ending);
        self.server.app().queue.close();
    }
}

impl Ask for Asker {
    async fn ask(&self, url: &str, body: &Value) -> (u16, Value) {
        let text = body.to_string();
        loop {
            let (status, value) = self.once(url, text.clone()).await;
            if status != 429 {
                return (status, value);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
