//! How the tiles of a linear are cut into chunks for the team.
//!
//! A chunk is a run of tiles, one sequential stretch of the weights. Small chunks even out threads that are late or slow, large
//! ones keep the prefetcher in its stride; one thread is as fast with 16 KB as with 1 MB (docs/kernels.md), so chunks are
//! small. With many tokens the accumulators of a chunk bound it too: they should stay in the L2 cache.

use std::ops::Range;

use rawloop_spec::tile;

use crate::weights::Matrix;

/// Accumulators of a chunk: 128 KiB of i32.
pub(crate) const MOST_ACCUMULATORS: usize = 32 * 1024;
/// Tiles of every width fill this many rows, so linears of different widths can be cut alike.
const COMMON_ROWS: usize = 64;
/// Bytes of weights of a chunk.
const CHUNK_BYTES: Range<usize> = 16 * 1024..64 * 1024;
/// Chunks that a thread takes of one linear, where it is large enough.
const CHUNKS_OF_A_THREAD: usize = 16;

/// Equal runs of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Rows of a chunk; the last may have fewer.
    pub rows: usize,
    tile_rows: usize,
    tile_count: usize,
}

impl Cut {
    /// Cuts one matrix for `tokens` tokens and `threads` threads.
    pub fn new(matrix: &Matrix, tokens: usize, threads: usize) -> Cut {
        Cut::in_steps(matrix, tokens, threads, tile::rows(matrix.bits), CHUNK_BYTES.end)
    }

    /// Cuts matrices of the same rows, whatever their code widths, at the same rows: they share a chunk's bytes.
    pub fn alike<const N: usize>(matrices: [&Matrix; N], tokens: usize, threads: usize) -> [Cut; N] {
        let most = CHUNK_BYTES.end / N;
        let first = matrices.map(|matrix| Cut::in_steps(matrix, tokens, threads, COMMON_ROWS, most));
        let rows = first.iter().map(|cut| cut.rows).min().unwrap_or(COMMON_ROWS);
        first.map(|cut| Cut { rows, ..cut })
    }

    fn in_steps(matrix: &Matrix, tokens: usize, threads: usize, step: usize, most: usize) -> Cut {
        let tile_rows = tile::rows(matrix.bits);
        let tile_count = tile::count(matrix.bits, matrix.rows);
        let step_bytes = tile::tile_bytes(matrix.bits, matrix.columns) * (step / tile_rows);
        let wanted = (matrix.bytes / (threads * CHUNKS_OF_A_THREAD)).clamp(CHUNK_BYTES.start, most);
        let by_bytes = wanted / step_bytes.max(1);
        let by_accumulators = MOST_ACCUMULATORS / (tokens.max(1) * step);
        let steps = by_bytes.min(by_accumulators).max(1);
        Cut { rows: steps * step, tile_rows, tile_count }
    }

    /// Tiles of a chunk.
    pub fn tiles(&self, chunk: usize) -> Range<usize> {
        let tiles = self.rows / self.tile_rows;
        (chunk * tiles).min(self.tile_count)..((chunk + 1) * tiles).min(self.tile_count)
    }

    /// First row of a chunk.
    pub fn first_row(&self, chunk: usize) -> usize {
        chunk * self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawloop_spec::Bits;

    const SHAPES: [(Bits, usize, usize); 6] = [
        (Bits::Two, 12_288, 1536),
        (Bits::Four, 6144, 1536),
        (Bits::Four, 1536, 12_288),
        (Bits::Eight, 256, 1536),
        (Bits::Eight, 1536, 256),
        (Bits::Two, 65, 32),
    ];

    #[test]
    fn chunks_cover_every_tile_once_and_fit_the_accumulators() {
        for (bits, rows, columns) in SHAPES {
            let matrix = Matrix::detached(bits, rows, columns);
            for tokens in [1, 2, 8, 64, 511, 512] {
                for threads in [1, 2, 16, 200] {
                    let cut = Cut::new(&matrix, tokens, threads);
                    let chunks = rows.div_ceil(cut.rows);
                    let tiles: Vec<usize> = (0..chunks).flat_map(|chunk| cut.tiles(chunk)).collect();
                    let all: Vec<usize> = (0..tile::count(bits, rows)).collect();
                    assert_eq!(tiles, all, "{bits:?} {rows} x {columns}");
                    assert!(tokens * cut.rows <= MOST_ACCUMULATORS);
                    for chunk in 0..chunks {
                        assert_eq!(cut.tiles(chunk).start * tile::rows(bits), cut.first_row(chunk));
                    }
                }
            }
        }
    }

    #[test]
    fn matrices_of_unequal_widths_are_cut_at_the_same_rows() {
        let two = Matrix::detached(Bits::Two, 6144, 1536);
        let four = Matrix::detached(Bits::Four, 6144, 1536);
        let eight = Matrix::detached(Bits::Eight, 6144, 1536);
        for tokens in [1, 512] {
            let cuts = Cut::alike([&two, &four, &eight], tokens, 2);
            for chunk in 0..6144usize.div_ceil(cuts[0].rows) {
                let rows = [Bits::Two, Bits::Four, Bits::Eight].map(tile::rows);
                let starts = [0, 1, 2].map(|i| cuts[i].tiles(chunk).start * rows[i]);
                let ends = [0, 1, 2].map(|i| cuts[i].tiles(chunk).end * rows[i]);
                assert_eq!(starts, [chunk * cuts[0].rows; 3]);
                assert!(ends.iter().all(|end| *end == ends[0]));
            }
        }
    }
}
