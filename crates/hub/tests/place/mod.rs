//! A machine with an empty cache and a hub with one repository.
//!
//! The entry is a drafter's, so nothing is converted and the files can be noise.

#![allow(dead_code)] // each test file uses a part of it

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rawloop_hub::{Catalog, Event, HubError, Outcome, Pull, Retry, Settings, Store};
use tempfile::TempDir;

use crate::support::{Act, Hub, Request, git, noise, sha256};

const CATALOG: &str = r#"{"version": 1, "models": [{"id": "data", "kind": "assistant", "repository": "me/data",
    "files": ["config.json", "model*.safetensors", "LICENSE?"]}]}"#;
/// Bytes of the weights.
pub const SIZE: usize = 300_000;

/// A hub, and a machine that pulls from it.
pub struct Place {
    pub hub: Hub,
    pub folder: TempDir,
    pub catalog: Catalog,
    pub settings: Settings,
    pub store: Store,
    pub weights: Vec<u8>,
    pub config: Vec<u8>,
}

/// A hub with one repository, and a machine with an empty cache.
pub fn place() -> Place {
    place_with(&[])
}

/// The same, with variables of the environment.
pub fn place_with(variables: &[(&str, &str)]) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("catalog.json");
    std::fs::write(&file, CATALOG).unwrap();
    let hub = Hub::start();
    let (weights, config) = (noise(1, SIZE), b"{\"a\": 1}".to_vec());
    hub.put(
        "me/data",
        'a',
        &[("model.safetensors", &weights), ("config.json", &config), ("unwanted.bin", b"x")],
    );
    let home = folder.path().join("hf");
    let find = |name: &str| {
        let given = variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        given.or_else(|| match name {
            "HF_HOME" => Some(home.clone().into()),
            "HF_ENDPOINT" => Some(hub.url.clone().into()),
            _ => None,
        })
    };
    let mut settings = Settings::new(find, None).unwrap();
    settings.retry = Retry {
        attempts: 4,
        first: Duration::from_millis(2),
        longest: Duration::from_millis(10),
        longest_asked: Duration::from_secs(5),
        stall: Duration::from_secs(600),
    };
    let store = Store::new(folder.path().join("packs"));
    Place { catalog: Catalog::open(Some(&file)).unwrap(), hub, folder, settings, store, weights, config }
}

impl Place {
    /// A pull into the usual folder.
    pub fn options(&self) -> Pull<'_> {
        Pull {
            catalog: &self.catalog,
            store: &self.store,
            settings: &self.settings,
            assistant: true,
            revision: None,
            drop_checkpoint: false,
            free_space: |_| Ok(1 << 40),
        }
    }

    /// A pull, and what it said.
    pub fn pull(&self) -> (Result<Outcome, HubError>, Vec<Event>) {
        let mut events = Vec::new();
        let never = AtomicBool::new(false);
        (self.options().run("data", &never, &mut |event| events.push(event)), events)
    }

    /// A pull that has to work, and whose files have to be right.
    #[track_caller]
    pub fn pulled(&self) -> (Outcome, Vec<Event>) {
        let (outcome, events) = self.pull();
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}\n{events:?}"));
        let snapshot = self.repository().join("snapshots").join("a".repeat(40));
        assert_eq!(outcome.checkpoint.as_ref(), Some(&snapshot));
        assert!(std::fs::read(snapshot.join("model.safetensors")).unwrap() == self.weights);
        assert_eq!(std::fs::read(snapshot.join("config.json")).unwrap(), self.config);
        let mut expected = [git(&self.config), sha256(&self.weights)];
        expected.sort();
        assert_eq!(self.blobs(), expected);
        (outcome, events)
    }

    /// A pull that must fail, with words that help, and without a finished file of weights.
    #[track_caller]
    pub fn refused(&self, words: &[&str]) -> HubError {
        let (outcome, events) = self.pull();
        let error = outcome.map(|_| ()).expect_err("it worked");
        let message = error.to_string();
        for word in words {
            assert!(message.contains(word), "{word:?} is not in {message:?}\n{events:?}");
        }
        assert!(!self.blobs().contains(&sha256(&self.weights)));
        error
    }

    /// Its folder in the cache.
    pub fn repository(&self) -> PathBuf {
        self.folder.path().join("hf/hub/models--me--data")
    }

    /// Where the weights lie until there are all of them.
    pub fn partial(&self) -> PathBuf {
        self.repository().join("blobs").join(sha256(&self.weights) + ".incomplete")
    }

    /// Names of the files that hold bytes, sorted.
    pub fn blobs(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.repository().join("blobs")).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// As [`Place::refused`], where the files are here already.
    #[track_caller]
    pub fn refused_anyway(&self, words: &[&str]) {
        let message = self.pull().0.map(|_| ()).expect_err("it worked").to_string();
        words.iter().for_each(|word| assert!(message.contains(word), "{message}"));
    }
}

/// Spoils the first `count` requests for the weights at the content server.
pub fn weights(count: usize, act: Act) -> impl FnMut(&Request) -> Option<Act> + Send + 'static {
    let mut left = count;
    move |request| {
        let hit = request.content && left > 0;
        left -= usize::from(hit);
        hit.then(|| act.clone())
    }
}

/// How often a download began again.
pub fn restarts(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Restart { .. })).count()
}
