//! With and without drafts an answer is the same, to the token, the text, the reason of its end and the log-probabilities; and
//! drafts cost no more steps than they save.
//!
//! The scripted backend's logits depend on every id before them, and its drafter is right as often as a test wants.

mod support;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_engine::backend::Backend;
use rawloop_engine::fake::{Call, FakeBackend, FakeLog, Script};
use rawloop_engine::guided::{Grammar, Guide};
use rawloop_engine::{Answer, Draft, Event, Finish, GenerateOptions, SamplingOptions, Session};
use serde_json::json;
use support::{Random, tiny};

const STOP: u32 = 106;

/// What the model says: spread over the vocabulary by all ids, one in 40 a stop, and now and then what stood there before,
/// so that text repeats.
fn script() -> Script {
    let inner = FakeBackend::hashed(4096, STOP, 40);
    Box::new(move |ids| {
        let said = inner(ids);
        if said.is_multiple_of(3) && ids.len() > 30 { ids[ids.len() - 17] } else { said }
    })
}

/// A drafter that is wrong once in `wrong_every` times.
fn drafter(wrong_every: u32) -> Script {
    let inner = script();
    Box::new(move |ids| {
        let right = inner(ids);
        if (right ^ ids.len() as u32).is_multiple_of(wrong_every) { (right + 1) % 4096 } else { right }
    })
}

fn session(slack: usize, wrong_every: u32) -> (Session, FakeLog) {
    let (backend, log) = FakeBackend::new(4096, 400, slack, script());
    (Session::new(tiny(), Box::new(backend.drafting(drafter(wrong_every)))).unwrap(), log)
}

/// The same over a backend that takes the last token of a prompt along.
fn taking_along(slack: usize, wrong_every: u32) -> (Session, FakeLog) {
    let (backend, log) = FakeBackend::new(4096, 400, slack, script());
    let backend = backend.drafting(drafter(wrong_every)).taking_along();
    (Session::new(tiny(), Box::new(backend)).unwrap(), log)
}

/// An answer and its log-probabilities, token by token.
fn observed(
    session: &mut Session,
    prompt: &[u32],
    options: &GenerateOptions,
) -> (Answer, Vec<Option<(u32, f32)>>) {
    let mut reported = Vec::new();
    let never = AtomicBool::new(false);
    let answer = session.generate(prompt, options, &never, &mut |event| {
        if let Event::Token { log_probabilities, .. } = event {
            reported.push(log_probabilities.map(|report| (report.top[0].id, report.picked.value)));
        }
        ControlFlow::Continue(())
    });
    (answer.unwrap(), reported)
}

fn grammars() -> Vec<Guide> {
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["name", "tags", "count"],
        "properties": { "name": { "type": "string", "maxLength": 30 }, "count": { "type": "integer" },
            "tags": { "type": "array", "items": { "enum": ["red", "green", "blue"] }, "minItems": 2, "maxItems": 4 } } });
    vec![
        Grammar::json_schema(&schema).unwrap().into(),
        Grammar::regex("(yes|no), because [a-z ]{5,40}\\.").unwrap().into(),
        Grammar::lark("start: \"SELECT \" NAME (\",\" NAME)* \" FROM \" NAME \";\"\nNAME: /[a-z_]{1,12}/")
            .unwrap()
            .into(),
        Grammar::choice(&["left", "left turn", "right"]).unwrap().into(),
    ]
}

fn random_options(random: &mut Random, grammars: &[Guide]) -> GenerateOptions {
    let mut options = GenerateOptions::greedy([1, 2, 7, 40, 200][random.below(5)]);
    options.chunk = Some([3, 16, 256][random.below(3)]);
    if random.one_in(2) {
        options.sampling = SamplingOptions {
            temperature: 0.9,
            top_k: [0, 8, 40][random.below(3)],
            top_p: 0.95,
            repetition: if random.one_in(3) { 1.3 } else { 1.0 },
            frequency: if random.one_in(3) { 0.4 } else { 0.0 },
            penalty_window: [0, 5][random.below(2)],
            seed: random.next() % 5,
            ..SamplingOptions::greedy()
        };
    }
    if random.one_in(3) {
        options.sampling.log_probabilities = Some(3);
    }
    if random.one_in(3) {
        options.stop_strings = vec!["e".into(), "no such".into(), "an".into()];
        options.stop_strings.truncate(random.below(4));
    }
    if random.one_in(3) {
        options.constraint = Some(grammars[random.below(grammars.len())].clone());
    }
    if random.one_in(3) {
        options.thinking_budget = Some(random.below(6));
    }
    options.ignore_eos = random.one_in(4);
    options
}

