//! Where a checkpoint comes from: repository, revision, licence, and the hash of every file that was read.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_pack::SourceFile;
use sha2::{Digest, Sha256};

use crate::error::ConvertError;
use crate::fields::Document;

/// Written beside a checkpoint by whoever fetched it: `source`, `revision`, `license`, `credit`, each optional.
pub const SOURCE_FILE: &str = ".rawloop-source.json";

/// Origin of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Repository or label.
    pub source: Option<String>,
    /// Revision.
    pub revision: Option<String>,
    /// SPDX expression of the licence.
    pub license: Option<String>,
    /// Whom to credit.
    pub credit: Option<String>,
}

impl Origin {
    /// What `self` leaves open, from `other`.
    pub fn or(self, other: Origin) -> Origin {
        Origin {
            source: self.source.or(other.source),
            revision: self.revision.or(other.revision),
            license: self.license.or(other.license),
            credit: self.credit.or(other.credit),
        }
    }

    /// What the folder itself tells: [`SOURCE_FILE`], the hub cache's folder names, the front matter of README.md.
    ///
    /// # Errors
    /// [`SOURCE_FILE`] is broken.
    pub fn of_folder(folder: &Path) -> Result<Origin, ConvertError> {
        let origin = stated(folder)?
            .or(cached(folder))
            .or(Origin { license: front_matter(folder), ..Origin::default() });
        let google = origin.source.as_deref().is_some_and(|source| source.starts_with("google/gemma-4-"));
        let known = Origin {
            license: Some("Apache-2.0".into()),
            credit: Some("Google DeepMind, Gemma 4".into()),
            ..Origin::default()
        };
        Ok(if google { origin.or(known) } else { origin })
    }
}

fn stated(folder: &Path) -> Result<Origin, ConvertError> {
    let file = folder.join(SOURCE_FILE);
    if !file.is_file() {
        return Ok(Origin::default());
    }
    let document = Document::read(&file, "the origin of the checkpoint")?;
    let fields = document.root()?;
    let text =
        |name: &str| -> Result<Option<String>, ConvertError> { Ok(fields.text(name)?.map(String::from)) };
    Ok(Origin {
        source: text("source")?,
        revision: text("revision")?,
        license: text("license")?,
        credit: text("credit")?,
    })
}

/// `models--ORGANISATION--NAME/snapshots/REVISION`.
fn cached(folder: &Path) -> Origin {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
    let parts: Vec<&str> = absolute.components().filter_map(|part| part.as_os_str().to_str()).collect();
    for window in parts.windows(3) {
        if let [models, "snapshots", revision] = window
            && let Some((organisation, name)) =
                models.strip_prefix("models--").and_then(|rest| rest.split_once("--"))
        {
            return Origin {
                source: Some(format!("{organisation}/{name}")),
                revision: Some(revision.to_string()),
                ..Origin::default()
            };
        }
    }
    Origin::default()
}

/// `license:` of the block between the first two `---` lines of README.md.
fn front_matter(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("README.md")).ok()?;
    let mut lines = text.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let license = lines
        .take_while(|line| line.trim_end() != "---")
        .find_map(|line| line.strip_prefix("license:"))?
        .trim()
        .trim_matches(['"', '\'']);
    match license {
        "" => None,
        "apache-2.0" => Some("Apache-2.0".into()),
        other => Some(other.into()),
    }
}

/// Hashes files, under the names they get in the manifest. Meant for a thread beside the conversion: the pages it reads are
/// those the conversion reads.
///
/// # Errors
/// A file cannot be read, or the flag was set.
pub fn hash_files(files: &[(String, PathBuf)], cancel: &AtomicBool) -> Result<Vec<SourceFile>, ConvertError> {
    let mut buffer = vec![0; 1 << 20];
    let mut hashed = Vec::with_capacity(files.len());
    for (name, path) in files {
        let mut file = File::open(path).map_err(ConvertError::io(path))?;
        let mut digest = Sha256::new();
        let mut bytes = 0;
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(ConvertError::Cancelled);
            }
            match file.read(&mut buffer).map_err(ConvertError::io(path))? {
                0 => break,
                count => {
                    digest.update(&buffer[..count]);
                    bytes += count as u64;
                }
            }
        }
        let sha256 = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        hashed.push(SourceFile { name: name.clone(), bytes, sha256 });
    }
    Ok(hashed)
}
