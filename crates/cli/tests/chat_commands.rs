//! `rawloop chat`: conversations in files, forks, edits, tools, JSON.

mod support;

use std::path::PathBuf;

use serde_json::Value;
use support::{Program, repository};

const FRANCE: &str = "The capital of France is Paris.";
const JAPAN: &str = "The capital of Japan is Tokyo.";

struct Desk {
    program: Program,
    file: PathBuf,
}

impl Desk {
    fn new() -> Desk {
        let program = Program::new();
        let file = program.home.path().join("talk.chat");
        Desk { program, file }
    }

    fn talk(&self, args: &[&str], lines: &str) -> support::Finished {
        let mut all = vec!["chat", "--greedy"];
        all.extend(args);
        self.program.pipe(&all, lines.as_bytes())
    }

    /// In a session that is kept.
    fn kept(&self, lines: &str) -> support::Finished {
        self.talk(&["--session", &self.file.display().to_string()], lines)
    }
}

#[test]
fn a_conversation_in_a_file_is_gone_on_with() {
    let desk = Desk::new();
    assert_eq!(desk.kept("What is the capital of France?\n").text(), FRANCE);
    let first = std::fs::read(&desk.file).unwrap();
    let again = desk.kept("/turns\n/stats\n");
    assert!(again.stderr.contains("  1  What is the capital of France?"), "{again:?}");
    assert_eq!(std::fs::read(&desk.file).unwrap(), first, "what is read is what is written");
    // The same two questions in one go and in two give the same conversation.
    assert_eq!(desk.kept("What is the capital of Japan?\n").text(), JAPAN);
    let other = Desk::new();
    other.kept("What is the capital of France?\nWhat is the capital of Japan?\n");
    let messages = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        let body: Value = serde_json::from_str(text.split_once('\n').unwrap().1).unwrap();
        body["messages"].clone()
    };
    assert_eq!(messages(&desk.file), messages(&other.file));
    let names: Vec<_> = std::fs::read_dir(desk.file.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing is left beside the file: {names:?}");
}

#[test]
fn what_is_asked_anew_stays_until_there_is_an_answer() {
    let desk = Desk::new();
    desk.kept("What is the capital of France?\nWhat is the capital of Japan?\n").text();
    let whole = std::fs::read(&desk.file).unwrap();
    let long = format!("/edit 1 {}\n", "word ".repeat(40_000));
    desk.kept(&long).refused(4, &["(what was there before stays)", "--ctx"]);
    assert_eq!(std::fs::read(&desk.file).unwrap(), whole);
    let edited = desk.kept("/edit 2 What is 20 + 31?\n/turns\n");
    assert_eq!(edited.text(), "20 + 31 = 51.");
    assert!(edited.stderr.contains("  2  What is 20 + 31?"), "{edited:?}");
}

#[test]
fn a_file_that_is_no_conversation_is_not_written_over() {
    let desk = Desk::new();
    let notes = desk.program.home.path().join("notes.md");
    std::fs::write(&notes, "mine").unwrap();
    let save = format!("/save {}\n", notes.display());
    desk.talk(&[], &save).refused(3, &["notes.md", "not written over"]);
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine");
    let twice = format!("/save {0}\n/save {0}\n", desk.file.display());
    assert_eq!(desk.talk(&[], &twice).code, 0);
}

#[test]
fn a_damaged_or_unwritable_file_ends_with_3_and_stays() {
    let desk = Desk::new();
    desk.kept("What is the capital of France?\n").text();
    let whole = std::fs::read(&desk.file).unwrap();
    std::fs::write(&desk.file, &whole[..whole.len() / 2]).unwrap();
    desk.kept("And of Japan?\n").refused(3, &["talk.chat", "was cut off"]);
    assert_eq!(std::fs::read(&desk.file).unwrap(), whole[..whole.len() / 2]);
    desk.talk(&["--session", "/no/such/folder/x"], "Hi\n").refused(3, &["/no/such/folder/x"]);
}

