//! Long conversations of the shipped model on the CPU backend, whose rings wrap and whose snapshots are real: cancelled,
//! edited, resumed and rebuilt ones answer as fresh ones do, and hold the same K/V.

mod support;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_cpu::{CpuBackend, CpuOptions, KvFormat};
use rawloop_engine::{
    ChatOptions, ChatSession, Event, Finish, GenerateOptions, SamplingOptions, Session, Turn,
};
use rawloop_testkit::conformance::same_kv;
use rawloop_testkit::goldens::{Transcripts, read};
use support::{Along, Random, answer, root, tiny};

fn session() -> Session {
    session_with(KvFormat::F16)
}

fn session_with(kv: KvFormat) -> Session {
    let model = tiny();
    let options = CpuOptions { threads: Some(2), context: 2048, kv, ..CpuOptions::default() };
    let backend = CpuBackend::open(Arc::clone(model.pack()), &options).unwrap();
    Session::new(model, Box::new(backend)).unwrap()
}

/// The same over a backend that takes the last token of a prompt along.
fn taking_along() -> Session {
    let model = tiny();
    let options = CpuOptions { threads: Some(2), context: 2048, ..CpuOptions::default() };
    let backend = CpuBackend::open(Arc::clone(model.pack()), &options).unwrap();
    Session::new(model, Box::new(Along::new(backend))).unwrap()
}

fn transcripts() -> Transcripts {
    read(&root().join("goldens/tiny/transcripts.json")).unwrap()
}

/// With K/V as Transformers stores them; rounded to f16 one of the 200 answers parts at a near-tie.
#[test]
fn all_greedy_answers_are_the_golden_ones_over_one_session() {
    let mut session = session_with(KvFormat::F32);
    for golden in &transcripts().transcripts {
        let answer = answer(&mut session, &golden.prompt_ids, &GenerateOptions::greedy(400));
        let (stop, output) = golden.output_ids.split_last().unwrap();
        assert_eq!(answer.ids, output, "{}", golden.task);
        assert_eq!(answer.stop, Some(*stop), "{}", golden.task);
    }
}

#[test]
fn any_history_gives_the_answer_and_the_cache_of_a_fresh_session() {
    let questions = transcripts().transcripts;
    let (mut reused, mut cancelled) = (0, 0);
    for seed in 0..2 {
        let mut random = Random(seed);
        let mut session = if seed == 0 { session() } else { taking_along() };
        let mut so_far: Vec<u32> = Vec::new();
        for turn in 0..10 {
            // The conversation grows far beyond the window of 128; it is cut back anywhere, also to what the rings forgot.
            let kept = match random.below(5) {
                0 => random.below(so_far.len() + 1),
                1 => so_far.len().saturating_sub(random.below(40)),
                _ => so_far.len(),
            };
            so_far.truncate(kept.min(1500));
            let question = &questions[random.below(questions.len())].prompt_ids;
            so_far.extend(if so_far.is_empty() { question } else { &question[1..] });
            let mut options = GenerateOptions::greedy(10 + random.below(150));
            options.ignore_eos = true;
            options.chunk = Some([5, 32, 64, 256][random.below(4)]);
            if random.one_in(2) {
                let (temperature, top_k) = (0.9, 40);
                options.sampling = SamplingOptions { temperature, top_k, seed, ..SamplingOptions::greedy() };
            }
            if random.one_in(2) {
                options.marks = vec![random.below(so_far.len())];
            }
            let patience = if random.one_in(2) { random.below(60) } else { usize::MAX };
            let cancel = AtomicBool::new(false);
            let mut events = 0;
            let answered = session
                .generate(&so_far, &options, &cancel, &mut |_: Event<'_>| {
                    events += 1;
                    cancel.store(events > patience, Ordering::Relaxed);
                    ControlFlow::Continue(())
                })
                .unwrap();
            cancelled += usize::from(answered.finish == Finish::Cancelled);
            reused += answered.timings.reused_tokens;
            let mut fresh = self::session();
            let until = GenerateOptions { max_tokens: answered.ids.len(), ..options };
            if !answered.ids.is_empty() {
                let expected = answer(&mut fresh, &so_far, &until);
                assert_eq!(answered.ids, expected.ids, "seed {seed} turn {turn}");
            }
            // The same ids give the same bytes, whatever was overwritten, restored or cut off on the way.
            let held = session.sequence().ids().to_vec();
            let mut rebuilt = self::session();
            if held.len() > 1 {
                let all_but_one = GenerateOptions { chunk: Some(100), ..GenerateOptions::greedy(1) };
                answer(&mut rebuilt, &held, &all_but_one);
                let mine = (session.backend(), session.sequence().id());
                let other = (rebuilt.backend(), rebuilt.sequence().id());
                assert_eq!(
                    same_kv(tiny().pack().geometry(), mine, other).unwrap(),
                    None,
                    "seed {seed} turn {turn}"
                );
            }
            so_far.extend(&answered.ids);
        }
    }
    assert!(reused > 3000 && cancelled > 2, "{reused} {cancelled}");
}

fn respond(chat: &ChatSession, text: &str) -> Turn {
    chat.respond(text, &AtomicBool::new(false), &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_conversation_rebuilt_from_its_messages_goes_on_as_the_grown_one() {
    let options = ChatOptions {
        system: Some("You are a helpful assistant.".into()),
        thinking: true,
        tools: Vec::new(),
        special_tokens: false,
        generate: GenerateOptions::greedy(200),
    };
    let grown = ChatSession::new(session(), options.clone());
    let asked = [
        "What is the capital of France?",
        "What is 20 + 31?",
        "Sort these words: pear, apple, fig",
        "What is the opposite of hot?",
        "Tell me a short story.",
        "What is the capital of Japan?",
    ];
    let mut prompts = 0;
    for (turn, question) in asked.iter().enumerate() {
        let answered = respond(&grown, question);
        assert!(!answered.output.text.is_empty());
        if turn > 0 {
            // Thoughts are not replayed, so the answer before is new to the cache; the rest is not.
            assert!(answered.timings.reused_tokens >= prompts, "turn {turn}: {:?}", answered.timings);
        }
        prompts = answered.timings.prompt_tokens - 1;
        let rebuilt = ChatSession::new(session(), options.clone());
        let messages = grown.messages();
        let (before, last) = messages.split_at(messages.len() - 2);
        rebuilt.set_messages(before.to_vec()).unwrap();
        let again = respond(&rebuilt, question);
        assert_eq!(again.output, answered.output, "turn {turn}");
        assert_eq!(rebuilt.messages()[before.len()..], *last);
    }
}
