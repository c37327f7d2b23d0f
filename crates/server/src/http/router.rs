//! Paths and what answers them. One table makes the routes and their description.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::guard::guard;
use super::{App, Stage, catalog};
use crate::error::ApiError;
use crate::{metrics, ollama, openai, web};

fn table() -> OpenApiRouter<Arc<App>> {
    let info = InfoBuilder::new()
        .title("rawloop")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("OpenAI's and Ollama's interfaces to a model that runs on this machine."))
        .build();
    OpenApiRouter::with_openapi(OpenApiBuilder::new().info(info).build())
        .routes(routes!(openai::chat::completions))
        .routes(routes!(openai::completions::completions))
        .routes(routes!(openai::responses::respond))
        .routes(routes!(openai::models::list))
        .routes(routes!(openai::models::one))
        .routes(routes!(openai::tokenize::tokenize))
        .routes(routes!(openai::tokenize::detokenize))
        .routes(routes!(ollama::converse))
        .routes(routes!(ollama::generate))
        .routes(routes!(ollama::tags))
        .routes(routes!(ollama::show))
        .routes(routes!(ollama::version))
        .routes(routes!(catalog::models))
        .routes(routes!(catalog::pull))
        .routes(routes!(health))
        .routes(routes!(numbers))
}

/// The description of the interface.
pub fn openapi() -> OpenApi {
    table().into_openapi()
}

/// Everything that the server answers.
pub fn router(app: Arc<App>) -> Router {
    let (routes, description) = table().split_for_parts();
    let description = Arc::new(serde_json::to_value(&description).unwrap_or_default());
    let page = Arc::clone(&description);
    let mut router = routes
        .route(
            "/openapi.json",
            axum::routing::get(move || async move { JsonResponse((*description).clone()) }),
        )
        .route("/docs", axum::routing::get(move || async move { web::reference(&page) }))
        .fallback(fallback)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard));
    if !app.options.origins.is_empty() {
        router = router.layer(cors(&app.options.origins));
    }
    router.layer(middleware::from_fn_with_state(Arc::clone(&app), count)).with_state(app)
}

fn cors(origins: &[String]) -> CorsLayer {
    let list = origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok());
    let allowed = match origins.iter().any(|origin| origin == "*") {
        true => AllowOrigin::from(Any),
        false => AllowOrigin::list(list),
    };
    CorsLayer::new().allow_origin(allowed).allow_methods([Method::GET, Method::POST]).allow_headers([
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        header::HeaderName::from_static("x-api-key"),
    ])
}

/// Counts responses.
async fn count(State(app): State<Arc<App>>, request: axum::extract::Request, next: Next) -> Response {
    let response = next.run(request).await;
    app.metrics.responded(response.status().as_u16());
    response
}

/// Files of the page; JSON where there is none.
async fn fallback(method: Method, uri: axum::http::Uri, headers: axum::http::HeaderMap) -> Response {
    let api = uri.path().starts_with("/v1/") || uri.path().starts_with("/api/");
    if api || !matches!(method, Method::GET | Method::HEAD) {
        let message = format!("there is nothing at {} for {method}; /docs lists what there is", uri.path());
        return ApiError::new(StatusCode::NOT_FOUND, message).code("not_found").into_response();
    }
    web::file(uri, headers).await
}

async fn wrong_method(method: Method, uri: axum::http::Uri) -> ApiError {
    let message = format!("{} does not answer {method}; /docs lists what there is", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message).code("method_not_allowed")
}

/// Says whether the server answers.
#[utoipa::path(get, path = "/health", tag = "rawloop",
    responses((status = 200, description = "It does"), (status = 503, description = "It is being shut down, or its model has failed")))]
async fn health(State(app): State<Arc<App>>) -> Response {
    let (waiting, running) = app.queue.counts();
    let serving = *app.stage.borrow() == Stage::Serving;
    let (status, word) = match app.core.batch.has_ended() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
        false if serving => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "shutting down"),
    };
    let body: Value = json!({
        "status": word,
        "waiting": waiting,
        "running": running,
        "parallel": app.options.parallel,
        "version": env!("CARGO_PKG_VERSION"),
    });
    (status, JsonResponse(body)).into_response()
}

/// Numbers for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "rawloop",
    responses((status = 200, description = "Counters and gauges in Prometheus' text form", content_type = "text/plain")))]
async fn numbers(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::render(&app))
        .into_response()
}
