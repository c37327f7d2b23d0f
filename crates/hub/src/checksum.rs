//! The hash that names a file in the hub and in its cache.
//!
//! Large files are named by the SHA-256 of their bytes, small ones by git's blob hash (SHA-1 over a header with the length, then the bytes).
//! Either can be checked, so every file is.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::error::HubError;

/// Bytes read or written at a time.
pub(crate) const BLOCK: usize = 256 << 10;

/// A hash in lower-case hexadecimal: the name of a blob.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Checksum(String);

impl Checksum {
    /// From a hub's text, with or without quotes; nothing where it is neither hash.
    pub fn parse(text: &str) -> Option<Checksum> {
        let text = text.trim().trim_start_matches("W/").trim_matches('"').to_ascii_lowercase();
        let is_hash = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then_some(Checksum(text))
    }

    /// The hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Starts to hash a file of `bytes` bytes.
    pub(crate) fn start(&self, bytes: u64) -> Hashing {
        if self.0.len() == 64 {
            return Hashing::Sha256(Sha256::new());
        }
        let mut hash = Sha1::new();
        hash.update(format!("blob {bytes}\0"));
        Hashing::Git(hash)
    }

    /// Hashes a file and compares.
    pub(crate) fn matches(&self, file: &Path, cancel: &AtomicBool) -> Result<bool, HubError> {
        let bytes = std::fs::metadata(file).map_err(HubError::io(file, "read"))?.len();
        let mut hashing = self.start(bytes);
        hashing.file(file, bytes, cancel)?;
        Ok(hashing.finish() == self.0)
    }
}

/// A hash on its way.
pub(crate) enum Hashing {
    Sha256(Sha256),
    Git(Sha1),
}

impl Hashing {
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hashing::Sha256(hash) => hash.update(bytes),
            Hashing::Git(hash) => hash.update(bytes),
        }
    }

    /// Takes in the first `bytes` bytes of a file.
    pub fn file(&mut self, path: &Path, bytes: u64, cancel: &AtomicBool) -> Result<(), HubError> {
        let mut file = File::open(path).map_err(HubError::io(path, "read"))?.take(bytes);
        let mut block = vec![0; BLOCK];
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(HubError::Cancelled);
            }
            match file.read(&mut block).map_err(HubError::io(path, "read"))? {
                0 => return Ok(()),
                count => self.update(&block[..count]),
            }
        }
    }

    pub fn finish(self) -> String {
        match self {
            Hashing::Sha256(hash) => hex(&hash.finalize()),
            Hashing::Git(hash) => hex(&hash.finalize()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_hashes_are_those_of_the_usual_tools() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hello\n").unwrap();
        let never = AtomicBool::new(false);
        // git hash-object and sha256sum.
        for known in [
            "ce013625030ba8dba906f756967f9e9ca394464a",
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        ] {
            let checksum = Checksum::parse(&format!("W/\"{}\"", known.to_uppercase())).unwrap();
            assert_eq!(checksum.as_str(), known);
            assert!(checksum.matches(file.path(), &never).unwrap());
        }
        std::fs::write(file.path(), "hellp\n").unwrap();
        let checksum = Checksum::parse("ce013625030ba8dba906f756967f9e9ca394464a").unwrap();
        assert!(!checksum.matches(file.path(), &never).unwrap());
    }

    #[test]
    fn what_is_no_hash_names_no_blob() {
        for text in ["", "\"abc\"", "../../etc/passwd", &"g".repeat(64), &"a".repeat(41)] {
            assert_eq!(Checksum::parse(text), None, "{text}");
        }
    }
}
