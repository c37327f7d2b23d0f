//! Tool declarations.
//!
//! `<|tool>declaration:NAME{description:...,parameters:{properties:{...},required:[...],type:OBJECT}}<tool|>`, in Gemma's
//! notation. A property is written field by field in a fixed order, with what the format has no place for left out: description,
//! enum (strings) or items (arrays), nullable, properties and required (objects), type in capitals. Array items keep all
//! their fields, sorted.
//!
//! The schema comes from `lower.rs`. Where the published template closes one brace too few (parameters without a type, a
//! response that is no object) the braces here are balanced.

use serde_json::{Map, Value};

use super::Function;
use super::rendered::Rendered;
use super::value::{Keys, sorted, write_separated, write_string, write_value};

pub(super) fn write_declaration(out: &mut Rendered, function: &Function) {
    out.control("<|tool>declaration:");
    out.user(&function.name);
    out.control("{description:");
    write_string(out, function.description.as_deref().unwrap_or(""));
    if let Some(Value::Object(parameters)) = &function.parameters
        && !parameters.is_empty()
    {
        out.control(",parameters:{");
        let mut fields = Fields::default();
        if let Some(properties) = properties(parameters).filter(|properties| !properties.is_empty()) {
            fields.next(out, "properties:");
            write_properties(out, properties);
        }
        write_required(out, &mut fields, parameters);
        write_type(out, &mut fields, parameters);
        out.control("}");
    }
    if let Some(Value::Object(response)) = &function.response
        && !response.is_empty()
    {
        out.control(",response:{");
        let mut fields = Fields::default();
        write_description(out, &mut fields, response);
        if type_name(response) == "OBJECT" {
            write_type(out, &mut fields, response);
        }
        out.control("}");
    }
    out.control("}<tool|>");
}

/// Puts commas between the fields that are present.
#[derive(Default)]
struct Fields {
    any: bool,
}

impl Fields {
    fn next(&mut self, out: &mut Rendered, name: &str) {
        if self.any {
            out.control(",");
        }
        self.any = true;
        out.control(name);
    }
}

fn write_properties(out: &mut Rendered, properties: &Map<String, Value>) {
    out.control("{");
    write_separated(out, sorted(properties), |out, (name, schema)| {
        out.user(name);
        out.control(":{");
        if let Value::Object(schema) = schema {
            write_property(out, schema);
        }
        out.control("}");
    });
    out.control("}");
}

fn write_property(out: &mut Rendered, schema: &Map<String, Value>) {
    let mut fields = Fields::default();
    let kind = type_name(schema);
    write_description(out, &mut fields, schema);
    match kind.as_str() {
        "STRING" => {
            if let Some(Value::Array(values)) =
                schema.get("enum").filter(|values| *values != &Value::Array(vec![]))
            {
                fields.next(out, "enum:[");
                write_separated(out, values, |out, value| write_value(out, value, Keys::Delimited));
                out.control("]");
            }
        }
        "ARRAY" => {
            if let Some(Value::Object(items)) = schema.get("items")
                && !items.is_empty()
            {
                fields.next(out, "items:{");
                write_items(out, items);
                out.control("}");
            }
        }
        _ => {}
    }
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        fields.next(out, "nullable:true");
    }
    if kind == "OBJECT" {
        fields.next(out, "properties:");
        write_properties(out, properties(schema).unwrap_or(&Map::new()));
        write_required(out, &mut fields, schema);
    }
    write_type(out, &mut fields, schema);
}

/// The fields of an array's items: all of them, sorted, unknown ones too.
fn write_items(out: &mut Rendered, items: &Map<String, Value>) {
    let mut fields = Fields::default();
    for (key, value) in sorted(items) {
        match (key.as_str(), value) {
            (_, Value::Null) => {}
            ("properties", Value::Object(properties)) => {
                fields.next(out, "properties:");
                write_properties(out, properties);
            }
            ("required", Value::Array(names)) => {
                fields.next(out, "required:[");
                write_separated(out, names, |out, name| write_value(out, name, Keys::Delimited));
                out.control("]");
            }
            ("type", Value::String(_)) => write_type(out, &mut fields, items),
            ("type", Value::Array(names)) => {
                fields.next(out, "type:[");
                let names = names.iter().filter_map(Value::as_str);
                write_separated(out, names, |out, name| write_string(out, &name.to_uppercase()));
                out.control("]");
            }
            _ => {
                fields.next(out, "");
                out.user(key);
                out.control(":");
                write_value(out, value, Keys::Delimited);
            }
        }
    }
}

fn write_description(out: &mut Rendered, fields: &mut Fields, schema: &Map<String, Value>) {
    if let Some(Value::String(description)) = schema.get("description")
        && !description.is_empty()
    {
        fields.next(out, "description:");
        write_string(out, description);
    }
}

