//! Ollama's interface, which many programs speak: conversations, texts, and the list of models.
//!
//! Answers are lines of JSON and come as a stream unless `"stream": false` says otherwise. A request is turned into the chat
//! request of [`crate::openai`], so both give the same answer to the same question. Errors have OpenAI's object under `error`
//! elsewhere; here `error` is the sentence, as Ollama's clients read it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonResponse};
use rawloop_engine::chat::{Message, Role, Tool};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::http::{App, Client, Encoder, Json, Line, ndjson, now};
use crate::openai::chat::{ChatRequest, NamedSchema, ResponseFormat, TemplateArguments, submit};
use crate::openai::{AnyObject, Sampling, Stops};
use crate::work::{Event, Finished};

/// Ollama's version whose interface this is.
const VERSION: &str = "0.12.0";

/// Settings of an answer, by Ollama's names. Others are ignored.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct Settings {
    /// Tokens of the answer at most; below 0 as many as the server allows.
    pub num_predict: Option<i64>,
    /// Texts that end the answer.
    pub stop: Option<Stops>,
    /// Divides the logit of what occurred.
    pub repeat_penalty: Option<f32>,
    /// How tokens are picked.
    #[serde(flatten)]
    pub sampling: Sampling,
}

/// A form: `"json"`, or a schema.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "\"json\" or a schema")]
pub enum Format {
    /// `json`, or nothing.
    Word(String),
    /// A schema.
    Schema(AnyObject),
}

/// Whether to think: yes, no, or how much.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "true, false or a level")]
pub enum Think {
    /// Yes or no.
    Whether(bool),
    /// `low`, `medium`, `high`.
    Level(String),
}

/// A conversation in Ollama's form.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct OllamaChat {
    /// The model.
    pub model: Option<String>,
    /// The conversation.
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<OllamaMessage>,
    /// Functions that the model may call.
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<Tool>>,
    /// Form of the answer.
    pub format: Option<Format>,
    /// Settings.
    pub options: Option<Settings>,
    /// Send the answer as it comes; yes where it is left out.
    pub stream: Option<bool>,
    /// Whether to think.
    pub think: Option<Think>,
}

/// A message in Ollama's form.
#[derive(Clone, Debug, Deserialize)]
pub struct OllamaMessage {
    #[serde(flatten)]
    message: Message,
    thinking: Option<String>,
    tool_name: Option<String>,
    images: Option<Vec<Value>>,
}

/// A text in Ollama's form.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct OllamaGenerate {
    /// The model.
    pub model: Option<String>,
    /// What is asked; empty loads the model, which is loaded here.
    #[serde(default)]
    pub prompt: String,
    /// Instructions.
    pub system: Option<String>,
    /// Form of the answer.
    pub format: Option<Format>,
    /// Settings.
    pub options: Option<Settings>,
    /// Send the answer as it comes; yes where it is left out.
    pub stream: Option<bool>,
    /// Whether to think.
    pub think: Option<Think>,
    /// Not possible.
    #[schema(value_type = Option<Vec<String>>)]
    pub images: Option<Vec<Value>>,
}

fn format(format: Option<Format>) -> Result<Option<ResponseFormat>, ApiError> {
    match format {
        None => Ok(None),
        Some(Format::Word(word)) if word.is_empty() => Ok(None),
        Some(Format::Word(word)) if word == "json" => Ok(Some(ResponseFormat::JsonObject)),
        Some(Format::Word(word)) => {
            Err(ApiError::field("format", format!("format is {word:?}: \"json\" or a schema is expected")))
        }
        Some(Format::Schema(schema)) => {
            let json_schema = NamedSchema { name: None, schema: Value::Object(schema.0) };
            Ok(Some(ResponseFormat::JsonSchema { json_schema }))
        }
    }
}

/// The same as a chat of OpenAI's.
fn chat(
    model: Option<String>,
    messages: Vec<Message>,
    tools: Option<Vec<Tool>>,
    form: Option<Format>,
    settings: Option<Settings>,
    think: Option<Think>,
) -> Result<ChatRequest, ApiError> {
    let Settings { num_predict, stop, repeat_penalty, mut sampling } = settings.unwrap_or_default();
    sampling.repetition_penalty = sampling.repetition_penalty.or(repeat_penalty);
    let (enable_thinking, reasoning_effort) = match think {
        None => (None, None),
        Some(Think::Whether(whether)) => (Some(whether), None),
        Some(Think::Level(level)) => {
            let effort = serde_json::from_value(level.clone().into());
            let wrong = |_| {
                ApiError::field(
                    "think",
                    format!("think is {level:?}: true, false, low, medium or high is expected"),
                )
            };
            (None, Some(effort.map_err(wrong)?))
        }
    };
    Ok(ChatRequest {
        model,
        messages,
        max_completion_tokens: num_predict.and_then(|tokens| u32::try_from(tokens).ok()),
        max_tokens: None,
        n: None,
        stop,
        stream: None,
        stream_options: None,
        tools,
        tool_choice: None,
        parallel_tool_calls: None,
        response_format: format(form)?,
        logprobs: None,
        top_logprobs: None,
        reasoning_effort,
        chat_template_kwargs: Some(TemplateArguments { enable_thinking, thinking_budget: None }),
        sampling,
    })
}

