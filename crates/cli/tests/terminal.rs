//! `rawloop chat` at a terminal: prompts, dimmed thoughts, laid out Markdown, Ctrl-C, Ctrl-D, earlier inputs, a dumb terminal.

#![cfg(unix)]

mod support;

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use support::{ENDLESS, Program};

/// The editor switches this on when it begins to read a line, and not when it draws one anew.
const READY: &str = "\x1b[?2004h";

/// And off when it has read it.
const TAKEN: &str = "\x1b[?2004l";

/// A program at a terminal.
struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    /// Kept open: closing it hangs up.
    _master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    /// What has been shown and not been waited for yet.
    shown: String,
}

impl Terminal {
    fn open(program: &Program, term: &str, args: &[&str]) -> Terminal {
        let pair =
            native_pty_system().openpty(PtySize { rows: 40, cols: 200, ..PtySize::default() }).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_rawloop"));
        command.args(args);
        command.env("TERM", term);
        command.env_remove("NO_COLOR");
        for variable in ["HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
            command.env(variable, program.home.path());
        }
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { child, _master: pair.master, keys, output, shown: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until a text is shown and returns everything up to its end.
    #[track_caller]
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(text) {
                return self.shown.drain(..at + text.len()).collect();
            }
            // A minute without a sign is no slow machine.
            match self.output.recv_timeout(Duration::from_secs(60)) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => {
                    let _ = self.child.kill();
                    panic!("waited for {text:?} and was shown {:?}", self.shown)
                }
            }
        }
    }

    /// Waits until so many bytes more are shown, whatever they are.
    fn wait_for_more(&mut self, count: usize) {
        while self.shown.len() < count {
            match self.output.recv_timeout(Duration::from_secs(60)) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("waited for {count} bytes and was shown {:?}", self.shown),
            }
        }
    }

    /// Waits until the next line is read: only then a key is a key. Between two lines the terminal belongs to the system, and a Ctrl-D
    /// that comes then ends nothing.
    #[track_caller]
    fn ready(&mut self) -> String {
        self.wait_for(READY)
    }

    /// Everything that is shown until the program ends, which it does with success.
    fn rest(mut self) -> String {
        // The terminal closes with the program, and the channel with the terminal.
        while let Ok(bytes) = self.output.recv() {
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        assert!(self.child.wait().unwrap().success(), "{}", self.shown);
        self.shown
    }

    /// Ctrl-D at a line that is being read ends the program with success.
    #[track_caller]
    fn leave(mut self) {
        self.press("\x04");
        self.ends();
    }

    /// The program ends with success, within a minute of its last sign.
    #[track_caller]
    fn ends(mut self) {
        loop {
            match self.output.recv_timeout(Duration::from_secs(60)) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    panic!("the program goes on, having shown {:?}", self.shown)
                }
            }
        }
        assert!(self.child.wait().unwrap().success(), "{}", self.shown);
    }
}

#[test]
fn a_terminal_shows_prompts_and_dims_thoughts() {
    let program = Program::new();
    let mut terminal = Terminal::open(&program, "xterm-256color", &["chat", "--greedy", "--thinking"]);
    let banner = terminal.wait_for("Ctrl-D leaves.");
    assert!(banner.contains("/help"), "{banner}");
    terminal.ready();
    terminal.press("What is 20 + 31?\r");
    terminal.wait_for("\x1b[2m");
    let thought = terminal.wait_for("\x1b[0m");
    assert!(thought.contains("51") && !thought.contains("channel"), "{thought}");
    terminal.wait_for("51");
    terminal.ready();
    // A continued line, a Ctrl-C that only clears the line, a command.
    terminal.press("What is the \\\r");
    terminal.wait_for("... ");
    terminal.press("capital of France?\r");
    let answer = terminal.ready();
    assert!(answer.contains("France"), "{answer}");
    terminal.press("half a line\x03");
    terminal.wait_for("(Ctrl-D leaves)");
    terminal.ready();
    terminal.press("/stats\r");
    terminal.wait_for("2 turns");
    terminal.ready();
    terminal.leave();
    let history = program.home.path().join("rawloop/chat-history.txt");
    let history = std::fs::read_to_string(history).unwrap();
    assert!(history.contains("What is 20 + 31?") && !history.contains("half a line"), "{history}");
}

#[test]
fn ctrl_c_at_a_terminal_stops_the_answer_and_keeps_the_conversation() {
    let program = Program::new();
    let mut args = vec!["chat", "--max-tokens", "8000", "--no-history"];
    args.extend(ENDLESS);
    let mut terminal = Terminal::open(&program, "xterm", &args);
    terminal.ready();
    for _ in 0..3 {
        terminal.press("Tell me a story about a fox.\r");
        terminal.wait_for(TAKEN);
        terminal.wait_for_more(60);
        terminal.press("\x03");
        terminal.wait_for("(stopped)");
        terminal.ready();
    }
    terminal.press("/stats\r");
    terminal.wait_for("3 turns");
    terminal.ready();
    terminal.press("/exit\r");
    terminal.ends();
    assert!(!program.home.path().join("rawloop").exists(), "no history was asked for");
}