fn write_required(out: &mut Rendered, fields: &mut Fields, schema: &Map<String, Value>) {
    if let Some(Value::Array(names)) = schema.get("required")
        && !names.is_empty()
    {
        fields.next(out, "required:[");
        write_separated(out, names, |out, name| write_value(out, name, Keys::Delimited));
        out.control("]");
    }
}

fn write_type(out: &mut Rendered, fields: &mut Fields, schema: &Map<String, Value>) {
    fields.next(out, "type:");
    write_string(out, &type_name(schema));
}

/// The type in capitals. A list, which `lower.rs` does not leave, reads as in Python; anything else is empty.
fn type_name(schema: &Map<String, Value>) -> String {
    match schema.get("type") {
        Some(Value::String(name)) => name.to_uppercase(),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            let names: Vec<_> = names.map(|name| format!("'{}'", name.to_uppercase())).collect();
            format!("[{}]", names.join(", "))
        }
        _ => String::new(),
    }
}

fn properties(schema: &Map<String, Value>) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// One property as declared, without lowering, `¦` for the delimiter.
    fn property(schema: Value) -> String {
        let mut out = Rendered::default();
        write_property(&mut out, schema.as_object().unwrap());
        out.as_str().replace("<|\"|>", "¦")
    }

    #[test]
    fn fields_come_in_their_order_and_others_are_dropped() {
        let schema = json!({
            "type": "string", "nullable": true, "enum": ["c", "f"], "description": "Unit", "default": "c",
            "minimum": 1, "maximum": 2, "pattern": "x", "format": "y", "title": "T",
        });
        assert_eq!(property(schema), "description:¦Unit¦,enum:[¦c¦,¦f¦],nullable:true,type:¦STRING¦");
        let schema = json!({ "type": "integer", "enum": [1, 2], "default": 1 });
        assert_eq!(property(schema), "type:¦INTEGER¦");
        assert_eq!(
            property(json!({ "type": "string", "nullable": false, "description": "" })),
            "type:¦STRING¦"
        );
    }

    #[test]
    fn array_items_keep_every_field_sorted() {
        let schema = json!({ "type": "array", "description": "x", "items": {
            "type": "string", "description": "i", "enum": ["a", "b"], "minimum": 1, "zz": 3, "Aa": "s", "default": null,
        } });
        let expected = "description:¦x¦,items:{Aa:¦s¦,description:¦i¦,enum:[¦a¦,¦b¦],minimum:1,type:¦STRING¦,zz:3},type:¦ARRAY¦";
        assert_eq!(property(schema), expected);
        let schema = json!({ "type": "array", "items": {
            "type": "object", "required": ["b"],
            "properties": { "b": { "type": "string" }, "A": { "type": "integer", "description": "q" } },
        } });
        let expected = "items:{properties:{A:{description:¦q¦,type:¦INTEGER¦},b:{type:¦STRING¦}},required:[¦b¦],type:¦OBJECT¦},type:¦ARRAY¦";
        assert_eq!(property(schema), expected);
        let schema = json!({ "type": "array", "items": { "type": "array", "items": { "type": "string" } } });
        assert_eq!(property(schema), "items:{items:{¦type¦:¦string¦},type:¦ARRAY¦},type:¦ARRAY¦");
        let schema = json!({ "type": "array", "items": { "type": ["string", "null"] } });
        assert_eq!(property(schema), "items:{type:[¦STRING¦,¦NULL¦]},type:¦ARRAY¦");
        assert_eq!(property(json!({ "type": "array", "items": {} })), "type:¦ARRAY¦");
    }

    #[test]
    fn objects_nest() {
        let schema = json!({
            "type": "object", "description": "x", "required": ["b"], "nullable": true,
            "properties": { "b": { "type": "string" }, "A": { "type": "object", "properties": {} } },
        });
        let expected = "description:¦x¦,nullable:true,properties:{A:{properties:{},type:¦OBJECT¦},b:{type:¦STRING¦}},required:[¦b¦],type:¦OBJECT¦";
        assert_eq!(property(schema), expected);
    }

    /// What the published format makes of schemas that were not lowered.
    #[test]
    fn unions_and_references_as_they_are() {
        assert_eq!(property(json!({ "type": ["string", "null"] })), "type:¦['STRING', 'NULL']¦");
        assert_eq!(property(json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] })), "type:¦¦");
        assert_eq!(property(json!({ "$ref": "#/$defs/x" })), "type:¦¦");
        assert_eq!(property(json!({ "oneOf": [] , "description": "d" })), "description:¦d¦,type:¦¦");
    }
}
