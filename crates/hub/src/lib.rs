//! Models by name: `gemma-4-e2b` instead of a repository, a download and a conversion.
//!
//! [`Catalog`] says what names mean, [`Pull`] fetches and converts, [`Store`] is the folder of finished packs. Downloads go into
//! the cache that Python's library keeps, so neither fetches what the other has.
//!
//! Invariants: no file gets its name before its hash was compared; every state that a killed program leaves is one that the
//! next attempt goes on from; the token goes to the hub's origin (and only a given one to a mirror) and into no message; names from the network never become
//! paths unchecked.
//!
//! The hub's own Rust library is not used: its plain path neither resumes nor checks (docs/adr/0006-hub-client.md).
//!
//! Reading order: `catalog`, `listing` (what the hub says), `transfer` (one file), `pull` (all of it), `store`.

mod cache;
mod catalog;
mod checksum;
mod client;
mod error;
mod event;
mod listing;
mod lock;
mod pull;
mod retry;
mod settings;
mod space;
mod store;
mod transfer;

pub use cache::Repository;
pub use catalog::{Catalog, Entry, Kind, is_id};
pub use checksum::Checksum;
pub use error::{HubError, TokenUse, gigabytes};
pub use event::Event;
pub use listing::{Listing, RemoteFile};
pub use lock::TryLock;
pub use pull::{Outcome, Part, Plan, PlannedFile, Pull};
pub use settings::{Retry, Settings, Token};
pub use space::free;
pub use store::{Fetched, PACKS_VARIABLE, Record, RecordedFile, RecordedPart, Removed, Store};
