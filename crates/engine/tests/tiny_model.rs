//! The shipped model through a session, on the reference backend: it says what Transformers says, and conversations that
//! were cancelled, edited and resumed go on as fresh ones would.

mod support;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rawloop_engine::{Event, GenerateOptions, SamplingOptions, Session};
use rawloop_ref::{KvFormat, Model};
use rawloop_testkit::RefBackend;
use rawloop_testkit::goldens::{Transcripts, read};
use support::{Random, answer, root, tiny};

fn session(weights: &Arc<Model>) -> Session {
    let backend = RefBackend::from_model(Arc::clone(weights), None, KvFormat::F16, 1024);
    Session::new(tiny(), Box::new(backend)).unwrap()
}

fn weights() -> Arc<Model> {
    Arc::new(Model::load(tiny().pack()).unwrap())
}

fn transcripts() -> Transcripts {
    read(&root().join("goldens/tiny/transcripts.json")).unwrap()
}

#[test]
fn greedy_answers_are_the_golden_ones() {
    let mut session = session(&weights());
    for golden in transcripts().transcripts.iter().step_by(90) {
        let answer = answer(&mut session, &golden.prompt_ids, &GenerateOptions::greedy(200));
        let (stop, output) = golden.output_ids.split_last().unwrap();
        assert_eq!(answer.ids, output, "{}", golden.task);
        assert_eq!(answer.stop, Some(*stop));
    }
}

#[test]
fn a_sampled_answer_does_not_depend_on_how_its_prompt_got_into_the_cache() {
    let weights = weights();
    let prompt = &transcripts().transcripts[3].prompt_ids;
    let mut options = GenerateOptions::of(&tiny(), 12);
    options.sampling = SamplingOptions { seed: 5, repetition: 1.2, ..options.sampling };
    let expected = answer(&mut session(&weights), prompt, &options);
    let mut session = session(&weights);
    for chunk in [1, 7] {
        session.reset().unwrap();
        let piecewise =
            answer(&mut session, prompt, &GenerateOptions { chunk: Some(chunk), ..options.clone() });
        assert_eq!(piecewise.ids, expected.ids, "chunk {chunk}");
        assert_eq!(answer(&mut session, prompt, &options).ids, expected.ids, "again, reusing");
    }
}

#[test]
fn conversations_that_were_cancelled_and_edited_answer_as_fresh_ones() {
    let weights = weights();
    let mut random = Random(11);
    let mut session = self::session(&weights);
    let questions = transcripts().transcripts;
    let mut so_far: Vec<u32> = Vec::new();
    for turn in 0..5 {
        let question = &questions[random.below(questions.len())].prompt_ids;
        let kept = if turn % 3 == 2 { random.below(so_far.len()) } else { so_far.len() };
        so_far.truncate(kept);
        // A follow-up has no <bos> of its own.
        so_far.extend(if kept == 0 { question } else { &question[1..] }.iter().take(40));
        let mut options = GenerateOptions::greedy(10);
        options.chunk = Some(16);
        if random.one_in(2) {
            options.sampling = SamplingOptions { temperature: 0.7, seed: turn, ..SamplingOptions::greedy() };
        }
        let patience = if random.one_in(2) { random.below(8) } else { usize::MAX };
        let mut events = 0;
        let never = AtomicBool::new(false);
        let answered = session
            .generate(&so_far, &options, &never, &mut |_: Event<'_>| {
                events += 1;
                if events > patience { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        let expected = answer(&mut self::session(&weights), &so_far, &options);
        assert_eq!(answered.ids, expected.ids[..answered.ids.len()], "turn {turn}");
        assert!(events > patience || answered.ids.len() == expected.ids.len());
        so_far.extend(&answered.ids);
    }
}
