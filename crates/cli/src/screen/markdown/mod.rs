//! Markdown on its way to a terminal, laid out while it comes.
//!
//! Text goes through as soon as its look is certain: a plain word at once, a word in asterisks when its closing ones are there, so
//! that `2*3` never loses a sign. A line's first characters wait until they say what kind of line it is, a table until it is
//! complete. What is waited for longer than [`LONGEST`] bytes or than its line is plain text.
//!
//! Only what terminals show is done: headings, weight, code, lists, quotations, rules, tables, links with their address behind
//! them. Everything else is left as it was written. Input has no control characters but newline and tab; the only ones in the
//! output are the styles made here, and each line ends plain.

mod inline;
mod style;
mod table;
#[cfg(test)]
mod tests;

use inline::{Inline, run};
use style::{Look, Styled};

/// How long an opening sign waits for its closing one, in bytes.
const LONGEST: usize = 400;
/// Rows of a table that are held to be aligned.
const ROWS: usize = 200;
const RULE: usize = 40;

/// What the line that is being written is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Not known yet.
    Unknown,
    /// Text of a paragraph, a list or a heading.
    Text(Look),
    /// Inside a fence; `started` once characters of the line have gone out.
    Code { started: bool },
    /// A row of a table.
    Row,
}

/// The fence that closes a code block: its sign, and how many of it at least.
type Fence = (char, usize);

/// The state of one answer. See the module documentation.
#[derive(Debug)]
pub struct Markdown {
    line: Line,
    fence: Option<Fence>,
    /// What came and has not gone out.
    held: String,
    /// The character of the line before what is held.
    before: char,
    table: Vec<String>,
    /// Columns of the terminal.
    width: usize,
    out: Styled,
}

impl Markdown {
    /// For a terminal of so many columns.
    pub fn new(width: usize) -> Markdown {
        Markdown {
            line: Line::Unknown,
            fence: None,
            held: String::new(),
            before: ' ',
            table: Vec::new(),
            width,
            out: Styled::default(),
        }
    }

    /// More text; what can be shown of it and of what was held.
    pub fn push(&mut self, text: &str) -> String {
        for part in text.split_inclusive('\n') {
            match part.strip_suffix('\n') {
                Some(part) => {
                    self.held.push_str(part);
                    self.end_line();
                }
                None => {
                    self.held.push_str(part);
                    self.advance();
                }
            }
        }
        std::mem::take(&mut self.out.text)
    }

    /// The end of the text: the rest of it. What comes next is a text of its own.
    pub fn end(&mut self) -> String {
        if !self.held.is_empty() {
            // As if the line ended, without the end.
            self.end_line();
            self.out.text.truncate(self.out.text.trim_end_matches('\n').len());
        }
        self.flush_table();
        self.out.plain();
        (self.line, self.fence, self.before) = (Line::Unknown, None, ' ');
        std::mem::take(&mut self.out.text)
    }

    /// Shows what is certain of an unfinished line.
    fn advance(&mut self) {
        loop {
            match self.line {
                Line::Unknown if self.fence.is_some() => self.line = Line::Code { started: false },
                Line::Unknown => match begin(&self.held) {
                    Begin::Undecided if self.held.len() <= LONGEST => return,
                    begin => self.begin(begin),
                },
                Line::Text(look) => {
                    let all = self.held.len() > LONGEST;
                    let used = Inline { before: self.before, all }.show(&self.held, look, &mut self.out);
                    self.before = self.held[..used].chars().next_back().unwrap_or(self.before);
                    self.held.drain(..used);
                    return;
                }
                Line::Code { started } => {
                    if started || !self.may_close() {
                        self.line = Line::Code { started: true };
                        self.out.put(&std::mem::take(&mut self.held), Look::CODE);
                    }
                    return;
                }
                Line::Row => return,
            }
        }
    }

    fn begin(&mut self, begin: Begin) {
        if !matches!(begin, Begin::Row) {
            self.flush_table();
        }
        let look = match begin {
            Begin::Heading { used, level } => {
                self.held.drain(..used);
                if level <= 2 { Look::BOLD.with(Look::UNDERLINED) } else { Look::BOLD }
            }
            Begin::Bullet { indent } => {
                self.held.drain(..indent + 2);
                self.out.put(&" ".repeat(indent), Look::PLAIN);
                self.out.put("\u{2022} ", Look::DIM);
                Look::PLAIN
            }
            Begin::Quotation { used } => {
                self.held.drain(..used);
                self.out.put("\u{2502} ", Look::DIM);
                return;
            }
            Begin::Row => {
                self.line = Line::Row;
                return;
            }
            Begin::Text | Begin::Undecided => Look::PLAIN,
        };
        self.line = Line::Text(look);
    }

