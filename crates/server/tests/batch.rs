//! Requests that share a backend answer as they do alone, byte for byte.

mod support;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rawloop_engine::backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_engine::fake::{Call, FakeBackend, FakeLog};
use rawloop_engine::guided::{Grammar, Guide, SharedEnvironment};
use rawloop_engine::sequence::{PoolOptions, PrefixPool, SharedPool};
use rawloop_engine::tools::{PlanOptions, ToolChoice, plan};
use rawloop_engine::{Answer, Draft, Event, Finish, GenerateOptions, SamplingOptions, Session};
use rawloop_server::batch::{Batch, BatchOptions};
use serde_json::json;
use support::watched::{Watched, endless};
use support::{cpu, tiny};

const CONTEXT: usize = 1024;

/// Prompts of several lengths, some with a common beginning.
fn prompts() -> Vec<Vec<u32>> {
    let model = tiny();
    let system = "You answer in one short sentence. You are polite. You know about geography, numbers and the weather. ";
    let questions = [
        "Hello!",
        "What is 2 + 2?",
        "Name the capital of France and the capital of Italy, and say which of them is larger.",
        "Write the numbers from one to ten.",
    ];
    let mut prompts = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        let text =
            if index % 2 == 0 { format!("{}{question}", system.repeat(2)) } else { (*question).to_owned() };
        let messages = [rawloop_engine::chat::Message::new(rawloop_engine::chat::Role::User, text)];
        prompts.push(model.render(&Default::default(), &messages).unwrap().to_ids(model.tokenizer()));
    }
    prompts
}

