//! `rawloop list` and `rawloop info`: models by name, and what of them is here.

use rawloop_hub::{Catalog, Entry, Kind, Record, Repository, Settings, Store, gigabytes};
use rawloop_pack::Pack;
use serde_json::{Value, json};

use crate::args::{InfoArgs, ListArgs};
use crate::exit::Failure;

use super::{print, print_json};

/// What is here of a model.
struct State {
    pack_bytes: Option<u64>,
    checkpoint_bytes: u64,
}

impl State {
    fn of(id: &str, repository: Option<&str>, store: &Store, settings: &Settings) -> State {
        State {
            pack_bytes: store.installed(id).map(|(_, bytes)| bytes),
            checkpoint_bytes: repository
                .map_or(0, |repository| Repository::new(&settings.cache, repository).bytes()),
        }
    }

    fn words(&self) -> String {
        match (self.pack_bytes, self.checkpoint_bytes) {
            (Some(bytes), _) => format!("ready, {}", gigabytes(bytes)),
            (None, 0) => "-".into(),
            (None, bytes) => format!("downloads, {}", gigabytes(bytes)),
        }
    }

    fn json(&self) -> Value {
        json!({"ready": self.pack_bytes.is_some(), "pack_bytes": self.pack_bytes, "checkpoint_bytes": self.checkpoint_bytes})
    }
}

/// Lists.
pub fn list(args: ListArgs) -> Result<(), Failure> {
    let catalog = Catalog::open(args.catalog.catalog.as_deref())?;
    let (store, settings) = (Store::user()?, Settings::from_env()?);
    let mut rows: Vec<(String, String, String)> = Vec::new();
    let mut values = Vec::new();
    for entry in catalog.entries() {
        let state = State::of(&entry.id, Some(&entry.repository), &store, &settings);
        rows.push((entry.id.clone(), state.words(), entry.name.clone()));
        values.push(
            json!({"id": entry.id, "kind": entry.kind, "name": entry.name, "repository": entry.repository,
            "state": state.json()}),
        );
    }
    for (id, meant) in catalog.aliases() {
        rows.push((id.into(), "-".into(), format!("another name of {meant}")));
        values.push(json!({"id": id, "alias": meant}));
    }
    // Pulled with a catalog that is not at hand now.
    for id in store.ids() {
        if catalog.entries().iter().all(|entry| entry.id != id) {
            let state = State::of(&id, None, &store, &settings);
            let source = store.record(&id).and_then(|record| Some(record.parts.first()?.repository.clone()));
            rows.push((id.clone(), state.words(), source.clone().unwrap_or_default()));
            values.push(json!({"id": id, "repository": source, "state": state.json()}));
        }
    }
    if args.json {
        return print_json(&json!({"packs": store.folder(), "cache": settings.cache, "models": values}));
    }
    let width = |cell: fn(&(String, String, String)) -> &String| {
        rows.iter().map(|row| cell(row).len()).max().unwrap_or(0)
    };
    let (first, second) = (width(|row| &row.0), width(|row| &row.1));
    for (id, state, name) in &rows {
        print(&format!("{id:first$}  {state:second$}  {name}"))?;
    }
    Ok(())
}

/// Tells everything about one model.
pub fn info(args: InfoArgs) -> Result<(), Failure> {
    let catalog = Catalog::open(args.catalog.catalog.as_deref())?;
    let (store, settings) = (Store::user()?, Settings::from_env()?);
    let entry = match catalog.find(&args.id) {
        Ok(entry) => Some(entry),
        // A pack of another catalog's.
        Err(_) if store.installed(&args.id).is_some() => None,
        Err(error) => return Err(error.into()),
    };
    let id = entry.map_or(args.id.as_str(), |entry| &entry.id);
    let state = State::of(id, entry.map(|entry| entry.repository.as_str()), &store, &settings);
    let record = store.record(id);
    let pack = store.installed(id).map(|(path, _)| Pack::open(&path).map(|pack| (path, pack))).transpose()?;
    if args.json {
        let pack = pack.as_ref().map(|(path, pack)| {
            json!({"path": path, "model": pack.manifest().model, "provenance": pack.manifest().provenance,
                "drafter": pack.manifest().drafter.is_some()})
        });
        return print_json(
            &json!({"id": id, "entry": entry, "state": state.json(), "record": record, "pack": pack,
            "cache": settings.cache}),
        );
    }
    print(&describe(id, entry, &catalog, &state))?;
    if let Some((path, pack)) = &pack {
        let manifest = pack.manifest();
        let drafter = if manifest.drafter.is_some() { "with drafter" } else { "without drafter" };
        print(&line("pack", format!("{}, {drafter}", path.display())))?;
        print(&line("converted by", &manifest.provenance.converter))?;
        print(&line("credit", &manifest.provenance.credit))?;
    }
    for line in record.iter().flat_map(parts) {
        print(&line)?;
    }
    Ok(())
}

fn line(name: &str, value: impl std::fmt::Display) -> String {
    format!("  {name:13} {value}")
}

fn describe(id: &str, entry: Option<&Entry>, catalog: &Catalog, state: &State) -> String {
    let mut lines = vec![id.to_owned()];
    if let Some(entry) = entry {
        lines.push(line("what", &entry.name));
        let others: Vec<&str> =
            catalog.aliases().filter(|(_, meant)| *meant == id).map(|(name, _)| name).collect();
        if !others.is_empty() {
            lines.push(line("also called", others.join(", ")));
        }
        lines.push(line("repository", format!("{} at {}", entry.repository, entry.revision)));
        lines.push(line("licence", entry.license.as_deref().unwrap_or("unknown")));
        if let Some(assistant) = &entry.assistant {
            lines.push(line("drafter", assistant));
        }
        if entry.kind == Kind::Assistant {
            let model = catalog.model_of(id).map_or("a model", |model| &model.id);
            lines.push(line("drafter of", model));
        }
        if let Some(note) = &entry.note {
            lines.push(line("note", note));
        }
        if let Some(bytes) = entry.pack_bytes {
            lines.push(line("pack takes", gigabytes(bytes)));
        }
    }
    lines.push(line("here", state.words()));
    lines.join("\n")
}

fn parts(record: &Record) -> Vec<String> {
    let part = |part: &rawloop_hub::RecordedPart| {
        line(
            if record.converted { "made of" } else { "being fetched" },
            format!("{} at {}", part.repository, part.commit),
        )
    };
    record.parts.iter().map(part).collect()
}
