//! Opening a pack and reaching its tensors.
//!
//! [`Pack::open`] maps, checks header, manifest and the small tensors, and is done: E2B's 2.2 GB open in milliseconds when
//! the file is cached. Everything that could be wrong with a range or a shape is found there; what is left to access is
//! the name and the asked format.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use rawloop_spec::{Class, Format, Geometry};

use crate::error::{PackError, shown};
use crate::header::Header;
use crate::manifest::{Manifest, TensorEntry};
use crate::memory::{Memory, Use};
use crate::values::{self, When};
use crate::{check, hash};

/// An opened pack. Cheap to share by reference; never changes.
pub struct Pack {
    label: String,
    memory: Memory,
    header: Header,
    manifest: Manifest,
    /// Index into `manifest.tensors`.
    by_name: HashMap<String, usize>,
}

/// One tensor: its entry and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Name, format and shape.
    pub entry: &'a TensorEntry,
    /// Stored bytes.
    pub bytes: &'a [u8],
}

impl Pack {
    /// Maps a pack file.
    ///
    /// # Errors
    /// Whatever keeps the file from being a whole, truthful pack, with the part that is wrong.
    pub fn open(path: &Path) -> Result<Pack, PackError> {
        Self::open_as(path, path.display().to_string())
    }

    /// Opens a file that messages know by another name.
    pub(crate) fn open_as(path: &Path, label: String) -> Result<Pack, PackError> {
        Self::new(Memory::map(path)?, label)
    }

    /// A pack that is part of the program. Copied only where its address is not a multiple of 256.
    ///
    /// # Errors
    /// As [`Pack::open`].
    pub fn from_static(bytes: &'static [u8], label: &str) -> Result<Pack, PackError> {
        Self::new(Memory::from_static(bytes, label)?, label.into())
    }

    /// A pack in memory, for hosts without files. Bytes that are not aligned to 256 are moved up where the vector has
    /// capacity for 256 more, else copied into aligned memory.
    ///
    /// # Errors
    /// As [`Pack::open`].
    pub fn from_vec(bytes: Vec<u8>, label: &str) -> Result<Pack, PackError> {
        Self::new(Memory::from_vec(bytes, label)?, label.into())
    }

    fn new(memory: Memory, label: String) -> Result<Pack, PackError> {
        if cfg!(target_endian = "big") {
            return Err(PackError::BigEndian { file: label });
        }
        let bytes = memory.bytes();
        let header = Header::decode(bytes, bytes.len() as u64, &label)?;
        // Both ends lie inside the file, so they fit usize.
        let start = header.manifest_offset as usize;
        let text = &bytes[start..start + header.manifest_bytes as usize];
        let found = hash::sha256(text);
        if found != header.manifest_sha256 {
            let (found, expected) = (hash::hex(&found), hash::hex(&header.manifest_sha256));
            return Err(PackError::Header {
                file: label,
                field: "manifest sha-256",
                found: expected,
                expected: found,
            });
        }
        let manifest: Manifest = serde_json::from_slice(text).map_err(|error| PackError::Manifest {
            file: label.clone(),
            field: "its JSON".into(),
            found: shown(&error.to_string()),
            expected: "what docs/pack-format.md describes".into(),
        })?;
        check::manifest(&manifest, header.manifest_offset, &label)?;
        let by_name =
            manifest.tensors.iter().enumerate().map(|(index, entry)| (entry.name.clone(), index)).collect();
        let pack = Pack { label, memory, header, manifest, by_name };
        for tensor in pack.tensors() {
            if let Some((bound, When::Open)) = values::bound(&tensor) {
                values::check(&tensor, bound, &pack.label)?;
            }
        }
        Ok(pack)
    }

    /// Everything the pack says about itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Shape of the model.
    pub fn geometry(&self) -> &Geometry {
        &self.manifest.geometry
    }

