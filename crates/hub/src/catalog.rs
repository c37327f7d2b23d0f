//! Which models have names: a data file in the program, and the user's own on top.
//!
//! An entry says where the checkpoint lies and which of its files are needed; a model names its drafter, an alias another
//! entry. A file pattern has at most one `*` and ends with `?` where the repository may do without it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::HubError;

const EMBEDDED: &str = include_str!("../catalog.json");

/// Layout of the catalog file that this program reads.
const VERSION: u32 = 1;

/// What an entry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A model that runs alone.
    #[default]
    Model,
    /// A drafter, which becomes part of its model's pack.
    Assistant,
}

/// A model's source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name people type.
    pub id: String,
    /// Model or drafter.
    #[serde(default)]
    pub kind: Kind,
    /// One line for listings.
    #[serde(default)]
    pub name: String,
    /// Repository, `organisation/name`.
    pub repository: String,
    /// Branch, tag or commit.
    #[serde(default = "main_branch")]
    pub revision: String,
    /// Patterns of the files that are needed.
    pub files: Vec<String>,
    /// Id of the drafter that joins the pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant: Option<String>,
    /// SPDX expression of the licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Anything to know before: terms to accept, for instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Size of the pack, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_bytes: Option<u64>,
}

fn main_branch() -> String {
    "main".into()
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Alias {
    id: String,
    alias: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    models: Vec<serde_json::Value>,
}

/// Every model with a name.
#[derive(Clone, Debug)]
pub struct Catalog {
    entries: Vec<Entry>,
    aliases: Vec<Alias>,
}

impl Catalog {
    /// The catalog of this program, with the entries of a file over and after its own.
    ///
    /// # Errors
    /// The file cannot be read, or an entry makes no sense.
    pub fn open(file: Option<&Path>) -> Result<Catalog, HubError> {
        let mut catalog = Catalog { entries: Vec::new(), aliases: Vec::new() };
        catalog.add(Path::new("the catalog in this program"), EMBEDDED)?;
        if let Some(file) = file {
            let text = std::fs::read_to_string(file).map_err(HubError::io(file, "read"))?;
            catalog.add(file, &text)?;
        }
        catalog.check(file.unwrap_or(Path::new("the catalog in this program")))?;
        Ok(catalog)
    }

    /// The entries, aliases apart.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Other names and what they stand for.
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.aliases.iter().map(|alias| (alias.id.as_str(), alias.alias.as_str()))
    }

    /// The entry of a name or of another name for it.
    ///
    /// # Errors
    /// There is none; the error names similar ones.
    pub fn find(&self, id: &str) -> Result<&Entry, HubError> {
        let id = id.to_ascii_lowercase();
        let meant = self.aliases.iter().find(|alias| alias.id == id).map_or(&id, |alias| &alias.alias);
        self.entries
            .iter()
            .find(|entry| entry.id == *meant)
            .ok_or_else(|| HubError::UnknownModel { near: self.near(&id, &[]), id: id.clone() })
    }

    /// Names like `id`, best first, at most three; `more` are names that the catalog does not have.
    pub fn near(&self, id: &str, more: &[String]) -> Vec<String> {
        let names =
            self.entries.iter().map(|entry| &entry.id).chain(self.aliases.iter().map(|alias| &alias.id));
        let mut scored: Vec<(f64, &String)> = names
            .chain(more)
            .map(|name| (strsim::jaro_winkler(name, id), name))
            .filter(|(score, name)| *score > 0.75 || name.contains(id))
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        scored.dedup_by(|a, b| a.1 == b.1);
        scored.into_iter().take(3).map(|(_, name)| name.clone()).collect()
    }

    /// The model whose drafter this is.
    pub fn model_of(&self, assistant: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.assistant.as_deref() == Some(assistant))
    }

    fn add(&mut self, file: &Path, text: &str) -> Result<(), HubError> {
        let refuse = |reason: String| HubError::Catalog { file: file.into(), reason };
        let document: Document = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
        if document.version != VERSION {
            return Err(refuse(format!("version is {}, expected {VERSION}", document.version)));
        }
        for (index, value) in document.models.into_iter().enumerate() {
            let place = |error: String| refuse(format!("models[{index}]: {error}"));
            let id = value["id"].as_str().unwrap_or_default().to_owned();
            if !is_id(&id) {
                let reason = format!(
                    "id is {id:?}, expected lower-case letters, digits, '-', '_' and '.', a letter or digit first"
                );
                return Err(place(reason));
            }
            self.entries.retain(|entry| entry.id != id);
            self.aliases.retain(|alias| alias.id != id);
            if value.get("alias").is_some() {
                self.aliases.push(serde_json::from_value(value).map_err(|error| place(error.to_string()))?);
            } else {
                let entry: Entry = serde_json::from_value(value).map_err(|error| place(error.to_string()))?;
                check_entry(&entry).map_err(place)?;
                self.entries.push(entry);
            }
        }
        Ok(())
    }

    /// Whether every reference leads somewhere.
    fn check(&self, file: &Path) -> Result<(), HubError> {
        let find = |id: &str| self.entries.iter().find(|entry| entry.id == id);
        let refuse = |reason: String| Err(HubError::Catalog { file: file.into(), reason });
        for alias in &self.aliases {
            if find(&alias.alias).is_none() {
                return refuse(format!("{} stands for {}, which is no entry", alias.id, alias.alias));
            }
        }
        for entry in &self.entries {
            let Some(assistant) = &entry.assistant else { continue };
            if find(assistant).is_none_or(|found| found.kind != Kind::Assistant) {
                return refuse(format!("{}: {assistant} is no entry of kind assistant", entry.id));
            }
        }
        Ok(())
    }
}

