//! The CPU backend against the reference, and against itself in every other grouping of the same tokens. Equality only.

mod batches;
mod chunks;
mod drafts;
mod errors;
mod models;
mod rewind;
mod tables;
mod taps;
mod verify;
