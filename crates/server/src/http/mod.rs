//! From connections to handlers: who may ask, what a request may hold, how an answer travels.
//!
//! Files: `app.rs` is what handlers share, `router.rs` the table of paths, `guard.rs` decides who may ask, `extract.rs` reads
//! bodies, `answering.rs` follows an answer, `stream.rs` sends one as it comes, `catalog.rs` lists models and
//! fetches one, `serve.rs` listens and ends in good order.

mod answering;
mod app;
mod catalog;
mod extract;
mod guard;
mod router;
mod serve;
mod stream;

pub use answering::Answering;
pub use app::{Admission, App, Client, Stage, aside, fresh_seed, now, unique};
pub use catalog::{Catalog, CatalogModel, ModelState, PullProgress, PullRequest, Pulls};
pub use extract::Json;
pub use router::{openapi, router};
pub use serve::{ServeError, Server};
pub use stream::{Encoder, Line, ndjson, sse};
