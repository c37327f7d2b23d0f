//! How wide the passes are that a step's columns ([`rawloop_backend::columns`]) are cut into.

/// Columns of one pass of the full program at most.
pub(crate) const FULL_COLUMNS: usize = 64;
/// Columns of one pass of the prefill program at most. Wider passes read weights less often and need larger buffers; at 512 the
/// weights of E2B's prefill layers are 0.6 MB a token.
pub(crate) const PREFILL_COLUMNS: usize = 512;
