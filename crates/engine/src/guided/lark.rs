//! Lark grammars of users: what is checked before the library compiles them, and how texts are written in one.
//!
//! The library's Lark can do things that have no place in an answer: name special tokens, take text back behind a stop, set
//! the temperature. They are refused here, by name and line. Embedded schemas (`%json`) go through the same rewriting as a
//! schema by itself, so that white space is bounded there too.

use serde_json::Value;

use super::GuidedError;
use super::grammar::{hides_text, syntax};
use super::schema::{limit, rewrite};

/// Characters of a grammar.
const SOURCE: usize = 1 << 18;
/// Lines of a grammar, and so its rules: the library descends once for each rule that leads to another.
pub(super) const RULES: usize = 8192;
/// Attributes of rules that are refused.
const ATTRIBUTES: [&str; 4] = ["stop", "stop_capture", "temperature", "max_tokens"];

/// Checks a grammar and rewrites the schemas in it.
pub(super) fn check(source: &str, spacing: Option<&str>) -> Result<String, GuidedError> {
    limit("characters of a grammar", source.len(), SOURCE)?;
    limit("lines of a grammar", source.lines().count(), RULES)?;
    let mut scan = Scan { source, at: 0, out: String::with_capacity(source.len()) };
    while let Some(next) = scan.rest().chars().next() {
        match next {
            '"' => scan.quoted('"'),
            '/' if !scan.rest().starts_with("//") => {
                let start = scan.at;
                scan.quoted('/');
                if hides_text(&source[start..scan.at]) {
                    return Err(scan.error(start, "a group cannot be named `stop`"));
                }
            }
            '#' | '/' => scan.copy(scan.rest().find('\n').unwrap_or(scan.rest().len())),
            '<' => return Err(scan.error(scan.at, "special tokens cannot be part of an answer")),
            '@' => return Err(scan.error(scan.at, "there are no other grammars to refer to")),
            '[' => scan.attributes()?,
            '%' if scan.rest().starts_with("%json") => scan.schema(spacing)?,
            other => scan.copy(other.len_utf8()),
        }
    }
    Ok(scan.out)
}

struct Scan<'s> {
    source: &'s str,
    at: usize,
    out: String,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    fn copy(&mut self, bytes: usize) {
        let end = self.at + bytes;
        self.out.push_str(&self.source[self.at..end]);
        self.at = end;
    }

    /// A string or a regular expression, up to its end or the end of the line, where the library will complain.
    fn quoted(&mut self, quote: char) {
        let mut escaped = false;
        let ends = |(place, c): (usize, char)| {
            let end = place > 0 && !escaped && (c == quote || c == '\n');
            escaped = place > 0 && !escaped && c == '\\';
            end.then_some(place + c.len_utf8())
        };
        let length = self.rest().char_indices().find_map(ends).unwrap_or(self.rest().len());
        self.copy(length);
    }

    /// The attributes of a rule, `[capture, suffix="x"]`. Brackets in rules have no names with `=` behind them.
    fn attributes(&mut self) -> Result<(), GuidedError> {
        let end = self.rest().find(']').unwrap_or(self.rest().len());
        for part in self.rest()[1..end.max(1)].split(',') {
            let name = part.split('=').next().unwrap_or_default().trim();
            if part.contains('=') && ATTRIBUTES.contains(&name) {
                return Err(self.error(self.at, &format!("the attribute `{name}` is not supported")));
            }
        }
        self.copy(1);
        Ok(())
    }

    fn schema(&mut self, spacing: Option<&str>) -> Result<(), GuidedError> {
        self.copy("%json".len());
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
        let schema = match values.next() {
            Some(Ok(schema)) => schema,
            Some(Err(error)) => return Err(self.error(self.at, &format!("%json: {error}"))),
            None => return Err(self.error(self.at, "%json: a schema is needed")),
        };
        let length = values.byte_offset();
        let rewritten = rewrite(&schema, spacing)?;
        self.out.push(' ');
        self.out.push_str(&rewritten.to_string());
        self.at += length;
        Ok(())
    }

    fn error(&self, at: usize, problem: &str) -> GuidedError {
        let line = self.source[..at].matches('\n').count() + 1;
        syntax("lark", format!("line {line}: {problem}"))
    }
}

/// A text as a string of the grammar.
pub(crate) fn literal(text: &str) -> String {
    // The strings are JSON's, and DEL has to be escaped too.
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(source: &str) -> Result<String, String> {
        check(source, None).map_err(|error| error.to_string())
    }

    #[test]
    fn what_has_no_place_in_an_answer_is_refused_with_its_line() {
        for (source, problem) in [
            ("start: \"a\"\n  b\nb: <[106]>", "lark: line 3: special tokens"),
            ("start: <|turn>", "lark: line 1: special tokens"),
            ("start: @other", "no other grammars"),
            ("start[stop=\"x\"]: /.*/", "`stop`"),
            ("start[capture, temperature=0.5]: /.*/", "`temperature`"),
            ("start[max_tokens = 3]: /.*/", "`max_tokens`"),
            ("start: /a(?P<stop>b)/", "named `stop`"),
            ("start: %json {\"not\": {}}", "`not` at #"),
            ("start: %json {\"not\"", "%json"),
        ] {
            let error = checked(source).unwrap_err();
            assert!(error.contains(problem), "{source}: {error}");
        }
    }

    #[test]
    fn quoted_text_and_comments_are_left_alone() {
        let source =
            "start: \"<b> \\\" @ \" x // <|turn> @\nx[suffix=\"]\"]: /<[^>\\/]+>/ # @a\n\"unclosed\n";
        assert_eq!(checked(source).unwrap(), source);
    }

    #[test]
    fn schemas_inside_are_rewritten() {
        let source = checked("start: \"x\" %json {\"type\": \"integer\", \"title\": \"n\"} \"y\"").unwrap();
        assert!(source.starts_with("start: \"x\" %json {\"type\":\"integer\",\"$defs\":{}"), "{source}");
        assert!(source.ends_with("} \"y\""), "{source}");
    }

    #[test]
    fn literals_are_escaped() {
        assert_eq!(literal("a\"\\\n\u{1}\u{7f}é"), "\"a\\\"\\\\\\n\\u0001\\u007fé\"");
    }
}
