//! `/v1/chat/completions`.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonResponse};
use rawloop_engine::ChatOptions;
use rawloop_engine::chat::{Message, ParsedCall, Tool};
use rawloop_engine::guided::Grammar;
use rawloop_engine::sample::LogProbabilities;
use rawloop_engine::tools::{PlanOptions, ToolChoice, declare};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    Sampling, Stops, StreamOptions, alternatives, answers, chat_logprobs, generate, rawloop, split_system,
    usage,
};
use crate::error::ApiError;
use crate::http::{Answering, App, Client, Encoder, Json, Line, aside, now, sse, unique};
use crate::work::{Event, Finished, Form, Slot, What, finish_reason, with_followers};

/// A conversation to answer. Fields that are not listed are ignored.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ChatRequest {
    /// The model's id; what is left out is the model that runs.
    pub model: Option<String>,
    /// The conversation: system, user, assistant and tool messages in OpenAI's form.
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<Message>,
    /// Tokens of the answer at most, thoughts included.
    pub max_completion_tokens: Option<u32>,
    /// Older name of the same.
    pub max_tokens: Option<u32>,
    /// Answers to make, each with the next seed.
    pub n: Option<u32>,
    /// Texts that end the answer and are no part of it.
    pub stop: Option<Stops>,
    /// Send the answer as it comes.
    pub stream: Option<bool>,
    /// What a stream holds besides.
    pub stream_options: Option<StreamOptions>,
    /// Functions that the model may call.
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<Tool>>,
    /// `none`, `auto`, `required`, or `{"type": "function", "function": {"name": ...}}`.
    #[schema(value_type = Option<Object>)]
    pub tool_choice: Option<ToolChoice>,
    /// Whether an answer may have several calls.
    pub parallel_tool_calls: Option<bool>,
    /// What the text of the answer has to look like.
    pub response_format: Option<ResponseFormat>,
    /// Report how likely tokens were.
    pub logprobs: Option<bool>,
    /// With so many alternatives, at most 20.
    pub top_logprobs: Option<u32>,
    /// `none` turns thoughts off; `minimal`, `low`, `medium` and `high` turn them on, with at most 128, 512, 2048 tokens and as
    /// many as the model likes.
    pub reasoning_effort: Option<Effort>,
    /// Arguments of the chat template.
    pub chat_template_kwargs: Option<TemplateArguments>,
    /// How tokens are picked.
    #[serde(flatten)]
    pub sampling: Sampling,
}

/// How much to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // The names say it.
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
}

impl Effort {
    /// Whether to think, and the tokens for it.
    pub fn thinking(self) -> (bool, Option<usize>) {
        match self {
            Effort::None => (false, None),
            Effort::Minimal => (true, Some(128)),
            Effort::Low => (true, Some(512)),
            Effort::Medium => (true, Some(2048)),
            Effort::High => (true, None),
        }
    }
}

/// Arguments of the chat template.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub struct TemplateArguments {
    /// Whether the model thinks before it answers.
    pub enable_thinking: Option<bool>,
    /// Tokens of thoughts at most.
    pub thinking_budget: Option<u32>,
}

/// What the text of an answer has to look like.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Any text.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that is valid under a schema.
    JsonSchema {
        /// The schema with its name.
        json_schema: NamedSchema,
    },
}

/// A schema with a name.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct NamedSchema {
    /// Its name, which the model does not see.
    pub name: Option<String>,
    /// The schema.
    #[schema(value_type = Object)]
    pub schema: Value,
}

impl ResponseFormat {
    /// The grammar of the text, with what tells it from others.
    ///
    /// # Errors
    /// A schema that cannot be followed.
    pub fn grammar(&self) -> Result<Option<(Arc<Grammar>, String)>, ApiError> {
        let refused = |param: &str, error: &dyn std::fmt::Display| ApiError::field(param, error);
        match self {
            ResponseFormat::Text => Ok(None),
            ResponseFormat::JsonObject => {
                let grammar = Grammar::json_object().map_err(|error| refused("response_format", &error))?;
                Ok(Some((Arc::new(grammar), "object".into())))
            }
            ResponseFormat::JsonSchema { json_schema } => {
                let schema = &json_schema.schema;
                let grammar = Grammar::json_schema(schema)
                    .map_err(|error| refused("response_format.json_schema.schema", &error))?;
                Ok(Some((Arc::new(grammar), schema.to_string())))
            }
        }
    }
}

/// Tokens of an answer at most.
///
/// # Errors
/// None at all, or two numbers that differ.
pub fn most_tokens(app: &App, new: Option<u32>, old: Option<u32>) -> Result<usize, ApiError> {
    let (name, tokens) = match (new, old) {
        (Some(new), Some(old)) if new != old => {
            let message = format!("max_completion_tokens is {new} and max_tokens is {old}: give one of them");
            return Err(ApiError::field("max_completion_tokens", message));
        }
        (Some(new), _) => ("max_completion_tokens", new),
        (None, Some(old)) => ("max_tokens", old),
        (None, None) => return Ok(app.options.max_tokens),
    };
    if tokens == 0 {
        return Err(ApiError::field(name, format!("{name} is 0: expected at least 1")));
    }
    Ok(tokens as usize)
}

