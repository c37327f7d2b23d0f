//! A step as columns: one token of one sequence at one position, each independent of how many run beside it.
//!
//! Columns without a wanted output need K/V only and run the prefill program; the others run the full program. A prompt is
//! therefore prefill columns and one full column, a verification several full columns, a batch of decodes one full column a
//! sequence. All prefill columns of a step go before its full ones, so a full column finds the K/V of every earlier
//! position of its sequence. Both kinds are cut into passes of bounded width, as even as possible: a last pass of one token
//! would read the weights for one token.

use rawloop_engine::backend::{Wanted, Work};

/// Columns of one pass of the full program at most.
pub(crate) const FULL_COLUMNS: usize = 64;
/// Columns of one pass of the prefill program at most. Wider passes read weights less often and need larger buffers; at 512 the
/// weights of E2B's prefill layers are 0.6 MB a token.
pub(crate) const PREFILL_COLUMNS: usize = 512;

/// One token of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
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
    /// Tokens that run the prefill program.
    pub silent: usize,
    /// Index of its first row among the step's picks or logits.
    pub row: usize,
}

/// Tokens of a piece of work that nobody wants an output of.
pub(crate) fn silent(work: &Work<'_>) -> usize {
    work.tokens.len() - work.wanted.rows(work.tokens.len())
}

/// The columns of the prefill program, work after work.
pub(crate) fn prefill<'a>(work: &'a [Work<'a>], pieces: &'a [Piece]) -> impl Iterator<Item = Column> + 'a {
    work.iter().zip(pieces).flat_map(|(work, piece)| {
        work.tokens[..piece.silent].iter().enumerate().map(|(index, &token)| Column {
            token,
            sequence: piece.sequence,
            position: piece.position + index,
            output: Output::Nothing,
        })
    })
}

/// The columns of the full program: those that want picks, then those that want logits, each work after work.
pub(crate) fn full<'a>(work: &'a [Work<'a>], pieces: &'a [Piece]) -> impl Iterator<Item = Column> + 'a {
    let of =
        |logits: bool| work.iter().zip(pieces).filter(move |(work, _)| work.wanted.is_logits() == logits);
    of(false).chain(of(true)).flat_map(|(work, piece)| {
        work.tokens[piece.silent..].iter().enumerate().map(|(index, &token)| Column {
            token,
            sequence: piece.sequence,
            position: piece.position + piece.silent + index,
            output: match work.wanted {
                Wanted::Nothing => Output::Nothing,
                Wanted::LastPick | Wanted::Picks => Output::Pick(piece.row + index),
                Wanted::LastLogits | Wanted::Logits => Output::Logits(piece.row + index),
            },
        })
    })
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
        let widths = |mut left: usize, most| {
            let mut widths = Vec::new();
            while left > 0 {
                widths.push(next_width(left, most));
                left -= widths[widths.len() - 1];
            }
            widths
        };
        assert_eq!(widths(513, 512), [257, 256]);
        assert_eq!(widths(512, 512), [512]);
        assert_eq!(widths(130, 64), [44, 43, 43]);
        assert_eq!(widths(0, 64), [0; 0]);
    }

    #[test]
    fn only_wanted_columns_run_the_full_program() {
        let tokens = [7, 8, 9];
        let work = [
            Work { sequence: SequenceId(5), tokens: &tokens, wanted: Wanted::LastLogits },
            Work { sequence: SequenceId(6), tokens: &tokens[..2], wanted: Wanted::Picks },
            Work { sequence: SequenceId(7), tokens: &tokens[..1], wanted: Wanted::Nothing },
        ];
        let pieces = [
            Piece { sequence: 0, position: 10, silent: silent(&work[0]), row: 0 },
            Piece { sequence: 1, position: 0, silent: silent(&work[1]), row: 0 },
            Piece { sequence: 2, position: 3, silent: silent(&work[2]), row: 2 },
        ];
        let column = |token, sequence, position, output| Column { token, sequence, position, output };
        let nothing = Output::Nothing;
        let prefill: Vec<_> = prefill(&work, &pieces).collect();
        assert_eq!(prefill, [column(7, 0, 10, nothing), column(8, 0, 11, nothing), column(7, 2, 3, nothing)]);
        let full: Vec<_> = full(&work, &pieces).collect();
        let expected = [
            column(7, 1, 0, Output::Pick(0)),
            column(8, 1, 1, Output::Pick(1)),
            column(9, 0, 12, Output::Logits(0)),
        ];
        assert_eq!(full, expected);
    }
}
