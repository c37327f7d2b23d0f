//! What a caller sets by name, on top of the model's own settings.
//!
//! The names are the command line's with `_` for `-`. A name that is not known, or a value of another type, is an error that
//! names it; ranges are the sampler's to check.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};

use rawloop_engine::guided::{Grammar, Guide};
use rawloop_engine::speculate::DEEPEST;
use rawloop_engine::{ChatOptions, Draft, Model, SamplingOptions};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// Tokens of an answer at most where nothing is said.
const MAX_TOKENS: usize = 2048;
/// What ends a passage that `dry` compares: it stands between things that repeat by right.
const DRY_BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];
/// The settings that give an answer its form.
const FORMS: [&str; 5] = ["schema", "regex", "choice", "grammar", "gbnf"];

/// Settings by name.
pub type Settings = Map<String, Value>;

/// Reads settings that crossed as JSON.
pub fn parse(text: &str) -> Result<Settings, Failure> {
    serde_json::from_str(text).map_err(Failure::option)
}

/// The last form of an answer: a grammar that stays the same is compiled once.
#[derive(Debug, Default)]
pub struct LastForm(Mutex<Option<(&'static str, Value, Guide)>>);

impl LastForm {
    fn guide(&self, kind: &'static str, value: &Value) -> Result<Guide, Failure> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, of, guide)) = &*last
            && *known == kind
            && of == value
        {
            return Ok(guide.clone());
        }
        let text = || value.as_str().ok_or_else(|| wrong(kind, "a text", value));
        let grammar = match kind {
            "schema" => Grammar::json_schema(value),
            "regex" => Grammar::regex(text()?),
            "grammar" => Grammar::lark(text()?),
            "gbnf" => Grammar::gbnf(text()?),
            _ => Grammar::choice(&texts(kind, value)?),
        };
        let guide = Guide::from(grammar?);
        *last = Some((kind, value.clone(), guide.clone()));
        Ok(guide)
    }
}

/// The options of a conversation with nothing set but a fresh seed.
pub fn defaults(model: &Model) -> ChatOptions {
    let mut options = ChatOptions::of(model, MAX_TOKENS);
    let sampling = &mut options.generate.sampling;
    // Small enough to be read off a screen and typed in again.
    sampling.seed = RandomState::new().build_hasher().finish() % 1_000_000_000;
    sampling.dry_breakers = DRY_BREAKERS.iter().filter_map(|text| model.tokenizer().token_id(text)).collect();
    options
}

/// Sets what is named; null leaves as it is.
pub fn apply(
    settings: &Settings,
    model: &Model,
    forms: &LastForm,
    options: &mut ChatOptions,
) -> Result<(), Failure> {
    let given: Vec<&str> =
        FORMS.into_iter().filter(|form| settings.get(*form).is_some_and(|value| !value.is_null())).collect();
    if let [one, other, ..] = given[..] {
        return Err(Failure::option(format!("`{one}` and `{other}` are both set: an answer has one form")));
    }
    for (name, value) in settings {
        if !value.is_null() {
            set(name, value, forms, options)?;
        }
    }
    let vocab = model.pack().geometry().vocab;
    options.generate.sampling.validate(vocab).map_err(Failure::option)
}

fn set(name: &str, value: &Value, forms: &LastForm, options: &mut ChatOptions) -> Result<(), Failure> {
    let generate = &mut options.generate;
    let sampling = &mut generate.sampling;
    match name {
        // An empty one takes it away.
        "system" => options.system = Some(string(name, value)?).filter(|text| !text.is_empty()),
        "thinking" => match value {
            Value::Bool(on) => {
                options.thinking = *on;
                generate.thinking_budget = None;
            }
            _ => {
                options.thinking = true;
                generate.thinking_budget = Some(count(name, value)?);
            }
        },
        "max_tokens" => generate.max_tokens = at_least_one(name, value)?,
        "stop" => {
            generate.stop_strings = match value {
                Value::String(one) => vec![one.clone()],
                _ => texts(name, value)?,
            }
        }
        "detect_loops" => generate.detect_loops = boolean(name, value)?,
        "chunk" => generate.chunk = Some(at_least_one(name, value)?),
        "draft" => generate.draft = draft(name, value)?,
        "temperature" => sampling.temperature = number(name, value)?,
        "top_k" => sampling.top_k = small(name, value)?,
        "top_p" => sampling.top_p = number(name, value)?,
        "min_p" => sampling.min_p = number(name, value)?,
        "typical" => sampling.typical = number(name, value)?,
        "repetition" => sampling.repetition = number(name, value)?,
        "presence" => sampling.presence = number(name, value)?,
        "frequency" => sampling.frequency = number(name, value)?,
        "dry" => sampling.dry = number(name, value)?,
        "dry_base" => sampling.dry_base = number(name, value)?,
        "dry_length" => sampling.dry_length = small(name, value)?,
        "penalty_window" => sampling.penalty_window = count(name, value)?,
        "seed" => {
            sampling.seed =
                value.as_u64().ok_or_else(|| wrong(name, "a whole number from 0 to 2^64 - 1", value))?;
        }
        "bias" => sampling.bias = bias(name, value)?,
        "logprobs" => sampling.log_probabilities = Some(small(name, value)?),
        "schema" => generate.constraint = Some(forms.guide("schema", value)?),
        "regex" => generate.constraint = Some(forms.guide("regex", value)?),
        "choice" => generate.constraint = Some(forms.guide("choice", value)?),
        "grammar" => generate.constraint = Some(forms.guide("grammar", value)?),
        "gbnf" => generate.constraint = Some(forms.guide("gbnf", value)?),
        _ => return Err(Failure::option(format!("there is no setting `{name}`"))),
    }
    Ok(())
}

/// The settings as they are, for a person to look at.
pub fn json(options: &ChatOptions) -> Value {
    let generate = &options.generate;
    let SamplingOptions {
        temperature,
        top_k,
        top_p,
        min_p,
        typical,
        repetition,
        presence,
        frequency,
        dry,
        dry_base,
        dry_length,
        penalty_window,
        seed,
        bias,
        log_probabilities,
        dry_breakers: _,
        suppress: _,
    } = &generate.sampling;
    let bias: Map<String, Value> = bias.iter().map(|(id, value)| (id.to_string(), plain(*value))).collect();
    let draft = match generate.draft {
        Draft::Auto => json!("auto"),
        Draft::Off => json!("off"),
        Draft::Lookup => json!("lookup"),
        Draft::Fixed(depth) => json!(depth),
    };
    let thinking = match generate.thinking_budget.filter(|_| options.thinking) {
        Some(budget) => json!(budget),
        None => json!(options.thinking),
    };
    json!({
        "system": options.system,
        "thinking": thinking,
        "max_tokens": generate.max_tokens,
        "stop": generate.stop_strings,
        "detect_loops": generate.detect_loops,
        "chunk": generate.chunk,
        "draft": draft,
        "temperature": plain(*temperature),
        "top_k": top_k,
        "top_p": plain(*top_p),
        "min_p": plain(*min_p),
        "typical": plain(*typical),
        "repetition": plain(*repetition),
        "presence": plain(*presence),
        "frequency": plain(*frequency),
        "dry": plain(*dry),
        "dry_base": plain(*dry_base),
        "dry_length": dry_length,
        "penalty_window": penalty_window,
        "seed": seed,
        "bias": bias,
        "logprobs": log_probabilities,
    })
}

/// As typed in: 0.95, not the nearest f32 written out in full.
fn plain(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, |value| json!(value))
}

fn wrong(name: &str, expected: &str, found: &Value) -> Failure {
    let found: String = found.to_string().chars().take(60).collect();
    Failure::option(format!("`{name}` is {found}: expected {expected}"))
}

fn string(name: &str, value: &Value) -> Result<String, Failure> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong(name, "a text", value))
}

