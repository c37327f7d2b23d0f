//! JSON schemas of answers.

use serde_json::{Map, Value, json};

/// The schema of some fields, and their names without types. A field may be null: a text need not say everything.
pub fn of_fields(fields: &[String]) -> Result<(Value, Vec<String>), String> {
    let mut properties = Map::new();
    for field in fields {
        let (name, kind) =
            field.split_once(':').map_or((field.as_str(), ""), |(name, kind)| (name.trim(), kind.trim()));
        let schema = match kind {
            "" => json!({ "type": ["string", "number", "boolean", "null"] }),
            "string" | "number" | "integer" | "boolean" => json!({ "type": [kind, "null"] }),
            "list" => strings(None),
            _ => {
                return Err(format!(
                    "`{kind}` is no type: expected string, number, integer, boolean or list"
                ));
            }
        };
        if name.is_empty() || properties.insert(name.to_owned(), schema).is_some() {
            return Err("a name is empty or there twice".into());
        }
    }
    let names: Vec<String> = properties.keys().cloned().collect();
    Ok((object(properties), names))
}

/// A list of strings for each name.
pub fn of_lists<T: AsRef<str>>(names: &[T]) -> Value {
    object(names.iter().map(|name| (name.as_ref().to_owned(), strings(None))).collect())
}

/// Points of a comparison: what either text says, then whether that is the same. In this order, since a model judges better
/// what it has written down.
pub fn of_points() -> Value {
    let said = json!({ "type": ["string", "null"] });
    let point = [("one", said.clone()), ("two", said), ("same", json!({ "type": "boolean" }))];
    let point = object(point.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect());
    object([("points".to_owned(), json!({ "type": "array", "items": point }))].into_iter().collect())
}

/// A list of strings.
pub fn strings(most: Option<usize>) -> Value {
    match most {
        None => json!({ "type": "array", "items": { "type": "string" } }),
        Some(most) => json!({ "type": "array", "items": { "type": "string" }, "maxItems": most }),
    }
}

fn object(properties: Map<String, Value>) -> Value {
    let required: Vec<Value> = properties.keys().map(|name| json!(name)).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_types_and_may_be_null() {
        let fields = ["name", "age : integer", "tags:list"].map(String::from);
        let (schema, names) = of_fields(&fields).unwrap();
        assert_eq!(names, ["name", "age", "tags"]);
        assert_eq!(schema["properties"]["age"]["type"], json!(["integer", "null"]));
        assert_eq!(schema["properties"]["tags"]["items"]["type"], "string");
        assert_eq!(schema["required"], json!(["name", "age", "tags"]));
        assert!(of_fields(&["a:date".into()]).unwrap_err().contains("`date` is no type"));
        assert!(of_fields(&["a".into(), "a:list".into()]).is_err());
        assert!(of_fields(&[":list".into()]).is_err());
    }
}
