//! Why an operation cannot be run, or has no answer.

use crate::EngineError;
use crate::guided::GuidedError;

/// Why an operation was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// No operation has this name.
    #[error("there is no operation `{name}`: known are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// An operation that text alone cannot do.
    #[error("`{name}` is not supported by a text decoder: it needs {needs}")]
    Unsupported {
        /// The name.
        name: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// An option that the operation does not have.
    #[error("`{op}` has no option `{name}`: {known}")]
    Option {
        /// The operation.
        op: &'static str,
        /// The option.
        name: String,
        /// Those it has, in words.
        known: String,
    },
    /// An option without which there is nothing to do.
    #[error("`{op}` needs `{option}`: {about}")]
    Missing {
        /// The operation.
        op: &'static str,
        /// The option, or both where either would do.
        option: &'static str,
        /// What it means.
        about: &'static str,
    },
    /// A value that an option cannot have.
    #[error("`{value}` is not possible for `{option}` of `{op}`: {problem}")]
    Value {
        /// The operation.
        op: &'static str,
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Another number of texts.
    #[error("`{op}` takes {expected} text(s), {found} given")]
    Inputs {
        /// The operation.
        op: &'static str,
        /// Texts it takes.
        expected: usize,
        /// Texts it got.
        found: usize,
    },
    /// A text without anything in it.
    #[error("text {index} for `{op}` is empty: there is nothing to work on")]
    Empty {
        /// The operation.
        op: &'static str,
        /// Which text, from 1.
        index: usize,
    },
    /// A context that the prompt fills.
    #[error(
        "the context of {context} positions leaves {room} tokens for the text of `{op}`, at least {least} are needed: raise \
         the context or shorten the options"
    )]
    NoRoom {
        /// The operation.
        op: &'static str,
        /// Positions there are.
        context: usize,
        /// Tokens left for the text.
        room: usize,
        /// Tokens there have to be.
        least: usize,
    },
    /// An answer that is not in the form it has to be in, also not the second time.
    #[error("the model's answer to `{op}` is not {expected}: {answer}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// What it should be.
        expected: String,
        /// How the answer begins.
        answer: String,
    },
    /// An answer that was longer than it may be.
    #[error(
        "the model's answer to `{op}` did not end within {tokens} tokens; smaller pieces need shorter answers"
    )]
    Cut {
        /// The operation.
        op: &'static str,
        /// Tokens it had.
        tokens: usize,
    },
    /// Nothing that the model named stands in the text: it may hold what was to be taken out.
    #[error(
        "the model named {named} string(s) for `{op}`, and none is in the text: nothing could be taken out; smaller pieces \
         may help"
    )]
    NotInText {
        /// The operation.
        op: &'static str,
        /// Strings that the model named.
        named: usize,
    },
    /// It was cancelled. The session goes on.
    #[error("cancelled")]
    Cancelled,
    /// The schema of the answer cannot be followed.
    #[error(transparent)]
    Guided(#[from] GuidedError),
    /// The model could not be run.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
