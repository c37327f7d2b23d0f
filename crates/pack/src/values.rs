//! Whether stored numbers can be used: the contract's bounds on scales, norms, tables and the drafter's token order.
//!
//! What a token reads at every step and is small (E2B: 8 MB of scales) is checked when a pack is opened, so that a NaN is an
//! error with a tensor's name instead of a wrong answer. The large gathered tables and bf16 matrices wait for `verify`.

use rawloop_spec::{Class, Format};

use crate::error::PackError;
use crate::pack::Tensor;

/// What a number must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Neither NaN nor infinite.
    Finite,
    /// Finite and >= 0: scales of weights (contract rule 2).
    Scale,
    /// Finite and > 0: scales of activations (contract rule 1).
    ActivationScale,
    /// Every id of the vocabulary once.
    Permutation,
}

/// When a tensor's values are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Open,
    Verify,
}

/// The bound on a tensor's values and when it is checked; none for codes, every byte of which is valid.
pub(crate) fn bound(tensor: &Tensor) -> Option<(Bound, When)> {
    let name = tensor.entry.name.as_str();
    match (tensor.entry.class, tensor.entry.format) {
        (_, Format::Tiles(_) | Format::Rows(_)) => None,
        (_, Format::U32) => Some((Bound::Permutation, When::Open)),
        (_, Format::Bf16) => Some((Bound::Finite, When::Verify)),
        (Class::Scales, _) if name.ends_with(".activation_scales") => {
            Some((Bound::ActivationScale, When::Open))
        }
        (Class::Scales, _) => Some((Bound::Scale, When::Open)),
        (Class::Gathered | Class::Unread, _) => Some((Bound::Scale, When::Verify)),
        (_, Format::F32) => Some((Bound::Finite, When::Open)),
    }
}

/// Checks a tensor's values against a bound.
pub(crate) fn check(tensor: &Tensor, bound: Bound, file: &str) -> Result<(), PackError> {
    let columns = tensor.entry.columns.max(1);
    let error = |index: usize, what, found: String, expected: &str| {
        let place = if tensor.entry.rows > 1 {
            format!("{found} in row {}, column {}", index / columns, index % columns)
        } else {
            format!("{found} at {index}")
        };
        let (file, tensor) = (file.into(), tensor.entry.name.clone());
        Err(PackError::Tensor { file, tensor, what, found: place, expected: expected.into() })
    };
    let (kept, expected): (fn(f32) -> bool, _) = match bound {
        Bound::Finite => (|v| v.is_finite(), "finite numbers"),
        Bound::Scale => (|v| v.is_finite() && v >= 0.0, "finite numbers >= 0"),
        Bound::ActivationScale => (|v| v.is_finite() && v > 0.0, "finite numbers > 0"),
        Bound::Permutation => {
            return match first_repeated(tensor.as_u32(file)?) {
                Some((index, id)) => {
                    error(index, "an id", id.to_string(), "every id of the vocabulary exactly once")
                }
                None => Ok(()),
            };
        }
    };
    let bad = match tensor.entry.format {
        Format::Bf16 => {
            let values = tensor.as_bf16(file)?;
            let value = |bits: u16| rawloop_spec::contract::bf16_to_f32(bits);
            values.iter().position(|&bits| !kept(value(bits))).map(|index| (index, value(values[index])))
        }
        _ => {
            let values = tensor.as_f32(file)?;
            values.iter().position(|&v| !kept(v)).map(|index| (index, values[index]))
        }
    };
    match bad {
        Some((index, value)) => error(index, "a value", value.to_string(), expected),
        None => Ok(()),
    }
}

/// The first place that keeps a list from being a permutation of its own indices.
fn first_repeated(ids: &[u32]) -> Option<(usize, u32)> {
    let mut seen = vec![0u64; ids.len().div_ceil(64)];
    for (index, &id) in ids.iter().enumerate() {
        let Some(word) = seen.get_mut(id as usize / 64).filter(|_| (id as usize) < ids.len()) else {
            return Some((index, id));
        };
        let bit = 1u64 << (id % 64);
        if *word & bit != 0 {
            return Some((index, id));
        }
        *word |= bit;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_permutations_have_no_repeated_id() {
        assert_eq!(first_repeated(&[2, 0, 1]), None);
        assert_eq!(first_repeated(&[]), None);
        assert_eq!(first_repeated(&[2, 0, 2]), Some((2, 2)));
        assert_eq!(first_repeated(&[0, 3, 1]), Some((1, 3)));
        assert_eq!(first_repeated(&[0, u32::MAX]), Some((1, u32::MAX)));
        let long: Vec<u32> = (0..1000).rev().collect();
        assert_eq!(first_repeated(&long), None);
    }
}
