//! Steps 1, 4 and 6: the first `k` candidates of a row, without valuing or sorting the rest of it.
//!
//! A candidate is a 64-bit key that sorts as rule 13 orders: the value's bits turned so that a larger value is a smaller
//! number, then the id. Capping 262,144 logits costs more than a millisecond, so the search runs on raw logits first: the
//! `k`-th largest raw logit, capped, is a bound that at least `k` candidates reach. The cap rounds, so a smaller raw logit
//! can reach the bound too, by a tie or by an ulp. Its error is below [`CAP_ERROR`] times the cap, so what lies below a
//! logit whose capped value is two errors under the bound cannot; everything above that is capped and sorted.
//!
//! Without top-k every candidate counts, and most of them change nothing: sums run along the order and begin with 1, so a
//! weight under 2^-25 leaves every later sum as it is, and a draw or a share of the sum (both below the sum) is reached before
//! it. `exp(-18)` is under 2^-25, so what lies more than 18 temperatures under the first candidate is left out, bit for bit
//! the same. Only typical sampling looks at small weights by themselves.

use rawloop_spec::contract;

use super::Mask;

/// Bound of the soft cap's absolute error, as a share of the cap. Measured over every f32: 1.43e-7
/// (`examples/soft_cap_error.rs`).
const CAP_ERROR: f32 = 5e-7;

/// Difference of `v / temperature` from which on a weight changes no sum, with room for rounding: -ln(2^-25) is 17.33.
pub(super) const NEGLIGIBLE: f32 = 18.0;
/// Largest first value for which that room is enough at every temperature.
const LARGEST_FIRST: f32 = 1000.0;

/// Ids looked at together: one comparison skips them if none is large enough.
const BLOCK: usize = 32;

/// Step 1. What is no candidate stays none: the cap alone would turn it into a number.
pub(super) fn value_of(raw: f32, cap: Option<f32>) -> f32 {
    match cap {
        Some(cap) if !raw.is_nan() && raw != f32::NEG_INFINITY => contract::soft_cap(raw, cap),
        _ => raw,
    }
}

/// The key of a candidate; `None` where the value is NaN or minus infinity.
fn key_of(value: f32, id: u32) -> Option<u64> {
    if value.is_nan() || value == f32::NEG_INFINITY {
        return None;
    }
    // -0 becomes +0; then flip the bits of negative numbers and the sign of the others: unsigned order is numeric order.
    let bits = (value + 0.0).to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 };
    Some(u64::from(!ascending) << 32 | u64::from(id))
}

/// The value in a key.
pub(super) fn value_in(key: u64) -> f32 {
    let ascending = !((key >> 32) as u32);
    f32::from_bits(if ascending >> 31 == 1 { ascending & 0x7fff_ffff } else { !ascending })
}

/// Finds candidates; its buffers are reused from row to row.
#[derive(Debug)]
pub(super) struct Selector {
    keys: Vec<u64>,
}

impl Selector {
    /// A selector to which up to `added` candidates will be added by hand.
    pub(super) fn with_room(added: usize) -> Selector {
        Selector { keys: Vec::with_capacity(added + 4096) }
    }

    /// Collects a superset of the row's first `k` candidates, without those that lie more than `reach` under the first one.
    /// NaN logits are passed over.
    pub(super) fn search(
        &mut self,
        logits: &[f32],
        k: usize,
        cap: Option<f32>,
        mask: Option<Mask<'_>>,
        reach: Option<f32>,
    ) {
        self.keys.clear();
        if k >= logits.len() {
            let floor = reach.and_then(|reach| floor_within(logits, cap, mask, reach));
            self.collect_above(logits, floor, cap, mask);
            return;
        }
        self.largest_raw(logits, k, mask);
        let Some(cap) = cap else { return };
        let Some(least) = self.keys.iter().max().map(|&key| value_in(key)) else { return };
        let bound = contract::soft_cap(least, cap) - 2.0 * CAP_ERROR * cap;
        let mut step = 4.0 * CAP_ERROR * cap;
        let mut floor = least - step;
        while floor.is_finite() && contract::soft_cap(floor, cap) >= bound {
            step *= 2.0;
            floor = least - step;
        }
        self.keys.clear();
        self.collect_above(logits, floor.is_finite().then_some(floor), Some(cap), mask);
    }

    /// Adds a candidate that was valued elsewhere.
    pub(super) fn add(&mut self, value: f32, id: u32) {
        self.keys.extend(key_of(value, id));
    }

    /// Cuts down to the first `k` and puts them in order.
    pub(super) fn finish(&mut self, k: usize) {
        self.cut(k);
        self.keys.sort_unstable();
    }

    /// The candidates after [`Selector::finish`].
    pub(super) fn ordered(&self) -> &[u64] {
        &self.keys
    }

