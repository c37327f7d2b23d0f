//! A Rust type as the schema of an answer, and the answer as its value.
//!
//! The schema is what `schemars` derives, with one change: an object with properties takes no others, unless the type says
//! so (`#[serde(flatten)]` over a map). A derived schema leaves that open, and a model would fill it.

use std::marker::PhantomData;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Grammar, GuidedError};

/// How to get a `T` out of a model: the grammar before, the parser after.
#[derive(Clone, Debug)]
pub struct Extraction<T> {
    schema: Value,
    grammar: Grammar,
    kind: PhantomData<fn() -> T>,
}

/// Prepares the extraction of a type.
///
/// # Errors
/// A type whose schema has no grammar, such as a set (`uniqueItems`).
pub fn extract<T: JsonSchema + DeserializeOwned>() -> Result<Extraction<T>, GuidedError> {
    let schema = schema_of::<T>();
    let grammar = Grammar::json_schema(&schema)?;
    Ok(Extraction { schema, grammar, kind: PhantomData })
}

impl<T: DeserializeOwned> Extraction<T> {
    /// The schema, to show it to the model.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// The grammar of the answer.
    pub fn grammar(&self) -> &Grammar {
        &self.grammar
    }

    /// The value in an answer. An answer that has ended by itself always has one.
    ///
    /// # Errors
    /// An answer that was cut short, or a value that the type refuses although its schema allows it.
    pub fn parse(&self, answer: &str) -> Result<T, serde_json::Error> {
        serde_json::from_str(answer)
    }
}

/// The schema of a type, with closed objects.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    // A reference or a part with properties beside it would exclude them if it were closed.
    if !any_object(&schema, &|fields| fields.contains_key("properties") && has_parts(fields)) {
        close(&mut schema);
    }
    schema
}

fn has_parts(fields: &Map<String, Value>) -> bool {
    fields.contains_key("$ref") || fields.contains_key("allOf")
}

fn any_object(value: &Value, is: &dyn Fn(&Map<String, Value>) -> bool) -> bool {
    match value {
        Value::Object(fields) => is(fields) || fields.values().any(|value| any_object(value, is)),
        Value::Array(values) => values.iter().any(|value| any_object(value, is)),
        _ => false,
    }
}

fn close(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            let is_object = fields.get("properties").is_some_and(Value::is_object)
                && fields.get("type").is_some_and(|kind| kind == "object");
            if is_object && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".into(), Value::Bool(false));
            }
        }
        Value::Array(values) => values.iter_mut().for_each(close),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Person {
        name: String,
        age: u8,
        email: Option<String>,
        #[serde(default)]
        tags: Vec<String>,
        home: Address,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Address {
        city: String,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    enum Shape {
        Circle { radius: f64 },
        Square { side: f64 },
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(untagged)]
    #[allow(dead_code)]
    enum Either {
        Number(i32),
        Words(Vec<String>),
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Open {
        known: bool,
        #[serde(flatten)]
        rest: BTreeMap<String, i32>,
    }

    #[test]
    fn a_struct_becomes_a_closed_object_and_comes_back() {
        let extraction = extract::<Person>().unwrap();
        assert_eq!(extraction.schema()["additionalProperties"], false);
        assert_eq!(extraction.schema()["$defs"]["Address"]["additionalProperties"], false);
        let person =
            extraction.parse(r#"{"name":"Ida","age":7,"email":null,"home":{"city":"Rome"}}"#).unwrap();
        assert_eq!(person.home, Address { city: "Rome".into() });
        let cut = extraction.parse(r#"{"name":"Id"#).unwrap_err();
        assert!(cut.is_eof(), "{cut}");
    }

    #[test]
    fn enums_maps_and_tuples_have_a_grammar() {
        extract::<Shape>().unwrap();
        extract::<Either>().unwrap();
        extract::<Open>().unwrap();
        extract::<BTreeMap<String, Vec<(u8, bool)>>>().unwrap();
        assert_eq!(extract::<Open>().unwrap().schema()["additionalProperties"]["type"], "integer");
    }

    #[test]
    fn a_set_is_refused_by_keyword() {
        let error = extract::<BTreeSet<u8>>().unwrap_err().to_string();
        assert!(error.contains("`uniqueItems` at #"), "{error}");
    }
}
