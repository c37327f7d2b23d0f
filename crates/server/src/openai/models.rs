//! `/v1/models`.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::http::App;

fn model(app: &App) -> Value {
    let manifest = &app.model().pack().manifest().model;
    json!({
        "id": app.options.name,
        "object": "model",
        "created": app.created,
        "owned_by": "rawloop",
        "rawloop": {
            "name": manifest.name,
            "synthetic": manifest.synthetic,
            "context_tokens": app.info().context,
            "thinking": true,
            "tools": true,
            "drafts": app.info().has_drafter,
            "backend": app.info().name,
            "kernels": app.info().kernels,
            "threads": app.info().threads,
            "kv": app.info().kv,
            "parallel": app.options.parallel,
        },
    })
}

/// Lists the model.
#[utoipa::path(get, path = "/v1/models", tag = "OpenAI",
    responses((status = 200, description = "A list of one model")))]
pub async fn list(State(app): State<Arc<App>>) -> JsonResponse<Value> {
    JsonResponse(json!({ "object": "list", "data": [model(&app)] }))
}

/// Describes the model.
#[utoipa::path(get, path = "/v1/models/{model}", tag = "OpenAI", params(("model" = String, Path, description = "Its id")),
    responses((status = 200, description = "The model"), (status = 404, description = "There is no such model")))]
pub async fn one(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<JsonResponse<Value>, ApiError> {
    app.check_model_aside(Some(&name)).await?;
    Ok(JsonResponse(model(&app)))
}
