//! Patterns of JSON schema are JavaScript's regular expressions; the library reads Rust's.
//!
//! Most are the same in both. What differs is rewritten: what `.` and `\s` mean, identity escapes, and characters that mean
//! something only in Rust's classes (`[`, `&&`, `~~`, `--`). What Rust does not have stays and is refused by the library.

/// Line ends, which `.` does not match.
const DOT: &str = r"[^\n\r\x{2028}\x{2029}]";
/// White space and line ends, without the brackets.
const SPACE: &str =
    r"\t\n\x{B}\x{C}\r\x{20}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";

/// The pattern in Rust's syntax.
pub(crate) fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    let mut in_class = false;
    // The last character of the class was a plain hyphen.
    let mut hyphen = false;
    while let Some(c) = rest.next() {
        let after_hyphen = std::mem::take(&mut hyphen);
        match c {
            '\\' => escape(rest.next(), in_class, &mut rest, &mut out),
            '.' if !in_class => out.push_str(DOT),
            '[' if !in_class => {
                let negated = rest.next_if_eq(&'^').is_some();
                if rest.next_if_eq(&']').is_some() {
                    // Nothing is in an empty class.
                    out.push_str(if negated { "(?s:.)" } else { r"[^\x{0}-\x{10FFFF}]" });
                    continue;
                }
                in_class = true;
                out.push_str(if negated { "[^" } else { "[" });
                if rest.next_if_eq(&'-').is_some() {
                    out.push_str(r"\-");
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && after_hyphen => out.push_str(r"\-"),
            '-' if in_class => {
                hyphen = true;
                out.push('-');
            }
            other => out.push(other),
        }
    }
    out
}

/// What stands behind a backslash.
fn escape(
    c: Option<char>,
    in_class: bool,
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) {
    match c {
        Some('s') => out.push_str(&format!("[{SPACE}]")),
        Some('S') => out.push_str(&format!("[^{SPACE}]")),
        Some('b') if in_class => out.push_str(r"\x{8}"),
        Some('0') => out.push_str(r"\x{0}"),
        Some('c') if rest.peek().is_some_and(char::is_ascii_alphabetic) => {
            let letter = rest.next().map_or(0, |letter| u32::from(letter) % 32);
            out.push_str(&format!(r"\x{{{letter:X}}}"));
        }
        Some(c) if c.is_alphanumeric() => {
            out.push('\\');
            out.push(c);
        }
        // Any other character stands for itself.
        Some(c) => out.push_str(&format!(r"\x{{{:X}}}", u32::from(c))),
        None => out.push('\\'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        regex::Regex::new(&translate(pattern)).unwrap().is_match(text)
    }

    #[test]
    fn classes_mean_what_they_mean_in_javascript() {
        for (pattern, yes, no) in [
            (r"^[[a]$", vec!["[", "a"], vec!["b"]),
            (r"^[a&&b]$", vec!["a", "&", "b"], vec!["c"]),
            (r"^[a~~z]$", vec!["~"], vec!["m"]),
            (r"^[+--]$", vec!["+", ",", "-"], vec!["."]),
            (r"^[--/]$", vec!["-", ".", "/"], vec!["+"]),
            (r"^[a-]$", vec!["a", "-"], vec!["b"]),
            (r"^[^-]$", vec!["a"], vec!["-"]),
            (r"^[\s\S]$", vec!["\n", "x"], vec![""]),
            (r"^[\]\\]$", vec!["]", "\\"], vec!["a"]),
            (r"^[\b]$", vec!["\u{8}"], vec!["b"]),
            (r"^[^]$", vec!["\n"], vec![""]),
            (r"^a[]$", vec![], vec!["a", "a["]),
        ] {
            yes.iter().for_each(|text| assert!(matches(pattern, text), "{pattern} {text:?}"));
            no.iter().for_each(|text| assert!(!matches(pattern, text), "{pattern} {text:?}"));
        }
    }

    #[test]
    fn spaces_and_dots_mean_what_they_mean_in_javascript() {
        assert!(matches(r"^\s$", "\u{feff}") && matches(r"^\s$", "\u{2009}") && !matches(r"^\s$", "\u{85}"));
        assert!(matches(r"^\S$", "\u{85}"));
        assert!(!matches("^.$", "\r") && !matches("^.$", "\u{2028}") && matches("^.$", "é"));
        assert!(matches(r"^\.\_\-\/\0\cJ$", "._-/\0\n"));
        assert!(matches(r"^\x41\u0042\t$", "AB\t"));
    }
}
