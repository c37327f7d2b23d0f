//! One program at a time: an advisory lock on a file, which the system lets go when its holder ends, however that happens.
//!
//! A file system without locks (`Unsupported`) gives one that is not held. Whoever has such a one shares no file with others: a
//! download gets a name of its own, and nothing that might be somebody else's is swept. Any other failure is an error.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error::HubError;
use crate::event::Event;
use crate::retry::sleep;

/// Takes the lock of a file, or says why not: [`File::try_lock`].
pub type TryLock = fn(&File) -> Result<(), TryLockError>;

/// Held until it is dropped.
pub struct Lock(Option<File>);

impl Lock {
    /// Whether nobody else is in; not where the file system has no locks.
    pub fn is_held(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            let _ = file.unlock();
        }
    }
}

/// Waits for the lock of a file, which is made where it is missing.
///
/// # Errors
/// Cancelled, the file cannot be made, or the system refuses the lock for another reason than that it has none.
pub fn lock(
    path: &Path,
    what: &str,
    take: TryLock,
    cancel: &AtomicBool,
    report: &mut dyn FnMut(Event),
) -> Result<Lock, HubError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(HubError::io(folder, "make the folder"))?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path).map_err(HubError::io(path, "lock"))?;
    let mut told = false;
    loop {
        match take(&file) {
            Ok(()) => return Ok(Lock(Some(file))),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                return Ok(Lock(None));
            }
            Err(TryLockError::Error(error)) => return Err(HubError::io(path, "lock")(error)),
            Err(TryLockError::WouldBlock) => {
                if !told {
                    report(Event::Waiting { what: what.into() });
                    told = true;
                }
                sleep(Duration::from_millis(100), cancel)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(take: TryLock) -> Result<Lock, HubError> {
        let folder = tempfile::tempdir().unwrap();
        lock(&folder.path().join("a/b.lock"), "b", take, &AtomicBool::new(false), &mut |_| ())
    }

    #[test]
    fn only_a_file_system_that_has_no_locks_does_without() {
        assert!(taken(File::try_lock).unwrap().is_held());
        assert!(!taken(|_| Err(TryLockError::Error(ErrorKind::Unsupported.into()))).unwrap().is_held());
        let refused: [TryLock; 2] = [
            |_| Err(TryLockError::Error(ErrorKind::PermissionDenied.into())),
            |_| Err(TryLockError::Error(ErrorKind::OutOfMemory.into())),
        ];
        for take in refused {
            let message = taken(take).map(|_| ()).unwrap_err().to_string();
            assert!(message.contains("cannot lock") && message.contains("b.lock"), "{message}");
        }
    }
}
