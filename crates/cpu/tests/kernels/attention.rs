//! Rule 8: heads, key counts, windows and storage formats.

use rawloop_cpu::kernels::{AttentionState, Kernels, KvRows};
use rawloop_spec::contract::{self, KEY_BLOCK};

use crate::noise::{Noise, bits};
use crate::oracle;

/// Keys or values of one KV head in one of the three formats, and as floats.
struct Store {
    f32: Vec<f32>,
    f16: Vec<u16>,
    i8: Vec<i8>,
    scales: Vec<f32>,
}

impl Store {
    fn new(positions: usize, dim: usize, size: f32, noise: &mut Noise) -> Self {
        let f32 = noise.floats(positions * dim, size);
        let table = Kernels::by_name("portable").expect("portable");
        let mut f16 = vec![0; f32.len()];
        table.store_f16(&f32, &mut f16);
        let mut i8 = vec![0; f32.len()];
        let scales = (0..positions)
            .map(|p| table.store_i8(&f32[p * dim..(p + 1) * dim], &mut i8[p * dim..(p + 1) * dim]))
            .collect();
        Store { f32, f16, i8, scales }
    }

    fn rows(&self, format: usize) -> KvRows<'_> {
        match format {
            0 => KvRows::F32(&self.f32),
            1 => KvRows::F16(&self.f16),
            _ => KvRows::I8 { codes: &self.i8, scales: &self.scales },
        }
    }

    fn values(&self, format: usize, dim: usize) -> Vec<Vec<f32>> {
        let value = |i: usize| match format {
            0 => self.f32[i],
            1 => contract::f16_to_f32(self.f16[i]),
            _ => self.i8[i] as f32 * self.scales[i / dim],
        };
        (0..self.scales.len()).map(|p| (p * dim..(p + 1) * dim).map(value).collect()).collect()
    }
}

fn attend(
    table: &Kernels,
    q: &[f32],
    dim: usize,
    keys: KvRows<'_>,
    values: KvRows<'_>,
    positions: std::ops::Range<usize>,
) -> Vec<f32> {
    let (mut state, mut scratch) = (AttentionState::default(), AttentionState::default());
    state.reset(q.len() / dim, dim);
    let mut at = positions.start;
    while at < positions.end {
        let end = positions.end.min((at / KEY_BLOCK + 1) * KEY_BLOCK);
        let (keys, values) = (keys.rows(dim, at, end - at), values.rows(dim, at, end - at));
        table.attend(q, keys, values, &mut scratch, &mut state);
        at = end;
    }
    let mut out = vec![0.0; q.len()];
    table.attention_output(&state, &mut out);
    out
}

#[test]
fn every_head_sees_its_keys_in_order() {
    let mut noise = Noise::new(30);
    for (heads, dim) in [(8, 256), (8, 512), (4, 64), (1, 32), (2, 96), (3, 64), (7, 32), (15, 32)] {
        let q = noise.floats(heads * dim, 2.0);
        let longest = if dim > 100 { 200 } else { 330 };
        let (keys, values) =
            (Store::new(longest, dim, 1.0, &mut noise), Store::new(longest, dim, 3.0, &mut noise));
        for format in 0..3 {
            let (k, v) = (keys.values(format, dim), values.values(format, dim));
            for range in [0..1, 0..5, 0..64, 0..65, 63..64, 63..129, 100..longest, 0..longest] {
                let expected: Vec<f32> = (0..heads)
                    .flat_map(|h| {
                        let (k, v) = (&k[..range.end], &v[..range.end]);
                        oracle::attention(&q[h * dim..(h + 1) * dim], k, v, range.start)
                    })
                    .collect();
                for table in Kernels::available() {
                    let (keys, values) = (keys.rows(format), values.rows(format));
                    let out = attend(table, &q, dim, keys, values, range.clone());
                    let what = format!("{} {heads} heads of {dim}, format {format}, {range:?}", table.name());
                    assert_eq!(bits(&out), bits(&expected), "{what}");
                }
            }
        }
    }
}

