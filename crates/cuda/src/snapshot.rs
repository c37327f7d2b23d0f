//! Ring snapshots as bytes: what a rewind beyond the rings' slack needs.
//!
//! Rows of the sliding layers that a token at the position may read; full layers keep every position anyway. The form is private to this
//! backend: eight little-endian words, then for each ring its keys and values. The last header word is a checksum of everything else,
//! since a snapshot may have been on a disk.

use crate::kv::{KvCache, KvLayout, SIDES};
use crate::options::KvFormat;

const MAGIC: u64 = u64::from_le_bytes(*b"rlcuring");
const HEADER: usize = 8 * 8;

/// Fingerprint of what the rows mean: format, reach and the shape of every ring.
fn shape(layout: &KvLayout) -> u64 {
    let format = match layout.format {
        KvFormat::F32 => 0,
        KvFormat::F16 => 1,
        KvFormat::I8 => 2,
    };
    layout.rings().fold(mix(format, layout.reach as u64), |hash, (layer, room)| {
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
    words(&bytes[HEADER..], words(&bytes[..HEADER - 8], 1))
}

/// The rings of a cache as bytes, as they were at a position that it can be truncated to.
///
/// # Errors
/// The card does not answer.
pub(crate) fn take(cache: &KvCache, position: usize) -> Result<Vec<u8>, String> {
    let layout = &cache.layout;
    let first = position.saturating_sub(layout.reach);
    let mut bytes = Vec::new();
    for word in [MAGIC, 1, shape(layout), position as u64, first as u64, 0, 0, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for (layer, _) in layout.rings() {
        for side in SIDES {
            bytes.extend(cache.rows(layer, side, first, position).map_err(|error| error.to_string())?);
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
pub(crate) fn restore(cache: &mut KvCache, position: usize, bytes: &[u8]) -> Result<(), String> {
    let layout = cache.layout.clone();
    if bytes.len() < HEADER {
        return Err(format!("{} bytes are fewer than its header has", bytes.len()));
    }
    let word = |index: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
        u64::from_le_bytes(word)
    };
    if word(0) != MAGIC || word(1) != 1 {
        return Err("it was not made by this version of the CUDA backend".into());
    }
    if word(2) != shape(&layout) {
        return Err("it is of another model or another --kv format".into());
    }
    let first = position.saturating_sub(layout.reach);
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
        for side in SIDES {
            let (rows, behind) = rest.split_at(side_bytes(layer));
            cache.write_rows(layer, side, first, position, rows).map_err(|error| error.to_string())?;
            rest = behind;
        }
    }
    cache.set(position, first);
    Ok(())
}
