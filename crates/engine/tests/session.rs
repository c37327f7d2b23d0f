//! What a session reuses, how answers end, and what is refused, on a backend that does what a script says.

mod support;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_engine::fake::{Call, FakeBackend, FakeLog, Script};
use rawloop_engine::{EngineError, Event, Finish, GenerateOptions, SamplingOptions, Session};
use support::{answer, scripted};

/// Tokens 1000, 1001, 1002, ... as the sequence grows.
fn counting() -> Script {
    Box::new(|ids| 1000 + ids.len() as u32)
}

fn steps(calls: &[Call]) -> Vec<(usize, usize)> {
    let step = |call: &Call| match *call {
        Call::Step { position, tokens } => Some((position, tokens)),
        _ => None,
    };
    calls.iter().filter_map(step).collect()
}

#[test]
fn the_prompt_is_prefilled_in_chunks_and_each_token_is_one_step() {
    let (mut session, log) = scripted(64, 8, counting());
    let prompt: Vec<u32> = (200..211).collect();
    let options = GenerateOptions { chunk: Some(4), ..GenerateOptions::greedy(3) };
    let first = answer(&mut session, &prompt, &options);
    assert_eq!(first.ids, [1011, 1012, 1013]);
    assert_eq!(first.finish, Finish::Length);
    assert_eq!(steps(&log.take()), [(0, 4), (4, 4), (8, 2), (10, 1), (11, 1), (12, 1)]);
    assert_eq!(session.sequence().ids().len(), 13, "the token generated last has not been stepped");
    assert_eq!((first.timings.prompt_tokens, first.timings.reused_tokens, first.timings.tokens), (11, 0, 3));
    assert_eq!(first.timings.decode_steps, 2);
}

#[test]
fn a_backend_says_how_many_tokens_of_a_prompt_suit_its_steps() {
    let model = support::tiny();
    let vocab = model.pack().geometry().vocab;
    let prompt: Vec<u32> = (0..600).collect();
    let ran = |suits, chunk| {
        let (backend, log) = FakeBackend::new(vocab, 1024, 8, counting());
        let backend = Box::new(backend.stepping(suits));
        let mut session = rawloop_engine::Session::new(model.clone(), backend).unwrap();
        let options = GenerateOptions { chunk, ..GenerateOptions::greedy(1) };
        answer(&mut session, &prompt, &options);
        steps(&log.take()).iter().map(|&(_, tokens)| tokens).collect::<Vec<_>>()
    };
    assert_eq!(ran(250, None), [250, 250, 99, 1]);
    assert_eq!(ran(1000, None), [599, 1]);
    assert_eq!(ran(1000, Some(300)), [300, 299, 1], "whoever asks for another number has it");
}

#[test]
fn a_follow_up_turn_prefills_only_what_is_new() {
    let (mut session, log) = scripted(128, 8, counting());
    let mut prompt: Vec<u32> = (200..240).collect();
    let first = answer(&mut session, &prompt, &GenerateOptions::greedy(20));
    log.take();
    prompt.extend(&first.ids);
    prompt.extend([7, 8, 9]);
    let second = answer(&mut session, &prompt, &GenerateOptions::greedy(2));
    // 40 + 20 - 1 are held; the last token of the answer and two of the three new ones are one chunk.
    assert_eq!(second.timings.reused_tokens, 59);
    assert_eq!(steps(&log.take()), [(59, 3), (62, 1), (63, 1)]);
}

#[test]
fn an_edit_beyond_the_rings_comes_back_through_a_snapshot() {
    let (mut session, log) = scripted(256, 8, counting());
    let prompt: Vec<u32> = (200..240).collect();
    let first = answer(&mut session, &prompt, &GenerateOptions::greedy(50));
    log.take();
    // The answer is thrown away: 50 positions back, where the rings reach back 8.
    let again = answer(&mut session, &prompt, &GenerateOptions::greedy(50));
    assert_eq!(again.ids, first.ids);
    assert_eq!(again.timings.reused_tokens, 39);
    assert!(log.take().contains(&Call::Restore { position: 39 }));
    // An edit before the snapshot leaves nothing to come back to.
    let mut edited = prompt.clone();
    edited[20] = 3;
    let edited = answer(&mut session, &edited, &GenerateOptions::greedy(50));
    assert_eq!(edited.timings.reused_tokens, 0);
}

