//! What a sequence is said to take is what the system gives it: budgets of bytes count with it.
//!
//! A program of its own, so that nobody else's memory comes and goes meanwhile.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::Arc;

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_cpu::{CpuBackend, CpuOptions, KvFormat};
use rawloop_pack::Pack;

/// Sequences of each kind.
const EACH: usize = 12;

/// Bytes that the first line of a name says in a file of the system's.
fn bytes(path: &str, name: &str) -> usize {
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    1024 * line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap()
}

/// Bytes of memory that are no part of a file, as the system counts them page by page.
fn anonymous() -> usize {
    bytes("/proc/self/smaps_rollup", "Anonymous:")
}

/// Whether the system hands out memory in pages of 4 KB, and in larger ones only where it is asked to.
fn pages_are_small() -> bool {
    let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    bytes("/proc/self/smaps", "KernelPageSize:") == 4096
        && !huge.is_ok_and(|choice| choice.contains("[always]"))
}

#[test]
fn a_sequence_takes_what_its_cost_says() {
    if !pages_are_small() {
        eprintln!(
            "left out: the system's pages are larger than 4 KB, and a sequence of the tiny model has few of them"
        );
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny/tiny.rlp");
    let pack = Arc::new(Pack::open(&path).unwrap());
    for kv in [KvFormat::F32, KvFormat::F16, KvFormat::I8] {
        let options = CpuOptions { threads: Some(1), kv, context: 4096, ..CpuOptions::default() };
        let mut backend = CpuBackend::open(Arc::clone(&pack), &options).unwrap();
        let mut output = StepOutput::default();
        let mut run = |backend: &mut CpuBackend, length: usize| -> SequenceId {
            let tokens: Vec<u32> = (0..length as u32).map(|at| 300 + at % 3000).collect();
            let sequence = backend.create().unwrap();
            backend
                .step(&[Work { sequence, tokens: &tokens, wanted: Wanted::Nothing }], &mut output)
                .unwrap();
            sequence
        };
        // The buffers of a step grow once.
        let first = run(&mut backend, 1000);
        backend.free(first);
        let (before, mut counted) = (anonymous(), 0);
        let cost = backend.info().cost;
        for _ in 0..EACH {
            let long = run(&mut backend, 1000);
            // Shorter than a ring: its fork takes all of it nevertheless.
            let short = run(&mut backend, 100);
            backend.fork(short).unwrap();
            backend.free(short);
            counted += cost.bytes(backend.position(long).unwrap()) + cost.bytes(100);
        }
        let taken = anonymous().saturating_sub(before);
        assert!(taken <= counted && taken * 10 >= counted * 9, "{kv:?}: {taken} bytes, counted {counted}");
    }
}
