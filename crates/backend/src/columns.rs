//! A step as columns, for backends: one token of one sequence at one position, each independent of how many run beside it.
//!
//! Columns without a wanted output need K/V only and run the prefill program; the others run the full program. A prompt is
//! therefore prefill columns and one full column, a verification several full columns, a batch of decodes one full column a
//! sequence. All prefill columns of a step go before its full ones, so a full column finds the K/V of every earlier
//! position of its sequence. Both kinds are cut into passes of bounded width, as even as possible: a last pass of one token
//! would read the weights for one token. How wide a pass may be is a backend's own affair.

use crate::backend::{BackendError, SequenceId, Wanted, Work};

/// One token of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The token.
    pub token: u32,
    /// Index of the sequence in the backend's list.
    pub sequence: usize,
    /// Absolute position.
    pub position: usize,
    /// What it hands back.
    pub output: Output,
}

/// What a column hands back: the index of its row in the step's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Its K/V alone.
    Nothing,
    /// The greedy pick.
    Pick(usize),
    /// The logits.
    Logits(usize),
}

/// One piece of work, validated.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Index of the sequence in the backend's list.
    pub sequence: usize,
    /// Position of the first token.
    pub position: usize,
    /// Tokens that run the prefill program.
    pub silent: usize,
    /// Index of its first row among the step's picks or logits.
    pub row: usize,
}

/// Checks the work of a step and resolves it into `pieces`; counts the rows of picks and of logits. `place` is a sequence's index
/// and the position it holds.
///
/// # Errors
/// Unknown sequence, one that appears twice, an output of no token, more positions than `context`, an id outside of `vocab`.
pub fn resolve(
    work: &[Work<'_>],
    vocab: usize,
    context: usize,
    place: impl Fn(SequenceId) -> Result<(usize, usize), BackendError>,
    pieces: &mut Vec<Piece>,
) -> Result<[usize; 2], BackendError> {
    pieces.clear();
    let mut rows = [0, 0];
    for work in work {
        let (sequence, position) = place(work.sequence)?;
        if pieces.iter().any(|piece| piece.sequence == sequence) {
            let twice = format!("sequence {} appears twice in a step", work.sequence.0);
            return Err(BackendError::Failed(twice));
        }
        if work.tokens.is_empty() && work.wanted != Wanted::Nothing {
            return Err(BackendError::Failed("an output is wanted of no token; give at least one".into()));
        }
        let needed = position.saturating_add(work.tokens.len());
        if needed > context {
            return Err(BackendError::ContextFull { needed, limit: context });
        }
        if let Some(&token) = work.tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(BackendError::Token { token, vocab });
        }
        let row = &mut rows[usize::from(work.wanted.is_logits())];
        pieces.push(Piece { sequence, position, silent: silent(work), row: *row });
        *row += work.wanted.rows(work.tokens.len());
    }
    Ok(rows)
}

/// Tokens of a piece of work that nobody wants an output of.
fn silent(work: &Work<'_>) -> usize {
    work.tokens.len() - work.wanted.rows(work.tokens.len())
}

/// The columns of the prefill program, work after work.
pub fn prefill<'a>(work: &'a [Work<'a>], pieces: &'a [Piece]) -> impl Iterator<Item = Column> + 'a {
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
pub fn full<'a>(work: &'a [Work<'a>], pieces: &'a [Piece]) -> impl Iterator<Item = Column> + 'a {
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
pub fn next_width(left: usize, most: usize) -> usize {
    left.div_ceil(left.div_ceil(most).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

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
