//! `rawloop completions` and `rawloop man`: files made from the command line's own description.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell as Target;

use crate::args::{Args, CompletionsArgs, ManArgs, Shell};
use crate::exit::Failure;

/// Prints completions.
pub fn completions(args: CompletionsArgs) -> Result<(), Failure> {
    let shell = match args.shell {
        Shell::Bash => Target::Bash,
        Shell::Zsh => Target::Zsh,
        Shell::Fish => Target::Fish,
        Shell::Elvish => Target::Elvish,
        Shell::Powershell => Target::PowerShell,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "rawloop", &mut script);
    match std::io::stdout().lock().write_all(&script) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes `rawloop.1` and a page for every command that is not hidden.
pub fn man(args: ManArgs) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.folder)?;
    let mut command = Args::command();
    command.build();
    let write = |command: &clap::Command, name: &str| -> Result<(), Failure> {
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).title(name).render(&mut page)?;
        Ok(std::fs::write(args.folder.join(format!("{name}.1")), page)?)
    };
    write(&command, "rawloop")?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let name = format!("rawloop-{}", sub.get_name());
        write(sub, &name)?;
    }
    Ok(())
}
