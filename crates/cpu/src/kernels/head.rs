//! The head's inputs (rule 9): up to 8 float vectors as limbs, and the running best row of a greedy pick.
//!
//! Limbs are laid out so that one `matmul` over `3 x tokens` vectors gives every dot, and one over the first `tokens` the top
//! one of each: with a best row at hand, that and the most the other limbs can add rule out nearly every tile of a greedy
//! pick. What is left gets its middle limb, then its low one, each only where the row could still win.

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
    /// What the low limb of each token can add to a dot at most.
    reach: Vec<i32>,
    /// What middle and low limb together can add at most; none where an i32 does not hold it (from 32,640 columns on).
    reach_below_top: Vec<Option<i32>>,
    /// `[3 tokens x columns]`: the top limbs, the middle limbs, the low limbs.
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
        input.reach_below_top.resize(tokens, None);
        input.limbs.resize(3 * tokens * columns, 0);
        input.sums.resize(3 * tokens, 0);
        for token in 0..tokens {
            let (top, below) = input.limbs.split_at_mut(tokens * columns);
            let (middle, low) = below.split_at_mut(tokens * columns);
            let [top, middle, low] = [top, middle, low].map(|limbs| &mut limbs[token * columns..][..columns]);
            // SAFETY: the table belongs to this CPU; all four slices hold `columns` elements.
            let scale = unsafe { (self.limbs)(h.row(token), top, middle, low) };
            (input.inverse[token], input.reach[token]) = scale;
            input.reach_below_top[token] = reach_of(middle, low);
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
                let [top, middle, low] = [0, 1, 2].map(|limb| dots.of(limb * tokens + token));
                let out = &mut out.row(token)[rows.start - first..rows.end - first];
                // SAFETY: the table belongs to this CPU; the slices hold a tile each, `scales` and `out` its real rows.
                unsafe { (self.logits)(top, middle, low, input.inverse[token], &scales[rows.clone()], out) };
            }
        }
    }

    /// Rule 9 for a greedy pick: where a row of the tiles is better than the best so far, that row, with the logit exactly as
    /// [`Kernels::head`] gives it. The tiles lie behind those that `best` was found in: of equal logits the first stays.
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
        let mut dots = Dots([0; 3 * MAX_HEAD_TOKENS * TILE]);
        for tile in tiles {
            let rows = tile * TILE..((tile + 1) * TILE).min(weights.rows());
            let scales = &scales[rows.clone()];
            self.matmul(weights, tile..tile + 1, input.vectors(0, tokens), dots.block(0, tokens));
            for (token, best) in best.iter_mut().enumerate() {
                let [top, middle, low] = [0, 1, 2].map(|limb| limb * tokens + token);
                let inverse = input.inverse[token];
                let could_pass = |middle: &[i32], top: &[i32], reach: i32| {
                    // SAFETY: the table belongs to this CPU; the slices hold a tile each, `scales` its real rows.
                    *best == Best::NONE
                        || unsafe { (self.could_pass)(top, middle, reach, inverse, scales, best.logit) }
                };
                let reach = input.reach_below_top[token];
                if reach.is_some_and(|reach| !could_pass(&[0; TILE], dots.of(top), reach)) {
                    continue;
                }
                self.matmul(weights, tile..tile + 1, input.vectors(middle, 1), dots.block(middle, 1));
                if !could_pass(dots.of(middle), dots.of(top), input.reach[token]) {
                    continue;
                }
                self.matmul(weights, tile..tile + 1, input.vectors(low, 1), dots.block(low, 1));
                let mut logits = [0f32; TILE];
                let logits = &mut logits[..rows.len()];
                let [top, middle, low] = [top, middle, low].map(|vector| dots.of(vector));
                // SAFETY: as above.
                unsafe { (self.logits)(top, middle, low, inverse, scales, logits) };
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

/// The most that middle and low limbs can add to a dot with codes of -2, -1, 0 and 1.
fn reach_of(middle: &[i8], low: &[i8]) -> Option<i32> {
    let reach = middle.iter().zip(low).map(|(&middle, &low)| {
        let rest = 256 * middle as i32 + low as i32;
        i64::from(if rest < 0 { -2 * rest } else { rest })
    });
    i32::try_from(reach.sum::<i64>()).ok()
}

fn check(weights: &Tiles<'_>, input: &HeadInput, scales: &[f32]) {
    assert_eq!(weights.bits(), Bits::Two, "the head has int2 weights");
    assert_eq!(weights.columns(), input.columns, "the head's inputs");
    assert_eq!(weights.rows(), scales.len(), "one scale for each row of the head");
}
