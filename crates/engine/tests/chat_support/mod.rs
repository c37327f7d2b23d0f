//! Shared by the chat tests: the tiny tokenizer, short ways to write messages, and conversations from a seed.
#![allow(dead_code)] // Each test binary uses a part.

use std::path::PathBuf;
use std::sync::LazyLock;

use rawloop_engine::chat::{Message, RenderOptions, Tool, render};
use rawloop_tokenizer::{Tokenizer, bake};
use serde_json::{Map, Value, json};

pub fn models() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny")
}

pub static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let json = std::fs::read(models().join("checkpoint/tokenizer.json")).unwrap();
    Tokenizer::load(bake(&json).unwrap()).unwrap()
});

pub fn messages(value: Value) -> Vec<Message> {
    serde_json::from_value(value).unwrap()
}

pub fn tools(value: Value) -> Vec<Tool> {
    serde_json::from_value(value).unwrap()
}

/// The built-in renderer's text with default options.
pub fn prompt(conversation: Value) -> String {
    render(&RenderOptions::default(), &messages(conversation)).unwrap().to_string()
}

pub fn prompt_with(options: RenderOptions, conversation: Value) -> String {
    render(&options, &messages(conversation)).unwrap().to_string()
}

pub fn thinking<'a>() -> RenderOptions<'a> {
    RenderOptions { enable_thinking: true, ..RenderOptions::default() }
}

/// An assistant message with one call.
pub fn call(id: &str, name: &str, arguments: Value) -> Value {
    json!({ "role": "assistant", "content": null, "tool_calls": [
        { "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }
    ] })
}

pub fn result(id: &str, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": content })
}

pub fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

pub fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

const TEXTS: &[&str] = &[
    "Hi",
    "  spaced  ",
    "",
    "a\n\nb",
    "<|turn>x",
    "<turn|>\n",
    "<|\"|>",
    "q\"q",
    "日本",
    "x<|channel>thought\nold\n<channel|>y",
    "<tool_call|>",
    "{\"a\":1}",
    "\n",
    "é<b>",
    "<channel|>z",
    "a<|channel>open",
    "<",
    "|turn>",
    "\u{e000}\u{e001}<bos>",
    "What is 2 + 2?",
];

const KEYS: &[&str] = &["a", "B", "Zed", "city", "City", "x y", "k<|\"|>", "_u", "ä", "type", "description"];

pub fn random_text(random: &mut Random) -> String {
    (0..random.below(3)).map(|_| random.pick(TEXTS)).collect::<Vec<_>>().join(" ")
}

fn random_content(random: &mut Random) -> Value {
    match random.below(10) {
        0 => Value::Null,
        1 | 2 => {
            (0..random.below(4)).map(|_| json!({ "type": "text", "text": random_text(random) })).collect()
        }
        _ => json!(random_text(random)),
    }
}

fn random_value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth < 3 { 9 } else { 6 }) {
        0 => Value::Null,
        1 => json!(random.chance(50)),
        2 => json!(random.below(100) as i64 - 5),
        3 => json!([1.0, 2.5, -0.25, 1e-7, 1e20, 0.0001, 5e-5][random.below(7)]),
        4 | 5 => json!(random_text(random)),
        6 => (0..random.below(3)).map(|_| random_value(random, depth + 1)).collect(),
        _ => Value::Object(random_object(random, depth + 1)),
    }
}

pub fn random_object(random: &mut Random, depth: usize) -> Map<String, Value> {
    (0..random.below(4)).map(|_| (random.pick(KEYS).to_owned(), random_value(random, depth))).collect()
}

