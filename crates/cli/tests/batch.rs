//! `batch`: answers in order, the same at every number at a time, and none lost or made twice after whatever ended the program.

mod support;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use support::{ENDLESS, Finished, Program};

struct Place {
    program: Program,
}

impl Place {
    fn new() -> Place {
        Place { program: Program::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.program.home.path().join(name)
    }

    fn write(&self, lines: &[Value]) -> String {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.path("in.jsonl"), text).unwrap();
        self.path("in.jsonl").display().to_string()
    }

    fn run(&self, input: &str, output: &str, more: &[&str]) -> Finished {
        let output = self.path(output).display().to_string();
        self.program.run(&[&["batch", input, &output], more].concat())
    }

    fn answers(&self, output: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(output)).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn start(&self, input: &str, output: &str) -> Child {
        let output = self.path(output).display().to_string();
        let mut command = self.program.command(&["batch", input, &output, "--parallel", "2", "-q"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn length(&self, output: &str) -> u64 {
        std::fs::metadata(self.path(output)).map_or(0, |meta| meta.len())
    }
}

fn chat(id: &str, text: &str) -> Value {
    json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions",
        "body": {"model": "gpt-5", "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 60}})
}

fn text(answer: &Value) -> &str {
    let choice = &answer["response"]["body"]["choices"][0];
    choice["message"]["content"].as_str().or_else(|| choice["text"].as_str()).unwrap()
}

/// Requests whose answers are long, so that something can happen in between.
fn long(count: usize) -> Vec<Value> {
    let request = |index: usize| {
        let mut request =
            chat(&format!("long-{index}"), &format!("Tell me a story about a fox. Part {index}."));
        request["body"]["max_tokens"] = 150.into();
        request["body"]["logit_bias"] = json!({"1": -100, "106": -100, "50": -100});
        request
    };
    (0..count).map(request).collect()
}

#[test]
fn answers_are_those_of_the_program_in_the_order_of_the_requests() {
    let place = Place::new();
    let mut lines = vec![
        chat("capital", "What is the capital of France?"),
        json!({"custom_id": "raw", "url": "/v1/completions",
            "body": {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}}),
        json!({"custom_id": "wrong", "url": "/v1/chat/completions", "body": {"messages": "x"}}),
        chat("sum", "What is 20 + 31?"),
    ];
    lines.extend((0..8).map(|index| chat(&format!("n{index}"), &format!("What is {index} + 12?"))));
    let input = place.write(&lines);
    let summary = place.run(&input, "out.jsonl", &["--json"]).json();
    assert_eq!((&summary["requests"], &summary["refused"]), (&json!(12), &json!(1)));
    let answers = place.answers("out.jsonl");
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["custom_id"]).collect();
    assert_eq!(ids, lines.iter().map(|line| &line["custom_id"]).collect::<Vec<_>>());
    assert_eq!(
        text(&answers[0]),
        place.program.run(&["run", "--greedy", "What is the capital of France?"]).text()
    );
    assert_eq!(text(&answers[3]), "20 + 31 = 51.");
    assert_eq!(answers[2]["response"]["status_code"], 400);
    assert!(answers[2]["response"]["body"]["error"]["message"].as_str().unwrap().contains("messages"));
    for answer in answers.iter().filter(|answer| answer["custom_id"] != "wrong") {
        assert_eq!((&answer["response"]["status_code"], &answer["error"]), (&json!(200), &Value::Null));
    }

    // One at a time: the same texts.
    place.run(&input, "one.jsonl", &["--parallel", "1"]).text();
    let texts = |answers: &[Value]| {
        answers.iter().map(|answer| answer["response"]["body"]["choices"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&place.answers("one.jsonl")), texts(&answers));

    // Half a line is cut, what stands before it is not asked again.
    let whole = std::fs::read_to_string(place.path("out.jsonl")).unwrap();
    let kept: Vec<&str> = whole.split_inclusive('\n').take(5).collect();
    std::fs::write(place.path("out.jsonl"), kept.concat() + "{\"id\": \"batch_").unwrap();
    let resumed = place.run(&input, "out.jsonl", &[]);
    assert!(resumed.text().contains("12 answers") && resumed.text().contains("5 from before"), "{resumed:?}");
    assert!(std::fs::read_to_string(place.path("out.jsonl")).unwrap().starts_with(&kept.concat()));
    assert_eq!(texts(&place.answers("out.jsonl")), texts(&answers));
    // Complete: nothing to do.
    assert!(place.run(&input, "out.jsonl", &[]).text().contains("12 from before"));
}

#[test]
fn a_resumed_run_equals_an_unbroken_one_at_any_temperature() {
    let place = Place::new();
    let request = |index: usize| {
        json!({"custom_id": format!("warm-{index}"), "url": "/v1/completions",
            "body": {"prompt": "The", "temperature": 1, "max_tokens": 24, "n": 2}})
    };
    let input = place.write(&(0..4).map(request).collect::<Vec<_>>());
    place.run(&input, "whole.jsonl", &["-q"]).text();
    let choices = |name: &str| {
        let answers = place.answers(name);
        answers.iter().map(|answer| answer["response"]["body"]["choices"].clone()).collect::<Vec<_>>()
    };
    let whole = choices("whole.jsonl");
    for kept in [1, 3] {
        let text = std::fs::read_to_string(place.path("whole.jsonl")).unwrap();
        let lines: String = text.split_inclusive('\n').take(kept).collect();
        std::fs::write(place.path("out.jsonl"), lines).unwrap();
        place.run(&input, "out.jsonl", &["-q", "--parallel", "1"]).text();
        assert_eq!(choices("out.jsonl"), whole, "{kept} kept");
    }
    // Each place has seeds of its own, and the draw is one.
    let seed = |answer: &Value| answer["response"]["body"]["rawloop"]["seed"].as_u64().unwrap();
    let seeds: Vec<u64> = place.answers("whole.jsonl").iter().map(seed).collect();
    assert_eq!(seeds, [0, 1 << 16, 2 << 16, 3 << 16]);
    let mut texts: Vec<&str> = whole
        .iter()
        .flat_map(|choices| choices.as_array().unwrap())
        .map(|choice| choice["text"].as_str().unwrap())
        .collect();
    texts.sort_unstable();
    texts.dedup();
    assert!(texts.len() > 1, "{texts:?}");
}

#[test]
fn a_request_may_ask_for_many_answers_however_few_are_made_at_a_time() {
    let place = Place::new();
    let input = place.write(&[json!({"custom_id": "many", "url": "/v1/completions",
        "body": {"prompt": "The", "temperature": 1, "max_tokens": 2, "n": 80}})]);
    let choices = ["1", "8"].map(|parallel| {
        let output = format!("{parallel}.jsonl");
        place.run(&input, &output, &["-q", "--parallel", parallel]).text();
        place.answers(&output)[0]["response"]["body"]["choices"].clone()
    });
    assert_eq!(choices[0].as_array().map(Vec::len), Some(80), "{}", choices[0]);
    assert_eq!(choices[0], choices[1]);
}

#[test]
fn files_that_make_no_sense_are_refused_before_anything_is_asked() {
    let place = Place::new();
    let input = place.write(&[chat("a", "x"), chat("b", "x"), chat("a", "x")]);
    place.run(&input, "out.jsonl", &[]).refused(3, &["in.jsonl:3", "that of line 1"]);
    let input = place.write(&[chat("a", "x"), json!({"custom_id": "b", "url": "/v1/files", "body": {}})]);
    place.run(&input, "out.jsonl", &[]).refused(3, &["in.jsonl:2", "/v1/files"]);
    assert!(!place.path("out.jsonl").exists());
    place.run(&input, "in.jsonl", &[]).refused(2, &["the same file"]);
    std::fs::write(place.path("in.jsonl"), "\n\n").unwrap();
    place.run(&input, "out.jsonl", &[]).refused(3, &["no requests"]);
    place.run("/nowhere", "out.jsonl", &[]).refused(3, &["/nowhere"]);
    let input = place.write(&[chat("a", "x")]);
    std::fs::write(place.path("other.jsonl"), "{\"custom_id\": \"z\"}\n").unwrap();
    place.run(&input, "other.jsonl", &[]).refused(3, &["other.jsonl", "belongs to other requests"]);
    place.run(&input, "out.jsonl", &["--model", "nowhere.rlp"]).refused(3, &["nowhere.rlp"]);
}

#[cfg(unix)]
#[test]
fn ctrl_c_and_kill_keep_every_whole_answer() {
    let place = Place::new();
    assert!(ENDLESS.contains(&"106=-100"), "the ids below are those of the embedded model's ends");
    let lines = long(12);
    let input = place.write(&lines);
    for (signal, code) in [("-INT", Some(130)), ("-KILL", None)] {
        let before = place.length("out.jsonl");
        let child = place.start(&input, "out.jsonl");
        while place.length("out.jsonl") <= before {
            std::thread::sleep(Duration::from_millis(2));
        }
        let status = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(status.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), code, "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(code.is_none() || stderr.contains("the same command goes on from there"), "{stderr}");
    }
    let kept = std::fs::read_to_string(place.path("out.jsonl")).unwrap();
    let whole = &kept[..kept.rfind('\n').unwrap() + 1];
    assert!((2..12).contains(&whole.lines().count()), "{}", whole.lines().count());
    place.run(&input, "out.jsonl", &[]).text();
    assert!(std::fs::read_to_string(place.path("out.jsonl")).unwrap().starts_with(whole));
    place.run(&input, "fresh.jsonl", &["--parallel", "3"]).text();
    let texts =
        |name: &str| place.answers(name).iter().map(|answer| text(answer).to_owned()).collect::<Vec<_>>();
    assert_eq!(texts("out.jsonl"), texts("fresh.jsonl"));
    assert_eq!(texts("fresh.jsonl").len(), 12);
}
