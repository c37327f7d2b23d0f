//! The folder of packs: what was pulled, and from what.
//!
//! `ID.rlp` is the pack and `ID.json` its record: commits, hashes, and which downloads are this program's own. The record says
//! `converted` only after the pack is there, so a pack without a matching record is converted again and never taken for current.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rawloop_pack::{FORMAT_VERSION, Pack};
use serde::{Deserialize, Serialize};

use crate::cache::{Repository, remove, write_whole};
use crate::catalog::{Catalog, Kind, is_id};
use crate::checksum::Checksum;
use crate::error::HubError;
use crate::event::Event;
use crate::lock::{self, Lock};

/// The variable that moves the folder.
pub const PACKS_VARIABLE: &str = "RAWLOOP_PACKS";

/// A file that a pack was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    /// Name in the repository.
    pub name: String,
    /// Its hash, where the cache knows it.
    pub checksum: Option<String>,
}

/// A repository that a pack was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPart {
    /// Id in the catalog.
    pub id: String,
    /// Repository.
    pub repository: String,
    /// Commit.
    pub commit: String,
    /// Files.
    pub files: Vec<RecordedFile>,
}

/// A download of this program, as opposed to one that was in the cache before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// Repository.
    pub repository: String,
    /// Commit.
    pub commit: String,
    /// Name in the repository.
    pub name: String,
    /// Hash.
    pub checksum: String,
}

/// What is known of a pulled model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Whether the pack is made of these parts.
    pub converted: bool,
    /// Pack format.
    pub format: u32,
    /// Model, and drafter where there is one.
    pub parts: Vec<RecordedPart>,
    /// Cache that the downloads lie in.
    #[serde(default)]
    pub cache: PathBuf,
    /// Downloads of this program.
    #[serde(default)]
    pub fetched: Vec<Fetched>,
}

/// The folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Whether there was anything.
    pub any: bool,
    /// Bytes of the pack.
    pub pack_bytes: u64,
    /// Bytes of downloads.
    pub checkpoint_bytes: u64,
}

impl Store {
    /// The user's folder: `RAWLOOP_PACKS`, else `rawloop/packs` in the data folder.
    ///
    /// # Errors
    /// There is no home folder.
    pub fn user() -> Result<Store, HubError> {
        if let Some(folder) = std::env::var_os(PACKS_VARIABLE).filter(|folder| !folder.is_empty()) {
            return Ok(Store { folder: folder.into() });
        }
        let reason = "there is no home folder to keep packs in: set it to a folder".into();
        let base = dirs::data_dir().ok_or(HubError::Setting { name: PACKS_VARIABLE, reason })?;
        Ok(Store { folder: base.join("rawloop").join("packs") })
    }

