//! Who may ask.
//!
//! - A server on this machine's own address answers only where the `Host` header names this machine: a page whose name was
//!   pointed here (DNS rebinding) has another one.
//! - A request that says which page it came from (`Origin`) is answered where that page is the server's own or was allowed.
//!   Browsers send some requests without asking first, so it is not enough to leave CORS off.
//! - Where there are keys, everything but the page's files, `/health` and the description of the interface needs one. Keys are
//!   compared in constant time.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::{App, Client};
use crate::error::ApiError;

/// The address of whoever sent a request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Lets a request through or refuses it.
pub async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    match check(&app, &request) {
        Ok(client) => {
            request.extensions_mut().insert(client);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

fn check(app: &App, request: &Request) -> Result<Client, ApiError> {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if app.options.is_local() && !host.is_some_and(is_this_machine) {
        let message =
            "this server answers requests to localhost only; bind it to another address with --host";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message).code("wrong_host"));
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let own = origin.split_once("://").map(|(_, rest)| rest) == host;
        if !own && !app.options.origins.iter().any(|allowed| allowed == "*" || allowed == origin) {
            let message = format!("pages of {origin} may not ask this server; --cors-origin allows them");
            return Err(ApiError::new(StatusCode::FORBIDDEN, message).code("wrong_origin"));
        }
    }
    let key = key(headers);
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
    let keys = &app.options.keys;
    if keys.is_empty() || request.method() == Method::OPTIONS || is_public(request.uri().path()) {
        return Ok(peer.map_or(Client(0), |ip: IpAddr| Client::of(&ip)));
    }
    let Some(key) = key else {
        let message = "this server needs a key: send it as `Authorization: Bearer KEY`";
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, message).code("invalid_api_key"));
    };
    // All are compared, so that the time tells nothing about which one was near.
    let found =
        keys.iter().fold(subtle::Choice::from(0), |found, own| found | own.as_bytes().ct_eq(key.as_bytes()));
    if bool::from(found) {
        Ok(Client::of(&key))
    } else {
        Err(ApiError::new(StatusCode::UNAUTHORIZED, "the key is none of this server's")
            .code("invalid_api_key"))
    }
}

fn key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    bearer.or_else(|| headers.get("x-api-key")?.to_str().ok())
}

/// Paths that give nothing away.
fn is_public(path: &str) -> bool {
    !(path.starts_with("/v1/") || path.starts_with("/api/") || path == "/metrics")
}

/// Whether a `Host` header names this machine, with any port.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_few_names() {
        for own in [
            "localhost",
            "localhost:8080",
            "LOCALHOST",
            "127.0.0.1:1",
            "127.1.2.3",
            "[::1]:80",
            "[::1]",
            "a.localhost:1",
        ] {
            assert!(is_this_machine(own), "{own}");
        }
        for other in [
            "",
            "example.org",
            "localhost.example.org",
            "10.0.0.1",
            "0.0.0.0:80",
            "[::2]:1",
            "127.0.0.1.example.org",
        ] {
            assert!(!is_this_machine(other), "{other}");
        }
    }

    #[test]
    fn keys_come_in_two_headers() {
        let mut headers = HeaderMap::new();
        assert_eq!(key(&headers), None);
        headers.insert("x-api-key", "one".parse().unwrap());
        assert_eq!(key(&headers), Some("one"));
        headers.insert("authorization", "bearer two".parse().unwrap());
        assert_eq!(key(&headers), Some("two"));
        headers.insert("authorization", "Basic two".parse().unwrap());
        assert_eq!(key(&headers), Some("one"));
    }

    #[test]
    fn files_are_public_and_answers_are_not() {
        for path in ["/", "/app/main.js", "/health", "/openapi.json", "/docs"] {
            assert!(is_public(path), "{path}");
        }
        for path in ["/v1/models", "/v1/chat/completions", "/api/tags", "/metrics"] {
            assert!(!is_public(path), "{path}");
        }
    }
}
