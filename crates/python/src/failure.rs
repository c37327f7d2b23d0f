//! What went wrong, as the Python half names it.
//!
//! The classes are Python's (`python/rawloop/errors.py`), so that they can have two bases and a docstring each; here they
//! are names.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rawloop_engine::EngineError;
use rawloop_engine::backend::BackendError;
use rawloop_engine::guided::GuidedError;
use rawloop_engine::ops::OpError;

/// A message and the name of its class.
#[derive(Clone, Debug)]
pub struct Failure {
    pub class: &'static str,
    pub message: String,
}

impl Failure {
    pub fn new(class: &'static str, message: impl ToString) -> Failure {
        Failure { class, message: message.to_string() }
    }

    pub fn option(message: impl ToString) -> Failure {
        Failure::new("OptionError", message)
    }

    pub fn model(message: impl ToString) -> Failure {
        Failure::new("ModelError", message)
    }

    pub fn messages(message: impl ToString) -> Failure {
        Failure::new("MessageError", message)
    }

    pub fn busy() -> Failure {
        EngineError::Busy.into()
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        let class = match &error {
            EngineError::Backend(inner) => return inner.clone().into(),
            EngineError::Guided(inner) => return inner.clone().into(),
            EngineError::Option(_) | EngineError::Chunk | EngineError::Token { .. } => "OptionError",
            EngineError::Chat(_) | EngineError::EmptyPrompt | EngineError::NoSuchTurn { .. } => {
                "MessageError"
            }
            EngineError::Context { .. } => "ContextError",
            EngineError::Busy => "BusyError",
            EngineError::SessionFile(_) => "SessionFileError",
            EngineError::Pack(_)
            | EngineError::UnknownModel { .. }
            | EngineError::NoTokenizer { .. }
            | EngineError::Tokenizer { .. }
            | EngineError::Vocabulary { .. }
            | EngineError::ControlToken { .. }
            | EngineError::TestPrompt { .. } => "ModelError",
            _ => "BackendError",
        };
        Failure::new(class, error)
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Failure {
        let class =
            if matches!(error, BackendError::ContextFull { .. }) { "ContextError" } else { "BackendError" };
        Failure::new(class, error)
    }
}

impl From<GuidedError> for Failure {
    fn from(error: GuidedError) -> Failure {
        let class = match error {
            GuidedError::Failed(_) | GuidedError::Tokenizer(_) => "BackendError",
            _ => "SchemaError",
        };
        Failure::new(class, error)
    }
}

impl From<OpError> for Failure {
    fn from(error: OpError) -> Failure {
        let class = match error {
            OpError::Engine(inner) => return inner.into(),
            OpError::Guided(inner) => return inner.into(),
            OpError::Cancelled => "CancelledError",
            OpError::NoRoom { .. } => "ContextError",
            OpError::Shape { .. } | OpError::Cut { .. } => "AnswerError",
            _ => "OptionError",
        };
        Failure::new(class, error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        Python::attach(|py| {
            let raised = py
                .import("rawloop.errors")
                .and_then(|errors| errors.getattr(failure.class))
                .and_then(|class| class.call1((failure.message.as_str(),)));
            match raised {
                Ok(error) => PyErr::from_value(error),
                // The native module without its package.
                Err(_) => PyRuntimeError::new_err(failure.message),
            }
        })
    }
}
