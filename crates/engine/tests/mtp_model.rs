//! The shipped model with its drafter: every answer is the one without, greedy and sampled, under a schema, with stop strings,
//! with a thinking budget; and a verification gives more than two tokens.
//!
//! By default this asks a part of the questions. All 500: `RAWLOOP_PROMPTS=500 cargo test -p rawloop-engine --test mtp_model`.

mod support;

use std::sync::Arc;

use rawloop_cpu::{CpuBackend, CpuOptions};
use rawloop_engine::chat::{Message, RenderOptions, Role};
use rawloop_engine::guided::{Grammar, Guide};
use rawloop_engine::{Draft, Finish, GenerateOptions, SamplingOptions, Session, Timings};
use rawloop_testkit::goldens::{Transcripts, read};
use rawloop_tokenizer::SpecialText;
use serde_json::{Value, json};
use support::{Random, answer, root, tiny};

/// Prompts where nothing else is asked for.
const PROMPTS: usize = 34;
const NAMES: [&str; 8] = ["Rosa", "Hugo", "Kira", "Finn", "Gina", "Uma", "Ida", "Omar"];
const CITIES: [&str; 6] = ["Madrid", "Oslo", "Cairo", "Riga", "Paris", "Rome"];
const JOBS: [&str; 4] = ["doctor", "farmer", "baker", "teacher"];
const WORDS: [&str; 8] = ["pear", "apple", "fig", "lamp", "train", "lake", "button", "cloud"];

fn session() -> Session {
    let model = tiny();
    let options = CpuOptions { threads: Some(1), context: 1024, ..CpuOptions::default() };
    let backend = CpuBackend::open(Arc::clone(model.pack()), &options).unwrap();
    Session::new(model, Box::new(backend)).unwrap()
}

fn wanted() -> usize {
    std::env::var("RAWLOOP_PROMPTS").ok().and_then(|count| count.parse().ok()).unwrap_or(PROMPTS)
}

/// A question of the kinds that the model was trained on.
fn question(random: &mut Random) -> String {
    let mut of = |words: &[&str]| words[random.below(words.len())].to_owned();
    let (name, other, city, job) = (of(&NAMES), of(&NAMES), of(&CITIES), of(&JOBS));
    let (one, two, three) = (of(&WORDS), of(&WORDS), of(&WORDS));
    let (a, b) = (random.below(90) + 2, random.below(90) + 2);
    match random.below(9) {
        0 => format!("How much is {a} + {b}?"),
        1 => format!("What is the capital of {}?", ["France", "Japan", "Norway", "Egypt"][random.below(4)]),
        2 => format!("Sort these words: {one}, {two}, {three}"),
        3 => format!(
            "Extract name, age, city, job as JSON. Text: {name} works as a {job}. {name} lives in {city}. {name} is {a} years old."
        ),
        4 => format!(
            "Write a short story with a fox named {name}, a mouse named {other}, a forest, a {one} and a {two}."
        ),
        5 => format!("{name} has {a} eggs. {name} finds {b} more. How many eggs does {name} have?"),
        6 => format!("Proofread this text: The {job} obught some {one}s in {city}."),
        7 => format!(
            "Summarize in one sentence: {name} is {a} years old. {name} lives in {city}. {name} works as a {job}."
        ),
        _ => format!("What is the weather in {city}, {name}?"),
    }
}

/// Golden prompts, then questions, half of them with thoughts.
fn prompts(count: usize) -> Vec<Vec<u32>> {
    let goldens: Transcripts = read(&root().join("goldens/tiny/transcripts.json")).unwrap();
    let total = goldens.transcripts.len();
    // Spread over all of them, where only some are wanted.
    let step = (total * 2 / count.max(1)).max(1);
    let mut prompts: Vec<Vec<u32>> =
        goldens.transcripts.into_iter().step_by(step).map(|golden| golden.prompt_ids).take(count).collect();
    let model = tiny();
    let mut random = Random(500);
    while prompts.len() < count {
        let enable_thinking = random.one_in(2);
        let options = RenderOptions { enable_thinking, ..RenderOptions::default() };
        let message = Message::new(Role::User, question(&mut random).as_str());
        prompts.push(model.render(&options, &[message]).unwrap().to_ids(model.tokenizer()));
    }
    prompts
}

fn schema() -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": ["name", "age", "tags"],
        "properties": { "name": { "type": "string", "maxLength": 24 }, "age": { "type": "integer", "minimum": 0, "maximum": 150 },
            "tags": { "type": "array", "items": { "enum": ["red", "green", "blue", "größer"] }, "maxItems": 3 } } })
}

