//! Whatever a session has been through, its next answer is that of a fresh one.
//!
//! Random conversations on a scripted backend whose next token depends on every id before it, whose rings reach back a few
//! positions only, and which refuses a snapshot of another prefix: prompts grow, are edited anywhere, repeat and start anew;
//! answers are cancelled at a random token or prefill chunk; steps fail.

mod support;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_engine::backend::{StepOutput, Wanted, Work};
use rawloop_engine::fake::{Call, FakeBackend, FakeLog};
use rawloop_engine::{EngineError, Event, Finish, GenerateOptions, SamplingOptions, Session};
use support::{Random, answer, scripted, tiny};

const CONTEXT: usize = 96;
const VOCAB: usize = 4096;

fn session(slack: usize) -> (Session, FakeLog) {
    scripted(CONTEXT, slack, FakeBackend::hashed(VOCAB, 106, 12))
}

/// The same over a backend that takes the last token of a prompt along.
fn taking_along(slack: usize) -> (Session, FakeLog) {
    let (backend, log) = FakeBackend::new(VOCAB, CONTEXT, slack, FakeBackend::hashed(VOCAB, 106, 12));
    (Session::new(tiny(), Box::new(backend.taking_along())).unwrap(), log)
}

fn random_options(random: &mut Random) -> GenerateOptions {
    let mut options = GenerateOptions::greedy([0, 1, 5, 20, 200][random.below(5)]);
    options.chunk = Some([1, 3, 7, 16, 256][random.below(5)]);
    if random.one_in(2) {
        options.sampling = SamplingOptions {
            temperature: 0.8,
            top_k: 20,
            repetition: if random.one_in(3) { 1.3 } else { 1.0 },
            seed: random.next() % 3,
            ..SamplingOptions::greedy()
        };
    }
    if random.one_in(3) {
        options.marks = vec![random.below(20), 20 + random.below(20)];
    }
    options
}

/// The next prompt: the conversation so far, edited.
fn random_prompt(random: &mut Random, so_far: &[u32]) -> Vec<u32> {
    let mut prompt = match random.below(6) {
        0 => Vec::new(),
        1 => so_far[..random.below(so_far.len() + 1)].to_vec(),
        _ => so_far.to_vec(),
    };
    prompt.truncate(CONTEXT - 12);
    for _ in 0..random.below(8) {
        prompt.push(random.below(VOCAB) as u32);
    }
    if prompt.is_empty() {
        prompt.push(2);
    }
    prompt
}

/// The backend holds exactly the mirror's ids: its K/V rows are those of a backend that was given them.
fn check_cache(session: &Session) {
    let held = session.sequence().ids();
    let backend = session.backend();
    assert_eq!(backend.position(session.sequence().id()).unwrap(), held.len());
    let (mut other, _) = FakeBackend::new(VOCAB, CONTEXT, 8, FakeBackend::hashed(VOCAB, 106, 12));
    let sequence = rawloop_engine::backend::Backend::create(&mut other).unwrap();
    let work = Work { sequence, tokens: held, wanted: Wanted::Nothing };
    rawloop_engine::backend::Backend::step(&mut other, &[work], &mut StepOutput::default()).unwrap();
    if let Some(last) = held.len().checked_sub(1) {
        let mine = backend.kv_row(session.sequence().id(), 0, last).unwrap();
        let theirs = rawloop_engine::backend::Backend::kv_row(&other, sequence, 0, last).unwrap();
        assert_eq!(mine, theirs);
    }
}

#[test]
fn any_history_gives_the_answer_of_a_fresh_session() {
    let mut reused = 0;
    let mut cancelled = 0;
    let mut restored = 0;
    for seed in 0..60 {
        let mut random = Random(seed);
        let slack = [0, 4, 16, 200][random.below(4)];
        let (mut session, log) = if seed % 2 == 0 { session(slack) } else { taking_along(slack) };
        let mut so_far: Vec<u32> = Vec::new();
        for turn in 0..25 {
            let prompt = random_prompt(&mut random, &so_far);
            let options = random_options(&mut random);
            let expected = answer(&mut self::session(slack).0, &prompt, &options);
            if random.one_in(5) {
                log.fail_after(random.below(20));
            }
            // Cancelled by the flag or by the observer, after so many events; most turns end before.
            let patience = if random.one_in(2) { random.below(25) } else { usize::MAX };
            let by_flag = random.one_in(2);
            let cancel = AtomicBool::new(false);
            let mut events = 0;
            let outcome = session.generate(&prompt, &options, &cancel, &mut |event| {
                events += 1;
                let over = events > patience && !matches!(event, Event::Rest { .. });
                cancel.store(over && by_flag, Ordering::Relaxed);
                if over && !by_flag { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            check_cache(&session);
            let calls = log.take();
            assert!(!calls.iter().any(|call| matches!(call, Call::RestoreRefused { .. })), "{calls:?}");
            restored += calls.iter().filter(|call| matches!(call, Call::Restore { .. })).count();
            so_far = prompt;
            match outcome {
                Ok(answer) => {
                    reused += answer.timings.reused_tokens;
                    if answer.finish == Finish::Cancelled {
                        cancelled += 1;
                        assert_eq!(
                            answer.ids[..],
                            expected.ids[..answer.ids.len()],
                            "seed {seed} turn {turn}"
                        );
                    } else {
                        assert_eq!(answer.ids, expected.ids, "seed {seed} turn {turn}");
                        assert_eq!(answer.text, expected.text);
                        assert_eq!((answer.finish, answer.stop), (expected.finish, expected.stop));
                    }
                    so_far.extend(&answer.ids);
                }
                Err(EngineError::Backend(_)) => {}
                Err(error) => panic!("seed {seed} turn {turn}: {error}"),
            }
        }
    }
    // The test would prove little if it never came to these.
    assert!(reused > 10_000 && cancelled > 100 && restored > 50, "{reused} {cancelled} {restored}");
}