/// A session over a backend that takes the last token of a prompt along.
fn taking_along(script: Script) -> (Session, FakeLog) {
    let model = support::tiny();
    let (backend, log) = FakeBackend::new(model.pack().geometry().vocab, 512, 8, script);
    (Session::new(model, Box::new(backend.taking_along())).unwrap(), log)
}

#[test]
fn the_rest_of_a_prompt_is_one_step_where_the_backend_takes_its_last_token_along() {
    let (mut session, log) = taking_along(counting());
    let prompt: Vec<u32> = (200..211).collect();
    let options = GenerateOptions { chunk: Some(4), ..GenerateOptions::greedy(30) };
    let mut told = Vec::new();
    let never = AtomicBool::new(false);
    let first = session.generate(&prompt, &options, &never, &mut |event| {
        told.push(match event {
            Event::Prefill { done, total } => (done, total),
            _ => (0, 0),
        });
        ControlFlow::Continue(())
    });
    let first = first.unwrap();
    assert_eq!(first.ids, (1011..1041).collect::<Vec<_>>());
    assert_eq!(told[..4], [(4, 11), (8, 11), (11, 11), (0, 0)], "all of it is done before the first token");
    let calls = log.take();
    assert_eq!(steps(&calls)[..5], [(0, 4), (4, 4), (8, 3), (11, 1), (12, 1)]);
    assert_eq!(first.timings.decode_steps, 29);
    assert!(calls.contains(&Call::Snapshot { position: 10 }), "of the position before the last token");
    // The same prompt again, and one that goes on behind it: neither runs more of it than its last token.
    let again = answer(&mut session, &prompt, &options);
    assert_eq!((again.ids, again.timings.reused_tokens), (first.ids, 10));
    let calls = log.take();
    assert!(calls.contains(&Call::Restore { position: 10 }));
    assert_eq!(steps(&calls)[..2], [(10, 1), (11, 1)]);
    let longer: Vec<u32> = prompt.iter().copied().chain([5, 6, 7]).collect();
    assert_eq!(answer(&mut session, &longer, &options).timings.reused_tokens, 10);
    assert_eq!(steps(&log.take())[..2], [(10, 4), (14, 1)]);
}

#[test]
fn a_backend_that_stops_taking_the_last_token_along_is_asked_behind_every_chunk() {
    let model = support::tiny();
    let (backend, log) = FakeBackend::new(model.pack().geometry().vocab, 512, 8, counting());
    let mut session = Session::new(model, Box::new(backend.taking_along_until(2))).unwrap();
    let prompt: Vec<u32> = (200..211).collect();
    let options = GenerateOptions { chunk: Some(4), ..GenerateOptions::greedy(2) };
    let answered = answer(&mut session, &prompt, &options);
    assert_eq!(answered.ids, [1011, 1012]);
    assert_eq!(steps(&log.take()), [(0, 4), (4, 4), (8, 2), (10, 1), (11, 1)]);
}

#[test]
fn the_last_token_is_a_step_of_its_own_where_something_speaks_against_it() {
    let prompt: Vec<u32> = (200..211).collect();
    let greedy = GenerateOptions::greedy(1);
    let sampling = SamplingOptions { temperature: 1.0, ..SamplingOptions::greedy() };
    let penalties = SamplingOptions { repetition: 1.5, ..sampling.clone() };
    for (options, expected) in [
        // The backend may draw it by itself.
        (GenerateOptions { sampling, ..greedy.clone() }, vec![(0, 10), (10, 1)]),
        (GenerateOptions { sampling: penalties, ..greedy.clone() }, vec![(0, 11)]),
        (GenerateOptions { thinking_budget: Some(4), ..greedy.clone() }, vec![(0, 10), (10, 1)]),
        // Nothing is asked for but that the prompt is in the cache.
        (GenerateOptions::greedy(0), vec![(0, 10)]),
        (GenerateOptions { marks: vec![7], ..greedy.clone() }, vec![(0, 7), (7, 4)]),
        (GenerateOptions { marks: vec![10], ..greedy.clone() }, vec![(0, 11)]),
        (GenerateOptions { chunk: Some(10), ..greedy.clone() }, vec![(0, 10), (10, 1)]),
    ] {
        let (mut session, log) = taking_along(counting());
        answer(&mut session, &prompt, &options);
        let calls = log.take();
        assert_eq!(steps(&calls), expected, "{options:?}");
        assert!(session.sequence().snapshot_positions().any(|position| position == 10), "{options:?}");
    }
}

