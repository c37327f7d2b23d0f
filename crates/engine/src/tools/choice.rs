//! Which calls an answer may, or must, have.

use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::grammar::call_grammar;
use crate::chat::Tool;
use crate::guided::{AnswerPlan, Environment, GuidedError};

/// Whether the model may call, and what. In JSON it has OpenAI's form: a word, or an object with the function's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Never.
    None,
    /// As the model sees fit.
    #[default]
    Auto,
    /// At least one call, of any tool.
    Required,
    /// Calls of this tool only, at least one.
    Named(String),
}

impl Serialize for ToolChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ToolChoice::None => "none".serialize(serializer),
            ToolChoice::Auto => "auto".serialize(serializer),
            ToolChoice::Required => "required".serialize(serializer),
            ToolChoice::Named(name) => {
                json!({ "type": "function", "function": { "name": name } }).serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for ToolChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ToolChoice, D::Error> {
        let value = Value::deserialize(deserializer)?;
        // Newer clients put the name beside the type.
        let name = value.pointer("/function/name").or(value.get("name")).and_then(Value::as_str);
        match (value.as_str(), name) {
            (Some("none"), _) => Ok(ToolChoice::None),
            (Some("auto"), _) => Ok(ToolChoice::Auto),
            (Some("required" | "any"), _) => Ok(ToolChoice::Required),
            (None, Some(name)) if value["type"] == "function" => Ok(ToolChoice::Named(name.into())),
            _ => Err(D::Error::custom(
                "tool_choice: \"none\", \"auto\", \"required\" or \
                 {\"type\": \"function\", \"function\": {\"name\": ...}} expected",
            )),
        }
    }
}

/// How calls are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Calls in one answer; 1 turns parallel calls off.
    pub most_calls: usize,
}

impl Default for PlanOptions {
    /// Up to 16 calls in one answer.
    fn default() -> Self {
        PlanOptions { most_calls: 16 }
    }
}

/// The answers that a choice allows. Add whether a thought comes first, and the stops.
///
/// # Errors
/// A choice that needs a tool where there is none (of that name), or a tool whose calls cannot be written.
pub fn plan(
    environment: &Environment,
    tools: &[Tool],
    choice: &ToolChoice,
    options: PlanOptions,
) -> Result<AnswerPlan, GuidedError> {
    let missing =
        |tool: &str, problem: &str| GuidedError::Tool { tool: tool.into(), problem: problem.into() };
    let chosen: Vec<&Tool> = match choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Auto => tools.iter().collect(),
        ToolChoice::Required if tools.is_empty() => {
            return Err(missing("", "a call is required, but no tool is declared"));
        }
        ToolChoice::Required => tools.iter().collect(),
        ToolChoice::Named(name) => {
            let found = tools.iter().find(|tool| tool.function.name == *name);
            let Some(tool) = found else {
                return Err(missing(name, "its call is required, but no tool of this name is declared"));
            };
            vec![tool]
        }
    };
    if chosen.is_empty() {
        return Ok(AnswerPlan::free());
    }
    let calls = call_grammar(&chosen, environment.control(), options.most_calls)?;
    let calls = Arc::new(environment.compile(calls.grammar())?);
    Ok(match choice {
        ToolChoice::Auto => AnswerPlan::free().or_calls(calls),
        _ => AnswerPlan::calls(calls),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_the_form_of_openai() {
        for (json, choice) in [
            (json!("none"), ToolChoice::None),
            (json!("auto"), ToolChoice::Auto),
            (json!("required"), ToolChoice::Required),
            (json!({ "type": "function", "function": { "name": "f" } }), ToolChoice::Named("f".into())),
        ] {
            assert_eq!(serde_json::from_value::<ToolChoice>(json.clone()).unwrap(), choice);
            assert_eq!(serde_json::to_value(&choice).unwrap(), json);
        }
        let flat: ToolChoice = serde_json::from_value(json!({ "type": "function", "name": "f" })).unwrap();
        assert_eq!(flat, ToolChoice::Named("f".into()));
        for wrong in [
            json!("sometimes"),
            json!({ "type": "function" }),
            json!({ "type": "custom", "name": "f" }),
            json!(3),
        ] {
            let error = serde_json::from_value::<ToolChoice>(wrong).unwrap_err().to_string();
            assert!(error.contains("tool_choice"), "{error}");
        }
    }
}
