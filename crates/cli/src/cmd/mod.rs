//! One file a command.

mod batch;
mod bench;
mod catalog;
mod chat;
mod compare;
pub mod convert;
mod doctor;
mod eval;
mod gate;
mod generate;
mod generated;
mod inspect;
mod list;
mod op;
mod pull;
mod rm;
mod run;
mod serve;
mod synth;
mod tool;
mod verify;

use crate::args::{Args, Command};
use crate::exit::Failure;

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Chat(args) => chat::run(args),
        Command::Run(args) => run::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Op(args) => op::run(args),
        Command::Pull(args) => pull::run(args),
        Command::List(args) => list::list(args),
        Command::Info(args) => list::info(args),
        Command::Rm(args) => rm::run(args),
        Command::Batch(args) => batch::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Synth(args) => synth::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Eval(args) => eval::run(args),
        Command::Gate(args) => gate::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Completions(args) => generated::completions(args),
        Command::Man(args) => generated::man(args),
    }
}

/// Prints a value as indented JSON on stdout.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::new(crate::exit::Code::Other, e))?;
    print(&text)
}

/// Prints a line on stdout. A reader that has gone (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
