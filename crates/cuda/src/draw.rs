//! Which draws the card makes by itself (contract rule 13), and in what form it is told.
//!
//! The kernels (`kernels/draw.cu`) keep a fixed number of candidates a slice of the vocabulary, so a draw needs a top-k of at most
//! [`MOST`] that all slices together have room for. Any other is made by the engine from the logits, with the same result.

use rawloop_backend::Draw as Wanted;

use crate::params::{Draw, MOST_SUPPRESSED};

/// Threads of the two kernels.
pub(crate) const THREADS: [u32; 2] = [512, 1024];
/// Candidates of all slices.
pub(crate) const LISTS: usize = 16_384;
/// What stands in place of an id where there was no candidate.
pub(crate) const NOT_DRAWN: u32 = u32::MAX - 1;
/// Top-k at most.
const MOST: usize = 128;
/// Ids of a slice.
const SLICE: usize = 2048;

/// Slices of a vocabulary.
pub(crate) fn slices(vocab: usize) -> usize {
    vocab.div_ceil(SLICE)
}

/// A draw as the kernels take it; none where they do not make it.
pub(crate) fn of(wanted: &Wanted<'_>, vocab: usize, cap: Option<f32>) -> Option<Draw> {
    let top_k = wanted.top_k as usize;
    let fits = (1..=MOST).contains(&top_k) && top_k < vocab && slices(vocab) * top_k <= LISTS;
    if !fits || wanted.suppress.len() > MOST_SUPPRESSED || wanted.temperature <= 0.0 {
        return None;
    }
    let mut suppress = [0; MOST_SUPPRESSED];
    suppress[..wanted.suppress.len()].copy_from_slice(wanted.suppress);
    Some(Draw {
        temperature: wanted.temperature,
        top_p: wanted.top_p,
        min_p: wanted.min_p,
        cap: cap.unwrap_or(0.0),
        seed: [wanted.seed as u32, (wanted.seed >> 32) as u32],
        top_k: top_k as i32,
        suppressed: wanted.suppress.len() as i32,
        suppress,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernels_have_room_for_is_theirs() {
        let wanted = Wanted {
            temperature: 1.0,
            top_k: 64,
            top_p: 0.95,
            min_p: 0.0,
            seed: 1 << 32 | 7,
            suppress: &[5],
        };
        let vocab = 262_144;
        let draw = of(&wanted, vocab, Some(30.0)).unwrap();
        assert_eq!((draw.seed, draw.top_k, draw.suppressed, draw.suppress[0]), ([7, 1], 64, 1, 5));
        for top_k in [0, 129, u32::MAX] {
            assert!(of(&Wanted { top_k, ..wanted }, vocab, None).is_none(), "{top_k}");
        }
        assert!(of(&Wanted { top_k: 128, ..wanted }, vocab, None).is_some());
        assert!(of(&Wanted { top_k: 128, ..wanted }, vocab + 1, None).is_none(), "more slices");
        assert!(of(&wanted, 64, None).is_none(), "all of a small vocabulary");
        assert!(of(&Wanted { suppress: &[0; 17], ..wanted }, vocab, None).is_none());
    }
}
