//! Refusals and failures as clients get them: OpenAI's shape, a status that fits, and the field that is meant.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rawloop_engine::EngineError;
use rawloop_engine::backend::BackendError;
use rawloop_engine::guided::GuidedError;
use serde_json::{Value, json};

/// A request that is not answered, or an answer that broke off.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// For programs: `invalid_api_key`, `context_length_exceeded` ...
    pub code: Option<&'static str>,
    /// The field of the request that is meant.
    pub param: Option<String>,
    /// For a person.
    pub message: String,
    /// Seconds after which another try makes sense.
    pub retry_after: Option<u64>,
}

impl ApiError {
    /// An error of a status.
    pub fn new(status: StatusCode, message: impl ToString) -> ApiError {
        ApiError { status, code: None, param: None, message: message.to_string(), retry_after: None }
    }

    /// A field that makes no sense.
    pub fn field(param: impl Into<String>, message: impl ToString) -> ApiError {
        ApiError { param: Some(param.into()), ..ApiError::new(StatusCode::BAD_REQUEST, message) }
    }

    /// Adds the word for programs.
    pub fn code(self, code: &'static str) -> ApiError {
        ApiError { code: Some(code), ..self }
    }

    /// Every place is taken and the line is full.
    pub fn busy(seconds: u64) -> ApiError {
        let message =
            format!("the server is busy: every place in its queue is taken; try again in {seconds} s");
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, message).code("rate_limit_exceeded");
        ApiError { retry_after: Some(seconds), ..error }
    }

    /// The request took too long.
    pub fn late() -> ApiError {
        let message =
            "the request took longer than this server allows; ask for fewer tokens, or raise --time-limit";
        ApiError::new(StatusCode::GATEWAY_TIMEOUT, message).code("timeout")
    }

    /// The server ends.
    pub fn closing() -> ApiError {
        let message = "the server is being shut down";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message).code("shutting_down")
    }

    /// What runs the model is gone.
    pub fn failed() -> ApiError {
        let message = "the thread that runs the model has failed; the server has to be started anew";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message).code("model_failed")
    }

    /// OpenAI's word for the kind of error.
    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The error's object: the value of `error`.
    pub fn object(&self) -> Value {
        json!({ "message": self.message, "type": self.kind(), "param": self.param, "code": self.code })
    }

    /// The whole body.
    pub fn body(&self) -> Value {
        json!({ "error": self.object() })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> ApiError {
        match &error {
            EngineError::Context { .. } | EngineError::Backend(BackendError::ContextFull { .. }) => {
                let message = error.to_string().replace(" (--ctx)", "").replace("; raise --ctx or", ";");
                ApiError::field("messages", message).code("context_length_exceeded")
            }
            EngineError::Chat(_) => {
                let message = error.to_string();
                // Such messages begin with the place.
                let place = message.split(": ").next().filter(|place| place.starts_with("messages["));
                ApiError {
                    param: place.map(str::to_owned),
                    ..ApiError::new(StatusCode::BAD_REQUEST, &message)
                }
            }
            EngineError::Option(option) => {
                let field = match option.field {
                    "presence" => "presence_penalty",
                    "frequency" => "frequency_penalty",
                    "repetition" => "repetition_penalty",
                    "bias" => "logit_bias",
                    "log_probabilities" => "top_logprobs",
                    field => field,
                };
                ApiError::field(field, format!("{field} is {}: expected {}", option.found, option.expected))
            }
            EngineError::EmptyPrompt | EngineError::Token { .. } => ApiError::field("prompt", error),
            EngineError::Guided(guided) => match guided {
                GuidedError::Tool { .. } => ApiError::field("tools", error),
                GuidedError::Failed(_) | GuidedError::Tokenizer(_) => {
                    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error)
                }
                _ => ApiError::field("response_format", error),
            },
            _ => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error),
        }
    }
}
