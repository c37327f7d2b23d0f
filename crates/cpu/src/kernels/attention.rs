//! What attention kernels read and write: rows of keys or values in the KV cache's format, and a softmax in progress.

/// Keys or values of one KV head, row after row of `dim` elements, in the format of the KV cache (rule 12).
#[derive(Clone, Copy, Debug)]
pub enum KvRows<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Half precision bits.
    F16(&'a [u16]),
    /// Codes, and a scale for each row.
    I8 {
        /// `[rows x dim]` codes.
        codes: &'a [i8],
        /// One scale a row.
        scales: &'a [f32],
    },
}

impl<'a> KvRows<'a> {
    /// Number of rows.
    pub fn count(&self, dim: usize) -> usize {
        match self {
            KvRows::F32(values) => values.len() / dim,
            KvRows::F16(values) => values.len() / dim,
            KvRows::I8 { codes, .. } => codes.len() / dim,
        }
    }

    /// The rows `first .. first + count`.
    ///
    /// # Panics
    /// If they end beyond the data.
    pub fn rows(self, dim: usize, first: usize, count: usize) -> KvRows<'a> {
        let range = first * dim..(first + count) * dim;
        match self {
            KvRows::F32(values) => KvRows::F32(&values[range]),
            KvRows::F16(values) => KvRows::F16(&values[range]),
            KvRows::I8 { codes, scales } => {
                KvRows::I8 { codes: &codes[range], scales: &scales[first..first + count] }
            }
        }
    }

    /// Whether the data is whole rows of `dim`, with a scale each where the format has scales.
    pub(crate) fn is_whole(&self, dim: usize) -> bool {
        match self {
            KvRows::F32(values) => values.len().is_multiple_of(dim),
            KvRows::F16(values) => values.len().is_multiple_of(dim),
            KvRows::I8 { codes, scales } => codes.len() == scales.len() * dim,
        }
    }
}

/// A softmax in progress for some query heads of one token: what the blocks of keys so far have given.
#[derive(Clone, Debug, Default)]
pub struct AttentionState {
    dim: usize,
    blocks: usize,
    max: Vec<f32>,
    sum: Vec<f32>,
    weighted: Vec<f32>,
}

/// Mutable parts of a state: maxima and sums `[heads]`, weighted values `[heads x dim]`.
pub(crate) struct PartialMut<'a> {
    pub(crate) max: &'a mut [f32],
    pub(crate) sum: &'a mut [f32],
    pub(crate) weighted: &'a mut [f32],
}

impl AttentionState {
    /// Starts anew for `heads` heads of `dim` values. Allocates only where it was never as large before.
    pub fn reset(&mut self, heads: usize, dim: usize) {
        self.dim = dim;
        self.blocks = 0;
        self.max.resize(heads, 0.0);
        self.sum.resize(heads, 0.0);
        self.weighted.resize(heads * dim, 0.0);
    }

    /// Blocks merged so far.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Number of query heads.
    pub fn heads(&self) -> usize {
        self.max.len()
    }

    /// Values of a head.
    pub fn dim(&self) -> usize {
        self.dim
    }

    pub(crate) fn set_blocks(&mut self, blocks: usize) {
        self.blocks = blocks;
    }

    pub(crate) fn sums(&self) -> &[f32] {
        &self.sum
    }

    pub(crate) fn weighted(&self) -> &[f32] {
        &self.weighted
    }

    pub(crate) fn parts(&mut self) -> PartialMut<'_> {
        PartialMut { max: &mut self.max, sum: &mut self.sum, weighted: &mut self.weighted }
    }
}
