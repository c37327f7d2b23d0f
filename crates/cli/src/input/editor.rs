//! What the line editor offers at the prompt: Tab completes a command, and a line that began like this once stands dimmed behind the
//! cursor, where the right arrow takes it.

use std::borrow::Cow;

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::screen::has_colour;

/// See the module documentation.
pub struct Offers {
    /// Names of commands, with their slash.
    commands: Vec<String>,
    earlier: HistoryHinter,
    /// Without styles an offered line could not be told from a typed one.
    dims: bool,
}

impl Offers {
    /// With these commands.
    pub fn new(commands: Vec<String>) -> Offers {
        Offers { commands, earlier: HistoryHinter::new(), dims: has_colour() }
    }
}

impl Completer for Offers {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = &line[..at];
        let matching =
            self.commands.iter().filter(|command| begun.starts_with('/') && command.starts_with(begun));
        Ok((0, matching.cloned().collect()))
    }
}

impl Hinter for Offers {
    type Hint = String;

    fn hint(&self, line: &str, at: usize, context: &Context<'_>) -> Option<String> {
        let hint = self.earlier.hint(line, at, context).filter(|_| self.dims)?;
        // Of a text of several lines the first one says enough; taking it takes that line.
        let first = hint.lines().next().unwrap_or_default();
        (!first.is_empty()).then(|| first.to_owned())
    }
}

impl Highlighter for Offers {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[2m{hint}\x1b[0m"))
    }
}

impl Validator for Offers {}

impl Helper for Offers {}
