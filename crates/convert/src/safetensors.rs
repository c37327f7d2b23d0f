//! Positioned reads from safetensors files, one or sharded.
//!
//! Only headers are held in memory: the per-layer-embedding table of E2B alone has 1.17 GB, so tensors are read in pieces
//! with `pread`, from as many threads as want to. Files are not mapped, so that a file that shrinks while it is read is
//! an error and not a signal.
//!
//! A header is distrusted: its length is capped before it is read, every offset is checked against the file, tensors must
//! lie one after the other without holes or overlaps as the format demands, and each has the bytes its shape says.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, TensorInfo};
use serde::Deserialize;

use crate::error::{ConvertError, listed};
use crate::source::{Description, TensorSource};

/// Headers longer than this are refused unread; that of E4B has less than 1 MB.
pub const HEADER_CAP: u64 = 32 << 20;
const LENGTH_BYTES: u64 = 8;

/// Where each tensor of one file lies.
#[derive(Debug)]
pub struct Header {
    /// Tensor to its description and the offset of its first byte in the file.
    pub tensors: BTreeMap<String, (Description, u64)>,
}

#[derive(Deserialize)]
struct RawHeader {
    #[serde(rename = "__metadata__")]
    _metadata: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    tensors: BTreeMap<String, TensorInfo>,
}

impl Header {
    /// The length of the header from the first eight bytes of a file of `file_bytes`.
    ///
    /// # Errors
    /// A length beyond the file or beyond [`HEADER_CAP`].
    pub fn length(first: [u8; 8], file_bytes: u64) -> Result<u64, String> {
        let length = u64::from_le_bytes(first);
        if length > HEADER_CAP {
            return Err(format!(
                "the header claims {length} bytes, more than the {HEADER_CAP} that are accepted"
            ));
        }
        if length > file_bytes.saturating_sub(LENGTH_BYTES) {
            return Err(format!("the header claims {length} bytes, the file has {file_bytes}: truncated?"));
        }
        Ok(length)
    }

    /// Parses `json`, the header of a file of `file_bytes`.
    ///
    /// # Errors
    /// Text that says what is wrong and with which tensor.
    pub fn parse(json: &[u8], file_bytes: u64) -> Result<Header, String> {
        let raw: RawHeader =
            serde_json::from_slice(json).map_err(|error| format!("broken safetensors header: {error}"))?;
        let start = LENGTH_BYTES + json.len() as u64;
        let data_bytes = file_bytes.saturating_sub(start);
        let mut by_offset: Vec<(&String, &TensorInfo)> = raw.tensors.iter().collect();
        by_offset.sort_by_key(|(_, info)| info.data_offsets);
        let mut end_before = 0;
        for (name, info) in by_offset {
            let (from, to) = info.data_offsets;
            if to as u64 > data_bytes || from > to {
                return Err(format!(
                    "tensor {name}: bytes {from}..{to} lie outside the {data_bytes} data bytes of the file: truncated?"
                ));
            }
            if from != end_before {
                let what = if from < end_before {
                    "overlaps the tensor before it"
                } else {
                    "leaves a hole before it"
                };
                return Err(format!(
                    "tensor {name}: starts at byte {from}, expected {end_before}: it {what}"
                ));
            }
            let bits = info.shape.iter().try_fold(info.dtype.bitsize(), |bits, &size| bits.checked_mul(size));
            if bits != (to - from).checked_mul(8) {
                return Err(format!(
                    "tensor {name}: {:?} {:?} does not have the {} bytes of its offsets",
                    info.dtype,
                    info.shape,
                    to - from
                ));
            }
            end_before = to;
        }
        if end_before as u64 != data_bytes {
            return Err(format!("{data_bytes} data bytes, but the tensors end at {end_before}"));
        }
        let tensors = raw
            .tensors
            .into_iter()
            .map(|(name, info)| {
                let TensorInfo { dtype, shape, data_offsets: (from, to) } = info;
                let bytes = (to - from) as u64;
                (name, (Description { dtype, shape, bytes }, start + from as u64))
            })
            .collect();
        Ok(Header { tensors })
    }
}

/// A checkpoint's tensors, over all its shards.
pub struct Checkpoint {
    folder: PathBuf,
    shards: Vec<(PathBuf, File)>,
    tensors: BTreeMap<String, (Description, usize, u64)>,
}

