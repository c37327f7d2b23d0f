//! What the server's tests share: the shipped model on the CPU.

#![allow(dead_code)] // each test file uses a part of it

pub mod watched;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::backend::Backend;
use rawloop_engine::{Model, SamplingOptions};
use rawloop_pack::Pack;
use rawloop_server::http::App;
use rawloop_server::{Server, ServerOptions};
use serde_json::Value;

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The shipped model.
pub fn tiny() -> Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    let open = || {
        let pack = Pack::open(&root().join("models/tiny/tiny.rlp")).unwrap();
        Arc::new(Model::open(Arc::new(pack)).unwrap())
    };
    Arc::clone(MODEL.get_or_init(open))
}

/// A backend that runs it.
pub fn cpu(context: usize) -> Box<dyn Backend> {
    let options = CpuOptions { threads: Some(2), context, ..CpuOptions::default() };
    Box::new(CpuBackend::open(Arc::clone(tiny().pack()), &options).unwrap())
}

/// A server on a free port, which ends in good order when it is dropped.
pub struct Running {
    pub address: std::net::SocketAddr,
    pub app: Arc<App>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    /// Starts one with the shipped model, greedy where a request does not say.
    pub fn start(change: impl FnOnce(&mut ServerOptions)) -> Running {
        Running::with(cpu(1024), change)
    }

    /// Starts one on a backend.
    pub fn with(backend: Box<dyn Backend>, change: impl FnOnce(&mut ServerOptions)) -> Running {
        let mut options = ServerOptions::new("tiny");
        options.address.set_port(0);
        options.sampling = Some(SamplingOptions::greedy());
        change(&mut options);
        let server = Server::bind(options, tiny(), backend).unwrap();
        let (address, app) = (server.address().unwrap(), Arc::clone(server.app()));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime
                .block_on(server.run(async {
                    let _ = stopped.await;
                }))
                .unwrap();
        });
        Running { address, app, stop: Some(stop), thread: Some(thread) }
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Asks and gives status and body.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let response = reqwest::Client::new().post(self.url(path)).json(body).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// Asks and gives status and body.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        let response = reqwest::Client::new().get(self.url(path)).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap())
    }

    /// The data of a stream of events.
    pub async fn stream(&self, path: &str, body: &Value) -> Vec<String> {
        let response = reqwest::Client::new().post(self.url(path)).json(body).send().await.unwrap();
        let status = response.status().as_u16();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let text = response.text().await.unwrap();
        assert_eq!((status, kind.as_str()), (200, "text/event-stream"), "{text}");
        text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    /// Asks the server to end.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits until nothing is answered any more, and every place has been given back.
    pub async fn idle(&self) {
        self.until(|app| app.queue.counts() == (0, 0) && app.queue.taken() == 0).await;
    }

    /// Waits until something is so.
    pub async fn until(&self, so: impl Fn(&App) -> bool) {
        while !so(&self.app) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}
