//! Text inside a line: weight, code, links, escapes.

use super::style::{Look, Styled};

/// Text inside a line.
#[derive(Clone, Copy)]
pub struct Inline {
    /// The character before it.
    pub before: char,
    /// Whether nothing follows; otherwise what may still become something waits.
    pub all: bool,
}

impl Inline {
    /// Shows text and says how much of it was used.
    pub fn show(self, text: &str, look: Look, out: &mut Styled) -> usize {
        let mut at = 0;
        let mut plain = 0;
        while let Some(sign) = text[at..].chars().next() {
            let found = match sign {
                '\\' => escape(&text[at..]),
                '`' => self.code(&text[at..]),
                '*' | '_' | '~' => self.emphasis(text, at, sign),
                '[' => link(&text[at..]),
                _ => Found::Nothing { skip: sign.len_utf8() },
            };
            match found {
                Found::Nothing { skip } => at += skip,
                Found::Open { skip } if self.all => at += skip,
                Found::Open { .. } => break,
                Found::Part { inner, used, look: own } => {
                    out.put(&text[plain..at], look);
                    match own {
                        // An escaped sign and code are what they are.
                        Look::PLAIN | Look::CODE => out.put(inner, look.with(own)),
                        _ => {
                            Inline { before: sign, all: true }.show(inner, look.with(own), out);
                        }
                    }
                    at += used;
                    plain = at;
                }
                Found::Link { inner, address, used } => {
                    out.put(&text[plain..at], look);
                    Inline { before: sign, all: true }.show(inner, look.with(Look::UNDERLINED), out);
                    if inner != address {
                        out.put(&format!(" ({address})"), look.with(Look::DIM));
                    }
                    at += used;
                    plain = at;
                }
            }
        }
        out.put(&text[plain..at], look);
        at
    }

    fn code(self, text: &str) -> Found<'_> {
        let ticks = run(text, '`');
        let mut at = ticks;
        while let Some(found) = text[at..].find('`') {
            let from = at + found;
            let length = run(&text[from..], '`');
            at = from + length;
            if length != ticks {
                continue;
            }
            if at == text.len() && !self.all {
                // More of them may come.
                break;
            }
            let inner = &text[ticks..from];
            // A space on both sides is there to part the ticks from ticks inside.
            let bare = inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' '));
            let inner = bare.filter(|inner| !inner.trim().is_empty()).unwrap_or(inner);
            return Found::Part { inner, used: at, look: Look::CODE };
        }
        Found::Open { skip: ticks }
    }

    /// Asterisks, underscores and tildes by CommonMark's rules of what may open and close, each pair of the same length.
    fn emphasis(self, text: &str, at: usize, sign: char) -> Found<'_> {
        let count = run(&text[at..], sign);
        let inside = at + count;
        if inside == text.len() {
            return Found::Open { skip: count };
        }
        let look = match (sign, count) {
            ('~', 2) => Look::STRUCK,
            ('*' | '_', 1) => Look::ITALIC,
            ('*' | '_', 2) => Look::BOLD,
            ('*' | '_', 3) => Look::BOLD.with(Look::ITALIC),
            _ => return Found::Nothing { skip: count },
        };
        if !self.sides(text, at, inside, sign).0 {
            return Found::Nothing { skip: count };
        }
        let mut from = inside;
        while let Some(next) = text[from..].chars().next() {
            from += match next {
                '\\' => 1 + text[from + 1..].chars().next().map_or(0, char::len_utf8),
                '`' => match self.code(&text[from..]) {
                    Found::Part { used, .. } => used,
                    // Code that may still come comes before what stands in it.
                    _ if !self.all => break,
                    _ => run(&text[from..], '`'),
                },
                _ if next == sign => {
                    let length = run(&text[from..], sign);
                    let end = from + length;
                    if end == text.len() && !self.all {
                        // More of them may come, and what follows has a say.
                        break;
                    }
                    if length == count && self.sides(text, from, end, sign).1 {
                        return Found::Part { inner: &text[inside..from], used: end - at, look };
                    }
                    length
                }
                _ => next.len_utf8(),
            };
        }
        Found::Open { skip: count }
    }

    /// Whether the signs between two places may open and close.
    fn sides(self, text: &str, from: usize, to: usize, sign: char) -> (bool, bool) {
        let before = text[..from].chars().next_back().unwrap_or(self.before);
        let behind = text[to..].chars().next().unwrap_or(' ');
        let is_sign = |c: char| {
            c.is_ascii_punctuation() || (!c.is_alphanumeric() && !c.is_whitespace() && !c.is_ascii())
        };
        let left = !behind.is_whitespace() && (!is_sign(behind) || before.is_whitespace() || is_sign(before));
        let right =
            !before.is_whitespace() && (!is_sign(before) || behind.is_whitespace() || is_sign(behind));
        if sign == '_' {
            (left && (!right || is_sign(before)), right && (!left || is_sign(behind)))
        } else {
            (left, right)
        }
    }
}

/// What stands at a sign.
enum Found<'t> {
    /// Text as it is, so many bytes of it.
    Nothing { skip: usize },
    /// It depends on what follows; where nothing does, so many bytes of text.
    Open { skip: usize },
    /// `used` bytes that show `inner`.
    Part { inner: &'t str, used: usize, look: Look },
    /// The same for a link.
    Link { inner: &'t str, address: &'t str, used: usize },
}

fn escape(text: &str) -> Found<'_> {
    match text[1..].chars().next() {
        None => Found::Open { skip: 1 },
        Some(next) if next.is_ascii_punctuation() => {
            Found::Part { inner: &text[1..2], used: 2, look: Look::PLAIN }
        }
        Some(_) => Found::Nothing { skip: 1 },
    }
}

/// Bytes of the signs that a text begins with.
pub fn run(text: &str, sign: char) -> usize {
    text.len() - text.trim_start_matches(sign).len()
}

fn link(text: &str) -> Found<'_> {
    let Some(end) = text.find(']') else { return Found::Open { skip: 1 } };
    let behind = &text[end + 1..];
    if behind.is_empty() {
        return Found::Open { skip: 1 };
    }
    let Some(address) = behind.strip_prefix('(') else { return Found::Nothing { skip: 1 } };
    let Some(close) = address.find([')', ' ']) else { return Found::Open { skip: 1 } };
    if address[close..].starts_with(' ') || close == 0 || end == 1 {
        return Found::Nothing { skip: 1 };
    }
    Found::Link { inner: &text[1..end], address: &address[..close], used: end + 2 + close + 1 }
}
