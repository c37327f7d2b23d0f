//! Objects: named properties in the order of the chat format, or free keys where a schema names none.

use serde_json::{Map, Value};

use super::LONGEST_NAME;
use super::value::Writer;
use crate::guided::{GuidedError, literal};

/// A key that no schema names.
const KEY: &str = r"/[\p{L}_][\p{L}\p{N}_.\-]{0,63}/";
/// Properties of one object.
const PROPERTIES: usize = 400;

impl Writer {
    pub fn object(
        &mut self,
        fields: &Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<String, GuidedError> {
        for keyword in ["minProperties", "maxProperties", "patternProperties"] {
            if fields.contains_key(keyword) {
                self.leave_out(keyword, path)?;
            }
        }
        let none = Map::new();
        let properties = match fields.get("properties") {
            Some(Value::Object(properties)) => properties,
            _ => &none,
        };
        let required: Vec<&str> = match fields.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return self.unnamed(fields, path, depth, name);
        }
        if properties.is_empty() {
            return self.free_object(fields.get("additionalProperties"), path, depth);
        }
        if properties.len() > PROPERTIES {
            let found = properties.len();
            return Err(GuidedError::Limit { what: "properties of one object", found, limit: PROPERTIES });
        }
        // Each property with what can follow it, from the last to the first: once with something before it, once without.
        let (mut behind, mut first) = ("\"\"".to_owned(), "\"\"".to_owned());
        for (name, schema) in sorted(properties).into_iter().rev() {
            let is_required = required.contains(&name.as_str());
            if schema == &Value::Bool(false) {
                if is_required {
                    return Err(
                        self.problem(format!("the required property {name:?} at {path} allows nothing"))
                    );
                }
                continue;
            }
            let value = self.value(schema, &format!("{path}/properties/{name}"), depth + 1)?;
            let next = format!("{} {value}", self.key(name, true, path)?);
            let alone = format!("{} {value}", self.key(name, false, path)?);
            first = if is_required {
                self.rule("o", &format!("{alone} {behind}"))?
            } else {
                self.rule("o", &format!("{alone} {behind} | {first}"))?
            };
            behind = if is_required {
                self.rule("o", &format!("{next} {behind}"))?
            } else {
                self.rule("o", &format!("({next})? {behind}"))?
            };
        }
        self.rule("o", &format!("\"{{\" {first} \"}}\""))
    }

    /// A required property that has no schema of its own.
    fn unnamed(
        &mut self,
        fields: &Map<String, Value>,
        path: &str,
        depth: usize,
        name: &str,
    ) -> Result<String, GuidedError> {
        if fields.get("additionalProperties") == Some(&Value::Bool(false)) && self.is_strict() {
            return Err(self.problem(format!("the required property {name:?} at {path} is not declared")));
        }
        let mut fields = fields.clone();
        let schema = match fields.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => schema.clone(),
            _ => Value::Bool(true),
        };
        if let Value::Object(properties) = fields.entry("properties").or_insert_with(|| Map::new().into()) {
            properties.insert(name.into(), schema);
        } else {
            return Err(self.problem(format!("the properties at {path} are no object")));
        }
        self.object(&fields, path, depth)
    }

    /// An object whose keys are free.
    fn free_object(
        &mut self,
        values: Option<&Value>,
        path: &str,
        depth: usize,
    ) -> Result<String, GuidedError> {
        let value = match values {
            Some(Value::Bool(false)) => return Ok("\"{}\"".into()),
            Some(schema) => self.value(schema, &format!("{path}/additionalProperties"), depth + 1)?,
            None => self.any()?,
        };
        let pair = format!("{} \":\" {value}", self.free_key());
        self.rule("o", &format!("\"{{\" ({pair} (\",\" {pair})*)? \"}}\""))
    }

    pub fn free_key(&mut self) -> String {
        self.shared("KEY", KEY)
    }

    /// A key with its colon, and the comma before it. Between delimiters where the parser could not read it bare.
    pub fn key(&mut self, key: &str, comma: bool, path: &str) -> Result<String, GuidedError> {
        if key.chars().count() > LONGEST_NAME {
            let problem = format!("a property's name at {path} has more than {LONGEST_NAME} characters");
            return Err(self.problem(problem));
        }
        let comma = if comma { "," } else { "" };
        let plain = |c: char| !":=,{}[]\"'<>\n".contains(c) && !c.is_control();
        if !key.is_empty() && key.chars().all(plain) && key.trim() == key {
            return Ok(literal(&format!("{comma}{key}:")));
        }
        if key.is_empty() {
            return Err(self.problem(format!("a property at {path} has an empty name")));
        }
        let before = if comma.is_empty() { String::new() } else { "\",\" ".into() };
        Ok(format!("{before}{0} {1} {0} \":\"", self.delimiter, literal(key)))
    }
}

/// Properties by their lower-cased names, as the chat format sorts them; equal ones stay in their order.
pub(super) fn sorted(properties: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut properties: Vec<_> = properties.iter().collect();
    properties.sort_by_key(|(name, _)| name.to_lowercase());
    properties
}
