//! JSON by schemas: whatever allowed tokens are picked, the answer parses and is valid under the schema, and what a schema
//! cannot say is refused by name.

mod guided_support;

use std::sync::Arc;

use guided_support::schemas::root;
use guided_support::{Random, begin, compile, decode, encode, environment, walk};
use rawloop_engine::guided::{AnswerPlan, Grammar, GuidedError, extract};
use serde_json::{Value, json};

#[test]
fn random_walks_through_500_random_schemas_are_valid() {
    let mut random = Random(0x5eed);
    let (mut compiled, mut longest) = (0, 0);
    for place in 0..500 {
        let schema = root(&mut random);
        let grammar = match Grammar::json_schema(&schema).and_then(|grammar| environment().compile(&grammar))
        {
            Ok(grammar) => Arc::new(grammar),
            Err(error) => panic!("schema {place}: {error}\n{schema}"),
        };
        compiled += 1;
        let validator = jsonschema::validator_for(&schema).unwrap();
        for length in [4, 40] {
            let mut constraint = AnswerPlan::grammar(grammar.clone()).begin(&environment());
            let walk = walk(&mut constraint, &mut random, length);
            let text = decode(&walk.ids);
            let special = walk.ids.iter().any(|&id| environment().tokenizer().is_special(id));
            assert!(!special, "a special token inside {text}");
            let value: Value = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("schema {place}: {error}\n{schema}\n{text}"));
            if let Err(error) = validator.validate(&value) {
                panic!("schema {place}: {error}\n{schema}\n{text}");
            }
            longest = longest.max(walk.ids.len());
        }
    }
    assert_eq!(compiled, 500);
    assert!(longest > 40, "walks of {longest} tokens try little");
}

/// Whether a text is an answer under the schema.
fn accepts(schema: &Value, text: &str) -> bool {
    let mut constraint = begin(&Grammar::json_schema(schema).unwrap());
    encode(text).into_iter().all(|id| constraint.accept(id).is_ok()) && constraint.can_stop().unwrap()
}

/// Case 82's list of what schemas have to be able to say.
#[test]
fn escapes_integers_enums_nested_arrays_optional_fields_and_unicode_are_supported() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["text", "count"],
        "properties": {
            "text": { "type": "string" }, "count": { "type": "integer" }, "größe": { "enum": ["S", "M", 3, null] },
            "grid": { "type": "array", "items": { "type": "array", "items": { "type": "number" } } },
        },
    });
    for text in [
        r#"{"text":"a \"quote\", a \\ and a\nline","count":-3}"#,
        r#"{"text": "tab\t slash\\", "count": 0, "größe": "M", "grid": [[1, 2.5], [], [-1e-3]]}"#,
        r#"{"text":"日本 😀 é","count":12,"größe":null}"#,
        "{\n  \"text\": \"\",\n  \"count\": 7,\n  \"grid\": [\n    []\n  ]\n}",
    ] {
        assert!(accepts(&schema, text), "{text}");
        assert!(jsonschema::is_valid(&schema, &serde_json::from_str(text).unwrap()));
    }
    for text in [
        r#"{"text":"a"}"#,
        r#"{"count":1,"text":"another order"}"#,
        r#"{"text":"a","count":1.5}"#,
        r#"{"text":"a","count":1,"size":"M"}"#,
        r#"{"text":"a","count":1,"größe":"XL"}"#,
        r#"{"text":"a","count":01}"#,
        "{\"text\":\"a\nb\",\"count\":1}",
        "{\"text\":\"a\",\n\n\"count\":1}",
        r#"{"text":"a","count":1} "#,
    ] {
        assert!(!accepts(&schema, text), "{text}");
    }
}

