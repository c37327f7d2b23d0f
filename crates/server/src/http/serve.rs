//! Listening, and ending in good order.
//!
//! A connection has bounds of its own: its number, the time and size of its headers. When the server is asked to stop it lets
//! nobody in any more and lets answers go on for the grace time; what is left then ends with an error that says why, and a stream
//! ends as a stream does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rawloop_engine::Model;
use rawloop_engine::backend::Backend;
use rawloop_engine::guided::SharedEnvironment;
use rawloop_engine::sequence::{PoolOptions, PrefixPool, SNAPSHOT_BUDGET, SharedPool};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use super::guard::Peer;
use super::{App, Stage, now, router};
use crate::batch::{Batch, BatchOptions, PROMPT_MOST};
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::work::{Core, Plans, Queue, Task, Workers, start};

/// Time for the headers of a request.
const HEADERS: Duration = Duration::from_secs(10);
/// Headers of a request, and their bytes.
const MOST_HEADERS: usize = 64;
const HEADER_BYTES: usize = 32 << 10;
/// Threads for what takes longer than a token ([`super::aside`]).
const BESIDE: usize = 4;
/// Time that connections have to be written out once every answer has ended.
const LAST: Duration = Duration::from_secs(2);

/// Why a server does not begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Everybody in the network could use it.
    #[error(
        "{0} can be reached from other machines: give an --api-key, or say --insecure-no-api-key where everybody may use it"
    )]
    Open(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, std::io::Error),
    /// The system gives no threads.
    #[error("the server cannot begin: {0}")]
    System(#[from] std::io::Error),
}

/// A server that listens. See the module documentation.
pub struct Server {
    app: Arc<App>,
    listener: std::net::TcpListener,
    workers: Workers,
}

impl Server {
    /// Starts the threads that answer, and listens. Nobody is served before [`Server::run`].
    ///
    /// # Errors
    /// An address that is open to everybody, or that cannot be had; no threads.
    pub fn bind(
        options: ServerOptions,
        model: Arc<Model>,
        backend: Box<dyn Backend>,
    ) -> Result<Server, ServeError> {
        let address = options.address;
        if !options.is_local() && options.keys.is_empty() && !options.open {
            return Err(ServeError::Open(address));
        }
        let listener =
            std::net::TcpListener::bind(address).map_err(|error| ServeError::Bind(address, error))?;
        listener.set_nonblocking(true)?;
        let cost = backend.info().cost;
        let pool = PoolOptions { snapshots: SNAPSHOT_BUDGET, budget: options.cache_budget, cost };
        let environment = SharedEnvironment::new(model.tokenizer().clone());
        // Tools and schemas need it, and it takes a second of the released vocabulary.
        environment.start();
        // A step has room for a chunk of the size that somebody asks for.
        let most = options.chunk.map(|chunk| chunk.max(PROMPT_MOST));
        let joins = BatchOptions { prompt_most: options.batch.prompt_most.or(most), ..options.batch };
        let core = Arc::new(Core {
            batch: Batch::start(backend, joins)?,
            pool: SharedPool::new(PrefixPool::new(pool)),
            plans: Plans::default(),
            environment,
            model,
        });
        let queue: Arc<Queue<Task>> = Arc::new(Queue::new(options.parallel, options.waiting));
        let workers = start(&core, &queue, options.parallel)?;
        let (stage, _) = watch::channel(Stage::Serving);
        let metrics = Metrics::default();
        let app =
            Arc::new(App { options, core, queue, metrics, created: now(), stage, pulls: Arc::default() });
        Ok(Server { app, listener, workers })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What handlers see: for numbers.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Serves until `stop` is ready, then ends in good order.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Server { app, listener, workers } = self;
        let listener = TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(app.options.connections));
        let router = router(Arc::clone(&app));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .max_headers(MOST_HEADERS)
            .max_buf_size(HEADER_BYTES);
        let graceful = GracefulShutdown::new();
        tokio::pin!(stop);
        loop {
            // Who finds no place waits in the system's own line.
            let accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                accepted = accepted => accepted,
                () = &mut stop => break,
            };
            let Ok((stream, peer)) = accepted else {
                // Too many open files, or a connection that has gone: neither is the end.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            // Tokens are small and should leave at once.
            let _ = stream.set_nodelay(true);
            let router = router.clone();
            let service = service_fn(move |mut request: hyper::Request<Incoming>| {
                request.extensions_mut().insert(Peer(peer));
                router.clone().oneshot(request.map(Body::new))
            });
            let watched = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
            tokio::spawn(async move {
                // A client that breaks off is no failure of the server.
                let _ = watched.await;
                drop(place);
            });
        }
        drop(listener);
        app.stage.send_replace(Stage::Closing);
        app.pulls.stop();
        let ended = graceful.shutdown();
        tokio::pin!(ended);
        if tokio::time::timeout(app.options.grace, &mut ended).await.is_err() {
            app.stage.send_replace(Stage::Ending);
            let _ = tokio::time::timeout(LAST, &mut ended).await;
        }
        app.stage.send_replace(Stage::Ending);
        // Their answers have been told to end, one token or one chunk ago.
        let _ = tokio::task::spawn_blocking(move || drop(workers)).await;
        Ok(())
    }

    /// Serves on threads of its own until the process is told to end (Ctrl-C, SIGTERM).
    ///
    /// # Errors
    /// As [`Server::run`].
    pub fn run_until_signalled(self) -> Result<(), ServeError> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        // What runs beside the streams takes processor time: more threads would not make it faster.
        let runtime = runtime.worker_threads(2).max_blocking_threads(BESIDE).enable_all().build()?;
        let result = runtime.block_on(self.run(signalled()));
        runtime.shutdown_timeout(Duration::from_millis(100));
        result
    }
}

/// Ready when the process is told to end. A second time ends it at once.
async fn signalled() {
    first_signal().await;
    tokio::spawn(async {
        first_signal().await;
        std::process::exit(130);
    });
}

#[cfg(unix)]
async fn first_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

#[cfg(not(unix))]
async fn first_signal() {
    drop(tokio::signal::ctrl_c().await);
}
