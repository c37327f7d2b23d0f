//! `rawloop rm`: a pulled model goes.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use rawloop_hub::{Catalog, Event, Store, gigabytes};

use crate::args::RmArgs;
use crate::exit::Failure;
use crate::interrupt;
use crate::screen::note;

use super::print;

/// Asks and removes.
pub fn run(args: RmArgs) -> Result<(), Failure> {
    let catalog = Catalog::open(args.catalog.catalog.as_deref())?;
    let store = Store::user()?;
    let id = match (store.installed(&args.id), catalog.find(&args.id)) {
        (Some(_), _) => args.id.clone(),
        (None, Ok(entry)) => entry.id.clone(),
        (None, Err(_)) if store.record(&args.id).is_some() => args.id.clone(),
        (None, Err(error)) => return Err(error.into()),
    };
    let size = store.installed(&id).map(|(_, bytes)| bytes);
    if size.is_none() && store.record(&id).is_none() {
        return Err(Failure::input(format!("{id} is not on this machine")));
    }
    if !args.yes {
        confirm(&id, size, args.checkpoint)?;
    }
    let cancel = interrupt::install();
    let removed = store.remove(&id, args.checkpoint, cancel, &mut |event| {
        if let Event::Waiting { what } = event {
            note(format_args!("somebody else is fetching {what}: waiting"));
        }
    })?;
    let downloads = match removed.checkpoint_bytes {
        0 => String::new(),
        bytes => format!(", {} of downloads", gigabytes(bytes)),
    };
    print(&format!("{id}: removed, {}{downloads}", gigabytes(removed.pack_bytes)))
}

fn confirm(id: &str, size: Option<u64>, checkpoint: bool) -> Result<(), Failure> {
    if !stdin().is_terminal() {
        return Err(Failure::usage(format!("nobody can be asked whether {id} may be removed: give --yes")));
    }
    let size = size.map(|bytes| format!(" ({})", gigabytes(bytes))).unwrap_or_default();
    let downloads = if checkpoint { " and its downloads" } else { "" };
    let _ = write!(stderr(), "Remove {id}{size}{downloads}? [y/N] ");
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new(crate::exit::Code::Other, format!("{id} stays"))),
    }
}
