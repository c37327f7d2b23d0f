//! Brings a tool's JSON schema into the subset that the declaration format can express.
//!
//! Agent frameworks send unions, references and properties without a type. Gemma's format has one type a property and a
//! `nullable` mark; written as they are, a union prints as a list in Python's notation and a reference as an empty type.
//! So before declaring: references are inlined, a union becomes its first type that is not null (plus `nullable`), a missing
//! type is inferred. A schema that the format can express comes out as it went in.
//!
//! Next: `declare.rs` writes the result.

use serde_json::{Map, Value, json};

use super::Tool;
use crate::guided::reference_target;

/// Deeper schemas, and references that lead back to themselves, end as an object without properties.
const DEPTH: usize = 24;

/// The tool with a lowered schema.
pub(super) fn lower_tool(tool: &Tool) -> Tool {
    let mut tool = tool.clone();
    if let Some(parameters) = &mut tool.function.parameters {
        *parameters = match &*parameters {
            Value::Object(fields) if !fields.is_empty() => lower(parameters, parameters, DEPTH),
            // Nothing to declare.
            _ => Value::Null,
        };
    }
    tool
}

/// Lowers one schema; `root` is what references point into.
fn lower(schema: &Value, root: &Value, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return json!({ "type": "object", "properties": {} }) };
    let Value::Object(schema) = schema else { return json!({ "type": "string" }) };
    let mut out = schema.clone();

    if let Some(reference) = out.remove("$ref") {
        let target = reference.as_str().and_then(|path| reference_target(root, path).ok());
        if let Some(target) = target {
            fill(&mut out, lower(target, root, depth));
        }
    }
    if let Some(Value::Array(parts)) = out.remove("allOf") {
        for part in parts {
            fill(&mut out, lower(&part, root, depth));
        }
    }
    for union in ["anyOf", "oneOf"] {
        if let Some(Value::Array(variants)) = out.remove(union) {
            let (null, others): (Vec<_>, Vec<_>) = variants.into_iter().partition(is_null);
            if let Some(first) = others.first() {
                fill(&mut out, lower(first, root, depth));
            }
            if !null.is_empty() {
                out.insert("nullable".into(), true.into());
            }
        }
    }
    if let Some(Value::Array(types)) = out.get("type") {
        let nullable = types.iter().any(|name| name == "null");
        let first = types.iter().find(|name| *name != "null").cloned();
        out.insert("type".into(), first.unwrap_or_else(|| "string".into()));
        if nullable {
            out.insert("nullable".into(), true.into());
        }
    }
    if let Some(value) = out.remove("const") {
        out.entry("enum").or_insert(json!([value]));
    }
    if !matches!(out.get("type"), Some(Value::String(_))) {
        let kind = infer(&out);
        out.insert("type".into(), kind.into());
    }
    if out.get("description").is_some_and(Value::is_null) {
        out.remove("description");
    }

    if let Some(Value::Object(properties)) = out.get_mut("properties") {
        properties.values_mut().for_each(|property| *property = lower(property, root, depth));
    }
    // Items are one schema; of a list of schemas the first stands for all.
    let items = match out.remove("items") {
        Some(Value::Array(items)) => items.into_iter().next(),
        other => other,
    };
    if let Some(Value::Object(items)) =
        items.filter(|items| items.as_object().is_some_and(|items| !items.is_empty()))
    {
        let had_properties = items.contains_key("properties");
        let mut items = lower(&Value::Object(items), root, depth);
        if !had_properties
            && items["properties"] == json!({})
            && let Value::Object(items) = &mut items
        {
            // Only a property of type object is written with empty properties.
            items.remove("properties");
        }
        out.insert("items".into(), items);
    }
    let is_object = out["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("object"));
    if is_object && !out.contains_key("properties") {
        out.insert("properties".into(), json!({}));
    }
    Value::Object(out)
}

/// Adds what `out` does not say itself; of properties and required names both are kept.
fn fill(out: &mut Map<String, Value>, from: Value) {
    let Value::Object(from) = from else { return };
    for (key, value) in from {
        match (out.get_mut(&key), value) {
            (Some(Value::Object(own)), Value::Object(value)) if key == "properties" => {
                for (name, schema) in value {
                    own.entry(name).or_insert(schema);
                }
            }
            (Some(Value::Array(own)), Value::Array(value)) if key == "required" => {
                for name in value {
                    if !own.contains(&name) {
                        own.push(name);
                    }
                }
            }
            (Some(_), _) => {}
            (None, value) => {
                out.insert(key, value);
            }
        }
    }
}

fn is_null(schema: &Value) -> bool {
    schema["type"] == "null" || schema.get("const").is_some_and(Value::is_null)
}

/// The type that the other fields speak of.
fn infer(schema: &Map<String, Value>) -> &'static str {
    let has = |key| schema.contains_key(key);
    if has("properties") || has("additionalProperties") {
        return "object";
    }
    if has("items") {
        return "array";
    }
    match schema.get("enum").and_then(|values| values.get(0)).or(schema.get("default")) {
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(number)) if number.is_f64() => "number",
        Some(Value::Number(_)) => "integer",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
        _ => "string",
    }
}
