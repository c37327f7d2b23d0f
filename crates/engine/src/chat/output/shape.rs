//! What a declared schema says about a value at hand, for the parser of calls.
//!
//! References are followed and variants taken together, so that a key counts as declared wherever the schema declares it. A
//! schema decides doubtful cases only; nothing is refused because of it.

use serde_json::{Map, Value};

use crate::guided::reference_target;

/// Parts of one schema that are looked at, and how deep they are nested.
const PARTS: usize = 64;
const DEPTH: usize = 16;

/// The parts of a schema that speak of the same value.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape<'t> {
    parts: Vec<&'t Map<String, Value>>,
    root: Option<&'t Value>,
}

impl<'t> Shape<'t> {
    /// The arguments of a function.
    pub fn arguments(parameters: Option<&'t Value>) -> Shape<'t> {
        let mut shape = Shape { parts: Vec::new(), root: parameters };
        if let Some(schema) = parameters {
            shape.add(schema, 0);
        }
        shape
    }

    fn add(&mut self, schema: &'t Value, depth: usize) {
        let Value::Object(fields) = schema else { return };
        if depth == DEPTH || self.parts.len() == PARTS {
            return;
        }
        self.parts.push(fields);
        let target = fields.get("$ref").and_then(Value::as_str).zip(self.root);
        if let Some(target) = target.and_then(|(path, root)| reference_target(root, path).ok()) {
            self.add(target, depth + 1);
        }
        for union in ["allOf", "anyOf", "oneOf"] {
            for variant in fields.get(union).and_then(Value::as_array).into_iter().flatten() {
                self.add(variant, depth + 1);
            }
        }
    }

    fn of<'a>(&self, schemas: impl Iterator<Item = &'a Value>) -> Shape<'a>
    where
        't: 'a,
    {
        let mut shape = Shape { parts: Vec::new(), root: self.root };
        schemas.for_each(|schema| shape.add(schema, 0));
        shape
    }

    fn each(&self, keyword: &'static str) -> impl Iterator<Item = &'t Value> {
        self.parts.iter().filter_map(move |part| part.get(keyword))
    }

    fn properties(&self) -> impl Iterator<Item = &'t Map<String, Value>> {
        self.each("properties").filter_map(Value::as_object)
    }

    /// Whether it names any key.
    pub fn names_keys(&self) -> bool {
        self.properties().any(|properties| !properties.is_empty())
    }

    /// Whether it names this key.
    pub fn names(&self, key: &str) -> bool {
        self.properties().any(|properties| properties.contains_key(key))
    }

    /// Whether it says that other keys may be there too. That it does not forbid them says nothing.
    pub fn is_open(&self) -> bool {
        self.each("patternProperties").next().is_some()
            || self.each("additionalProperties").any(|schema| schema != &Value::Bool(false))
    }

    /// The value of a key.
    pub fn property(&self, key: &str) -> Shape<'t> {
        if self.names(key) {
            return self.of(self.properties().filter_map(|properties| properties.get(key)));
        }
        self.of(self.each("additionalProperties"))
    }

    /// The element of a list at a place.
    pub fn element(&self, place: usize) -> Shape<'t> {
        let at = |part: &&'t Map<String, Value>| {
            let (first, rest) = match (part.get("prefixItems"), part.get("items")) {
                (Some(Value::Array(first)), rest) => (first.as_slice(), rest),
                // The older form.
                (_, Some(Value::Array(first))) => (first.as_slice(), part.get("additionalItems")),
                (_, rest) => (&[][..], rest),
            };
            first.get(place).or(rest)
        };
        self.of(self.parts.iter().filter_map(at))
    }

    /// Whether it is a string wherever it has a type, null aside.
    pub fn is_string(&self) -> bool {
        let mut any = false;
        for kind in self.each("type") {
            let names: Vec<&str> = match kind {
                Value::String(name) => vec![name],
                Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            for name in names.into_iter().filter(|name| !name.eq_ignore_ascii_case("null")) {
                if !name.eq_ignore_ascii_case("string") {
                    return false;
                }
                any = true;
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_count_wherever_they_are_declared() {
        let schema = json!({
            "properties": { "a": { "$ref": "#/$defs/a%20b" } },
            "allOf": [{ "properties": { "b": { "type": ["string", "null"] } } }],
            "anyOf": [{ "$ref": "#/$defs/c" }, { "properties": { "d": { "type": "integer" } } }],
            "$defs": { "a b": { "properties": { "x": {} } }, "c": { "properties": { "c": {} }, "$ref": "#" } },
        });
        let shape = Shape::arguments(Some(&schema));
        assert!(["a", "b", "c", "d"].iter().all(|key| shape.names(key)) && !shape.names("x"));
        assert!(shape.property("a").names("x"));
        assert!(shape.property("b").is_string() && !shape.property("d").is_string());
        assert!(!shape.is_open() && !Shape::default().names_keys());
    }

    #[test]
    fn a_tuple_has_a_schema_for_each_place() {
        let newer = json!({ "prefixItems": [{ "type": "integer" }], "items": { "type": "string" } });
        let older = json!({ "items": [{ "type": "integer" }], "additionalItems": { "type": "string" } });
        for schema in [newer, older] {
            let shape = Shape::arguments(Some(&schema));
            assert!(!shape.element(0).is_string() && shape.element(1).is_string());
        }
    }
}
