//! Writing planned tensors into a pack, in pieces of about a megabyte made by several threads.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rawloop_pack::PackWriter;
use rawloop_spec::{Bits, Format, tile};
use safetensors::tensor::Dtype;

use crate::error::ConvertError;
use crate::ordered::in_order;
use crate::plan::{Planned, Recipe};
use crate::progress::Progress;
use crate::source::TensorSource;
use crate::values;

/// Stored bytes of a piece, about.
const PIECE_BYTES: usize = 1 << 20;
/// Beyond this the disk and the hash are the limit.
const MOST_WORKERS: usize = 8;

/// Rows of one tensor.
struct Piece {
    tensor: usize,
    row: usize,
    rows: usize,
    first: bool,
    last: bool,
}

/// What a worker fills.
#[derive(Default)]
struct Buffers {
    /// Bytes of the pack.
    packed: Vec<u8>,
    /// Bytes of the checkpoint.
    raw: Vec<u8>,
    floats: Vec<f32>,
}

/// Stored bytes of a plan.
pub fn total_bytes(plan: &[Planned]) -> u64 {
    plan.iter().map(|planned| planned.spec.bytes() as u64).sum()
}

/// Writes every planned tensor; returns how many weight scales are 0.
///
/// # Errors
/// A value the contract refuses, a file that cannot be read or written, or the flag was set.
pub fn emit(
    plan: &[Planned],
    writer: &mut PackWriter,
    cancel: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<u64, ConvertError> {
    let pieces: Vec<Piece> =
        plan.iter().enumerate().flat_map(|(tensor, planned)| cut(tensor, planned)).collect();
    let zeros = AtomicU64::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_WORKERS);
    in_order(
        pieces.len(),
        workers,
        |index, buffers: &mut Buffers| {
            let piece = &pieces[index];
            if cancel.load(Ordering::Relaxed) {
                return Err(ConvertError::Cancelled);
            }
            let zeros_here = make(&plan[piece.tensor], piece, buffers)?;
            zeros.fetch_add(zeros_here, Ordering::Relaxed);
            Ok(())
        },
        |index, buffers| {
            let piece = &pieces[index];
            if piece.first {
                writer.begin(&plan[piece.tensor].spec)?;
            }
            writer.write(&buffers.packed)?;
            progress.advance(buffers.packed.len() as u64);
            if piece.last {
                writer.end()?;
            }
            Ok(())
        },
    )?;
    Ok(zeros.into_inner())
}

/// Cuts a tensor into pieces of whole rows, whole tiles where it is tiled.
fn cut(tensor: usize, planned: &Planned) -> Vec<Piece> {
    let spec = &planned.spec;
    let (rows, unit) = match (&planned.recipe, spec.format) {
        // Token ids are checked as a whole.
        (Recipe::Made(_) | Recipe::Ids(_), _) => (1, 1),
        (_, Format::Tiles(bits)) => (spec.rows, tile::rows(bits)),
        _ => (spec.rows, 1),
    };
    let units = rows.div_ceil(unit);
    let unit_bytes = spec.bytes().div_ceil(units);
    let step = (PIECE_BYTES / unit_bytes.max(1)).max(1) * unit;
    (0..rows)
        .step_by(step)
        .map(|row| Piece {
            tensor,
            row,
            rows: step.min(rows - row),
            first: row == 0,
            last: row + step >= rows,
        })
        .collect()
}

/// Fills `buffers.packed` with a piece; returns how many of its weight scales are 0.
fn make(planned: &Planned, piece: &Piece, buffers: &mut Buffers) -> Result<u64, ConvertError> {
    let Planned { spec, recipe, source } = planned;
    let Buffers { packed, raw, floats } = buffers;
    packed.clear();
    floats.clear();
    let Piece { row, rows, .. } = *piece;
    match recipe {
        Recipe::Made(values) => floats.extend(values),
        Recipe::Codes(tensor) => {
            codes(*source, tensor, spec.format, spec.columns, piece, raw, packed)?;
        }
        Recipe::WeightScales(tensor) => {
            let file = read_floats(*source, tensor, row * spec.columns, rows * spec.columns, raw, floats)?;
            let zeros = values::check_scales(file, tensor, row * spec.columns, floats)?;
            to_bytes(floats, packed);
            return Ok(zeros);
        }
        Recipe::Multipliers(tensor, input_scale) => {
            let file = read_floats(*source, tensor, row, rows, raw, floats)?;
            values::check_scales(file, tensor, row, floats)?;
            floats.iter_mut().for_each(|scale| *scale *= input_scale);
            if let Some(index) = floats.iter().position(|multiplier| !multiplier.is_finite()) {
                let found = format!("row {} overflows f32", row + index);
                return Err(ConvertError::tensor(
                    file,
                    tensor,
                    "scales whose product with the input scale is finite",
                    found,
                ));
            }
        }
        Recipe::Floats(tensor) => {
            read_floats(*source, tensor, row * spec.columns, rows * spec.columns, raw, floats)?;
        }
        Recipe::Half(tensor) => {
            read(*source, tensor, (row * spec.columns * 2) as u64, rows * spec.columns * 2, packed)?;
            // The check widens; what is stored is the checkpoint's own bytes.
            values::floats(source.file_of(tensor), tensor, Dtype::BF16, row * spec.columns, packed, floats)?;
            floats.clear();
        }
        Recipe::Ids(tensor) => ids(*source, tensor, spec.columns, raw, packed)?,
    }
    to_bytes(floats, packed);
    Ok(0)
}

