//! The download cache that Python's library keeps, file for file.
//!
//! `models--ORG--NAME/blobs/HASH` holds the bytes, `snapshots/COMMIT/NAME` links to them, `refs/main` says which commit a
//! branch meant, `.locks/` keeps two programs from one file. What one program fetched the other finds. A download in progress is
//! `blobs/HASH.incomplete`, and `blobs/HASH.RANDOM.incomplete` where the file system has no locks.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempPath;

use crate::catalog::{Entry, fits, is_file_name};
use crate::checksum::Checksum;
use crate::error::HubError;
use crate::listing::{Listing, RemoteFile, is_commit};

/// A download that nobody has written to for so long is nobody's. Silence, waits and hashing take minutes.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);
/// The same by this machine's clock, which need not be the one of the file system.
const LONG_LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// The part of the cache that belongs to one repository.
#[derive(Clone, Debug)]
pub struct Repository {
    folder: PathBuf,
    locks: PathBuf,
}

impl Repository {
    /// The folder of `organisation/name`, which the catalog has checked.
    pub fn new(cache: &Path, repository: &str) -> Repository {
        let name = format!("models--{}", repository.replace('/', "--"));
        Repository { locks: cache.join(".locks").join(&name), folder: cache.join(name) }
    }

    /// Makes the folders.
    ///
    /// # Errors
    /// The system's.
    pub fn create(&self, commit: &str) -> Result<(), HubError> {
        for folder in
            [self.folder.join("blobs"), self.folder.join("refs"), self.snapshot(commit), self.locks.clone()]
        {
            fs::create_dir_all(&folder).map_err(HubError::io(&folder, "make the folder"))?;
        }
        Ok(())
    }

    /// Where the bytes of a hash lie.
    pub fn blob(&self, checksum: &Checksum) -> PathBuf {
        self.folder.join("blobs").join(checksum.as_str())
    }

    /// Where they lie until there are all of them.
    pub fn partial(&self, checksum: &Checksum) -> PathBuf {
        self.folder.join("blobs").join(format!("{}.incomplete", checksum.as_str()))
    }

    /// The same for one program alone, with the most of what was there: nobody else finds it under this name. It is removed when it
    /// is dropped.
    ///
    /// What was there lies under the common name, or under one that a program now dead made here. Nothing says that it is dead but
    /// that it has not written for [`LEFT_BEHIND`]; what else is as old as that is removed.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn own_partial(&self, checksum: &Checksum) -> Result<TempPath, HubError> {
        let folder = self.folder.join("blobs");
        let mut builder = tempfile::Builder::new();
        let prefix = format!("{}.", checksum.as_str());
        shared_mode(builder.prefix(&prefix).suffix(".incomplete"));
        let own = builder.tempfile_in(&folder).map_err(HubError::writing(&folder))?;
        // The file system's own clock: it may be another machine's.
        let now = own.as_file().metadata().and_then(|meta| meta.modified());
        let now = now.map_err(HubError::io(own.path(), "read"))?;
        let own = own.into_temp_path();