    /// A folder, which is made when something is put into it.
    pub fn new(folder: impl Into<PathBuf>) -> Store {
        Store { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the pack of a model lies or will lie.
    pub fn pack(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.rlp"))
    }

    /// The pack of a model and its size, where there is one.
    pub fn installed(&self, id: &str) -> Option<(PathBuf, u64)> {
        let pack = self.pack(id);
        let meta = fs::metadata(&pack).ok().filter(|meta| is_id(id) && meta.is_file())?;
        Some((pack, meta.len()))
    }

    /// Every model with a pack here, sorted.
    pub fn ids(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut ids: Vec<String> = names
            .filter_map(|name| name.strip_suffix(".rlp").filter(|id| is_id(id)).map(String::from))
            .collect();
        ids.sort();
        ids
    }

    /// What is known of a pulled model. A record that cannot be read is none.
    pub fn record(&self, id: &str) -> Option<Record> {
        serde_json::from_slice(&fs::read(self.record_file(id)).ok()?).ok()
    }

    /// Finds the pack of a name: of the catalog, or of any pack here.
    ///
    /// # Errors
    /// The name is not known, names a drafter, or its pack is not here.
    pub fn resolve(&self, catalog: &Catalog, id: &str) -> Result<PathBuf, HubError> {
        let id = id.to_ascii_lowercase();
        if let Some((pack, _)) = self.installed(&id) {
            return Ok(pack);
        }
        let entry = catalog.find(&id).map_err(|error| match error {
            HubError::UnknownModel { id, .. } => {
                HubError::UnknownModel { near: catalog.near(&id, &self.ids()), id }
            }
            other => other,
        })?;
        if entry.kind == Kind::Assistant {
            let model = catalog.model_of(&entry.id).map(|model| model.id.clone());
            return Err(HubError::Assistant { id: entry.id.clone(), model });
        }
        self.installed(&entry.id)
            .map(|(pack, _)| pack)
            .ok_or_else(|| HubError::NotPulled { id: entry.id.clone() })
    }

    /// Removes a pack, its record and what a killed conversion left; with `checkpoint` also the downloads that are this
    /// program's own. Links are removed, never followed.
    ///
    /// # Errors
    /// Something cannot be removed, or cancelled while another program holds the lock.
    pub fn remove(
        &self,
        id: &str,
        checkpoint: bool,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<Removed, HubError> {
        if !is_id(id) || !self.folder.is_dir() {
            return Ok(Removed::default());
        }
        let lock = self.lock(id, cancel, report)?;
        let record = self.record(id);
        let any = record.is_some() || fs::symlink_metadata(self.pack(id)).is_ok();
        let checkpoint_bytes = match record.filter(|_| checkpoint) {
            Some(record) => drop_fetched(&record)?,
            None => 0,
        };
        let pack_bytes = remove(&self.pack(id))?;
        remove(&self.record_file(id))?;
        self.sweep(id, &lock)?;
        Ok(Removed { any, pack_bytes, checkpoint_bytes })
    }

    /// The lock of a model.
    pub(crate) fn lock(
        &self,
        id: &str,
        cancel: &AtomicBool,
        report: &mut dyn FnMut(Event),
    ) -> Result<Lock, HubError> {
        let file = self.folder.join(".locks").join(format!("{id}.lock"));
        lock::lock(&file, id, File::try_lock, cancel, report)
    }

    pub(crate) fn write_record(&self, id: &str, record: &Record) -> Result<(), HubError> {
        let file = self.record_file(id);
        let text =
            serde_json::to_vec_pretty(record).map_err(|error| HubError::io(&file, "write")(error.into()))?;
        write_whole(&file, &text)
    }

    /// Whether the pack that is here was made of exactly these parts by a program of this format.
    pub(crate) fn is_current(&self, id: &str, parts: &[RecordedPart]) -> bool {
        let Some(record) = self.record(id) else { return false };
        let same = record.converted && record.format == FORMAT_VERSION && record.parts == parts;
        let commit = || {
            let pack = Pack::open(&self.installed(id)?.0).ok()?;
            pack.manifest().provenance.revision.clone()
        };
        same && commit().as_ref() == parts.first().map(|part| &part.commit)
    }

    /// Removes what killed conversions and writers of the record left: none is running while the lock is held.
    pub(crate) fn sweep(&self, id: &str, lock: &Lock) -> Result<(), HubError> {
        if !lock.is_held() {
            return Ok(());
        }
        let ours = [format!(".{id}.rlp."), format!(".{id}.json.")];
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if ours.iter().any(|start| name.starts_with(start)) && name.ends_with(".unfinished") {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn record_file(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }
}

/// Removes the downloads of this program from the cache; answers with their bytes. A repository folder that is a link is left alone.
pub(crate) fn drop_fetched(record: &Record) -> Result<u64, HubError> {
    let mut bytes = 0;
    for fetched in &record.fetched {
        // The record is a file that anybody may have edited.
        let plain = crate::catalog::is_file_name(&fetched.name) && crate::listing::is_commit(&fetched.commit);
        let folder = record.cache.join(format!("models--{}", fetched.repository.replace('/', "--")));
        let (Some(checksum), true) = (Checksum::parse(&fetched.checksum), plain) else { continue };
        if fs::symlink_metadata(&folder).is_ok_and(|meta| meta.is_dir()) {
            let repository = Repository::new(&record.cache, &fetched.repository);
            repository.unlink(&fetched.commit, &fetched.name)?;
            bytes += repository.remove_unused(&checksum)?;
        }
    }
    Ok(bytes)
}
