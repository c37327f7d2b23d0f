//! Who may replace a file: one process at a time.
//!
//! Files that appear whole are written beside their target and renamed, so a lock on the target itself would be on a file that
//! is about to be replaced. The lock is therefore on a file of its own beside it, `.NAME.lock`, which goes when the lock does.
//! It is the system's advisory lock: it ends with the process that holds it, whatever ends that, and a lock file that a
//! killed process left behind is one that nobody holds.
//!
//! A killed process may also leave `.NAME.XXXXXX.unfinished`. Whoever holds the lock knows that nobody writes them any more and
//! sweeps them up.
//!
//! Where the system knows no such locks (some network folders) everybody gets one.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Ends the names of files that are being written.
pub const UNFINISHED: &str = ".unfinished";

/// A lock that is held. See the module documentation.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
    target: PathBuf,
}

impl FileLock {
    /// Takes the lock of a file that may or may not be there yet; nothing where another one is held.
    ///
    /// # Errors
    /// No file can be made beside it.
    pub fn try_take(target: &Path) -> Result<Option<FileLock>> {
        let path = target.with_file_name(hidden(target, ".lock")?);
        loop {
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Between opening and locking, whoever held it may have taken the file away; a lock on that is no lock.
            if is_at(&file, &path)? {
                return Ok(Some(FileLock { file, path, target: target.to_path_buf() }));
            }
        }
    }

    /// Removes what killed processes left of the file: a name, six or so letters and digits, and [`UNFINISHED`].
    pub fn sweep(&self) {
        let Ok(start) = hidden(&self.target, ".") else { return };
        let start = start.to_string_lossy().into_owned();
        self.sweep_where(|name| {
            let middle = name.strip_prefix(&start).and_then(|rest| rest.strip_suffix(UNFINISHED));
            middle
                .is_some_and(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        });
    }

    /// Removes unfinished files of these names beside the file. One that cannot be removed stays.
    pub fn sweep_where(&self, is_ours: impl Fn(&str) -> bool) {
        let Some(Ok(entries)) = self.path.parent().map(std::fs::read_dir) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.ends_with(UNFINISHED) && is_ours(&name) {
                let _ = std::fs::remove_file(&path);
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // While it is held: once it is let go the file may be somebody else's lock.
        if is_at(&self.file, &self.path).unwrap_or(false) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// `.NAME` with something behind it.
fn hidden(target: &Path, end: &str) -> Result<OsString> {
    let name = target.file_name().ok_or_else(|| Error::new(ErrorKind::InvalidInput, "it names no file"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(end);
    Ok(hidden)
}

/// Whether a path leads to this very file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let here = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(there) => Ok((here.dev(), here.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a path leads to this very file: a file that is open is not taken away there.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> Result<bool> {
    path.try_exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_nothing_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("x.chat");
        for _ in 0..3 {
            let held = FileLock::try_take(&target).unwrap().unwrap();
            assert!(FileLock::try_take(&target).unwrap().is_none());
            assert!(FileLock::try_take(&folder.path().join("y.chat")).unwrap().is_some(), "another file");
            drop(held);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(FileLock::try_take(&folder.path().join("no/folder")).is_err());
        assert!(FileLock::try_take(Path::new("/")).is_err());
    }

    /// Many threads that take and drop it: never two at once.
    #[test]
    fn a_lock_that_goes_while_it_is_taken_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("x");
        let holders = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    use std::sync::atomic::Ordering::SeqCst;
                    let mut taken = 0;
                    while taken < 50 {
                        let Some(_held) = FileLock::try_take(&target).unwrap() else { continue };
                        assert_eq!(holders.fetch_add(1, SeqCst), 0);
                        taken += 1;
                        holders.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
    }

    #[test]
    fn only_what_is_left_of_this_file_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let others = [
            "a",
            "a.unfinished",
            ".a.lock.b",
            ".a.b.AbC123.unfinished",
            ".b.AbC123.unfinished",
            ".a..unfinished",
        ];
        for name in others.iter().chain(&[".a.AbC123.unfinished", ".a.z.unfinished"]) {
            std::fs::write(path(name), "x").unwrap();
        }
        FileLock::try_take(&path("a")).unwrap().unwrap().sweep();
        let mut left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = others.map(str::to_owned);
        expected.sort();
        assert_eq!(left, expected);
    }
}