        let shared = self.partial(checksum);
        let mut found =
            left_behind(&folder, &prefix, now, LEFT_BEHIND).map_err(HubError::io(&folder, "read"))?;
        found.extend(fs::metadata(&shared).map(|meta| (meta.len(), shared.clone())));
        found.sort_by_key(|(bytes, _)| Reverse(*bytes));
        let mut taken = false;
        for (_, path) in found {
            if taken {
                if path != shared {
                    // Another may have been first, or it is another user's: nothing here depends on it.
                    let _ = remove(&path);
                }
                continue;
            }
            match take_over(&path, &own, now) {
                Ok(()) => taken = true,
                Err(error) if path == shared && error.kind() != io::ErrorKind::NotFound => {
                    return Err(HubError::io(&path, "take over")(error));
                }
                Err(_) => {}
            }
        }
        Ok(own)
    }

    /// Removes what programs now dead left of a file that is here, under names that nobody looks for any more.
    pub fn sweep(&self, checksum: &Checksum) {
        let prefix = format!("{}.", checksum.as_str());
        let found = left_behind(&self.folder.join("blobs"), &prefix, SystemTime::now(), LONG_LEFT_BEHIND);
        for (_, path) in found.unwrap_or_default() {
            // Another may have been first, or it is another user's: nothing depends on it.
            let _ = remove(&path);
        }
    }

    /// The lock of a blob.
    pub fn lock(&self, checksum: &Checksum) -> PathBuf {
        self.locks.join(format!("{}.lock", checksum.as_str()))
    }

    /// The folder that looks like the repository at a commit.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Bytes in the cache, finished or not.
    pub fn bytes(&self) -> u64 {
        let Ok(entries) = fs::read_dir(self.folder.join("blobs")) else { return 0 };
        entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
    }

    /// Shows a blob under its name in the snapshot.
    ///
    /// # Errors
    /// The system's.
    pub fn link(&self, commit: &str, name: &str, checksum: &Checksum) -> Result<(), HubError> {
        let place = self.snapshot(commit).join(name);
        let target = Path::new("../../blobs").join(checksum.as_str());
        if fs::read_link(&place).is_ok_and(|found| found == target) {
            return Ok(());
        }
        if place.symlink_metadata().is_ok() {
            fs::remove_file(&place).map_err(HubError::io(&place, "replace"))?;
        }
        symlink(&target, &place)
            .or_else(|_| fs::hard_link(self.blob(checksum), &place))
            .or_else(|_| fs::copy(self.blob(checksum), &place).map(|_| ()))
            .map_err(HubError::io(&place, "make the link"))
    }

    /// Notes which commit a branch or tag means.
    ///
    /// # Errors
    /// The system's.
    pub fn set_reference(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        let Some(file) = self.reference(revision) else { return Ok(()) };
        if fs::read_to_string(&file).is_ok_and(|text| text.trim() == commit) {
            return Ok(());
        }
        let folder = file.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(HubError::io(folder, "make the folder"))?;
        write_whole(&file, commit.as_bytes())
    }

    /// Forgets a commit's name in a snapshot; the bytes stay.
    pub fn unlink(&self, commit: &str, name: &str) -> Result<(), HubError> {
        remove(&self.snapshot(commit).join(name)).map(|_| ())
    }

    /// Removes a blob that no snapshot shows; answers with its bytes.
    pub fn remove_unused(&self, checksum: &Checksum) -> Result<u64, HubError> {
        let blob = self.blob(checksum);
        let used =
            fs::read_dir(self.folder.join("snapshots")).into_iter().flatten().flatten().any(|snapshot| {
                let files = fs::read_dir(snapshot.path()).into_iter().flatten().flatten();
                files.into_iter().any(|file| {
                    let target = fs::read_link(file.path()).unwrap_or_default();
                    target.file_name() == blob.file_name()
                })
            });
        Ok(if used { 0 } else { remove(&self.partial(checksum))? + remove(&blob)? })
    }

    /// What the cache holds of an entry, where that is all that is required.
    ///
    /// # Errors
    /// What is missing, in words.
    pub fn cached(&self, entry: &Entry, revision: &str) -> Result<Listing, String> {
        let named = || {
            let text = fs::read_to_string(self.reference(revision)?).ok()?;
            Some(text.trim().to_owned()).filter(|text| is_commit(text))
        };
        let commit = if is_commit(revision) { Some(revision.to_owned()) } else { named() };
        let commit = commit.ok_or_else(|| format!("revision {revision} was never fetched"))?;
        let mut here = Vec::new();
        for file in fs::read_dir(self.snapshot(&commit)).into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            // Through the link: what counts is the bytes.
            let Ok(meta) = fs::metadata(file.path()) else { continue };
            if meta.is_file() && is_file_name(&name) {
                let target = fs::read_link(file.path()).ok();
                let hash = target.and_then(|target| target.file_name()?.to_str().and_then(Checksum::parse));
                here.push(RemoteFile { name, bytes: meta.len(), checksum: hash });
            }
        }
        here.sort_by(|a, b| a.name.cmp(&b.name));
        let mut files: Vec<RemoteFile> = Vec::new();
        for pattern in &entry.files {
            let (name, required) =
                pattern.strip_suffix('?').map_or((pattern.as_str(), true), |name| (name, false));
            let found: Vec<&RemoteFile> = here.iter().filter(|file| fits(name, &file.name)).collect();
            if required && found.is_empty() {
                return Err(format!("{name} is not there"));
            }
            for file in found {
                if !files.contains(file) {
                    files.push(file.clone());
                }
            }
        }
        Ok(Listing { commit, files })
    }

    /// The file that says what a revision means; nothing for a commit or a name that is no path.
    fn reference(&self, revision: &str) -> Option<PathBuf> {
        let plain = revision
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.contains('\\'));
        (plain && !is_commit(revision)).then(|| self.folder.join("refs").join(revision))
    }
}

