//! Conversations as data, in the shape of OpenAI's chat messages.
//!
//! These structs take what clients send: content as a string, as a list of parts or null; arguments as an object or as a
//! JSON string; unknown fields. What makes no sense is reported by `prepare.rs`, which knows the index of the message;
//! serde does not.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions, OpenAI's newer name.
    Developer,
    /// The person.
    User,
    /// The model.
    #[serde(alias = "model")]
    Assistant,
    /// The result of a call.
    Tool,
}

impl Role {
    /// The name as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// A message's text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// One string.
    Text(String),
    /// Parts in order.
    Parts(Vec<Part>),
}

/// A part of a content list. Only text can be rendered; other types are kept so that the refusal can name them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// `text`, or something that is refused.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text of a text part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text; null and absent are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// The model's thoughts before this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Another name for the same; `reasoning` wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Calls that the model made.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Results beside their calls, an older form in which a result may be an object.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub tool_responses: Vec<ToolResponse>,
    /// In a tool message: the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// In a tool message: the function's name, used when no call has the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Message {
    /// A message with text only.
    pub fn new(role: Role, text: impl Into<String>) -> Message {
        Message {
            role,
            content: Some(Content::Text(text.into())),
            reasoning: None,
            reasoning_content: None,
            tool_calls: Vec::new(),
            tool_responses: Vec::new(),
            tool_call_id: None,
            name: None,
        }
    }
}

/// A call in an assistant message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call for its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Always `function`.
    #[serde(rename = "type", default = "function")]
    pub kind: String,
    /// What is called.
    pub function: FunctionCall,
}

/// Name and arguments of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The function.
    pub name: String,
    /// An object, a string that holds one, or null for none.
    #[serde(default)]
    pub arguments: Value,
}

impl FunctionCall {
    /// The arguments as an object.
    ///
    /// # Errors
    /// What the arguments are instead.
    pub fn arguments_object(&self) -> Result<Map<String, Value>, String> {
        let parsed;
        let arguments = match &self.arguments {
            Value::String(text) if text.trim().is_empty() => return Ok(Map::new()),
            Value::String(text) => {
                parsed = serde_json::from_str(text).map_err(|error| format!("not JSON ({error})"))?;
                &parsed
            }
            other => other,
        };
        match arguments {
            Value::Object(object) => Ok(object.clone()),
            Value::Null => Ok(Map::new()),
            Value::Array(_) => Err("an array".into()),
            Value::String(_) => Err("a string in a string".into()),
            Value::Bool(_) | Value::Number(_) => Err(format!("the value {arguments}")),
        }
    }
}

/// A result in an assistant message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResponse {
    /// The function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it gave.
    #[serde(default)]
    pub response: Value,
}

/// A declared tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Always `function`.
    #[serde(rename = "type", default = "function")]
    pub kind: String,
    /// The function.
    pub function: Function,
}

/// A declared function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON schema of its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Description and type of what it returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// Whether the arguments must follow the schema; not part of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

fn function() -> String {
    "function".into()
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}
