//! Turns on top of a session: messages in, answers out, history kept.
//!
//! Each turn renders the whole history and hands it to the session, which prefills only what its caches do not hold; so the
//! history is the only state, and a conversation that is rebuilt from its messages answers as the grown one does. That is what
//! makes editing, forking and storing simple: none of them has a cache to care for.
//!
//! What happens to the history:
//!
//! - An answer joins it as the user saw it: without control tokens; thoughts are kept beside the text and come back into a
//!   prompt only while a tool call is open.
//! - A cancelled answer joins it as far as it was shown. If nothing of it was shown, the turn is taken back, question
//!   included.
//! - A failed turn is taken back, unless calls were run in it: then they stay, with their results.
//! - A call that never got a result gets one that says so before the next question: a prompt with an open call would ask the
//!   model to invent it.
//!
//! Files: `turn.rs` runs one turn, `history.rs` knows where turns begin and end, `gate.rs` lets one turn at a time through,
//! `chat_session.rs` is what callers hold, `stream.rs` answers on another thread, `tool_turn.rs` goes on until there is an answer and `run_calls.rs` runs its calls,
//! `saved.rs` says what is stored of a conversation, `session_file.rs` has the file to itself.

mod chat_session;
mod gate;
mod history;
mod run_calls;
mod saved;
mod session_file;
mod stream;
mod tool_turn;
mod turn;

pub use chat_session::{ChatSession, TokenCounts, Totals};
pub use history::turns;
pub use saved::{SavedChat, SavedModel, SessionFileError};
pub use session_file::SessionFile;
pub use stream::{ResponseStream, StreamEvent};
pub use tool_turn::{Approval, ToolSettings, ToolTurn, Watch};
pub use turn::{ChatEvent, ChatOptions, Turn};