/// Two programs with one conversation would take turns in forgetting what the other heard.
#[test]
fn a_second_program_on_one_file_is_told() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;
    let desk = Desk::new();
    let path = desk.file.display().to_string();
    let mut first = desk.program.command(&["chat", "--greedy", "--session", &path]);
    let mut first = first.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    first.stdin.as_mut().unwrap().write_all(b"What is the capital of France?\n").unwrap();
    let mut answer = String::new();
    BufReader::new(first.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer.trim_end(), FRANCE);
    desk.kept("And now?\n").refused(3, &["talk.chat is in use", "another process"]);
    let save = format!("/save {path}\n");
    desk.talk(&[], &save).refused(3, &["talk.chat is in use"]);
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    let third = desk.kept(&format!("/turns\n{save}"));
    assert!(third.stderr.contains("(saved to"), "its own file is its own to write: {third:?}");
    assert!(
        third.stderr.contains("  1  What is the capital of France?") && !third.stderr.contains("  2  "),
        "{third:?}"
    );
}

#[cfg(unix)]
#[test]
fn a_link_to_a_conversation_stays_a_link() {
    let desk = Desk::new();
    let real = desk.file.with_file_name("real.chat");
    std::os::unix::fs::symlink("real.chat", &desk.file).unwrap();
    desk.kept("What is the capital of France?\n").text();
    let again = desk.kept(&format!("/turns\n/save {}\n", real.display()));
    assert!(again.stderr.contains("  1  What") && again.stderr.contains("saved to"), "{again:?}");
    assert!(desk.file.is_symlink() && !real.is_symlink());
    assert!(std::fs::read_to_string(&real).unwrap().starts_with("rawloop-chat 1 "));
}