impl ChatRequest {
    /// What is answered, how, and in which form.
    ///
    /// # Errors
    /// The field that makes no sense.
    fn plan(self, app: &App) -> Result<(Vec<Message>, ChatOptions, Form), ApiError> {
        app.check_model(self.model.as_deref())?;
        if self.messages.is_empty() {
            return Err(ApiError::field("messages", "messages is empty: there is nothing to answer"));
        }
        let max_tokens = most_tokens(app, self.max_completion_tokens, self.max_tokens)?;
        let mut sampling = self.sampling.options(app)?;
        sampling.log_probabilities = alternatives(self.logprobs, self.top_logprobs)?;
        let mut generate = generate(app, max_tokens, sampling, Stops::texts(self.stop.as_ref())?);
        let arguments = self.chat_template_kwargs.unwrap_or_default();
        let (mut thinking, budget) =
            self.reasoning_effort.map_or((app.options.thinking, None), Effort::thinking);
        generate.thinking_budget = arguments.thinking_budget.map(|tokens| tokens as usize).or(budget);
        thinking = arguments.enable_thinking.unwrap_or(thinking);
        let tools = self.tools.unwrap_or_default();
        check_tools(&tools)?;
        let choice = self.tool_choice.unwrap_or_default();
        if tools.is_empty() && !matches!(choice, ToolChoice::None | ToolChoice::Auto) {
            return Err(ApiError::field(
                "tool_choice",
                "tool_choice asks for a call, but there are no tools",
            ));
        }
        if let ToolChoice::Named(name) = &choice
            && !tools.iter().any(|tool| tool.function.name == *name)
        {
            return Err(ApiError::field(
                "tool_choice",
                format!("tool_choice names `{name}`, which is none of the tools"),
            ));
        }
        let calls = match self.parallel_tool_calls {
            Some(false) => PlanOptions { most_calls: 1 },
            _ => PlanOptions::default(),
        };
        let grammar = self.response_format.as_ref().map_or(Ok(None), ResponseFormat::grammar)?;
        let form = Form { tools: declare(&tools), choice, calls, grammar };
        let (system, messages) = split_system(self.messages);
        let options = ChatOptions {
            system,
            thinking,
            tools: Vec::new(),
            special_tokens: app.options.special_tokens,
            generate,
        };
        Ok((messages, options, form))
    }
}

fn check_tools(tools: &[Tool]) -> Result<(), ApiError> {
    for (index, tool) in tools.iter().enumerate() {
        let place = format!("tools[{index}]");
        if tool.kind != "function" {
            let message = format!("{place}.type is `{}`: only functions can be called", tool.kind);
            return Err(ApiError::field(format!("{place}.type"), message));
        }
        let name = &tool.function.name;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
            let message =
                format!("{place}.function.name is {name:?}: letters, digits, `_`, `-` and `.` make a name");
            return Err(ApiError::field(format!("{place}.function.name"), message));
        }
        if tools[..index].iter().any(|other| other.function.name == *name) {
            let message = format!("{place}.function.name is `{name}`, as another tool's is");
            return Err(ApiError::field(format!("{place}.function.name"), message));
        }
    }
    Ok(())
}

/// Lets a conversation be answered. Tokens are told one by one where log-probabilities are asked for.
///
/// # Errors
/// A field makes no sense, or there is no room.
pub async fn submit(app: &Arc<App>, client: Client, request: ChatRequest) -> Result<Answering, ApiError> {
    let admission = app.admit(answers(request.n)?, "n")?;
    let (app, tokens) = (Arc::clone(app), request.logprobs.unwrap_or(false));
    let planned = move || {
        let (messages, options, form) = request.plan(&app)?;
        let (messages, form) = (Arc::new(messages), Arc::new(form));
        let task = |slot: Slot| {
            let mut options = options.clone();
            let seed = &mut options.generate.sampling.seed;
            *seed = seed.wrapping_add(slot.index as u64);
            let what = What::Chat { messages: Arc::clone(&messages), options: Box::new(options) };
            slot.task(what, Arc::clone(&form), tokens)
        };
        app.submit(client, admission, |slots| with_followers(slots.into_iter().map(task)))
    };
    aside(planned).await?
}

/// Answers a conversation.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "OpenAI", request_body = ChatRequest,
    responses((status = 200, description = "A `chat.completion`, or a stream of `chat.completion.chunk`"),
        (status = 400, description = "A field makes no sense; `error.param` names it"),
        (status = 429, description = "The queue is full; `Retry-After` says for how long")))]
