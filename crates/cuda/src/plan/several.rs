//! A few columns in kernels of their own (`kernels/several.cu`, `several_attention.cu`, `head_several.cu`): 2 to 8 columns of a stream of at most four values a thread. A stage that they cannot run, because its weights do not fit at once, runs as `stage_wide`: both hand on the same things.

use rawloop_spec::contract::KEY_BLOCK;

use crate::driver::Launch;
use crate::form::{Reach, Role};
use crate::options::DriverError;
use crate::params::{Attention, Linear, Matrix, Merge, argument};
use crate::weights::{LayerWeights, PLE_ROWS, STATIC_SHARED, ffn_cut};

use super::stage::Cut;
use super::{Builder, EIGHT, List, MERGE_CHUNK, SHORT_BLOCKS, WIDEST_SHARED, format_index};

/// Blocks of keys merged at once.
const MERGED: usize = 9;
/// From a limb's sums of a row block to the next limb's, in the head.
const HEAD_PITCH: usize = 20;
/// Threads of an attention kernel, and columns of a block of its grid.
const ATTENTION_THREADS: u32 = 256;
const QUERIES: usize = 2;
/// Threads of a block of the merge.
const MERGE_THREADS: u32 = 64;

/// As much as `SeveralRoom` of the kernels at most (`kernels/several.cuh` asserts it).
const SHARES: usize = 1024;

/// The kernels for at least `columns` columns: the columns that they are made for, and their names.
const fn made_for(columns: usize) -> (usize, [&'static str; 5]) {
    match columns {
        0..=2 => (2, ["stage_2", "per_layer_2", "head_2", "project_2", "ffn_2"]),
        3..=4 => (4, ["stage_4", "per_layer_4", "head_4", "project_4", "ffn_4"]),
        _ => (8, ["stage_8", "per_layer_8", "head_8", "project_wide", "ffn_8"]),
    }
}

/// Those of them that are made for what E2B has: the FFN at 2 bits and at 4, and the per-layer embedding.
const fn plain_for(kept: usize) -> Option<[&'static str; 3]> {
    match kept {
        2 => Some(["ffn_2_at_2", "ffn_2_at_4", "per_layer_2_plain"]),
        4 => Some(["ffn_4_at_2", "ffn_4_at_4", "per_layer_4_plain"]),
        _ => None,
    }
}

/// Whether a whole FFN of `kept` columns enters in clusters (`FFN_CLUSTERS` of `kernels/several_ffn.cu`).
const fn ffn_enters_in_clusters(kept: usize) -> bool {
    kept != 4
}

impl Builder<'_> {
    fn knows_several(&self) -> bool {
        let hidden = self.weights.geometry.hidden;
        // Columns enter in clusters, a block each.
        self.device.has_clusters()
            && hidden <= 4 * self.threads() as usize
            && self.device.warps.is_multiple_of(4)
            && self.device.shared >= WIDEST_SHARED
    }

    /// Columns that one reading of the head's weights serves at most.
    pub fn head_width(&self) -> usize {
        if self.knows_several() { EIGHT } else { 2 }
    }

    /// The head's kernel for `count` columns and its shared memory, where it is one of these.
    pub(super) fn head_of_several(&self, count: usize, ring: usize) -> Option<(&'static str, usize)> {
        if count < 2 || !self.knows_several() {
            return None;
        }
        let (kept, names) = made_for(count);
        let x = self.weights.head.split_k as usize * 128 + 64;
        let shared = self.device.warps * (ring + 3 * kept * HEAD_PITCH * 4) + 3 * kept * x;
        Some((names[2], shared))
    }
}

