//! The team's protocol under loom, which runs every interleaving of its threads (up to a number of preemptions).
//!
//! The module is compiled a second time on loom's primitives. It must never hang, lose or repeat a chunk, let a thread touch
//! a job after `run` has returned, or forget to wake a sleeper.

#![cfg(not(target_family = "wasm"))]

#[path = "../src/team.rs"]
#[allow(dead_code)]
mod team;

mod sync {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Arc, Mutex};
    pub(crate) use loom::thread::{Builder, JoinHandle, Thread, park, yield_now};
}

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use team::Team;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn two_runs_of_two_chunks_lose_and_repeat_nothing() {
    model(|| {
        // One poll: the thread goes to sleep at every chance it gets.
        let mut team = Team::with_idle_polls(2, 1, |_| {}).expect("threads");
        for _ in 0..2 {
            let chunks = [AtomicUsize::new(0), AtomicUsize::new(0)];
            team.run(2, &|_, chunk| {
                chunks[chunk].fetch_add(1, Relaxed);
            });
            assert!(chunks.iter().all(|chunk| chunk.load(Relaxed) == 1));
        }
    });
}

#[test]
fn two_helpers_enter_and_leave_together() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let mut team = Team::with_idle_polls(3, 1, |_| {}).expect("threads");
        let count = AtomicUsize::new(0);
        team.run(2, &|_, _| {
            count.fetch_add(1, Relaxed);
        });
        assert_eq!(count.load(Relaxed), 2);
    });
}

#[test]
fn a_team_that_never_runs_ends() {
    model(|| drop(Team::with_idle_polls(2, 1, |_| {}).expect("threads")));
}