pub async fn completions(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    Json(request): Json<ChatRequest>,
) -> Result<Response, ApiError> {
    let stream = request.stream.unwrap_or(false);
    let with_usage = request.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
    let logs = request.logprobs.unwrap_or(false);
    let count = answers(request.n)?;
    let mut answering = submit(&app, client, request).await?;
    let (id, created) = (unique("chatcmpl-"), now());
    if stream {
        answering.begin().await?;
        let encoder = Chunks::new(app, id, created, count, with_usage);
        return Ok(sse(answering, encoder));
    }
    let (mut choices, mut finished) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (index, (whole, done)) in answering.collect().await?.into_iter().enumerate() {
        app.metrics.answered(&done.timings);
        let logprobs = logs.then(|| chat_logprobs(app.model().tokenizer(), &whole.text_tokens));
        choices.push(json!({
            "index": index,
            "message": message(&done),
            "logprobs": logprobs,
            "finish_reason": finish_reason(&done),
        }));
        finished.push(done);
    }
    Ok(JsonResponse(json!({
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": app.options.name,
        "choices": choices,
        "usage": usage(&finished),
        "rawloop": rawloop(&app, &finished),
    }))
    .into_response())
}

/// An answer as a message.
fn message(finished: &Finished) -> Value {
    let output = &finished.output;
    let mut message = json!({ "role": "assistant", "content": output.text, "refusal": null });
    if output.text.is_empty() && !output.calls.is_empty() {
        message["content"] = Value::Null;
    }
    if !output.reasoning.is_empty() {
        message["reasoning_content"] = output.reasoning.as_str().into();
    }
    if !output.calls.is_empty() {
        message["tool_calls"] = output.calls.iter().map(call).collect();
    }
    message
}

/// A call with a name of its own.
fn call(call: &ParsedCall) -> Value {
    let arguments = Value::Object(call.arguments.clone()).to_string();
    json!({ "id": unique("call_"), "type": "function", "function": { "name": call.name, "arguments": arguments } })
}

/// A stream of chunks.
struct Chunks {
    app: Arc<App>,
    id: String,
    created: u64,
    with_usage: bool,
    choices: Vec<Choice>,
}

/// One answer of a stream.
#[derive(Default)]
struct Choice {
    begun: bool,
    calls: usize,
    /// Tokens whose text has not come.
    tokens: Vec<LogProbabilities>,
    finished: Option<Finished>,
}

impl Chunks {
    fn new(app: Arc<App>, id: String, created: u64, count: usize, with_usage: bool) -> Chunks {
        let choices = (0..count).map(|_| Choice::default()).collect();
        Chunks { app, id, created, with_usage, choices }
    }

    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.app.options.name,
            "choices": choices,
        });
        if self.with_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn delta(
        &mut self,
        index: usize,
        delta: Value,
        logprobs: Value,
        finish: Option<&str>,
        out: &mut VecDeque<Line>,
    ) {
        if !std::mem::replace(&mut self.choices[index].begun, true) {
            let first = json!({ "role": "assistant", "content": "" });
            self.delta(index, first, Value::Null, None, out);
        }
        let choice =
            json!([{ "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish }]);
        out.push_back(Line::json(&self.chunk(choice)));
    }
}

impl Encoder for Chunks {
    fn event(&mut self, index: usize, event: Event, out: &mut VecDeque<Line>) {
        let Some(choice) = self.choices.get_mut(index) else { return };
        match event {
            Event::Token(_, log) => choice.tokens.extend(log),
            Event::Text(text) => {
                let tokens = std::mem::take(&mut choice.tokens);
                let logprobs = match tokens.is_empty() {
                    true => Value::Null,
                    false => chat_logprobs(self.app.model().tokenizer(), &tokens),
                };
                self.delta(index, json!({ "content": text }), logprobs, None, out);
            }
            Event::Reasoning(text) => {
                choice.tokens.clear();
                self.delta(index, json!({ "reasoning_content": text }), Value::Null, None, out);
            }
            Event::Call(parsed) => {
                choice.tokens.clear();
                let mut value = call(&parsed);
                value["index"] = choice.calls.into();
                choice.calls += 1;
                self.delta(index, json!({ "tool_calls": [value] }), Value::Null, None, out);
            }
            Event::Done(finished) => {
                self.app.metrics.answered(&finished.timings);
                let reason = finish_reason(&finished);
                choice.finished = Some(*finished);
                self.delta(index, json!({}), Value::Null, Some(reason), out);
            }
            Event::Prefill | Event::Scored(_) | Event::Failed(_) => {}
        }
    }

    fn error(&mut self, error: ApiError, out: &mut VecDeque<Line>) {
        out.push_back(Line::json(&error.body()));
    }

    fn end(&mut self, out: &mut VecDeque<Line>) {
        if self.with_usage {
            let finished: Vec<Finished> =
                self.choices.iter_mut().filter_map(|choice| choice.finished.take()).collect();
            let mut chunk = self.chunk(json!([]));
            chunk["usage"] = usage(&finished);
            chunk["rawloop"] = rawloop(&self.app, &finished);
            out.push_back(Line::json(&chunk));
        }
        out.push_back(Line { event: None, data: "[DONE]".into() });
    }
}
