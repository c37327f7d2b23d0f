//! Where an answer is written while it is made.
//!
//! On a terminal thoughts are dimmed and stand before the answer; elsewhere stdout carries the answer alone and thoughts go
//! to stderr. Text from a model is untrusted: control characters other than newline and tab would let it move the cursor
//! or retitle the window, so on a terminal they are shown as symbols. A reader that has gone away ends the answer.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::ops::ControlFlow;

use rawloop_engine::chat::ParsedCall;

const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// Writes a line for the person to stderr. Unlike the macro it does not panic when nobody reads it.
pub fn note(text: impl Display) {
    let _ = writeln!(stderr(), "{text}");
}

/// An answer on its way out.
pub struct Screen {
    terminal: bool,
    colour: bool,
    show_thoughts: bool,
    in_thought: bool,
    /// Whether the last thing written to stdout ended a line.
    line_ended: bool,
    gone: bool,
}

impl Screen {
    /// A screen for one answer. Thoughts are left out where `show_thoughts` is false.
    pub fn new(show_thoughts: bool) -> Screen {
        let terminal = stdout().is_terminal();
        Screen {
            terminal,
            colour: terminal && std::env::var_os("NO_COLOR").is_none() && !is_dumb(),
            show_thoughts,
            in_thought: false,
            line_ended: true,
            gone: false,
        }
    }

    /// Whether nobody reads the answer any more.
    pub fn gone(&self) -> bool {
        self.gone
    }

    /// More of the thought.
    pub fn thought(&mut self, text: &str) -> ControlFlow<()> {
        if !self.show_thoughts || text.is_empty() {
            return self.flow();
        }
        if !self.terminal {
            // A closed stderr is no reason to stop an answer that goes to stdout.
            let text = if stderr().is_terminal() { shown(text) } else { Cow::Borrowed(text) };
            let _ = stderr().write_all(text.as_bytes());
            self.in_thought = true;
            return self.flow();
        }
        if !self.in_thought && self.colour {
            self.put(DIM);
        }
        self.in_thought = true;
        self.put(&shown(text));
        self.flow()
    }

    /// More of the answer.
    pub fn text(&mut self, text: &str) -> ControlFlow<()> {
        if text.is_empty() {
            return self.flow();
        }
        self.leave_thought();
        if self.terminal {
            self.put(&shown(text))
        } else {
            self.put(text)
        }
        self.flow()
    }

    /// A call that the model asks for, on a line of its own.
    pub fn call(&mut self, call: &ParsedCall) -> ControlFlow<()> {
        self.end();
        let arguments = serde_json::Value::Object(call.arguments.clone());
        self.text(&format!("{}({arguments})\n", call.name))
    }

    /// Ends the last line, if there is one.
    pub fn end(&mut self) {
        self.leave_thought();
        if !self.line_ended {
            self.put("\n");
        }
    }

    fn leave_thought(&mut self) {
        if !self.in_thought {
            return;
        }
        self.in_thought = false;
        if !self.terminal {
            let _ = stderr().write_all(b"\n");
            return;
        }
        if self.colour {
            self.put(PLAIN);
        }
        self.put("\n\n");
    }

    fn put(&mut self, text: &str) {
        let mut out = stdout().lock();
        self.gone |= out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err();
        self.line_ended = text.ends_with('\n');
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Whether the terminal understands no control sequences.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Text without control characters that a terminal would obey.
pub fn shown(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let symbol = |c: char| match c {
        _ if !obeyed(c) => c,
        // The pictures of the first 32 control characters and of delete have a block of their own.
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\x7f' => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    };
    Cow::Owned(text.chars().map(symbol).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_lose_their_power_and_text_keeps_its_shape() {
        assert_eq!(shown("a\tb\nçé 😀"), "a\tb\nçé 😀");
        assert_eq!(shown("\x1b]0;title\x07\x7f\u{9b}"), "\u{241b}]0;title\u{2407}\u{2421}\u{fffd}");
    }
}
