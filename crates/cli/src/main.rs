//! The `rawloop` program: glue between the command line and the crates that do the work.
//!
//! `args.rs` is the whole command line as data, `cmd/` has one file a command, `exit.rs` says which failure ends with which
//! code. Text a script reads goes to stdout, everything else to stderr.

mod answer;
mod args;
mod cmd;
mod exit;
mod input;
mod interrupt;
mod machine;
mod model;
mod progress;
mod questions;
mod run;
mod screen;

use clap::Parser;

fn main() -> std::process::ExitCode {
    let args = args::Args::parse();
    match cmd::run(args) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
