//! The engine: everything between a backend that knows ids and a person who knows text.
//!
//! [`backend`] is the seam to the crates that run the model. No file format and no kernel in here.
//!
//! From the bottom up: a [`sequence::Sequence`] mirrors one KV cache and finds what of a prompt it holds already;
//! [`mod@generate`] runs a prompt and picks tokens with [`sample`], several at a time with [`speculate`]; a [`session::Session`] adds
//! text, stop strings and one backend; a [`ChatSession`] adds turns, rendered and parsed by [`chat`]. [`model`] is what they need of a pack, [`fake`] a
//! backend for tests of all of it. Beside them, [`guided`] holds an answer to a grammar and [`tools`] calls to their schemas.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::{Arc, atomic::AtomicBool};
//!
//! use rawloop_engine::backend::Backend;
//! use rawloop_engine::{ChatEvent, ChatSession, EngineError};
//! use rawloop_engine::model::ModelSource;
//! use rawloop_pack::Pack;
//!
//! fn converse(backend: fn(&Arc<Pack>) -> Result<Box<dyn Backend>, EngineError>) -> Result<(), EngineError> {
//!     let source = ModelSource::Path("e2b.rlp".into());
//!     let chat = ChatSession::open(&source, |_| None, backend, 512)?;
//!     // Set it from another thread to stop the answer.
//!     let cancel = AtomicBool::new(false);
//!     let turn = chat.respond("Why is the sky blue?", &cancel, &mut |event| {
//!         if let ChatEvent::Text(text) = event {
//!             print!("{text}");
//!         }
//!         ControlFlow::Continue(())
//!     })?;
//!     println!("\n{:.1} tokens/s", turn.timings.decode_rate());
//!     Ok(())
//! }
//! ```

pub use rawloop_backend as backend;
pub mod chat;
pub mod conversation;
pub mod fake;
pub mod file_lock;
pub mod generate;
pub mod guided;
pub mod model;
pub mod ops;
pub mod sample;
pub mod sequence;
pub mod session;
pub mod speculate;
pub mod text;
pub mod tools;

mod error;
mod repetition;

pub use conversation::{ChatEvent, ChatOptions, ChatSession, Turn};
pub use error::EngineError;
pub use generate::{Finish, Timings};
pub use model::{Engine, Model, ModelSource};
pub use sample::SamplingOptions;
pub use session::{Answer, Event, GenerateOptions, Session};
pub use speculate::Draft;
