//! The form of an answer: what it is constrained to, and what is made of it.
//!
//! A constrained answer has its form by construction, unless it was cut short. Reading it is lenient all the same, and
//! what is wrong with it is said in words, for the error.

use serde_json::{Map, Value};

use super::table::{Op, Shape};
use super::{OpError, OpOptions, schema};
use crate::guided::Grammar;

/// What an answer has to be.
#[derive(Clone, Debug)]
pub enum Form {
    /// Any text.
    Text,
    /// One of these words.
    Words(Vec<String>),
    /// JSON by a schema.
    Json(Value),
}

impl Form {
    /// The form of an operation's answers, and the words for what it extracts.
    pub fn of(op: &'static Op, options: &OpOptions) -> Result<(Form, Option<String>), OpError> {
        let form = match op.shape {
            Shape::Text => Form::Text,
            Shape::Word(words) => Form::Words(words.iter().map(|word| (*word).to_owned()).collect()),
            Shape::Label => Form::Words(options.list(op, "labels")?),
            Shape::Strings => Form::Json(schema::strings(Some(options.number(op, "count")?))),
            Shape::Lists | Shape::Redacted => Form::Json(schema::of_lists(&options.list(op, "labels")?)),
            Shape::Object(names) => Form::Json(schema::of_lists(names)),
            Shape::Fields => {
                let (schema, words) = options.schema(op)?;
                return Ok((Form::Json(schema), Some(words)));
            }
        };
        Ok((form, None))
    }

    /// The grammar of the answer, where it is not just any text.
    ///
    /// # Errors
    /// A schema of the caller's that cannot be followed.
    pub fn grammar(&self) -> Result<Option<Grammar>, OpError> {
        Ok(match self {
            Form::Text => None,
            Form::Words(words) => Some(Grammar::choice(words)?),
            Form::Json(schema) => Some(Grammar::json_schema(schema)?),
        })
    }

    /// The answer in its form, or what it should have been.
    pub fn read(&self, answer: &str) -> Result<(String, Option<Value>), String> {
        match self {
            Form::Text => Ok((answer.to_owned(), None)),
            Form::Words(words) => {
                let plain =
                    answer.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '"' | '`' | '*'));
                let same = |word: &&String| word.to_lowercase() == plain.to_lowercase();
                let word = words.iter().find(same).ok_or_else(|| format!("one of {}", words.join(", ")))?;
                Ok((word.clone(), None))
            }
            Form::Json(schema) => {
                let value = json_in(answer).ok_or("JSON")?;
                let value = fitted(value, schema)?;
                Ok((value.to_string(), Some(value)))
            }
        }
    }
}

/// The value from the first bracket to the last one that closes it: a model likes to wrap JSON in fences or words.
fn json_in(answer: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(answer.trim()) {
        return Some(value);
    }
    let open = answer.find(['{', '['])?;
    let close = if answer[open..].starts_with('{') { '}' } else { ']' };
    let end = answer.rfind(close).filter(|&end| end > open)?;
    serde_json::from_str(&answer[open..=end]).ok()
}

/// The value with the fields of a flat schema in their order, and nothing else.
fn fitted(value: Value, schema: &Value) -> Result<Value, String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        let wanted = schema.get("type").and_then(Value::as_str);
        let is_list = value.is_array();
        return if wanted == Some("array") && !is_list { Err("a JSON array".into()) } else { Ok(value) };
    };
    let Value::Object(mut fields) = value else { return Err("a JSON object".into()) };
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        return Ok(Value::Object(fields));
    }
    let mut fitted = Map::new();
    for (name, part) in properties {
        let is_list = part.get("type").is_some_and(|kind| kind == "array");
        let value = match fields.remove(name) {
            Some(value) if is_list && !value.is_array() => {
                return Err(format!("a JSON object with a list as `{name}`"));
            }
            Some(value) => value,
            None if is_list => Value::Array(Vec::new()),
            None => Value::Null,
        };
        fitted.insert(name.clone(), value);
    }
    Ok(Value::Object(fitted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_read_in_any_dress() {
        let form = Form::Words(vec!["Good".into(), "bad".into()]);
        assert_eq!(form.read(" good.\n").unwrap().0, "Good");
        assert_eq!(form.read("**bad**").unwrap().0, "bad");
        assert_eq!(form.read("very bad").unwrap_err(), "one of Good, bad");
    }

    #[test]
    fn json_is_found_between_words_and_fitted_to_the_fields() {
        let form = Form::Json(schema::of_lists(&["a", "b"]));
        let (text, value) = form.read("Here it is:\n```json\n{\"c\": 1, \"b\": [\"x\"]}\n```").unwrap();
        assert_eq!(
            (text.as_str(), value.unwrap()),
            (r#"{"a":[],"b":["x"]}"#, json!({ "a": [], "b": ["x"] }))
        );
        assert!(form.read("{\"a\": 1}").unwrap_err().contains("`a`"));
        assert_eq!(form.read("[1]").unwrap_err(), "a JSON object");
        assert_eq!(form.read("{ no").unwrap_err(), "JSON");
        assert_eq!(Form::Json(schema::strings(None)).read("{}").unwrap_err(), "a JSON array");
    }
}
