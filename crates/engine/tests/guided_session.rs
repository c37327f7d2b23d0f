//! Grammars, thinking budgets and loops through a session, on a scripted backend: what comes out whatever the model would say,
//! how often the model is asked, and how an answer ends.

mod guided_support;
mod support;

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use guided_support::schemas;
use rawloop_engine::chat::{OutputOptions, OutputParser};
use rawloop_engine::fake::{Call, FakeBackend, Script};
use rawloop_engine::guided::{AnswerPlan, Grammar, Guide, GuidedError, Thinking};
use rawloop_engine::{Answer, Draft, EngineError, Event, Finish, GenerateOptions, SamplingOptions};
use rawloop_tokenizer::{SpecialText, SpecialTokens};
use serde_json::{Value, json};
use support::{answer, scripted, tiny};

fn ids(text: &str) -> Vec<u32> {
    tiny().tokenizer().encode(text, SpecialTokens::Parse)
}

fn text(ids: &[u32]) -> String {
    tiny().tokenizer().decode(ids, SpecialText::Keep).unwrap()
}

/// Says `said` behind a prompt of `prompt` ids, then its turn is over.
fn saying(prompt: usize, said: &str) -> Script {
    let said = ids(said);
    Box::new(move |held| held.get(prompt..).and_then(|answer| said.get(answer.len())).copied().unwrap_or(106))
}

fn steps(calls: &[Call]) -> usize {
    calls.iter().filter(|call| matches!(call, Call::Step { .. })).count()
}

fn guided(guide: impl Into<Guide>, tokens: usize) -> GenerateOptions {
    GenerateOptions { constraint: Some(guide.into()), ..GenerateOptions::greedy(tokens) }
}

/// A prompt that asks for a thought.
fn thinking_prompt() -> Vec<u32> {
    ids("<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\nHi<turn|>\n<|turn>model\n")
}

fn person() -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": ["name", "age"],
        "properties": { "name": { "enum": ["Ida", "Hugo"] }, "age": { "type": "integer", "maximum": 99, "minimum": 0 } } })
}

#[test]
fn what_the_grammar_forces_is_not_asked_of_the_model() {
    let (mut session, log) = scripted(256, 8, saying(1, "{\"name\": \"Hugo\", \"age\": 7}"));
    let compact = Grammar::json_schema_spaced(&person(), rawloop_engine::guided::Spacing::Compact).unwrap();
    log.take();
    let answered = answer(&mut session, &[2], &guided(compact, 100));
    assert_eq!(
        (answered.finish, answered.stop),
        (Finish::Stop, None),
        "complete: the end is not asked for either"
    );
    let value: Value = serde_json::from_str(&answered.text).unwrap();
    assert!(jsonschema::is_valid(&person(), &value), "{value}");
    let asked = steps(&log.take());
    assert_eq!(asked + answered.timings.forced_tokens, answered.ids.len());
    assert!(answered.timings.forced_tokens >= answered.ids.len() / 2, "{:?}", answered.timings);
}

#[test]
fn a_choice_is_one_of_its_texts_and_ends_by_itself() {
    let choice = Grammar::choice(&["positive", "negative"]).unwrap();
    let (mut session, _) = scripted(256, 8, saying(1, "I think that it is negative."));
    let answered = answer(&mut session, &[2], &guided(choice, 100));
    assert!(["positive", "negative"].contains(&answered.text.as_str()), "{}", answered.text);
    assert_eq!(answered.finish, Finish::Stop);
}

