//! Schemas of tools with every object in one piece.
//!
//! Frameworks compose schemas: `allOf`, a reference with keywords beside it, properties beside a union. The chat format
//! declares one list of properties an object, the parser of calls looks for keys in one list, and the grammar writes one list.
//! So the pieces are put together first, and all three agree. What cannot be put together (two types that exclude each
//! other) stays as it is.

use serde_json::{Map, Value, json};

use crate::chat::Tool;
use crate::guided::reference_target;

/// Deeper schemas, and references that lead back to themselves, stay as they are.
const DEPTH: usize = 24;

/// Tools as declaration, parser and grammar agree on them.
pub fn declare(tools: &[Tool]) -> Vec<Tool> {
    let flat = |tool: &Tool| {
        let mut tool = tool.clone();
        if let Some(parameters) = &tool.function.parameters {
            tool.function.parameters = Some(flatten(parameters, parameters, DEPTH));
        }
        tool
    };
    tools.iter().map(flat).collect()
}

/// The schema with every object in one piece. References without keywords beside them stay.
fn flatten(schema: &Value, root: &Value, depth: usize) -> Value {
    let (Some(depth), Value::Object(fields)) = (depth.checked_sub(1), schema) else { return schema.clone() };
    let mut fields = fields.clone();
    if fields.contains_key("$ref")
        && fields.keys().any(|key| is_constraint(key) && key != "$ref")
        && let Some(target) = resolve(&Value::Object(fields.clone()), root)
    {
        let target = flatten(&target, root, depth);
        fields.remove("$ref");
        fields = combined(fields, target);
    }
    if let Some(Value::Array(parts)) = fields.get("allOf").cloned() {
        fields.remove("allOf");
        for part in parts {
            let part = match resolve(&part, root) {
                Some(target) => flatten(&target, root, depth),
                None => flatten(&part, root, depth),
            };
            fields = combined(fields, part);
        }
    }
    for union in ["anyOf", "oneOf"] {
        if let Some(Value::Array(variants)) = fields.get(union).cloned() {
            let beside: Map<String, Value> = fields
                .iter()
                .filter(|(key, _)| is_constraint(key) && *key != union)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            let variant = |variant: &Value| {
                if beside.is_empty() {
                    return flatten(variant, root, depth);
                }
                let variant = resolve(variant, root).unwrap_or_else(|| variant.clone());
                flatten(&Value::Object(combined(beside.clone(), variant)), root, depth)
            };
            let variants: Vec<Value> = variants.iter().map(variant).collect();
            fields.retain(|key, _| !beside.contains_key(key));
            fields.insert(union.into(), variants.into());
        }
    }
    for key in ["properties", "patternProperties", "$defs", "definitions"] {
        if let Some(Value::Object(schemas)) = fields.get_mut(key) {
            schemas.values_mut().for_each(|schema| *schema = flatten(schema, root, depth));
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(key) {
            *schema = flatten(schema, root, depth);
        }
    }
    if let Some(Value::Array(schemas)) = fields.get_mut("prefixItems") {
        schemas.iter_mut().for_each(|schema| *schema = flatten(schema, root, depth));
        // The parser takes `items` for the schema of every element; in the older form of a tuple it is none.
        if let Some(items) = fields.get("items").filter(|items| items.is_object()).cloned() {
            let first = fields.remove("prefixItems").unwrap_or_default();
            fields.insert("items".into(), first);
            fields.insert("additionalItems".into(), items);
        }
    }
    Value::Object(fields)
}

/// Whether a keyword says something about valid values.
fn is_constraint(key: &str) -> bool {
    !matches!(
        key,
        "title" | "description" | "default" | "examples" | "$defs" | "definitions" | "$schema" | "$id"
    )
}

/// What a reference leads to, with the text beside it.
fn resolve(schema: &Value, root: &Value) -> Option<Value> {
    let mut target = reference_target(root, schema.get("$ref")?.as_str()?).ok()?.clone();
    if let (Value::Object(target), Some(fields)) = (&mut target, schema.as_object()) {
        for (key, value) in fields.iter().filter(|(key, _)| !is_constraint(key)) {
            target.insert(key.clone(), value.clone());
        }
        let beside: Vec<_> = fields.iter().filter(|(key, _)| is_constraint(key) && *key != "$ref").collect();
        if !beside.is_empty() {
            let part: Map<String, Value> = beside.into_iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            *target = combined(std::mem::take(target), Value::Object(part));
        }
    }
    Some(target)
}

/// Both schemas in one. What is in both and cannot be joined goes into an `allOf`.
fn combined(mut schema: Map<String, Value>, other: Value) -> Map<String, Value> {
    let Value::Object(other) = other else { return schema };
    let mut rest = Map::new();
    for (key, value) in other {
        let Some(own) = schema.get(&key) else {
            schema.insert(key, value);
            continue;
        };
        match joined(&key, own, &value) {
            Some(joined) => {
                schema.insert(key, joined);
            }
            None if is_constraint(&key) => {
                rest.insert(key, value);
            }
            None => {}
        }
    }
    if !rest.is_empty() {
        match schema.entry("allOf").or_insert_with(|| json!([])) {
            Value::Array(parts) => parts.push(Value::Object(rest)),
            other => *other = json!([rest]),
        }
    }
    schema
}

/// One value of a keyword that means both, if there is one.
fn joined(key: &str, one: &Value, other: &Value) -> Option<Value> {
    if one == other {
        return Some(one.clone());
    }
    let numbers = || Some((one.as_f64()?, other.as_f64()?));
    let pick = |first: bool| Some(if first { one.clone() } else { other.clone() });
    match (key, one, other) {
        (
            "properties" | "$defs" | "definitions" | "patternProperties",
            Value::Object(a),
            Value::Object(b),
        ) => {
            let mut all = a.clone();
            for (name, schema) in b {
                let schema = match a.get(name) {
                    None => schema.clone(),
                    Some(own) if own == schema => continue,
                    Some(Value::Object(own)) => Value::Object(combined(own.clone(), schema.clone())),
                    Some(_) => return None,
                };
                all.insert(name.clone(), schema);
            }
            Some(Value::Object(all))
        }
        ("required", Value::Array(a), Value::Array(b)) => {
            let mut all = a.clone();
            all.extend(b.iter().filter(|name| !a.contains(name)).cloned());
            Some(Value::Array(all))
        }
        ("enum", Value::Array(a), Value::Array(b)) => {
            let both: Vec<Value> = a.iter().filter(|value| b.contains(value)).cloned().collect();
            (!both.is_empty()).then(|| both.into())
        }
        ("type", _, _) => match (one.as_str(), other.as_str()) {
            (Some("number"), Some("integer")) => pick(false),
            (Some("integer"), Some("number")) => pick(true),
            _ => None,
        },
        ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", ..) => {
            numbers().and_then(|(a, b)| pick(a >= b))
        }
        ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties", ..) => {
            numbers().and_then(|(a, b)| pick(a <= b))
        }
        ("additionalProperties", Value::Bool(true), _) => pick(false),
        ("additionalProperties", _, Value::Bool(true)) => pick(true),
        // Two lists of properties that are each closed, as frameworks write them, mean their union.
        ("additionalProperties", Value::Bool(false), _) | ("additionalProperties", _, Value::Bool(false)) => {
            Some(Value::Bool(false))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{RenderOptions, render};

    fn flat(parameters: Value) -> Value {
        flatten(&parameters, &parameters, DEPTH)
    }

    #[test]
    fn pieces_of_an_object_are_put_together() {
        let out = flat(json!({
            "type": "object",
            "properties": { "a": { "type": "integer", "minimum": 1 } }, "required": ["a"],
            "allOf": [
                { "$ref": "#/$defs/more" },
                { "properties": { "a": { "maximum": 5 } }, "required": ["a", "b"] },
            ],
            "$defs": { "more": { "type": "object", "properties": { "b": { "type": "string" } } } },
        }));
        assert_eq!(
            out["properties"],
            json!({ "a": { "type": "integer", "minimum": 1, "maximum": 5 }, "b": { "type": "string" } })
        );
        assert_eq!(out["required"], json!(["a", "b"]));
        assert!(out.get("allOf").is_none());
    }

    #[test]
    fn keywords_beside_a_reference_or_a_union_join_what_is_there() {
        let out = flat(json!({
            "properties": {
                "one": { "$ref": "#/$defs/n", "maximum": 3, "description": "d" },
                "two": { "$ref": "#/$defs/n", "description": "d" },
                "three": { "type": "object", "properties": { "k": { "const": 1 } },
                    "anyOf": [{ "required": ["k"] }, { "properties": { "l": {} } }] },
            },
            "$defs": { "n": { "type": "integer", "minimum": 0, "maximum": 9 } },
        }));
        assert_eq!(
            out["properties"]["one"],
            json!({ "maximum": 3, "description": "d", "type": "integer", "minimum": 0 })
        );
        assert_eq!(out["properties"]["two"], json!({ "$ref": "#/$defs/n", "description": "d" }));
        let variants = out["properties"]["three"]["anyOf"].as_array().unwrap();
        assert!(out["properties"]["three"].get("properties").is_none());
        assert_eq!(variants[0]["required"], json!(["k"]));
        assert_eq!(variants[1]["properties"], json!({ "k": { "const": 1 }, "l": {} }));
    }

    #[test]
    fn what_cannot_be_joined_and_what_leads_back_to_itself_stay() {
        let out = flat(json!({ "allOf": [{ "type": "string" }, { "type": "integer" }] }));
        assert_eq!(out, json!({ "type": "string", "allOf": [{ "type": "integer" }] }));
        let endless = json!({ "$ref": "#", "minimum": 1 });
        assert!(flat(endless)["minimum"] == 1);
    }

    #[test]
    fn a_tuple_with_further_items_is_written_in_the_older_form() {
        let out = flat(json!({ "prefixItems": [{ "type": "integer" }], "items": { "type": "string" } }));
        assert_eq!(out, json!({ "items": [{ "type": "integer" }], "additionalItems": { "type": "string" } }));
        let alone = json!({ "prefixItems": [{ "type": "integer" }] });
        assert_eq!(flat(alone.clone()), alone);
    }

    #[test]
    fn a_declaration_shows_every_property() {
        let tool: Tool = serde_json::from_value(json!({ "function": { "name": "f", "parameters": {
            "type": "object", "properties": { "b": { "type": "string" } },
            "allOf": [{ "properties": { "a": { "type": "integer" } } }],
        } } }))
        .unwrap();
        let tools = declare(&[tool]);
        let prompt = render(&RenderOptions { tools: &tools, ..RenderOptions::default() }, &[]).unwrap();
        assert!(prompt.as_str().contains("properties:{a:{type:<|\"|>INTEGER<|\"|>},b:{"), "{prompt}");
    }
}