    /// Whether the line may still become the end of the code block.
    fn may_close(&self) -> bool {
        let (sign, _) = self.fence.unwrap_or(('`', 3));
        self.held.trim().chars().all(|c| c == sign)
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.held);
        match self.line {
            Line::Unknown | Line::Code { started: false } if self.fence.is_some() => {
                self.end_code_line(&line, true)
            }
            Line::Code { .. } => self.end_code_line(&line, false),
            Line::Text(look) => self.rest_of_line(&line, look),
            Line::Row => self.end_row(line),
            Line::Unknown => self.whole_line(line),
        }
        self.line = Line::Unknown;
        self.before = ' ';
    }

    fn end_code_line(&mut self, line: &str, whole: bool) {
        let closes = |(sign, least): Fence| {
            let line = line.trim();
            line.chars().count() >= least && line.chars().all(|c| c == sign)
        };
        if whole && self.fence.is_some_and(closes) {
            self.fence = None;
            self.out.put(line, Look::DIM);
        } else {
            self.out.put(line, Look::CODE);
        }
        self.out.end_line();
    }

    fn rest_of_line(&mut self, line: &str, look: Look) {
        Inline { before: self.before, all: true }.show(line, look, &mut self.out);
        self.out.end_line();
    }

    fn end_row(&mut self, line: String) {
        self.table.push(line);
        if self.table.len() >= ROWS {
            self.flush_table();
        }
    }

    /// A line of which nothing has gone out.
    fn whole_line(&mut self, line: String) {
        self.held = line;
        // What stands in quotations has its own kind.
        while let begin @ Begin::Quotation { .. } = begin(&self.held) {
            self.begin(begin);
        }
        let line = std::mem::take(&mut self.held);
        let bare = line.trim();
        if let Some(fence) = fence(bare) {
            self.flush_table();
            self.fence = Some(fence);
            self.out.put(&line, Look::DIM);
            self.out.end_line();
        } else if bare.len() >= 3 && ["-", "*", "_"].iter().any(|sign| bare.replace(sign, "").is_empty()) {
            self.flush_table();
            self.out.put(&"\u{2500}".repeat(RULE.min(self.width)), Look::DIM);
            self.out.end_line();
        } else {
            self.held = line;
            self.begin(begin(&self.held));
            let line = std::mem::take(&mut self.held);
            match self.line {
                Line::Row => self.end_row(line),
                Line::Text(look) => self.rest_of_line(&line, look),
                Line::Unknown | Line::Code { .. } => self.rest_of_line(&line, Look::PLAIN),
            }
        }
    }

    /// Shows the table that is held: aligned where it is one and fits, as it was written otherwise.
    fn flush_table(&mut self) {
        let rows = std::mem::take(&mut self.table);
        if !rows.is_empty() && !table::show(&rows, self.width, &mut self.out) {
            for row in &rows {
                self.rest_of_line(row, Look::PLAIN);
            }
        }
    }
}

/// What the first characters of a line say.
enum Begin {
    Undecided,
    Heading { used: usize, level: usize },
    Bullet { indent: usize },
    Quotation { used: usize },
    Row,
    Text,
}

fn begin(line: &str) -> Begin {
    let bare = line.trim_start_matches(' ');
    let indent = line.len() - bare.len();
    let Some(first) = bare.chars().next() else { return Begin::Undecided };
    let (_, behind) = bare.split_at(run(bare, first));
    let count = run(bare, first) / first.len_utf8();
    match first {
        '#' if count > 6 => Begin::Text,
        '#' if behind.is_empty() => Begin::Undecided,
        '#' if behind.starts_with(' ') => Begin::Heading { used: indent + count + 1, level: count },
        '>' => match bare[1..].chars().next() {
            None => Begin::Undecided,
            Some(next) => Begin::Quotation { used: indent + 1 + usize::from(next == ' ') },
        },
        // The rest of the line is the name of a language, or makes it a line of text with code in it.
        '`' | '~' if behind.is_empty() || (count >= 3 && !behind.contains('`')) => Begin::Undecided,
        '-' | '*' | '+' if count == 1 && behind.starts_with(' ') => Begin::Bullet { indent },
        '-' | '*' | '+' | '_' if behind.is_empty() => Begin::Undecided,
        '|' => Begin::Row,
        _ => Begin::Text,
    }
}

/// The fence that a line opens.
fn fence(line: &str) -> Option<Fence> {
    let sign = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let behind = line.trim_start_matches(sign);
    let count = line.len() - behind.len();
    (count >= 3 && !behind.contains('`')).then_some((sign, count))
}
