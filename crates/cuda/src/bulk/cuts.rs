//! How a prompt's attention and linears are cut into blocks of the grid: by arithmetic over shapes and multiprocessors alone, so that a card's measured costs stand in one place.
//!
//! Kernels: `bulk_tiles.cu`, `bulk_apart.cu` and `bulk_wide.cu` for attention, `bulk_linear.cu` and `bulk_wgmma.cu` for linears. Whoever launches them is the list (`bulk.rs`).

use rawloop_spec::contract::KEY_BLOCK;

use crate::driver::Device;

/// Inputs of a linear that come at once.
pub(super) const CHUNK: usize = 128;
/// As how many of such chunks K is taken at least where it is in parts.
const LEAST_CHUNKS: usize = 4;
/// Rows and threads of a block of a linear on products of warpgroups (`kernels/bulk_wgmma.cu`), and chunks in its ring.
pub(super) const GROUP_ROWS: usize = 192;
pub(super) const GROUP_THREADS: u32 = 512;
const GROUP_STAGES: usize = 4;
/// What such a block costs beside its chunks, in chunks of 128 columns.
const GROUP_COST: usize = 5;

/// How attention is cut: kernel, rows of a block of the grid (each a head of a token), its shared memory.
pub(super) type AttentionCut = (&'static str, usize, usize);

/// The cuts of attention for heads of `dim` values; the second one where the first leaves multiprocessors without a block, or has no room.
pub(super) fn cuts(dim: usize) -> (AttentionCut, Option<AttentionCut>) {
    let by_lanes = |name, rows| (name, rows, attend_shared(dim, rows));
    match dim {
        32 => (by_lanes("bulk_attend_32", ROWS), None),
        64 => {
            (("bulk_attend_apart_64", ROWS, apart_shared(dim)), Some(by_lanes("bulk_attend_64", FEWER_ROWS)))
        }
        128 => (by_lanes("bulk_attend_128", ROWS), None),
        256 => (
            ("bulk_attend_apart_256", ROWS, apart_shared(dim)),
            Some(by_lanes("bulk_attend_256", FEWER_ROWS)),
        ),
        _ => (by_lanes("bulk_attend_512", 32), None),
    }
}

/// Rows of a block of the grid, and half of them.
const ROWS: usize = 48;
const FEWER_ROWS: usize = 24;
/// Floats from a key's weights to the next key's, where warps have scores or sums (`kernels/bulk_apart.cu`).
const APART_WEIGHTS: usize = 52;

/// From a row of queries or keys by lanes to the next one, in floats.
fn lane_stride(dim: usize) -> usize {
    (dim / 32).max(4) * 32 + 4
}

/// Shared memory of attention: queries and a block of keys by lanes, weights.
fn attend_shared(dim: usize, rows: usize) -> usize {
    4 * ((rows + KEY_BLOCK) * lane_stride(dim) + KEY_BLOCK * (rows + 4))
}

/// The same where some warps make scores and others sums: queries and a block of keys by lanes, one of values, two of scores.
fn apart_shared(dim: usize) -> usize {
    4 * ((ROWS + KEY_BLOCK) * lane_stride(dim) + KEY_BLOCK * dim + 2 * KEY_BLOCK * APART_WEIGHTS)
}

/// Whether a cut has room for the heads of a token.
pub(super) fn has_room((_, rows, shared): AttentionCut, group: usize, device: &Device) -> bool {
    group <= rows && shared + 4096 <= device.shared
}

/// Into how many parts K is cut: so that the multiprocessor with the most blocks of the grid has the fewest chunks, a block counting as one more.
pub(super) fn parts(blocks: usize, chunks: usize, multiprocessors: usize) -> usize {
    let cost = |parts: usize| (blocks * parts).div_ceil(multiprocessors) * (chunks.div_ceil(parts) + 1);
    (1..=chunks.div_ceil(LEAST_CHUNKS)).min_by_key(|&parts| cost(parts)).unwrap_or(1)
}

/// Shared memory of such a block: its ring, two gates for each slot.
pub(super) const fn group_shared(columns: usize) -> usize {
    GROUP_STAGES * (CHUNK * (columns + GROUP_ROWS / 2) + 16)
}

/// How a linear is cut where products of warpgroups make it: kernel, columns of a block of the grid, parts of K.
pub(super) type GroupCut = (&'static str, usize, usize);

/// The cut whose busiest multiprocessor has least to do; none where most of them would have nothing.
pub(super) fn group_cut(
    blocks: usize,
    count: usize,
    chunks: usize,
    sums: bool,
    multiprocessors: usize,
) -> Option<GroupCut> {
    let cost = |columns: usize, parts: usize| {
        let rounds = (blocks * count.div_ceil(columns) * parts).div_ceil(multiprocessors);
        rounds * ((chunks.div_ceil(parts) + GROUP_COST) * columns)
    };
    let most = if sums { chunks.div_ceil(LEAST_CHUNKS) } else { 1 };
    let cuts = [("bulk_wgmma_4_256", 256), ("bulk_wgmma_4_128", 128)];
    let all = cuts.iter().flat_map(|&(name, columns)| (1..=most).map(move |parts| (name, columns, parts)));
    let best = all.min_by_key(|&(_, columns, parts)| cost(columns, parts))?;
    (blocks * count.div_ceil(best.1) * best.2 * 2 >= multiprocessors).then_some(best)
}