impl List<'_, '_> {
    /// Columns that the list's kernels are made for, where they are these.
    fn several(&self) -> Option<(usize, [&'static str; 5])> {
        let columns = self.form.columns;
        let fits = (2..=EIGHT).contains(&columns) && self.builder.knows_several();
        fits.then(|| made_for(columns))
    }

    /// The kernel of the projection to the per-layer inputs, and the columns it is made for.
    pub(super) fn project_of_several(&self) -> Option<(&'static str, usize)> {
        self.several().map(|(kept, names)| (names[3], kept))
    }

    /// Shared memory of entries by all threads of a block for all columns: three vectors, in whose place the streams come. Streams of 48 values a lane lie by lanes.
    fn room_of_several(&self, kept: usize) -> usize {
        let hidden = self.builder.weights.geometry.hidden;
        let by_lanes = hidden == 4 * self.builder.threads() as usize && hidden == 32 * 48;
        4 * (3 * hidden).max(kept * if by_lanes { 32 * 52 } else { hidden })
    }

    /// Makes the last launch one of clusters in which each block enters a column; blocks that fill the last cluster have no rows.
    pub(super) fn enters_in_clusters(&mut self) {
        let Some((kept, _)) = self.several() else { return };
        let Some(launch) = self.launches.last_mut() else { return };
        launch.grid.0 = launch.grid.0.next_multiple_of(kept as u32);
        launch.cluster = kept as u32;
    }

    /// The kernel of a whole FFN and its shared memory, for layers that have a second `down`.
    pub(super) fn ffn_of_several(&self, weights: &LayerWeights) -> Option<(&'static str, usize)> {
        let (kept, names) = self.several()?;
        if weights.ffn_down == 0 {
            return None;
        }
        let (gate, geometry) = (&weights.gate, &self.builder.weights.geometry);
        // As for one column, but for the entry, the columns' sums, values and codes.
        let values = ffn_cut(gate, weights.down.bits as usize, geometry.hidden).2;
        let units = values / 16 * 2 * gate.split_k as usize;
        let x = (gate.split_k * (256 / gate.bits) + 128 / gate.bits) as usize;
        let rest = 1024 + 8 * values * (1 + kept) + kept * (values + x) + SHARES;
        let entry =
            if ffn_enters_in_clusters(kept) { self.enter_bytes(1) } else { self.room_of_several(kept) };
        let shared = units * 512 + entry + rest;
        // Two never share a multiprocessor.
        let shared = shared.max(self.builder.device.shared / 2);
        (shared + STATIC_SHARED <= self.builder.device.shared).then_some((names[4], shared))
    }

    /// The kernel of a whole FFN of `bits` in `blocks` blocks, where a layer has what E2B has.
    pub(super) fn plain_ffn_of_several(&self, bits: i32, blocks: usize) -> Option<&'static str> {
        let (kept, _) = self.several()?;
        let [at_2, at_4, _] = plain_for(kept)?;
        // No block only fills a cluster.
        let whole = !ffn_enters_in_clusters(kept) || blocks.is_multiple_of(kept);
        match bits {
            2 if whole => Some(at_2),
            4 if whole => Some(at_4),
            _ => None,
        }
    }

