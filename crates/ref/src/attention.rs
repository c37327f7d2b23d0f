//! Rules 7 and 8: rotary embedding and attention in blocks of 64 keys.

use rawloop_spec::contract::{KEY_BLOCK, exp, lane_sum};

/// Rule 7 on one head: pair `i` is `(x[i], x[i + half])`; pairs behind the last frequency pass through.
pub fn rope(head: &mut [f32], cosine: &[f32], sine: &[f32]) {
    let half = head.len() / 2;
    for i in 0..cosine.len() {
        let (x1, x2) = (head[i], head[i + half]);
        head[i] = cosine[i] * x1 - sine[i] * x2;
        head[i + half] = sine[i] * x1 + cosine[i] * x2;
    }
}

/// A softmax-weighted sum under construction.
struct Partial {
    largest: f32,
    sum: f32,
    values: Vec<f32>,
}

/// What one KV head shows of the positions from `first` on, as every reader sees it.
pub struct Visible {
    /// The first visible position.
    pub first: usize,
    /// Keys, one vector a position.
    pub keys: Vec<Vec<f32>>,
    /// Values, likewise.
    pub values: Vec<Vec<f32>>,
}

/// Rule 8 for one query head over the visible keys of its KV head.
pub fn attend(query: &[f32], visible: &Visible) -> Vec<f32> {
    let (first, last) = (visible.first, visible.first + visible.keys.len());
    let mut merged: Option<Partial> = None;
    for block in first / KEY_BLOCK..last.div_ceil(KEY_BLOCK) {
        let keys = (block * KEY_BLOCK).max(first)..((block + 1) * KEY_BLOCK).min(last);
        let partial = attend_block(query, visible, keys);
        merged = Some(match merged {
            None => partial,
            Some(before) => merge(before, partial),
        });
    }
    // A query always sees its own position, so there is a block.
    let Some(Partial { sum, values, .. }) = merged else { return vec![0.0; query.len()] };
    values.into_iter().map(|value| value / sum).collect()
}

fn attend_block(query: &[f32], visible: &Visible, keys: std::ops::Range<usize>) -> Partial {
    let score = |position: usize| {
        let key = &visible.keys[position - visible.first];
        lane_sum(query.len(), |d| (query[d], key[d]))
    };
    let scores: Vec<f32> = keys.clone().map(score).collect();
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut partial = Partial { largest, sum: 0.0, values: vec![0.0; query.len()] };
    for (position, score) in keys.zip(scores) {
        let p = exp(score - largest);
        partial.sum += p;
        for (a, v) in partial.values.iter_mut().zip(&visible.values[position - visible.first]) {
            *a = p.mul_add(*v, *a);
        }
    }
    partial
}

fn merge(a: Partial, b: Partial) -> Partial {
    let largest = a.largest.max(b.largest);
    let (scale_a, scale_b) = (exp(a.largest - largest), exp(b.largest - largest));
    Partial {
        largest,
        sum: a.sum.mul_add(scale_a, b.sum * scale_b),
        values: a.values.iter().zip(&b.values).map(|(x, y)| x.mul_add(scale_a, y * scale_b)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rope_turns_each_pair_from_its_first_towards_its_second_value() {
        let angle = 0.3f32;
        let mut head = [1.0, 10.0, 0.0, 20.0];
        rope(&mut head, &[angle.cos()], &[angle.sin()]);
        assert_eq!(head, [angle.cos(), 10.0, angle.sin(), 20.0]);
        let mut head = [0.0, 10.0, 1.0, 20.0];
        rope(&mut head, &[angle.cos()], &[angle.sin()]);
        assert_eq!(head, [-angle.sin(), 10.0, angle.cos(), 20.0]);
    }

    #[test]
    fn attention_is_a_softmax_over_keys_in_several_blocks() {
        let dim = 4;
        let noise = |seed: usize| {
            (0..dim).map(|d| ((seed * 7 + d * 13) % 11) as f32 / 11.0 - 0.5).collect::<Vec<f32>>()
        };
        let (keys, values): (Vec<_>, Vec<_>) = (0..150).map(|i| (noise(i), noise(i + 5))).unzip();
        let query: Vec<f32> = noise(99).iter().map(|x| x * 6.0).collect();
        let scores: Vec<f64> = keys
            .iter()
            .map(|k| k.iter().zip(&query).map(|(a, b)| (a * b) as f64).sum::<f64>().exp())
            .collect();
        let total: f64 = scores.iter().sum();
        let got = attend(&query, &Visible { first: 10, keys, values: values.clone() });
        for d in 0..dim {
            let expected: f64 = scores.iter().zip(&values).map(|(p, v)| p / total * v[d] as f64).sum();
            assert!((got[d] as f64 - expected).abs() < 1e-6, "{} {expected}", got[d]);
        }
    }
}
