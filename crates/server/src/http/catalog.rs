//! Models beside the one that is loaded: which there are, and fetching one.
//!
//! The server knows no hub. Whoever embeds it hands it a [`Catalog`], which is what lets requests write to a disk; without one the
//! list has the loaded model alone and nothing is fetched. A request names a model of the catalog and nothing else: what is no
//! name there is refused before anything is touched.
//!
//! One model is fetched at a time, on a thread of its own. Whoever asks for the same one meanwhile watches the same download; when
//! the last of them has gone it stops, and the next request goes on from what is there. Lines of progress have Ollama's form.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Json as JsonResponse;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use utoipa::ToSchema;

use super::{App, Json, Stage, aside};
use crate::error::ApiError;
use crate::ollama::OllamaError;

/// Time between two lines of progress at least.
const PACE: Duration = Duration::from_millis(200);
/// How often a download in which nothing happens says that it goes on.
const ALIVE: Duration = Duration::from_secs(5);

/// Models by name, and how they are had. Its calls may take their time: they are made where nobody waits for a token.
pub trait Catalog: Debug + Send + Sync {
    /// Every model that can be fetched or is here.
    fn models(&self) -> Vec<CatalogModel>;

    /// The model of a name that can be fetched.
    ///
    /// # Errors
    /// There is none; a sentence for a person.
    fn find(&self, name: &str) -> Result<CatalogModel, String>;

    /// Fetches a model and makes it ready, until it is or `cancel` is set. The same call goes on from what is there.
    ///
    /// # Errors
    /// A sentence for a person.
    fn pull(&self, id: &str, cancel: &AtomicBool, report: &mut dyn FnMut(PullProgress))
    -> Result<(), String>;
}

/// What is known of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogModel {
    /// What requests call it.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// How near it is.
    pub state: ModelState,
    /// Bytes on the disk, or those that it will take where that is known.
    pub bytes: Option<u64>,
    /// Anything to know before.
    pub note: Option<String>,
}

/// How near a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelState {
    /// The server runs it.
    Loaded,
    /// It is on the disk.
    Ready,
    /// It has to be fetched.
    Absent,
}

/// How far a pull is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// What is being done. Speed is measured from one change of it to the next.
    pub status: String,
    /// Bytes that are done.
    pub completed: u64,
    /// Bytes in all; 0 where that is not known.
    pub total: u64,
}

/// The pull that is running, if one is.
#[derive(Default)]
pub struct Pulls(Mutex<Option<Running>>);

struct Running {
    id: String,
    cancel: Arc<AtomicBool>,
    watchers: usize,
    told: watch::Receiver<Told>,
}

/// What a pull has told last.
#[derive(Clone, Debug, Default)]
struct Told {
    progress: PullProgress,
    bytes_per_second: Option<u64>,
    end: Option<Result<(), String>>,
}

/// What became of the wish for a model.
enum Asked {
    /// It is on its way.
    Watching(Watcher),
    /// Another one is.
    Other(String),
    /// An earlier pull is about to stop.
    Stopping(watch::Receiver<Told>),
}

