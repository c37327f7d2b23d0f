//! Strings: any text between two delimiter tokens, as far as the schema has no more to say.

use llguidance::derivre::RegexBuilder;
use serde_json::{Map, Value};

use super::value::Writer;
use crate::guided::{GuidedError, translate_pattern};

/// Any text.
const TEXT: &str = "/(?s:.*)/";

/// Formats that are followed; the others are left to the tool.
const FORMATS: [(&str, &str); 6] = [
    ("date", r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"),
    (
        "time",
        r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?([zZ]|[+\-]([01][0-9]|2[0-3]):[0-5][0-9])",
    ),
    (
        "date-time",
        r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[tT]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?([zZ]|[+\-]([01][0-9]|2[0-3]):[0-5][0-9])",
    ),
    ("uuid", r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    (
        "ipv4",
        r"((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])",
    ),
    (
        "email",
        r"[a-zA-Z0-9_+\-]+(\.[a-zA-Z0-9_+\-]+)*@[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?)+",
    ),
];

impl Writer {
    /// A string under a schema, delimiters included.
    pub fn text(&mut self, fields: &Map<String, Value>, path: &str) -> Result<String, GuidedError> {
        let mut parts = Vec::new();
        let count =
            |key: &str| fields.get(key).and_then(Value::as_f64).map(|count| count.clamp(0.0, 1e6) as u64);
        match (count("minLength").filter(|&least| least > 0), count("maxLength")) {
            (None, None) => {}
            (least, None) => parts.push(format!("(?s:.{{{},}})", least.unwrap_or(0))),
            (least, Some(most)) if least.unwrap_or(0) <= most => {
                parts.push(format!("(?s:.{{{},{most}}})", least.unwrap_or(0)));
            }
            _ => {
                return Err(
                    self.problem(format!("no text fits the schema at {path}: minLength is above maxLength"))
                );
            }
        }
        if let Some(Value::String(pattern)) = fields.get("pattern") {
            match whole(pattern) {
                Some(whole) => parts.push(whole),
                None => self.leave_out("pattern", path)?,
            }
        }
        if let Some(Value::String(name)) = fields.get("format")
            && let Some((_, pattern)) = FORMATS.iter().find(|(format, _)| format == name)
        {
            parts.push((*pattern).to_owned());
        }
        if parts.is_empty() {
            return Ok(self.free_text());
        }
        let parts: Vec<String> = parts.iter().map(|part| format!("/{}/", slashes_escaped(part))).collect();
        let terminal = self.rule("T", &parts.join(" & "))?;
        Ok(format!("({0} {terminal} {0})", self.delimiter))
    }

    /// A string that no schema describes, delimiters included.
    pub fn free_text(&mut self) -> String {
        let text = self.shared("TEXT", TEXT);
        format!("({0} {text} {0})", self.delimiter)
    }
}

/// A pattern, which may match anywhere in a text, as one that matches the whole of it. Nothing where it has anchors inside.
fn whole(pattern: &str) -> Option<String> {
    let followed = translate_pattern(pattern);
    let alternatives = has_alternatives(&followed);
    let start = !alternatives && followed.starts_with('^');
    let end = !alternatives && followed.ends_with('$') && !followed.ends_with(r"\$");
    let inside = &followed[usize::from(start)..followed.len() - usize::from(end && followed.len() > 1)];
    let around = |anchored: bool| if anchored { "" } else { "(?s:.*)" };
    let whole = format!("{}(?:{inside}){}", around(start), around(end));
    let is_followed = RegexBuilder::new().mk_regex(&whole).is_ok()
        && !inside.contains("(?P<stop>")
        && !inside.contains("(?<stop>")
        // An anchor that is left is one that the library would take as the edge of the whole.
        && !has_anchor(inside);
    is_followed.then_some(whole)
}

/// Calls `visit` with each character outside of classes and escapes, and its depth of groups, until it says so.
fn scan(pattern: &str, mut visit: impl FnMut(char, usize) -> bool) -> bool {
    let (mut escaped, mut in_class, mut depth) = (false, false, 0usize);
    for c in pattern.chars() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            _ => {
                depth = match c {
                    '(' => depth + 1,
                    ')' => depth.saturating_sub(1),
                    _ => depth,
                };
                if visit(c, depth) {
                    return true;
                }
            }
        }
    }
    false
}

fn has_alternatives(pattern: &str) -> bool {
    scan(pattern, |c, depth| c == '|' && depth == 0)
}

fn has_anchor(pattern: &str) -> bool {
    scan(pattern, |c, _| c == '^' || c == '$')
}

/// Slashes end a regular expression in Lark.
fn slashes_escaped(pattern: &str) -> String {
    llguidance::regex_to_lark(pattern, "dw")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_anywhere_unless_anchored() {
        for (pattern, expected) in [
            ("^ab$", Some("(?:ab)")),
            ("ab", Some("(?s:.*)(?:ab)(?s:.*)")),
            ("^a|b", None),
            ("a|b", Some("(?s:.*)(?:a|b)(?s:.*)")),
            ("^(a|b)$", Some("(?:(a|b))")),
            (r"^a\$", Some(r"(?:a\x{24})(?s:.*)")),
            ("^[|$^]$", Some("(?:[|$^])")),
            ("(?=a)", None),
            ("(^a)", None),
        ] {
            assert_eq!(whole(pattern).as_deref(), expected, "{pattern}");
        }
    }
}
