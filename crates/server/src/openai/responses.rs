//! `/v1/responses`: OpenAI's newer interface. Nothing is stored: a request holds its whole conversation.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonResponse};
use rawloop_engine::chat::{Content, FunctionCall, Message, Part, Role, Tool, ToolCall};
use rawloop_engine::tools::ToolChoice;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::chat::{ChatRequest, Effort, NamedSchema, ResponseFormat, submit};
use super::{AnyObject, Sampling, rawloop, usage};
use crate::error::ApiError;
use crate::http::{App, Client, Encoder, Json, Line, now, sse, unique};
use crate::work::{Event, Finished, finish_reason};

/// What to respond to. Fields that are not listed are ignored.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ResponseRequest {
    /// The model's id.
    pub model: Option<String>,
    /// A text, or a list of messages, calls and results.
    pub input: Input,
    /// Instructions before the conversation.
    pub instructions: Option<String>,
    /// Tokens of the answer at most.
    pub max_output_tokens: Option<u32>,
    /// Send the answer as it comes.
    pub stream: Option<bool>,
    /// Functions that the model may call; name, description and parameters stand beside the type.
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<Value>>,
    /// `none`, `auto`, `required`, or `{"type": "function", "name": ...}`.
    #[schema(value_type = Option<Object>)]
    pub tool_choice: Option<ToolChoice>,
    /// Whether an answer may have several calls.
    pub parallel_tool_calls: Option<bool>,
    /// Form of the text.
    pub text: Option<TextOptions>,
    /// Whether and how much to think.
    pub reasoning: Option<ReasoningOptions>,
    /// Not possible: nothing is stored.
    pub previous_response_id: Option<String>,
    /// How tokens are picked.
    #[serde(flatten)]
    pub sampling: Sampling,
}

/// A text, or items.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a string or a list of items")]
pub enum Input {
    /// A user's message.
    Text(String),
    /// Items in their order.
    Items(Vec<AnyObject>),
}

/// Form of the text.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct TextOptions {
    /// `{"type": "text"}`, `{"type": "json_object"}`, or `{"type": "json_schema", "schema": ...}`.
    #[schema(value_type = Option<Object>)]
    pub format: Option<Value>,
}

/// Whether and how much to think.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub struct ReasoningOptions {
    /// As `reasoning_effort` of a chat.
    pub effort: Option<Effort>,
}

impl ResponseRequest {
    /// The same as a chat.
    fn chat(self) -> Result<ChatRequest, ApiError> {
        if self.previous_response_id.is_some() {
            let message =
                "previous_response_id: responses are not stored; send the whole conversation as input";
            return Err(ApiError::field("previous_response_id", message));
        }
        let mut messages: Vec<Message> =
            self.instructions.into_iter().map(|text| Message::new(Role::System, text)).collect();
        match self.input {
            Input::Text(text) => messages.push(Message::new(Role::User, text)),
            Input::Items(items) => {
                for (index, item) in items.into_iter().enumerate() {
                    add_item(&mut messages, index, &Value::Object(item.0))?;
                }
            }
        }
        let tools = self.tools.unwrap_or_default();
        let tools = tools
            .iter()
            .enumerate()
            .map(|(index, tool)| self::tool(index, tool))
            .collect::<Result<_, _>>()?;
        let response_format = self.text.unwrap_or_default().format.as_ref().map(format).transpose()?;
        Ok(ChatRequest {
            model: self.model,
            messages,
            max_completion_tokens: self.max_output_tokens,
            max_tokens: None,
            n: None,
            stop: None,
            stream: self.stream,
            stream_options: None,
            tools: Some(tools),
            tool_choice: self.tool_choice,
            parallel_tool_calls: self.parallel_tool_calls,
            response_format,
            logprobs: None,
            top_logprobs: None,
            reasoning_effort: self.reasoning.and_then(|reasoning| reasoning.effort),
            chat_template_kwargs: None,
            sampling: self.sampling,
        })
    }
}