/// Ways to answer that use everything the engine has.
fn ways(environment: &SharedEnvironment) -> Vec<GenerateOptions> {
    let sampled = |seed| SamplingOptions { temperature: 1.0, top_k: 40, seed, ..SamplingOptions::greedy() };
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" }, "s": { "type": "string", "maxLength": 12 } },
        "required": ["n", "s"], "additionalProperties": false });
    let tools = vec![serde_json::from_value(json!({ "type": "function", "function": { "name": "add",
        "parameters": { "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] } } })).unwrap()];
    let built = environment.get().unwrap();
    let calls = plan(&built, &tools, &ToolChoice::Required, PlanOptions::default()).unwrap();
    let greedy = GenerateOptions { detect_loops: false, chunk: Some(40), ..GenerateOptions::greedy(40) };
    vec![
        greedy.clone(),
        GenerateOptions { draft: Draft::Off, ..greedy.clone() },
        GenerateOptions { draft: Draft::Fixed(3), ..greedy.clone() },
        GenerateOptions { sampling: sampled(1), ..greedy.clone() },
        GenerateOptions { sampling: sampled(2), draft: Draft::Lookup, ..greedy.clone() },
        GenerateOptions {
            sampling: sampled(3),
            constraint: Some(Guide::from(Grammar::json_schema(&schema).unwrap())),
            ..greedy.clone()
        },
        GenerateOptions { constraint: Some(calls.into()), ..greedy.clone() },
        GenerateOptions {
            sampling: SamplingOptions { log_probabilities: Some(3), ..SamplingOptions::greedy() },
            marks: vec![64],
            ..greedy
        },
    ]
}

fn answer(session: &mut Session, prompt: &[u32], options: &GenerateOptions) -> Answer {
    let never = AtomicBool::new(false);
    session.generate(prompt, options, &never, &mut |_: Event<'_>| ControlFlow::Continue(())).unwrap()
}

#[test]
fn mixed_requests_at_the_same_time_answer_as_they_do_alone() {
    let model = tiny();
    let environment = SharedEnvironment::new(model.tokenizer().clone());
    let (prompts, ways) = (prompts(), ways(&environment));
    let mut alone = Session::new(model.clone(), cpu(CONTEXT)).unwrap();
    let expected: Vec<Vec<Answer>> = ways
        .iter()
        .map(|way| prompts.iter().map(|prompt| answer(&mut alone, prompt, way)).collect())
        .collect();
    for options in
        [BatchOptions::default(), BatchOptions { prompt_share: 3, prompt_most: Some(11), drafting: 100 }]
    {
        let batch = Batch::start(cpu(CONTEXT), options).unwrap();
        let pool = SharedPool::new(PrefixPool::new(PoolOptions::new(batch.seat().backend().info().cost)));
        let round = || {
            thread::scope(|scope| {
                for (number, way) in ways.iter().enumerate() {
                    let (seat, pool, environment) = (batch.seat(), pool.another(), environment.clone());
                    let (model, prompts, expected) = (model.clone(), &prompts, &expected);
                    scope.spawn(move || {
                        let mut session = Session::on(model, Box::new(seat.backend()), pool, environment);
                        for turn in 0..prompts.len() {
                            // Each begins with another one, so that beginnings are shared in both directions.
                            let which = (turn + number) % prompts.len();
                            let sitting = seat.sit();
                            let answer = answer(&mut session, &prompts[which], way);
                            drop(sitting);
                            let expected = &expected[number][which];
                            assert_eq!(answer.ids, expected.ids, "way {number}, prompt {which}");
                            assert_eq!((&answer.text, answer.finish), (&expected.text, expected.finish));
                        }
                    });
                }
            });
            batch.counters()
        };
        // Whether requests meet is the machine's affair; that they do at some time is not.
        let joined = (0..1000).map(|_| round()).find(|counters| counters.pieces > counters.steps);
        assert!(joined.is_some(), "nothing was joined: {:?}", batch.counters());
        let kept = pool.lock().summary();
        assert!(kept.counters.forked + kept.counters.extended > 0, "nothing was shared: {kept:?}");
    }
}

/// A backend whose answers show at once whether a sequence holds what it should.
fn scripted(context: usize) -> Box<dyn Backend> {
    Box::new(FakeBackend::new(1000, context, 16, FakeBackend::hashed(1000, 1, 50)).0)
}

/// What it says behind 7 when nobody else is there.
fn alone(count: usize) -> Vec<u32> {
    let mut backend = scripted(4096);
    let sequence = backend.create().unwrap();
    let mut said = Vec::new();
    let mut read = |token| {
        said.push(token);
        true
    };
    backend.decode(sequence, 7, count, &[], &mut read).unwrap();
    said
}

/// Decodes that share their steps go on without their readers, and a reader that stands still holds up nobody.
#[test]
fn joined_decodes_do_not_wait_for_a_reader_that_stands_still() {
    let reference = alone(500);
    let batch = Batch::start(scripted(4096), BatchOptions::default()).unwrap();
    let (others_are_done, done) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let (batch, reference) = (&batch, &reference);
        let still = scope.spawn(move || {
            let seat = batch.seat();
            let _sitting = seat.sit();
            let mut backend = seat.backend();
            let sequence = backend.create().unwrap();
            let mut seen = Vec::new();
            let mut read = |token| {
                seen.push(token);
                if seen.len() == 3 {
                    done.recv().unwrap();
                }
                true
            };
            backend.decode(sequence, 7, 500, &[], &mut read).unwrap();
            assert_eq!(backend.position(sequence).unwrap(), 500);
            seen
        });
        let others: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    let seat = batch.seat();
                    let _sitting = seat.sit();
                    let mut backend = seat.backend();
                    let sequence = backend.create().unwrap();
                    let mut seen = Vec::new();
                    let mut read = |token| {
                        seen.push(token);
                        true
                    };
                    backend.decode(sequence, 7, 500, &[], &mut read).unwrap();
                    seen
                })
            })
            .collect();
        for other in others {
            assert_eq!(&other.join().unwrap(), reference);
        }
        others_are_done.send(()).unwrap();
        assert_eq!(&still.join().unwrap(), reference);
    });
}

