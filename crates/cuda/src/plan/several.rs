//! A few columns in kernels of their own (`kernels/several.cu`, `head_several.cu`): [`Trial::wide_short`](crate::Trial::wide_short), for 2 to 8 columns of a
//! stream of at most four values a thread. A stage that they cannot run, because its weights do not fit at once, runs as `stage_wide`: both hand on the same things.

use crate::params::Linear;
use crate::weights::LayerWeights;

use super::layers::PLE_ROWS;
use super::stage::Cut;
use super::{Builder, EIGHT, List, WIDEST_SHARED};

/// Room of one kind of scale of a merge, in values.
const SEVERAL_SCALES: usize = 12;
/// From a limb's sums of a row block to the next limb's, in the head.
const HEAD_PITCH: usize = 20;

/// The kernels for at least `columns` columns: the columns that they are made for, and their names.
const fn made_for(columns: usize) -> (usize, [&'static str; 3]) {
    match columns {
        0..=2 => (2, ["stage_2", "per_layer_2", "head_2"]),
        3..=4 => (4, ["stage_4", "per_layer_4", "head_4"]),
        _ => (8, ["stage_8", "per_layer_8", "head_8"]),
    }
}

impl Builder<'_> {
    fn knows_several(&self) -> bool {
        let hidden = self.weights.geometry.hidden;
        self.trial.wide_short
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
    fn several(&self) -> Option<(usize, [&'static str; 3])> {
        let columns = self.form.columns;
        let fits = (2..=EIGHT).contains(&columns) && self.builder.knows_several();
        fits.then(|| made_for(columns))
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
        let units = cut.row_blocks * cut.spans * matrices().map(|m| m.split_k as usize).max()?;
        let x = matrices().map(|m| (m.split_k * (256 / m.bits) + 128 / m.bits) as usize).max()?;
        let rows = cut.row_blocks * 16 * cut.spans;
        let entry = match base.input_kind {
            1 => self.builder.weights.geometry.hidden * (12 + 4 * kept),
            2 => kept * base.merge.heads as usize * 3 * SEVERAL_SCALES * 4,
            _ => 0,
        };
        // The GELU table is counted whether the stage has one or not.
        let shared = units * 512 + entry + 1024 + rows * 4 * (1 + kept) + kept * x;
        (shared + super::layers::STATIC_SHARED <= self.builder.device.shared).then_some((names[0], shared))
    }

    /// The kernel of a per-layer embedding and its shared memory.
    pub(super) fn ple_of_several(&self, weights: &LayerWeights) -> Option<(&'static str, usize)> {
        let (kept, names) = self.several()?;
        let split_k = weights.ple_gate.split_k as usize;
        let units = PLE_ROWS / 16 * split_k + (weights.ple_projection.rows as usize).div_ceil(16);
        let entry = self.builder.weights.geometry.hidden * (12 + 4 * kept);
        let shared = units * 512 + entry + 1024 + PLE_ROWS * 4 * (1 + kept) + kept * (split_k * 32 + 16);
        Some((names[1], shared))
    }
}
