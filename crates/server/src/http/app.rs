//! What all handlers share.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use rawloop_engine::backend::BackendInfo;
use rawloop_engine::{Model, SamplingOptions};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{Answering, Pulls, catalog};
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::work::{Core, Full, Queue, Slot, Task};

/// Whoever sent a request: its key, or its address where there are no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client(pub u64);

impl Client {
    /// A client by what tells it from others.
    pub fn of(what: &impl Hash) -> Client {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        Client(hasher.finish())
    }
}

/// How far the server is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It serves.
    Serving,
    /// It lets nobody in; answers go on.
    Closing,
    /// Answers end.
    Ending,
}

/// The server, as handlers see it.
pub struct App {
    /// How to serve.
    pub options: ServerOptions,
    /// Model, backend and caches.
    pub core: Arc<Core>,
    /// Who waits.
    pub queue: Arc<Queue<Task>>,
    /// Numbers so far.
    pub metrics: Metrics,
    /// When the server began, in seconds since 1970.
    pub created: u64,
    /// How far the end is.
    pub stage: watch::Sender<Stage>,
    /// The model that is being fetched.
    pub pulls: Arc<Pulls>,
}

impl App {
    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.core.model
    }

    /// What runs it.
    pub fn info(&self) -> &BackendInfo {
        self.core.batch.info()
    }

    /// Answers made so far.
    pub fn metrics_answers(&self) -> u64 {
        self.metrics.answers.get()
    }

    /// Sampling where a request does not say.
    pub fn sampling(&self) -> SamplingOptions {
        self.options.sampling.clone().unwrap_or_else(|| self.model().sampling())
    }

    /// The name of another model, where a request has one.
    fn other<'a>(&self, name: Option<&'a str>) -> Option<&'a str> {
        let own = self.options.name.as_str();
        name.filter(|name| !name.is_empty() && *name != own && name.strip_suffix(":latest") != Some(own))
    }

    /// Whether a request means this model. Where it does not the catalog may look at its disk: to be called [`aside`], as
    /// [`App::check_model_aside`] does.
    ///
    /// # Errors
    /// It names another one.
    pub fn check_model(&self, name: Option<&str>) -> Result<(), ApiError> {
        let own = &self.options.name;
        match self.other(name) {
            None => Ok(()),
            Some(name) => {
                let advice = catalog::advice(self, name);
                let message = format!("there is no model `{name}` here: this server runs `{own}`{advice}");
                let error = ApiError::field("model", message).code("model_not_found");
                Err(ApiError { status: axum::http::StatusCode::NOT_FOUND, ..error })
            }
        }
    }

    /// [`App::check_model`] for whoever is on a thread that sends streams. The name of this model costs nothing.
    ///
    /// # Errors
    /// It names another one.
    pub async fn check_model_aside(self: &Arc<App>, name: Option<&str>) -> Result<(), ApiError> {
        let Some(name) = self.other(name).map(str::to_owned) else { return Ok(()) };
        let app = Arc::clone(self);
        aside(move || app.check_model(Some(&name))).await?
    }

    /// Makes room for the answers of a request, before anything of them is made: who asks for more than there can be, or comes when
    /// all is taken, costs nothing. `param` is the field that says how many.
    ///
    /// # Errors
    /// There is no room, the server ends, or its model has failed.
    pub fn admit(&self, answers: usize, param: &str) -> Result<Admission, ApiError> {
        if self.core.batch.has_ended() {
            return Err(ApiError::failed());
        }
        let places = self.queue.places();
        if answers > places {
            let message = format!("{answers} answers were asked for; this server makes {places} at most");
            return Err(ApiError::field(param, message));
        }
        let places = self.queue.reserve(answers, Task::is_gone).map_err(|full| self.refuse(full))?;
        let cancel = Arc::new(AtomicBool::new(false));
        let (events, receiver) = mpsc::unbounded_channel();
        let slots = places.into_iter().enumerate().map(|(index, place)| Slot {
            index,
            cancel: Arc::clone(&cancel),
            events: events.clone(),
            place,
        });
        let slots = slots.collect();
        let deadline = Instant::now() + self.options.time_limit;
        let answering = Answering::new(receiver, cancel, answers, deadline, self.stage.subscribe());
        Ok(Admission { slots, answering })
    }

    /// Lets answers be made. `tasks` makes them of their slots; those that follow from others are within those.
    ///
    /// # Errors
    /// The server ends.
    pub fn submit(
        &self,
        client: Client,
        admission: Admission,
        tasks: impl FnOnce(Vec<Slot>) -> Vec<Task>,
    ) -> Result<Answering, ApiError> {
        let Admission { slots, answering } = admission;
        self.queue.push(client.0, tasks(slots)).map_err(|full| self.refuse(full))?;
        Ok(answering)
    }

    fn refuse(&self, full: Full) -> ApiError {
        match full {
            Full::Busy(seconds) => {
                self.metrics.refused.add(1);
                ApiError::busy(seconds)
            }
            Full::Closed => ApiError::closing(),
        }
    }
}

/// Room for the answers of a request. Dropping it gives the room back.
pub struct Admission {
    slots: Vec<Slot>,
    answering: Answering,
}

/// Does what takes longer than a token (texts to tokens, schemas, a look at a disk) beside the threads that send streams.
///
/// # Errors
/// It panicked.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    let fault = |_| {
        let message = "a fault in the server; the request is lost, others are not";
        ApiError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, message)
    };
    tokio::task::spawn_blocking(work).await.map_err(fault)
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A name that nobody else has: a prefix and 24 characters.
pub fn unique(prefix: &str) -> String {
    let mut bytes = [0; 12];
    // Where the system has no random numbers the time has to do; names are no secrets.
    if getrandom::fill(&mut bytes).is_err() {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        bytes.copy_from_slice(&nanos.to_le_bytes()[..12]);
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{prefix}{hex}")
}

/// A seed for an answer that asks for none. Small enough to be typed in again.
pub fn fresh_seed() -> u64 {
    getrandom::u64().unwrap_or_else(|_| now()) % 1_000_000_000
}
