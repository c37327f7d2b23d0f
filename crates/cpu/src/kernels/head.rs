//! The head's inputs (rule 9): up to 8 float vectors as limbs, and the running best row of a greedy pick.
//!
//! Limbs are laid out so that one `matmul` over `3 x tokens` vectors gives every dot, and one over the first `2 x tokens`
//! the upper two of each: enough to rule out nearly every row of a greedy pick.

use rawloop_spec::Bits;

use super::Kernels;
use super::view::{Activations, Block, BlockMut, Tiles};

/// Tokens that one [`HeadInput`] holds at most.
pub const MAX_HEAD_TOKENS: usize = 8;
/// Rows of an int2 tile.
const TILE: usize = rawloop_spec::tile::rows(Bits::Two);

/// Float vectors as limbs, ready for the head; filled by [`Kernels::head_input`].
#[derive(Clone, Debug, Default)]
pub struct HeadInput {
    columns: usize,
    /// `2^-t` of each token.
    inverse: Vec<f32>,
    /// What the lowest limb of each token can add to a dot at most.
    reach: Vec<i32>,
    /// `[3 tokens x columns]`: top and middle limb of each token, then the low limbs.
    limbs: Vec<i8>,
    sums: Vec<i32>,
}

/// The best row so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Its logit, before the soft cap.
    pub logit: f32,
    /// Its row: the token id.
    pub id: u32,
}

impl Best {
    /// Below every row.
    pub const NONE: Best = Best { logit: f32::NEG_INFINITY, id: u32::MAX };

    /// The larger logit; of equal ones the lower id.
    pub fn better(self, other: Best) -> Best {
        let wins = other.logit > self.logit || (other.logit == self.logit && other.id < self.id);
        if wins { other } else { self }
    }
}

impl HeadInput {
    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.inverse.len()
    }

    /// The vectors `first .. first + count` of the limbs.
    fn vectors(&self, first: usize, count: usize) -> Activations<'_> {
        let columns = self.columns;
        Activations::new(
            &self.limbs[first * columns..(first + count) * columns],
            columns,
            columns,
            &self.sums[first..first + count],
        )
    }
}

/// Dots of one tile with every vector of limbs.
struct Dots([i32; 3 * MAX_HEAD_TOKENS * TILE]);

impl Dots {
    fn of(&self, vector: usize) -> &[i32] {
        &self.0[vector * TILE..][..TILE]
    }

    fn block(&mut self, first: usize, count: usize) -> BlockMut<'_, i32> {
        BlockMut::new(&mut self.0[first * TILE..(first + count) * TILE], count, TILE, TILE)
    }
}

impl Kernels {
    /// Rule 9: splits `h`, `[tokens x columns]`, into limbs. Allocates only where `input` was never as large before.
    ///
    /// # Panics
    /// With more than 8 tokens.
    pub fn head_input(&self, h: Block<'_, f32>, input: &mut HeadInput) {
        let (tokens, columns) = (h.rows(), h.columns());
        assert!(tokens <= MAX_HEAD_TOKENS, "{tokens} tokens, the head takes {MAX_HEAD_TOKENS} at once");
        input.columns = columns;
        input.inverse.resize(tokens, 0.0);
        input.reach.resize(tokens, 0);
        input.limbs.resize(3 * tokens * columns, 0);
        input.sums.resize(3 * tokens, 0);
        for token in 0..tokens {
            let (upper, low) = input.limbs.split_at_mut(2 * tokens * columns);
            let (top, middle) = upper[2 * token * columns..][..2 * columns].split_at_mut(columns);
            let low = &mut low[token * columns..][..columns];
            // SAFETY: the table belongs to this CPU; all four slices hold `columns` elements.
            let scale = unsafe { (self.limbs)(h.row(token), top, middle, low) };
            (input.inverse[token], input.reach[token]) = scale;
        }
        for (vector, sum) in input.sums.iter_mut().enumerate() {
            *sum = input.limbs[vector * columns..][..columns].iter().map(|&limb| limb as i32).sum();
        }
    }