/// Adds an item to a conversation.
fn add_item(messages: &mut Vec<Message>, index: usize, item: &Value) -> Result<(), ApiError> {
    let place = format!("input[{index}]");
    let text = |field: &str| {
        let value = item[field].as_str().map(str::to_owned);
        value.ok_or_else(|| {
            ApiError::field(format!("{place}.{field}"), format!("{place}.{field}: a string is expected"))
        })
    };
    match item["type"].as_str().unwrap_or("message") {
        "message" => {
            let role = serde_json::from_value(item["role"].clone()).map_err(|error| {
                ApiError::field(format!("{place}.role"), format!("{place}.role: {error}"))
            })?;
            let content = match &item["content"] {
                Value::String(text) => Content::Text(text.clone()),
                Value::Array(parts) => Content::Parts(parts.iter().map(part).collect()),
                _ => {
                    let message = format!("{place}.content: a string or a list of parts is expected");
                    return Err(ApiError::field(format!("{place}.content"), message));
                }
            };
            let mut message = Message::new(role, "");
            message.content = Some(content);
            messages.push(message);
        }
        "function_call" => {
            let arguments = Value::String(text("arguments")?);
            let function = FunctionCall { name: text("name")?, arguments };
            let call = ToolCall { id: Some(text("call_id")?), kind: "function".into(), function };
            // Calls of one answer stand one after the other.
            match messages.last_mut() {
                Some(last) if last.role == Role::Assistant => last.tool_calls.push(call),
                _ => {
                    let mut message = Message::new(Role::Assistant, "");
                    message.tool_calls.push(call);
                    messages.push(message);
                }
            }
        }
        "function_call_output" => {
            let output = match &item["output"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let mut message = Message::new(Role::Tool, output);
            message.tool_call_id = Some(text("call_id")?);
            messages.push(message);
        }
        // Thoughts of earlier answers are not replayed.
        "reasoning" => {}
        other => {
            let message = format!(
                "{place}.type is `{other}`: message, function_call and function_call_output are possible"
            );
            return Err(ApiError::field(format!("{place}.type"), message));
        }
    }
    Ok(())
}

fn part(part: &Value) -> Part {
    let kind = part["type"].as_str().unwrap_or_default();
    let kind = if matches!(kind, "input_text" | "output_text" | "text") { "text" } else { kind };
    Part { kind: kind.into(), text: part["text"].as_str().map(str::to_owned) }
}

/// A tool in the form of chats.
fn tool(index: usize, tool: &Value) -> Result<Tool, ApiError> {
    let place = format!("tools[{index}]");
    let value = match tool.get("function") {
        Some(_) => tool.clone(),
        None => json!({ "type": tool["type"], "function": tool }),
    };
    serde_json::from_value(value).map_err(|error| ApiError::field(place.clone(), format!("{place}: {error}")))
}

fn format(format: &Value) -> Result<ResponseFormat, ApiError> {
    match format["type"].as_str() {
        Some("text") => Ok(ResponseFormat::Text),
        Some("json_object") => Ok(ResponseFormat::JsonObject),
        Some("json_schema") => {
            let name = format["name"].as_str().map(str::to_owned);
            Ok(ResponseFormat::JsonSchema {
                json_schema: NamedSchema { name, schema: format["schema"].clone() },
            })
        }
        _ => Err(ApiError::field(
            "text.format",
            "text.format.type: text, json_object or json_schema is expected",
        )),
    }
}

/// Responds.
#[utoipa::path(post, path = "/v1/responses", tag = "OpenAI", request_body = ResponseRequest,
    responses((status = 200, description = "A `response`, or a stream of events"),
        (status = 400, description = "A field makes no sense; `error.param` names it"),
        (status = 429, description = "The queue is full; `Retry-After` says for how long")))]