#[test]
fn far_keys_vanish_and_later_maxima_take_over() {
    // Scores from -4000 to 4000: exponentials below -87 are 0, and each block may beat the ones before.
    let mut noise = Noise::new(31);
    let (heads, dim, positions) = (8, 64, 320);
    let q = noise.floats(heads * dim, 60.0);
    let (keys, values) =
        (Store::new(positions, dim, 4.0, &mut noise), Store::new(positions, dim, 1.0, &mut noise));
    let (k, v) = (keys.values(1, dim), values.values(1, dim));
    let expected: Vec<f32> =
        (0..heads).flat_map(|h| oracle::attention(&q[h * dim..(h + 1) * dim], &k, &v, 0)).collect();
    for table in Kernels::available() {
        let out = attend(table, &q, dim, keys.rows(1), values.rows(1), 0..positions);
        assert_eq!(bits(&out), bits(&expected), "{}", table.name());
    }
}

#[test]
fn blocks_computed_apart_merge_to_the_same_bytes() {
    let mut noise = Noise::new(32);
    let (heads, dim, positions) = (8, 128, 256);
    let q = noise.floats(heads * dim, 1.0);
    let (keys, values) =
        (Store::new(positions, dim, 1.0, &mut noise), Store::new(positions, dim, 1.0, &mut noise));
    for table in Kernels::available() {
        let together = attend(table, &q, dim, keys.rows(1), values.rows(1), 0..positions);
        let mut blocks: Vec<AttentionState> = (0..positions / KEY_BLOCK)
            .map(|block| {
                let mut state = AttentionState::default();
                state.reset(heads, dim);
                let first = block * KEY_BLOCK;
                let (k, v) =
                    (keys.rows(1).rows(dim, first, KEY_BLOCK), values.rows(1).rows(dim, first, KEY_BLOCK));
                table.attend_block(&q, k, v, &mut state);
                state
            })
            .collect();
        let mut state = AttentionState::default();
        state.reset(heads, dim);
        for block in &mut blocks {
            table.merge(&mut state, block);
        }
        assert_eq!(state.blocks(), positions / KEY_BLOCK);
        let mut apart = vec![0.0; heads * dim];
        table.attention_output(&state, &mut apart);
        assert_eq!(bits(&apart), bits(&together), "{}", table.name());
    }
}

#[test]
fn the_exponential_of_every_table_is_the_scalar_one() {
    // One key of 32 equal values gives the score itself, and a second one the maximum 0: the sum is 1 + exp(score).
    let mut noise = Noise::new(33);
    let dim = 32;
    let mut q = vec![0.0; dim];
    q[0] = 1.0;
    for table in Kernels::available() {
        let mut state = AttentionState::default();
        for _ in 0..200 {
            let scores: Vec<f32> = (0..63).map(|_| -(noise.unit() + 1.0) * 47.0).collect();
            let mut keys = vec![0.0; 64 * dim];
            let mut values = vec![0.0; 64 * dim];
            for (i, &score) in scores.iter().enumerate() {
                keys[(i + 1) * dim] = score;
            }
            // Value i is one at position i only for the first 32 keys: their weighted values are their exponentials.
            (0..32).for_each(|i| values[i * dim + i] = 1.0);
            state.reset(1, dim);
            table.attend_block(&q, KvRows::F32(&keys), KvRows::F32(&values), &mut state);
            let mut out = vec![0.0; dim];
            table.attention_output(&state, &mut out);
            let total = scores.iter().fold(1f32, |sum, &s| sum + contract::exp(s));
            let expected: Vec<f32> =
                (0..32).map(|i| if i == 0 { 1.0 } else { contract::exp(scores[i - 1]) } / total).collect();
            assert_eq!(bits(&out), bits(&expected), "{}", table.name());
        }
    }
}