#[test]
fn a_prompt_that_is_cancelled_with_its_last_step_has_no_answer() {
    let (mut session, _) = taking_along(counting());
    let prompt: Vec<u32> = (200..211).collect();
    for by_flag in [false, true] {
        let cancel = AtomicBool::new(false);
        let cancelled = session.generate(&prompt, &GenerateOptions::greedy(5), &cancel, &mut |_| {
            cancel.store(by_flag, Ordering::Relaxed);
            if by_flag { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let cancelled = cancelled.unwrap();
        assert_eq!((cancelled.finish, cancelled.ids.len()), (Finish::Cancelled, 0));
        assert_eq!(session.sequence().ids(), prompt);
        session.reset().unwrap();
    }
}

#[test]
fn a_mark_lets_another_conversation_share_the_beginning() {
    let (mut session, log) = scripted(256, 8, counting());
    let system: Vec<u32> = (200..230).collect();
    let options = GenerateOptions { marks: vec![30], ..GenerateOptions::greedy(40) };
    let one: Vec<u32> = system.iter().copied().chain([5, 6, 7]).collect();
    let other: Vec<u32> = system.iter().copied().chain([8, 9]).collect();
    answer(&mut session, &one, &options);
    assert_eq!(session.sequence().snapshot_positions().collect::<Vec<_>>(), [30, 32]);
    log.take();
    assert_eq!(answer(&mut session, &other, &options).timings.reused_tokens, 30);
    assert!(log.take().contains(&Call::Restore { position: 30 }));
}

#[test]
fn snapshots_stay_within_their_budget_and_the_cheapest_to_lose_goes_first() {
    let model = support::tiny();
    let (backend, _) = FakeBackend::new(4096, 512, 8, counting());
    // A fake snapshot has 16 bytes: three fit.
    let mut session = rawloop_engine::Session::with_snapshots(model, Box::new(backend), 48).unwrap();
    for length in [100, 104, 200, 300] {
        let prompt: Vec<u32> = (0..length).collect();
        answer(&mut session, &prompt, &GenerateOptions::greedy(1));
    }
    assert_eq!(session.sequence().snapshot_positions().collect::<Vec<_>>(), [99, 199, 299]);
}

#[test]
fn every_way_to_end_is_told_apart() {
    let (mut session, _) = scripted(32, 8, counting());
    let prompt = [1, 2, 3];
    let stop = GenerateOptions { stop_ids: vec![1006], ..GenerateOptions::greedy(20) };
    let stopped = answer(&mut session, &prompt, &stop);
    assert_eq!(
        (stopped.ids, stopped.finish, stopped.stop),
        (vec![1003, 1004, 1005], Finish::Stop, Some(1006))
    );
    let full = answer(&mut session, &prompt, &GenerateOptions::greedy(1000));
    assert_eq!((full.ids.len(), full.finish), (29, Finish::Context), "prompt and answer fill the context");
    let length = answer(&mut session, &prompt, &GenerateOptions::greedy(29));
    assert_eq!((length.ids.len(), length.finish), (29, Finish::Length));
    let none = answer(&mut session, &prompt, &GenerateOptions::greedy(0));
    assert_eq!((none.ids.len(), none.finish), (0, Finish::Length));
}

#[test]
fn the_packs_own_stop_ids_count_unless_they_are_to_be_ignored() {
    let script: fn(&[u32]) -> u32 = |ids| if ids.len() == 6 { 106 } else { 1000 };
    let (mut session, _) = scripted(32, 8, Box::new(script));
    let stopped = answer(&mut session, &[1, 2, 3], &GenerateOptions::greedy(8));
    assert_eq!((stopped.ids.len(), stopped.stop), (3, Some(106)));
    let ignoring = GenerateOptions { ignore_eos: true, ..GenerateOptions::greedy(8) };
    let went_on = answer(&mut session, &[1, 2, 3], &ignoring);
    assert_eq!((went_on.ids.len(), went_on.finish), (8, Finish::Length));
}

#[test]
fn what_cannot_be_answered_is_refused_before_any_work() {
    let (mut session, log) = scripted(16, 8, counting());
    log.take();
    let never = AtomicBool::new(false);
    let mut refuse = |prompt: &[u32], options: &GenerateOptions| {
        let error = session.generate(prompt, options, &never, &mut |_| ControlFlow::Continue(()));
        assert_eq!(log.take(), [], "nothing was run");
        error.unwrap_err()
    };
    let greedy = GenerateOptions::greedy(4);
    assert!(matches!(refuse(&[], &greedy), EngineError::EmptyPrompt));
    assert!(matches!(refuse(&[1; 16], &greedy), EngineError::Context { prompt: 16, limit: 16 }));
    assert!(matches!(refuse(&[4096], &greedy), EngineError::Token { token: 4096, vocab: 4096 }));
    assert!(matches!(
        refuse(&[1], &GenerateOptions { chunk: Some(0), ..greedy.clone() }),
        EngineError::Chunk
    ));
    let sampling = SamplingOptions { top_p: 7.0, ..SamplingOptions::greedy() };
    let error = refuse(&[1], &GenerateOptions { sampling, ..greedy });
    assert_eq!(error.to_string(), "top_p is 7: expected a number from 0 to 1");
}

#[test]
fn cancelling_stops_within_a_chunk_or_a_token_and_the_cache_stays_true() {
    let (mut session, log) = scripted(256, 8, counting());
    let prompt: Vec<u32> = (200..280).collect();
    let options = GenerateOptions { chunk: Some(10), ..GenerateOptions::greedy(50) };
    let cancel = AtomicBool::new(false);
    let mut prefilled = 0;
    let during_prefill = session
        .generate(&prompt, &options, &cancel, &mut |event| {
            if let Event::Prefill { done, .. } = event {
                prefilled = done;
                cancel.store(done >= 30, Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((during_prefill.finish, during_prefill.ids.len(), prefilled), (Finish::Cancelled, 0, 30));
    assert_eq!(session.sequence().ids(), &prompt[..30]);
    log.take();
    cancel.store(false, Ordering::Relaxed);
    let mut seen = Vec::new();
    let during_answer = session
        .generate(&prompt, &options, &cancel, &mut |event| {
            if let Event::Token { id, .. } = event {
                seen.push(id);
                cancel.store(seen.len() == 5, Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((during_answer.finish, during_answer.timings.reused_tokens), (Finish::Cancelled, 30));
    assert_eq!(during_answer.ids, seen, "the answer is what was seen");
    assert_eq!(seen.len(), 5);
    // A flag that is set before the start answers nothing.
    let nothing = session.generate(&prompt, &options, &cancel, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((nothing.finish, nothing.ids.len()), (Finish::Cancelled, 0));
}

#[test]
fn a_failed_step_is_reported_and_the_session_goes_on() {
    let (mut session, log) = scripted(256, 8, FakeBackend::hashed(4096, 106, 1 << 40));
    let prompt: Vec<u32> = (200..240).collect();
    let greedy = GenerateOptions { chunk: Some(16), ..GenerateOptions::greedy(10) };
    let sampled = GenerateOptions {
        sampling: SamplingOptions { temperature: 1.0, ..SamplingOptions::greedy() },
        ..greedy.clone()
    };
    for options in [greedy, sampled] {
        let (mut fresh, _) = scripted(256, 8, FakeBackend::hashed(4096, 106, 1 << 40));
        let expected = answer(&mut fresh, &prompt, &options);
        session.reset().unwrap();
        for failing in 0..12 {
            log.fail_after(failing);
            let never = AtomicBool::new(false);
            let failed = session.generate(&prompt, &options, &never, &mut |_| ControlFlow::Continue(()));
            // Reuse makes later attempts shorter, so that the step which fails may not have come.
            log.fail_after(usize::MAX);
            if let Err(error) = failed {
                assert!(matches!(error, EngineError::Backend(_)), "{error}");
            }
            assert_eq!(answer(&mut session, &prompt, &options).ids, expected.ids);
        }
    }
}

#[test]
fn stop_strings_end_the_text_and_are_no_part_of_it() {
    let model = support::tiny();
    let ids = |text: &str| model.tokenizer().encode(text, rawloop_tokenizer::SpecialTokens::Text);
    let text = ids("The answer is 42. END of it");
    let script = move |held: &[u32]| text.get(held.len() - 1).copied().unwrap_or(106);
    let (mut session, _) = scripted(256, 8, Box::new(script));
    let whole = answer(&mut session, &[2], &GenerateOptions::greedy(64));
    assert_eq!((whole.text.as_str(), whole.finish), ("The answer is 42. END of it", Finish::Stop));
    for (stop, expected) in
        [("END", "The answer is 42. "), ("2", "The answer is 4"), ("The", ""), ("e", "Th")]
    {
        let stop_strings = vec!["nowhere in it".into(), stop.into(), String::new()];
        let options = GenerateOptions { stop_strings, ..GenerateOptions::greedy(64) };
        let never = AtomicBool::new(false);
        let mut streamed = String::new();
        let stopped = session
            .generate(&[2], &options, &never, &mut |event| {
                if let Event::Token { text, .. } | Event::Rest { text } = event {
                    streamed.push_str(text);
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!((stopped.text.as_str(), stopped.finish), (expected, Finish::Stop), "{stop}");
        assert_eq!(streamed, stopped.text, "{stop}");
    }
    // What only looks like the beginning of one comes out in the end.
    let options = GenerateOptions { stop_strings: vec!["it!".into()], ..GenerateOptions::greedy(64) };
    assert_eq!(answer(&mut session, &[2], &options).text, "The answer is 42. END of it");
}

#[test]
fn log_probabilities_come_with_the_tokens() {
    let (mut session, _) = scripted(64, 8, counting());
    let sampling = SamplingOptions { log_probabilities: Some(3), ..SamplingOptions::greedy() };
    let options = GenerateOptions { sampling, ..GenerateOptions::greedy(4) };
    let never = AtomicBool::new(false);
    let mut count = 0;
    let reported = session.generate(&[1, 2], &options, &never, &mut |event| {
        if let Event::Token { id, log_probabilities, .. } = event {
            let report = log_probabilities.unwrap();
            assert_eq!((report.picked.id, report.top[0].id, report.top.len()), (id, id, 3));
            assert!(report.picked.value < 0.0);
            count += 1;
        }
        ControlFlow::Continue(())
    });
    assert_eq!(reported.unwrap().ids, answer(&mut session, &[1, 2], &GenerateOptions::greedy(4)).ids);
    assert_eq!(count, 4);
}

#[test]
fn several_answers_are_those_of_the_seeds_one_after_the_other_and_prefill_once() {
    let (mut session, _) = scripted(256, 8, FakeBackend::hashed(4096, 106, 30));
    let prompt: Vec<u32> = (200..240).collect();
    let sampling = SamplingOptions { temperature: 2.0, seed: u64::MAX, ..SamplingOptions::greedy() };
    let options = GenerateOptions { sampling, ..GenerateOptions::greedy(20) };
    let never = AtomicBool::new(false);
    let mut seen = [0; 3];
    let many = session.generate_many(&prompt, &options, 3, &never, &mut |index, event| {
        seen[index] += usize::from(matches!(event, Event::Token { .. }));
        ControlFlow::Continue(())
    });
    let many = many.unwrap();
    for (index, found) in many.iter().enumerate() {
        let sampling =
            SamplingOptions { seed: u64::MAX.wrapping_add(index as u64), ..options.sampling.clone() };
        let alone = answer(
            &mut scripted(256, 8, FakeBackend::hashed(4096, 106, 30)).0,
            &prompt,
            &GenerateOptions { sampling, ..options.clone() },
        );
        assert_eq!((&found.ids, found.finish), (&alone.ids, alone.finish));
        assert_eq!(found.ids.len(), seen[index]);
        assert_eq!(found.timings.reused_tokens, if index == 0 { 0 } else { 39 });
    }
    assert_ne!(many[0].ids, many[1].ids);
    let cancelled = session.generate_many(&prompt, &options, 3, &never, &mut |_, _| ControlFlow::Break(()));
    assert_eq!(cancelled.unwrap().len(), 1);
}