    /// The kernel of the per-layer embedding there.
    pub(super) fn plain_ple_of_several(&self) -> Option<&'static str> {
        let (kept, _) = self.several()?;
        plain_for(kept).map(|[_, _, name]| name)
    }

    /// The same of a whole FFN, but for four columns.
    pub(super) fn ffn_in_clusters(&mut self) {
        if self.several().is_some_and(|(kept, _)| ffn_enters_in_clusters(kept)) {
            self.enters_in_clusters();
        }
    }

    pub(super) fn is_several(&self) -> bool {
        self.several().is_some()
    }

    /// The kernel of a linear stage and its shared memory, where it is one of these: all weights come at once, and the output is not the product of a per-layer embedding.
    pub(super) fn stage_of_several(&self, base: &Linear, cut: &Cut) -> Option<(&'static str, usize)> {
        let (kept, names) = self.several()?;
        if base.ring != 0 || base.output_kind == super::OutputKind::Product as i32 {
            return None;
        }
        let matrices = || base.m.iter().filter(|m| m.bits > 0);
        // Blocks that put codes to each other have them in the same place.
        let cut_of = |m: &Matrix| (m.bits, m.split_k);
        if base.input_kind == 1 && matrices().any(|m| cut_of(m) != cut_of(&base.m[0])) {
            return None;
        }
        let units = cut.row_blocks * cut.spans * matrices().map(|m| m.split_k as usize).max()?;
        let x = matrices().map(|m| (m.split_k * (256 / m.bits) + 128 / m.bits) as usize).max()?;
        let inputs = matrices().map(|m| (m.split_k * (256 / m.bits)) as usize).max()?;
        let rows = cut.row_blocks * 16 * cut.spans;
        let entry = match base.input_kind {
            1 => self.enter_bytes(1),
            2 => {
                let threads = self.builder.threads() as usize;
                16 * MERGED * (kept * base.merge.heads as usize + (inputs / 4 * kept).min(threads))
            }
            _ => 0,
        };
        // The GELU table is counted whether the stage has one or not.
        let shared = units * 512 + entry + 1024 + rows * 4 * (1 + kept) + kept * x + SHARES;
        (shared + STATIC_SHARED <= self.builder.device.shared).then_some((names[0], shared))
    }

    /// Whether the merge of a layer is a kernel of its own, which has a thread for each value and no more blocks of keys than it reads at once.
    pub(super) fn merges_few(&self, merge: &Merge) -> bool {
        let blocks = match (merge.window, self.form.reach) {
            (0, Reach::Short) => SHORT_BLOCKS,
            (0, _) => return false,
            (window, _) => (window as usize).div_ceil(KEY_BLOCK) + 1,
        };
        // Two columns' merges cost less in the projection's entry.
        self.is_several() && self.form.columns > 2 && blocks <= MERGE_CHUNK
    }

    /// That merge: codes of `padded` inputs.
    pub(super) fn merge_few(&mut self, layer: usize, merge: Merge, padded: usize) -> Result<(), DriverError> {
        let room = self.builder.room;
        let arguments = vec![
            argument(merge),
            argument(room.input.address()),
            argument(room.code_stride as i32),
            argument(padded as i32),
        ];
        let dims = (merge.head_dim as usize).div_ceil(MERGE_THREADS as usize);
        let grid = (dims, merge.heads as usize, self.form.columns);
        self.push("merge_few", grid, MERGE_THREADS, 0, arguments, Role::Output(layer))
    }

    /// Row blocks of the projection in a block of the grid: two a warp.
    pub(super) fn ple_share(&self, weights: &LayerWeights) -> usize {
        let all = (weights.ple_projection.rows as usize).div_ceil(16);
        all.min(2 * self.builder.device.warps)
    }

    /// The kernel of a per-layer embedding and its shared memory.
    pub(super) fn ple_of_several(&self, weights: &LayerWeights) -> Option<(&'static str, usize)> {
        let (kept, names) = self.several()?;
        let split_k = weights.ple_gate.split_k as usize;
        let units = PLE_ROWS / 16 * split_k + self.ple_share(weights);
        let rest = PLE_ROWS * 4 * (1 + kept) + kept * (split_k * 32 + 16) + SHARES;
        Some((names[1], units * 512 + self.enter_bytes(1) + 1024 + rest))
    }

    /// Attention that stores the columns' keys and values itself, two columns a block of the grid; none where all keys and values of a block do not fit, or where so
    /// many are seen that heads have to share them.
    pub(super) fn attention_of_several(
        &mut self,
        params: Attention,
        role: Role,
    ) -> Result<Option<Launch>, DriverError> {
        let (columns, sliding) = (self.form.columns, params.window > 0);
        let blocks = match (sliding, self.form.reach) {
            (true, _) => params.window as usize / KEY_BLOCK + 1,
            (false, Reach::Short) => 8,
            (false, Reach::Middle) => 32,
            (false, Reach::Long) => return Ok(None),
        };
        if !self.is_several() {
            return Ok(None);
        }
        let format = self.builder.layout.format;
        let (dim, pairs) = (params.dim as usize, params.pairs as usize);
        let rows = 2 * KEY_BLOCK * (dim * format.value_bytes() + 64);
        // Queries and their weights, a row of each warp, two norms, the pass's rows of rope.
        let warps = ATTENTION_THREADS as usize / 32;
        let floats = QUERIES * (dim + KEY_BLOCK) + (warps + 2) * dim + columns * 2 * pairs;
        let shared = rows + 4 * floats;
        if shared + STATIC_SHARED > self.builder.device.shared {
            return Ok(None);
        }
        let name = ["attend_several_f32", "attend_several_f16", "attend_several_i8"][format_index(format)];
        let grid = (
            blocks.min(params.blocks as usize) as u32,
            params.heads as u32,
            columns.div_ceil(QUERIES) as u32,
        );
        let arguments = vec![argument(params), argument(columns as i32)];
        self.builder.launch(name, grid, ATTENTION_THREADS, shared, arguments, true, role).map(Some)
    }
}
