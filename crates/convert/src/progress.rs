//! How a conversion tells where it is.

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Headers and configuration are read and checked.
    Check,
    /// Tensors are read, laid out and written.
    Tensors,
    /// The rest of the source files is hashed.
    Hash,
    /// The manifest is written and the file is made durable.
    Finish,
}

impl Phase {
    /// One word for a progress line.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Check => "check",
            Phase::Tensors => "tensors",
            Phase::Hash => "hash",
            Phase::Finish => "finish",
        }
    }
}

/// Receiver of progress; `()` ignores it.
pub trait Progress {
    /// A phase begins. `bytes` is what it will handle, 0 where that is not known.
    fn phase(&mut self, phase: Phase, bytes: u64);
    /// `bytes` more are done.
    fn advance(&mut self, bytes: u64);
}

impl Progress for () {
    fn phase(&mut self, _: Phase, _: u64) {}
    fn advance(&mut self, _: u64) {}
}