fn to_bytes(floats: &[f32], packed: &mut Vec<u8>) {
    packed.extend(floats.iter().flat_map(|value| value.to_le_bytes()));
}

fn read(
    source: &dyn TensorSource,
    tensor: &str,
    first_byte: u64,
    bytes: usize,
    target: &mut Vec<u8>,
) -> Result<(), ConvertError> {
    target.resize(bytes, 0);
    source.read(tensor, first_byte, target)
}

/// Reads elements `first .. first + count` as f32 and returns the file they are from.
fn read_floats<'a>(
    source: &'a dyn TensorSource,
    tensor: &str,
    first: usize,
    count: usize,
    raw: &mut Vec<u8>,
    floats: &mut Vec<f32>,
) -> Result<&'a Path, ConvertError> {
    let file = source.file_of(tensor);
    let dtype = source.describe(tensor).map_or(Dtype::F32, |description| description.dtype);
    let width = dtype.bitsize() / 8;
    read(source, tensor, (first * width) as u64, count * width, raw)?;
    values::floats(file, tensor, dtype, first, raw, floats)?;
    Ok(file)
}

fn codes(
    source: &dyn TensorSource,
    tensor: &str,
    format: Format,
    columns: usize,
    piece: &Piece,
    raw: &mut Vec<u8>,
    packed: &mut Vec<u8>,
) -> Result<(), ConvertError> {
    let (bits, tiled) = match format {
        Format::Tiles(bits) => (bits, true),
        Format::Rows(bits) => (bits, false),
        other => {
            let found = other.name();
            return Err(ConvertError::tensor(source.file_of(tensor), tensor, "a format of codes", found));
        }
    };
    let row_bytes = bits.bytes(columns);
    let target = if tiled { &mut *raw } else { &mut *packed };
    read(source, tensor, (piece.row * row_bytes) as u64, piece.rows * row_bytes, target)?;
    if bits == Bits::Eight {
        // Two's complement to offset codes: the sign bit flips.
        target.iter_mut().for_each(|code| *code ^= 0x80);
    }
    if tiled {
        let tile_bytes = tile::tile_bytes(bits, columns);
        packed.resize(tile::count(bits, piece.rows) * tile_bytes, 0);
        let sources = raw.chunks(tile::rows(bits) * row_bytes);
        for (rows, tile) in sources.zip(packed.chunks_exact_mut(tile_bytes)) {
            tile::write_tile(rows, bits, columns, tile);
        }
    }
    Ok(())
}

/// Token ids, a permutation of the vocabulary, from I64 or I32 to u32.
fn ids(
    source: &dyn TensorSource,
    tensor: &str,
    vocab: usize,
    raw: &mut Vec<u8>,
    packed: &mut Vec<u8>,
) -> Result<(), ConvertError> {
    let file = source.file_of(tensor);
    let wide = source.describe(tensor).is_none_or(|description| description.dtype == Dtype::I64);
    let width = if wide { 8 } else { 4 };
    read(source, tensor, 0, vocab * width, raw)?;
    let mut seen = vec![false; vocab];
    for (index, bytes) in raw.chunks_exact(width).enumerate() {
        let low = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let high =
            if wide { i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) } else { low >> 31 };
        let id = (i64::from(high) << 32) | i64::from(low as u32);
        let fresh = usize::try_from(id).ok().and_then(|id| seen.get_mut(id)).is_some_and(|seen| {
            let fresh = !*seen;
            *seen = true;
            fresh
        });
        if !fresh {
            let expected = format!("every id below {vocab} once");
            return Err(ConvertError::tensor(file, tensor, expected, format!("{id} at place {index}")));
        }
        packed.extend((id as u32).to_le_bytes());
    }
    Ok(())
}
