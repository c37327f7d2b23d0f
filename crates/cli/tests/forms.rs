//! `rawloop run` and `generate` with a form for the answer, drafts, a thinking budget and several answers.

mod support;

use serde_json::{Value, json};
use support::Program;

const REVIEW: &str = "Is this review positive or negative? What a awful book! It was rude.";
const PERSON: &str = "Extract name, age, city, job as JSON. Text: Rosa works as a doctor. Rosa lives in Cairo. Rosa is 50 years old.";

/// A file beside the program's settings.
fn write_file(program: &Program, name: &str, text: &str) -> String {
    let path = program.home.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_cut_answer_without_its_form_is_no_success() {
    let program = Program::new();
    let long = json!({ "type": "string", "minLength": 300 }).to_string();
    let cut = program.run(&["run", "--greedy", "--json-schema", &long, "--max-tokens", "5", "Hi"]);
    assert_eq!(cut.code, 1, "{cut:?}");
    assert!(cut.stderr.contains("may not have the form"), "{cut:?}");
    assert_eq!(program.run(&["run", "--greedy", "--max-tokens", "2", "Hi"]).code, 0, "any other may be cut");
}

#[test]
fn an_answer_has_the_form_that_was_asked_for() {
    let program = Program::new();
    let choice = program.run(&["run", "--greedy", "--choice", "positive", "--choice", "negative", REVIEW]);
    assert!(["positive", "negative"].contains(&choice.text()), "{choice:?}");
    let regex = program.run(&["run", "--greedy", "--regex", "[0-9]{2}", "How much is 39 + 55?"]);
    assert!(regex.text().len() == 2 && regex.text().parse::<u32>().is_ok(), "{regex:?}");
    let led =
        program.run(&["run", "--greedy", "--json", "--regex", "The sum is [0-9]{2}", "39 + 55?"]).json();
    assert!(
        led["timings"]["forced_tokens"].as_u64().unwrap() > 0,
        "the beginning is not asked of the model: {led}"
    );
    let schema = json!({ "type": "object", "additionalProperties": false, "required": ["name", "age"],
        "properties": { "name": { "type": "string", "maxLength": 20 }, "age": { "type": "integer", "maximum": 150 } } });
    let file = write_file(&program, "person.json", &schema.to_string());
    for schema in [file.as_str(), &schema.to_string()] {
        let asked = program.run(&["run", "--greedy", "--json", "--json-schema", schema, PERSON]).json();
        let value: Value = serde_json::from_str(asked["text"].as_str().unwrap()).unwrap();
        assert!(value["name"].is_string() && value["age"].is_u64(), "{value}");
        assert_eq!(asked["finish_reason"], "stop");
    }
    let lark = write_file(&program, "yes.lark", "start: \"yes\" | \"no\"\n");
    let gbnf = write_file(&program, "yes.gbnf", "root ::= \"yes\" | \"no\"\n");
    for grammar in [&lark, &gbnf] {
        let asked = program.run(&["run", "--greedy", "--grammar", grammar, "Is the sky blue?"]);
        assert!(["yes", "no"].contains(&asked.text()), "{asked:?}");
    }
    let ids = program.run(&["generate", "--choice", "negative", "--prompt", REVIEW, "--json"]).json();
    assert_eq!(ids["text"], "negative");
}

#[test]
fn a_form_that_cannot_be_had_is_refused_by_name() {
    let program = Program::new();
    program
        .run(&["run", "--json-schema", "{\"minProperties\": 2, \"properties\": {\"a\": {}, \"b\": {}}}", "x"])
        .refused(2, &["minProperties"]);
    program.run(&["run", "--json-schema", "{nothing", "x"]).refused(3, &["--json-schema"]);
    program.run(&["run", "--json-schema", "no-such-file.json", "x"]).refused(3, &["no-such-file.json"]);
    program.run(&["run", "--regex", "(a", "x"]).refused(2, &["regex"]);
    program.run(&["run", "--regex", "a", "--choice", "b", "x"]).refused(2, &["--choice"]);
    program.run(&["run", "--draft", "99", "x"]).refused(2, &["--draft"]);
    program.run(&["run", "--thinking=much", "x"]).refused(2, &["--thinking"]);
    program.run(&["run", "--greedy", "--n", "2", "x"]).refused(2, &["--n"]);
}

/// Drafts are on unless they are turned off; they show in the statistics and nowhere else.
#[test]
fn drafts_change_the_speed_only() {
    let program = Program::new();
    let story =
        "Write a short story with a fox named Rosa, a mouse named Uma, a forest, a lake and a rocket.";
    for sampling in [&["--greedy"][..], &["--seed", "3"]] {
        let ask = |draft: &str| {
            let mut args = vec!["run", "--json", "--draft", draft];
            args.extend(sampling);
            args.push(story);
            program.run(&args).json()
        };
        let off = ask("off");
        assert_eq!(
            (&off["timings"]["verify_steps"], &off["timings"]["tokens_per_verify"]),
            (&0.into(), &Value::Null)
        );
        for draft in ["auto", "3", "lookup"] {
            let on = ask(draft);
            assert_eq!(on["text"], off["text"], "{draft}");
            assert_eq!(on["finish_reason"], off["finish_reason"]);
        }
        let on = ask("3");
        assert!(on["timings"]["tokens_per_verify"].as_f64().unwrap() > 1.2, "{on}");
        assert!(on["timings"]["prefilled_tokens"].as_u64().unwrap() > 0);
    }
    let stats = program.run(&["run", "--greedy", "--draft", "3", "--stats", story]);
    assert!(stats.stderr.contains("drafts right") && stats.stderr.contains("ended by stop"), "{stats:?}");
    let plain = program.run(&["generate", "--prompt", story, "--draft", "off", "--json"]).json();
    let drafted = program.run(&["generate", "--prompt", story, "--draft", "3", "--json"]).json();
    assert_eq!(plain["output_ids"], drafted["output_ids"]);
}

#[test]
fn a_thinking_budget_shortens_the_thought_and_leaves_an_answer() {
    let program = Program::new();
    let question = "Kira has 37 eggs. Kira sells 31. Kira gives 2 to Finn. How many eggs does Kira have?";
    let ask = |thinking: &str| program.run(&["run", "--greedy", "--json", thinking, question]).json();
    let (free, short, off) = (ask("--thinking"), ask("--thinking=4"), ask("--thinking=off"));
    let length = |value: &Value| value["reasoning"].as_str().unwrap().len();
    assert!(length(&short) < length(&free), "{short}\n{free}");
    assert!(
        !short["text"].as_str().unwrap().is_empty() && !short["text"].as_str().unwrap().contains("thought")
    );
    assert_eq!(length(&off), 0);
}

#[test]
fn several_answers_take_one_seed_after_the_other() {
    let program = Program::new();
    let args = |seed: &'static str, n: &'static str| {
        ["run", "--json", "--temperature", "1.5", "--seed", seed, "--n", n, "Tell me a short story."]
    };
    let three = program.run(&args("7", "3")).json();
    let three = three.as_array().unwrap();
    assert_eq!(three.len(), 3);
    for (seed, answer) in ["7", "8", "9"].into_iter().zip(three) {
        assert_eq!(program.run(&args(seed, "1")).json()["text"], answer["text"], "seed {seed}");
        assert_eq!(answer["sampling"]["seed"].to_string(), seed);
    }
    assert!(three[1]["timings"]["reused_tokens"].as_u64().unwrap() > 0, "the prompt is prefilled once");
}
