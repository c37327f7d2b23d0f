//! The engine: everything between a backend that knows ids and a person who knows text.
//!
//! [`backend`] is the seam to the crates that run the model. No file format and no kernel in here.
//!
//! From the bottom up: a [`sequence::Sequence`] mirrors one KV cache and finds what of a prompt it holds already;
//! [`mod@generate`] runs a prompt and picks tokens with [`sample`]; a [`session::Session`] adds text, stop strings and one
//! backend; a [`conversation::Chat`] adds turns, rendered and parsed by [`chat`]. [`model`] is what they need of a pack, [`fake`] a
//! backend for tests of all of it.

pub mod backend;
pub mod chat;
pub mod conversation;
pub mod fake;
pub mod generate;
pub mod model;
pub mod sample;
pub mod sequence;
pub mod session;
pub mod text;

mod error;

pub use conversation::{Chat, ChatEvent, ChatOptions, Turn};
pub use error::EngineError;
pub use generate::{Finish, Timings};
pub use model::{Engine, Model};
pub use sample::SamplingOptions;
pub use session::{Answer, Event, GenerateOptions, Session};
