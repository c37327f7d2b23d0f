//! Ctrl-C at any moment: an answer stops, a conversation goes on, and what it says next is not changed by it.
//!
//! `RAWLOOP_INTERRUPTS=200 cargo test -p rawloop --test interrupt` runs the long form.

#![cfg(unix)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use support::{ENDLESS, Program};

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Lines of a stream as they come.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        BufReader::new(stream).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
    });
    receiver
}

#[test]
fn a_run_ends_with_130_and_has_printed_its_answer_so_far() {
    let program = Program::new();
    let mut args = vec!["run", "--max-tokens", "8000", "Tell me a story."];
    args.extend(ENDLESS);
    let mut command = program.command(&args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0];
    stdout.read_exact(&mut first).unwrap();
    interrupt(&child);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let finished = child.wait_with_output().unwrap();
    assert_eq!(finished.status.code(), Some(130));
    assert!(String::from_utf8(finished.stderr).unwrap().contains("interrupted"));
}

#[test]
fn a_conversation_survives_ctrl_c_at_random_moments() {
    let count: u64 = std::env::var("RAWLOOP_INTERRUPTS").map_or(10, |count| count.parse().unwrap());
    let program = Program::new();
    let settings = ["--max-tokens", "600", "--chunk", "16"];
    let question = "Tell me a story about a fox and a well that never ran dry.";
    let mut args = vec!["run", question];
    args.extend(settings.iter().chain(&ENDLESS));
    let expected = program.run(&args).text().to_owned();

    let mut args = vec!["chat"];
    args.extend(settings.iter().chain(&ENDLESS));
    let mut command = program.command(&args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let notes = lines(child.stderr.take().unwrap());
    let answers = lines(child.stdout.take().unwrap());
    let mut state = 7u64;
    for round in 0..count {
        if round % 5 == 0 {
            writeln!(stdin, "/reset").unwrap();
            assert_eq!(notes.recv().unwrap(), "(the conversation is forgotten)");
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // A signal that comes before the line is read has nothing to stop, and an answer may end by itself without a word: then it
        // is asked again. Not soon: a second signal on its way could cut the answer after this one.
        let note = loop {
            writeln!(stdin, "{question} Part {round}.").unwrap();
            std::thread::sleep(Duration::from_micros((state >> 33) % 60_000));
            interrupt(&child);
            if let Ok(note) = notes.recv_timeout(Duration::from_secs(5)) {
                break note;
            }
        };
        assert!(note == "(stopped)" || note.starts_with("(ended after"), "{note}");
    }
    writeln!(stdin, "/reset").unwrap();
    assert_eq!(notes.recv().unwrap(), "(the conversation is forgotten)");
    // What was answered so far is of no interest; what comes now is that of a fresh program.
    while answers.try_recv().is_ok() {}
    writeln!(stdin, "{question}").unwrap();
    drop(stdin);
    let after: Vec<String> = answers.iter().collect();
    assert!(child.wait().unwrap().success());
    assert!(after.join("\n").ends_with(&expected), "{after:?}\n{expected:?}");
}

#[test]
fn a_waiting_conversation_is_not_ended_by_ctrl_c_but_by_the_other_signals() {
    let program = Program::new();
    let mut command = program.command(&["chat", "--greedy"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let answers = lines(child.stdout.take().unwrap());
    writeln!(stdin, "What is the capital of France?").unwrap();
    assert_eq!(answers.recv().unwrap(), "The capital of France is Paris.");
    interrupt(&child);
    // The signal may arrive after the next answer has begun and cut it, even to nothing; the conversation goes on either way.
    let sum = "20 + 31 = 51.";
    writeln!(stdin, "What is 20 + 31?\n/reset\nWhat is 20 + 31?").unwrap();
    loop {
        let answer = answers.recv().unwrap();
        assert!(sum.starts_with(&answer), "{answer:?}");
        if answer == sum {
            break;
        }
    }
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    assert!(!child.wait().unwrap().success());
}
