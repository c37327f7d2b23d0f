//! Nothing on the token path allocates once the backend has run a step as large.
//!
//! A global allocator counts; this file is a program of its own, so nothing else counts with it. Threads of the team are
//! counted too.

use std::sync::Arc;

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_convert::{SynthOptions, synth};
use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_pack::Pack;
use rawloop_testkit::allocations::{Counting, everywhere};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = everywhere();
    work();
    everywhere() - before
}

fn work(sequence: SequenceId, tokens: &[u32], wanted: Wanted) -> Work<'_> {
    Work { sequence, tokens, wanted }
}

#[test]
fn steps_drafts_and_rewinds_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.rlp");
    let options =
        SynthOptions { assistant: true, ordered: true, ..SynthOptions::pack("tiny-e4b", path.clone()) };
    synth(&options, &mut ()).unwrap();
    let pack = Arc::new(Pack::open(&path).unwrap());
    for threads in [1, 2] {
        let options = CpuOptions { threads: Some(threads), context: 4096, ..CpuOptions::default() };
        let mut backend = CpuBackend::open(pack.clone(), &options).unwrap();
        let (a, b) = (backend.create().unwrap(), backend.create().unwrap());
        let tokens: Vec<u32> = (0..600).map(|index| index * 7 % 1000).collect();
        let mut output = StepOutput::default();
        let mut drafts = Vec::with_capacity(4);
        let mut round = |backend: &mut CpuBackend| {
            backend.step(&[work(a, &tokens, Wanted::LastPick)], &mut output).unwrap();
            for _ in 0..20 {
                let token = [output.picks[0]];
                backend.step(&[work(a, &token, Wanted::LastPick)], &mut output).unwrap();
            }
            backend.draft(a, output.picks[0], 4, &mut drafts).unwrap();
            let position = backend.position(a).unwrap();
            backend.step(&[work(a, &drafts, Wanted::Picks)], &mut output).unwrap();
            backend.truncate(a, position + 2).unwrap();
            let both = [work(a, &tokens[..1], Wanted::LastLogits), work(b, &tokens[..70], Wanted::Picks)];
            backend.step(&both, &mut output).unwrap();
            output.picks.truncate(1);
        };
        round(&mut backend);
        assert_eq!(allocations(|| round(&mut backend)), 0, "{threads} threads");
    }
}
