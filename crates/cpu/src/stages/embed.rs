//! The first two stages: embedding and per-layer inputs (rules 10 and 11), with the rope rows of every position.
//!
//! Rows of the gathered tables are read where they lie in the mapping. The projection from the embedding to all per-layer
//! inputs is the largest bf16 matrix of a token (E2B: 27.5 MB), so it is cut by rows like a linear; with many tokens also by
//! tokens, so that their embeddings stay in the cache.

use rawloop_spec::contract::rope_row;
use rawloop_spec::{AttentionKind, TapValue};

use super::rows::{input_codes, rows_of_a_chunk};
use crate::counters::Kind;
use crate::executor::{Executor, Pass};
use crate::kernels::Block;
use crate::parts::Grid;
use crate::weights::HALF_ROOT;

/// Tokens of one chunk of the projection.
const PROJECTED_TOKENS: usize = 32;
/// Rows of one chunk of the projection; E2B: 98 KB.
const PROJECTED_ROWS: usize = 32;

impl Executor {
    /// Rule 11: embedding rows, and the first layer's input codes.
    pub(crate) fn embed(&mut self, pass: &mut Pass<'_>) {
        self.rope_rows(pass);
        let Executor { weights, kernels, crew, space, counters, profile } = self;
        let (mapping, tokens) = (weights.mapping(), pass.tokens());
        let (width, bits, factor) = (weights.geometry.hidden, weights.embed.bits, weights.embed_factor);
        let first = &weights.layers[0];
        let norm = mapping.floats(first.input_norm);
        let step = rows_of_a_chunk(tokens, crew.threads());
        let hidden = Grid::by_rows(&mut space.hidden[..tokens * width], tokens, step);
        let codes = Grid::by_rows(&mut space.input.codes[..tokens * width], tokens, step);
        let sums = Grid::by_rows(&mut space.input.sums[..tokens], tokens, step);
        let columns = pass.columns;
        crew.run(&(hidden, codes, sums), |_, chunk, (mut hidden, mut codes, mut sums)| {
            for row in 0..hidden.rows() {
                let (table, scales) = mapping.row(&weights.embed, columns[chunk * step + row].token);
                kernels.expand_row(table, bits, scales[0], factor, hidden.row(row));
                sums.row(row)[0] =
                    input_codes(kernels, hidden.row(row), Some(norm), first.q.input_scale, codes.row(row));
            }
        });
        counters.weight_bytes += (tokens * (bits.bytes(width) + 4)) as u64;
        profile.lap(Kind::Embed);
        pass.tap.show(pass.columns, 0, [("hidden", TapValue::Floats(&space.hidden[..width]))]);
    }

    /// Rule 7: cosines and sines of every column's position, for both kinds of layer.
    fn rope_rows(&mut self, pass: &Pass<'_>) {
        let Executor { weights, crew, space, .. } = self;
        let tokens = pass.tokens();
        let step = rows_of_a_chunk(tokens, crew.threads());
        for kind in [AttentionKind::Sliding, AttentionKind::Full] {
            let frequencies = weights.frequencies(kind);
            let rows = &mut space.rope[kind as usize];
            if frequencies.is_empty() {
                continue;
            }
            let used = tokens * frequencies.len();
            let cosine = Grid::by_rows(&mut rows.cosine[..used], tokens, step);
            let sine = Grid::by_rows(&mut rows.sine[..used], tokens, step);
            crew.run(&(cosine, sine), |_, chunk, (mut cosine, mut sine)| {
                for row in 0..cosine.rows() {
                    let position = pass.columns[chunk * step + row].position;
                    rope_row(position, frequencies, cosine.row(row), sine.row(row));
                }
            });
        }
    }

    /// Rules 10 and 11: the inputs of the layers `0..layers`.
    pub(crate) fn per_layer_inputs(&mut self, pass: &mut Pass<'_>, layers: usize) {
        let Executor { weights, kernels, crew, space, counters, profile } = self;
        let (mapping, tokens) = (weights.mapping(), pass.tokens());
        let (hidden, width) = (weights.geometry.hidden, weights.geometry.ple_width);
        let rows = layers * width;
        let used = tokens * rows;
        let x = &space.hidden[..tokens * hidden];
        let projection = mapping.halves(weights.model_projection);
        let across = rows.div_ceil(PROJECTED_ROWS).max(1);
        let grid = Grid::new(&mut space.per_layer[..used], tokens, rows, PROJECTED_TOKENS, PROJECTED_ROWS);
        crew.run(&grid, |_, chunk, out| {
            let (token, row) = (chunk / across * PROJECTED_TOKENS, chunk % across * PROJECTED_ROWS);
            let x = Block::new(&x[token * hidden..], out.rows(), hidden, hidden);
            let rows = &projection[row * hidden..(row + out.columns()) * hidden];
            kernels.project(rows, x, weights.projection_factor, out);
        });

        let norm = mapping.floats(weights.ple_norm);
        let (bits, factor) = (weights.ple.bits, weights.ple_factor);
        let step = rows_of_a_chunk(tokens, crew.threads());
        let grid = Grid::by_rows(&mut space.per_layer[..used], tokens, step);
        crew.run(&grid, |scratch, chunk, mut inputs| {
            let (normed, row) = (&mut scratch.row[..width], &mut scratch.query[..width]);
            for index in 0..inputs.rows() {
                let (table, scales) = mapping.row(&weights.ple, pass.columns[chunk * step + index].token);
                let blocks = inputs.row(index).chunks_exact_mut(width);
                for ((input, table), &scale) in blocks.zip(table.chunks_exact(bits.bytes(width))).zip(scales)
                {
                    kernels.norm(input, Some(norm), normed);
                    kernels.expand_row(table, bits, scale, factor, row);
                    kernels.add_scaled(normed, row, HALF_ROOT);
                    input.copy_from_slice(normed);
                }
            }
        });
        counters.weight_bytes += (2 * rows * hidden + tokens * layers * (bits.bytes(width) + 4)) as u64;
        profile.lap(Kind::PerLayerInputs);
        pass.tap.show(pass.columns, 1, [("per_layer_inputs", TapValue::Floats(&space.per_layer[..used]))]);
    }
}