/// A step has room for 64 sequences. Whoever comes beside so many answers without an end has its turn all the same.
#[test]
fn more_callers_than_a_step_holds_take_turns() {
    let batch = Batch::start(Watched::boxed(1 << 24, endless(), |_| ()).0, BatchOptions::default()).unwrap();
    let (begun, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (batch, begun, over) = (&batch, &begun, &over);
        for _ in 0..70 {
            scope.spawn(move || {
                let seat = batch.seat();
                let _sitting = seat.sit();
                let mut backend = seat.backend();
                let sequence = backend.create().unwrap();
                let mut first = true;
                let mut read = |_| {
                    begun.fetch_add(usize::from(std::mem::take(&mut first)), Ordering::Relaxed);
                    !over.load(Ordering::Relaxed)
                };
                backend.decode(sequence, 7, 1 << 23, &[], &mut read).unwrap();
            });
        }
        while begun.load(Ordering::Relaxed) < 70 {
            thread::yield_now();
        }
        let seat = batch.seat();
        let _sitting = seat.sit();
        let mut backend = seat.backend();
        let sequence = backend.create().unwrap();
        let mut output = StepOutput::default();
        for held in 0..8 {
            let wanted = if held % 2 == 0 { Wanted::Nothing } else { Wanted::LastPick };
            backend.step(&[Work { sequence, tokens: &[5], wanted }], &mut output).unwrap();
        }
        assert_eq!(backend.position(sequence).unwrap(), 8);
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_decode_is_the_same_alone_broken_off_and_ended_by_its_reader() {
    let reference = alone(300);
    let batch = Batch::start(scripted(4096), BatchOptions::default()).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let disturber = batch.seat();
        let over = &over;
        // Somebody who comes and goes.
        scope.spawn(move || {
            let mut backend = disturber.backend();
            let sequence = backend.create().unwrap();
            let mut output = StepOutput::default();
            let mut held = 0;
            while !over.load(Ordering::Relaxed) && held < 4000 {
                let work = Work { sequence, tokens: &[5], wanted: Wanted::LastPick };
                backend.step(&[work], &mut output).unwrap();
                held += 1;
                thread::yield_now();
            }
        });
        let seat = batch.seat();
        let mut backend = seat.backend();
        for most in [1, 2, 3, 10, 100, 300] {
            let _sitting = seat.sit();
            let sequence = backend.create().unwrap();
            let mut seen = Vec::new();
            backend
                .decode(sequence, 7, 300, &[], &mut |token| {
                    seen.push(token);
                    seen.len() < most
                })
                .unwrap();
            assert_eq!(seen, reference[..most]);
            // It holds the first token and all that were emitted but the last.
            assert_eq!(backend.position(sequence).unwrap(), most);
            backend.free(sequence);
        }
        let stop = reference[20];
        let first = reference.iter().position(|&token| token == stop).unwrap();
        let sequence = backend.create().unwrap();
        let mut seen = Vec::new();
        backend
            .decode(sequence, 7, 300, &[stop], &mut |token| {
                seen.push(token);
                true
            })
            .unwrap();
        assert_eq!(seen, reference[..=first]);
        over.store(true, Ordering::Relaxed);
    });
}

/// A backend that draws by itself does so for somebody who is alone, and steps with the others where there are any; the answers are the same.
#[test]
fn a_backend_draws_for_who_is_alone() {
    let model = tiny();
    let environment = SharedEnvironment::new(model.tokenizer().clone());
    let vocab = model.pack().geometry().vocab;
    let fake = || FakeBackend::new(vocab, 4096, 16, endless());
    let drawing = || {
        let (backend, log) = fake();
        (Box::new(backend.drawing(model.soft_cap())), log)
    };
    let prompt = prompts().remove(0);
    let way = |seed| GenerateOptions {
        sampling: SamplingOptions { temperature: 1.3, top_k: 50, seed, ..SamplingOptions::greedy() },
        draft: Draft::Off,
        detect_loops: false,
        ignore_eos: true,
        ..GenerateOptions::greedy(120)
    };
    let mut plain = Session::new(model.clone(), Box::new(fake().0)).unwrap();
    let expected: Vec<Answer> = (0..4).map(|seed| answer(&mut plain, &prompt, &way(seed))).collect();
    let ask = |batch: &Batch, seed: u64| {
        let seat = batch.seat();
        let pool = SharedPool::new(PrefixPool::new(PoolOptions::new(seat.backend().info().cost)));
        let (model, environment) = (model.clone(), environment.clone());
        let mut session = Session::on(model, Box::new(seat.backend()), pool, environment);
        let _sitting = seat.sit();
        assert_eq!(answer(&mut session, &prompt, &way(seed)).ids, expected[seed as usize].ids);
    };
    let drawn = |log: &FakeLog| log.take().iter().filter(|call| **call == Call::Drawn).count();

    let (backend, log) = drawing();
    let batch = Batch::start(backend, BatchOptions::default()).unwrap();
    ask(&batch, 0);
    // Three tokens a run at most.
    let alone = drawn(&log);
    assert!(alone > 20, "{alone} runs");
    // Somebody who is there and asks for nothing: nothing is drawn, and nobody waits for it.
    let seat = batch.seat();
    let sitting = seat.sit();
    ask(&batch, 1);
    assert_eq!(drawn(&log), 0);
    drop(sitting);
    thread::scope(|scope| {
        for seed in 0..4 {
            let (batch, ask) = (&batch, &ask);
            scope.spawn(move || ask(batch, seed));
        }
    });
    // One that does not draw.
    let (backend, log) = fake();
    let batch = Batch::start(Box::new(backend), BatchOptions::default()).unwrap();
    ask(&batch, 2);
    assert_eq!(drawn(&log), 0);
}

