//! `eval`, `gate` and `doctor`.

mod support;

use support::{Program, repository};

const GOLDENS: &str = "goldens/tiny/transcripts.json";

#[test]
fn eval_counts_by_task_and_keeps_every_answer() {
    let program = Program::new();
    let tasks = repository(GOLDENS);
    let report = program.run(&["eval", "--tasks", &tasks, "--limit", "25", "--json"]).json();
    assert_eq!(report["n"], 25);
    assert_eq!(report["items"].as_array().unwrap().len(), 25);
    let right = report["items"].as_array().unwrap().iter().filter(|item| item["right"] == true).count();
    assert_eq!(report["right"], right);
    assert!(right >= 20, "{report}");
    let by_task = report["by_task"].as_object().unwrap();
    let sum: u64 = by_task.values().map(|task| task["n"].as_u64().unwrap()).sum();
    assert_eq!(sum, 25);
    let text = program.run(&["eval", "--tasks", &tasks, "--limit", "25"]);
    assert!(text.text().contains(&format!("{right} of    25 right")), "{text:?}");
}

/// The task gate: what Transformers answers right is answered right here; rounding K/V to f16 may cost one of 200, to int8
/// two (an answer whose first two tokens tie within 0.1 at f16 ties at int8 too, and int8 is coarser).
#[test]
fn no_right_answer_is_lost() {
    let program = Program::new();
    let tasks = repository(GOLDENS);
    let goldens: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&tasks).unwrap()).unwrap();
    let goldens = goldens["transcripts"].as_array().unwrap();
    assert_eq!(goldens.len(), 200);
    for (kv, most) in [("f32", 0), ("f16", 1), ("i8", 2)] {
        let report = program.run(&["eval", "--tasks", &tasks, "--kv", kv, "--json"]).json();
        let items = report["items"].as_array().unwrap();
        assert_eq!(items.len(), goldens.len());
        let is_lost = |(golden, item): &(&serde_json::Value, &serde_json::Value)| {
            golden["ok"] == true && item["right"] != true
        };
        let lost: Vec<_> = goldens.iter().zip(items).filter(is_lost).map(|(_, item)| item).collect();
        assert!(lost.len() <= most, "{kv}: {lost:?}");
    }
}

#[test]
fn eval_reads_word_problems_with_a_last_number() {
    let program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("problems.jsonl").display().to_string();
    let lines = "{\"question\": \"What is 20 + 31?\", \"answer\": \"20 and 31\\n#### 51\"}\n\
                 {\"question\": \"What is 20 + 31?\", \"answer\": \"#### 52\"}\n";
    std::fs::write(&file, lines).unwrap();
    let report = program.run(&["eval", "--tasks", &file, "--json"]).json();
    assert_eq!((&report["n"], &report["right"]), (&2.into(), &1.into()));
    std::fs::write(&file, "{\"question\": \"x\"}\n").unwrap();
    program.run(&["eval", "--tasks", &file]).refused(3, &["question 0", "key"]);
    program.run(&["eval", "--tasks", "nowhere.json"]).refused(3, &["nowhere.json"]);
}

#[test]
fn the_shipped_model_passes_its_goldens() {
    let program = Program::new();
    let goldens = repository(GOLDENS);
    let gate = program.run(&["gate", "--goldens", &goldens, "--limit", "40", "--json"]).json();
    assert_eq!((&gate["n"], &gate["equal"]), (&40.into(), &40.into()), "{gate}");
    let other = program.run(&[
        "gate",
        "--goldens",
        &goldens,
        "--limit",
        "1",
        "--max-tokens",
        "3",
        "--against",
        "ref",
    ]);
    assert!(other.text().contains("1 of 1 prompts equal to ref, 3 tokens compared"), "{other:?}");
}

#[test]
fn a_token_that_differs_is_shown_with_its_margin() {
    let program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("goldens.json").display().to_string();
    let text = std::fs::read_to_string(repository(GOLDENS)).unwrap();
    let mut goldens: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = goldens["transcripts"].as_array_mut().unwrap();
    rows.truncate(2);
    let output = rows[1]["output_ids"].as_array_mut().unwrap();
    let right = output[2].as_u64().unwrap();
    output[2] = ((right + 1) % 4096).into();
    let prompt = rows[1]["prompt_ids"].as_array().unwrap().len();
    std::fs::write(&file, goldens.to_string()).unwrap();
    let gate = program.run(&["gate", "--goldens", &file]);
    assert_eq!(gate.code, 1, "{gate:?}");
    let place = format!("position {}, token 2 of the answer: {right} ", prompt + 2);
    assert!(gate.stdout.contains(&place) && gate.stdout.contains("margin"), "{gate:?}");
    let json = program.run(&["gate", "--goldens", &file, "--json"]);
    assert_eq!(json.code, 1);
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(value["differences"][0]["margin"].as_f64().unwrap() > 0.0, "{value}");
}

#[test]
fn a_golden_token_outside_of_the_vocabulary_is_a_bad_file() {
    let program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("goldens.json").display().to_string();
    std::fs::write(&file, r#"[{"prompt_ids": [2, 105], "output_ids": [4096]}]"#).unwrap();
    program.run(&["gate", "--goldens", &file]).refused(3, &["goldens.json", "question 0", "4096"]);
}

#[test]
fn doctor_says_what_there_is() {
    let program = Program::new();
    let value = program.run(&["doctor", "--json"]).json();
    assert!(value["machine"]["threads"].as_u64().unwrap() > 0);
    let chosen = &value["kernels"]["chosen"];
    assert!(value["kernels"]["available"].as_array().unwrap().contains(chosen));
    assert!(value["read_bytes_per_second"]["one_thread"].as_f64().unwrap() > 1e8);
    let quick = program.run(&["doctor", "--no-measure"]);
    assert!(quick.text().contains("kernels") && !quick.text().contains("GB/s"), "{quick:?}");
}
