//! Ring snapshots as bytes: what a rewind beyond the rings' slack needs.
//!
//! A snapshot holds the rows of the sliding layers that a token at its position may read (`reach` of them at most); full
//! layers keep every position anyway. E2B: 6.3 MB at f16. The form is private to this backend and versioned: a header of
//! eight little-endian words, then for each ring its keys and values, head after head, position after position, each row as
//! `kv_row` shows it. The last header word is a checksum of everything else, since a snapshot may have been on a disk.

use crate::kv::{KvCache, KvFormat, KvLayout, Side};

const MAGIC: u64 = u64::from_le_bytes(*b"rlkvring");
const VERSION: u64 = 1;
const HEADER: usize = 8 * 8;
const SIDES: [Side; 2] = [Side::Keys, Side::Values];

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

/// Sum of the header before its last word and of all rows.
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

fn row_bytes_of_a_position(layout: &KvLayout) -> usize {
    layout.rings().map(|(_, room)| 2 * room.kv_heads * layout.format.row_bytes(room.dim)).sum()
}

/// The rings of a cache as bytes.
pub(crate) fn take(cache: &KvCache) -> Vec<u8> {
    let layout = cache.layout();
    let position = cache.position();
    let first = position.saturating_sub(layout.reach);
    let rows = (position - first) * row_bytes_of_a_position(layout);
    let mut bytes = Vec::with_capacity(HEADER + rows);
    for word in [MAGIC, VERSION, shape(layout), position as u64, first as u64, rows as u64, 0, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for (_, room) in layout.rings() {
        for side in SIDES {
            for head in 0..room.kv_heads {
                for position in first..position {
                    cache.copy_out(room, side, head, room.slot(position), &mut bytes);
                }
            }
        }
    }
    let sum = checksum(&bytes);
    bytes[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Writes a snapshot taken at `position` into a cache and goes there.
///
/// # Errors
/// What about the snapshot does not fit; the cache has not changed then.
pub(crate) fn restore(cache: &mut KvCache, position: usize, bytes: &[u8]) -> Result<(), String> {
    let layout = cache.layout().clone();
    if bytes.len() < HEADER {
        return Err(format!("{} bytes are fewer than its header has", bytes.len()));
    }
    let word = |index: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
        u64::from_le_bytes(word)
    };
    if word(0) != MAGIC {
        return Err("it was not made by the CPU backend".into());
    }
    if word(1) != VERSION {
        return Err(format!("it has version {}, this program reads version {VERSION}", word(1)));
    }
    if word(2) != shape(&layout) {
        return Err("it is of another model or another --kv format".into());
    }
    let first = position.saturating_sub(layout.reach);
    let rows = (position - first) * row_bytes_of_a_position(&layout);
    if word(3) != position as u64 || word(4) != first as u64 {
        return Err(format!("it says position {}, its label says {position}", word(3)));
    }
    if word(5) != rows as u64 || bytes.len() != HEADER + rows {
        return Err(format!("{} bytes, expected {}", bytes.len(), HEADER + rows));
    }
    if word(7) != checksum(bytes) {
        return Err("its checksum is wrong: the bytes were damaged".into());
    }
    let held = cache.position();
    if position > held {
        return Err(format!("it was taken at position {position}, the sequence holds {held}"));
    }
    let mut rest = &bytes[HEADER..];
    for (layer, room) in layout.rings() {
        for side in SIDES {
            for head in 0..room.kv_heads {
                for position in first..position {
                    let (row, behind) = rest.split_at(layout.format.row_bytes(room.dim));
                    cache.copy_in(layer, side, head, room.slot(position), row);
                    rest = behind;
                }
            }
        }
    }
    cache.set(position, first);
    Ok(())
}
