//! The examples of docs/cookbook.md do what the page says.
//!
//! A block whose first line is ```` ```KIND NAME ```` is a file; a `console` block holds commands behind `$ ` and what each prints; a
//! `sh` block holds commands for a model that is not here: they are taken as far as that.
//! `RAWLOOP_UPDATE=1` writes what is printed into the page.

#![cfg(unix)] // the commands are a shell's

mod support;

use std::path::Path;

use rawloop_engine::ops::{OPS, UNSUPPORTED};
use support::{Finished, Program, root};

/// The page, block by block: the text of each fenced block with its kind, and everything else.
fn blocks(page: &str) -> Vec<(Option<&str>, Vec<&str>)> {
    let mut blocks: Vec<(Option<&str>, Vec<&str>)> = vec![(None, Vec::new())];
    for line in page.lines() {
        let inside = blocks.last().unwrap().0.is_some();
        match line.strip_prefix("```") {
            Some(kind) if !inside => blocks.push((Some(kind), Vec::new())),
            Some(_) => blocks.push((None, Vec::new())),
            None => blocks.last_mut().unwrap().1.push(line),
        }
    }
    blocks
}

/// Runs a line in a shell that finds the program, in a folder.
fn shell(program: &Program, folder: &Path, line: &str) -> Finished {
    let bin = Path::new(env!("CARGO_BIN_EXE_rawloop")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = std::process::Command::new("sh");
    command.args(["-c", line]).current_dir(folder).env("PATH", path).env("HOME", program.home.path());
    Finished::from(command.stdin(std::process::Stdio::null()).output().unwrap())
}

#[test]
fn every_command_of_the_cookbook_prints_what_the_page_shows() {
    let path = root().join("docs/cookbook.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    let (mut written, mut commands) = (String::new(), Vec::new());
    for (kind, lines) in blocks(&page) {
        if kind == Some("console") {
            written += "```console\n";
            for line in &lines {
                // What is printed may have empty lines; only a command begins with the prompt.
                if let Some(command) = line.strip_prefix("$ ") {
                    let printed = shell(&program, folder.path(), command);
                    // Another code is shown by the command itself.
                    assert_eq!(printed.code, 0, "{command}: {printed:?}");
                    written += &format!("{line}\n{}", printed.stdout);
                    commands.push(command);
                }
            }
            written += "```\n";
            continue;
        }
        if kind == Some("sh") {
            for command in &lines {
                let ended = shell(&program, folder.path(), command);
                assert_eq!((ended.code, ended.stdout.as_str()), (3, ""), "{command}: {ended:?}");
                assert!(ended.stderr.contains("e2b.rlp"), "{command}: {ended:?}");
                commands.push(command);
            }
        }
        if let Some((_, name)) = kind.and_then(|kind| kind.split_once(' ')) {
            std::fs::write(folder.path().join(name), lines.join("\n") + "\n").unwrap();
        }
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        written += &kind.map_or(body.clone(), |kind| format!("```{kind}\n{body}```\n"));
    }
    if std::env::var_os("RAWLOOP_UPDATE").is_some() {
        std::fs::write(&path, &written).unwrap();
    } else {
        for (shown, found) in page.lines().zip(written.lines()) {
            assert_eq!(shown, found, "RAWLOOP_UPDATE=1 writes what is printed into the page");
        }
        assert_eq!(page, written);
    }
    for op in OPS {
        let shown =
            commands.iter().any(|command| command.contains("rawloop op") && command.contains(op.name));
        assert!(shown, "{} has no example", op.name);
    }
}

#[test]
fn the_list_names_every_operation() {
    let program = Program::new();
    let list = program.run(&["op", "--list"]);
    for name in OPS.iter().map(|op| op.name).chain(UNSUPPORTED.iter().map(|op| op.name)) {
        assert!(list.text().lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}");
    }
    let json = program.run(&["op", "--list", "--json"]).json();
    assert_eq!(json["operations"].as_array().unwrap().len(), OPS.len());
    assert_eq!(json["operations"][0]["options"][0]["default"], "concise");
    assert_eq!(json["not_supported"].as_array().unwrap().len(), 14);
}

#[test]
fn what_cannot_be_done_is_refused_with_its_code() {
    let program = Program::new();
    let text = b"Ana lives in Oslo.";
    program.pipe(&["op", "upscale"], text).refused(2, &["needs a model of images"]);
    program.pipe(&["op", "sumarize"], text).refused(2, &["there is no operation `sumarize`", "summarize"]);
    program.pipe(&["op", "translate"], text).refused(2, &["needs `to`"]);
    program.pipe(&["op", "title", "--to", "French"], text).refused(2, &["`title` has no option `to`"]);
    program.pipe(&["op", "extract", "--schema", "none.json"], text).refused(3, &["none.json"]);
    program.run(&["op", "title", "missing.txt"]).refused(3, &["missing.txt"]);
    program.run(&["op", "compare", "-", "-"]).refused(2, &["can be read once"]);
    program.pipe(&["op", "compare"], text).refused(2, &["takes 2 text(s), 1 given"]);
    let short = ["op", "title", "--piece-tokens", "1"];
    program.pipe(&short, text).refused(2, &["`1` is not possible for `piece-tokens`", "at least 16 tokens"]);
    program.pipe(&["op", "title"], b" \n").refused(2, &["is empty"]);
    program.pipe(&["op", "title"], b"a\xff").refused(3, &["not UTF-8: byte 1"]);
    program.pipe(&["op", "extract", "--fields", "a", "--ctx", "40"], text).refused(4, &["context of 40"]);
    program.run(&["op"]).refused(2, &["<NAME>"]);
}

#[test]
fn long_texts_are_worked_on_in_pieces_and_json_says_what_it_took() {
    let program = Program::new();
    let text = "Ana lives in Rome and works as a baker.\n\n".repeat(60);
    let args = ["op", "proofread", "--ctx", "256", "--json", "--threads", "1"];
    let answer = program.pipe(&args, text.as_bytes()).json();
    let number = |key: &str| answer[key].as_u64().unwrap();
    assert!(number("pieces") > 3 && number("prompts") >= number("pieces"), "{answer}");
    assert_eq!(number("prompt_tokens"), number("reused_tokens") + number("prefilled_tokens"));
    let per_verify = answer["tokens_per_verify"].as_f64().unwrap();
    assert!(number("verify_steps") > 0 && (1.0..=9.0).contains(&per_verify), "{answer}");
    assert_eq!((&answer["op"], &answer["labels"]["context"]), (&"proofread".into(), &256.into()));
    // Three times the context, and more.
    let args = ["op", "summarize", "--style", "one-line", "--ctx", "256", "--json", "--threads", "1"];
    let answer = program.pipe(&args, text.as_bytes()).json();
    assert!(answer["prompt_tokens"].as_u64().unwrap() > 3 * 256 && answer["text"] != "", "{answer}");
}
