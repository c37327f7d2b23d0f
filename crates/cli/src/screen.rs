//! Where an answer is written while it is made.
//!
//! On a terminal thoughts are dimmed and stand before the answer; elsewhere stdout carries the answer alone and thoughts go
//! to stderr. In a conversation Markdown is laid out (`screen/markdown`), and while a long prompt is read a line says how far. Text from a model is untrusted: control characters other than newline and tab would let it move the cursor
//! or retitle the window, so on a terminal they are shown as symbols. A reader that has gone away ends the answer.

mod markdown;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use markdown::Markdown;
use rawloop_engine::chat::ParsedCall;

const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";
/// To the start of the line, and nothing left on it.
const CLEAR: &str = "\r\x1b[K";
/// A prompt that is read faster than this needs no word about it.
const PATIENCE: Duration = Duration::from_millis(400);
/// Columns of a terminal that does not say.
const COLUMNS: usize = 80;

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
    layout: Option<Markdown>,
    started: Instant,
    /// Whether the current line says how far the prompt is read.
    waiting: bool,
}

impl Screen {
    /// A screen for one answer. Thoughts are left out where `show_thoughts` is false.
    pub fn new(show_thoughts: bool) -> Screen {
        let terminal = stdout().is_terminal();
        Screen {
            terminal,
            colour: terminal && has_colour(),
            show_thoughts,
            in_thought: false,
            line_ended: true,
            gone: false,
            layout: None,
            started: Instant::now(),
            waiting: false,
        }
    }

    /// With Markdown laid out, where the terminal knows styles.
    pub fn laid_out(mut self) -> Screen {
        if self.colour {
            let columns = terminal_size::terminal_size().map_or(COLUMNS, |(width, _)| usize::from(width.0));
            self.layout = Some(Markdown::new(columns));
        }
        self
    }

    /// How far the prompt is read, once that takes a while. The line goes when anything else comes.
    pub fn progress(&mut self, done: usize, total: usize) -> ControlFlow<()> {
        if self.colour && self.line_ended && !self.in_thought && self.started.elapsed() >= PATIENCE {
            let line = format!("{CLEAR}{DIM}(reading the prompt: {done} of {total} tokens){PLAIN}");
            self.write(&line);
            self.waiting = true;
        }
        self.flow()
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
        if !self.in_thought {
            self.end_layout();
            if self.colour {
                self.put(DIM);
            }
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
        let text = if self.terminal { shown(text) } else { Cow::Borrowed(text) };
        match &mut self.layout {
            None => self.put(&text),
            Some(layout) => {
                let text = layout.push(&text);
                self.put(&text);
            }
        }
        self.flow()
    }

    /// A call that the model asks for, on a line of its own.
    pub fn call(&mut self, call: &ParsedCall) -> ControlFlow<()> {
        self.end();
        let arguments = serde_json::Value::Object(call.arguments.clone());
        let line = format!("{}({arguments})\n", call.name);
        self.put(if self.terminal { shown(&line) } else { Cow::Borrowed(&*line) }.as_ref());
        self.flow()
    }

    /// Ends the last line, if there is one.
    pub fn end(&mut self) {
        self.leave_thought();
        self.end_layout();
        if self.waiting {
            self.waiting = false;
            self.write(CLEAR);
        }
        if !self.line_ended {
            self.put("\n");
        }
    }

    fn end_layout(&mut self) {
        if let Some(layout) = &mut self.layout {
            let rest = layout.end();
            self.put(&rest);
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
        if text.is_empty() {
            return;
        }
        if self.waiting {
            self.waiting = false;
            self.write(CLEAR);
        }
        self.write(text);
        self.line_ended = text.ends_with('\n');
    }

    fn write(&mut self, text: &str) {
        let mut out = stdout().lock();
        self.gone |= out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err();
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Whether a terminal may be sent styles.
pub fn has_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && !is_dumb()
}

/// A line for the person, dimmed where stderr is a terminal that knows how.
pub fn aside(text: impl Display) {
    if stderr().is_terminal() && has_colour() {
        note(format_args!("{DIM}{text}{PLAIN}"));
    } else {
        note(text);
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
