//! A step as columns: one token of one sequence at one position, each independent of how many run beside it.
//!
//! Columns without a wanted output need K/V only and run the prefill list; the others run the full list. All prefill columns of a step go before
//! its full ones, so a full column finds the K/V of every earlier position of its sequence.

use rawloop_engine::backend::{Wanted, Work};

/// One token of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassColumn {
    pub token: u32,
    /// Index of the sequence in the backend's list.
    pub sequence: usize,
    /// Absolute position.
    pub position: usize,
    pub output: Output,
}

/// What a column hands back: the index of its row in the step's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Nothing,
    Pick(usize),
    Logits(usize),
}

/// One piece of work, validated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Index of the sequence in the backend's list.
    pub sequence: usize,
    /// Position of the first token.
    pub position: usize,
    /// Tokens that run the prefill list.
    pub silent: usize,
    /// Index of its first row among the step's picks or logits.
    pub row: usize,
}

/// Tokens of a piece of work that nobody wants an output of.
pub(crate) fn silent(work: &Work<'_>) -> usize {
    work.tokens.len() - work.wanted.rows(work.tokens.len())
}

/// The columns without an output, work after work.
pub(crate) fn prefill(work: &[Work<'_>], pieces: &[Piece], columns: &mut Vec<PassColumn>) {
    columns.clear();
    for (work, piece) in work.iter().zip(pieces) {
        columns.extend(work.tokens[..piece.silent].iter().enumerate().map(|(index, &token)| PassColumn {
            token,
            sequence: piece.sequence,
            position: piece.position + index,
            output: Output::Nothing,
        }));
    }
}

/// The other columns: those that want picks, then those that want logits, each work after work.
pub(crate) fn full(work: &[Work<'_>], pieces: &[Piece], columns: &mut Vec<PassColumn>) {
    columns.clear();
    for logits in [false, true] {
        for (work, piece) in work.iter().zip(pieces).filter(|(work, _)| work.wanted.is_logits() == logits) {
            columns.extend(work.tokens[piece.silent..].iter().enumerate().map(|(index, &token)| {
                PassColumn {
                    token,
                    sequence: piece.sequence,
                    position: piece.position + piece.silent + index,
                    output: match work.wanted {
                        Wanted::Nothing => Output::Nothing,
                        Wanted::LastPick | Wanted::Picks => Output::Pick(piece.row + index),
                        Wanted::LastLogits | Wanted::Logits => Output::Logits(piece.row + index),
                    },
                }
            }));
        }
    }
}

/// Width of the next pass where `left` columns are left: the widths of all passes differ by one at most.
pub(crate) fn next_width(left: usize, most: usize) -> usize {
    left.div_ceil(left.div_ceil(most).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawloop_engine::backend::SequenceId;

    #[test]
    fn passes_are_even() {
        let mut left = 17;
        let mut widths = Vec::new();
        while left > 0 {
            widths.push(next_width(left, 8));
            left -= widths[widths.len() - 1];
        }
        assert_eq!(widths, [6, 6, 5]);
    }

    #[test]
    fn picks_come_before_logits_and_silent_tokens_before_both() {
        let tokens = [7, 8, 9];
        let work = [
            Work { sequence: SequenceId(5), tokens: &tokens, wanted: Wanted::LastLogits },
            Work { sequence: SequenceId(6), tokens: &tokens[..2], wanted: Wanted::Picks },
        ];
        let pieces = [
            Piece { sequence: 0, position: 10, silent: silent(&work[0]), row: 0 },
            Piece { sequence: 1, position: 0, silent: silent(&work[1]), row: 0 },
        ];
        let column = |token, sequence, position, output| PassColumn { token, sequence, position, output };
        let mut columns = Vec::new();
        prefill(&work, &pieces, &mut columns);
        assert_eq!(columns, [column(7, 0, 10, Output::Nothing), column(8, 0, 11, Output::Nothing)]);
        full(&work, &pieces, &mut columns);
        let expected = [
            column(7, 1, 0, Output::Pick(0)),
            column(8, 1, 1, Output::Pick(1)),
            column(9, 0, 12, Output::Logits(0)),
        ];
        assert_eq!(columns, expected);
    }
}
