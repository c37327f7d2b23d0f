//! The backend against the reference, on a card. Where there is no driver every test says so and passes: there is nothing to compare.

mod decodes;
mod models;
mod rewinds;
mod steps;
mod taps;