pub async fn respond(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    Json(request): Json<ResponseRequest>,
) -> Result<Response, ApiError> {
    let stream = request.stream.unwrap_or(false);
    let mut answering = submit(&app, client, request.chat()?).await?;
    let mut response = Building::new(Arc::clone(&app));
    if stream {
        answering.begin().await?;
        return Ok(sse(answering, response));
    }
    let (_, finished) = answering.collect().await?.pop().ok_or_else(ApiError::closing)?;
    app.metrics.answered(&finished.timings);
    response.fill(&finished);
    Ok(JsonResponse(response.object("completed", Some(&finished))).into_response())
}

/// A response that grows.
struct Building {
    app: Arc<App>,
    id: String,
    created: u64,
    items: Vec<Value>,
    /// The item that grows: its kind, and its text so far.
    open: Option<(Kind, String)>,
    sequence: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Text,
}

impl Building {
    fn new(app: Arc<App>) -> Building {
        Building { app, id: unique("resp_"), created: now(), items: Vec::new(), open: None, sequence: 0 }
    }

    fn object(&self, status: &str, finished: Option<&Finished>) -> Value {
        let cut = finished.is_some_and(|finished| finish_reason(finished) == "length");
        let mut object = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": if cut { "incomplete" } else { status },
            "incomplete_details": if cut { json!({ "reason": "max_output_tokens" }) } else { Value::Null },
            "error": null,
            "model": self.app.options.name,
            "output": self.items,
            "parallel_tool_calls": true,
            "tool_choice": "auto",
            "tools": [],
            "store": false,
            "usage": null,
        });
        if let Some(finished) = finished {
            let counts = usage(std::slice::from_ref(finished));
            object["usage"] = json!({
                "input_tokens": counts["prompt_tokens"],
                "input_tokens_details": counts["prompt_tokens_details"],
                "output_tokens": counts["completion_tokens"],
                "output_tokens_details": counts["completion_tokens_details"],
                "total_tokens": counts["total_tokens"],
            });
            object["rawloop"] = rawloop(&self.app, std::slice::from_ref(finished));
        }
        object
    }

    /// All items of an answer that is there.
    fn fill(&mut self, finished: &Finished) {
        let output = &finished.output;
        if !output.reasoning.is_empty() {
            self.items.push(item(Kind::Reasoning, &unique("rs_"), &output.reasoning, "completed"));
        }
        if !output.text.is_empty() || output.calls.is_empty() {
            self.items.push(item(Kind::Text, &unique("msg_"), &output.text, "completed"));
        }
        self.items.extend(output.calls.iter().map(call));
    }

    fn event(&mut self, name: &'static str, mut value: Value, out: &mut VecDeque<Line>) {
        value["type"] = name.into();
        value["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        out.push_back(Line { event: Some(name), data: value.to_string() });
    }

    fn begin(&mut self, out: &mut VecDeque<Line>) {
        if self.sequence == 0 {
            let object = self.object("in_progress", None);
            self.event("response.created", json!({ "response": object }), out);
            self.event("response.in_progress", json!({ "response": object }), out);
        }
    }

    /// Goes on with an item of a kind.
    fn grow(&mut self, kind: Kind, text: &str, out: &mut VecDeque<Line>) {
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.close(out);
            let id = unique(if kind == Kind::Text { "msg_" } else { "rs_" });
            let mut value = item(kind, &id, "", "in_progress");
            value["content"] = json!([]);
            let index = self.items.len();
            self.event("response.output_item.added", json!({ "output_index": index, "item": value }), out);
            self.items.push(value);
            let part = part_of(kind, "");
            let added = json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part });
            self.event("response.content_part.added", added, out);
            self.open = Some((kind, String::new()));
        }
        let index = self.items.len() - 1;
        let id = self.items[index]["id"].clone();
        if let Some((_, so_far)) = &mut self.open {
            so_far.push_str(text);
        }
        let delta = json!({ "item_id": id, "output_index": index, "content_index": 0, "delta": text });
        self.event(names(kind).0, delta, out);
    }

    /// Ends the item that grows.
    fn close(&mut self, out: &mut VecDeque<Line>) {
        let Some((kind, text)) = self.open.take() else { return };
        let index = self.items.len() - 1;
        let id = self.items[index]["id"].as_str().unwrap_or_default().to_owned();
        let done = json!({ "item_id": id, "output_index": index, "content_index": 0, "text": text });
        self.event(names(kind).1, done, out);
        let part =
            json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part_of(kind, &text) });
        self.event("response.content_part.done", part, out);
        self.items[index] = item(kind, &id, &text, "completed");
        let done = json!({ "output_index": index, "item": self.items[index] });
        self.event("response.output_item.done", done, out);
    }
}

