//! JSON by schemas: whatever allowed tokens are picked, the answer parses and is valid under the schema, and what a schema
//! cannot say is refused by name.

mod guided_support;

use std::sync::Arc;

use guided_support::{Random, begin, compile, decode, encode, environment, walk};
use rawloop_engine::guided::{Answer, Grammar, GuidedError, extract};
use serde_json::{Map, Value, json};

const KEYS: [&str; 12] = [
    "a",
    "name",
    "größe",
    "日本",
    "with space",
    "quote\"d",
    "back\\slash",
    "tab\t",
    "e\u{301}",
    "😀",
    "type",
    "x/y~z",
];
const TEXTS: [&str; 9] =
    ["", "yes", "no, thanks", "ja\nnein", "\"q\"", "größer", "日本語", "<|turn>", "<unused7>"];

/// A random schema under which something is valid.
fn schema(random: &mut Random, depth: usize, definitions: usize) -> Value {
    let kinds = if depth == 0 { 8 } else { 18 };
    match random.below(kinds) {
        0 => string(random),
        1 => integer(random),
        2 => number(random),
        3 => json!({ "type": "boolean" }),
        4 => json!({ "type": "null" }),
        5 => {
            let values: Vec<Value> = (0..random.below(5) + 1).map(|_| value(random, 2)).collect();
            json!({ "enum": values, "title": "one of" })
        }
        6 => json!({ "const": value(random, 2) }),
        7 => json!({ "type": ["string", "null", "integer"], "maxLength": 5, "maximum": 99 }),
        8..=10 => object(random, depth, definitions),
        11 | 12 => array(random, depth, definitions),
        13 => {
            let variants: Vec<Value> =
                (0..random.below(3) + 1).map(|_| schema(random, depth - 1, definitions)).collect();
            json!({ "anyOf": variants })
        }
        14 => {
            let items = schema(random, depth - 1, definitions);
            let list = json!({ "type": "array", "items": items, "maxItems": 2 });
            json!({ "oneOf": [{ "type": "string", "maxLength": 4 }, list, { "type": "null" }] })
        }
        15 if definitions > 0 => json!({ "$ref": format!("#/$defs/d%20{}", random.below(definitions)) }),
        15 | 16 => json!({ "allOf": [{ "type": "number", "minimum": 3 }, { "maximum": 7.5 }] }),
        _ => {
            let first = json!({ "type": "object", "properties": { "a": string(random) }, "required": ["a"] });
            json!({ "allOf": [first, { "properties": { "b": { "type": "integer" } } }] })
        }
    }
}

fn string(random: &mut Random) -> Value {
    let least = random.below(4);
    let patterns = [
        "^[a-z]{2,5}$",
        "^[A-Z][a-z]+$",
        "^[0-9]{3}$",
        r"^(foo|bar)-\d+$",
        "^é+$",
        r"^\w{1,3}\s\S$",
        "[aeiou]",
    ];
    match random.below(5) {
        0 => json!({ "type": "string" }),
        1 => json!({ "type": "string", "minLength": least, "maxLength": least + random.below(9) }),
        2 => json!({ "type": "string", "pattern": random.pick(&patterns) }),
        3 => {
            json!({ "type": "string", "format": random.pick(&["date", "uuid", "time", "date-time", "ipv4", "color"]) })
        }
        _ => json!({ "type": "string", "maxLength": least + 1, "description": "short" }),
    }
}

fn integer(random: &mut Random) -> Value {
    let low = random.below(2000) as i64 - 1000;
    let high = low + random.below(500) as i64;
    match random.below(4) {
        0 => json!({ "type": "integer", "minimum": low, "maximum": high }),
        1 => json!({ "type": "integer", "exclusiveMinimum": low - 1 }),
        2 => json!({ "type": "integer", "maximum": high, "multipleOf": 3 }),
        _ => json!({ "type": "integer" }),
    }
}

fn number(random: &mut Random) -> Value {
    let low = random.below(2000) as f64 / 8.0 - 100.0;
    let high = low + random.below(500) as f64 / 16.0 + 0.5;
    match random.below(5) {
        0 => json!({ "type": "number", "minimum": low, "maximum": high }),
        1 => json!({ "type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high }),
        2 => json!({ "type": "number", "minimum": low }),
        3 => json!({ "type": "number", "multipleOf": 0.25 }),
        _ => json!({ "type": "number" }),
    }
}

fn object(random: &mut Random, depth: usize, definitions: usize) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for _ in 0..random.below(5) {
        let key = *random.pick(&KEYS);
        properties.insert(key.into(), schema(random, depth - 1, definitions));
        // What may lead back to itself has to be optional, or nothing finite is valid.
        if random.chance(50) && definitions == 0 && !required.contains(&key) {
            required.push(key);
        }
    }
    let mut out = json!({ "type": "object", "properties": properties, "required": required });
    match random.below(4) {
        0 => {}
        1 => out["additionalProperties"] = schema(random, 0, 0),
        _ => out["additionalProperties"] = json!(false),
    }
    out
}

fn array(random: &mut Random, depth: usize, definitions: usize) -> Value {
    let least = if definitions == 0 { random.below(3) } else { 0 };
    let mut out = json!({
        "type": "array", "items": schema(random, depth - 1, definitions),
        "minItems": least, "maxItems": least + random.below(3),
    });
    if random.chance(20) {
        out["prefixItems"] = json!([schema(random, 0, 0), schema(random, 0, 0)]);
    }
    out
}

/// A random constant.
fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.chance(50)),
        2 => json!(random.below(100_000) as i64 - 50_000),
        3 => json!(random.below(100_000) as f64 / 64.0),
        4 => json!(random.pick(&TEXTS)),
        5 => (0..random.below(3)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            (0..random.below(3)).map(|_| (random.pick(&KEYS).to_string(), value(random, depth - 1))).collect()
        }
    }
}

/// A random schema with definitions that lead to each other, and back.
fn root(random: &mut Random) -> Value {
    let definitions = random.below(4);
    let mut out = schema(random, 4, definitions);
    let fields = out.as_object_mut().unwrap();
    let named = (0..definitions).map(|place| (format!("d {place}"), object(random, 3, definitions)));
    fields.insert("$defs".into(), named.collect());
    out
}

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
            let mut constraint = Answer::grammar(grammar.clone()).begin(&environment());
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
        let walk = walk(&mut Answer::grammar(grammar.clone()).begin(&environment()), &mut random, length);
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
        let walk = walk(&mut Answer::grammar(grammar.clone()).begin(&environment()), &mut random, length);
        let text = decode(&walk.ids);
        extraction.parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    }
}