#[test]
fn properties_come_in_the_order_of_the_schema() {
    let schema = json!({ "type": "object", "properties": { "z": { "const": 1 }, "a": { "const": 2 } },
        "required": ["a", "z"], "additionalProperties": false });
    assert!(accepts(&schema, r#"{"z":1,"a":2}"#) && !accepts(&schema, r#"{"a":2,"z":1}"#));
}

#[test]
fn recursive_schemas_nest_as_deep_as_the_answer_does() {
    let schema = json!({ "$ref": "#/$defs/node", "$defs": { "node": {
        "type": "object", "properties": { "value": { "type": "integer" }, "next": { "anyOf": [{ "$ref": "#/$defs/node" }, { "type": "null" }] } },
        "required": ["value", "next"], "additionalProperties": false } } });
    let depth = 60;
    let text = format!("{}null{}", "{\"value\":1,\"next\":".repeat(depth), "}".repeat(depth));
    assert!(accepts(&schema, &text));
    assert!(!accepts(&schema, &text.replace("null", "1")));
}

#[test]
fn variants_that_exclude_each_other_are_a_union_and_others_are_refused() {
    let shape = |kind: &str, field: &str| {
        json!({ "type": "object", "properties": { "kind": { "const": kind }, field: { "type": "number" } },
            "required": ["kind", field], "additionalProperties": false })
    };
    let schema = json!({
        "oneOf": [{ "$ref": "#/$defs/circle" }, { "$ref": "#/$defs/square" }],
        "discriminator": { "propertyName": "kind" },
        "$defs": { "circle": shape("circle", "radius"), "square": shape("square", "side") },
    });
    assert!(accepts(&schema, r#"{"kind":"square","side":2}"#));
    assert!(!accepts(&schema, r#"{"kind":"square","radius":2}"#));
    let overlapping =
        json!({ "properties": { "p": { "oneOf": [{ "type": "integer" }, { "type": "number" }] } } });
    let error = environment().compile(&Grammar::json_schema(&overlapping).unwrap()).unwrap_err();
    assert!(
        matches!(&error, GuidedError::Unsupported { keyword, path, .. } if keyword == "oneOf" && path == "#/properties/p"),
        "{error}"
    );
}

#[test]
fn a_keyword_that_the_library_cannot_follow_is_named() {
    for (schema, keyword) in [
        (
            json!({ "type": "object", "properties": { "a": {}, "b": {} }, "minProperties": 2 }),
            "`minProperties`",
        ),
        (
            json!({ "type": "object", "properties": { "a": {}, "b": {}, "c": {} }, "maxProperties": 2 }),
            "`maxProperties`",
        ),
        (
            json!({ "type": "object", "patternProperties": { "^a": {}, "^ab": { "type": "null" } } }),
            "`patternProperties`",
        ),
        (json!({ "type": "strin" }), "strin"),
    ] {
        let grammar = Grammar::json_schema(&schema).unwrap();
        let error = environment().compile(&grammar).unwrap_err().to_string();
        assert!(error.contains(keyword), "{schema}: {error}");
    }
}

#[test]
fn any_object_is_an_object() {
    let mut random = Random(21);
    let grammar = compile(&Grammar::json_object().unwrap());
    for length in 0..30 {
        let walk = walk(&mut AnswerPlan::grammar(grammar.clone()).begin(&environment()), &mut random, length);
        let value: Value = serde_json::from_str(&decode(&walk.ids)).unwrap();
        assert!(value.is_object());
    }
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code)]
struct Review {
    stars: u8,
    title: String,
    sentiment: Sentiment,
    /// In the order of the text.
    aspects: Vec<(String, i16)>,
    translated: Option<Box<Review>>,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
enum Sentiment {
    Good,
    Bad { reason: char },
}

#[test]
fn every_answer_of_an_extraction_is_a_value_of_its_type() {
    let extraction = extract::<Review>().unwrap();
    let grammar = compile(extraction.grammar());
    let mut random = Random(22);
    for length in 0..40 {
        let walk = walk(&mut AnswerPlan::grammar(grammar.clone()).begin(&environment()), &mut random, length);
        let text = decode(&walk.ids);
        extraction.parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    }
}
