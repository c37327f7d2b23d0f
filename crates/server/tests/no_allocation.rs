//! A backend that does not draw is asked once: from then on a sampled token of a lone request allocates nothing on the way to that answer.

use rawloop_engine::backend::{Backend, Draw};
use rawloop_engine::fake::FakeBackend;
use rawloop_server::batch::{Batch, BatchOptions};
use rawloop_testkit::allocations::{Counting, here};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_draw_that_was_refused_is_refused_again_without_memory_and_another_one_is_asked_for() {
    let (backend, _log) = FakeBackend::new(1000, 64, 8, Box::new(|_| 7));
    let batch = Batch::start(Box::new(backend), BatchOptions::default()).unwrap();
    let seat = batch.seat();
    let _sitting = seat.sit();
    let mut shared = seat.backend();
    let sequence = shared.create().unwrap();
    let suppress = [3, 5];
    let first = Draw { temperature: 1.0, top_k: 40, top_p: 0.9, min_p: 0.0, seed: 1, suppress: &suppress };
    let mut allocations = |draw: &Draw<'_>| {
        let before = here();
        assert!(!shared.decode_drawn(sequence, 1, 4, &[2], draw, &mut |_| true).unwrap());
        here() - before
    };
    assert!(allocations(&first) > 0);
    // The seed makes no difference, nor where the ids lie.
    let elsewhere = suppress.to_vec();
    assert_eq!(allocations(&Draw { seed: 2, suppress: &elsewhere, ..first }), 0);
    // Everything else does: the backend is asked.
    for other in [
        Draw { temperature: 0.5, ..first },
        Draw { top_k: 41, ..first },
        Draw { top_p: 0.8, ..first },
        Draw { min_p: 0.1, ..first },
        Draw { suppress: &suppress[..1], ..first },
    ] {
        assert!(allocations(&other) > 0, "{other:?}");
        assert_eq!(allocations(&other), 0, "{other:?}");
    }
}
