//! The two layouts of weight codes in a pack.
//!
//! **Tiles** serve the linears and the head. A tile has `16 * T` rows, `T` = 1 for 8 bits, 2 for 4, 4 for 2. For each group
//! of `32 / bits` consecutive inputs it holds `T` vectors of 64 bytes side by side; vector `t` has rows `16 t .. 16 t + 16`,
//! 4 bytes each. Byte `b` of a row holds `8 / bits` planes; plane `s` (bits `s * bits ..`) is input
//! `(group * planes + s) * 4 + b`. Tiles follow each other, so a matrix is one sequential stream, which is what a memory
//! controller likes best (docs/kernels.md has the figures), and four consecutive activations are one broadcast. Rows
//! that fill up the last tile hold the zero point.
//!
//! **Rows** serve the gathered tables: row after row, inputs in order, lowest bits first.

use crate::Bits;

/// Rows of one 64-byte vector.
pub const VECTOR_ROWS: usize = 16;
/// Bytes of one vector.
pub const VECTOR_BYTES: usize = 64;
/// Every matrix has a number of inputs that is a multiple of this.
pub const COLUMN_MULTIPLE: usize = 32;

/// Vectors side by side in a tile.
pub const fn vectors(bits: Bits) -> usize {
    match bits {
        Bits::Two => 4,
        Bits::Four => 2,
        Bits::Eight => 1,
    }
}

/// Rows of a tile.
pub const fn rows(bits: Bits) -> usize {
    VECTOR_ROWS * vectors(bits)
}

/// Inputs of one group (4 bytes of codes a row).
pub const fn group_columns(bits: Bits) -> usize {
    32 / bits.width()
}

/// Tiles of a matrix with `row_count` rows.
pub const fn count(bits: Bits, row_count: usize) -> usize {
    row_count.div_ceil(rows(bits))
}

/// Bytes of one tile of a matrix with `columns` inputs.
pub const fn tile_bytes(bits: Bits, columns: usize) -> usize {
    columns / group_columns(bits) * vectors(bits) * VECTOR_BYTES
}

/// Bytes of a whole matrix, last tile filled up.
pub const fn matrix_bytes(bits: Bits, row_count: usize, columns: usize) -> usize {
    count(bits, row_count) * tile_bytes(bits, columns)
}

/// Where the code of (`row`, `column`) lies: byte offset in the matrix and shift inside that byte.
pub const fn locate(bits: Bits, columns: usize, row: usize, column: usize) -> (usize, u32) {
    let tile = row / rows(bits);
    let row_in_tile = row % rows(bits);
    let planes = bits.per_byte();
    let quad = column / 4;
    let (group, plane) = (quad / planes, quad % planes);
    let vector = group * vectors(bits) + row_in_tile / VECTOR_ROWS;
    let byte =
        tile * tile_bytes(bits, columns) + vector * VECTOR_BYTES + row_in_tile % VECTOR_ROWS * 4 + column % 4;
    (byte, (plane * bits.width()) as u32)
}

/// The unsigned code of (`row`, `column`) in a tiled matrix.
pub fn code(matrix: &[u8], bits: Bits, columns: usize, row: usize, column: usize) -> u8 {
    let (byte, shift) = locate(bits, columns, row, column);
    (matrix[byte] >> shift) & code_mask(bits)
}

/// The unsigned code of input `column` in one row of a table in row layout.
pub fn row_code(row: &[u8], bits: Bits, column: usize) -> u8 {
    let per_byte = bits.per_byte();
    (row[column / per_byte] >> (column % per_byte * bits.width())) & code_mask(bits)
}

const fn code_mask(bits: Bits) -> u8 {
    (0xff_u16 >> (8 - bits.width())) as u8
}

/// Writes one tile from rows in row layout. `source` holds up to [`rows`] rows of `bits.bytes(columns)` bytes; missing rows
/// become the zero point. `tile` has [`tile_bytes`] bytes.
pub fn write_tile(source: &[u8], bits: Bits, columns: usize, tile: &mut [u8]) {
    let row_bytes = bits.bytes(columns);
    let per_byte = bits.per_byte();
    let empty =
        (0..per_byte).fold(0u8, |byte, plane| byte | ((bits.zero_point() as u8) << (plane * bits.width())));
    for row in 0..rows(bits) {
        let offset = row / VECTOR_ROWS * VECTOR_BYTES + row % VECTOR_ROWS * 4;
        let Some(codes) = source.get(row * row_bytes..(row + 1) * row_bytes) else {
            for group in 0..columns / group_columns(bits) {
                let at = group * vectors(bits) * VECTOR_BYTES + offset;
                tile[at..at + 4].fill(empty);
            }
            continue;
        };
        for (group, word) in codes.chunks_exact(4).enumerate() {
            let at = group * vectors(bits) * VECTOR_BYTES + offset;
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            tile[at..at + 4].copy_from_slice(&regroup(word, bits).to_le_bytes());
        }
    }
}

/// Reads one tile back into rows in row layout, the inverse of [`write_tile`] for the rows that `target` holds.
pub fn read_tile(tile: &[u8], bits: Bits, columns: usize, target: &mut [u8]) {
    for (row, codes) in target.chunks_exact_mut(bits.bytes(columns)).enumerate() {
        codes.fill(0);
        for column in 0..columns {
            let code = code(tile, bits, columns, row, column);
            codes[column / bits.per_byte()] |= code << (column % bits.per_byte() * bits.width());
        }
    }
}

/// From "input i at bits i*width" to "byte b holds inputs b, b + 4, b + 8 ... as planes".
fn regroup(word: u32, bits: Bits) -> u32 {
    let width = bits.width();
    let mask = (1u32 << width) - 1;
    let mut out = 0;
    for input in 0..32 / width {
        let code = if width == 32 { word } else { (word >> (input * width)) & mask };
        out |= code << (input % 4 * 8 + input / 4 * width);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(count: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_u32;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    }

    #[test]
    fn a_tile_holds_every_code_where_locate_says() {
        for bits in [Bits::Two, Bits::Four, Bits::Eight] {
            for (row_count, columns) in [(1, 32), (rows(bits), 96), (rows(bits) + 3, 64)] {
                let row_bytes = bits.bytes(columns);
                let source = noise(row_count * row_bytes);
                let mut matrix = vec![0xaa; matrix_bytes(bits, row_count, columns)];
                for (index, tile) in matrix.chunks_exact_mut(tile_bytes(bits, columns)).enumerate() {
                    let first = index * rows(bits) * row_bytes;
                    let last = (first + rows(bits) * row_bytes).min(source.len());
                    write_tile(&source[first..last], bits, columns, tile);
                }
                for row in 0..count(bits, row_count) * rows(bits) {
                    for column in 0..columns {
                        let expected = match source.get(row * row_bytes..(row + 1) * row_bytes) {
                            Some(codes) => row_code(codes, bits, column),
                            None => bits.zero_point() as u8,
                        };
                        assert_eq!(
                            code(&matrix, bits, columns, row, column),
                            expected,
                            "{bits:?} {row} {column}"
                        );
                    }
                }
                let mut back = vec![0; row_count.min(rows(bits)) * row_bytes];
                read_tile(&matrix[..tile_bytes(bits, columns)], bits, columns, &mut back);
                assert_eq!(back, source[..back.len()]);
            }
        }
    }
}