fn names(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Text => ("response.output_text.delta", "response.output_text.done"),
        Kind::Reasoning => ("response.reasoning_text.delta", "response.reasoning_text.done"),
    }
}

fn part_of(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Text => json!({ "type": "output_text", "text": text, "annotations": [] }),
        Kind::Reasoning => json!({ "type": "reasoning_text", "text": text }),
    }
}

fn item(kind: Kind, id: &str, text: &str, status: &str) -> Value {
    let content = json!([part_of(kind, text)]);
    match kind {
        Kind::Text => {
            json!({ "id": id, "type": "message", "role": "assistant", "status": status, "content": content })
        }
        Kind::Reasoning => {
            json!({ "id": id, "type": "reasoning", "summary": [], "status": status, "content": content })
        }
    }
}

fn call(call: &rawloop_engine::chat::ParsedCall) -> Value {
    let arguments = Value::Object(call.arguments.clone()).to_string();
    json!({ "id": unique("fc_"), "type": "function_call", "status": "completed", "call_id": unique("call_"),
        "name": call.name, "arguments": arguments })
}

impl Encoder for Building {
    fn event(&mut self, _: usize, event: Event, out: &mut VecDeque<Line>) {
        self.begin(out);
        match event {
            Event::Text(text) => self.grow(Kind::Text, &text, out),
            Event::Reasoning(text) => self.grow(Kind::Reasoning, &text, out),
            Event::Call(parsed) => {
                self.close(out);
                let value = call(&parsed);
                let (index, id) = (self.items.len(), value["id"].clone());
                let mut begun = value.clone();
                begun["status"] = "in_progress".into();
                begun["arguments"] = "".into();
                self.event(
                    "response.output_item.added",
                    json!({ "output_index": index, "item": begun }),
                    out,
                );
                let arguments = value["arguments"].clone();
                let delta = json!({ "item_id": id, "output_index": index, "delta": arguments });
                self.event("response.function_call_arguments.delta", delta, out);
                let done = json!({ "item_id": id, "output_index": index, "name": parsed.name, "arguments": arguments });
                self.event("response.function_call_arguments.done", done, out);
                self.event("response.output_item.done", json!({ "output_index": index, "item": value }), out);
                self.items.push(value);
            }
            Event::Done(finished) => {
                self.app.metrics.answered(&finished.timings);
                if self.items.is_empty() {
                    self.grow(Kind::Text, "", out);
                }
                self.close(out);
                let object = self.object("completed", Some(&finished));
                let cut = object["status"] == "incomplete";
                let name = if cut { "response.incomplete" } else { "response.completed" };
                self.event(name, json!({ "response": object }), out);
            }
            Event::Prefill | Event::Scored(_) | Event::Token(..) | Event::Failed(_) => {}
        }
    }

    fn error(&mut self, error: ApiError, out: &mut VecDeque<Line>) {
        self.begin(out);
        self.close(out);
        let mut object = self.object("failed", None);
        object["error"] = json!({ "code": error.code.unwrap_or("server_error"), "message": error.message });
        self.event("response.failed", json!({ "response": object }), out);
    }

    fn end(&mut self, _: &mut VecDeque<Line>) {}
}