impl Checkpoint {
    /// Opens `model.safetensors`, or the shards of `model.safetensors.index.json`.
    ///
    /// # Errors
    /// Neither is there, a shard is not there or broken, or the index and the shards disagree.
    pub fn open(folder: &Path) -> Result<Checkpoint, ConvertError> {
        let mut checkpoint =
            Checkpoint { folder: folder.into(), shards: Vec::new(), tensors: BTreeMap::new() };
        let single = folder.join("model.safetensors");
        if single.is_file() {
            checkpoint.add(&single)?;
            return Ok(checkpoint);
        }
        let index_file = folder.join("model.safetensors.index.json");
        if !index_file.is_file() {
            let need = "the weights (or model.safetensors.index.json and its shards)";
            return Err(ConvertError::NoFile { file: single, need });
        }
        let index = Index::read(&index_file)?;
        let mut names: Vec<&String> = index.weight_map.values().collect();
        names.sort();
        names.dedup();
        for name in names {
            let plain = Path::new(name).file_name().is_some_and(|file| file == name.as_str());
            if !plain || !name.ends_with(".safetensors") {
                let what = format!("weight_map names {name:?}, expected a .safetensors file of this folder");
                return Err(ConvertError::Structure { file: index_file, what });
            }
            checkpoint.add(&folder.join(name))?;
        }
        index.agree(&index_file, &checkpoint)?;
        Ok(checkpoint)
    }

    /// The weight files, in the order of their names.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.shards.iter().map(|(path, _)| path.as_path())
    }

    fn add(&mut self, path: &Path) -> Result<(), ConvertError> {
        let structure = |what| ConvertError::Structure { file: path.into(), what };
        let file = File::open(path).map_err(ConvertError::io(path))?;
        let file_bytes = file.metadata().map_err(ConvertError::io(path))?.len();
        if file_bytes < LENGTH_BYTES {
            return Err(structure(format!("{file_bytes} bytes are too few for a safetensors file")));
        }
        let mut first = [0; LENGTH_BYTES as usize];
        read_at(&file, 0, &mut first).map_err(ConvertError::io(path))?;
        let mut json = vec![0; Header::length(first, file_bytes).map_err(structure)? as usize];
        read_at(&file, LENGTH_BYTES, &mut json).map_err(ConvertError::io(path))?;
        let shard = self.shards.len();
        for (name, (description, offset)) in Header::parse(&json, file_bytes).map_err(structure)?.tensors {
            if let Some((_, other, _)) = self.tensors.get(&name) {
                let what = format!("tensor {name} is also in {}", self.shards[*other].0.display());
                return Err(structure(what));
            }
            self.tensors.insert(name, (description, shard, offset));
        }
        self.shards.push((path.into(), file));
        Ok(())
    }
}

impl TensorSource for Checkpoint {
    fn label(&self) -> &Path {
        &self.folder
    }

    fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn describe(&self, name: &str) -> Option<Description> {
        self.tensors.get(name).map(|(description, ..)| description.clone())
    }

    fn file_of(&self, name: &str) -> &Path {
        self.tensors.get(name).map_or(&self.folder, |&(_, shard, _)| &self.shards[shard].0)
    }

    fn read(&self, name: &str, first_byte: u64, target: &mut [u8]) -> Result<(), ConvertError> {
        let Some((description, shard, offset)) = self.tensors.get(name) else {
            return Err(ConvertError::Missing { folder: self.folder.clone(), count: 1, names: name.into() });
        };
        let (path, file) = &self.shards[*shard];
        let end = first_byte + target.len() as u64;
        if end > description.bytes {
            let expected = format!("{end} bytes");
            return Err(ConvertError::tensor(path, name, expected, format!("{}", description.bytes)));
        }
        read_at(file, offset + first_byte, target).map_err(ConvertError::io(path))
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Index {
    fn read(file: &Path) -> Result<Index, ConvertError> {
        let json = std::fs::read(file).map_err(ConvertError::io(file))?;
        serde_json::from_slice(&json).map_err(|source| ConvertError::Json { file: file.into(), source })
    }

    /// Every mapped tensor lies in its shard and every tensor is mapped.
    fn agree(&self, file: &Path, checkpoint: &Checkpoint) -> Result<(), ConvertError> {
        let shard_name = |shard: usize| checkpoint.shards[shard].0.file_name().unwrap_or_default();
        let fits = |(name, shard): (&String, &String)| {
            checkpoint.tensors.get(name).is_some_and(|&(_, index, _)| shard_name(index) == shard.as_str())
        };
        let wrong: Vec<String> = self
            .weight_map
            .iter()
            .filter(|&entry| !fits(entry))
            .map(|(name, shard)| format!("{name} is not in {shard}"))
            .chain(
                checkpoint
                    .tensors
                    .keys()
                    .filter(|name| !self.weight_map.contains_key(*name))
                    .map(|name| format!("{name} is not in weight_map")),
            )
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let what = format!("index and shards disagree: {}", listed(&wrong));
        Err(ConvertError::Structure { file: file.into(), what })
    }
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, target: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, target, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut offset: u64, mut target: &mut [u8]) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !target.is_empty() {
        match file.seek_read(target, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                offset += count as u64;
                target = &mut target[count..];
            }
        }
    }
    Ok(())
}

/// Short name of an element type in messages.
pub fn dtype_name(dtype: Dtype) -> String {
    format!("{dtype:?}")
}
