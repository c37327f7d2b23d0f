//! Bodies: JSON within a size and a time, with the field named that has the wrong type.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;

use super::{App, aside};
use crate::error::ApiError;

/// Bytes of a body that are read where streams are sent; larger ones take milliseconds.
const SMALL: usize = 64 << 10;

/// A JSON body. The content type is not looked at: clients forget it.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Json<T>, ApiError> {
        let limit = app.options.body_limit;
        let large = || {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {limit} bytes"))
                .code("request_too_large")
        };
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > limit as u64) {
            return Err(large());
        }
        let read = read(request.into_body(), limit);
        let bytes = match tokio::time::timeout(app.options.read_limit, read).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(true)) => return Err(large()),
            Ok(Err(false)) => {
                return Err(ApiError::new(StatusCode::BAD_REQUEST, "the body ended before its end"));
            }
            Err(_) => {
                let message = "the body did not come in time";
                return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, message).code("timeout"));
            }
        };
        match bytes.len() > SMALL {
            true => aside(move || parse(&bytes)).await?.map(Json),
            false => parse(&bytes).map(Json),
        }
    }
}

/// The bytes of a body; whether it was too large where they cannot be had.
async fn read(body: Body, limit: usize) -> Result<axum::body::Bytes, bool> {
    to_bytes(body, limit).await.map_err(|error| {
        let mut source: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = source {
            if error.to_string().contains("length limit") {
                return true;
            }
            source = error.source();
        }
        false
    })
}

/// Reads a request.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "the body is empty: a JSON object is expected"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_syntax() || inner.is_eof() {
            return ApiError::new(StatusCode::BAD_REQUEST, format!("the body is no JSON: {inner}"));
        }
        let message = inner.to_string();
        // The place in the bytes says nothing to somebody who built the request as a value.
        let message = message.rsplit_once(" at line").map_or(message.as_str(), |(message, _)| message);
        match path.as_str() {
            "." | "" => match flattened(bytes) {
                Some(path) => ApiError::field(&path, format!("{path}: {message}")),
                None => ApiError::new(StatusCode::BAD_REQUEST, message),
            },
            path => ApiError::field(path, format!("{path}: {message}")),
        }
    })?;
    deserializer
        .end()
        .map_err(|error| ApiError::new(StatusCode::BAD_REQUEST, format!("the body is no JSON: {error}")))?;
    Ok(value)
}

/// The field of a wrong type among those that stand beside a request's own: what is flattened into it loses its place.
fn flattened(bytes: &[u8]) -> Option<String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let alone = serde_path_to_error::deserialize::<_, crate::openai::Sampling>(&mut deserializer);
    alone.err().map(|error| error.path().to_string()).filter(|path| path != ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct Request {
        list: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    struct Item {
        number: u32,
    }

    #[test]
    fn the_field_of_a_wrong_type_is_named() {
        let error = parse::<Request>(br#"{"list": [{"number": 1}, {"number": "x"}]}"#).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("list[1].number"));
        assert_eq!(error.message, "list[1].number: invalid type: string \"x\", expected u32");
        let error = parse::<Request>(br#"{"list": [}"#).unwrap_err();
        assert!(error.param.is_none() && error.message.starts_with("the body is no JSON"), "{error:?}");
        assert!(parse::<Request>(b" \n").unwrap_err().message.contains("empty"));
        assert!(parse::<Request>(br#"{"list": []} x"#).is_err());
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        assert!(parse::<serde_json::Value>(&deep).is_err(), "nesting has a bound");
        assert_eq!(parse::<Request>(br#"{"list": [{"number": 7, "more": 1}]}"#).unwrap().list[0].number, 7);
    }
}
