//! Random JSON schemas of many kinds, under which something finite is valid.

use serde_json::{Map, Value, json};

use super::Random;

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

pub fn object(random: &mut Random, depth: usize, definitions: usize) -> Value {
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
pub fn root(random: &mut Random) -> Value {
    let definitions = random.below(4);
    let mut out = schema(random, 4, definitions);
    let fields = out.as_object_mut().unwrap();
    let named = (0..definitions).map(|place| (format!("d {place}"), object(random, 3, definitions)));
    fields.insert("$defs".into(), named.collect());
    out
}