#[test]
fn what_is_refused_harms_nobody_else() {
    let batch = Batch::start(scripted(32), BatchOptions::default()).unwrap();
    thread::scope(|scope| {
        for number in 0..6u32 {
            let seat = batch.seat();
            scope.spawn(move || {
                let mut backend = seat.backend();
                let sequence = backend.create().unwrap();
                let mut output = StepOutput::default();
                for round in 0..30u32 {
                    let _sitting = seat.sit();
                    let good = [number, round];
                    let before = backend.position(sequence).unwrap();
                    let bad: &[u32] = &[1000];
                    let many = [3; 40];
                    for wrong in [bad, &many] {
                        let work = Work { sequence, tokens: wrong, wanted: Wanted::Nothing };
                        assert!(backend.step(&[work], &mut output).is_err());
                        assert_eq!(backend.position(sequence).unwrap(), before);
                    }
                    let unknown =
                        Work { sequence: SequenceId(u32::MAX), tokens: &good, wanted: Wanted::LastPick };
                    assert!(backend.step(&[unknown], &mut output).is_err());
                    if before + 2 > 32 {
                        backend.truncate(sequence, 0).unwrap();
                        continue;
                    }
                    let work = Work { sequence, tokens: &good, wanted: Wanted::LastPick };
                    backend.step(&[work], &mut output).unwrap();
                    assert_eq!(output.picks.len(), 1);
                    assert_eq!(backend.position(sequence).unwrap(), before + 2);
                }
            });
        }
    });
}

#[test]
fn a_long_prompt_does_not_stall_an_answer() {
    let options = BatchOptions { prompt_share: 8, ..BatchOptions::default() };
    let (backend, log) = FakeBackend::new(1000, 4096, 16, FakeBackend::hashed(1000, 1, u64::MAX));
    let batch = Batch::start(Box::new(backend), options).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (prompter, done) = (batch.seat(), &done);
        let answerer = batch.seat();
        let (begun, begins) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let _sitting = answerer.sit();
            let mut backend = answerer.backend();
            let sequence = backend.create().unwrap();
            let mut output = StepOutput::default();
            while !done.load(Ordering::Relaxed) {
                let work = Work { sequence, tokens: &[5], wanted: Wanted::LastPick };
                backend.step(&[work], &mut output).unwrap();
                let _ = begun.send(());
                if backend.position(sequence).unwrap() == 4000 {
                    backend.truncate(sequence, 0).unwrap();
                }
            }
        });
        begins.recv().unwrap();
        let mut backend = prompter.backend();
        let prompt: Vec<u32> = (0..1000).collect();
        // While both are there a step has at most eight tokens of a prompt. When they meet is the machine's affair.
        let mut round = || {
            let sequence = backend.create().unwrap();
            let work = Work { sequence, tokens: &prompt, wanted: Wanted::Nothing };
            backend.step(&[work], &mut StepOutput::default()).unwrap();
            assert_eq!(backend.position(sequence).unwrap(), 1000);
            backend.free(sequence);
            log.take().iter().any(|call| matches!(call, Call::Step { tokens: 8, .. }))
        };
        let met = (0..10_000).any(|_| round());
        done.store(true, Ordering::Relaxed);
        assert!(met, "no step held a part of a prompt and an answer");
    });
}

