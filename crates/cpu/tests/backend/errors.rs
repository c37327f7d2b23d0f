//! What is refused, and that a refusal changes nothing.

use rawloop_backend::{Backend, BackendError, SequenceId, StepOutput, Wanted, Work};
use rawloop_cpu::{CpuBackend, CpuError, CpuOptions, KvFormat};

use crate::models::{CONTEXT, TINY, TINY_E4B, assert_same_kv, step};

#[test]
fn a_refused_step_leaves_every_sequence_as_it_was() {
    let fixture = &TINY_E4B;
    let mut backend = fixture.cpu(2, KvFormat::F16);
    let vocab = backend.vocab() as u32;
    let (a, b) = (backend.create().unwrap(), backend.create().unwrap());
    let tokens = fixture.tokens(100, 61);
    step(&mut backend, a, &tokens, Wanted::LastPick);
    let mut before = fixture.cpu(1, KvFormat::F16);
    let truth = before.create().unwrap();
    step(&mut before, truth, &tokens, Wanted::Nothing);

    let gone = SequenceId(99);
    let piece = |sequence, tokens, wanted| Work { sequence, tokens, wanted };
    let good = piece(a, &tokens[..3], Wanted::LastPick);
    let (wrong, long) = ([1, vocab], vec![0; CONTEXT]);
    let refused = [
        (piece(b, &wrong, Wanted::Nothing), BackendError::Token { token: vocab, vocab: vocab as usize }),
        (piece(gone, &tokens[..1], Wanted::LastPick), BackendError::UnknownSequence(gone)),
    ];
    let mut output = StepOutput::default();
    for (bad, error) in refused {
        assert_eq!(backend.step(&[good, bad], &mut output), Err(error));
    }
    let full = BackendError::ContextFull { needed: 100 + CONTEXT, limit: CONTEXT };
    assert_eq!(backend.step(&[piece(a, &long, Wanted::Nothing)], &mut output), Err(full));
    for work in [[good, good], [good, piece(b, &[], Wanted::LastPick)]] {
        assert!(matches!(backend.step(&work, &mut output), Err(BackendError::Failed(_))));
    }
    assert_eq!((backend.position(a), backend.position(b)), (Ok(100), Ok(0)));
    assert_same_kv(fixture, (&backend, a), (&before, truth), "after refusals");
    // Nothing to do is not an error.
    backend.step(&[], &mut output).unwrap();
    backend.step(&[piece(b, &[], Wanted::Nothing)], &mut output).unwrap();
    assert_eq!(backend.position(b), Ok(0));
}

#[test]
fn a_context_can_be_filled_to_its_last_position() {
    let fixture = &TINY_E4B;
    let options = CpuOptions { threads: Some(1), context: 100, ..CpuOptions::default() };
    let mut backend = CpuBackend::open(fixture.pack.clone(), &options).unwrap();
    let sequence = backend.create().unwrap();
    step(&mut backend, sequence, &fixture.tokens(100, 62), Wanted::LastPick);
    let mut output = StepOutput::default();
    let one = Work { sequence, tokens: &[1], wanted: Wanted::LastPick };
    let full = BackendError::ContextFull { needed: 101, limit: 100 };
    assert_eq!(backend.step(&[one], &mut output), Err(full));
}

#[test]
fn unknown_sequences_and_rows_are_refused() {
    let mut backend = TINY.cpu(1, KvFormat::F16);
    let gone = backend.create().unwrap();
    backend.free(gone);
    backend.free(gone);
    let unknown = BackendError::UnknownSequence(gone);
    assert_eq!(backend.position(gone), Err(unknown.clone()));
    assert_eq!(backend.truncate(gone, 0), Err(unknown.clone()));
    assert_eq!(backend.fork(gone), Err(unknown.clone()));
    assert_eq!(backend.snapshot(gone), Err(unknown));
    let sequence = backend.create().unwrap();
    assert_ne!(sequence, gone);
    step(&mut backend, sequence, &TINY.tokens(300, 63), Wanted::Nothing);
    let own = TINY.pack.geometry().own_layers();
    assert!(backend.kv_row(sequence, 0, 299).is_ok());
    // Beyond the end, overwritten in a ring of 192, no K/V of its own.
    for (layer, position) in [(0, 300), (0, 300 - 193), (own, 0)] {
        assert!(backend.kv_row(sequence, layer, position).is_err(), "layer {layer}, position {position}");
    }
}

#[test]
fn options_that_cannot_be_are_refused_by_name() {
    let open = |options: CpuOptions| CpuBackend::open(TINY.pack.clone(), &options).err();
    let limit = TINY.pack.geometry().max_context;
    let kernels = CpuOptions { kernels: Some("sse1".into()), ..CpuOptions::default() };
    let Some(CpuError::Kernels { name, available }) = open(kernels) else { panic!("sse1 was found") };
    assert!(name == "sse1" && available.ends_with("portable"));
    for threads in [0, 1_000_000] {
        let options = CpuOptions { threads: Some(threads), ..CpuOptions::default() };
        assert!(matches!(open(options), Some(CpuError::Threads { .. })));
    }
    for context in [0, limit + 1] {
        let options = CpuOptions { context, ..CpuOptions::default() };
        assert!(matches!(open(options), Some(CpuError::Context { .. })));
    }
    let info = CpuBackend::open(TINY.pack.clone(), &CpuOptions::default()).unwrap().info();
    assert_eq!((info.name, info.kv, info.has_drafter), ("cpu", "f16", true));
    assert_eq!(info.threads, std::thread::available_parallelism().unwrap().get());
}