#[cfg(unix)]
#[test]
fn what_is_no_file_or_far_too_large_is_refused_unread() {
    let desk = Desk::new();
    let pipe = desk.file.with_file_name("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let large = desk.file.with_file_name("large");
    std::fs::File::create(&large).unwrap().set_len(10 << 30).unwrap();
    let (pipe, large) = (pipe.display().to_string(), large.display().to_string());
    let home = desk.program.home.path().display().to_string();
    for (path, why) in [
        (pipe.as_str(), "is a pipe"),
        (large.as_str(), "has 10737418240 bytes"),
        ("/dev/zero", "is a device"),
        (home.as_str(), "is a folder"),
    ] {
        desk.talk(&["--session", path], "Hi\n").refused(3, &[path, why]);
        desk.talk(&[], &format!("/load {path}\n")).refused(3, &[path, why]);
        desk.talk(&[], &format!("/save {path}\n")).refused(3, &[path, why]);
    }
}

/// Flags beside a conversation that is there change its settings; what no flag names stays as it was stored.
#[test]
fn flags_change_the_settings_of_a_stored_conversation() {
    let desk = Desk::new();
    let path = desk.file.display().to_string();
    let talk = |args: &[&str], lines: &str| {
        let mut all = vec!["chat", "--json", "--session", path.as_str()];
        all.extend(args);
        desk.program.pipe(&all, lines.as_bytes())
    };
    let question = "Is the sky blue?\n";
    let first = [
        "--system",
        "Be brief.",
        "--top-k",
        "7",
        "--seed",
        "5",
        "--thinking=3",
        "--choice",
        "yes",
        "--choice",
        "no",
    ];
    let first = talk(&first, question).json();
    let second = talk(&["--temperature", "0.5", "--seed", "6"], question).json();
    for (answer, temperature, seed) in [(&first, 1.0, 5), (&second, 0.5, 6)] {
        let sampling = &answer["sampling"];
        assert_eq!((sampling["top_k"].as_u64(), sampling["seed"].as_u64()), (Some(7), Some(seed)));
        assert_eq!(sampling["temperature"].as_f64(), Some(temperature));
        assert!(["yes", "no"].contains(&answer["text"].as_str().unwrap()), "the form is kept: {answer}");
    }
    let third = talk(
        &["--system", "Be kind.", "--choice", "maybe", "--thinking=off"],
        &format!("/system\n{question}"),
    );
    assert!(third.stderr.contains("Be kind."), "{third:?}");
    assert_eq!((&third.json()["text"], &third.json()["reasoning"]), (&"maybe".into(), &"".into()));
    talk(&["--top-p", "7"], question).refused(2, &["--top-p is 7"]);
    let text = std::fs::read_to_string(&desk.file).unwrap();
    assert!(
        text.contains("\"system\": \"Be kind.\"") && text.contains("\"thinking_budget\": null"),
        "{text}"
    );
}

/// A program that was killed while it wrote leaves a file that nobody wants.
#[test]
fn what_a_killed_program_left_beside_the_file_is_swept_up() {
    let desk = Desk::new();
    let beside = |name: &str| desk.file.with_file_name(name);
    let (left, other) = (beside(".talk.chat.AbCdEf.unfinished"), beside(".talk.chat.b.AbCdEf.unfinished"));
    for path in [&left, &other, &beside(".talk.chat.lock")] {
        std::fs::write(path, "x").unwrap();
    }
    desk.kept("What is the capital of France?\n").text();
    assert!(!left.exists() && other.exists() && !beside(".talk.chat.lock").exists());
}

#[test]
fn turns_are_taken_back_asked_otherwise_and_answered_again() {
    let desk = Desk::new();
    let talked = desk.kept(
        "What is the capital of France?\n/edit What is the capital of Japan?\nWhat is 20 + 31?\n\
         /edit 1 What is the capital of France?\n/retry\n/tokens\n/tokens Why?\n/undo\n/undo\n/turns\n",
    );
    assert_eq!(talked.text(), [FRANCE, JAPAN, "20 + 31 = 51.", FRANCE, FRANCE].join("\n"));
    for words in ["tokens of history", "tokens as a question", "taken back: What is", "nothing to take back"]
    {
        assert!(talked.stderr.contains(words), "{words}: {talked:?}");
    }
    assert!(!talked.stderr.contains("  1  "), "{talked:?}");
}

#[test]
fn forks_go_their_own_way_and_keep_their_own_files() {
    let desk = Desk::new();
    let talked = desk.kept(
        "What is the capital of France?\n/fork other\nWhat is 20 + 31?\n/switch\n/switch main\n/turns\n/fork other\n\
         /switch nowhere\n",
    );
    assert_eq!(talked.code, 2, "{talked:?}");
    for words in [
        "(in other)",
        "main *other",
        "(in main, 1 turns)",
        "is a conversation other already",
        "no conversation nowhere",
    ] {
        assert!(talked.stderr.contains(words), "{words}: {talked:?}");
    }
    let file = desk.file.with_file_name("talk-other.chat");
    assert!(file.exists());
    let later = desk.kept("/switch other\n/turns\n");
    assert!(later.stderr.contains("  2  What is 20 + 31?"), "{later:?}");
    // Written by hand and read by hand.
    let copy = desk.file.with_file_name("copy");
    let saved = desk.kept(&format!("/save {0}\n/reset\n/load {0}\n/turns\n", copy.display()));
    assert!(saved.stderr.contains("goes on after 1 turns") && copy.exists(), "{saved:?}");
}

#[test]
fn a_tool_runs_when_it_is_allowed_to() {
    let desk = Desk::new();
    let tools = repository("examples/tools.json");
    let question = "Use the tool to add 20 and 31.\n";
    let ask = |args: &[&str], answer: &str| {
        let mut all = vec!["--tools", tools.as_str()];
        all.extend(args);
        desk.talk(&all, &format!("{question}{answer}"))
    };
    // What comes over a pipe is for the model, and nobody's answer to the program.
    for line in ["y\n", "n\n", "", "always\n"] {
        let refused = ask(&["--tool-rounds", "1"], line);
        for words in [
            "add wants to run: awk 'BEGIN { print ARGV[1] + ARGV[2] }' 20 31",
            "not run: there is no terminal to ask at; --allow add or --yes lets it",
            "the user did not allow the call",
        ] {
            assert!(refused.stderr.contains(words), "{words}: {refused:?}");
        }
        assert!(!refused.stderr.contains("= 51"), "{refused:?}");
        let questions = desk
            .talk(&["--tools", tools.as_str(), "--tool-rounds", "1"], &format!("{question}{line}/turns\n"));
        let turns = 1 + usize::from(!line.is_empty());
        let last = format!("  {turns}  ");
        assert!(questions.stderr.contains(&last), "the line was a question: {questions:?}");
    }
    let yes = ask(&["--yes"], "");
    assert_eq!(yes.text(), "The result is 51.");
    assert!(!yes.stderr.contains("wants to run"), "{yes:?}");
    let allowed = ask(&["--allow", "add"], "");
    assert_eq!(allowed.text(), "The result is 51.");
    assert!(!allowed.stderr.contains("wants to run"), "{allowed:?}");
    let never = ask(&["--tool-choice", "none", "--max-tokens", "20"], "");
    assert!(!never.stderr.contains("add("), "{never:?}");
}

#[test]
fn json_has_a_line_for_each_answer() {
    let desk = Desk::new();
    let lines = |talked: support::Finished| -> Vec<Value> {
        talked.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let plain = lines(desk.talk(&["--json"], "What is the capital of France?\nWhat is 20 + 31?\n"));
    assert_eq!(plain.len(), 2);
    assert_eq!((plain[0]["text"].as_str(), plain[0]["finish_reason"].as_str()), (Some(FRANCE), Some("stop")));
    assert!(plain[1]["timings"]["reused_tokens"].as_u64().unwrap() > 10, "{plain:?}");
    let tools = repository("examples/tools.json");
    let args = ["--json", "--tools", tools.as_str(), "--allow", "add"];
    let called = lines(desk.talk(&args, "Use the tool to add 20 and 31.\n"));
    let call = serde_json::json!({ "name": "add", "arguments": { "a": 20, "b": 31 }, "result": "51" });
    assert_eq!(called[0]["tool_calls"], serde_json::json!([call]));
    assert_eq!(called[0]["text"], "The result is 51.");
    let timings = &called[0]["timings"];
    let prompts = timings["prompt_tokens"].as_u64().unwrap();
    let both = timings["reused_tokens"].as_u64().unwrap() + timings["prefilled_tokens"].as_u64().unwrap();
    assert_eq!(prompts, both, "both answers of the turn: {called:?}");
    assert!(timings["guide_us_per_token"].as_f64().unwrap() > 0.0, "{called:?}");
}

/// Two calls of one answer, of a tool that says it may run twice at the same time.
#[cfg(unix)]
#[test]
fn calls_of_a_tool_that_allows_it_run_at_the_same_time() {
    let desk = Desk::new();
    let (tools, places) = (desk.file.with_file_name("tools.json"), desk.program.home.path().join("met"));
    std::fs::create_dir(&places).unwrap();
    // Each waits until the other one has come too.
    let script = format!(
        "touch {0}/\"$1\"; for i in $(seq 600); do [ $(ls {0} | wc -l) -ge 2 ] && echo sunny && exit; sleep 0.1; done; exit 1",
        places.display()
    );
    let entry = serde_json::json!([{
        "function": { "name": "get_weather", "description": "Gets the weather in a city.", "parameters": {
            "type": "object", "properties": { "city": { "type": "string", "description": "The city." } }, "required": ["city"] } },
        "command": ["sh", "-c", script, "sh", "{city}"], "ask": false, "parallel": true, "seconds": 120,
    }]);
    std::fs::write(&tools, entry.to_string()).unwrap();
    let args = ["--json", "--tools", &tools.display().to_string(), "--tool-rounds", "1"];
    let talked = desk.talk(&args, "What is the weather in Oslo and in Madrid?\n").json();
    let results: Vec<_> =
        talked["tool_calls"].as_array().unwrap().iter().map(|call| &call["result"]).collect();
    assert_eq!(results[..2], ["sunny", "sunny"], "{talked}");
}

#[test]
fn what_is_wrong_with_tools_is_said_before_anything_else() {
    let desk = Desk::new();
    let tools = repository("examples/tools.json");
    desk.talk(&["--tools", "none.json"], "").refused(3, &["none.json"]);
    desk.talk(&["--tools", tools.as_str(), "--allow", "rm"], "").refused(2, &["--allow rm"]);
    desk.talk(&["--tools", tools.as_str(), "--tool-choice", "rm"], "").refused(2, &["--tool-choice rm"]);
    desk.talk(&["--allow", "add"], "").refused(2, &["--tools"]);
    let bad = desk.file.with_file_name("bad.json");
    std::fs::write(&bad, r#"[{ "function": { "name": "t" }, "command": [] }]"#).unwrap();
    desk.talk(&["--tools", &bad.display().to_string()], "").refused(3, &["the tool t", "`command` is empty"]);
}
