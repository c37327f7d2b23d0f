//! Brings a JSON schema into what the grammar library can follow, and says exactly what it cannot.
//!
//! The library refuses what it does not know without saying where, ignores `~1` in references, and compares some numbers
//! as floats. So a schema is rewritten first: references get plain names, annotations are dropped, numbers are held to what
//! a double can tell apart, and what has no grammar is an error with the keyword and a JSON pointer. What a keyword means is
//! never widened: every text of the rewritten schema is valid under the original.
//!
//! - `keywords.rs` lists what is followed, dropped and refused.
//! - A `oneOf` needs variants that exclude each other (other types, or a required property with other constants); a
//!   reference in one is put in its place, so that this can be seen.
//! - `format` is followed where the library knows it, otherwise an annotation, as the standard allows.
//!
//! Bounds: [`DEPTH`], [`NODES`], [`PROPERTIES`], [`TEXT`].

mod keywords;
mod numbers;
mod pattern;
mod reference;

use llguidance::derivre::RegexBuilder;
use serde_json::{Map, Value, json};

use super::GuidedError;
use keywords::{Use, use_of};
use reference::{Definitions, child};

pub(crate) use pattern::translate;
pub(crate) use reference::target;

/// Schemas inside of schemas.
const DEPTH: usize = 64;
/// Schemas in all, those that references bring in included.
const NODES: usize = 20_000;
/// Properties of one object: the library tracks each optional one as a choice of its own.
const PROPERTIES: usize = 400;
/// Characters of one constant, and of one pattern.
const TEXT: usize = 1 << 16;

/// The rewritten schema. `spacing` is a regular expression for the white space between elements; none without.
pub(crate) fn rewrite(schema: &Value, spacing: Option<&str>) -> Result<Value, GuidedError> {
    let mut rewriter =
        Rewriter { root: schema, definitions: Definitions::default(), nodes: 0, inlining: Vec::new() };
    let root = rewriter.schema(schema, "#", 0)?;
    while let Some((pointer, name)) = rewriter.definitions.next() {
        let definition = rewriter.schema(target(schema, &pointer)?, &pointer, 0)?;
        rewriter.definitions.set(name, definition);
    }
    let mut out = match root {
        Value::Object(fields) => fields,
        Value::Bool(true) => Map::new(),
        _ => return Err(GuidedError::Nothing("the schema is `false`".into())),
    };
    out.insert("$defs".into(), Value::Object(rewriter.definitions.finish()));
    let layout = match spacing {
        Some(pattern) => json!({ "whitespace_pattern": pattern }),
        None => json!({ "whitespace_flexible": false }),
    };
    out.insert("x-guidance".into(), layout);
    Ok(Value::Object(out))
}

struct Rewriter<'s> {
    root: &'s Value,
    definitions: Definitions,
    nodes: usize,
    /// References that are being put in their place, outermost first.
    inlining: Vec<String>,
}

