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
