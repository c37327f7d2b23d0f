//! The native half of the Python package `rawloop`.
//!
//! Thin on purpose: options, messages and answers cross as JSON, and the Python half (`python/rawloop`) makes classes of them.
//! What has to be native is here: a model and its backend (`model`), conversations on it (`chat`), and answers that are
//! made on threads of their own and read through a `mailbox`.
//!
//! Two locks and how they never meet: the interpreter's lock is given up whenever a call waits or computes, and no lock of
//! this crate is held while Python code runs. So threads, signals and event loops of Python go on while a model runs, and a
//! tool that is a Python function runs on the thread that reads the answer.
//!
//! Reading order: `mailbox.rs`, `stream.rs`, `work.rs`, `chat.rs`, `model.rs`; then `settings.rs`, `answer.rs`, `shared.rs`.

mod answer;
mod chat;
mod failure;
mod mailbox;
mod model;
mod settings;
mod shared;
mod stream;
mod work;

/// The module `rawloop._native`.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::chat::Chat;
    #[pymodule_export]
    use crate::model::{Model, operations};
    #[pymodule_export]
    use crate::stream::Stream;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