#[test]
fn answers_are_the_same_with_and_without_drafts() {
    let grammars = grammars();
    let (mut drafted, mut accepted, mut by_text, mut stopped) = (0, 0, 0, 0);
    for seed in 0..4 {
        let wrong_every = [2, 5, 1000, 3][seed as usize];
        let mut random = Random(seed);
        let slack = [8, 64][random.below(2)];
        let (mut plain, _) = session(slack, wrong_every);
        let quick = if seed % 2 == 0 { session } else { taking_along };
        let (mut quick, log) = quick(slack, wrong_every);
        for turn in 0..60 {
            let mut prompt: Vec<u32> = (0..1 + random.below(60)).map(|_| random.below(4096) as u32).collect();
            // A thought that is asked for, one that is open, none.
            match random.below(4) {
                0 => prompt.insert(0, 98),
                1 => prompt.extend([100]),
                _ => {}
            }
            let options = random_options(&mut random, &grammars);
            let off = GenerateOptions { draft: Draft::Off, ..options.clone() };
            let draft = [Draft::Auto, Draft::Lookup, Draft::Fixed(1 + random.below(7))][random.below(3)];
            let on = GenerateOptions { draft, ..options };
            let (expected, expected_report) = observed(&mut plain, &prompt, &off);
            let (found, found_report) = observed(&mut quick, &prompt, &on);
            assert_eq!(found.ids, expected.ids, "seed {seed} turn {turn} {on:?}");
            assert_eq!(found.text, expected.text);
            assert_eq!(
                (found.finish, found.stop),
                (expected.finish, expected.stop),
                "seed {seed} turn {turn} {on:?}"
            );
            assert_eq!(found_report, expected_report, "seed {seed} turn {turn} {on:?}");
            let held = quick.sequence().ids();
            let known: Vec<u32> = prompt.iter().chain(&found.ids).copied().collect();
            assert_eq!(held, &known[..held.len()], "rejected drafts are not in the cache");
            assert_eq!(quick.backend().position(quick.sequence().id()).unwrap(), held.len());
            drafted += found.timings.drafted_tokens;
            accepted += found.timings.accepted_tokens;
            stopped += usize::from(found.finish == Finish::Stop);
            let by_drafter = log.take().iter().filter(|call| matches!(call, Call::Draft { .. })).count();
            by_text += found.timings.verify_steps.saturating_sub(by_drafter);
        }
    }
    assert!(
        drafted > 2000 && accepted > 500 && by_text > 10 && stopped > 50,
        "{drafted} {accepted} {by_text} {stopped}"
    );
}

