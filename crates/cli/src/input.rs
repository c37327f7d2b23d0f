//! Where a conversation's lines come from: an editor on a terminal, plain lines on a pipe or a dumb terminal.
//!
//! An entry may span lines: a backslash at the end of a line continues it, three quotes open a block that the next three
//! quotes at the end of a line close.

mod editor;

use std::io::{BufRead, IsTerminal, Write, stderr, stdin, stdout};
use std::path::PathBuf;

use editor::Offers;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Config, Editor};

use crate::exit::Failure;
use crate::screen::is_dumb;

const PROMPT: &str = "> ";
const CONTINUATION: &str = "... ";
const FENCE: &str = "\"\"\"";
/// Earlier inputs that are kept.
const HISTORY: usize = 1000;

/// What was entered.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// Text, its lines joined.
    Text(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// What a person says to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Ctrl-C: no, and the answer is over.
    Stop,
    /// This once.
    Yes,
    /// From now on.
    Always,
    /// Not before all of it has been shown.
    Show,
    /// Not; also where nobody answers.
    No,
}

/// A source of entries.
pub enum Input {
    /// A terminal that can be edited on.
    Editor(Box<Terminal>),
    /// Anything else; `prompt` says whether a person waits for one.
    Lines {
        /// Show prompts on stderr.
        prompt: bool,
    },
}

/// The editor and its file.
pub struct Terminal {
    editor: Editor<Offers, DefaultHistory>,
    file: Option<PathBuf>,
}

impl Input {
    /// The source that fits stdin and stdout. An editor completes `commands`.
    pub fn open(with_history: bool, commands: Vec<String>) -> Result<Input, Failure> {
        let terminal = stdin().is_terminal();
        if !terminal || !stdout().is_terminal() || is_dumb() {
            return Ok(Input::Lines { prompt: terminal });
        }
        let failed = |error: ReadlineError| Failure::new(crate::exit::Code::Other, error);
        let config =
            Config::builder().max_history_size(HISTORY).map_err(failed)?.auto_add_history(false).build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Offers::new(commands)));
        let file = with_history.then(history_file).flatten();
        if let Some(file) = &file {
            // There is none the first time.
            let _ = editor.load_history(file);
        }
        Ok(Input::Editor(Box::new(Terminal { editor, file })))
    }

    /// Earlier entries that contain all of these words, the newest first and each once. None where nothing is kept.
    pub fn earlier(&self, words: &str) -> Option<Vec<String>> {
        let Input::Editor(terminal) = self else { return None };
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let mut found: Vec<String> = Vec::new();
        for entry in terminal.editor.history().iter().rev() {
            let lower = entry.to_lowercase();
            if words.iter().all(|word| lower.contains(word)) && !found.contains(entry) {
                found.push(entry.clone());
            }
        }
        Some(found)
    }

    /// Whether a person is on the other side.
    pub fn is_interactive(&self) -> bool {
        !matches!(self, Input::Lines { prompt: false })
    }

    /// The next entry.
    pub fn read(&mut self) -> Result<Entry, Failure> {
        let first = match self.line(PROMPT)? {
            Entry::Text(line) => line,
            other => return Ok(other),
        };
        let mut entry = Assembly::begin(first);
        while !entry.is_complete() {
            match self.line(CONTINUATION)? {
                Entry::Text(line) => entry.add(&line),
                Entry::Interrupted => return Ok(Entry::Interrupted),
                // What is there is meant: a pipe that ends inside a block has nothing more to say.
                Entry::End => break,
            }
        }
        let text = entry.finish();
        if let Input::Editor(terminal) = self {
            terminal.remember(&text);
        }
        Ok(Entry::Text(text))
    }

    /// Whether there is a person who can be asked. The lines of a pipe are for the model: none of them is an answer.
    pub fn can_ask(&self) -> bool {
        self.is_interactive()
    }

    /// Asks a question. Where nobody can be asked the answer is no.
    pub fn consent(&mut self, question: &str) -> Consent {
        if !self.can_ask() {
            return Consent::No;
        }
        let line = match self.line(question) {
            Ok(Entry::Text(line)) => line,
            Ok(Entry::Interrupted) => return Consent::Stop,
            _ => return Consent::No,
        };
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Consent::Yes,
            "a" | "always" => Consent::Always,
            "s" | "show" => Consent::Show,
            _ => Consent::No,
        }
    }

    fn line(&mut self, prompt: &str) -> Result<Entry, Failure> {
        match self {
            Input::Editor(terminal) => match terminal.editor.readline(prompt) {
                Ok(line) => Ok(Entry::Text(line)),
                Err(ReadlineError::Interrupted) => Ok(Entry::Interrupted),
                Err(ReadlineError::Eof) => Ok(Entry::End),
                Err(error) => Err(Failure::new(crate::exit::Code::Other, error)),
            },
            Input::Lines { prompt: shown } => {
                if *shown {
                    let _ = stderr().write_all(prompt.as_bytes());
                }
                let mut bytes = Vec::new();
                if stdin().lock().read_until(b'\n', &mut bytes)? == 0 {
                    return Ok(Entry::End);
                }
                let line =
                    String::from_utf8(bytes).map_err(|_| Failure::input("a line on stdin is not UTF-8"))?;
                Ok(Entry::Text(line.trim_end_matches(['\n', '\r']).to_owned()))
            }
        }
    }
}

