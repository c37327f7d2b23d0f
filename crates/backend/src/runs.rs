//! A decode as runs, for backends whose device makes many tokens behind one call: how far the next run may go, and what it begins with.
//!
//! A run ends at a stop id, where the caller has enough, or at a bound of the device's own. Behind the last of these the next run goes on with
//! the id that the one before it emitted last; what a run is made of is a backend's own affair.

use crate::backend::BackendError;

/// Positions that are left for a run behind `position`, of which `token` takes the first.
///
/// # Errors
/// There is none, or the id is outside of `vocab`.
pub fn room(token: u32, vocab: usize, position: usize, context: usize) -> Result<usize, BackendError> {
    if position >= context {
        return Err(BackendError::ContextFull { needed: position.saturating_add(1), limit: context });
    }
    if token as usize >= vocab {
        return Err(BackendError::Token { token, vocab });
    }
    Ok(context - position)
}

/// At most `limit` tokens behind `token`, run after run. `run` is given the id that it begins with, how many tokens it may emit and where to; it
/// returns the id that it emitted last where another one may follow.
///
/// # Errors
/// What a run says; what was emitted before stays.
pub fn decode(
    token: u32,
    limit: usize,
    emit: &mut dyn FnMut(u32) -> bool,
    mut run: impl FnMut(u32, usize, &mut dyn FnMut(u32) -> bool) -> Result<Option<u32>, BackendError>,
) -> Result<(), BackendError> {
    let (mut next, mut left) = (Some(token), limit);
    while let Some(token) = next.filter(|_| left > 0) {
        let mut emitted = 0;
        next = run(token, left, &mut |id| {
            emitted += 1;
            emit(id)
        })?;
        left -= emitted;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of at most three tokens, each one more than the one before it; what they begin with.
    fn decode_by_three(
        limit: usize,
        enough: u32,
        context: usize,
    ) -> (Vec<u32>, Vec<u32>, Option<BackendError>) {
        let (mut emitted, mut begun, mut position) = (Vec::new(), Vec::new(), 0);
        let mut emit = |id| {
            emitted.push(id);
            id != enough
        };
        let result = decode(10, limit, &mut emit, |token, left, emit| {
            let most = left.min(room(token, 100, position, context)?).min(3) as u32;
            begun.push(token);
            position += most as usize;
            Ok((token + 1..=token + most).all(emit).then_some(token + most))
        });
        (emitted, begun, result.err())
    }

    #[test]
    fn a_run_begins_where_the_one_before_it_ended() {
        assert_eq!(decode_by_three(7, 0, 50), ((11..=17).collect(), vec![10, 13, 16], None));
        assert_eq!(decode_by_three(7, 14, 50), ((11..=14).collect(), vec![10, 13], None));
        assert_eq!(decode_by_three(0, 0, 50), (vec![], vec![], None));
        let full = BackendError::ContextFull { needed: 6, limit: 5 };
        assert_eq!(decode_by_three(7, 0, 5), ((11..=15).collect(), vec![10, 13], Some(full)));
    }

    #[test]
    fn a_run_needs_a_position_and_an_id_of_the_vocabulary() {
        assert_eq!(room(99, 100, 3, 5), Ok(2));
        assert_eq!(room(100, 100, 3, 5), Err(BackendError::Token { token: 100, vocab: 100 }));
    }
}