#[test]
fn cancelled_in_the_middle_of_drafts_an_answer_is_what_was_seen() {
    let (mut session, _) = session(64, 1000);
    let (mut plain, _) = self::session(64, 1000);
    let prompt: Vec<u32> = (500..540).collect();
    let options = GenerateOptions { draft: Draft::Fixed(7), ignore_eos: true, ..GenerateOptions::greedy(60) };
    let expected = observed(&mut plain, &prompt, &GenerateOptions { draft: Draft::Off, ..options.clone() }).0;
    for patience in 1..30 {
        for by_flag in [true, false] {
            let cancel = AtomicBool::new(false);
            let mut seen = Vec::new();
            let answer = session.generate(&prompt, &options, &cancel, &mut |event| {
                if let Event::Token { id, .. } = event {
                    seen.push(id);
                }
                let over = seen.len() == patience;
                cancel.store(over && by_flag, Ordering::Relaxed);
                if over && !by_flag { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let answer = answer.unwrap();
            assert_eq!((answer.finish, &answer.ids), (Finish::Cancelled, &seen));
            assert_eq!(seen, expected.ids[..patience]);
            let held = session.sequence().ids();
            assert!(held.len() <= prompt.len() + seen.len());
            assert_eq!(held[prompt.len()..], seen[..held.len() - prompt.len()]);
        }
    }
}

/// A failed step or a failed draft is reported, and the next answer is right.
#[test]
fn a_step_that_fails_between_drafts_leaves_the_session_usable() {
    let prompt: Vec<u32> = (500..540).collect();
    let options = GenerateOptions { draft: Draft::Fixed(4), ignore_eos: true, ..GenerateOptions::greedy(40) };
    let expected = observed(&mut session(64, 3).0, &prompt, &options).0;
    let (mut session, log) = session(64, 3);
    for failing in 0..12 {
        log.fail_after(failing);
        let never = AtomicBool::new(false);
        let failed = session.generate(&prompt, &options, &never, &mut |_| ControlFlow::Continue(()));
        log.fail_after(usize::MAX);
        assert!(failed.is_err() || failing > 9, "attempt {failing}");
        assert_eq!(observed(&mut session, &prompt, &options).0.ids, expected.ids);
    }
}

/// Case 77: drafts that do not pay are given up, and tried again more and more rarely.
#[test]
fn right_drafts_save_steps_and_wrong_ones_are_given_up() {
    let prompt: Vec<u32> = (500..540).collect();
    let steps = |wrong_every: u32, draft: Draft| {
        let (mut session, log) = session(64, wrong_every);
        let options =
            GenerateOptions { draft, ignore_eos: true, detect_loops: false, ..GenerateOptions::greedy(300) };
        let timings = observed(&mut session, &prompt, &options).0.timings;
        assert_eq!((timings.tokens, timings.decode_tokens), (300, 299));
        let calls = log.take();
        (timings, calls.iter().filter(|call| matches!(call, Call::Draft { .. })).count())
    };
    let (right, _) = steps(u32::MAX, Draft::Fixed(4));
    assert_eq!(right.accepted_tokens, right.drafted_tokens);
    assert_eq!(right.decode_steps, 60, "five tokens a step");
    assert_eq!(right.tokens_per_verify(), Some(5.0 - 1.0 / 60.0));
    let (off, drafts) = steps(u32::MAX, Draft::Off);
    assert_eq!((off.decode_steps, off.verify_steps, off.tokens_per_verify(), drafts), (299, 0, None, 0));
    // Always wrong: three trials, and three more behind each rest.
    let (wrong, drafts) = steps(1, Draft::Auto);
    assert!(wrong.accepted_tokens < 10, "only what the text repeats is right");
    assert!(drafts < 30, "{drafts} drafts of which none was right");
}

/// Case 76: also above temperature 0 drafts are taken, and what is drawn follows the same law, because it is the same text.
#[test]
fn drafts_are_taken_above_temperature_0() {
    let prompt: Vec<u32> = (500..540).collect();
    let sampling =
        SamplingOptions { temperature: 0.5, top_k: 8, top_p: 0.95, seed: 7, ..SamplingOptions::greedy() };
    let options = GenerateOptions { sampling, ignore_eos: true, ..GenerateOptions::greedy(200) };
    let on = GenerateOptions { draft: Draft::Fixed(3), ..options.clone() };
    let off = GenerateOptions { draft: Draft::Off, ..options };
    let with = observed(&mut session(64, 1000).0, &prompt, &on).0;
    let without = observed(&mut session(64, 1000).0, &prompt, &off).0;
    assert_eq!(with.ids, without.ids);
    assert!(with.timings.accepted_tokens > 20, "{:?}", with.timings);
    assert!(with.timings.decode_steps < without.timings.decode_steps);
}

/// A backend that draws by itself changes no token, wherever its runs end.
#[test]
fn what_a_backend_draws_is_what_the_engine_draws() {
    let prompt: Vec<u32> = (500..540).collect();
    let model = tiny();
    for (seed, draft) in [(7, Draft::Off), (8, Draft::Off), (9, Draft::Auto)] {
        let sampling =
            SamplingOptions { temperature: 1.5, top_k: 40, top_p: 0.95, seed, ..SamplingOptions::greedy() };
        let options =
            GenerateOptions { sampling, draft, ignore_eos: seed == 8, ..GenerateOptions::greedy(120) };
        let expected = observed(&mut session(64, 5).0, &prompt, &options).0;
        let (backend, log) = FakeBackend::new(4096, 400, 64, script());
        let backend = backend.drafting(drafter(5)).drawing(model.soft_cap());
        let mut drawing = Session::new(Arc::clone(&model), Box::new(backend)).unwrap();
        let found = observed(&mut drawing, &prompt, &options).0;
        assert_eq!((found.ids, found.finish), (expected.ids, expected.finish), "seed {seed}");
        let runs = log.take().iter().filter(|call| **call == Call::Drawn).count();
        assert!(draft == Draft::Auto || runs > 1, "{runs} runs with seed {seed}");
        let again = GenerateOptions { sampling: SamplingOptions::greedy(), ..options };
        let expected = observed(&mut session(64, 5).0, &prompt, &again).0;
        assert_eq!(observed(&mut drawing, &prompt, &again).0.ids, expected.ids, "the session goes on");
    }
}

/// A ring that cannot be rewound at all: the tokens behind a rejection run again.
#[test]
fn without_slack_a_rejection_costs_time_only() {
    let prompt: Vec<u32> = (500..530).collect();
    let options = GenerateOptions { chunk: Some(8), ignore_eos: true, ..GenerateOptions::greedy(60) };
    let on = GenerateOptions { draft: Draft::Fixed(4), ..options.clone() };
    let off = GenerateOptions { draft: Draft::Off, ..options };
    let expected = observed(&mut session(64, 4).0, &prompt, &off).0;
    assert_eq!(observed(&mut session(0, 4).0, &prompt, &on).0.ids, expected.ids);
}

#[test]
fn a_backend_without_a_drafter_is_never_asked_for_drafts() {
    let model = tiny();
    let (backend, _) = FakeBackend::new(4096, 400, 64, script());
    assert!(!backend.info().has_drafter);
    let mut session = Session::new(Arc::clone(&model), Box::new(backend)).unwrap();
    for draft in [Draft::Auto, Draft::Fixed(3)] {
        let options = GenerateOptions { draft, ..GenerateOptions::greedy(30) };
        let answer = observed(&mut session, &[1, 2, 3], &options).0;
        assert_eq!(answer.timings.drafted_tokens, 0);
    }
}