/// Ways to ask for an answer.
fn ways() -> Vec<(&'static str, GenerateOptions)> {
    let greedy = GenerateOptions::greedy(120);
    let sampling =
        SamplingOptions { temperature: 1.0, top_k: 64, top_p: 0.95, seed: 11, ..SamplingOptions::greedy() };
    let sampled = GenerateOptions { sampling: sampling.clone(), ..greedy.clone() };
    let guide = Guide::from(Grammar::json_schema(&schema()).unwrap());
    let stop_strings = vec!["a ".into(), "name".into(), " = ".into(), "The answer".into()];
    let penalties = SamplingOptions { repetition: 1.2, frequency: 0.3, dry: 0.8, ..sampling };
    vec![
        ("greedy", greedy.clone()),
        ("sampled", sampled.clone()),
        ("schema", GenerateOptions { constraint: Some(guide.clone()), ..greedy.clone() }),
        ("schema, sampled", GenerateOptions { constraint: Some(guide), ..sampled }),
        ("stop strings", GenerateOptions { stop_strings, ..greedy.clone() }),
        ("thinking budget", GenerateOptions { thinking_budget: Some(5), ..greedy.clone() }),
        ("penalties", GenerateOptions { sampling: penalties, ..greedy }),
    ]
}

#[test]
fn answers_with_and_without_the_drafter_are_the_same_bytes() {
    let (mut plain, mut quick) = (session(), session());
    let ways = ways();
    let mut accepted = vec![0; ways.len()];
    for (index, prompt) in prompts(wanted()).iter().enumerate() {
        for (way, (name, options)) in ways.iter().enumerate() {
            let off = GenerateOptions { draft: Draft::Off, ..options.clone() };
            let draft = [Draft::Fixed(3), Draft::Auto, Draft::Fixed(7), Draft::Lookup][(index + way) % 4];
            let on = GenerateOptions { draft, ..options.clone() };
            let expected = answer(&mut plain, prompt, &off);
            let found = answer(&mut quick, prompt, &on);
            assert_eq!(found.ids, expected.ids, "prompt {index}, {name}, {draft:?}");
            assert_eq!(
                (&found.text, found.finish, found.stop),
                (&expected.text, expected.finish, expected.stop)
            );
            accepted[way] += found.timings.accepted_tokens;
            if options.constraint.is_some() && found.finish == Finish::Stop {
                let text = answer_of(&found.ids);
                let value: Value =
                    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
                assert!(jsonschema::is_valid(&schema(), &value), "{value}");
            }
        }
    }
    for ((name, _), accepted) in ways.iter().zip(accepted) {
        assert!(accepted > 0, "no draft was right: {name}");
    }
}

/// Case 75: long greedy answers, across the edge of the window, at every depth; after every rejection the cache is rolled back
/// exactly, so that it ends with the bytes of a cache that saw no draft.
#[test]
fn long_answers_across_the_window_are_the_same_at_every_depth() {
    let window = tiny().pack().geometry().window;
    for (index, prompt) in prompts(5).iter().enumerate() {
        let tokens = if index == 0 { 500 } else { 2 * window };
        let options =
            GenerateOptions { ignore_eos: true, draft: Draft::Off, ..GenerateOptions::greedy(tokens) };
        let mut plain = session();
        let expected = answer(&mut plain, prompt, &options);
        assert!(prompt.len() + expected.ids.len() > window + 64);
        let depth = 1 + index % 4;
        let mut quick = session();
        let found = answer(&mut quick, prompt, &GenerateOptions { draft: Draft::Fixed(depth), ..options });
        assert_eq!(found.ids, expected.ids, "prompt {index}, depth {depth}");
        assert!(found.timings.accepted_tokens < found.timings.drafted_tokens, "there were rejections");
        // The same ids, held by both, have the same K/V.
        let held = plain.sequence().ids().len().min(quick.sequence().ids().len());
        let geometry = tiny().pack().geometry().clone();
        for layer in 0..geometry.own_layers() {
            for position in [held - 1, held - 2, held - window / 2] {
                let [mine, theirs] = [&plain, &quick].map(|session| {
                    session.backend().kv_row(session.sequence().id(), layer, position).unwrap()
                });
                assert_eq!(mine, theirs, "layer {layer}, position {position}");
            }
        }
    }
}

/// What stands behind the thought.
fn answer_of(ids: &[u32]) -> String {
    let close = tiny().control().channel_close;
    let start = ids.iter().rposition(|&id| id == close).map_or(0, |at| at + 1);
    tiny().tokenizer().decode(&ids[start..], SpecialText::Keep).unwrap()
}

/// Case 73: drafts that are never right mean that the drafter reads the wrong cache. The shipped one gives more than two tokens
/// in each verification over all kinds of questions.
#[test]
fn a_verification_gives_more_than_two_tokens() {
    let mut session = session();
    let options = GenerateOptions { draft: Draft::Fixed(3), ..GenerateOptions::greedy(200) };
    let mut all = Timings::default();
    for prompt in prompts(wanted().max(60)) {
        let timings = answer(&mut session, &prompt, &options).timings;
        all.verify_steps += timings.verify_steps;
        all.verified_tokens += timings.verified_tokens;
        all.drafted_tokens += timings.drafted_tokens;
        all.accepted_tokens += timings.accepted_tokens;
    }
    let rate = all.tokens_per_verify().unwrap();
    eprintln!(
        "{rate:.3} tokens in each of {} verifications; {} of {} drafts right",
        all.verify_steps, all.accepted_tokens, all.drafted_tokens
    );
    assert!(rate >= 2.2, "{rate:.3} tokens a verification");
}
