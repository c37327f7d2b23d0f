//! Ring snapshots as bytes: what a rewind beyond the rings' slack needs.
//!
//! Rows of the sliding layers that a token at the position may read; full layers keep every position anyway. The form is private to this
//! backend: eight little-endian words, then for each ring its keys and values. The last header word is a checksum of everything else,
//! since a snapshot may have been on a disk.

use crate::gpu::Gpu;
use crate::kv::{KvCache, KvLayout};
use crate::options::{GpuError, KvFormat};

const MAGIC: u64 = u64::from_le_bytes(*b"rlwgring");
const VERSION: u64 = 1;
const HEADER: usize = 8 * 8;

/// Fingerprint of what the rows mean: format, window and the shape of every ring.
fn shape(layout: &KvLayout) -> u64 {
    let format = match layout.format {
        KvFormat::F32 => 0,
        KvFormat::F16 => 1,
        KvFormat::I8 => 2,
    };
    layout.rings().fold(mix(format, layout.window as u64), |hash, (layer, room)| {
        mix(mix(mix(hash, layer as u64), room.dim as u64), room.kv_heads as u64)
    })
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

fn checksum(bytes: &[u8]) -> u64 {
    let words = |part: &[u8], hash: u64| {
        part.chunks(8).fold(hash, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(hash, u64::from_le_bytes(word))
        })
    };
    words(&bytes[HEADER..], words(&bytes[..HEADER - 8], VERSION))
}

/// The rings of a cache as bytes.
///
/// # Errors
/// The device does not answer.
pub(crate) fn take(gpu: &Gpu, cache: &KvCache) -> Result<Vec<u8>, GpuError> {
    let layout = &cache.layout;
    let position = cache.position();
    let first = position.saturating_sub(layout.window);
    let mut bytes = Vec::new();
    for word in [MAGIC, VERSION, shape(layout), position as u64, first as u64, 0, 0, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for (layer, _) in layout.rings() {
        for side in [0, 1] {
            bytes.extend(cache.rows(gpu, layer, side, first, position)?);
        }
    }
    let sum = checksum(&bytes);
    bytes[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
    Ok(bytes)
}

/// Writes a snapshot taken at `position` into a cache and goes there.
///
/// # Errors
/// What about the snapshot does not fit; the cache has not changed then.
pub(crate) fn restore(gpu: &Gpu, cache: &mut KvCache, position: usize, bytes: &[u8]) -> Result<(), String> {
    let layout = cache.layout.clone();
    if bytes.len() < HEADER {
        return Err(format!("{} bytes are fewer than its header has", bytes.len()));
    }
    let word = |index: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
        u64::from_le_bytes(word)
    };
    if word(0) != MAGIC || word(1) != VERSION {
        return Err("it was not made by this version of the wgpu backend".into());
    }
    if word(2) != shape(&layout) {
        return Err("it is of another model or another --kv format".into());
    }
    let first = position.saturating_sub(layout.window);
    if word(3) != position as u64 || word(4) != first as u64 {
        return Err(format!("it says position {}, its label says {position}", word(3)));
    }
    let held = cache.position();
    if position > held {
        return Err(format!("it was taken at position {position}, the sequence holds {held}"));
    }
    let side_bytes = |layer: usize| {
        let room = &layout.layers[layer];
        room.kv_heads * (position - first) * layout.row_bytes(room)
    };
    let rows: usize = layout.rings().map(|(layer, _)| 2 * side_bytes(layer)).sum();
    if bytes.len() != HEADER + rows {
        return Err(format!("{} bytes, expected {}", bytes.len(), HEADER + rows));
    }
    if word(7) != checksum(bytes) {
        return Err("its checksum is wrong: the bytes were damaged".into());
    }
    let mut rest = &bytes[HEADER..];
    for (layer, _) in layout.rings() {
        for side in [0, 1] {
            let (rows, behind) = rest.split_at(side_bytes(layer));
            cache.write_rows(gpu, layer, side, first, position, rows);
            rest = behind;
        }
    }
    cache.set(position, first);
    Ok(())
}