#[test]
fn a_schema_that_cannot_be_followed_ends_the_request_and_names_the_keyword() {
    let schema = json!({ "type": "object", "properties": { "a": {}, "b": {} }, "minProperties": 2 });
    let (mut session, _) = scripted(256, 8, saying(1, "{}"));
    let options = guided(Grammar::json_schema(&schema).unwrap(), 100);
    let never = AtomicBool::new(false);
    let error = session.generate(&[2], &options, &never, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(
        matches!(&error, EngineError::Guided(GuidedError::Unsupported { keyword, .. }) if keyword == "minProperties"),
        "{error}"
    );
    assert_eq!(answer(&mut session, &[2], &GenerateOptions::greedy(8)).text, "{}", "the session goes on");
}

#[test]
fn a_grammar_is_compiled_once_while_it_stays_the_same() {
    let (mut session, _) = scripted(256, 8, saying(1, "{}"));
    let options = guided(Grammar::json_object().unwrap(), 20);
    assert_eq!(options, options.clone());
    assert_ne!(options, guided(Grammar::json_object().unwrap(), 20), "the same grammar, not the same words");
    for _ in 0..3 {
        assert_eq!(answer(&mut session, &[2], &options).text, "{}");
    }
}

/// The vocabulary is prepared beside the prefill and not behind it: it gets done while the prefill stands still.
#[test]
fn the_start_of_a_grammar_overlaps_the_prefill() {
    let (mut session, log) = scripted(256, 8, saying(20, "{}"));
    let options = GenerateOptions { chunk: Some(4), ..guided(Grammar::json_object().unwrap(), 20) };
    let environment = session.environment().clone();
    let prompt: Vec<u32> = (0..20).map(|id| id + 300).collect();
    let (never, mut chunks, mut ready_at) = (AtomicBool::new(false), 0, None);
    assert!(!environment.is_ready());
    let answered = session
        .generate(&prompt, &options, &never, &mut |event| {
            if let Event::Prefill { done, total } = event {
                chunks += 1;
                // Nobody here waits for the environment, so somebody else is at it. A minute without an end is no slow machine.
                for _ in 0..6000 {
                    if environment.is_ready() {
                        ready_at.get_or_insert((done, total));
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((ready_at, chunks), (Some((4, 20)), 5), "behind the first chunk of several");
    assert_eq!(answered.text, "{}");
    assert_eq!(steps(&log.take()), 5 + answered.ids.len() - answered.timings.forced_tokens);
}

/// Cases 41 and 82: with a schema and thinking on, the thought is free and goes first, and then there is exactly one JSON value,
/// whatever the seed and wherever the drafts come from.
#[test]
fn a_thought_and_then_one_json_value_at_every_seed() {
    let schema = person();
    let prompt = thinking_prompt();
    let guide = Guide::from(Grammar::json_schema(&schema).unwrap());
    let mut thoughts = 0;
    for seed in 0..20 {
        let lead = prompt.len();
        // The model would write a code fence behind its thought.
        let said = ids("<|channel>thought\nThe age is 42, {so}\n<channel|>```json\n{\"name\": \"Ida\"");
        let script: Script = Box::new(move |held| {
            let at = held.len().saturating_sub(lead);
            said.get(at).copied().unwrap_or(1000 + (held.len() as u32 * 7) % 900)
        });
        let (backend, _) = FakeBackend::new(4096, 400, 64, script);
        let drafted = ids("<|channel>thought\nThe age is 42, {so}\n<channel|>```json\n{\"name\": \"Ida\"");
        let drafter: Script = Box::new(move |held| drafted.get(held.len() - lead).copied().unwrap_or(1000));
        let backend = Box::new(backend.drafting(drafter));
        let mut session = rawloop_engine::Session::new(tiny(), backend).unwrap();
        let sampling = SamplingOptions { temperature: 0.3, top_k: 4, seed, ..SamplingOptions::greedy() };
        let draft = [Draft::Off, Draft::Fixed(3), Draft::Auto][seed as usize % 3];
        let options = GenerateOptions {
            constraint: Some(guide.clone()),
            sampling,
            draft,
            // A thought that went astray comes back.
            thinking_budget: Some(40),
            ..GenerateOptions::greedy(160)
        };
        let answered = answer(&mut session, &prompt, &options);
        let (thought, said) = parsed(&answered);
        thoughts += usize::from(!thought.is_empty());
        assert_eq!(answered.finish, Finish::Stop, "{}", text(&answered.ids));
        let value: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert!(jsonschema::is_valid(&schema, &value), "{value}");
    }
    assert!(thoughts > 10, "{thoughts} of 20 answers began with a thought");
}

/// Thought and visible text of an answer.
fn parsed(answer: &Answer) -> (String, String) {
    let model = tiny();
    let mut parser = OutputParser::new(OutputOptions { in_thought: false, tools: Vec::new() });
    let mut output = rawloop_engine::chat::Output::default();
    for &id in &answer.ids {
        parser.push_token(model.tokenizer(), model.control(), id, &mut |event| output.add(event)).unwrap();
    }
    parser.finish(&mut |event| output.add(event));
    (output.reasoning, output.text)
}

/// Case 81: a model that would rather write white space comes to an end long before the limit.
#[test]
fn white_space_without_end_ends_with_the_object() {
    let fields: Vec<String> = (0..9).map(|field| format!("field {field}")).collect();
    let properties: serde_json::Map<String, Value> =
        fields.iter().map(|name| (name.clone(), json!({ "type": "boolean" }))).collect();
    let schema = json!({ "type": "object", "properties": properties, "required": fields, "additionalProperties": false });
    let line = ids("\n")[0];
    let (mut session, _) = scripted(600, 8, Box::new(move |_| line));
    let answered = answer(&mut session, &[2], &guided(Grammar::json_schema(&schema).unwrap(), 400));
    assert_eq!(answered.finish, Finish::Stop);
    let value: Value = serde_json::from_str(&answered.text).unwrap();
    assert!(
        jsonschema::is_valid(&schema, &value) && answered.ids.len() < 200,
        "{} tokens",
        answered.ids.len()
    );
}

/// A plan with its own parts: calls are not opened where they are not planned, stops are the answer's.
#[test]
fn a_plan_is_taken_as_it_is() {
    let (mut session, _) = scripted(256, 8, saying(1, "Hello<|tool_call>call:now{}<tool_call|>"));
    let free = AnswerPlan::free().thinking(Thinking::Off);
    let answered = answer(&mut session, &[2], &guided(free, 40));
    assert!(
        answered.text.starts_with("Hello") && !text(&answered.ids).contains("<|"),
        "{}",
        text(&answered.ids)
    );
}

#[test]
fn answers_in_500_random_schemas_drawn_with_noise_are_valid_where_they_ended() {
    let mut random = guided_support::Random(0xfeed);
    let (backend, _) = FakeBackend::new(4096, 600, 64, FakeBackend::hashed(4096, 106, 4));
    let drafting = backend.drafting(FakeBackend::hashed(4096, 106, 4));
    let mut session = rawloop_engine::Session::new(tiny(), Box::new(drafting)).unwrap();
    let mut ended = 0;
    for place in 0..500 {
        let schema = schemas::root(&mut random);
        let sampling = SamplingOptions {
            temperature: [0.0, 0.7, 3.0][place % 3],
            seed: place as u64,
            ..SamplingOptions::greedy()
        };
        let draft = [Draft::Off, Draft::Fixed(3), Draft::Lookup][place % 3];
        let options = GenerateOptions {
            constraint: Some(Grammar::json_schema(&schema).unwrap().into()),
            sampling,
            draft,
            ..GenerateOptions::greedy(120)
        };
        let answered = answer(&mut session, &[2, place as u32], &options);
        if answered.finish != Finish::Stop {
            continue;
        }
        ended += 1;
        let value: Value = serde_json::from_str(&answered.text)
            .unwrap_or_else(|error| panic!("schema {place}: {error}\n{schema}\n{}", answered.text));
        assert!(jsonschema::is_valid(&schema, &value), "schema {place}\n{schema}\n{value}");
    }
    assert!(ended > 200, "{ended} of 500 answers ended by themselves");
}

/// Case 39: when the budget is spent the thought is closed by its mark, the name of the channel is never shown, and an answer
/// follows.
#[test]
fn a_spent_thinking_budget_closes_the_thought_and_an_answer_follows() {
    let prompt = thinking_prompt();
    let thought = "one two three four five six seven eight nine ten";
    let lead = prompt.len();
    let close = tiny().control().channel_close;
    let thinking = ids(&format!("<|channel>thought\n{thought}"));
    let said = ids("The answer is 4.");
    let script = move || -> Script {
        let (thinking, said) = (thinking.clone(), said.clone());
        Box::new(move |held| {
            let answer = &held[lead.min(held.len())..];
            match answer.iter().position(|&id| id == close) {
                Some(at) => said.get(answer.len() - at - 1).copied().unwrap_or(106),
                // It would think for ever.
                None => thinking.get(answer.len()).copied().unwrap_or(thinking[thinking.len() - 1]),
            }
        })
    };
    for (budget, draft) in [(0, Draft::Off), (3, Draft::Off), (3, Draft::Lookup), (1000, Draft::Off)] {
        let (mut session, _) = scripted(400, 8, script());
        let options = GenerateOptions { thinking_budget: Some(budget), draft, ..GenerateOptions::greedy(60) };
        let answered = answer(&mut session, &prompt, &options);
        let (reasoning, visible) = parsed(&answered);
        assert!(!visible.contains("thought"), "{visible}");
        if budget == 1000 {
            // Case 38: cut by the length inside of the thought. There is a text, and it is empty.
            assert_eq!((answered.finish, visible.as_str()), (Finish::Length, ""));
            continue;
        }
        assert_eq!((visible.as_str(), answered.finish), ("The answer is 4.", Finish::Stop));
        assert_eq!(ids(&reasoning).len(), budget, "{reasoning}");
        assert!(answered.timings.forced_tokens >= 1 && answered.timings.forced_tokens <= 2);
    }
}

/// Case 66 in a session: the answer ends with its own reason, can be let go on, and ordinary repetition is left alone.
#[test]
fn an_endless_repeat_ends_with_its_own_reason() {
    let pattern = ids(" the cat");
    let script = move || -> Script {
        let pattern = pattern.clone();
        Box::new(move |held| pattern[held.len() % pattern.len()])
    };
    let watched = GenerateOptions::greedy(400);
    let ended = answer(&mut scripted(600, 8, script()).0, &[2], &watched);
    assert_eq!(ended.finish, Finish::Loop);
    assert!(ended.ids.len() < 260, "{} tokens", ended.ids.len());
    let allowed = GenerateOptions { detect_loops: false, ..watched.clone() };
    assert_eq!(answer(&mut scripted(600, 8, script()).0, &[2], &allowed).finish, Finish::Length);
    // With drafts from the text, which find every repeat, it ends at the same token.
    let drafted = GenerateOptions { draft: Draft::Lookup, ..watched.clone() };
    assert_eq!(answer(&mut scripted(600, 8, script()).0, &[2], &drafted).ids, ended.ids);
    let zeros = ids("0, 0, 0, 0, 0, 0, 0, 0\n");
    let table: Script = Box::new(move |held| zeros[(held.len() - 1) % zeros.len()]);
    assert_eq!(answer(&mut scripted(600, 8, table).0, &[2], &watched).finish, Finish::Length);
}

/// Case 84: several stop strings, one that is empty, one that is split over tokens; the first to occur counts.
#[test]
fn stop_strings_are_applied() {
    let (mut session, _) = scripted(256, 8, saying(1, "The capital of France is Paris, on the Seine."));
    for (stops, expected) in [
        (vec!["Paris"], "The capital of France is "),
        (vec!["nowhere", "Seine", "aris, on", ""], "The capital of France is P"),
        (vec![""], "The capital of France is Paris, on the Seine."),
    ] {
        let stop_strings = stops.into_iter().map(str::to_owned).collect();
        let options = GenerateOptions { stop_strings, ..GenerateOptions::greedy(60) };
        let answered = answer(&mut session, &[2], &options);
        assert_eq!((answered.text.as_str(), answered.finish), (expected, Finish::Stop));
    }
}

/// Case 86: log-probabilities are finite numbers of the model itself, sorted, whatever top-p leaves; forced tokens have none.
#[test]
fn log_probabilities_are_those_of_the_model_under_filters_and_grammars() {
    let (mut session, _) = scripted(256, 8, FakeBackend::hashed(4096, 106, 50));
    let sampling = SamplingOptions {
        temperature: 1.0,
        top_p: 0.3,
        log_probabilities: Some(5),
        ..SamplingOptions::greedy()
    };
    let guide = Guide::from(Grammar::json_schema(&person()).unwrap());
    for constraint in [None, Some(guide)] {
        let forced_possible = constraint.is_some();
        let options =
            GenerateOptions { sampling: sampling.clone(), constraint, ..GenerateOptions::greedy(40) };
        let never = AtomicBool::new(false);
        let mut forced = 0;
        let answered = session.generate(&[2, 3], &options, &never, &mut |event| {
            if let Event::Token { log_probabilities, .. } = event {
                match log_probabilities {
                    None => forced += 1,
                    Some(report) => {
                        assert!(report.picked.value.is_finite() && report.top.len() == 5);
                        assert!(report.top.iter().all(|entry| entry.value.is_finite()));
                        assert!(report.top.is_sorted_by(|a, b| a.value >= b.value));
                    }
                }
            }
            ControlFlow::Continue(())
        });
        assert_eq!(forced, answered.unwrap().timings.forced_tokens);
        assert_eq!(forced > 0, forced_possible);
    }
    let too_many = SamplingOptions { log_probabilities: Some(25), ..sampling };
    let options = GenerateOptions { sampling: too_many, ..GenerateOptions::greedy(4) };
    let never = AtomicBool::new(false);
    let error = session.generate(&[2], &options, &never, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, EngineError::Option(_)), "{error}");
}