#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let program = Program::new();
    let mut terminal = Terminal::open(&program, "dumb", &["chat", "--greedy", "--thinking"]);
    terminal.wait_for("> ");
    terminal.press("What is 20 + 31?\n");
    let answer = terminal.wait_for("\r\n\r\n> ");
    assert!(answer.contains("51") && !answer.contains('\x1b'), "{answer}");
    terminal.leave();
}

#[test]
fn a_call_is_shown_and_asked_for() {
    let program = Program::new();
    let tools = support::repository("examples/tools.json");
    let args = ["chat", "--greedy", "--no-history", "--tools", tools.as_str()];
    let mut terminal = Terminal::open(&program, "xterm", &args);
    terminal.ready();
    terminal.press("Use the tool to add 20 and 31.\r");
    terminal.wait_for("ARGV[2] }' 20 31");
    terminal.ready();
    terminal.wait_for("run it?");
    // Nothing was left out, so there is no more to show; anything but a yes is a no.
    terminal.press("y\r");
    terminal.wait_for("The result is 51.");
    terminal.ready();
    terminal.leave();
}

/// A flag that makes every token of an answer this one.
fn always(text: &str) -> String {
    let tokenizer =
        std::fs::read_to_string(support::repository("models/tiny/checkpoint/tokenizer.json")).unwrap();
    let tokenizer: serde_json::Value = serde_json::from_str(&tokenizer).unwrap();
    format!("--bias={}=100", tokenizer["model"]["vocab"][text])
}

#[test]
fn markdown_is_laid_out_unless_it_is_to_be_plain() {
    let program = Program::new();
    let ticks = always("`");
    let mut args = vec!["chat", "--greedy", "--no-history", "--max-tokens", "4", ticks.as_str()];
    for (plain, shown) in [(false, "\x1b[0;2m````\x1b[0m\r\n"), (true, "\n````\r\n")] {
        if plain {
            args.push("--plain");
        }
        let mut terminal = Terminal::open(&program, "xterm", &args);
        terminal.ready();
        terminal.press("Hello\r");
        terminal.wait_for(TAKEN);
        let answer = terminal.wait_for("--max-tokens");
        assert!(answer.contains(shown), "{answer:?}");
        // What the answer cost stands below it, dimmed.
        let cost = terminal.ready();
        assert!(cost.contains("\x1b[2m4 tokens") && cost.contains("first after"), "{cost:?}");
        terminal.leave();
    }
}

#[test]
fn earlier_inputs_are_offered_searched_and_listed() {
    let program = Program::new();
    let args = ["chat", "--greedy", "--max-tokens", "3"];
    let mut terminal = Terminal::open(&program, "xterm", &args);
    for question in ["What is 20 + 31?", "What is the capital of France?"] {
        terminal.ready();
        terminal.press(question);
        terminal.press("\r");
        terminal.wait_for("first after");
    }
    terminal.ready();
    terminal.press("/history CAPITAL what\r");
    terminal.wait_for(TAKEN);
    let listed = terminal.ready();
    assert!(listed.contains("capital of France?") && !listed.contains("20 + 31"), "{listed:?}");
    terminal.press("/history nothing like it\r");
    terminal.wait_for("(there are none)");
    terminal.ready();
    // The rest of an earlier line is offered dimmed; the right arrow takes it.
    terminal.press("What is 2");
    terminal.wait_for("\x1b[2m0 + 31?\x1b[0m");
    terminal.press("\x1b[C\r");
    terminal.wait_for(TAKEN);
    terminal.wait_for("first after");
    terminal.ready();
    // Ctrl-R finds by any part.
    terminal.press("\x12France");
    terminal.wait_for("capital of France?");
    terminal.press("\r");
    terminal.wait_for("first after");
    terminal.ready();
    // Tab completes a command.
    terminal.press("/turn\t\r");
    let turns = terminal.wait_for("4  What is the capital of France?");
    assert!(turns.contains("3  What is 20 + 31?"), "{turns:?}");
    terminal.ready();
    terminal.leave();
}

#[test]
fn copying_a_model_to_an_adapter_shows_how_far_it_is_at_a_terminal_only() {
    let program = Program::new();
    let report = program.run(&["doctor", "--json", "--no-measure"]).json();
    if report["adapters"].as_array().unwrap().is_empty() {
        println!("nothing to test on: there is no adapter");
        return;
    }
    let args = ["generate", "--prompt-ids", "2,105", "--max-tokens", "1", "--ctx", "64", "--backend", "wgpu"];
    let shown = Terminal::open(&program, "xterm-256color", &args).rest();
    // The line is wiped behind it.
    assert!(shown.contains("copying to the device") && shown.contains("\x1b[2K"), "{shown:?}");
    let quiet = Terminal::open(&program, "xterm-256color", &[&args[..], &["-q"]].concat()).rest();
    assert!(!quiet.contains("copying"), "{quiet:?}");
    let piped = program.run(&args);
    assert!(!piped.stderr.contains("copying"), "{}", piped.stderr);
}
