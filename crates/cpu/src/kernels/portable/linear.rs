//! Rule 2 on the tile layout: integer dots, plain loops over the bytes in the order they lie in memory.

use rawloop_spec::tile::{VECTOR_BYTES, VECTOR_ROWS};

use crate::kernels::view::{Activations, BlockMut};

/// See `Kernels::read`.
pub(super) unsafe fn read(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let mut rest = [0u8; 8];
    rest[..words.remainder().len()].copy_from_slice(words.remainder());
    words.fold(u64::from_le_bytes(rest), |all, word| {
        all ^ u64::from_le_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]])
    })
}

/// See `Kernels::matvec`. `WIDTH` is the width of a code in bits.
pub(super) unsafe fn matvec<const WIDTH: usize>(
    weights: &[u8],
    columns: usize,
    x: &[i8],
    x_sum: i32,
    out: &mut [i32],
) {
    let planes = 8 / WIDTH;
    let vectors = planes; // 1, 2 and 4 side by side, at 8, 4 and 2 bits
    let mask = ((1u32 << WIDTH) - 1) as u8;
    let group_bytes = vectors * VECTOR_BYTES;
    let tile_bytes = columns / (4 * planes) * group_bytes;
    let zero = (1i32 << (WIDTH - 1)) * x_sum;
    for (tile, out) in weights.chunks_exact(tile_bytes).zip(out.chunks_exact_mut(vectors * VECTOR_ROWS)) {
        let mut acc = [0i32; 4 * VECTOR_ROWS];
        for (group, x) in tile.chunks_exact(group_bytes).zip(x.chunks_exact(4 * planes)) {
            for (plane, x) in x.chunks_exact(4).enumerate() {
                let x = [x[0] as i32, x[1] as i32, x[2] as i32, x[3] as i32];
                for (row, acc) in group.chunks_exact(4).zip(&mut acc) {
                    let code = |byte: u8| ((byte >> (plane * WIDTH)) & mask) as i32;
                    *acc +=
                        code(row[0]) * x[0] + code(row[1]) * x[1] + code(row[2]) * x[2] + code(row[3]) * x[3];
                }
            }
        }
        for (out, acc) in out.iter_mut().zip(acc) {
            *out = acc - zero;
        }
    }
}

/// See `Kernels::matmul`. Tile after tile, so that a tile is read from memory once.
pub(super) unsafe fn matmul<const WIDTH: usize>(
    weights: &[u8],
    columns: usize,
    x: Activations<'_>,
    mut out: BlockMut<'_, i32>,
) {
    let rows = 8 / WIDTH * VECTOR_ROWS;
    let tile_bytes = columns * rows * WIDTH / 8;
    for (index, tile) in weights.chunks_exact(tile_bytes).enumerate() {
        for token in 0..x.tokens() {
            let out = &mut out.row(token)[index * rows..][..rows];
            // SAFETY: `matvec` is plain Rust.
            unsafe { matvec::<WIDTH>(tile, columns, x.token(token), x.sum(token), out) };
        }
    }
}