fn no_images(images: Option<&Vec<Value>>, param: &str) -> Result<(), ApiError> {
    match images {
        Some(images) if !images.is_empty() => {
            Err(ApiError::field(param, format!("{param}: this model reads text only")))
        }
        _ => Ok(()),
    }
}

/// Answers a conversation.
#[utoipa::path(post, path = "/api/chat", tag = "Ollama", request_body = OllamaChat,
    responses((status = 200, description = "Lines of JSON, or one object", content_type = "application/x-ndjson"),
        (status = 400, description = "A field makes no sense"), (status = 429, description = "The queue is full")))]
pub async fn converse(
    state: State<Arc<App>>,
    client: Extension<Client>,
    request: Result<Json<OllamaChat>, ApiError>,
) -> Result<Response, OllamaError> {
    let Json(request) = request?;
    let mut messages = Vec::with_capacity(request.messages.len());
    for (index, one) in request.messages.into_iter().enumerate() {
        no_images(one.images.as_ref(), &format!("messages[{index}].images"))?;
        let mut message = one.message;
        message.reasoning = message.reasoning.or(one.thinking);
        message.name = message.name.or(one.tool_name);
        messages.push(message);
    }
    if messages.is_empty() {
        return Ok(JsonResponse(loaded(&state, "message")).into_response());
    }
    let OllamaChat { model, tools, format, options, stream, think, .. } =
        OllamaChat { messages: Vec::new(), ..request };
    let chat = chat(model, messages, tools, format, options, think)?;
    answer(&state, &client, chat, stream.unwrap_or(true), true).await
}

/// Answers a text.
#[utoipa::path(post, path = "/api/generate", tag = "Ollama", request_body = OllamaGenerate,
    responses((status = 200, description = "Lines of JSON, or one object", content_type = "application/x-ndjson"),
        (status = 400, description = "A field makes no sense"), (status = 429, description = "The queue is full")))]
pub async fn generate(
    state: State<Arc<App>>,
    client: Extension<Client>,
    request: Result<Json<OllamaGenerate>, ApiError>,
) -> Result<Response, OllamaError> {
    let Json(request) = request?;
    no_images(request.images.as_ref(), "images")?;
    if request.prompt.is_empty() {
        state.check_model_aside(request.model.as_deref()).await?;
        return Ok(JsonResponse(loaded(&state, "response")).into_response());
    }
    let system = request.system.filter(|text| !text.is_empty()).map(|text| Message::new(Role::System, text));
    let messages = system.into_iter().chain([Message::new(Role::User, request.prompt)]).collect();
    let chat = chat(request.model, messages, None, request.format, request.options, request.think)?;
    answer(&state, &client, chat, request.stream.unwrap_or(true), false).await
}

/// What is said where there is nothing to answer: the model is there.
fn loaded(app: &App, field: &str) -> Value {
    let mut value = head(app);
    value[field] = if field == "message" { json!({ "role": "assistant", "content": "" }) } else { "".into() };
    value["done"] = true.into();
    value["done_reason"] = "load".into();
    value
}

/// A time in seconds since 1970, as RFC 3339 has it.
fn time(seconds: u64) -> String {
    let time = chrono::DateTime::from_timestamp(seconds as i64, 0).unwrap_or_default();
    time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

fn head(app: &App) -> Value {
    json!({ "model": app.options.name, "created_at": time(now()) })
}

async fn answer(
    app: &Arc<App>,
    client: &Client,
    request: ChatRequest,
    stream: bool,
    is_chat: bool,
) -> Result<Response, OllamaError> {
    let mut answering = submit(app, *client, request).await?;
    let lines = Lines { app: Arc::clone(app), is_chat };
    if stream {
        answering.begin().await?;
        return Ok(ndjson(answering, lines));
    }
    let (_, finished) = answering.collect().await?.pop().ok_or_else(ApiError::closing)?;
    app.metrics.answered(&finished.timings);
    let output = &finished.output;
    let mut value = lines.line(&output.text, &output.reasoning, output.calls.iter().map(call).collect());
    lines.close(&mut value, &finished);
    Ok(JsonResponse(value).into_response())
}

/// Lists the model.
#[utoipa::path(get, path = "/api/tags", tag = "Ollama", responses((status = 200, description = "A list of one model")))]
pub async fn tags(State(app): State<Arc<App>>) -> JsonResponse<Value> {
    let name = &app.options.name;
    JsonResponse(json!({ "models": [{
        "name": name,
        "model": name,
        "modified_at": time(app.created),
        "size": app.model().pack().bytes().len(),
        "digest": "",
        "details": details(&app),
    }] }))
}

fn details(app: &App) -> Value {
    let manifest = &app.model().pack().manifest().model;
    json!({ "format": "rlp", "family": "gemma4", "families": ["gemma4"], "parameter_size": "", "quantization_level": manifest.profile })
}

/// Describes the model.
#[utoipa::path(post, path = "/api/show", tag = "Ollama",
    responses((status = 200, description = "The model"), (status = 404, description = "There is no such model")))]
