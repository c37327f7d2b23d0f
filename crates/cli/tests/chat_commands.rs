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
    let yes = ask(&[], "y\n");
    assert_eq!(yes.text(), "The result is 51.");
    for words in ["add wants to run: awk 'BEGIN { print ARGV[1] + ARGV[2] }' 20 31", "= 51"] {
        assert!(yes.stderr.contains(words), "{words}: {yes:?}");
    }
    for no in ["n\n", "", "perhaps\n"] {
        let refused = ask(&["--tool-rounds", "1"], no);
        assert!(refused.stderr.contains("the user did not allow the call"), "{refused:?}");
        assert!(!refused.stderr.contains("= 51"), "{refused:?}");
    }
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
