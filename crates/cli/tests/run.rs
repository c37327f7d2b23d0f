//! `rawloop run` over pipes: what goes where, what is repeatable, what is refused with which code.

mod support;

use serde_json::Value;
use support::{ENDLESS, Program, repository};

const QUESTION: &str = "What is the capital of France?";

#[test]
fn the_answer_is_all_of_stdout() {
    let program = Program::new();
    let asked = program.run(&["run", "--greedy", QUESTION]);
    assert_eq!(asked.text(), "The capital of France is Paris.");
    assert!(asked.stdout.ends_with(".\n"));
    assert_eq!(asked.stderr, "");
    let words = program.run(&["run", "--greedy", "What", "is", "the", "capital", "of", "France?"]);
    assert_eq!(words.text(), asked.text());
    assert_eq!(program.run(&["run", "--greedy", "What is -1", "+", "3?"]).code, 0);
    assert_eq!(program.run(&["run", "--greedy", "-1"]).code, 0, "a negative number is a prompt, not a flag");
    let piped = program.pipe(&["run", "--greedy"], QUESTION.as_bytes());
    assert_eq!(piped.text(), asked.text());
    let timed = program.run(&["run", "--greedy", "--stats", QUESTION]);
    assert_eq!(timed.text(), asked.text());
    assert!(timed.stderr.contains("tokens/s"), "{timed:?}");
}

#[test]
fn thoughts_go_to_stderr() {
    let program = Program::new();
    let asked = program.run(&["run", "--greedy", "--thinking", "What is 20 + 31?"]);
    assert!(asked.text().contains("51"), "{asked:?}");
    assert!(!asked.stderr.trim().is_empty(), "{asked:?}");
    assert!(!asked.stdout.contains("thought") && !asked.stderr.contains("channel"), "{asked:?}");
}

#[test]
fn words_and_stdin_make_one_prompt() {
    let program = Program::new();
    let tokens = |finished: &support::Finished| finished.json()["timings"]["prompt_tokens"].as_u64().unwrap();
    let both = program.pipe(&["run", "--greedy", "--json", "Count", "this:"], b"one two three");
    let same = program.run(&["run", "--greedy", "--json", "Count this:\n\none two three"]);
    assert_eq!((tokens(&both), &both.json()["text"]), (tokens(&same), &same.json()["text"]));
}

#[test]
fn a_silent_pipe_is_named_and_then_heard() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::Stdio;

    let program = Program::new();
    let mut command = program.command(&["run", "--greedy"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut note = String::new();
    // The note comes while nothing has been written yet, so this read ends without the pipe being closed.
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut note).unwrap();
    assert!(note.contains("stdin"), "{note:?}");
    child.stdin.take().unwrap().write_all(QUESTION.as_bytes()).unwrap();
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!(answer.trim_end(), "The capital of France is Paris.");
    assert!(child.wait().unwrap().success());
}

#[test]
fn json_carries_answer_conditions_and_timings() {
    let program = Program::new();
    let value =
        program.run(&["run", "--json", "--seed", "5", "--top-p", "0.9", "--thinking", QUESTION]).json();
    for field in ["text", "reasoning", "finish_reason"] {
        assert!(value[field].is_string(), "{field}: {value}");
    }
    assert!(value["tool_calls"].is_array());
    assert_eq!((&value["sampling"]["seed"], &value["sampling"]["top_p"]), (&5.into(), &0.9.into()));
    for field in [
        "prompt_tokens",
        "prefilled_tokens",
        "reused_tokens",
        "prefill_ms",
        "decode_tokens",
        "decode_ms",
        "verify_steps",
        "draft_ms",
        "guide_ms",
    ] {
        assert!(value["timings"][field].is_number(), "{field}: {value}");
    }
    for field in ["model", "arithmetic", "backend", "kernels", "kv", "version"] {
        assert!(value["labels"][field].is_string(), "{field}: {value}");
    }
    assert_eq!(value["labels"]["synthetic"], Value::Bool(false));
}

