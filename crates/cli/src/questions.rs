//! Files of questions for `eval` and `gate`.
//!
//! A JSON file is a list, or an object with a list called `transcripts`; a JSON-lines file has one question a line. What a
//! question is, and when an answer is right, follows from its fields, so that our goldens and public benchmarks such as
//! GSM8K can be used as they are.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::exit::Failure;

/// One row of a file. Fields that are not known are ignored.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// Kind of question, for counting.
    pub task: Option<String>,
    /// A rendered prompt, as ids.
    pub prompt_ids: Option<Vec<u32>>,
    /// A rendered prompt, as text.
    pub prompt: Option<String>,
    /// A question in plain words.
    pub question: Option<String>,
    /// What a right answer contains.
    pub key: Option<String>,
    /// A reference answer whose number counts.
    pub answer: Option<String>,
    /// Golden ids behind the prompt.
    pub output_ids: Option<Vec<u32>>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt<'a> {
    /// Rendered ids.
    Ids(&'a [u32]),
    /// Rendered text, with control tokens.
    Rendered(&'a str),
    /// A user's message.
    Question(&'a str),
}

impl Row {
    /// What is asked.
    pub fn asked(&self) -> Option<Prompt<'_>> {
        match (&self.prompt_ids, &self.prompt, &self.question) {
            (Some(ids), _, _) => Some(Prompt::Ids(ids)),
            (None, Some(text), _) => Some(Prompt::Rendered(text)),
            (None, None, Some(text)) => Some(Prompt::Question(text)),
            (None, None, None) => None,
        }
    }

    /// Kind of question.
    pub fn task(&self) -> &str {
        self.task.as_deref().unwrap_or("all")
    }

    /// Whether a text answers the question; none where the row does not say how to tell.
    pub fn is_right(&self, text: &str) -> Option<bool> {
        match (&self.key, &self.answer) {
            (Some(key), _) => Some(text.contains(key.as_str())),
            (None, Some(answer)) => {
                let expected = number(answer)?;
                Some(number(text).is_some_and(|found| found == expected))
            }
            (None, None) => None,
        }
    }
}

/// Reads a file of questions.
pub fn read(path: &Path) -> Result<Vec<Row>, Failure> {
    let fail = |what: String| Failure::input(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    let values: Vec<Value> = match serde_json::from_str::<Value>(&text) {
        Ok(Value::Array(rows)) => rows,
        Ok(Value::Object(mut object)) => match object.remove("transcripts") {
            Some(Value::Array(rows)) => rows,
            // A file of one line.
            _ => vec![Value::Object(object)],
        },
        Ok(_) => return Err(fail("expected a list of questions, or an object with `transcripts`".into())),
        Err(whole) => {
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let parsed = lines.map(|(index, line)| {
                serde_json::from_str(line).map_err(|error| match index {
                    // The first line is no JSON by itself: the file was meant as a whole.
                    0 => fail(whole.to_string()),
                    _ => fail(format!("line {}: {error}", index + 1)),
                })
            });
            parsed.collect::<Result<_, _>>()?
        }
    };
    let rows = values.into_iter().enumerate().map(|(index, value)| {
        serde_json::from_value::<Row>(value).map_err(|error| fail(format!("question {index}: {error}")))
    });
    let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
    if rows.is_empty() {
        return Err(fail("no questions in it".into()));
    }
    if let Some(index) = rows.iter().position(|row| row.asked().is_none()) {
        return Err(fail(format!("question {index} has none of prompt_ids, prompt and question")));
    }
    Ok(rows)
}

/// The number behind the last `####`, or the last number, in one spelling.
fn number(text: &str) -> Option<String> {
    let part = text.rsplit_once("####").map_or(text, |(_, behind)| behind);
    let bytes = part.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let last = bytes.iter().rposition(u8::is_ascii_digit)?;
    let mut first = last;
    while first > 0 {
        let inner = matches!(bytes[first - 1], b'.' | b',') && first > 1 && digit(first - 2);
        if !digit(first - 1) && !inner {
            break;
        }
        first -= 1;
    }
    let negative = first > 0 && bytes[first - 1] == b'-' && (first < 2 || !digit(first - 2));
    let plain: String = part[first..=last].chars().filter(|&c| c != ',').collect();
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let sign = if negative && !(whole.is_empty() && fraction.is_empty()) { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts_or_the_one_behind_the_marks() {
        let cases = [
            ("2 + 2 = 4", Some("4")),
            ("It costs $1,234.50 in all.", Some("1234.5")),
            ("so 12 of 30.\n#### 18", Some("18")),
            ("#### -7.00", Some("-7")),
            ("3-2", Some("2")),
            ("about 1.5, then 007.", Some("7")),
            ("The answer is **96**.", Some("96")),
            ("0.0", Some("0")),
            ("-0", Some("0")),
            ("no number", None),
            ("é９", None),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_key_decides_before_a_number() {
        let row = |json: &str| serde_json::from_str::<Row>(json).unwrap();
        let keyed = row(r#"{"prompt_ids": [2], "key": "Paris", "answer": "7"}"#);
        assert_eq!((keyed.is_right("It is Paris."), keyed.is_right("7")), (Some(true), Some(false)));
        let counted = row(r#"{"question": "q", "answer": "a\n#### 1,000"}"#);
        assert_eq!((counted.is_right("1000 eggs"), counted.is_right("none")), (Some(true), Some(false)));
        assert_eq!(counted.asked(), Some(Prompt::Question("q")));
        assert_eq!(row(r#"{"prompt": "x"}"#).is_right("x"), None);
    }

    #[test]
    fn files_of_every_form_are_read_and_others_refused_with_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let read_text = |text: &str| {
            let path = folder.path().join("f");
            std::fs::write(&path, text).unwrap();
            read(&path).map(|rows| rows.len())
        };
        assert_eq!(read_text(r#"[{"prompt": "a"}, {"question": "b"}]"#).unwrap(), 2);
        assert_eq!(read_text(r#"{"transcripts": [{"prompt": "a"}], "right": 1}"#).unwrap(), 1);
        assert_eq!(read_text("{\"question\": \"a\"}\n\n{\"question\": \"b\"}\n").unwrap(), 2);
        assert_eq!(read_text("{\"question\": \"a\"}\n").unwrap(), 1);
        let refused = |text: &str| format!("{:?}", read_text(text).unwrap_err());
        assert!(refused("[]").contains("no questions"));
        assert!(refused("{\"question\": \"a\"}\n{oops}\n").contains("line 2"));
        assert!(refused("[{\"task\": \"a\"}]").contains("question 0 has none"));
        assert!(refused("nonsense").contains("expected"));
        assert!(format!("{:?}", read(&folder.path().join("missing"))).contains("missing"));
    }
}