/// Downloads of programs that had them for themselves and have not written for so long, with their bytes.
fn left_behind(
    folder: &Path,
    prefix: &str,
    now: SystemTime,
    silence: Duration,
) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        let name = file.file_name();
        let Some(name) = name.to_str() else { continue };
        if !name.strip_prefix(prefix).is_some_and(|rest| rest.ends_with(".incomplete")) {
            continue;
        }
        // One that is gone by now is somebody's.
        let Ok(meta) = file.metadata() else { continue };
        let age = meta.modified().ok().and_then(|time| now.duration_since(time).ok());
        if meta.is_file() && age.is_some_and(|age| age > silence) {
            found.push((meta.len(), file.path()));
        }
    }
    Ok(found)
}

/// Gives a file to one program, as of now: under its old time the next would take it for left behind while its bytes are hashed.
/// Not found where another was first.
fn take_over(path: &Path, own: &Path, now: SystemTime) -> io::Result<()> {
    fs::OpenOptions::new().append(true).open(path)?.set_modified(now)?;
    fs::rename(path, own)
}

/// Removes a file or a link, not what a link leads to; answers with its own bytes, 0 where there was none.
pub(crate) fn remove(file: &Path) -> Result<u64, HubError> {
    let Ok(meta) = fs::symlink_metadata(file) else { return Ok(0) };
    fs::remove_file(file).map_err(HubError::io(file, "remove"))?;
    Ok(if meta.is_symlink() { 0 } else { meta.len() })
}

/// Writes a small file so that it is there whole or as it was. Whoever is killed here leaves a file beside it that [`unfinished`] names.
pub(crate) fn write_whole(file: &Path, bytes: &[u8]) -> Result<(), HubError> {
    use std::io::Write;
    let mut temporary = unfinished(file).map_err(HubError::writing(file))?;
    temporary.write_all(bytes).map_err(HubError::writing(file))?;
    temporary.as_file().sync_all().map_err(HubError::writing(file))?;
    temporary.persist(file).map_err(|error| HubError::writing(file)(error.error))?;
    Ok(())
}

/// A new file beside `file` that says whose it is: `.NAME.`, letters by chance, `.unfinished`.
fn unfinished(file: &Path) -> io::Result<tempfile::NamedTempFile> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.");
    let mut builder = tempfile::Builder::new();
    shared_mode(builder.prefix(&prefix).suffix(".unfinished"));
    builder.tempfile_in(file.parent().unwrap_or(Path::new(".")))
}

/// Private by default; the cache is shared as far as the user's own mask says.
fn shared_mode(builder: &mut tempfile::Builder) {
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    #[cfg(not(unix))]
    let _ = builder;
}

#[cfg(unix)]
fn symlink(target: &Path, place: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

#[cfg(windows)]
fn symlink(target: &Path, place: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_file(target, place)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_yet_says_whose_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let temporary = unfinished(&folder.path().join("tiny.json")).unwrap();
        let name = temporary.path().file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(".tiny.json.") && name.ends_with(".unfinished"), "{name}");
    }

    #[test]
    fn revisions_that_are_no_paths_have_no_file() {
        let repository = Repository::new(Path::new("/cache"), "a/b");
        assert_eq!(repository.reference("main"), Some("/cache/models--a--b/refs/main".into()));
        assert_eq!(repository.reference("refs/pr/1"), Some("/cache/models--a--b/refs/refs/pr/1".into()));
        for revision in ["../x", "/x", "a//b", "a/../b", "", &"c".repeat(40)] {
            assert_eq!(repository.reference(revision), None, "{revision}");
        }
    }
}