/// Whoever measures finds the same counts in the JSON of every command that answers.
#[test]
fn every_json_has_the_counts_of_reuse_and_of_drafts() {
    let program = Program::new();
    let run = program.run(&["run", "--greedy", "--json", "--draft", "2", QUESTION]).json();
    let generate = program.run(&["generate", "--json", "--draft", "2", "--prompt", QUESTION]).json();
    let lines = format!("{QUESTION}\n{QUESTION}\n");
    let chat = program.pipe(&["chat", "--greedy", "--json", "--draft", "2"], lines.as_bytes());
    let chat: Vec<Value> = chat.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (answer, reused) in [(&run, false), (&generate, false), (&chat[0], false), (&chat[1], true)] {
        let timings = &answer["timings"];
        let count = |name: &str| timings[name].as_u64().unwrap_or_else(|| panic!("{name}: {answer}"));
        assert_eq!(answer["finish_reason"], "stop", "{answer}");
        assert_eq!(count("prefilled_tokens") + count("reused_tokens"), count("prompt_tokens"), "{answer}");
        assert_eq!(count("reused_tokens") > 0, reused, "{answer}");
        assert!(count("verify_steps") > 0 && count("accepted_tokens") <= count("drafted_tokens"), "{answer}");
        assert!(timings["tokens_per_verify"].as_f64().unwrap() >= 1.0, "{answer}");
    }
    let plain = program.run(&["run", "--greedy", "--json", "--draft", "off", QUESTION]).json();
    for (field, value) in
        [("verify_steps", 0.into()), ("tokens_per_verify", Value::Null), ("guide_us_per_token", Value::Null)]
    {
        assert_eq!(plain["timings"][field], value, "{plain}");
    }
}

#[test]
fn a_seed_repeats_an_answer_whatever_runs_it() {
    let program = Program::new();
    let sampled = |more: &[&str]| {
        let mut args = vec!["run", "--seed", "12", "--temperature", "3", "Tell me a short story."];
        args.extend(more);
        program.run(&args).text().to_owned()
    };
    let story = sampled(&[]);
    for flags in [
        &["--threads", "1"][..],
        &["--threads", "2", "--affinity"],
        &["--chunk", "3"],
        &["--kernels", "portable"],
        &["--ctx", "512"],
    ] {
        assert_eq!(sampled(flags), story, "{flags:?}");
    }
    let other = program.run(&["run", "--seed", "13", "--temperature", "3", "Tell me a short story."]);
    assert_ne!(other.text(), story);
}

#[test]
fn raw_text_is_continued_as_it_stands() {
    let program = Program::new();
    let rendered = format!("<|turn>user\n{QUESTION}<turn|>\n<|turn>model\n");
    let raw = program.run(&["run", "--raw", "--greedy", "--json", &rendered]).json();
    let chat = program.run(&["run", "--greedy", "--json", QUESTION]).json();
    assert_eq!(raw["text"], chat["text"]);
    assert_eq!(raw["timings"]["prompt_tokens"], chat["timings"]["prompt_tokens"], "one <bos>, as in a chat");
    let with_bos = program.run(&["run", "--raw", "--greedy", "--json", &format!("<bos>{rendered}")]).json();
    assert_eq!(with_bos["timings"]["prompt_tokens"], chat["timings"]["prompt_tokens"]);
}

#[test]
fn an_answer_can_be_cut() {
    let program = Program::new();
    let mut args = vec!["run", "--max-tokens", "5", "Tell me a story."];
    args.extend(ENDLESS);
    let cut = program.run(&args);
    assert!(cut.stderr.contains("after 5 tokens"), "{cut:?}");
    let stopped = program.run(&["run", "--greedy", "--stop", "France", "--json", QUESTION]).json();
    assert_eq!((&stopped["text"], &stopped["finish_reason"]), (&"The capital of ".into(), &"stop".into()));
}