#[test]
fn a_prompt_alone_has_steps_of_the_size_that_suits_the_backend() {
    let prompt: Vec<u32> = (0..1000).collect();
    let ran = |suits, prompt_most| {
        let (backend, log) = FakeBackend::new(1000, 4096, 16, FakeBackend::hashed(1000, 1, u64::MAX));
        let options = BatchOptions { prompt_most, ..BatchOptions::default() };
        let batch = Batch::start(Box::new(backend.stepping(suits)), options).unwrap();
        let seat = batch.seat();
        let _sitting = seat.sit();
        let mut backend = seat.backend();
        assert_eq!(backend.info().prompt_step, suits);
        let sequence = backend.create().unwrap();
        let work = Work { sequence, tokens: &prompt, wanted: Wanted::Nothing };
        backend.step(&[work], &mut StepOutput::default()).unwrap();
        let tokens = |call: &Call| if let Call::Step { tokens, .. } = *call { Some(tokens) } else { None };
        log.take().iter().filter_map(tokens).collect::<Vec<_>>()
    };
    assert_eq!(ran(1000, None), [1000]);
    assert_eq!(ran(256, None), [512, 488]);
    assert_eq!(ran(1000, Some(600)), [600, 400]);
}

#[test]
fn the_last_token_of_a_prompt_goes_along_where_nobody_else_is_there() {
    let (backend, _) = FakeBackend::new(1000, 4096, 16, FakeBackend::hashed(1000, 1, u64::MAX));
    let batch = Batch::start(Box::new(backend.taking_along()), BatchOptions::default()).unwrap();
    let (seat, other) = (batch.seat(), batch.seat());
    let sitting = seat.sit();
    let mut backend = seat.backend();
    assert!(backend.info().takes_last_along);
    let beside = other.sit();
    assert!(!backend.info().takes_last_along, "in a step with others a prompt goes in parts");
    drop(beside);
    assert!(backend.info().takes_last_along);
    let sequence = backend.create().unwrap();
    let work = Work { sequence, tokens: &[1, 2, 3], wanted: Wanted::LastPick };
    backend.step(&[work], &mut StepOutput::default()).unwrap();
    let counters = batch.counters();
    assert_eq!((counters.prompt_tokens, counters.columns), (2, 1), "what is asked for is one column");
    assert_eq!(backend.snapshot_at(sequence, 2).unwrap().position, 2);
    assert!(backend.snapshot_at(sequence, 4).is_err());
    drop(sitting);
}

#[test]
fn a_cancelled_request_ends_and_the_others_go_on() {
    let model = tiny();
    let batch = Batch::start(cpu(CONTEXT), BatchOptions::default()).unwrap();
    let environment = SharedEnvironment::new(model.tokenizer().clone());
    let pool = SharedPool::new(PrefixPool::new(PoolOptions::new(batch.seat().backend().info().cost)));
    let prompts = prompts();
    let options = GenerateOptions { ignore_eos: true, ..GenerateOptions::greedy(60) };
    let expected = answer(&mut Session::new(model.clone(), cpu(CONTEXT)).unwrap(), &prompts[1], &options);
    thread::scope(|scope| {
        for number in 0..4 {
            let (seat, pool, environment) = (batch.seat(), pool.another(), environment.clone());
            let (model, prompts, options, expected) = (model.clone(), &prompts, &options, &expected);
            scope.spawn(move || {
                let mut session = Session::on(model, Box::new(seat.backend()), pool, environment);
                for round in 0..6 {
                    let _sitting = seat.sit();
                    let cancel = AtomicBool::new(false);
                    let most = if number % 2 == 0 { usize::MAX } else { round + 1 };
                    let mut seen = 0;
                    let answer = session
                        .generate(&prompts[1], options, &cancel, &mut |event| {
                            seen += usize::from(matches!(event, Event::Token { .. }));
                            if seen >= most {
                                cancel.store(true, Ordering::Relaxed)
                            }
                            ControlFlow::Continue(())
                        })
                        .unwrap();
                    if number % 2 == 0 {
                        assert_eq!(answer.ids, expected.ids);
                    } else {
                        assert_eq!(answer.finish, Finish::Cancelled);
                        assert!(answer.ids.len() <= most + 1 && expected.ids.starts_with(&answer.ids));
                    }
                }
            });
        }
    });
}

#[test]
fn handles_are_refused_when_the_batch_is_gone() {
    let batch = Batch::start(scripted(64), BatchOptions::default()).unwrap();
    let seat = batch.seat();
    let mut backend = seat.backend();
    let sequence = backend.create().unwrap();
    drop(batch);
    assert!(backend.position(sequence).unwrap_err().to_string().contains("shut down"));
    assert!(backend.decode(sequence, 1, 3, &[], &mut |_| true).is_err());
    backend.free(sequence);
}
