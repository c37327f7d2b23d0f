//! `/v1/tokenize` and `/v1/detokenize`: texts as the model reads them.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use rawloop_engine::chat::{Message, RenderOptions, Tool};
use rawloop_engine::tools::declare;
use rawloop_tokenizer::{SpecialText, SpecialTokens};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::http::{App, Json, aside};

/// A text, or a conversation, to count and split.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TokenizeRequest {
    /// The model's id.
    pub model: Option<String>,
    /// A text, as it stands.
    #[serde(alias = "prompt", alias = "content")]
    pub text: Option<String>,
    /// A conversation, as it is rendered for an answer.
    #[schema(value_type = Option<Vec<Object>>)]
    pub messages: Option<Vec<Message>>,
    /// Tools that the conversation declares.
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<Tool>>,
    /// Puts `<bos>` before a text; a conversation has it.
    pub add_special_tokens: Option<bool>,
    /// Adds what each token stands for.
    pub return_token_strs: Option<bool>,
}

/// Splits a text into tokens.
#[utoipa::path(post, path = "/v1/tokenize", tag = "rawloop", request_body = TokenizeRequest,
    responses((status = 200, description = "`tokens`, `count` and `max_model_len`")))]
pub async fn tokenize(
    State(app): State<Arc<App>>,
    Json(request): Json<TokenizeRequest>,
) -> Result<JsonResponse<Value>, ApiError> {
    Ok(JsonResponse(aside(move || split(&app, &request)).await??))
}

fn split(app: &App, request: &TokenizeRequest) -> Result<Value, ApiError> {
    app.check_model(request.model.as_deref())?;
    let model = app.model();
    let special = if app.options.special_tokens { SpecialTokens::Parse } else { SpecialTokens::Text };
    let ids = match (&request.text, &request.messages) {
        (Some(text), None) if request.add_special_tokens.unwrap_or(false) => {
            model.control().raw_prompt(model.tokenizer(), text, special)
        }
        (Some(text), None) => model.tokenizer().encode(text, special),
        (None, Some(messages)) => {
            let tools = declare(request.tools.as_deref().unwrap_or_default());
            let options = RenderOptions {
                enable_thinking: app.options.thinking,
                tools: &tools,
                special_tokens: app.options.special_tokens,
                ..RenderOptions::default()
            };
            let rendered = model.render(&options, messages).map_err(rawloop_engine::EngineError::from)?;
            rendered.to_ids(model.tokenizer())
        }
        _ => return Err(ApiError::field("text", "give either text or messages")),
    };
    let mut value = json!({ "count": ids.len(), "max_model_len": app.info().context, "tokens": ids });
    if request.return_token_strs.unwrap_or(false) {
        value["token_strs"] =
            ids.iter().map(|&id| model.tokenizer().spelling(id).unwrap_or_default()).collect();
    }
    Ok(value)
}

/// Tokens to put together.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct DetokenizeRequest {
    /// The model's id.
    pub model: Option<String>,
    /// The ids.
    pub tokens: Vec<u32>,
}

/// Puts tokens together.
#[utoipa::path(post, path = "/v1/detokenize", tag = "rawloop", request_body = DetokenizeRequest,
    responses((status = 200, description = "The `prompt` that the tokens spell")))]
pub async fn detokenize(
    State(app): State<Arc<App>>,
    Json(request): Json<DetokenizeRequest>,
) -> Result<JsonResponse<Value>, ApiError> {
    app.check_model_aside(request.model.as_deref()).await?;
    let decode = move || app.model().tokenizer().decode(&request.tokens, SpecialText::Keep);
    let text = aside(decode).await?;
    let text = text.map_err(|error| ApiError::field("tokens", error))?;
    Ok(JsonResponse(json!({ "prompt": text, "text": text })))
}
