//! The server: OpenAI's and Ollama's interfaces over one model, with several answers made in one pass.
//!
//! ```text
//! client -- http/ -- openai/, ollama/ -- work/: queue, workers -- engine's sessions -- batch/: one backend
//! ```
//!
//! From the bottom up: [`batch`] lets several requests use one backend and joins their steps; [`work`] has the queue and the
//! threads that run requests through the engine's ordinary sessions; [`http`] has connections, guards and streams; [`openai`] and
//! [`ollama`] translate. [`Server`] puts them together:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use rawloop_engine::{Model, backend::Backend};
//! use rawloop_server::{ServeError, Server, ServerOptions};
//!
//! fn serve(model: Arc<Model>, backend: Box<dyn Backend>) -> Result<(), ServeError> {
//!     let server = Server::bind(ServerOptions::new("gemma-4-e2b"), model, backend)?;
//!     println!("listening on http://{}", server.address()?);
//!     server.run_until_signalled()
//! }
//! ```
//!
//! Invariant: an answer is the same bytes as the same request's alone, whoever else is there.

#![forbid(unsafe_code)]

pub mod batch;
mod error;
pub mod http;
mod metrics;
pub mod ollama;
pub mod openai;
mod options;
mod web;
pub mod work;

pub use error::ApiError;
pub use http::{Catalog, CatalogModel, ModelState, PullProgress, ServeError, Server, openapi};
pub use options::ServerOptions;
