//! Where things lie: alignments, and sizes computed without trust.
//!
//! 16 KiB is the largest page in use (Apple silicon), so a tensor that starts on it can be handed to a GPU without a copy
//! and advised to the kernel by itself. Tensors below that size would be mostly padding, so they lie together on
//! boundaries of 256 bytes, which is what GPU bindings ask for.

use rawloop_spec::{Format, tile};

/// Bytes of the header at the start of the file.
pub const HEADER_BYTES: usize = 128;
/// The first tensor starts here; the bytes between header and data are zero.
pub const DATA_OFFSET: u64 = 16 * 1024;
/// Alignment of tensors and blobs of at least this size, and of the file's length.
pub const PAGE: u64 = 16 * 1024;
/// Alignment of everything smaller, and of the manifest.
pub const SMALL_ALIGNMENT: u64 = 256;
/// A manifest is never larger; the 35 layers of E2B with a drafter need 0.4 MB.
pub const MANIFEST_LIMIT: u64 = 16 * 1024 * 1024;

/// Alignment of a tensor or blob of that many bytes.
pub const fn alignment(bytes: u64) -> u64 {
    if bytes >= PAGE { PAGE } else { SMALL_ALIGNMENT }
}

/// The next multiple of `alignment` that is not below `offset`; none beyond 64 bits.
pub const fn align_up(offset: u64, alignment: u64) -> Option<u64> {
    offset.checked_next_multiple_of(alignment)
}

/// Bytes of a `[rows x columns]` tensor: [`Format::bytes`] in 64 bits on every host, none where it does not fit or where
/// codes do not fill whole bytes and tile groups.
pub fn stored_bytes(format: Format, rows: usize, columns: usize) -> Option<u64> {
    let (rows, columns) = (rows as u64, columns as u64);
    match format {
        Format::F32 | Format::U32 => rows.checked_mul(columns)?.checked_mul(4),
        Format::Bf16 => rows.checked_mul(columns)?.checked_mul(2),
        Format::Tiles(bits) => {
            if !columns.is_multiple_of(tile::COLUMN_MULTIPLE as u64) {
                return None;
            }
            let tile_rows = tile::rows(bits) as u64;
            rows.div_ceil(tile_rows).checked_mul(tile_rows)?.checked_mul(columns / bits.per_byte() as u64)
        }
        Format::Rows(bits) => {
            if !columns.is_multiple_of(bits.per_byte() as u64) {
                return None;
            }
            rows.checked_mul(columns / bits.per_byte() as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawloop_spec::{presets, tensor};

    #[test]
    fn sizes_are_the_registrys() {
        for preset in presets::all() {
            let geometry = preset.geometry();
            let mut specs = tensor::target(&geometry);
            specs.extend(tensor::drafter(&preset.drafter(true), geometry.vocab, geometry.hidden));
            for spec in specs {
                let bytes = stored_bytes(spec.format, spec.rows, spec.columns);
                assert_eq!(bytes, Some(spec.bytes() as u64), "{}", spec.name);
            }
        }
    }

    #[test]
    fn absurd_sizes_are_none() {
        let most = usize::MAX;
        assert_eq!(stored_bytes(Format::F32, most, most), None);
        assert_eq!(stored_bytes(Format::Bf16, most, 1), None);
        assert_eq!(stored_bytes(Format::Tiles(rawloop_spec::Bits::Two), most, 32), None);
        assert_eq!(stored_bytes(Format::Tiles(rawloop_spec::Bits::Two), 1, 33), None);
        assert_eq!(stored_bytes(Format::Rows(rawloop_spec::Bits::Four), 1, 3), None);
        assert_eq!(align_up(u64::MAX, PAGE), None);
    }
}