impl Rewriter<'_> {
    fn schema(&mut self, schema: &Value, path: &str, depth: usize) -> Result<Value, GuidedError> {
        limit("nested schemas", depth, DEPTH)?;
        self.nodes += 1;
        limit("schemas", self.nodes, NODES)?;
        let fields = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(fields) => fields,
            _ => return Err(invalid(path, "a schema is an object, true or false")),
        };
        let mut out = Map::new();
        for (keyword, value) in fields {
            if let Some(value) = self.keyword(keyword, value, path, depth)? {
                out.insert(keyword.clone(), value);
            }
        }
        numbers::tighten(&mut out);
        Ok(Value::Object(out))
    }

    /// The value of a keyword in the rewritten schema, or nothing where the keyword is dropped.
    fn keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Result<Option<Value>, GuidedError> {
        let wrong = |expected: &str| Err(invalid(&child(path, keyword), expected));
        let rewritten = match use_of(keyword) {
            Use::Dropped => return Ok(None),
            Use::Refused { harmless, .. } if harmless(value) => return Ok(None),
            Use::Refused { reason, .. } => return Err(unsupported(keyword, path, reason)),
            Use::Type => match value {
                Value::String(_) => value.clone(),
                Value::Array(names) if names.iter().all(Value::is_string) && !names.is_empty() => {
                    value.clone()
                }
                _ => return wrong("a type is a name or a list of names"),
            },
            Use::Values => {
                let Value::Array(values) = value else { return wrong("`enum` is a list of values") };
                if values.is_empty() {
                    return wrong("a value is needed");
                }
                values.iter().try_for_each(|value| constant(value, keyword, path, depth))?;
                value.clone()
            }
            Use::Constant => {
                constant(value, keyword, path, depth)?;
                value.clone()
            }
            Use::Number { round } => {
                // A draft-4 schema has true or false for the exclusive bounds.
                if value.is_boolean() && keyword.starts_with("exclusive") {
                    return Ok(Some(value.clone()));
                }
                let Some(number) = value.as_f64() else { return wrong("a number is needed") };
                numbers::bound(number, round).ok_or_else(|| {
                    unsupported(keyword, path, "beyond 9e15 neighbouring numbers cannot be told apart")
                })?
            }
            Use::Multiple => match value.as_f64() {
                Some(number) if number > 0.0 => value.clone(),
                _ => return wrong("a number above 0 is needed"),
            },
            Use::Count => match value.as_f64() {
                // `2.0` is a count too.
                Some(count) if count >= 0.0 && count.fract() == 0.0 && count < 1e9 => json!(count as u64),
                _ => return wrong("a count from 0 to 999999999 is needed"),
            },
            Use::Names => match value {
                Value::Array(names) if names.iter().all(Value::is_string) => {
                    limit("required properties", names.len(), PROPERTIES)?;
                    value.clone()
                }
                _ => return wrong("a list of names is needed"),
            },
            Use::Pattern => {
                let Value::String(pattern) = value else { return wrong("a regular expression is needed") };
                json!(followed_pattern(pattern, keyword, path)?)
            }
            Use::Format => match value.as_str() {
                Some(name) if keywords::FORMATS.contains(&name) => value.clone(),
                _ => return Ok(None),
            },
            Use::Schema => self.schema(value, &child(path, keyword), depth + 1)?,
            Use::SchemaOrSchemas if value.is_array() => self.schemas(keyword, value, path, depth)?,
            Use::SchemaOrSchemas => self.schema(value, &child(path, keyword), depth + 1)?,
            Use::Schemas => self.schemas(keyword, value, path, depth)?,
            Use::OneOf => self.exclusive(keyword, value, path, depth)?,
            Use::NamedSchemas | Use::PatternSchemas => {
                let Value::Object(schemas) = value else { return wrong("an object of schemas is needed") };
                limit("properties of one object", schemas.len(), PROPERTIES)?;
                let here = child(path, keyword);
                let mut out = Map::new();
                for (name, schema) in schemas {
                    limit("characters of a property's name", name.len(), TEXT)?;
                    let rewritten = self.schema(schema, &child(&here, name), depth + 1)?;
                    let name = match use_of(keyword) {
                        Use::PatternSchemas => followed_pattern(name, keyword, path)?,
                        _ => name.clone(),
                    };
                    out.insert(name, rewritten);
                }
                Value::Object(out)
            }
            Use::Reference => {
                let Value::String(pointer) = value else { return wrong("a reference is a string") };
                target(self.root, pointer)?;
                json!(format!("#/$defs/{}", self.definitions.name(pointer)))
            }
        };
        Ok(Some(rewritten))
    }

    fn schemas(
        &mut self,
        keyword: &str,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Result<Value, GuidedError> {
        let here = child(path, keyword);
        let Value::Array(schemas) = value else { return Err(invalid(&here, "a list of schemas is needed")) };
        let schemas = schemas.iter().enumerate();
        let rewritten =
            schemas.map(|(place, schema)| self.schema(schema, &child(&here, &place.to_string()), depth + 1));
        rewritten.collect::<Result<Vec<_>, _>>().map(Value::Array)
    }

    /// The variants of a `oneOf`. References are put in their place: only there can the library see that two variants
    /// exclude each other.
    fn exclusive(
        &mut self,
        keyword: &str,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Result<Value, GuidedError> {
        let here = child(path, keyword);
        let Value::Array(variants) = value else { return Err(invalid(&here, "a list of schemas is needed")) };
        let mut out = Vec::new();
        for (place, variant) in variants.iter().enumerate() {
            let alone = variant.as_object().filter(|fields| {
                fields.keys().all(|key| key == "$ref" || matches!(use_of(key), Use::Dropped))
            });
            let pointer = alone.and_then(|fields| fields.get("$ref")).and_then(Value::as_str);
            let place = child(&here, &place.to_string());
            match pointer.filter(|pointer| !self.inlining.iter().any(|open| open == pointer)) {
                Some(pointer) => {
                    let schema = target(self.root, pointer)?;
                    self.inlining.push(pointer.to_owned());
                    out.push(self.schema(schema, pointer, depth + 1)?);
                    self.inlining.pop();
                }
                None => out.push(self.schema(variant, &place, depth + 1)?),
            }
        }
        Ok(Value::Array(out))
    }
}

/// Checks a value that is written out.
fn constant(value: &Value, keyword: &str, path: &str, depth: usize) -> Result<(), GuidedError> {
    limit("nested schemas", depth, DEPTH)?;
    match value {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::Number(number) => match number.as_f64() {
            Some(double) if number.is_f64() || double.abs() <= numbers::EXACT => Ok(()),
            _ => Err(unsupported(keyword, path, "a whole number beyond 9e15 is not compared exactly")),
        },
        Value::String(text) => limit("characters of a constant", text.len(), TEXT),
        Value::Array(values) => values.iter().try_for_each(|value| constant(value, keyword, path, depth + 1)),
        Value::Object(fields) => {
            limit("properties of one object", fields.len(), PROPERTIES)?;
            fields.values().try_for_each(|value| constant(value, keyword, path, depth + 1))
        }
    }
}

/// A pattern as the library reads it.
fn followed_pattern(pattern: &str, keyword: &str, path: &str) -> Result<String, GuidedError> {
    limit("characters of a pattern", pattern.len(), TEXT)?;
    let followed = pattern::translate(pattern);
    let problem = match RegexBuilder::new().mk_regex_for_serach(&followed) {
        Ok(_) if super::grammar::hides_text(pattern) => "a group cannot be named `stop`".to_owned(),
        Ok(_) => return Ok(followed),
        Err(error) => super::grammar::one_line(&GuidedError::text(&error)),
    };
    Err(unsupported(keyword, path, &format!("the pattern {pattern:?} cannot be followed ({problem})")))
}

pub(super) fn limit(what: &'static str, found: usize, limit: usize) -> Result<(), GuidedError> {
    if found > limit { Err(GuidedError::Limit { what, found, limit }) } else { Ok(()) }
}

fn invalid(path: &str, problem: &str) -> GuidedError {
    GuidedError::Schema { path: path.into(), problem: problem.into() }
}

fn unsupported(keyword: &str, path: &str, reason: &str) -> GuidedError {
    GuidedError::Unsupported { keyword: keyword.into(), path: path.into(), reason: reason.into() }
}

/// Turns what the library says about a rewritten schema into an error that names the keyword.
pub(super) fn explain(schema: &Value, problem: String) -> GuidedError {
    let known: [(&str, &str, &str); 4] = [
        (
            "oneOf constraints",
            "oneOf",
            "its variants have to exclude each other by type or by a required constant; use `anyOf`",
        ),
        (
            "min/maxProperties",
            "minProperties",
            "together with optional properties only at most one or at least one can be counted",
        ),
        ("patternProperty", "patternProperties", "the patterns have to exclude each other"),
        (
            "circular references with sibling",
            "$ref",
            "a reference to itself cannot have other keywords beside it",
        ),
    ];
    if problem.contains("nsatisfiable") {
        return GuidedError::Nothing(problem);
    }
    match known.iter().find(|(text, ..)| problem.contains(text)) {
        Some(&(_, keyword, reason)) => {
            let keyword = if keyword == "minProperties" && find(schema, keyword, "#").is_none() {
                "maxProperties"
            } else {
                keyword
            };
            unsupported(keyword, &find(schema, keyword, "#").unwrap_or("#".into()), reason)
        }
        None => invalid("#", &problem),
    }
}

/// The first schema with a keyword.
fn find(value: &Value, keyword: &str, path: &str) -> Option<String> {
    match value {
        Value::Object(fields) if fields.contains_key(keyword) => Some(path.into()),
        Value::Object(fields) => {
            fields.iter().find_map(|(key, value)| find(value, keyword, &child(path, key)))
        }
        Value::Array(values) => values
            .iter()
            .enumerate()
            .find_map(|(place, value)| find(value, keyword, &child(path, &place.to_string()))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
