//! How a command fails: a message for a person and a code for a script.

use std::fmt::Display;
use std::process::ExitCode;

/// Documented in `rawloop --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Anything without a code of its own.
    Other = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// A file cannot be used: missing, truncated, of another kind.
    Input = 3,
    /// The prompt does not fit into the context.
    Context = 4,
    /// Ctrl-C.
    Interrupted = 130,
}

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    message: String,
}

impl Failure {
    /// A failure with its code.
    pub fn new(code: Code, message: impl Display) -> Self {
        Failure { code, message: message.to_string() }
    }

    /// A file cannot be used.
    pub fn input(message: impl Display) -> Self {
        Failure::new(Code::Input, message)
    }

    /// The command line makes no sense.
    pub fn usage(message: impl Display) -> Self {
        Failure::new(Code::Usage, message)
    }

    /// Ctrl-C.
    pub fn interrupted() -> Self {
        Failure::new(Code::Interrupted, "interrupted")
    }

    /// Prints the message and turns the code into the process's own.
    pub fn report(self) -> ExitCode {
        crate::screen::note(format_args!("error: {}", self.message));
        ExitCode::from(self.code as u8)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<rawloop_pack::PackError> for Failure {
    fn from(error: rawloop_pack::PackError) -> Self {
        Failure::input(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::new(Code::Other, error)
    }
}
