//! An answer as it comes: server-sent events for OpenAI's clients, lines of JSON for Ollama's.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};

use super::Answering;
use crate::error::ApiError;
use crate::work::Event;

/// How often a silent stream says that it is alive.
const ALIVE: Duration = Duration::from_secs(10);

/// A message of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The event's name, where the protocol names events.
    pub event: Option<&'static str>,
    /// The text.
    pub data: String,
}

impl Line {
    /// A value.
    pub fn json(value: &serde_json::Value) -> Line {
        Line { event: None, data: value.to_string() }
    }
}

/// Turns events into messages of one protocol.
pub trait Encoder: Send + 'static {
    /// Messages of an event.
    fn event(&mut self, index: usize, event: Event, out: &mut VecDeque<Line>);

    /// Messages of a failure, which is the end.
    fn error(&mut self, error: ApiError, out: &mut VecDeque<Line>);

    /// Messages behind the last answer.
    fn end(&mut self, out: &mut VecDeque<Line>);
}

struct State<E> {
    answering: Answering,
    encoder: E,
    out: VecDeque<Line>,
    over: bool,
}

fn lines<E: Encoder>(answering: Answering, encoder: E) -> impl Stream<Item = Line> {
    let state = State { answering, encoder, out: VecDeque::new(), over: false };
    stream::unfold(state, |mut state| async move {
        loop {
            if let Some(line) = state.out.pop_front() {
                return Some((line, state));
            }
            if state.over {
                return None;
            }
            match state.answering.next().await {
                Some(Ok((index, event))) => state.encoder.event(index, event, &mut state.out),
                Some(Err(error)) => {
                    state.encoder.error(error, &mut state.out);
                    state.over = true;
                }
                None => {
                    state.encoder.end(&mut state.out);
                    state.over = true;
                }
            }
        }
    })
}

/// Server-sent events.
pub fn sse<E: Encoder>(answering: Answering, encoder: E) -> Response {
    use futures_util::StreamExt;
    let events = lines(answering, encoder).map(|line| {
        let event = SseEvent::default().data(line.data);
        Ok::<_, Infallible>(match line.event {
            Some(name) => event.event(name),
            None => event,
        })
    });
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response();
    // A proxy that collects the stream would take its point away.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Lines of JSON.
pub fn ndjson<E: Encoder>(answering: Answering, encoder: E) -> Response {
    use futures_util::StreamExt;
    let bytes = lines(answering, encoder).map(|mut line| {
        line.data.push('\n');
        Ok::<_, Infallible>(Bytes::from(line.data))
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::from_stream(bytes)).into_response()
}
