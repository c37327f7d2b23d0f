//! Writing a pack: one pass, whole or not at all.
//!
//! Everything goes to a temporary file beside the target, whose start stays zero until the end, so that even a copy of the
//! unfinished file is no pack. [`PackWriter::finish`] writes manifest and header, flushes to the disk, opens the result
//! with the reader's checks, and renames it over the target. Killed before that, the old pack is untouched. The same
//! calls give the same bytes: there is no time stamp and no padding that is not zero.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rawloop_spec::TensorSpec;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::error::PackError;
use crate::header::Header;
use crate::layout::{self, DATA_OFFSET, MANIFEST_LIMIT, PAGE, SMALL_ALIGNMENT, stored_bytes};
use crate::manifest::{BlobEntry, Head, Manifest, TensorEntry};
use crate::pack::Pack;
use crate::{FORMAT_VERSION, check, hash};

/// Writes one pack. Dropped before [`PackWriter::finish`], it removes its temporary file.
pub struct PackWriter {
    target: PathBuf,
    file: BufWriter<NamedTempFile>,
    position: u64,
    tensors: Vec<TensorEntry>,
    blobs: Vec<BlobEntry>,
    open: Option<OpenTensor>,
}

/// A tensor between `begin` and `end`.
struct OpenTensor {
    entry: TensorEntry,
    hash: Sha256,
    written: u64,
}