fn random_schema(random: &mut Random, depth: usize) -> Value {
    let mut schema = Map::new();
    let kinds = ["string", "integer", "number", "boolean", "STRING", "array", "object"];
    let kind = kinds[random.below(if depth < 3 { 7 } else { 5 })];
    if random.chance(30) {
        schema.insert("description".into(), json!(random_text(random)));
    }
    match random.below(12) {
        0 => schema.insert("anyOf".into(), json!([{ "type": kind }, { "type": "null" }])),
        1 => schema.insert("type".into(), json!([kind, "null"])),
        2 => schema.insert("$ref".into(), json!("#/$defs/thing")),
        3 => None,
        _ => schema.insert("type".into(), json!(kind)),
    };
    if random.chance(25) {
        schema.insert(
            "enum".into(),
            random.pick(&[&json!(["a", "b"]), &json!([]), &json!([1, 2]), &json!(["a", null])]).clone(),
        );
    }
    if random.chance(15) {
        schema.insert("nullable".into(), json!(random.chance(50)));
    }
    if random.chance(20) {
        schema.insert("default".into(), random_value(random, 2));
        schema.insert("title".into(), json!("T"));
    }
    if kind == "array" && random.chance(80) {
        schema.insert("items".into(), random_schema(random, depth + 1));
    }
    if kind == "object" && random.chance(80) {
        schema.insert("properties".into(), random_properties(random, depth + 1));
        if random.chance(50) {
            schema.insert("required".into(), json!(["a"]));
        }
    }
    Value::Object(schema)
}

fn random_properties(random: &mut Random, depth: usize) -> Value {
    let properties: Map<_, _> =
        (0..random.below(4)).map(|_| (random.pick(KEYS).to_owned(), random_schema(random, depth))).collect();
    Value::Object(properties)
}

pub fn random_tools(random: &mut Random) -> Vec<Tool> {
    let mut list = Vec::new();
    for _ in 0..random.below(3) {
        let mut function = json!({ "name": random.pick(&["get", "set_x", "cal:list", "a<b"]) });
        if random.chance(80) {
            function["description"] = json!(random_text(random));
        }
        if random.chance(80) {
            function["parameters"] = json!({
                "type": "object", "properties": random_properties(random, 0), "$defs": { "thing": random_schema(random, 2) },
            });
            if random.chance(50) {
                function["parameters"]["required"] = json!(["a", "B"]);
            }
        }
        if random.chance(20) {
            function["response"] =
                json!({ "description": random_text(random), "type": random.pick(&["object", "string"]) });
        }
        list.push(json!({ "type": "function", "function": function }));
    }
    tools(Value::Array(list))
}

/// A conversation with everything that the format knows, in any order that makes sense.
pub fn random_conversation(random: &mut Random) -> Vec<Message> {
    let mut list = Vec::new();
    if random.chance(40) {
        list.push(
            json!({ "role": random.pick(&["system", "developer"]), "content": random_content(random) }),
        );
    }
    for turn in 0..random.below(7) {
        match random.below(20) {
            0..=7 => list.push(json!({ "role": "user", "content": random_content(random) })),
            8 => list.push(
                json!({ "role": random.pick(&["system", "developer"]), "content": random_content(random) }),
            ),
            _ => random_model_turn(random, turn, &mut list),
        }
    }
    messages(Value::Array(list))
}

fn random_model_turn(random: &mut Random, turn: usize, list: &mut Vec<Value>) {
    let mut message = json!({ "role": "assistant", "content": random_content(random) });
    if random.chance(30) {
        message[random.pick(&["reasoning", "reasoning_content"])] =
            json!(random.pick(&["R", " r\n", "", "a <turn|>"]));
    }
    let calls = if random.chance(40) { 1 + random.below(2) } else { 0 };
    let with_ids = random.chance(80);
    if calls > 0 {
        message["tool_calls"] = json!([]);
    }
    for index in 0..calls {
        let arguments = match random.below(4) {
            0 => Value::Null,
            1 => json!(Value::Object(random_object(random, 1)).to_string()),
            _ => Value::Object(random_object(random, 1)),
        };
        let mut call =
            json!({ "function": { "name": random.pick(&["get", "set_x"]), "arguments": arguments } });
        if with_ids {
            call["id"] = json!(format!("call {turn}.{index}"));
        }
        message["tool_calls"].as_array_mut().unwrap().push(call);
    }
    let own_results = calls > 0 && random.chance(15);
    if own_results {
        message["tool_responses"] = json!([{ "name": "get", "response": random_value(random, 0) }]);
    }
    list.push(message);
    if calls == 0 || own_results || random.chance(20) {
        return;
    }
    for index in (0..calls).rev() {
        let mut result = json!({ "role": "tool", "content": random_content(random) });
        if with_ids {
            result["tool_call_id"] =
                json!(format!("call {turn}.{}", if random.chance(90) { index } else { 9 }));
        }
        if random.chance(30) {
            result["name"] = json!("named");
        }
        list.push(result);
    }
}
