//! One program at a time: an advisory lock on a file, which the system lets go when its holder ends, however that happens.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error::HubError;
use crate::event::Event;
use crate::retry::sleep;

/// Held until it is dropped.
pub struct Lock(Option<File>);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            let _ = file.unlock();
        }
    }
}

/// Waits for the lock of a file, which is made where it is missing. A file system without locks gives one at once: they are there
/// against double work; what is downloaded is checked either way.
///
/// # Errors
/// Cancelled, or the file cannot be made.
pub fn lock(
    path: &Path,
    what: &str,
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
        match file.try_lock() {
            Ok(()) => return Ok(Lock(Some(file))),
            Err(TryLockError::Error(_)) => return Ok(Lock(None)),
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