pub async fn show(
    State(app): State<Arc<App>>,
    request: Result<Json<BTreeMap<String, Value>>, ApiError>,
) -> Result<JsonResponse<Value>, OllamaError> {
    let Json(request) = request?;
    let name = request.get("model").or(request.get("name")).and_then(Value::as_str);
    app.check_model_aside(name).await?;
    Ok(JsonResponse(json!({
        "details": details(&app),
        "capabilities": ["completion", "tools", "thinking"],
        "model_info": { "general.architecture": "gemma4", "gemma4.context_length": app.info().context },
    })))
}

/// The version of the interface.
#[utoipa::path(get, path = "/api/version", tag = "Ollama", responses((status = 200, description = "The version")))]
pub async fn version() -> JsonResponse<Value> {
    JsonResponse(json!({ "version": VERSION }))
}

fn call(call: &rawloop_engine::chat::ParsedCall) -> Value {
    json!({ "function": { "name": call.name, "arguments": call.arguments } })
}

/// An answer as lines.
struct Lines {
    app: Arc<App>,
    is_chat: bool,
}

impl Lines {
    fn line(&self, text: &str, reasoning: &str, calls: Vec<Value>) -> Value {
        let mut value = head(&self.app);
        let mut part = json!({});
        if !reasoning.is_empty() {
            part["thinking"] = reasoning.into();
        }
        if self.is_chat {
            part["role"] = "assistant".into();
            part["content"] = text.into();
            if !calls.is_empty() {
                part["tool_calls"] = calls.into();
            }
            value["message"] = part;
        } else {
            value["response"] = text.into();
            if let Some(thinking) = part.get("thinking") {
                value["thinking"] = thinking.clone();
            }
        }
        value["done"] = false.into();
        value
    }

    /// Adds what ends an answer.
    fn close(&self, value: &mut Value, finished: &Finished) {
        let t = &finished.timings;
        let nanos = |time: std::time::Duration| time.as_nanos() as u64;
        let reason = if crate::work::finish_reason(finished) == "length" { "length" } else { "stop" };
        let fields = json!({
            "done": true,
            "done_reason": reason,
            "total_duration": nanos(t.prefill + t.decode),
            "load_duration": 0,
            "prompt_eval_count": t.prompt_tokens,
            "prompt_eval_duration": nanos(t.prefill),
            "eval_count": t.tokens,
            "eval_duration": nanos(t.decode),
            "rawloop": crate::openai::rawloop(&self.app, std::slice::from_ref(finished)),
        });
        if let (Some(value), Value::Object(fields)) = (value.as_object_mut(), fields) {
            value.extend(fields);
        }
    }
}

impl Encoder for Lines {
    fn event(&mut self, _: usize, event: Event, out: &mut VecDeque<Line>) {
        let value = match event {
            Event::Text(text) => self.line(&text, "", Vec::new()),
            Event::Reasoning(text) => self.line("", &text, Vec::new()),
            Event::Call(parsed) => self.line("", "", vec![call(&parsed)]),
            Event::Done(finished) => {
                self.app.metrics.answered(&finished.timings);
                let mut value = self.line("", "", Vec::new());
                self.close(&mut value, &finished);
                value
            }
            Event::Prefill | Event::Scored(_) | Event::Token(..) | Event::Failed(_) => return,
        };
        out.push_back(Line::json(&value));
    }

    fn error(&mut self, error: ApiError, out: &mut VecDeque<Line>) {
        out.push_back(Line::json(&json!({ "error": error.message })));
    }

    fn end(&mut self, _: &mut VecDeque<Line>) {}
}

/// An error in Ollama's form.
pub struct OllamaError(ApiError);

impl From<ApiError> for OllamaError {
    fn from(error: ApiError) -> OllamaError {
        OllamaError(error)
    }
}

impl IntoResponse for OllamaError {
    fn into_response(self) -> Response {
        let sentence = json!({ "error": self.0.message });
        let (parts, _) = self.0.into_response().into_parts();
        let mut response = JsonResponse(sentence).into_response();
        *response.status_mut() = parts.status;
        if let Some(seconds) = parts.headers.get(axum::http::header::RETRY_AFTER) {
            response.headers_mut().insert(axum::http::header::RETRY_AFTER, seconds.clone());
        }
        response
    }
}
