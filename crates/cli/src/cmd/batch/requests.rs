//! The requests of a batch file: one JSON object a line, checked as a whole before the first is answered.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

use crate::exit::Failure;

/// Paths that a request may name.
const URLS: [&str; 2] = ["/v1/chat/completions", "/v1/completions"];

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The caller's name for it.
    pub id: String,
    /// Path.
    pub url: String,
    /// What is asked.
    pub body: Value,
}

/// Checks every line; answers with the names in their order.
///
/// # Errors
/// The first line that is no request, with its number.
pub fn check(file: &Path) -> Result<Vec<String>, Failure> {
    let mut ids = Vec::new();
    let mut seen = HashMap::new();
    for request in read(file)? {
        let (line, request) = request?;
        if let Some(first) = seen.insert(request.id.clone(), line) {
            let place = place(file, line);
            return Err(Failure::input(format!(
                "{place}: custom_id {:?} is that of line {first}",
                request.id
            )));
        }
        ids.push(request.id);
    }
    if ids.is_empty() {
        return Err(Failure::input(format!("{} holds no requests", file.display())));
    }
    Ok(ids)
}

/// The requests with their line numbers, read as they are wanted. Empty lines are passed over.
///
/// # Errors
/// The file cannot be opened; a line cannot be read or is no request.
pub fn read(
    file: &Path,
) -> Result<impl Iterator<Item = Result<(usize, Request), Failure>> + use<'_>, Failure> {
    let opened = File::open(file).map_err(|error| Failure::input(format!("{}: {error}", file.display())))?;
    let lines = BufReader::new(opened).lines().enumerate();
    Ok(lines.filter_map(move |(index, line)| {
        let place = place(file, index + 1);
        let line = match line {
            Ok(line) if line.trim().is_empty() => return None,
            Ok(line) => line,
            Err(error) => return Some(Err(Failure::input(format!("{place}: {error}")))),
        };
        Some(
            parse(&line)
                .map(|request| (index + 1, request))
                .map_err(|why| Failure::input(format!("{place}: {why}"))),
        )
    }))
}

fn place(file: &Path, line: usize) -> String {
    format!("{}:{line}", file.display())
}

fn parse(line: &str) -> Result<Request, String> {
    let mut value: Value = serde_json::from_str(line).map_err(|error| format!("broken JSON: {error}"))?;
    let text = |name: &str| {
        value[name]
            .as_str()
            .map(String::from)
            .ok_or_else(|| format!("{name} is {}, expected a text", shown(&value[name])))
    };
    let (id, url) = (text("custom_id")?, text("url")?);
    if !value["method"].is_null() && value["method"] != "POST" {
        return Err(format!("method is {}, expected \"POST\"", shown(&value["method"])));
    }
    if !URLS.contains(&url.as_str()) {
        return Err(format!("url is {url:?}, expected {}", URLS.join(" or ")));
    }
    let mut body = value["body"].take();
    let Some(fields) = body.as_object_mut() else {
        return Err(format!("body is {}, expected an object", shown(&body)));
    };
    if fields.get("stream").is_some_and(|stream| stream != false && !stream.is_null()) {
        return Err("body asks for a stream, and there is nobody to send one to".into());
    }
    // Which model answers is said on the command line; a file made for another service names another.
    fields.shift_remove("model");
    Ok(Request { id, url, body })
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "missing".into(),
        value => value.to_string().chars().take(60).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_without_its_model() {
        let line = r#"{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"model": "gpt", "prompt": "x"}}"#;
        let request = parse(line).unwrap();
        assert_eq!((request.id.as_str(), request.url.as_str()), ("a", "/v1/completions"));
        assert_eq!(request.body, serde_json::json!({"prompt": "x"}));
    }

    #[test]
    fn what_is_no_request_is_said() {
        for (line, word) in [
            ("{", "broken JSON"),
            ("[]", "custom_id is missing"),
            (r#"{"custom_id": 7}"#, "custom_id is 7"),
            (r#"{"custom_id": "a", "url": "/v1/embeddings", "body": {}}"#, "/v1/chat/completions or"),
            (r#"{"custom_id": "a", "url": "/v1/completions", "method": "GET", "body": {}}"#, "POST"),
            (r#"{"custom_id": "a", "url": "/v1/completions", "body": "x"}"#, "body is \"x\""),
            (r#"{"custom_id": "a", "url": "/v1/completions", "body": {"stream": true}}"#, "stream"),
        ] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(word), "{line}: {message}");
        }
    }
}