    /// Rule 9: logits, before the soft cap, of the rows in a range of tiles: `out` is `[tokens x rows in the range]`.
    /// `scales` has one weight scale for each row of the whole matrix.
    ///
    /// # Panics
    /// If the weights are not int2, or a shape does not fit.
    pub fn head(
        &self,
        weights: Tiles<'_>,
        tiles: std::ops::Range<usize>,
        input: &HeadInput,
        scales: &[f32],
        mut out: BlockMut<'_, f32>,
    ) {
        check(&weights, input, scales);
        let tokens = input.tokens();
        let first = (tiles.start * TILE).min(weights.rows());
        let end = (tiles.end * TILE).min(weights.rows());
        assert_eq!((out.rows(), out.columns()), (tokens, end - first), "the head's output");
        let mut dots = Dots([0; 3 * MAX_HEAD_TOKENS * TILE]);
        for tile in tiles {
            let rows = tile * TILE..((tile + 1) * TILE).min(weights.rows());
            self.matmul(weights, tile..tile + 1, input.vectors(0, 3 * tokens), dots.block(0, 3 * tokens));
            for token in 0..tokens {
                let (top, middle, low) =
                    (dots.of(2 * token), dots.of(2 * token + 1), dots.of(2 * tokens + token));
                let out = &mut out.row(token)[rows.start - first..rows.end - first];
                // SAFETY: the table belongs to this CPU; the slices hold a tile each, `scales` and `out` its real rows.
                unsafe { (self.logits)(top, middle, low, input.inverse[token], &scales[rows.clone()], out) };
            }
        }
    }

    /// Rule 9 for a greedy pick: the best row of a range of tiles for each token, exactly as [`Kernels::head`] gives it.
    ///
    /// Two thirds of the work decide nearly every row: the upper limbs' dots and the most that the lowest limb can add.
    ///
    /// # Panics
    /// If the weights are not int2, or a shape does not fit.
    pub fn head_best(
        &self,
        weights: Tiles<'_>,
        tiles: std::ops::Range<usize>,
        input: &HeadInput,
        scales: &[f32],
        best: &mut [Best],
    ) {
        check(&weights, input, scales);
        let tokens = input.tokens();
        assert_eq!(best.len(), tokens, "one best row for each token");
        best.fill(Best::NONE);
        let mut dots = Dots([0; 3 * MAX_HEAD_TOKENS * TILE]);
        for tile in tiles {
            let rows = tile * TILE..((tile + 1) * TILE).min(weights.rows());
            let scales = &scales[rows.clone()];
            self.matmul(weights, tile..tile + 1, input.vectors(0, 2 * tokens), dots.block(0, 2 * tokens));
            for (token, best) in best.iter_mut().enumerate() {
                let inverse = input.inverse[token];
                let (top, middle) = (dots.of(2 * token), dots.of(2 * token + 1));
                // SAFETY: the table belongs to this CPU; the slices hold a tile each, `scales` its real rows.
                let passes = unsafe {
                    (self.could_pass)(top, middle, input.reach[token], inverse, scales, best.logit)
                };
                if !passes && *best != Best::NONE {
                    continue;
                }
                let vector = 2 * tokens + token;
                self.matmul(weights, tile..tile + 1, input.vectors(vector, 1), dots.block(vector, 1));
                let mut logits = [0f32; TILE];
                let logits = &mut logits[..rows.len()];
                // SAFETY: as above.
                unsafe {
                    (self.logits)(
                        dots.of(2 * token),
                        dots.of(2 * token + 1),
                        dots.of(vector),
                        inverse,
                        scales,
                        logits,
                    )
                };
                for (&logit, row) in logits.iter().zip(rows.clone()) {
                    // The first row is taken even at -inf, so that a pick always names a row.
                    if logit > best.logit || *best == Best::NONE {
                        *best = Best { logit, id: row as u32 };
                    }
                }
            }
        }
    }
}

fn check(weights: &Tiles<'_>, input: &HeadInput, scales: &[f32]) {
    assert_eq!(weights.bits(), Bits::Two, "the head has int2 weights");
    assert_eq!(weights.columns(), input.columns, "the head's inputs");
    assert_eq!(weights.rows(), scales.len(), "one scale for each row of the head");
}
