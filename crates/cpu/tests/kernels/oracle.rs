//! The contract's rules as scalar code, straight from docs/spec.md; shares nothing with the kernels but the constants.

use rawloop_spec::contract::{self, lane_sum};
use rawloop_spec::{Bits, tile};

pub fn linear(matrix: &[u8], bits: Bits, columns: usize, row: usize, x: &[i8]) -> i32 {
    (0..columns)
        .map(|k| (tile::code(matrix, bits, columns, row, k) as i32 - bits.zero_point()) * x[k] as i32)
        .sum()
}

pub fn requantise(acc: i32, multiplier: f32, scale: f32) -> i8 {
    contract::quantise(acc as f32 * multiplier, scale)
}

pub fn norm(x: &[f32], mean_square: f32, weight: Option<&[f32]>) -> Vec<f32> {
    let r = 1.0 / (mean_square + contract::RMS_EPSILON).sqrt();
    x.iter().enumerate().map(|(i, x)| weight.map_or(x * r, |w| x * r * w[i])).collect()
}

pub fn mean_square_of_codes(codes: &[i8], scale: f32) -> f32 {
    codes.iter().map(|&c| (c as i32).pow(2)).sum::<i32>() as f32 * (scale * scale) / codes.len() as f32
}

pub fn mean_square(x: &[f32]) -> f32 {
    lane_sum(x.len(), |i| (x[i], x[i])) / x.len() as f32
}

/// One head over `keys` and `values`, `[keys][dim]`, of which those from `first` on stand at absolute position `first ..`.
pub fn attention(q: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>], first: usize) -> Vec<f32> {
    let mut state: Option<(f32, f32, Vec<f32>)> = None;
    let mut at = first;
    while at < keys.len() {
        let end = keys.len().min((at / 64 + 1) * 64);
        let s: Vec<f32> = (at..end).map(|j| lane_sum(q.len(), |d| (q[d], keys[j][d]))).collect();
        let mb = s.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let (mut lb, mut ab) = (0f32, vec![0f32; q.len()]);
        for (j, s) in s.iter().enumerate() {
            let p = contract::exp(s - mb);
            lb += p;
            ab.iter_mut().zip(&values[at + j]).for_each(|(a, v)| *a = p.mul_add(*v, *a));
        }
        state = Some(match state {
            None => (mb, lb, ab),
            Some((m, l, a)) => {
                let new = m.max(mb);
                let (c, cb) = (contract::exp(m - new), contract::exp(mb - new));
                (new, l.mul_add(c, lb * cb), a.iter().zip(&ab).map(|(a, b)| a.mul_add(c, b * cb)).collect())
            }
        });
        at = end;
    }
    let (_, l, a) = state.expect("a visible key");
    a.iter().map(|a| a / l).collect()
}

pub fn logit(matrix: &[u8], columns: usize, row: usize, h: &[f32], scale: f32) -> f32 {
    let largest = h.iter().map(|h| h.to_bits() & 0x7fff_ffff).max().unwrap_or(0);
    let t = 21 - ((largest >> 23) as i32 - 127).max(-100);
    let n = |h: f32| (h as f64 * 2f64.powi(t)).round_ties_even() as i64;
    let acc: i64 =
        (0..columns).map(|k| (tile::code(matrix, Bits::Two, columns, row, k) as i64 - 2) * n(h[k])).sum();
    acc as f32 * 2f64.powi(-t) as f32 * scale
}
