//! The bytes of a pack: a mapped file, a part of the program, or a copy in aligned memory.
//!
//! Typed slices need alignment. A mapping has it; bytes compiled into the program or handed over by a browser may not, and
//! are then moved or copied once. The copy is a longer `Vec` entered at the first aligned byte, which needs no unsafe code.

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

use crate::error::PackError;
use crate::layout::{PAGE, SMALL_ALIGNMENT};

/// Bytes whose address is a multiple of 256 at least.
pub(crate) enum Memory {
    Mapped(Mmap),
    Static(&'static [u8]),
    Owned { bytes: Vec<u8>, start: usize },
}

impl Memory {
    /// Maps a regular file. The mapping keeps the file's content alive when another file is renamed over its path; it does
    /// not protect against a program that cuts or rewrites the file in place, which is why packs are only ever replaced.
    pub(crate) fn map(path: &Path) -> Result<Memory, PackError> {
        // Asked before opening: opening a pipe would wait for its writer.
        let metadata = std::fs::metadata(path).map_err(PackError::io(path, "find the pack"))?;
        if !metadata.is_file() {
            let error = std::io::Error::other("it is not a regular file");
            return Err(PackError::io(path, "open the pack")(error));
        }
        let file = File::open(path).map_err(PackError::io(path, "open the pack"))?;
        let length = file.metadata().map_err(PackError::io(path, "find the pack's length"))?.len();
        // An empty mapping is an error on some systems; nothing to map is simply no bytes.
        if length == 0 {
            return Ok(Memory::Static(&[]));
        }
        // SAFETY: the mapping is read only and shared with the page cache. Its length is fixed here and every access is
        // bounded by it. Packs are replaced by rename and never written in place (docs/pack-format.md), which is the
        // condition for the bytes not to change under a shared reference.
        let map = unsafe { Mmap::map(&file) }.map_err(PackError::io(path, "map the pack"))?;
        Ok(Memory::Mapped(map))
    }

    pub(crate) fn from_static(bytes: &'static [u8], label: &str) -> Result<Memory, PackError> {
        if padding(bytes, SMALL_ALIGNMENT as usize) == 0 {
            Ok(Memory::Static(bytes))
        } else {
            copy(bytes, label)
        }
    }

    /// Moves the bytes up to an aligned address where the vector has room for that, so that a host with little memory
    /// needs no second copy.
    pub(crate) fn from_vec(mut bytes: Vec<u8>, label: &str) -> Result<Memory, PackError> {
        let length = bytes.len();
        let start = padding(&bytes, SMALL_ALIGNMENT as usize);
        if bytes.capacity() - length < start {
            return copy(&bytes, label);
        }
        // Within the capacity, so the memory stays where its alignment was measured.
        bytes.resize(length + start, 0);
        bytes.copy_within(..length, start);
        Ok(Memory::Owned { bytes, start })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Memory::Mapped(map) => map,
            Memory::Static(bytes) => bytes,
            Memory::Owned { bytes, start } => &bytes[*start..],
        }
    }

    /// Tells the operating system how a range will be read. Advice: a refusal changes nothing and is dropped.
    #[cfg(unix)]
    pub(crate) fn advise(&self, use_: Use, offset: u64, bytes: u64) {
        let Memory::Mapped(map) = self else { return };
        let advice = match use_ {
            Use::Soon => memmap2::Advice::WillNeed,
            Use::Random => memmap2::Advice::Random,
        };
        // Ranges come from a checked manifest, so they fit the mapping and with it usize.
        let _ = map.advise_range(advice, offset as usize, bytes as usize);
    }

    #[cfg(not(unix))]
    pub(crate) fn advise(&self, _: Use, _: u64, _: u64) {}
}

/// How a range will be read.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    /// All of it, soon.
    Soon,
    /// Single rows, anywhere.
    Random,
}

/// Bytes from the start of a slice to the next aligned address.
fn padding(bytes: &[u8], alignment: usize) -> usize {
    let address = bytes.as_ptr().addr();
    address.next_multiple_of(alignment) - address
}

fn copy(source: &[u8], label: &str) -> Result<Memory, PackError> {
    let alignment = PAGE as usize;
    let mut bytes = Vec::<u8>::new();
    // Fails as an error, not as an abort: in a browser the memory may end here.
    bytes.try_reserve_exact(source.len().saturating_add(alignment)).map_err(|error| PackError::Io {
        file: label.into(),
        action: "reserve memory for the pack",
        source: std::io::Error::new(std::io::ErrorKind::OutOfMemory, error),
    })?;
    let start = padding(&bytes, alignment);
    // Neither call exceeds the reserved capacity, so the memory stays where its alignment was measured.
    bytes.resize(start, 0);
    bytes.extend_from_slice(source);
    Ok(Memory::Owned { bytes, start })
}