    /// Path, or the label it was given; what messages call it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The whole file.
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// All tensors in file order.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.manifest.tensors.iter().map(|entry| self.at(entry))
    }

    /// One tensor.
    ///
    /// # Errors
    /// No tensor of that name.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>, PackError> {
        match self.by_name.get(name) {
            Some(&index) => Ok(self.at(&self.manifest.tensors[index])),
            None => Err(PackError::Access {
                file: self.label.clone(),
                tensor: name.into(),
                asked: "a tensor",
                found: "none of that name".into(),
            }),
        }
    }

    /// Values of an f32 tensor, `[rows x columns]`, row after row.
    ///
    /// # Errors
    /// No tensor of that name, or one of another format.
    pub fn f32(&self, name: &str) -> Result<&[f32], PackError> {
        self.tensor(name)?.as_f32(&self.label)
    }

    /// Bit patterns of a bf16 tensor, `[rows x columns]`, row after row.
    ///
    /// # Errors
    /// No tensor of that name, or one of another format.
    pub fn bf16(&self, name: &str) -> Result<&[u16], PackError> {
        self.tensor(name)?.as_bf16(&self.label)
    }

    /// Values of a u32 tensor.
    ///
    /// # Errors
    /// No tensor of that name, or one of another format.
    pub fn u32(&self, name: &str) -> Result<&[u32], PackError> {
        self.tensor(name)?.as_u32(&self.label)
    }

    /// Bytes of weight codes, in tiles or rows ([`rawloop_spec::tile`]).
    ///
    /// # Errors
    /// No tensor of that name, or one that holds no codes.
    pub fn codes(&self, name: &str) -> Result<&[u8], PackError> {
        let tensor = self.tensor(name)?;
        match tensor.entry.format {
            Format::Tiles(_) | Format::Rows(_) => Ok(tensor.bytes),
            _ => Err(tensor.wrong("weight codes", &self.label)),
        }
    }

    /// A blob, where the pack has it.
    pub fn blob(&self, name: &str) -> Option<&[u8]> {
        self.manifest.blob(name).map(|entry| self.range(entry.offset, entry.bytes))
    }

    /// Asks the operating system to read ahead everything a token reads whole. Returns at once; no effect on packs in
    /// memory and on hosts without such advice.
    pub fn advise_weights(&self) {
        for entry in &self.manifest.tensors {
            if !matches!(entry.class, Class::Gathered | Class::Unread | Class::Drafter) {
                self.memory.advise(Use::Soon, entry.offset, entry.bytes);
            }
        }
    }

    /// The same for the drafter's weights.
    pub fn advise_drafter(&self) {
        for entry in self.manifest.tensors.iter().filter(|entry| entry.class == Class::Drafter) {
            self.memory.advise(Use::Soon, entry.offset, entry.bytes);
        }
    }

    /// Tells the operating system that single rows are read of the gathered tables, so that a fault brings in one page
    /// and not its neighbours: E2B's per-layer table is 1.2 GB, of which a token reads 4.5 KB.
    pub fn advise_gathered(&self) {
        for entry in self.manifest.tensors.iter().filter(|entry| entry.class == Class::Gathered) {
            self.memory.advise(Use::Random, entry.offset, entry.bytes);
        }
    }

    fn at<'a>(&'a self, entry: &'a TensorEntry) -> Tensor<'a> {
        Tensor { entry, bytes: self.range(entry.offset, entry.bytes) }
    }

    /// Bytes of a range of the checked manifest.
    pub(crate) fn range(&self, offset: u64, bytes: u64) -> &[u8] {
        &self.memory.bytes()[offset as usize..(offset + bytes) as usize]
    }
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Pack")
            .field("label", &self.label)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl<'a> Tensor<'a> {
    pub(crate) fn as_f32(&self, file: &str) -> Result<&'a [f32], PackError> {
        let wanted = self.entry.format == Format::F32;
        self.cast(wanted, "f32", file)
    }

    pub(crate) fn as_bf16(&self, file: &str) -> Result<&'a [u16], PackError> {
        let wanted = self.entry.format == Format::Bf16;
        self.cast(wanted, "bf16", file)
    }

    pub(crate) fn as_u32(&self, file: &str) -> Result<&'a [u32], PackError> {
        let wanted = self.entry.format == Format::U32;
        self.cast(wanted, "u32", file)
    }

    fn cast<T: bytemuck::Pod>(
        &self,
        wanted: bool,
        asked: &'static str,
        file: &str,
    ) -> Result<&'a [T], PackError> {
        if !wanted {
            return Err(self.wrong(asked, file));
        }
        // Memory and offsets are multiples of 256 and the size is the format's, so this does not fail.
        bytemuck::try_cast_slice(self.bytes).map_err(|_| self.wrong(asked, file))
    }

    fn wrong(&self, asked: &'static str, file: &str) -> PackError {
        let TensorEntry { name, format, rows, columns, .. } = self.entry;
        let found = format!("{} [{rows} x {columns}]", format.name());
        PackError::Access { file: file.into(), tensor: name.clone(), asked, found }
    }
}