impl Terminal {
    fn remember(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        // A history that cannot be written is no reason to stop talking.
        if self.editor.add_history_entry(text).unwrap_or(false)
            && let Some(file) = &self.file
        {
            let _ = self.editor.save_history(file);
        }
    }
}

/// The lines of one entry.
#[derive(Debug)]
struct Assembly {
    text: String,
    fenced: bool,
    complete: bool,
}

impl Assembly {
    fn begin(line: String) -> Assembly {
        match line.trim_start().strip_prefix(FENCE) {
            Some(rest) => {
                let mut entry = Assembly { text: String::new(), fenced: true, complete: false };
                // Nothing behind the quotes: the block begins in the next line.
                if !rest.trim().is_empty() {
                    entry.add(rest);
                }
                entry
            }
            None => {
                let mut entry = Assembly { text: String::new(), fenced: false, complete: false };
                entry.add(&line);
                entry
            }
        }
    }

    fn add(&mut self, line: &str) {
        let (part, complete) = if self.fenced {
            match line.trim_end().strip_suffix(FENCE) {
                Some(part) => (part, true),
                None => (line, false),
            }
        } else {
            match line.strip_suffix('\\') {
                Some(part) => (part, false),
                None => (line, true),
            }
        };
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(part);
        self.complete = complete;
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn finish(self) -> String {
        self.text
    }
}

/// Where earlier inputs are kept, readable for the user alone.
fn history_file() -> Option<PathBuf> {
    let folder = dirs::state_dir().or_else(dirs::data_local_dir)?.join("rawloop");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("chat-history.txt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(lines: &[&str]) -> (String, bool, usize) {
        let mut entry = Assembly::begin(lines[0].into());
        let mut used = 1;
        while !entry.is_complete() && used < lines.len() {
            entry.add(lines[used]);
            used += 1;
        }
        let complete = entry.is_complete();
        (entry.finish(), complete, used)
    }

    #[test]
    fn a_line_is_an_entry_unless_it_says_otherwise() {
        assert_eq!(assemble(&["hello", "x"]), ("hello".into(), true, 1));
        assert_eq!(assemble(&["one\\", "two\\", "three", "x"]), ("one\ntwo\nthree".into(), true, 3));
        assert_eq!(assemble(&["one\\"]), ("one".into(), false, 1));
        assert_eq!(assemble(&["", "x"]), (String::new(), true, 1));
    }

    #[test]
    fn three_quotes_make_a_block() {
        assert_eq!(assemble(&["\"\"\"", "a\\", "", "b", "\"\"\"", "x"]), ("a\\\n\nb\n".into(), true, 5));
        assert_eq!(assemble(&["\"\"\"a", "b\"\"\"  ", "x"]), ("a\nb".into(), true, 2));
        assert_eq!(assemble(&["\"\"\"all in one\"\"\"", "x"]), ("all in one".into(), true, 1));
        assert_eq!(assemble(&["\"\"\"", "never closed"]), ("never closed".into(), false, 2));
    }
}
