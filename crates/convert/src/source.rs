//! Where tensors in checkpoint layout come from: a checkpoint's files, or a generator.
//!
//! The converter sees only this trait, so a synthetic pack and the conversion of a synthetic checkpoint are the same bytes
//! by construction.

use std::path::Path;

use safetensors::tensor::Dtype;

use crate::error::ConvertError;

/// What a tensor is stored as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Element type.
    pub dtype: Dtype,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// Stored bytes.
    pub bytes: u64,
}

/// A set of named tensors in checkpoint layout; read from several threads at once.
pub trait TensorSource: Sync {
    /// The folder or a label, for messages.
    fn label(&self) -> &Path;
    /// Every tensor, in ascending order.
    fn names(&self) -> Vec<String>;
    /// What a tensor is, if it is there.
    fn describe(&self, name: &str) -> Option<Description>;
    /// The file a tensor lies in, for messages.
    fn file_of(&self, name: &str) -> &Path;
    /// Reads `target.len()` bytes of a tensor from `first_byte` on, a multiple of the tensor's row bytes.
    ///
    /// # Errors
    /// No such tensor, bytes beyond its end, or the file cannot be read.
    fn read(&self, name: &str, first_byte: u64, target: &mut [u8]) -> Result<(), ConvertError>;
}
