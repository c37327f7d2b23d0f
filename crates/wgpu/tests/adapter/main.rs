//! The backend against the reference, on every adapter there is. Where there is none every test says so and passes: there is nothing to
//! compare. scripts/check-wgpu.sh brings software adapters.

mod decodes;
mod models;
mod rewinds;
mod steps;
mod taps;
