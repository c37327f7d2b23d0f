use super::*;

fn refused(schema: Value) -> String {
    rewrite(&schema, None).unwrap_err().to_string()
}

#[test]
fn a_keyword_that_cannot_be_followed_is_named_with_its_place() {
    for (schema, expected) in [
        (json!({ "properties": { "a/b": { "not": {} } } }), "`not` at #/properties/a~1b"),
        (json!({ "items": { "uniqueItems": true } }), "`uniqueItems` at #/items"),
        (json!({ "if": {}, "then": {} }), "`if` at #"),
        (json!({ "allOf": [{}, { "contains": {} }] }), "`contains` at #/allOf/1"),
        (json!({ "propertyNames": { "pattern": "a" } }), "`propertyNames` at #"),
        (json!({ "unevaluatedProperties": false }), "`unevaluatedProperties`"),
        (json!({ "dependentRequired": { "a": ["b"] } }), "`dependentRequired`"),
        (json!({ "$ref": "https://example.org/x" }), "`$ref` at https://example.org/x"),
        (json!({ "$ref": "#name" }), "`$ref` at #name"),
        (json!({ "$ref": "#/$defs/gone" }), "leads nowhere"),
        (json!({ "$dynamicRef": "#x" }), "`$dynamicRef`"),
        (json!({ "properties": { "p": { "pattern": "(?=a)" } } }), "`pattern` at #/properties/p"),
        (json!({ "patternProperties": { "(": {} } }), "`patternProperties` at #"),
        (json!({ "enum": [1, 9007199254740993i64] }), "`enum` at #"),
        (json!({ "const": 18446744073709551615u64 }), "`const` at #"),
        (json!({ "minimum": 1e300 }), "`minimum` at #"),
    ] {
        let error = refused(schema);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    for (schema, expected) in [
        (json!([]), "at #"),
        (json!({ "properties": { "a": 1 } }), "at #/properties/a"),
        (json!({ "properties": [] }), "at #/properties"),
        (json!({ "type": 3 }), "at #/type"),
        (json!({ "type": [] }), "at #/type"),
        (json!({ "enum": [] }), "at #/enum"),
        (json!({ "minLength": -1 }), "at #/minLength"),
        (json!({ "maxItems": 2.5 }), "at #/maxItems"),
        (json!({ "required": "a" }), "at #/required"),
        (json!({ "anyOf": {} }), "at #/anyOf"),
        (json!({ "multipleOf": 0 }), "at #/multipleOf"),
        (json!({ "pattern": 1 }), "at #/pattern"),
        (json!({ "minimum": "3" }), "at #/minimum"),
    ] {
        let error = refused(schema);
        assert!(error.starts_with("the schema") && error.contains(expected), "{error}");
    }
}

#[test]
fn keywords_that_say_nothing_are_dropped() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/x", "title": "t",
        "description": "d", "default": 1, "examples": [1], "x-extra": { "not": {} }, "discriminator": {},
        "uniqueItems": false, "dependencies": {}, "unevaluatedProperties": true, "propertyNames": {},
        "format": "int32", "type": "integer",
    });
    let expected = json!({ "type": "integer", "$defs": {}, "x-guidance": { "whitespace_flexible": false } });
    assert_eq!(rewrite(&schema, None).unwrap(), expected);
}

#[test]
fn references_get_plain_names() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": { "$ref": "#/$defs/x~1y" }, "b": { "$ref": "#/definitions/z%20w" }, "c": { "$ref": "#" },
            "d": { "$ref": "#/properties/a" },
        },
        "$defs": { "x/y": { "type": "null" } },
        "definitions": { "z w": { "$ref": "#/$defs/x~1y" } },
    });
    let out = rewrite(&schema, Some(" ")).unwrap();
    let name = |property: &str| out["properties"][property]["$ref"].as_str().unwrap().to_owned();
    let at = |reference: &str| out.pointer(reference.strip_prefix('#').unwrap()).unwrap().clone();
    assert_eq!(at(&name("a")), json!({ "type": "null" }));
    assert_eq!(at(&name("b")), json!({ "$ref": name("a") }));
    assert_eq!(at(&name("c"))["properties"]["c"]["$ref"], json!(name("c")));
    assert_eq!(at(&name("d")), json!({ "$ref": name("a") }));
    assert!(name("a").starts_with("#/$defs/d"));
    assert_eq!(out["x-guidance"], json!({ "whitespace_pattern": " " }));
}

#[test]
fn references_among_exclusive_variants_are_put_in_their_place() {
    let schema = json!({
        "oneOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/b", "title": "B" }],
        "$defs": {
            "a": { "type": "string" },
            "b": { "type": "array", "items": { "oneOf": [{ "$ref": "#/$defs/b" }, { "type": "null" }] } },
        },
    });
    let out = rewrite(&schema, None).unwrap();
    assert_eq!(out["oneOf"][0], json!({ "type": "string" }));
    assert_eq!(out["oneOf"][1]["type"], "array");
    assert!(out["oneOf"][1]["items"]["oneOf"][0]["$ref"].is_string(), "one that leads back to itself stays");
}

#[test]
fn bounds_are_held_to_what_a_double_tells_apart() {
    let schema = json!({ "minimum": -1e300, "maximum": 18446744073709551615u64, "exclusiveMaximum": true });
    let out = rewrite(&schema, None).unwrap();
    assert_eq!(out["minimum"], json!(-9_000_000_000_000_000i64));
    assert_eq!(out["maximum"], json!(9_000_000_000_000_000i64));
    assert_eq!(out["exclusiveMaximum"], true);
    assert_eq!(rewrite(&json!({ "minLength": 2.0 }), None).unwrap()["minLength"], 2);
}

#[test]
fn sizes_are_limited() {
    let mut deep = json!({ "type": "integer" });
    for _ in 0..100 {
        deep = json!({ "items": deep });
    }
    let properties: Map<String, Value> = (0..500).map(|place| (format!("p{place}"), json!({}))).collect();
    for schema in [
        deep,
        json!({ "properties": properties }),
        json!({ "const": "x".repeat(TEXT + 1) }),
        json!({ "pattern": "x".repeat(TEXT + 1) }),
        json!({ "anyOf": vec![json!({}); NODES + 1] }),
    ] {
        assert!(matches!(rewrite(&schema, None), Err(GuidedError::Limit { .. })));
    }
}

#[test]
fn false_is_no_schema_to_follow() {
    assert!(matches!(rewrite(&json!(false), None), Err(GuidedError::Nothing(_))));
    assert!(rewrite(&json!(true), None).is_ok());
}

#[test]
fn messages_of_the_library_name_the_keyword() {
    let schema = json!({ "properties": { "a": { "oneOf": [] } } });
    let error = explain(&schema, "oneOf constraints are not supported".into()).to_string();
    assert!(error.contains("`oneOf` at #/properties/a"), "{error}");
    let error =
        explain(&json!({ "maxProperties": 2 }), "min/maxProperties only supported".into()).to_string();
    assert!(error.contains("`maxProperties` at #"), "{error}");
}
