//! Row work between two linears: the end of one stage and the start of the next, token by token.
//!
//! `hidden = (hidden + norm(codes)) * factor`, then the next linear's input codes of it, or the final norm. One token is done
//! by the caller, more are shared out.

use crate::executor::{Executor, Pass};
use crate::kernels::Kernels;
use crate::parts::Grid;
use crate::weights::{Floats, Linear};

/// What happens to the residual stream next.
#[derive(Clone, Copy)]
pub(super) enum Next {
    /// Input codes of the next linear, of the norm of the stream or of itself.
    Codes { norm: Option<Floats>, scale: f32 },
    /// The norm before the head.
    Final { norm: Floats },
}

impl Executor {
    /// What follows the last stage of `layer`.
    pub(super) fn next_of(&self, layer: usize) -> Next {
        match self.weights.layers.get(layer + 1) {
            Some(next) => Next::Codes { norm: Some(next.input_norm), scale: next.q.input_scale },
            None => Next::Final { norm: self.weights.final_norm },
        }
    }

    /// Adds the norm of a linear's output codes to the residual stream, scales it and makes the next input.
    pub(super) fn close(&mut self, pass: &Pass<'_>, linear: Linear, norm: Floats, factor: f32, next: Next) {
        let Executor { weights, kernels, crew, space, .. } = self;
        let (mapping, tokens) = (weights.mapping(), pass.tokens());
        let width = weights.geometry.hidden;
        let norm = mapping.floats(norm);
        let output = &space.output[..tokens * width];
        let step = rows_of_a_chunk(tokens, crew.threads());
        let hidden = Grid::by_rows(&mut space.hidden[..tokens * width], tokens, step);
        match next {
            Next::Codes { norm: next, scale } => {
                let next = next.map(|next| mapping.floats(next));
                let codes = Grid::by_rows(&mut space.input.codes[..tokens * width], tokens, step);
                let sums = Grid::by_rows(&mut space.input.sums[..tokens], tokens, step);
                crew.run(&(hidden, codes, sums), |_, chunk, (mut hidden, mut codes, mut sums)| {
                    for row in 0..hidden.rows() {
                        let output = &output[(chunk * step + row) * width..][..width];
                        let hidden = hidden.row(row);
                        kernels.norm_codes_add(output, linear.output_scale, Some(norm), factor, hidden);
                        sums.row(row)[0] = input_codes(kernels, hidden, next, scale, codes.row(row));
                    }
                });
            }
            Next::Final { norm: next } => {
                let next = mapping.floats(next);
                let normed = Grid::by_rows(&mut space.normed[..tokens * width], tokens, step);
                crew.run(&(hidden, normed), |_, chunk, (mut hidden, mut normed)| {
                    for row in 0..hidden.rows() {
                        let output = &output[(chunk * step + row) * width..][..width];
                        let hidden = hidden.row(row);
                        kernels.norm_codes_add(output, linear.output_scale, Some(norm), factor, hidden);
                        kernels.norm(hidden, Some(next), normed.row(row));
                    }
                });
            }
        }
    }
}

/// Rule 1 on the stream itself or on its norm; the sum of the codes.
pub(super) fn input_codes(
    kernels: &Kernels,
    x: &[f32],
    norm: Option<&[f32]>,
    scale: f32,
    codes: &mut [i8],
) -> i32 {
    match norm {
        Some(norm) => kernels.norm_quantise(x, Some(norm), scale, codes),
        None => kernels.quantise(x, scale, codes),
    }
}

/// Tokens of one chunk of row work: a few chunks a thread.
pub(super) fn rows_of_a_chunk(tokens: usize, threads: usize) -> usize {
    tokens.div_ceil(4 * threads).max(1)
}
