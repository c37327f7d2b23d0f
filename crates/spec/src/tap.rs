//! Taps: what a stage leaves behind, handed to whoever wants to compare.
//!
//! Every backend and the reference call the same sink with the same names at the same stage boundaries, so that the first
//! stage at which two of them differ can be found without knowing how either works.

/// A value at a stage boundary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TapValue<'a> {
    /// int8 codes.
    Codes(&'a [i8]),
    /// f32 values.
    Floats(&'a [f32]),
    /// Stored bytes (KV rows).
    Bytes(&'a [u8]),
    /// A token id.
    Token(u32),
}

/// Receives the values of one run.
pub trait TapSink {
    /// `stage` indexes [`crate::Program::stages`]; `position` is the token's absolute position.
    fn tap(&mut self, stage: usize, position: usize, name: &'static str, value: TapValue);

    /// Whether values of this stage are wanted; false saves the work of making them.
    fn wants(&self, _stage: usize) -> bool {
        true
    }
}

/// A sink that wants nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTap;

impl TapSink for NoTap {
    fn tap(&mut self, _: usize, _: usize, _: &'static str, _: TapValue) {}

    fn wants(&self, _: usize) -> bool {
        false
    }
}