fn boolean(name: &str, value: &Value) -> Result<bool, Failure> {
    value.as_bool().ok_or_else(|| wrong(name, "True or False", value))
}

fn number(name: &str, value: &Value) -> Result<f32, Failure> {
    value.as_f64().map(|value| value as f32).ok_or_else(|| wrong(name, "a number", value))
}

fn count(name: &str, value: &Value) -> Result<usize, Failure> {
    value.as_u64().map(|value| value as usize).ok_or_else(|| wrong(name, "a whole number from 0 on", value))
}

fn at_least_one(name: &str, value: &Value) -> Result<usize, Failure> {
    match count(name, value) {
        Ok(0) | Err(_) => Err(wrong(name, "a whole number from 1 on", value)),
        Ok(count) => Ok(count),
    }
}

fn small(name: &str, value: &Value) -> Result<u32, Failure> {
    let expected = "a whole number from 0 to 2^32 - 1";
    value.as_u64().and_then(|value| u32::try_from(value).ok()).ok_or_else(|| wrong(name, expected, value))
}

fn texts(name: &str, value: &Value) -> Result<Vec<String>, Failure> {
    let list = value.as_array().ok_or_else(|| wrong(name, "a list of texts", value))?;
    list.iter().map(|entry| string(name, entry)).collect()
}

fn bias(name: &str, value: &Value) -> Result<Vec<(u32, f32)>, Failure> {
    let expected = "token ids, each with a number";
    let entries = value.as_object().ok_or_else(|| wrong(name, expected, value))?;
    let entry = |(id, value): (&String, &Value)| match (id.parse(), value.as_f64()) {
        (Ok(id), Some(value)) => Ok((id, value as f32)),
        _ => Err(wrong(name, expected, &json!({ id: value }))),
    };
    entries.iter().map(entry).collect()
}

fn draft(name: &str, value: &Value) -> Result<Draft, Failure> {
    match (value.as_str(), value.as_u64()) {
        (Some("auto"), _) => Ok(Draft::Auto),
        (Some("off"), _) => Ok(Draft::Off),
        (Some("lookup"), _) => Ok(Draft::Lookup),
        (_, Some(depth)) if depth <= DEEPEST as u64 => Ok(Draft::Fixed(depth as usize)),
        _ => Err(wrong(name, &format!("\"auto\", \"off\", \"lookup\" or a number up to {DEEPEST}"), value)),
    }
}
