//! Quantised linears over the team: output codes of all columns, tile range by tile range.
//!
//! Several linears of one input (q, k and v) are one job, so that a small one does not wait for a join of its own.

use std::ops::Range;

use crate::counters::Counters;
use crate::crew::Crew;
use crate::cut::Cut;
use crate::kernels::{Activations, Block, BlockMut, Kernels};
use crate::parts::{Chain, Grid};
use crate::weights::{Linear, Mapping};

/// Rules 2 and 3 for the rows of some tiles: accumulators, then output codes; `out` is `[tokens x rows]`.
pub(crate) fn codes_of(
    kernels: &Kernels,
    mapping: Mapping<'_>,
    linear: &Linear,
    tiles: Range<usize>,
    x: Activations<'_>,
    acc: &mut [i32],
    out: BlockMut<'_, i8>,
) {
    let weights = mapping.tiles(&linear.matrix);
    let (tokens, rows) = (x.tokens(), tiles.len() * weights.tile_rows());
    let first = tiles.start * weights.tile_rows();
    let acc = &mut acc[..tokens * rows];
    kernels.matmul(weights, tiles, x, BlockMut::new(acc, tokens, rows, rows));
    let real = out.columns();
    let multipliers = &mapping.floats(linear.multipliers)[first..first + real];
    kernels.requantise(Block::new(acc, tokens, real, rows), multipliers, linear.output_scale, out);
}

/// Output codes of linears that share their input; `outs[i]` is `[tokens x rows of linears[i]]`.
pub(crate) fn linears<const N: usize>(
    crew: &mut Crew,
    kernels: &Kernels,
    mapping: Mapping<'_>,
    linears: [&Linear; N],
    x: Activations<'_>,
    outs: [&mut [i8]; N],
) {
    let (tokens, threads) = (x.tokens(), crew.threads());
    let cuts = linears.map(|linear| Cut::new(&linear.matrix, tokens, threads));
    let mut index = 0;
    let parts = Chain(outs.map(|out| {
        let step = cuts[index].rows;
        index += 1;
        Grid::by_columns(out, tokens, step)
    }));
    crew.run(&parts, |scratch, _, (which, chunk, out)| {
        codes_of(kernels, mapping, linears[which], cuts[which].tiles(chunk), x, &mut scratch.acc, out);
    });
}

impl Counters {
    /// A linear's weights were read once.
    pub(crate) fn read(&mut self, linear: &Linear) {
        self.weight_bytes += (linear.matrix.bytes + 4 * linear.matrix.rows) as u64;
    }
}
