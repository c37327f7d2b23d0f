//! Rule 9: logits of every token, and the greedy pick that skips most of the work.

use rawloop_cpu::kernels::{Best, Block, BlockMut, HeadInput, Kernels, Tiles};
use rawloop_spec::{Bits, tile};

use crate::noise::{Noise, bits};
use crate::oracle;

struct Head {
    rows: usize,
    columns: usize,
    matrix: Vec<u8>,
    scales: Vec<f32>,
}

impl Head {
    fn new(rows: usize, columns: usize, noise: &mut Noise) -> Self {
        let matrix = noise.bytes(tile::matrix_bytes(Bits::Two, rows, columns));
        let scales = (0..rows).map(|_| (noise.unit() + 1.0) * 0.02).collect();
        Head { rows, columns, matrix, scales }
    }

    fn tiles(&self) -> Tiles<'_> {
        Tiles::new(Bits::Two, self.rows, self.columns, &self.matrix).expect("a well-formed matrix")
    }

    fn check(&self, h: &[f32]) {
        let tokens = h.len() / self.columns;
        let expected: Vec<f32> = h
            .chunks_exact(self.columns)
            .flat_map(|h| {
                (0..self.rows)
                    .map(|r| oracle::logit(&self.matrix, self.columns, r, h, self.scales[r]))
                    .collect::<Vec<_>>()
            })
            .collect();
        let count = self.tiles().count();
        for table in Kernels::available() {
            let mut input = HeadInput::default();
            table.head_input(Block::new(h, tokens, self.columns, self.columns), &mut input);
            let mut out = vec![0.0; tokens * self.rows];
            let block = BlockMut::new(&mut out, tokens, self.rows, self.rows);
            table.head(self.tiles(), 0..count, &input, &self.scales, block);
            assert_eq!(bits(&out), bits(&expected), "{} {tokens} tokens", table.name());

            let mut best = vec![Best::NONE; tokens];
            let mut second = best.clone();
            let half = count / 2;
            // Two threads: one takes the ends, one the middle.
            table.head_best(self.tiles(), half / 2..half, &input, &self.scales, &mut second);
            for range in [0..half / 2, half..count] {
                table.head_best(self.tiles(), range, &input, &self.scales, &mut best);
            }
            best.iter_mut().zip(&second).for_each(|(best, second)| *best = best.better(*second));
            for (token, best) in best.iter().enumerate() {
                let logits = &expected[token * self.rows..][..self.rows];
                let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let id = logits.iter().position(|&z| z == largest).expect("a row") as u32;
                assert_eq!(*best, Best { logit: largest, id }, "{} token {token}", table.name());
            }
        }
    }
}

#[test]
fn logits_are_exact_and_the_pick_is_the_largest() {
    let mut noise = Noise::new(40);
    for (rows, columns) in [(64, 32), (200, 64), (130, 1536), (1000, 96)] {
        let head = Head::new(rows, columns, &mut noise);
        for tokens in [1, 2, 3, 5, 8] {
            for size in [1.0, 37.5, 1e-20, 1e20] {
                head.check(&noise.floats(tokens * columns, size));
            }
        }
    }
}

#[test]
fn equal_logits_go_to_the_lowest_id_and_zero_vectors_give_zero() {
    let mut noise = Noise::new(41);
    let mut head = Head::new(320, 64, &mut noise);
    let first = tile::tile_bytes(Bits::Two, 64);
    // Every tile the same: each logit occurs five times.
    for copy in 1..5 {
        head.matrix.copy_within(0..first, copy * first);
        head.scales.copy_within(0..64, copy * 64);
    }
    head.check(&noise.floats(2 * 64, 3.0));
    head.check(&[0.0; 64]);
    head.check(&[-0.0; 64]);
}

#[test]
fn limbs_hold_the_largest_magnitudes() {
    let mut noise = Noise::new(42);
    let head = Head::new(70, 64, &mut noise);
    // Just below and exactly at powers of two, negative and positive; and subnormals.
    for value in [0.999_999_94_f32, 1.0, 1.999_999_9, f32::MAX, 1e-30, 9e-31, 7e-31, f32::MIN_POSITIVE, 1e-44]
    {
        head.check(&[value; 64]);
        head.check(&[-value; 64]);
        let mut mixed = noise.floats(64, value);
        mixed[17] = value;
        head.check(&mixed);
    }
    // One huge value pushes all others below half a unit.
    let mut lone = vec![1e-9; 64];
    lone[3] = 1e9;
    head.check(&lone);
}

#[test]
fn senseless_inputs_give_the_same_on_every_table() {
    let mut noise = Noise::new(43);
    let head = Head::new(200, 64, &mut noise);
    for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let mut h = noise.floats(64, 1.0);
        h[9] = value;
        let results: Vec<(Vec<u32>, Best)> = Kernels::available()
            .into_iter()
            .map(|table| {
                let mut input = HeadInput::default();
                table.head_input(Block::row_of(&h), &mut input);
                let mut out = vec![0.0; head.rows];
                let tiles = 0..head.tiles().count();
                table.head(head.tiles(), tiles.clone(), &input, &head.scales, BlockMut::row_of(&mut out));
                let mut best = [Best::NONE];
                table.head_best(head.tiles(), tiles, &input, &head.scales, &mut best);
                assert!((best[0].id as usize) < head.rows, "{}: {value}", table.name());
                (bits(&out), best[0])
            })
            .collect();
        assert!(results.iter().all(|result| *result == results[0]), "{value}");
    }
}
