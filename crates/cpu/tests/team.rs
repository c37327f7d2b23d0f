//! The thread team: every chunk once, panics reported, oversubscription, sleep, many short runs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rawloop_cpu::team::Team;

#[test]
fn every_chunk_runs_once_on_a_known_worker() {
    for threads in [0, 1, 2, 3, 8] {
        let mut team = Team::new(threads).expect("threads");
        assert_eq!(team.threads(), threads.max(1));
        for chunks in [0, 1, 2, 3, 17, 1000] {
            let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
            let workers = team.threads();
            team.run(chunks, &|worker, chunk| {
                assert!(worker < workers);
                counts[chunk].fetch_add(1, Relaxed);
            });
            assert!(
                counts.iter().all(|count| count.load(Relaxed) == 1),
                "{threads} threads, {chunks} chunks"
            );
        }
    }
}

#[test]
fn many_short_runs_see_each_other_results() {
    // Each run reads what all workers wrote in the one before.
    let mut team = Team::new(3).expect("threads");
    let mut cells: Vec<AtomicUsize> = (0..7).map(|_| AtomicUsize::new(0)).collect();
    for run in 0..20_000 {
        let total: usize = cells.iter().map(|cell| cell.load(Relaxed)).sum();
        assert_eq!(total, run * 7);
        team.run(7, &|_, chunk| {
            cells[chunk].fetch_add(1, Relaxed);
        });
    }
    assert!(cells.iter_mut().all(|cell| *cell.get_mut() == 20_000));
}

#[test]
fn one_worker_never_runs_two_chunks_at_once() {
    let mut team = Team::new(4).expect("threads");
    let busy: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    for _ in 0..200 {
        team.run(50, &|worker, _| {
            assert_eq!(busy[worker].fetch_add(1, Relaxed), 0);
            std::hint::black_box((0..500).sum::<usize>());
            busy[worker].fetch_sub(1, Relaxed);
        });
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_team_stays_usable() {
    let mut team = Team::new(2).expect("threads");
    for round in 0..50 {
        // Without sleeping, one thread may take every chunk; so each chunk panics in one of the rounds.
        let panicking = round % 5;
        let result = catch_unwind(AssertUnwindSafe(|| {
            team.run(5, &|_, chunk| {
                if chunk == panicking {
                    panic!("chunk {chunk} of round {round}");
                }
            });
        }));
        let panic = result.expect_err("the chunk panics");
        let text = panic.downcast_ref::<String>().expect("the message of the chunk");
        assert_eq!(*text, format!("chunk {panicking} of round {round}"));
        let done = AtomicUsize::new(0);
        team.run(9, &|_, _| {
            done.fetch_add(1, Relaxed);
        });
        assert_eq!(done.load(Relaxed), 9);
    }
}

#[test]
fn sleeping_threads_wake_for_the_next_run() {
    let mut team = Team::new(2).expect("threads");
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(5));
        // The caller waits inside its chunk for the other one to start, so a second thread must have come.
        let started = AtomicUsize::new(0);
        team.run(2, &|_, _| {
            started.fetch_add(1, Relaxed);
            while started.load(Relaxed) < 2 {
                std::thread::yield_now();
            }
        });
        assert_eq!(started.load(Relaxed), 2);
    }
}

#[test]
fn teams_larger_than_the_machine_finish() {
    let mut teams: Vec<Team> = (0..4).map(|_| Team::new(16).expect("threads")).collect();
    for _ in 0..20 {
        for team in &mut teams {
            let sum = AtomicUsize::new(0);
            team.run(100, &|_, chunk| {
                sum.fetch_add(chunk, Relaxed);
            });
            assert_eq!(sum.load(Relaxed), 4950);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_team_that_loses_its_cores_in_the_middle_of_a_run_finishes() {
    use rawloop_cpu::topology::{Topology, pin};

    // A thread of its own: the caller takes part, and what it is pinned to ends with it.
    let caller = std::thread::spawn(|| {
        let core = Topology::detect().cpus()[0];
        let mut team = Team::new(2).expect("threads");
        let moved: Vec<AtomicUsize> = (0..2).map(|_| AtomicUsize::new(0)).collect();
        // Both threads take part in this run, and from then on share one core.
        team.run(2, &|worker, _| {
            assert!(pin(core));
            moved[worker].fetch_add(1, Relaxed);
            while moved.iter().map(|count| count.load(Relaxed)).sum::<usize>() < 2 {
                std::thread::yield_now();
            }
        });
        assert!(moved.iter().all(|count| count.load(Relaxed) == 1));
        let chunks = AtomicUsize::new(0);
        for _ in 0..2_000 {
            team.run(8, &|_, _| {
                std::hint::black_box((0..2_000).sum::<usize>());
                chunks.fetch_add(1, Relaxed);
            });
        }
        chunks.load(Relaxed)
    });
    assert_eq!(caller.join().expect("the caller"), 16_000);
}

#[test]
fn each_thread_starts_with_its_own_number() {
    let started = std::sync::Arc::new([const { AtomicUsize::new(0) }; 4]);
    let counts = started.clone();
    let start = move |worker: usize| {
        counts[worker].fetch_add(1, Relaxed);
    };
    drop(Team::with_start(4, start).expect("threads"));
    assert_eq!(started.each_ref().map(|count| count.load(Relaxed)), [0, 1, 1, 1]);
}
