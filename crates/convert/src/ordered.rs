//! Work that several threads do and one consumes in order.
//!
//! Worker `w` of `n` makes pieces `w`, `w + n`, ... and hands each over through its own bounded channel; the consumer takes
//! them in turn. So the output is the same for every thread count, and memory is bounded by the channels.

use std::sync::mpsc::sync_channel;
use std::thread;

/// Pieces a worker may be ahead.
const AHEAD: usize = 2;

/// Makes pieces `0..count` with `produce` on `workers` threads and gives them to `consume` in ascending order, on the
/// caller's thread. Buffers are used again.
///
/// # Errors
/// The first error in the order of the pieces; work stops soon after it.
pub fn in_order<B: Default + Send, E: Send>(
    count: usize,
    workers: usize,
    produce: impl Fn(usize, &mut B) -> Result<(), E> + Sync,
    mut consume: impl FnMut(usize, &B) -> Result<(), E>,
) -> Result<(), E> {
    let workers = workers.clamp(1, count.max(1));
    thread::scope(|scope| {
        let produce = &produce;
        let mut lanes = Vec::with_capacity(workers);
        for worker in 0..workers {
            let (full, pieces) = sync_channel::<Result<B, E>>(AHEAD);
            let (back, empty) = sync_channel::<B>(AHEAD + 1);
            scope.spawn(move || {
                for piece in (worker..count).step_by(workers) {
                    let mut buffer = empty.try_recv().unwrap_or_default();
                    let made = produce(piece, &mut buffer).map(|()| buffer);
                    let failed = made.is_err();
                    // A closed channel means that the consumer has given up.
                    if full.send(made).is_err() || failed {
                        return;
                    }
                }
            });
            lanes.push((pieces, back));
        }
        for piece in 0..count {
            let (pieces, back) = &lanes[piece % workers];
            // A worker ends early only after an error, which is received first, or in a panic, which the scope passes on.
            let Ok(made) = pieces.recv() else { break };
            let buffer = made?;
            consume(piece, &buffer)?;
            // The worker may have ended; then the buffer is dropped.
            let _ = back.try_send(buffer);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_order_for_every_number_of_workers() {
        for workers in 1..5 {
            let mut seen = Vec::new();
            let made: Result<(), ()> = in_order(
                37,
                workers,
                |piece, buffer: &mut Vec<usize>| {
                    buffer.clear();
                    buffer.push(piece * piece);
                    Ok(())
                },
                |piece, buffer| {
                    seen.push((piece, buffer[0]));
                    Ok(())
                },
            );
            assert_eq!(made, Ok(()));
            assert_eq!(seen, (0..37).map(|piece| (piece, piece * piece)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_error_in_order_wins() {
        let produce = |piece, _: &mut ()| if piece % 10 == 7 { Err(piece) } else { Ok(()) };
        assert_eq!(in_order(100, 3, produce, |_, _| Ok(())), Err(7));
        assert_eq!(
            in_order(100, 3, |_, _: &mut ()| Ok(()), |piece, _| if piece == 4 { Err(4) } else { Ok(()) }),
            Err(4)
        );
    }
}
