//! Whether everything fits, before anything is fetched.

use std::io;
use std::path::Path;

use crate::error::{HubError, gigabytes};

/// Left free beyond what is written: a full disk hurts other programs too.
const RESERVE: u64 = 64 << 20;

/// Bytes that will be written to a folder, which may not exist yet.
pub struct Need<'a> {
    pub folder: &'a Path,
    pub bytes: u64,
    pub purpose: &'static str,
    /// The variable that moves the folder.
    pub setting: &'static str,
}

/// Free bytes of the disk that holds a folder.
///
/// # Errors
/// The system's.
pub fn free(folder: &Path) -> io::Result<u64> {
    fs4::available_space(existing(folder))
}

/// Compares needs with what is free; needs on one disk add up.
///
/// # Errors
/// The first disk that is too small. One that does not tell its free space is not checked.
pub fn check(needs: &[Need], free: fn(&Path) -> io::Result<u64>) -> Result<(), HubError> {
    for need in needs.iter().filter(|need| need.bytes > 0) {
        let disk = disk(need.folder);
        let together: Vec<&Need> =
            needs.iter().filter(|other| other.bytes > 0 && self::disk(other.folder) == disk).collect();
        let needed = together.iter().map(|other| other.bytes).sum::<u64>() + RESERVE;
        let Ok(available) = free(existing(need.folder)) else { continue };
        if available < needed {
            let list: Vec<String> = together
                .iter()
                .map(|other| format!("{} for {}", gigabytes(other.bytes), other.purpose))
                .collect();
            return Err(HubError::Space {
                folder: need.folder.into(),
                needed,
                free: available,
                purpose: list.join(", "),
                setting: need.setting,
            });
        }
    }
    Ok(())
}

/// The folder, or the closest one above it that is there.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."))
}

#[cfg(unix)]
fn disk(folder: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    Some(existing(folder).metadata().ok()?.dev())
}

/// The drive that a path begins with.
#[cfg(not(unix))]
fn disk(folder: &Path) -> Option<std::path::PathBuf> {
    let absolute = existing(folder).canonicalize().ok()?;
    absolute.components().next().map(|first| std::path::PathBuf::from(first.as_os_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need<'a>(folder: &'a Path, bytes: u64, purpose: &'static str) -> Need<'a> {
        Need { folder, bytes, purpose, setting: "HF_HOME" }
    }

    #[test]
    fn needs_on_one_disk_add_up_and_the_message_says_what_for() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a/b"), folder.path().join("c"));
        let free = |_: &Path| Ok(5_000_000_000);
        let needs = [need(&a, 2_500_000_000, "the checkpoint"), need(&b, 2_400_000_000, "the pack")];
        assert!(check(&needs, free).is_ok());
        let needs = [need(&a, 2_600_000_000, "the checkpoint"), need(&b, 2_400_000_000, "the pack")];
        let message = check(&needs, free).unwrap_err().to_string();
        for word in ["5.00 GB free", "2.60 GB for the checkpoint", "2.40 GB for the pack", "HF_HOME"] {
            assert!(message.contains(word), "{word}: {message}");
        }
        assert!(check(&needs, |_| Err(io::ErrorKind::Unsupported.into())).is_ok());
        assert!(super::free(&a).unwrap() > 0);
    }
}
