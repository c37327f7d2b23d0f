//! The form of an answer: what it is constrained to, and what is made of it.
//!
//! A constrained answer has its form by construction, unless it was cut short. Reading it is lenient all the same, and
//! what is wrong with it is said in words, for the error.

use serde_json::{Map, Value};

use super::table::{Op, Shape};
use super::{OpError, OpOptions, schema};
use crate::guided::{Grammar, reference_target};

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
            Shape::Points => Form::Json(schema::of_points()),
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

    /// What was put together from answers in this form, in this form: fields in their order, lists as long as they may be.
    pub fn fit(&self, value: Value) -> Result<Value, String> {
        match self {
            Form::Json(schema) => fitted(value, schema),
            _ => Ok(value),
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

/// The value with the fields of a flat schema in their order, and nothing else. A field that has to be there and is not is an
/// empty list or `null` where the schema allows that, and an error where it does not.
fn fitted(mut value: Value, schema: &Value) -> Result<Value, String> {
    bound(&mut value, schema, schema, DEPTH);
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        let wanted = schema.get("type").and_then(Value::as_str);
        let is_list = value.is_array();
        return if wanted == Some("array") && !is_list { Err("a JSON array".into()) } else { Ok(value) };
    };
    let Value::Object(mut fields) = value else { return Err("a JSON object".into()) };
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        return Ok(Value::Object(fields));
    }
    let required: Vec<&Value> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().collect();
    let mut fitted = Map::new();
    for (name, part) in properties {
        let is_list = part.get("type").is_some_and(|kind| kind == "array");
        let value = match fields.remove(name) {
            Some(value) if is_list && !value.is_array() => {
                return Err(format!("a JSON object with a list as `{name}`"));
            }
            Some(value) => value,
            None if !required.contains(&&Value::from(name.as_str())) => continue,
            None if is_list && part.get("minItems").is_none() => Value::Array(Vec::new()),
            None if allows_null(part) => Value::Null,
            None => return Err(format!("a JSON object with `{name}`")),
        };
        fitted.insert(name.clone(), value);
    }
    Ok(Value::Object(fitted))
}

/// Whether `null` fits a schema, as far as its own keywords say.
fn allows_null(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return schema == &Value::Bool(true) };
    let listed = |value: &Value, null: &str| match value {
        Value::Array(values) => values.iter().any(|value| value.is_null() || value == null),
        value => value == null,
    };
    if let Some(kind) = keywords.get("type") {
        return listed(kind, "null");
    }
    if let Some(variants) = keywords.get("anyOf").or(keywords.get("oneOf")) {
        return variants.as_array().is_some_and(|variants| variants.iter().any(allows_null));
    }
    if let Some(values) = keywords.get("enum") {
        return values.as_array().is_some_and(|values| values.contains(&Value::Null));
    }
    !["const", "allOf", "$ref"].iter().any(|keyword| keywords.contains_key(*keyword))
}

/// Values inside of values that are looked at.
const DEPTH: usize = 32;

/// Cuts lists to `maxItems`: answers to pieces keep it each for itself, and all of them together do not.
fn bound(value: &mut Value, schema: &Value, root: &Value, depth: usize) {
    let Some(left) = depth.checked_sub(1) else { return };
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str)
        && let Ok(target) = reference_target(root, pointer)
    {
        bound(value, target, root, left);
    }
    match value {
        Value::Array(values) => {
            let most = schema.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX);
            values.truncate(usize::try_from(most).unwrap_or(usize::MAX));
            if let Some(items) = schema.get("items") {
                values.iter_mut().for_each(|value| bound(value, items, root, left));
            }
        }
        Value::Object(fields) => {
            let parts = schema.get("properties").and_then(Value::as_object);
            for (name, part) in parts.into_iter().flatten() {
                if let Some(value) = fields.get_mut(name) {
                    bound(value, part, root, left);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_null_only_where_the_schema_says_so() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["name", "age", "tags"],
            "properties": {
                "name": { "type": "string" }, "age": { "type": ["integer", "null"] }, "mail": { "type": "string" },
                "tags": { "type": "array", "items": { "type": "string" } },
            },
        });
        let form = Form::Json(schema.clone());
        assert_eq!(
            form.read(r#"{"tags":["a"],"name":"Ana"}"#).unwrap().0,
            r#"{"name":"Ana","age":null,"tags":["a"]}"#
        );
        assert_eq!(form.read(r#"{"age":1}"#).unwrap_err(), "a JSON object with `name`");
        let fitted = form.read(r#"{"name":"Ana"}"#).unwrap().1.unwrap();
        assert!(jsonschema::is_valid(&schema, &fitted), "{fitted}");
        for (part, allowed) in [
            (json!({}), true),
            (json!(true), true),
            (json!({ "type": "null" }), true),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), true),
            (json!({ "enum": ["a", null] }), true),
            (json!({ "enum": ["null"] }), false),
            (json!({ "const": "a" }), false),
            (json!({ "type": "string" }), false),
        ] {
            assert_eq!(allows_null(&part), allowed, "{part}");
            assert_eq!(jsonschema::is_valid(&part, &Value::Null), allowed, "{part}");
        }
    }

    #[test]
    fn lists_are_no_longer_than_the_schema_allows() {
        let form = Form::Json(json!({
            "type": "object",
            "properties": { "a": { "type": "array", "maxItems": 1 }, "b": { "$ref": "#/$defs/b" } },
            "$defs": { "b": { "type": "array", "maxItems": 2, "items": { "type": "array", "maxItems": 0 } } },
        }));
        let fitted = form.fit(json!({ "a": [1, 2], "b": [[1], [2], [3]] })).unwrap();
        assert_eq!(fitted, json!({ "a": [1], "b": [[], []] }));
        let list = Form::Json(json!({ "type": "array", "maxItems": 2 }));
        assert_eq!(list.fit(json!([1, 2, 3])).unwrap(), json!([1, 2]));
    }

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