/// Whether a text can be a model's name; it then names a file as well.
pub fn is_id(text: &str) -> bool {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    first && text.len() <= 100 && text.bytes().all(fits) && !text.ends_with(".rlp")
}

fn check_entry(entry: &Entry) -> Result<(), String> {
    let part = |text: &str| {
        !text.is_empty()
            && !text.starts_with('.')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    let parts: Vec<&str> = entry.repository.split('/').collect();
    if parts.len() != 2 || !parts.iter().all(|text| part(text)) {
        return Err(format!("repository is {:?}, expected organisation/name", entry.repository));
    }
    if entry.revision.is_empty() {
        return Err("revision is empty".into());
    }
    for pattern in &entry.files {
        let name = pattern.strip_suffix('?').unwrap_or(pattern);
        if !is_file_name(&name.replace('*', "x")) || name.matches('*').count() > 1 {
            return Err(format!(
                "file {pattern:?}: expected a name, at most one '*', and '?' at the end where it may be missing"
            ));
        }
    }
    if entry.files.iter().all(|pattern| pattern.ends_with('?')) {
        return Err("no file is required".into());
    }
    Ok(())
}

/// Whether a name from outside is a plain file name, in no folder.
pub(crate) fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name.len() <= 200
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+'))
}

/// Whether a name fits a pattern without its `?`.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => {
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<Catalog, HubError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Catalog::open(Some(file.path()))
    }

    #[test]
    fn the_embedded_catalog_has_the_official_models_and_their_drafters() {
        let catalog = Catalog::open(None).unwrap();
        let e2b = catalog.find("gemma-4-e2b").unwrap();
        assert_eq!(e2b.repository, "google/gemma-4-E2B-it-qat-mobile-transformers");
        assert_eq!(catalog.find("gemma-4-e2b-metal").unwrap(), e2b);
        assert_eq!(catalog.find("Gemma-4-E2B").unwrap(), e2b);
        for id in ["gemma-4-e2b", "gemma-4-e4b"] {
            let assistant = catalog.find(catalog.find(id).unwrap().assistant.as_deref().unwrap()).unwrap();
            assert_eq!(assistant.kind, Kind::Assistant);
            assert_eq!(catalog.model_of(&assistant.id).unwrap().id, id);
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_near_ones() {
        let catalog = Catalog::open(None).unwrap();
        let message = catalog.find("gemma4-e2b").unwrap_err().to_string();
        assert!(message.contains("did you mean gemma-4-e2b"), "{message}");
        assert!(message.contains("rawloop list"), "{message}");
        let message = catalog.find("e4b").unwrap_err().to_string();
        assert!(message.contains("gemma-4-e4b"), "{message}");
        let message = catalog.find("llama").unwrap_err().to_string();
        assert!(!message.contains("did you mean"), "{message}");
    }

    #[test]
    fn a_file_adds_and_replaces() {
        let catalog = with(
            r#"{"version": 1, "models": [
                {"id": "tiny", "repository": "me/tiny", "files": ["config.json"]},
                {"id": "gemma-4-e2b", "repository": "me/mine", "files": ["config.json"], "revision": "v2"},
                {"id": "small", "alias": "tiny"}]}"#,
        )
        .unwrap();
        assert_eq!(catalog.find("small").unwrap().repository, "me/tiny");
        assert_eq!(catalog.find("gemma-4-e2b-metal").unwrap().revision, "v2");
        assert_eq!(catalog.entries().iter().filter(|entry| entry.id == "gemma-4-e2b").count(), 1);
    }

    #[test]
    fn entries_that_make_no_sense_are_refused_with_their_place() {
        let entry = |fields: &str| format!(r#"{{"version": 1, "models": [{{{fields}}}]}}"#);
        for (fields, word) in [
            (r#""id": "../x", "repository": "a/b", "files": ["c"]"#, "models[0]: id"),
            (r#""id": "x", "repository": "../b", "files": ["c"]"#, "organisation/name"),
            (r#""id": "x", "repository": "a/b/c", "files": ["c"]"#, "organisation/name"),
            (r#""id": "x", "repository": "a/b", "files": ["../c"]"#, "../c"),
            (r#""id": "x", "repository": "a/b", "files": ["*a*"]"#, "*a*"),
            (r#""id": "x", "repository": "a/b", "files": ["c?"]"#, "required"),
            (r#""id": "x", "repository": "a/b", "files": ["c"], "wrong": 1"#, "wrong"),
            (
                r#""id": "x", "repository": "a/b", "files": ["c"], "assistant": "gemma-4-e2b""#,
                "kind assistant",
            ),
            (r#""id": "x", "alias": "y""#, "stands for y"),
        ] {
            let message = with(&entry(fields)).unwrap_err().to_string();
            assert!(message.contains(word), "{fields}: {message}");
        }
        assert!(with(r#"{"version": 2, "models": []}"#).unwrap_err().to_string().contains("version is 2"));
    }

    #[test]
    fn patterns_fit_whole_names() {
        assert!(fits("model*.safetensors", "model.safetensors"));
        assert!(fits("model*.safetensors", "model-00001-of-00002.safetensors"));
        assert!(!fits("model*.safetensors", "model.safetensors.index.json"));
        assert!(!fits("ab*bc", "abc"));
        assert!(
            !is_file_name("a/b") && !is_file_name("..") && !is_file_name("a\\b") && is_file_name("a-1.b")
        );
    }
}