    fn cut(&mut self, k: usize) {
        if self.keys.len() > k {
            self.keys.select_nth_unstable(k - 1);
            self.keys.truncate(k);
        }
    }

    /// The `k` largest raw logits, lowest ids first among equals.
    fn largest_raw(&mut self, logits: &[f32], k: usize, mask: Option<Mask<'_>>) {
        let room = (4 * k).max(1024);
        self.keys.reserve(room + BLOCK);
        // Ids come in ascending order, so an equal value that comes later loses: strictly larger is enough.
        let mut threshold = f32::NEG_INFINITY;
        for (block, values) in logits.chunks(BLOCK).enumerate() {
            if !any_above(values, threshold) {
                continue;
            }
            for (place, &value) in values.iter().enumerate() {
                let id = (block * BLOCK + place) as u32;
                if value > threshold && mask.is_none_or(|mask| mask.allows(id)) {
                    self.keys.extend(key_of(value, id));
                }
            }
            if self.keys.len() >= room {
                self.cut(k);
                threshold = value_in(self.keys[k - 1]);
            }
        }
        self.cut(k);
    }

    /// Every logit above `floor`, or every one, valued.
    fn collect_above(
        &mut self,
        logits: &[f32],
        floor: Option<f32>,
        cap: Option<f32>,
        mask: Option<Mask<'_>>,
    ) {
        let floor = floor.unwrap_or(f32::NEG_INFINITY);
        for (block, values) in logits.chunks(BLOCK).enumerate() {
            if !any_above(values, floor) {
                continue;
            }
            for (place, &value) in values.iter().enumerate() {
                let id = (block * BLOCK + place) as u32;
                if value > floor && mask.is_none_or(|mask| mask.allows(id)) {
                    self.keys.extend(key_of(value_of(value, cap), id));
                }
            }
        }
    }
}

/// A raw logit such that whatever does not exceed it is valued more than `reach` under the row's first candidate. None where
/// there is none.
fn floor_within(logits: &[f32], cap: Option<f32>, mask: Option<Mask<'_>>, reach: f32) -> Option<f32> {
    let mut largest = f32::NEG_INFINITY;
    for (block, values) in logits.chunks(BLOCK).enumerate() {
        if !any_above(values, largest) {
            continue;
        }
        for (place, &value) in values.iter().enumerate() {
            let id = (block * BLOCK + place) as u32;
            if value > largest && mask.is_none_or(|mask| mask.allows(id)) {
                largest = value;
            }
        }
    }
    let first = value_of(largest, cap);
    if first.is_nan() || first.abs() > LARGEST_FIRST {
        return None;
    }
    let Some(cap) = cap else { return Some(first - reach) };
    let bound = first - reach - 2.0 * CAP_ERROR * cap;
    if bound <= -cap {
        return None;
    }
    let mut step = 4.0 * CAP_ERROR * cap;
    let mut floor = (libm::atanh(f64::from(bound / cap)) * f64::from(cap)) as f32;
    while floor.is_finite() && contract::soft_cap(floor, cap) >= bound {
        floor -= step;
        step *= 2.0;
    }
    floor.is_finite().then_some(floor)
}

/// Whether a value of the block is larger. Written without a branch in the loop, so that it becomes vector code.
fn any_above(values: &[f32], threshold: f32) -> bool {
    values.iter().fold(false, |any, &value| any | (value > threshold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_value_descending_then_id() {
        let values = [f32::INFINITY, 1e30, 2.0, 1.0, 1e-40, 0.0, -1e-40, -1.0, -3e38];
        for (i, &large) in values.iter().enumerate() {
            assert_eq!(value_in(key_of(large, 9).unwrap()), large);
            assert!(key_of(large, 1) < key_of(large, 2));
            for &small in &values[i + 1..] {
                assert!(key_of(large, u32::MAX) < key_of(small, 0), "{large} {small}");
            }
        }
        assert_eq!(key_of(-0.0, 3), key_of(0.0, 3));
        assert_eq!(key_of(f32::NAN, 0), None);
        assert_eq!(key_of(f32::NEG_INFINITY, 0), None);
    }

    #[test]
    fn the_soft_cap_stays_within_its_bound() {
        // Every 9,973rd positive f32 up to 400; the example runs over all of them.
        let mut bits = 0u32;
        while f32::from_bits(bits) < 400.0 {
            let z = f32::from_bits(bits);
            let truth = libm::tanh(f64::from(z) / 30.0) * 30.0;
            let error = (f64::from(contract::soft_cap(z, 30.0)) - truth).abs();
            assert!(error < f64::from(CAP_ERROR) * 30.0, "soft_cap({z}) is off by {error:e}");
            bits += 9973;
        }
    }
}
