//! What constrained output costs: start-up of a vocabulary, compiling, masks. Usage: `guided_cost tokenizer.json`; with
//! `scripts/get-test-tokenizer.sh` the file is `target/test-data/tokenizer-gemma4.json`.
//!
//! Each grammar is walked along a sample answer in the tokenizer's own cut; every token asks for its mask. Times are of the
//! wall clock: compare them on a machine that does nothing else.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rawloop_engine::chat::Tool;
use rawloop_engine::guided::{AnswerPlan, Environment, Grammar};
use rawloop_engine::tools::{PlanOptions, ToolChoice, declare, plan};
use rawloop_tokenizer::{SpecialTokens, Tokenizer, bake};
use serde_json::json;

const SQL: &str = r#"start: "SELECT " columns " FROM " NAME (" WHERE " condition)? ";"
columns: "*" | NAME ("," NAME)*
condition: NAME (" = " | " < " | " > ") VALUE (" AND " condition)?
NAME: /[a-z_][a-z0-9_]{0,20}/
VALUE: /[0-9]+/ | /'[^']*'/
"#;
const PERSON: &str = r#"{"name": "Zoë O'Hara-Łukasz", "age": 42, "tags": ["a", "ccc"], "email": "a.b@example.com", "sub": {"x": -1.5, "y": "some longer text with many words in it"}}"#;
const CALL: &str = r#"<|tool_call>call:send_mail{body:<|"|>Dear Ida, here is the "report" you asked for: {a, b}.<|"|>,copies:[<|"|>bob@example.com<|"|>],priority:<|"|>high<|"|>,subject:<|"|>The report<|"|>,to:<|"|>ida@example.com<|"|>}<tool_call|>"#;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: guided_cost tokenizer.json")?;
    let tokenizer = Tokenizer::load(bake(&std::fs::read(path)?)?)?;
    let clock = Instant::now();
    let environment = Environment::new(&tokenizer)?;
    println!("{} tokens: environment {:.2?}", tokenizer.vocab_size(), clock.elapsed());

    let sub = json!({ "type": "object", "properties": { "x": { "type": "number" }, "y": { "type": ["string", "null"] } },
        "required": ["x"], "additionalProperties": false });
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "age", "tags"],
        "properties": {
            "name": { "type": "string", "maxLength": 40 },
            "age": { "type": "integer", "minimum": 0, "maximum": 150 },
            "tags": { "type": "array", "items": { "enum": ["a", "bb", "ccc"] }, "maxItems": 5 },
            "email": { "type": "string", "format": "email" },
            "sub": sub,
        },
    });
    let date = r"(\d{4})-(0[1-9]|1[0-2])-([0-2]\d|3[01]) [A-Za-z ]{3,60}";
    let grammars = [
        ("JSON schema", Grammar::json_schema(&schema)?, PERSON),
        (
            "any JSON",
            Grammar::json_object()?,
            r#"{"k": [1, 2.5, "three", {"deep": [null, true, "text text text"]}]}"#,
        ),
        ("regex", Grammar::regex(date)?, "2026-11-29 a date and some words after it"),
        (
            "Lark SQL",
            Grammar::lark(SQL)?,
            "SELECT id,user_name FROM users WHERE age > 30 AND city = 'Paris';",
        ),
    ];
    for (name, grammar, sample) in grammars {
        let clock = Instant::now();
        let compiled = Arc::new(environment.compile(&grammar)?);
        let ids = tokenizer.encode(sample, SpecialTokens::Text);
        walk(name, &environment, &AnswerPlan::grammar(compiled), &ids, clock.elapsed())?;
    }

    let text = json!({ "type": "string" });
    let properties = json!({ "to": text, "subject": { "type": "string", "maxLength": 80 }, "body": text,
        "priority": { "enum": ["low", "normal", "high"] }, "copies": { "type": "array", "items": text } });
    let parameters =
        json!({ "type": "object", "required": ["to", "subject", "body"], "properties": properties });
    let function = json!({ "name": "send_mail", "strict": true, "parameters": parameters });
    let tool: Tool = serde_json::from_value(json!({ "function": function }))?;
    let clock = Instant::now();
    let answer = plan(&environment, &declare(&[tool]), &ToolChoice::Required, PlanOptions::default())?;
    walk("tool call", &environment, &answer, &tokenizer.encode(CALL, SpecialTokens::Parse), clock.elapsed())
}

fn walk(
    name: &str,
    environment: &Environment,
    answer: &AnswerPlan,
    ids: &[u32],
    compile: Duration,
) -> Result<(), Box<dyn Error>> {
    let clock = Instant::now();
    let mut constraint = answer.begin(environment);
    let begin = clock.elapsed();
    let (mut masks, mut accepts, mut forced) = (Vec::new(), Duration::ZERO, 0);
    for &id in ids {
        let clock = Instant::now();
        let free = constraint.forced()?.is_empty();
        let allowed = constraint.mask()?.allows(id);
        masks.push(clock.elapsed().as_secs_f64() * 1e6);
        if !allowed {
            return Err(
                format!("{name}: token {id} is refused after {} tokens", constraint.position()).into()
            );
        }
        forced += usize::from(!free);
        let clock = Instant::now();
        constraint.accept(id)?;
        accepts += clock.elapsed();
    }
    masks.sort_by(f64::total_cmp);
    let mean = masks.iter().sum::<f64>() / masks.len() as f64;
    let (median, most) = (masks[masks.len() / 2], masks[masks.len() - 1]);
    println!(
        "{name:<12} compile {compile:>7.0?}, begin {begin:>7.0?}; {} tokens, {forced} forced; mask mean {mean:.0}, median \
         {median:.0}, max {most:.0} us; accept {:.1?} each",
        ids.len(),
        accepts / ids.len() as u32
    );
    Ok(())
}