/// Somebody who watches a pull. The last one who goes stops it.
struct Watcher {
    pulls: Arc<Pulls>,
    cancel: Arc<AtomicBool>,
    told: watch::Receiver<Told>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut running = self.pulls.lock();
        if let Some(running) = running.as_mut().filter(|running| Arc::ptr_eq(&running.cancel, &self.cancel)) {
            running.watchers -= 1;
            if running.watchers == 0 {
                running.cancel.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Makes room for the next pull however this one ends.
struct Place(Arc<Pulls>);

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl Pulls {
    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the pull that is running, also where those that watch it read so slowly that nobody asks for a line.
    pub(super) fn stop(&self) {
        if let Some(running) = self.lock().as_ref() {
            running.cancel.store(true, Ordering::Relaxed);
        }
    }

    /// The model that is being fetched and how far it is.
    fn running(&self) -> Option<(String, PullProgress)> {
        let running = self.lock();
        let running = running.as_ref()?;
        let progress = running.told.borrow().progress.clone();
        Some((running.id.clone(), progress))
    }

    /// Watches the pull of a model, which begins where it is not running.
    fn ask(self: &Arc<Self>, catalog: &Arc<dyn Catalog>, id: &str) -> std::io::Result<Asked> {
        let mut place = self.lock();
        if let Some(running) = place.as_mut() {
            if running.cancel.load(Ordering::Relaxed) {
                return Ok(Asked::Stopping(running.told.clone()));
            }
            if running.id != id {
                return Ok(Asked::Other(running.id.clone()));
            }
            running.watchers += 1;
            let (cancel, told) = (Arc::clone(&running.cancel), running.told.clone());
            return Ok(Asked::Watching(Watcher { pulls: Arc::clone(self), cancel, told }));
        }
        let (tell, told) = watch::channel(Told::default());
        let cancel = Arc::new(AtomicBool::new(false));
        let work = {
            let (pulls, catalog, cancel, id) =
                (Arc::clone(self), Arc::clone(catalog), Arc::clone(&cancel), id.to_owned());
            move || {
                let room = Place(pulls);
                let mut meter = Meter::default();
                let result = catalog.pull(&id, &cancel, &mut |progress| {
                    let bytes_per_second = meter.measure(&progress, Instant::now());
                    tell.send_replace(Told { progress, bytes_per_second, end: None });
                });
                // Whoever reads of the end may ask for the next model at once.
                drop(room);
                tell.send_modify(|told| told.end = Some(result));
            }
        };
        std::thread::Builder::new().name("pull".into()).spawn(work)?;
        *place =
            Some(Running { id: id.into(), cancel: Arc::clone(&cancel), watchers: 1, told: told.clone() });
        Ok(Asked::Watching(Watcher { pulls: Arc::clone(self), cancel, told }))
    }
}

/// Bytes a second since the status changed.
#[derive(Default)]
struct Meter {
    status: String,
    begun: Option<(Instant, u64)>,
}

impl Meter {
    fn measure(&mut self, progress: &PullProgress, now: Instant) -> Option<u64> {
        let (since, first) = match self.begun {
            Some(begun) if self.status == progress.status && begun.1 <= progress.completed => begun,
            _ => {
                self.status.clone_from(&progress.status);
                *self.begun.insert((now, progress.completed))
            }
        };
        let seconds = now.duration_since(since).as_secs_f64();
        (seconds > 0.0 && progress.total > 0).then(|| ((progress.completed - first) as f64 / seconds) as u64)
    }
}

impl Told {
    fn line(&self) -> Value {
        match &self.end {
            Some(Ok(())) => return json!({ "status": "success" }),
            Some(Err(message)) => return json!({ "error": message }),
            None => {}
        }
        let PullProgress { status, completed, total } = &self.progress;
        if status.is_empty() {
            return json!({ "status": "Starting" });
        }
        if *total == 0 {
            return json!({ "status": status });
        }
        let Some(speed) = self.bytes_per_second.filter(|speed| *speed > 0) else {
            return json!({ "status": status, "completed": completed, "total": total });
        };
        let left = total.saturating_sub(*completed).div_ceil(speed);
        json!({
            "status": format!("{status}, {:.1} MB/s, {left} s left", speed as f64 / 1e6),
            "completed": completed,
            "total": total,
            "bytes_per_second": speed,
        })
    }
}

/// A pull as lines. Dropping it is not to watch any more.
struct Lines {
    watcher: Watcher,
    stage: watch::Receiver<Stage>,
    begun: bool,
    over: bool,
}

impl Lines {
    async fn next(&mut self) -> Option<Value> {
        if self.over {
            return None;
        }
        if !std::mem::replace(&mut self.begun, true) {
            return Some(self.last());
        }
        // What comes faster is not told: the last word counts.
        tokio::time::sleep(PACE).await;
        let told = tokio::select! {
            // First: the pull has been stopped then, and its own last word is that it was.
            biased;
            _ = self.stage.wait_for(|stage| *stage != Stage::Serving) => {
                self.over = true;
                return Some(json!({ "error": "the server is being shut down; what has been fetched is kept" }));
            }
            told = self.watcher.told.changed() => told.is_ok(),
            () = tokio::time::sleep(ALIVE) => true,
        };
        // A thread that failed has told no end.
        if !told && self.watcher.told.borrow().end.is_none() {
            self.over = true;
            return Some(json!({ "error": "a fault in the server ended it; what has been fetched is kept" }));
        }
        Some(self.last())
    }

    fn last(&mut self) -> Value {
        let told = self.watcher.told.borrow_and_update();
        self.over = told.end.is_some();
        told.line()
    }
}

/// What is said to somebody who names a model that is not the loaded one. Asks the catalog, which may take its time.
pub(super) fn advice(app: &App, name: &str) -> String {
    let Some(catalog) = &app.options.catalog else { return String::new() };
    let known = catalog.models().into_iter().find(|model| model.id == name);
    match known.map(|model| model.state) {
        Some(ModelState::Ready) => {
            format!("; `{name}` is on its disk: a server started with `{}` runs it", command(name))
        }
        Some(ModelState::Absent) => {
            format!("; `{name}` can be fetched, and a server started with `{}` runs it then", command(name))
        }
        Some(ModelState::Loaded) | None => String::new(),
    }
}

fn command(id: &str) -> String {
    format!("rawloop serve --model {id}")
}

/// Lists the models: the loaded one, those on the disk and those that can be fetched.
#[utoipa::path(get, path = "/api/models", tag = "rawloop",
    responses((status = 200, description = "The loaded model, and the catalog where the server fetches models")))]
pub async fn models(State(app): State<Arc<App>>) -> Result<JsonResponse<Value>, ApiError> {
    let catalog = app.options.catalog.clone();
    let known = aside(move || catalog.map(|catalog| catalog.models()).unwrap_or_default()).await?;
    let own = &app.options.name;
    let is_own = |model: &&CatalogModel| model.state == ModelState::Loaded || model.id == *own;
    let manifest = &app.model().pack().manifest().model;
    let name = known.iter().find(is_own).map_or(&manifest.name, |model| &model.name);
    let bytes = app.model().pack().bytes().len();
    let mut list = vec![json!({ "id": own, "name": name, "state": "loaded", "bytes": bytes })];
    let running = app.pulls.running();
    for model in known.iter().filter(|model| !is_own(model)) {
        let mut value =
            json!({ "id": model.id, "name": model.name, "bytes": model.bytes, "note": model.note });
        match running.as_ref().filter(|(id, _)| *id == model.id) {
            Some((_, progress)) => {
                value["state"] = "pulling".into();
                value["completed"] = progress.completed.into();
                value["total"] = progress.total.into();
            }
            None if model.state == ModelState::Absent => value["state"] = "absent".into(),
            None => {
                value["state"] = "ready".into();
                value["command"] = command(&model.id).into();
            }
        }
        list.push(value);
    }
    Ok(JsonResponse(json!({ "models": list })))
}

/// Which model to fetch.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct PullRequest {
    /// A name of the catalog.
    #[serde(alias = "name")]
    pub model: String,
    /// Send progress as it comes; yes where it is left out.
    pub stream: Option<bool>,
}

