//! A mask meets logits where no sampler stands between: contract rule 13 at temperature 0, and rows for other samplers.

use crate::sample::Mask;

/// The allowed token with the largest logit, the lowest id of equal ones. None where no allowed logit is a number.
pub fn best_allowed(logits: &[f32], mask: Mask<'_>) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (&word, (block, values)) in mask.0.iter().zip(logits.chunks(32).enumerate()) {
        if word == 0 {
            continue;
        }
        for (place, &value) in values.iter().enumerate() {
            let allowed = word >> place & 1 == 1 && !value.is_nan() && value != f32::NEG_INFINITY;
            if allowed && best.is_none_or(|(_, most)| value > most) {
                best = Some(((block * 32 + place) as u32, value));
            }
        }
    }
    best.map(|(id, _)| id)
}

/// Sets every logit that the mask forbids to minus infinity.
pub fn forbid(logits: &mut [f32], mask: Mask<'_>) {
    for (block, values) in logits.chunks_mut(32).enumerate() {
        let word = mask.0.get(block).copied().unwrap_or(0);
        if word == u32::MAX {
            continue;
        }
        for (place, value) in values.iter_mut().enumerate() {
            if word >> place & 1 == 0 {
                *value = f32::NEG_INFINITY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_id_of_equal_allowed_logits_wins() {
        let mut logits = vec![0.0; 70];
        (logits[3], logits[40], logits[41], logits[69]) = (9.0, 5.0, 5.0, 5.0);
        let mut mask = [0u32; 3];
        for id in [5, 40, 41, 69] {
            mask[id / 32] |= 1 << (id % 32);
        }
        assert_eq!(best_allowed(&logits, Mask(&mask)), Some(40));
        forbid(&mut logits, Mask(&mask));
        assert_eq!(logits.iter().filter(|value| value.is_finite()).count(), 4);
        assert_eq!((logits[3], logits[5], logits[69]), (f32::NEG_INFINITY, 0.0, 5.0));
        logits.fill(f32::NAN);
        assert_eq!(best_allowed(&logits, Mask(&mask)), None);
        assert_eq!(best_allowed(&logits, Mask(&[0; 3])), None);
    }

    #[test]
    fn minus_zero_and_zero_are_equal() {
        assert_eq!(best_allowed(&[-0.0, 0.0], Mask(&[3])), Some(0));
        assert_eq!(best_allowed(&[f32::NEG_INFINITY, f32::MIN], Mask(&[3])), Some(1));
    }

    #[test]
    fn ids_behind_the_mask_are_forbidden() {
        let mut logits = vec![1.0; 40];
        assert_eq!(best_allowed(&logits[8..], Mask(&[1 << 31])), Some(31));
        forbid(&mut logits, Mask(&[u32::MAX]));
        assert!(logits[..32].iter().all(|&value| value == 1.0));
        assert!(logits[32..].iter().all(|&value| value == f32::NEG_INFINITY));
    }
}
