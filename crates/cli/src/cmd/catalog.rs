//! The models of `rawloop serve --pull`: the hub's catalog and the packs of this machine, as the server asks for them.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rawloop_hub::{Catalog, Entry, Event, HubError, Kind, Pull, Settings, Store, free};
use rawloop_server::{CatalogModel, ModelState, PullProgress};

use crate::exit::Failure;

/// Catalog, packs and hub, and which of the models the server runs.
#[derive(Debug)]
pub struct Models {
    catalog: Catalog,
    store: Store,
    settings: Settings,
    loaded: Option<String>,
}

impl Models {
    /// With more models of a file. `model` is the text that named the loaded one.
    ///
    /// # Errors
    /// The file, or a setting of the environment.
    pub fn open(file: Option<&Path>, model: Option<&Path>) -> Result<Models, Failure> {
        let (catalog, store) = (Catalog::open(file)?, Store::user()?);
        // A file or folder of that name comes first.
        let name = model.filter(|path| !path.exists()).and_then(|path| path.to_str());
        let loaded = name.map(|name| {
            let id = name.to_ascii_lowercase();
            // A pack of its own name comes before what a name stands for.
            let meant = if store.installed(&id).is_some() { None } else { catalog.find(&id).ok() };
            meant.map_or(id, |entry| entry.id.clone())
        });
        Ok(Models { catalog, store, settings: Settings::from_env()?, loaded })
    }

    fn model(&self, id: &str, entry: Option<&Entry>) -> CatalogModel {
        let installed = self.store.installed(id).map(|(_, bytes)| bytes);
        let state = match installed {
            _ if self.loaded.as_deref() == Some(id) => ModelState::Loaded,
            Some(_) => ModelState::Ready,
            None => ModelState::Absent,
        };
        let name = entry.map(|entry| entry.name.clone()).filter(|name| !name.is_empty());
        CatalogModel {
            id: id.into(),
            name: name.unwrap_or_else(|| id.into()),
            state,
            bytes: installed.or_else(|| entry?.pack_bytes),
            note: entry.and_then(|entry| entry.note.clone()),
        }
    }
}

impl rawloop_server::Catalog for Models {
    fn models(&self) -> Vec<CatalogModel> {
        let entries = self.catalog.entries();
        let named = entries.iter().filter(|entry| entry.kind == Kind::Model);
        let mut models: Vec<CatalogModel> = named.map(|entry| self.model(&entry.id, Some(entry))).collect();
        // Pulled with a catalog that is not at hand now.
        let more = self.store.ids().into_iter().filter(|id| entries.iter().all(|entry| entry.id != *id));
        models.extend(more.map(|id| self.model(&id, None)));
        models
    }

    fn find(&self, name: &str) -> Result<CatalogModel, String> {
        let entry = self.catalog.find(name).map_err(|error| error.to_string())?;
        if entry.kind == Kind::Assistant {
            let model = self.catalog.model_of(&entry.id).map(|model| model.id.clone());
            return Err(HubError::Assistant { id: entry.id.clone(), model }.to_string());
        }
        Ok(self.model(&entry.id, Some(entry)))
    }

    fn pull(
        &self,
        id: &str,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(PullProgress),
    ) -> Result<(), String> {
        let pull = Pull {
            catalog: &self.catalog,
            store: &self.store,
            settings: &self.settings,
            assistant: true,
            revision: None,
            drop_checkpoint: false,
            free_space: free,
        };
        let mut progress = PullProgress::default();
        let told = &mut |event| {
            take(&mut progress, event);
            report(progress.clone());
        };
        pull.run(id, cancel, told).map(|_| ()).map_err(|error| error.to_string())
    }
}

/// Takes in what happened.
fn take(progress: &mut PullProgress, event: Event) {
    match event {
        Event::Waiting { what } => progress.status = format!("Waiting for somebody else who fetches {what}"),
        Event::Listed { bytes, missing, .. } => {
            *progress = PullProgress { status: "Fetching".into(), completed: bytes - missing, total: bytes };
        }
        Event::FromCache { reason } => progress.status = format!("Going on with what is here: {reason}"),
        Event::Checking { file } => progress.status = format!("Checking {file}"),
        Event::Fetching { file, .. } => progress.status = format!("Fetching {file}"),
        Event::Progress { done, .. } => progress.completed = done,
        Event::Restart { file, reason } => {
            progress.status = format!("Fetching {file} again, because {reason}")
        }
        Event::Retry { host, reason, wait, .. } => {
            progress.status = format!("{host}: {reason}; trying again in {:.0} s", wait.as_secs_f64().ceil());
        }
        Event::Converting { phase, bytes } => {
            *progress =
                PullProgress { status: format!("Converting: {}", phase.name()), completed: 0, total: bytes };
        }
        Event::Converted { bytes } => progress.completed += bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_progress() {
        let mut progress = PullProgress::default();
        let mut after = |event| {
            take(&mut progress, event);
            (progress.status.clone(), progress.completed, progress.total)
        };
        assert_eq!(after(Event::Listed { files: 2, bytes: 10, missing: 7 }), ("Fetching".into(), 3, 10));
        let fetching = Event::Fetching { file: "x".into(), bytes: 7, from: 0 };
        assert_eq!(after(fetching), ("Fetching x".into(), 3, 10));
        assert_eq!(after(Event::Progress { done: 8, total: 10 }), ("Fetching x".into(), 8, 10));
        let phase = rawloop_convert::Phase::Tensors;
        let name = format!("Converting: {}", phase.name());
        assert_eq!(after(Event::Converting { phase, bytes: 20 }), (name.clone(), 0, 20));
        after(Event::Converted { bytes: 5 });
        assert_eq!(after(Event::Converted { bytes: 6 }), (name, 11, 20));
    }
}