impl PackWriter {
    /// Starts a pack that will appear at `target`. A link is followed, so that its destination is replaced, not the link.
    ///
    /// # Errors
    /// The folder is missing or cannot be written, or the target is a folder.
    pub fn create(target: &Path) -> Result<Self, PackError> {
        let target = if target.is_symlink() {
            target.canonicalize().map_err(PackError::io(target, "follow the link"))?
        } else {
            target.to_path_buf()
        };
        if target.is_dir() {
            let error = std::io::Error::other("it is a folder; name a file in it");
            return Err(PackError::io(&target, "write the pack")(error));
        }
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(target.file_name().unwrap_or_default());
        prefix.push(".");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".unfinished");
        // A temporary file is private by default; a pack has the permissions of any other new file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder
            .tempfile_in(folder(&target))
            .map_err(PackError::io(&target, "create a temporary file beside it"))?;
        let mut writer = PackWriter {
            target,
            file: BufWriter::with_capacity(1 << 20, file),
            position: 0,
            tensors: Vec::new(),
            blobs: Vec::new(),
            open: None,
        };
        writer.pad_to(DATA_OFFSET)?;
        Ok(writer)
    }

    /// Starts the next tensor of the registry. Its bytes follow in any number of [`PackWriter::write`] calls.
    ///
    /// # Errors
    /// A tensor is still open, a blob was written already, the shape is absurd, or the disk refuses.
    pub fn begin(&mut self, spec: &TensorSpec) -> Result<(), PackError> {
        if let Some(open) = &self.open {
            return Err(self.misuse(&spec.name, "the one before it", open.entry.name.clone(), "ended"));
        }
        if let Some(blob) = self.blobs.last() {
            return Err(self.misuse(
                &spec.name,
                "its place",
                format!("after blob {}", blob.name),
                "before blobs",
            ));
        }
        let Some(bytes) = stored_bytes(spec.format, spec.rows, spec.columns) else {
            let found = format!("{} [{} x {}]", spec.format.name(), spec.rows, spec.columns);
            return Err(self.misuse(
                &spec.name,
                "shape",
                found,
                "whole tile groups and a size that fits 64 bits",
            ));
        };
        let offset = self.start_of(bytes)?;
        let entry = TensorEntry {
            name: spec.name.clone(),
            format: spec.format,
            rows: spec.rows,
            columns: spec.columns,
            class: spec.class,
            offset,
            bytes,
            sha256: String::new(),
        };
        self.open = Some(OpenTensor { entry, hash: Sha256::new(), written: 0 });
        Ok(())
    }

    /// Appends bytes to the open tensor.
    ///
    /// # Errors
    /// No tensor is open, there are more bytes than its shape has, or the disk refuses.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        let Some(open) = &mut self.open else {
            return Err(self.misuse("(none)", "the open tensor", "none".into(), "one that was begun"));
        };
        let written = open.written + bytes.len() as u64;
        if written > open.entry.bytes {
            let (name, expected) = (open.entry.name.clone(), open.entry.bytes.to_string());
            return Err(self.misuse(&name, "bytes written", format!("{written} or more"), &expected));
        }
        open.hash.update(bytes);
        open.written = written;
        self.append(bytes)
    }

    /// Ends the open tensor.
    ///
    /// # Errors
    /// No tensor is open, or it has not had all its bytes.
    pub fn end(&mut self) -> Result<(), PackError> {
        let Some(OpenTensor { mut entry, hash, written }) = self.open.take() else {
            return Err(self.misuse("(none)", "the open tensor", "none".into(), "one that was begun"));
        };
        if written != entry.bytes {
            let expected = entry.bytes.to_string();
            return Err(self.misuse(&entry.name, "bytes written", written.to_string(), &expected));
        }
        entry.sha256 = hash::hex(&hash.finalize());
        self.tensors.push(entry);
        Ok(())
    }

    /// Writes a blob. Blobs come after the tensors.
    ///
    /// # Errors
    /// A tensor is still open, or the disk refuses.
    pub fn blob(&mut self, name: &str, bytes: &[u8]) -> Result<(), PackError> {
        if let Some(open) = &self.open {
            let (tensor, found) = (open.entry.name.clone(), format!("still open at blob {name}"));
            return Err(self.misuse(&tensor, "it", found, "ended"));
        }
        let offset = self.start_of(bytes.len() as u64)?;
        self.append(bytes)?;
        let sha256 = hash::hex(&hash::sha256(bytes));
        self.blobs.push(BlobEntry { name: name.into(), offset, bytes: bytes.len() as u64, sha256 });
        Ok(())
    }

    /// Writes manifest and header, checks the result as a reader would, and puts it in the target's place.
    ///
    /// # Errors
    /// The tensors are not the registry's for the head's geometry, a scale or norm is not usable, or the disk refuses. The
    /// target is then what it was before.
    pub fn finish(mut self, head: Head) -> Result<Manifest, PackError> {
        if let Some(open) = &self.open {
            let tensor = open.entry.name.clone();
            return Err(self.misuse(&tensor, "it", "still open at the end".into(), "ended"));
        }
        let label = self.label();
        check::head(&head, &label)?;
        let Head { model, geometry, drafter, generation, provenance } = head;
        let manifest = Manifest {
            format_version: FORMAT_VERSION,
            model,
            geometry,
            drafter,
            generation,
            provenance,
            tensors: std::mem::take(&mut self.tensors),
            blobs: std::mem::take(&mut self.blobs),
        };
        // The manifest follows the data.
        let manifest_offset = self.aligned(SMALL_ALIGNMENT)?;
        check::manifest(&manifest, manifest_offset, &label)?;
        let text = serde_json::to_vec(&manifest).map_err(|error| PackError::Manifest {
            file: label.clone(),
            field: "its JSON".into(),
            found: error.to_string(),
            expected: "numbers and text".into(),
        })?;
        if text.len() as u64 > MANIFEST_LIMIT {
            return Err(PackError::Manifest {
                file: label,
                field: "its length".into(),
                found: text.len().to_string(),
                expected: format!("at most {MANIFEST_LIMIT}"),
            });
        }
        self.pad_to(manifest_offset)?;
        self.append(&text)?;
        let file_bytes = self.aligned(PAGE)?;
        self.pad_to(file_bytes)?;
        let header = Header {
            file_bytes,
            manifest_offset,
            manifest_bytes: text.len() as u64,
            manifest_sha256: hash::sha256(&text),
        };
        self.publish(&header)?;
        Ok(manifest)
    }

    /// Header, disk, check, rename.
    fn publish(self, header: &Header) -> Result<(), PackError> {
        let target = self.target;
        let mut file = self
            .file
            .into_inner()
            .map_err(|error| PackError::io(&target, "write the pack")(error.into_error()))?;
        let written = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(&header.encode()))
            .and_then(|()| file.as_file().sync_all());
        written.map_err(PackError::io(&target, "write the pack"))?;
        // A pack that its own reader refuses must not replace one that works.
        Pack::open_as(file.path(), target.display().to_string())?;
        file.persist(&target)
            .map_err(|error| PackError::io(&target, "put the pack in its place")(error.error))?;
        sync_folder(folder(&target)).map_err(PackError::io(&target, "write its folder to the disk"))
    }

    /// Pads to where something of that many bytes starts.
    fn start_of(&mut self, bytes: u64) -> Result<u64, PackError> {
        let offset = self.aligned(layout::alignment(bytes))?;
        self.pad_to(offset)?;
        Ok(offset)
    }

    fn aligned(&self, alignment: u64) -> Result<u64, PackError> {
        layout::align_up(self.position, alignment).ok_or_else(|| PackError::Length {
            file: self.label(),
            found: self.position,
            expected: "a length that fits 64 bits".into(),
        })
    }

    fn pad_to(&mut self, offset: u64) -> Result<(), PackError> {
        const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];
        // Gaps are shorter than a page; the first one is exactly a page.
        self.append(&ZEROS[..(offset - self.position) as usize])
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        self.file.write_all(bytes).map_err(PackError::io(&self.target, "write the pack"))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn label(&self) -> String {
        self.target.display().to_string()
    }

    fn misuse(&self, tensor: &str, what: &'static str, found: String, expected: &str) -> PackError {
        PackError::Tensor {
            file: self.label(),
            tensor: tensor.into(),
            what,
            found,
            expected: expected.into(),
        }
    }
}

fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes a rename in the folder durable. Elsewhere than on Unix a folder cannot be opened for that.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
