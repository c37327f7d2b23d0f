//! The backend against the reference, on a card. Where there is no driver every test says so and passes: there is nothing to compare.

mod decodes;
mod drafts;
mod draws;
mod layer_attention;
mod long;
mod models;
mod prompts;
mod rewinds;
mod several;
mod short;
mod steps;
mod taps;
mod trials;
