//! Writing a synthetic checkpoint folder in the official layout, whole or not at all.
//!
//! The folder is made under another name beside its place and renamed at the end. Weights are streamed: a header is known
//! from names and shapes, the data follows in pieces.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};

use super::shape::Shape;
use super::weights::Synthetic;
use super::{SynthOptions, origin, tokenizer};
use crate::error::ConvertError;
use crate::ordered::in_order;
use crate::progress::{Phase, Progress};
use crate::provenance::SOURCE_FILE;
use crate::safetensors::dtype_name;
use crate::source::TensorSource;

const PIECE_BYTES: u64 = 1 << 20;
const MOST_SHARDS: usize = 999;

/// Writes the folder; returns the bytes of its tensors.
pub fn write(
    options: &SynthOptions,
    shape: &Shape,
    target: &Synthetic,
    drafter: Option<&Synthetic>,
    progress: &mut dyn Progress,
) -> Result<u64, ConvertError> {
    let output = options.output.as_path();
    if output.exists() && std::fs::read_dir(output).map_err(ConvertError::io(output))?.next().is_some() {
        return Err(ConvertError::Occupied(output.into()));
    }
    let parent = match output.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(output.file_name().unwrap_or_default());
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".unfinished");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    // Dropped before the rename, it takes everything with it.
    let unfinished = builder.tempdir_in(parent).map_err(ConvertError::io(parent))?;
    let folder = unfinished.path();

    write_file(&folder.join("config.json"), &pretty(&shape.config_json))?;
    write_file(&folder.join("generation_config.json"), &pretty(&shape.generation_document().value))?;
    write_file(&folder.join("tokenizer.json"), &tokenizer::json(shape.geometry.vocab))?;
    let origin = origin();
    let source = json!({ "source": origin.source, "license": origin.license, "credit": origin.credit });
    write_file(&folder.join(SOURCE_FILE), &pretty(&source))?;
    let total = bytes_of(target) + drafter.map_or(0, bytes_of);
    progress.phase(Phase::Tensors, total);
    let never = AtomicBool::new(false);
    let cancel = options.cancel.unwrap_or(&never);
    write_weights(folder, target, options.shards.clamp(1, MOST_SHARDS), cancel, progress)?;
    if let (Some(drafter), Some(config)) = (drafter, &shape.assistant_json) {
        let folder = folder.join("assistant");
        std::fs::create_dir(&folder).map_err(ConvertError::io(&folder))?;
        write_file(&folder.join("config.json"), &pretty(config))?;
        write_weights(&folder, drafter, 1, cancel, progress)?;
    }
    progress.phase(Phase::Finish, 0);
    if output.exists() {
        // Empty, as was checked; not every system renames over a folder.
        std::fs::remove_dir(output).map_err(ConvertError::io(output))?;
    }
    std::fs::rename(folder, output).map_err(ConvertError::io(output))?;
    // It has another name now; there is nothing to remove.
    let _ = unfinished.keep();
    Ok(total)
}

fn bytes_of(source: &Synthetic) -> u64 {
    source.names().iter().filter_map(|name| source.describe(name)).map(|description| description.bytes).sum()
}

fn pretty(value: &Value) -> Vec<u8> {
    let mut text = format!("{value:#}").into_bytes();
    text.push(b'\n');
    text
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ConvertError> {
    std::fs::write(path, bytes).map_err(ConvertError::io(path))
}

/// One file, or shards of about the same size with an index.
fn write_weights(
    folder: &Path,
    source: &Synthetic,
    shards: usize,
    cancel: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<(), ConvertError> {
    let names = source.names();
    if shards == 1 {
        return write_shard(&folder.join("model.safetensors"), source, names, cancel, progress);
    }
    let total = bytes_of(source);
    let mut parts: Vec<Vec<String>> = vec![Vec::new(); shards];
    let mut before = 0;
    for name in names {
        let bytes = source.describe(&name).map_or(0, |description| description.bytes);
        let shard = (u128::from(before) * shards as u128 / u128::from(total.max(1))) as usize;
        parts[shard.min(shards - 1)].push(name);
        before += bytes;
    }
    // A table may be larger than a shard's share, which leaves shards empty.
    parts.retain(|part| !part.is_empty());
    let count = parts.len();
    let mut weight_map = Map::new();
    for (index, part) in parts.into_iter().enumerate() {
        let file = format!("model-{:05}-of-{count:05}.safetensors", index + 1);
        weight_map.extend(part.iter().map(|name| (name.clone(), file.clone().into())));
        write_shard(&folder.join(&file), source, part, cancel, progress)?;
    }
    let index = json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
    write_file(&folder.join("model.safetensors.index.json"), &pretty(&index))
}

fn write_shard(
    path: &Path,
    source: &Synthetic,
    names: Vec<String>,
    cancel: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<(), ConvertError> {
    // Wide elements first, then by name: every tensor is aligned to its element, as readers that map the file want.
    let mut tensors: Vec<_> =
        names.into_iter().filter_map(|name| Some((source.describe(&name)?, name))).collect();
    tensors.sort_by_key(|(description, name)| (std::cmp::Reverse(description.dtype.bitsize()), name.clone()));
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!({ "format": "pt" }));
    let mut pieces = Vec::new();
    let mut offset = 0;
    for (index, (description, name)) in tensors.iter().enumerate() {
        let end = offset + description.bytes;
        let info = json!({
            "dtype": dtype_name(description.dtype), "shape": description.shape, "data_offsets": [offset, end]
        });
        header.insert(name.clone(), info);
        offset = end;
        let starts = (0..description.bytes).step_by(PIECE_BYTES as usize);
        pieces
            .extend(starts.map(|start| (index, start, PIECE_BYTES.min(description.bytes - start) as usize)));
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');

    let file = File::create(path).map_err(ConvertError::io(path))?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(ConvertError::io(path))?;
    file.write_all(&header).map_err(ConvertError::io(path))?;
    in_order(
        pieces.len(),
        std::thread::available_parallelism().map_or(1, usize::from).min(8),
        |index, buffer: &mut Vec<u8>| {
            if cancel.load(Ordering::Relaxed) {
                return Err(ConvertError::Cancelled);
            }
            let (tensor, start, bytes) = pieces[index];
            buffer.resize(bytes, 0);
            source.read(&tensors[tensor].1, start, buffer)
        },
        |_, buffer| {
            progress.advance(buffer.len() as u64);
            file.write_all(buffer).map_err(ConvertError::io(path))
        },
    )?;
    file.flush().map_err(ConvertError::io(path))
}