/// Fetches a model of the catalog to the server's disk. Only a server that was started with `--pull` does.
#[utoipa::path(post, path = "/api/pull", tag = "rawloop", request_body = PullRequest,
    responses((status = 200, description = "Lines of JSON: progress, then success or an error", content_type = "application/x-ndjson"),
        (status = 403, description = "This server fetches no models"), (status = 404, description = "There is no such model"),
        (status = 409, description = "Another model is being fetched"),
        (status = 503, description = "The server is being shut down")))]
pub async fn pull(
    State(app): State<Arc<App>>,
    request: Result<Json<PullRequest>, ApiError>,
) -> Result<Response, OllamaError> {
    let Some(catalog) = app.options.catalog.clone() else {
        let message = "this server fetches no models: start it with `rawloop serve --pull`, or run `rawloop pull` on its machine";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message).code("pull_disabled").into());
    };
    let Json(request) = request?;
    let name = request.model.strip_suffix(":latest").unwrap_or(&request.model).to_owned();
    let finder = Arc::clone(&catalog);
    let found = aside(move || finder.find(&name)).await?;
    let model = found.map_err(|message| {
        let error = ApiError::field("model", message).code("model_not_found");
        ApiError { status: StatusCode::NOT_FOUND, ..error }
    })?;
    let watcher = loop {
        // The server does not wait for a download, so none begins that it would break off.
        if *app.stage.borrow() != Stage::Serving {
            return Err(ApiError::closing().into());
        }
        match app.pulls.ask(&catalog, &model.id) {
            Ok(Asked::Watching(watcher)) => break watcher,
            Ok(Asked::Other(id)) => {
                let message = format!("{id} is being fetched; ask again when it is there");
                return Err(ApiError::new(StatusCode::CONFLICT, message).code("pull_running").into());
            }
            // Until its thread has gone, or the server ends.
            Ok(Asked::Stopping(mut told)) => {
                let mut stage = app.stage.subscribe();
                let gone = async { while told.changed().await.is_ok() {} };
                tokio::select! {
                    () = gone => {}
                    _ = stage.wait_for(|stage| *stage != Stage::Serving) => {}
                }
            }
            Err(error) => return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error).into()),
        }
    };
    // Where the server stopped its pulls between the check and the beginning of this one, nobody but this watcher would stop it.
    if *app.stage.borrow() != Stage::Serving {
        return Err(ApiError::closing().into());
    }
    let mut lines = Lines { watcher, stage: app.stage.subscribe(), begun: false, over: false };
    if request.stream == Some(false) {
        let mut last = Value::Null;
        while let Some(line) = lines.next().await {
            last = line;
        }
        return match last["error"].as_str() {
            Some(message) => Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message).into()),
            None => Ok(JsonResponse(last).into_response()),
        };
    }
    let bytes = stream::unfold(lines, |mut lines| async move {
        let line = lines.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(format!("{line}\n"))), lines))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::from_stream(bytes)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_measured_from_the_change_of_what_is_done() {
        let begin = Instant::now();
        let mut meter = Meter::default();
        let mut measure = |status: &str, completed, seconds| {
            let progress = PullProgress { status: status.into(), completed, total: 1000 };
            meter.measure(&progress, begin + Duration::from_secs(seconds))
        };
        assert_eq!(measure("a", 100, 0), None);
        assert_eq!(measure("a", 300, 2), Some(100));
        assert_eq!(measure("b", 300, 4), None);
        assert_eq!(measure("b", 500, 8), Some(50));
        // It begins again from less.
        assert_eq!(measure("b", 0, 9), None);
        assert_eq!(measure("b", 30, 10), Some(30));
    }

    #[test]
    fn lines_have_ollamas_form() {
        let progress = PullProgress { status: "Fetching x".into(), completed: 5_000_000, total: 10_000_000 };
        let told = Told { progress, bytes_per_second: Some(2_000_000), end: None };
        assert_eq!(
            told.line(),
            json!({"status": "Fetching x, 2.0 MB/s, 3 s left", "completed": 5_000_000, "total": 10_000_000,
                "bytes_per_second": 2_000_000})
        );
        let told = Told { end: Some(Ok(())), ..told };
        assert_eq!(told.line(), json!({"status": "success"}));
        let told = Told { end: Some(Err("the disk is full".into())), ..told };
        assert_eq!(told.line(), json!({"error": "the disk is full"}));
        assert_eq!(Told::default().line(), json!({"status": "Starting"}));
    }
}