#[test]
fn a_reader_that_leaves_ends_the_answer() {
    let program = Program::new();
    let mut args = vec!["run", "--max-tokens", "8000", "Tell me a story."];
    args.extend(ENDLESS);
    let mut command = program.command(&args);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn mistakes_in_the_command_line_end_with_2() {
    let program = Program::new();
    program.run(&["run"]).refused(2, &["prompt is empty", "run --help"]);
    program.pipe(&["run"], b"  \n").refused(2, &["prompt is empty"]);
    program
        .run(&["run", "--top-p", "1.5", "x"])
        .refused(2, &["--top-p is 1.5: expected a number from 0 to 1"]);
    program.run(&["run", "--temperature", "-1", "x"]).refused(2, &["--temperature is -1"]);
    program.run(&["run", "--bias", "9999=1", "x"]).refused(2, &["bias", "token ids below 4096"]);
    program.run(&["run", "--bias", "oops", "x"]).refused(2, &["ID=NUMBER"]);
    program.run(&["run", "--threads", "0", "x"]).refused(2, &["threads"]);
    program.run(&["run", "--kernels", "magic", "x"]).refused(2, &["magic", "portable"]);
    program.run(&["run", "--ctx", "1000000", "x"]).refused(2, &["8192"]);
    program.run(&["run", "--chunk", "0", "x"]).refused(2, &["at least 1"]);
    program.run(&["rum", "x"]).refused(2, &["run"]);
    program.run(&["run", "--raw", "--thinking", "x"]).refused(2, &["--thinking"]);
}

#[test]
fn files_that_cannot_be_used_end_with_3() {
    let program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    program.run(&["run", "--model", &path("none.rlp"), "x"]).refused(3, &["none.rlp"]);
    program.run(&["run", "--model", &path(""), "x"]).refused(3, &["config.json"]);
    std::fs::write(path("text.rlp"), "this is no pack").unwrap();
    program.run(&["run", "--model", &path("text.rlp"), "x"]).refused(3, &["text.rlp"]);
    let pack = std::fs::read(repository("models/tiny/tiny.rlp")).unwrap();
    for length in [0, 100, pack.len() / 2, pack.len() - 1] {
        std::fs::write(path("cut.rlp"), &pack[..length]).unwrap();
        program.run(&["run", "--model", &path("cut.rlp"), "x"]).refused(3, &["cut.rlp"]);
    }
    program.pipe(&["run"], b"caf\xe9").refused(3, &["UTF-8", "byte 3"]);
}

#[test]
fn a_prompt_that_does_not_fit_ends_with_4_before_any_work() {
    let program = Program::new();
    let long = "word ".repeat(500);
    program.run(&["run", "--ctx", "256", &long]).refused(4, &["context", "256"]);
    let mut args = vec!["run", "--ctx", "64", "Tell me a story."];
    args.extend(ENDLESS);
    let full = program.run(&args);
    assert_eq!(full.code, 4, "{full:?}");
    assert!(!full.stdout.is_empty() && full.stderr.contains("context of 64"), "the answer so far is printed");
}

#[test]
fn a_checkpoint_folder_is_converted_once() {
    let program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(repository("models/tiny/checkpoint")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let path = folder.path().display().to_string();
    let first = program.run(&["run", "--greedy", "--model", &path, QUESTION]);
    assert_eq!(first.text(), "The capital of France is Paris.");
    assert!(first.stderr.contains("converting"), "{first:?}");
    let second = program.run(&["run", "--greedy", "--model", &path, QUESTION]);
    assert_eq!((second.text(), second.stderr.as_str()), (first.text(), ""));
    // Something changes: it is converted again, and the older pack goes, with what a killed conversion left of this folder.
    let mut packs = Vec::new();
    find_packs(program.home.path(), &mut packs);
    let beside = |name: &str| packs[0].with_file_name(name);
    let name = packs[0].file_name().unwrap().to_str().unwrap();
    let (left, other) = (format!(".{name}.AbCdEf.unfinished"), ".other-01234567-0.rlp.AbCdEf.unfinished");
    std::fs::write(beside(&left), "half").unwrap();
    std::fs::write(beside(other), "somebody else's").unwrap();
    std::fs::write(folder.path().join("README.md"), "new").unwrap();
    let third = program.run(&["run", "--greedy", "--model", &path, QUESTION]);
    assert!(third.stderr.contains("converting"), "{third:?}");
    assert!(!beside(&left).exists() && beside(other).exists());
    std::fs::remove_file(beside(other)).unwrap();
    let mut packs = Vec::new();
    find_packs(program.home.path(), &mut packs);
    assert_eq!(packs.len(), 1, "{packs:?}");
    // A folder that cannot be converted leaves nothing.
    std::fs::write(folder.path().join("config.json"), "{}").unwrap();
    program.run(&["run", "--model", &path, "x"]).refused(3, &["config.json"]);
}

fn find_packs(folder: &std::path::Path, packs: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { find_packs(&path, packs) } else { packs.push(path) }
    }
}
