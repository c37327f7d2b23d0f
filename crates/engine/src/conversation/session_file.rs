//! The file that a conversation is kept in, while it goes on.
//!
//! It belongs to one process at a time: two that write one conversation would take turns in forgetting what the other heard. A
//! link stays a link, and the lock is beside what it leads to, so two links to one file are one file. What is no regular file is
//! refused before it is opened, since a pipe would wait for a writer and a device never ends; so is one that is too large.

use std::fs::{File, FileType};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::saved::{SavedChat, SessionFileError};
use crate::file_lock::{FileLock, UNFINISHED};

/// A larger file is no conversation that any context holds.
pub(super) const LARGEST: u64 = 64 << 20;
/// Links that are followed one after the other.
const LINKS: usize = 40;

/// A file whose conversation goes on here and nowhere else. See the module documentation.
#[derive(Debug)]
pub struct SessionFile {
    /// As it was named.
    path: PathBuf,
    /// Where it is.
    place: PathBuf,
    _lock: FileLock,
}

impl SessionFile {
    /// Takes a file that may or may not be there yet, and sweeps up what killed processes left beside it.
    ///
    /// # Errors
    /// Another process has it; it is no regular file; nothing can be written where it is.
    pub fn open(path: &Path) -> Result<SessionFile, SessionFileError> {
        let failed = |source| SessionFileError::Io { file: path.to_path_buf(), source };
        let place = place(path).map_err(failed)?;
        if std::fs::symlink_metadata(&place).is_ok() {
            check(path)?;
        }
        let lock = FileLock::try_take(&place).map_err(failed)?;
        let lock = lock.ok_or_else(|| SessionFileError::InUse { file: path.to_path_buf() })?;
        lock.sweep();
        Ok(SessionFile { path: path.to_path_buf(), place, _lock: lock })
    }

    /// As it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a path leads to it.
    pub fn is_at(&self, path: &Path) -> bool {
        place(path).is_ok_and(|place| place == self.place)
    }

    /// Its conversation, or nothing where there is no file yet.
    ///
    /// # Errors
    /// As [`SavedChat::read`].
    pub fn read(&self) -> Result<Option<SavedChat>, SessionFileError> {
        if self.place.exists() { SavedChat::read(&self.path).map(Some) } else { Ok(None) }
    }

    /// Writes a conversation, whole or not at all. The file is readable for the user alone.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, chat: &SavedChat) -> Result<(), SessionFileError> {
        let failed = |source| SessionFileError::Io { file: self.path.clone(), source };
        let bytes = chat.to_bytes(&self.path)?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(self.place.file_name().unwrap_or_default());
        prefix.push(".");
        let folder = self.place.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(UNFINISHED)
            .tempfile_in(folder)
            .map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&self.place).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// What a regular file of a bearable size holds, at most `most` bytes of it.
pub(super) fn read(path: &Path, most: u64) -> Result<Vec<u8>, SessionFileError> {
    check(path)?;
    let failed = |source| SessionFileError::Io { file: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    // It may have grown since.
    File::open(path).map_err(failed)?.take(most.min(LARGEST)).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Refuses what cannot be read as a whole.
fn check(path: &Path) -> Result<(), SessionFileError> {
    let file = || path.to_path_buf();
    let meta = std::fs::metadata(path).map_err(|source| SessionFileError::Io { file: file(), source })?;
    if !meta.is_file() {
        return Err(SessionFileError::NoFile { file: file(), kind: kind(meta.file_type()) });
    }
    if meta.len() > LARGEST {
        return Err(SessionFileError::TooLarge { file: file(), bytes: meta.len(), most: LARGEST });
    }
    Ok(())
}

fn kind(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
        if kind.is_socket() {
            return "a socket";
        }
    }
    if kind.is_dir() { "a folder" } else { "something else" }
}

/// Where a path leads, through links whose end need not be there yet.
fn place(path: &Path) -> std::io::Result<PathBuf> {
    let mut place = path.to_path_buf();
    for _ in 0..LINKS {
        let folder = match place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.canonicalize()?,
            _ => Path::new(".").canonicalize()?,
        };
        let name = place.file_name().ok_or_else(|| std::io::Error::other("it names no file"))?;
        place = folder.join(name);
        match std::fs::read_link(&place) {
            Ok(next) => place = folder.join(next),
            // No link, or nothing there.
            Err(_) => return Ok(place),
        }
    }
    Err(std::io::Error::other(format!("more than {LINKS} links, one behind the other")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn paths_that_lead_to_one_file_have_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("deep")).unwrap();
        std::os::unix::fs::symlink("deep/b", path("a")).unwrap();
        std::os::unix::fs::symlink("../c", path("deep/b")).unwrap();
        let there = place(&path("c")).unwrap();
        assert_eq!(place(&path("a")).unwrap(), there, "the end need not be there");
        assert_eq!(place(&path("deep/../c")).unwrap(), there);
        std::os::unix::fs::symlink("round", path("round")).unwrap();
        assert!(place(&path("round")).unwrap_err().to_string().contains("links"));
        assert!(place(&path("no/folder")).is_err() && place(Path::new("/")).is_err());
    }
}
