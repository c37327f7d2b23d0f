//! `rawloop chat` over a pipe.

mod support;

use support::Program;

fn talk(program: &Program, args: &[&str], lines: &str) -> support::Finished {
    let mut all = vec!["chat", "--greedy"];
    all.extend(args);
    program.pipe(&all, lines.as_bytes())
}

#[test]
fn each_line_is_a_turn_and_only_answers_go_to_stdout() {
    let program = Program::new();
    let talked = talk(&program, &[], "What is the capital of France?\n\nWhat is 20 + 31?\n");
    assert_eq!(talked.text(), "The capital of France is Paris.\n20 + 31 = 51.");
    assert_eq!(talked.stderr, "");
    let unfinished = talk(&program, &[], "What is the capital of France?");
    assert_eq!(unfinished.text(), "The capital of France is Paris.", "no newline at the end is needed");
    assert_eq!(talk(&program, &[], "").text(), "");
}

#[test]
fn the_conversation_is_remembered_until_it_is_reset() {
    let program = Program::new();
    let question = "What is the capital of France?\n";
    let stats = |lines: &str| talk(&program, &[], lines).stderr;
    let second = stats(&format!("{question}{question}/stats\n"));
    assert!(second.contains("2 turns") && !second.contains("(0 reused)"), "{second}");
    let reset = talk(&program, &[], &format!("{question}/reset\n{question}"));
    let answers: Vec<&str> = reset.text().lines().collect();
    assert_eq!(answers[0], answers[1], "a new conversation answers as the first one did");
}

#[test]
fn commands_answer_on_stderr() {
    let program = Program::new();
    let talked = talk(
        &program,
        &["--system", "Be brief."],
        "/help\n/system\n/system Be kind.\n/system\n/nothing\n/stats\n",
    );
    assert_eq!(talked.text(), "");
    for words in ["/reset", "Be brief.", "Be kind.", "no command /nothing", "positions held", "running on"] {
        assert!(talked.stderr.contains(words), "{words}: {talked:?}");
    }
    let left = talk(&program, &[], "/exit\nWhat is the capital of France?\n");
    assert_eq!(left.text(), "", "nothing is answered after /exit");
}

#[test]
fn an_entry_may_have_several_lines() {
    let program = Program::new();
    let joined = talk(&program, &[], "What is the\\\ncapital of France?\n/stats\n");
    assert!(joined.stderr.contains("1 turns"), "{joined:?}");
    let block = talk(&program, &[], "\"\"\"\nWhat is the\ncapital of France?\"\"\"\n/stats\n");
    assert_eq!(block.text(), joined.text());
    let open = talk(&program, &[], "\"\"\"What is the\ncapital of France?");
    assert_eq!(open.text(), joined.text(), "the end of the pipe ends a block");
}

#[test]
fn a_prompt_that_does_not_fit_ends_a_script_with_4() {
    let program = Program::new();
    let long = format!("{}\n", "word ".repeat(500));
    let talked = talk(&program, &["--ctx", "256"], &long);
    talked.refused(4, &["context holds 256"]);
}

#[test]
fn thoughts_stay_out_of_the_answers() {
    let program = Program::new();
    let talked = talk(&program, &["--thinking"], "What is 20 + 31?\n");
    assert!(talked.text().contains("51"), "{talked:?}");
    assert!(!talked.stderr.trim().is_empty() && !talked.stdout.contains("channel"), "{talked:?}");
}
