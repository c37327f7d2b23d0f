//! The head (rule 9): limbs of the final hidden states once, then picks fused with the logits' computation, or logits.
//!
//! A pass has its picks first, then its logits. Eight columns at a time read the codes once; every thread keeps the best row it
//! has met for each column, and the better of two is the larger logit or, among equals, the lower id, so the order in which
//! threads meet rows does not matter.

use std::ops::Range;

use rawloop_backend::columns::Output;
use rawloop_spec::{TapValue, tile};

use crate::counters::Kind;
use crate::executor::{Executor, Pass};
use crate::kernels::{Best, Block};
use crate::parts::Grid;

/// Columns whose limbs one run over the codes serves.
pub(crate) const HEAD_TOKENS: usize = 8;
/// Bytes of codes of one chunk.
const CHUNK_BYTES: usize = 96 * 1024;

impl Executor {
    /// Picks and logits of every column of the pass.
    pub(crate) fn head(&mut self, pass: &mut Pass<'_>) {
        let tokens = pass.tokens();
        let (hidden, vocab) = (self.weights.geometry.hidden, self.weights.geometry.vocab);
        let stage = self.weights.final_stage;
        for (token, column) in pass.columns.iter().enumerate() {
            let normed = &self.space.normed[token * hidden..][..hidden];
            pass.sequences[column.sequence].hidden.keep(column.position, normed);
        }
        pass.tap.show(pass.columns, stage, [("final", TapValue::Floats(&self.space.normed[..hidden]))]);

        let picks = pass.columns.iter().take_while(|column| matches!(column.output, Output::Pick(_))).count();
        for first in (0..picks).step_by(HEAD_TOKENS) {
            self.pick(pass, first..(first + HEAD_TOKENS).min(picks));
        }
        for first in (picks..tokens).step_by(HEAD_TOKENS) {
            let columns = first..(first + HEAD_TOKENS).min(tokens);
            if let Output::Logits(row) = pass.columns[first].output {
                let out = &mut pass.logits[row * vocab..(row + columns.len()) * vocab];
                self.logits(columns, out);
            }
        }
        if pass.tap.listens()
            && let Some(mut kept) = self.space.kept.take()
        {
            self.logits(0..1, &mut kept.logits);
            pass.tap.show(pass.columns, stage + 1, [("logits", TapValue::Floats(&kept.logits))]);
            pass.tap.show(pass.columns, stage + 2, [("token", TapValue::Token(pick_of(self.space.best[0])))]);
            self.space.kept = Some(kept);
        }
        self.profile.lap(Kind::Head);
    }

    /// The limbs of some columns.
    fn limbs(&mut self, columns: Range<usize>) {
        let hidden = self.weights.geometry.hidden;
        let normed = &self.space.normed[columns.start * hidden..columns.end * hidden];
        self.kernels.head_input(Block::new(normed, columns.len(), hidden, hidden), &mut self.space.head);
        self.counters.weight_bytes += (self.weights.head.bytes + 4 * self.weights.head.rows) as u64;
    }

    fn pick(&mut self, pass: &mut Pass<'_>, columns: Range<usize>) {
        self.limbs(columns.clone());
        let Executor { weights, kernels, crew, space, .. } = self;
        let mapping = weights.mapping();
        let (codes, scales) = (mapping.tiles(&weights.head), mapping.floats(weights.head_scales));
        let (step, input, tokens) = (tiles_of_a_chunk(&codes), &space.head, columns.len());
        crew.run(&codes.count().div_ceil(step), |scratch, chunk, ()| {
            let tiles = chunk * step..((chunk + 1) * step).min(codes.count());
            // A thread's chunks ascend, so a tile only has to beat what this thread has met before.
            kernels.head_best(codes, tiles, input, scales, &mut scratch.best[..tokens]);
        });
        let best = &mut space.best[..tokens];
        crew.take_best(best);
        for (column, best) in pass.columns[columns].iter().zip(best) {
            if let Output::Pick(row) = column.output {
                pass.picks[row] = pick_of(*best);
            }
        }
    }

    /// Logits of some columns, `[columns x vocab]`.
    fn logits(&mut self, columns: Range<usize>, out: &mut [f32]) {
        self.limbs(columns.clone());
        let Executor { weights, kernels, crew, space, .. } = self;
        let mapping = weights.mapping();
        let (codes, scales) = (mapping.tiles(&weights.head), mapping.floats(weights.head_scales));
        let (step, input) = (tiles_of_a_chunk(&codes), &space.head);
        let grid = Grid::by_columns(out, columns.len(), step * codes.tile_rows());
        crew.run(&grid, |_, chunk, out| {
            let tiles = chunk * step..((chunk + 1) * step).min(codes.count());
            kernels.head(codes, tiles, input, scales, out);
        });
    }
}

fn tiles_of_a_chunk(codes: &crate::kernels::Tiles<'_>) -> usize {
    (CHUNK_BYTES / tile::tile_bytes(codes.bits(), codes.columns())).max(1)
}

/// The id of the best row; 0 where every logit was NaN, which only broken weights give.
fn pick_of(best: Best) -> u32 {
    if best.id == u32::MAX { 0 } else { best.id }
}
