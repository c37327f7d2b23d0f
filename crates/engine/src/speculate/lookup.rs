//! Drafts from the text itself: where its last tokens have occurred before, what followed them there may follow again.
//!
//! Answers that quote their input (extraction, proofreading, code edits) repeat whole sentences of it. The draft is what stands
//! behind the longest earlier occurrence of the last tokens, the latest one of equal length. A search is one pass over the
//! ids, 10 microseconds for 32,768 of them, so no index is kept.

/// Tokens at the end that are looked for at most.
const LONGEST: usize = 12;
/// Tokens that have to match: one or two recur by chance.
const SHORTEST: usize = 3;

/// Appends up to `most` tokens that followed an earlier occurrence of the last tokens of `history`.
pub(super) fn look_up(history: &[u32], most: usize, drafts: &mut Vec<u32>) {
    let Some((&last, before)) = history.split_last() else { return };
    let mut best = (SHORTEST - 1, 0);
    // `end` is the place behind an earlier occurrence of the last token.
    for end in (1..=before.len()).rev() {
        if before[end - 1] != last {
            continue;
        }
        let matched = 1 + common_end(&before[..end - 1], before);
        if matched > best.0 {
            best = (matched, end);
            if matched >= LONGEST {
                break;
            }
        }
    }
    let (matched, end) = best;
    if matched >= SHORTEST {
        drafts.extend(history[end..].iter().take(most));
    }
}

/// Tokens in which the two end alike, at most [`LONGEST`].
fn common_end(a: &[u32], b: &[u32]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take(LONGEST - 1).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drafts(history: &[u32], most: usize) -> Vec<u32> {
        let mut drafts = Vec::new();
        look_up(history, most, &mut drafts);
        drafts
    }

    #[test]
    fn what_followed_the_longest_match_is_drafted() {
        let history = [9, 1, 2, 3, 4, 5, 6, 1, 2, 3, 7, 8, 5, 1, 2, 3];
        assert_eq!(drafts(&history, 4), [7, 8, 5, 1], "the latest of equal length");
        let longer = [9, 1, 2, 3, 4, 5, 6, 1, 2, 3, 7, 8, 9, 1, 2, 3];
        assert_eq!(drafts(&longer, 2), [4, 5], "the longest wins over a later one");
        assert!(drafts(&history, 0).is_empty());
    }

    #[test]
    fn a_short_match_is_chance() {
        assert!(drafts(&[5, 1, 2, 6, 7, 1, 2], 4).is_empty());
        assert!(drafts(&[], 4).is_empty());
        assert!(drafts(&[1], 4).is_empty());
    }

    #[test]
    fn a_run_drafts_itself_up_to_the_end() {
        assert_eq!(drafts(&[7, 7, 7, 7], 3), [7]);
        assert_eq!(drafts(&[1, 2, 1, 2, 1, 2], 5), [1, 2]);
    }
}
