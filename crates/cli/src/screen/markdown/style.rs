//! Looks of characters, as a terminal's control sequences.

use unicode_width::UnicodeWidthStr;

/// How characters look. Combined by [`Look::with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look(u8);

impl Look {
    /// As it comes.
    pub const PLAIN: Look = Look(0);
    /// Headings and weight.
    pub const BOLD: Look = Look(1);
    /// What was not said by the model, or stands beside it.
    pub const DIM: Look = Look(2);
    /// Emphasis.
    pub const ITALIC: Look = Look(4);
    /// Titles and links.
    pub const UNDERLINED: Look = Look(8);
    /// Taken back.
    pub const STRUCK: Look = Look(16);
    /// Code.
    pub const CODE: Look = Look(32);
    /// Bit and parameter of "select graphic rendition". Code is cyan, which is legible on light and dark grounds.
    const PARAMETERS: [(Look, &str); 6] = [
        (Look::BOLD, ";1"),
        (Look::DIM, ";2"),
        (Look::ITALIC, ";3"),
        (Look::UNDERLINED, ";4"),
        (Look::STRUCK, ";9"),
        (Look::CODE, ";36"),
    ];

    /// Both.
    pub fn with(self, other: Look) -> Look {
        Look(self.0 | other.0)
    }
}

/// Text that remembers how its end looks.
#[derive(Debug, Default)]
pub struct Styled {
    /// What goes to the terminal.
    pub text: String,
    look: Look,
}

impl Styled {
    /// Appends text of a look.
    pub fn put(&mut self, text: &str, look: Look) {
        if text.is_empty() {
            return;
        }
        if look != self.look {
            self.look = look;
            self.text.push_str("\x1b[0");
            for (bit, parameter) in Look::PARAMETERS {
                if look.0 & bit.0 != 0 {
                    self.text.push_str(parameter);
                }
            }
            self.text.push('m');
        }
        self.text.push_str(text);
    }

    /// Ends the line, plain.
    pub fn end_line(&mut self) {
        self.plain();
        self.text.push('\n');
    }

    /// From here on text is plain.
    pub fn plain(&mut self) {
        if self.look != Look::PLAIN {
            self.look = Look::PLAIN;
            self.text.push_str("\x1b[0m");
        }
    }
}

/// Columns that a text takes, its styles not counted.
pub fn visible(text: &str) -> usize {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().width();
    first + parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest).width()).sum::<usize>()
}
