//! The page: files that are part of the program, and the headers that keep it from doing anything but talk to this server.
//!
//! A path is looked up in a table made when the program was built (`build.rs`); none reaches the file system.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;

struct File {
    path: &'static str,
    kind: &'static str,
    tag: &'static str,
    bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/web.rs"));

/// Scripts, styles and requests of this origin only; no script can be made of text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types dompurify";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-cache"),
];

/// Serves a file, or says that there is none.
pub async fn file(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let Some(file) = FILES.iter().find(|file| file.path == path) else {
        let message = format!("there is nothing at {}", uri.path());
        return ApiError::new(StatusCode::NOT_FOUND, message).code("not_found").into_response();
    };
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let mut response = if known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == file.tag)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        file.bytes.into_response()
    };
    let own = response.headers_mut();
    own.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
    own.insert(header::ETAG, HeaderValue::from_static(file.tag));
    for (name, value) in HEADERS {
        own.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A small page that lists the interface, made from its description.
pub fn reference(description: &serde_json::Value) -> Response {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut rows = String::new();
    for (path, methods) in description["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let words =
                operation["summary"].as_str().or(operation["description"].as_str()).unwrap_or_default();
            rows += &format!(
                "<tr><td><code>{}</code></td><td><code>{}</code></td><td>{}</td></tr>\n",
                method.to_uppercase(),
                escape(path),
                escape(words)
            );
        }
    }
    let mut fields = String::new();
    for (name, schema) in description["components"]["schemas"].as_object().into_iter().flatten() {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let parts = schema["allOf"].as_array().into_iter().flatten();
        let parts = parts.flat_map(|part| part["properties"].as_object().into_iter().flatten());
        let list: String = properties
            .chain(parts)
            .map(|(field, schema)| {
                let words = schema["description"].as_str().unwrap_or_default();
                format!("<dt><code>{}</code></dt><dd>{}</dd>\n", escape(field), escape(words))
            })
            .collect();
        if !list.is_empty() {
            let words = escape(schema["description"].as_str().unwrap_or_default());
            fields += &format!("<h2 id=\"{0}\">{0}</h2>\n<p>{words}</p>\n<dl>{list}</dl>\n", escape(name));
        }
    }
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>rawloop: interface</title>\n<h1>Interface</h1>\n<p>The whole description is at <a href=\"/openapi.json\">/openapi.json</a>.</p>\n\
         <table>\n{rows}</table>\n{fields}</html>\n"
    );
    let mut response = page.into_response();
    let own = response.headers_mut();
    own.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    for (name, value) in HEADERS {
        own.insert(name, HeaderValue::from_static(value));
    }
    response
}
