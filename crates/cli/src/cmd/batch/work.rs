//! The requests of a batch, several at a time, and their answers in order.
//!
//! A refusal (a status of 400 and more) is an answer: the same request is refused again. A failure (500 and more) may pass, so the
//! request is asked once more; one that fails again would stop every run at the same place, so it gets a line with the error and
//! no response. Where whoever answers has no room or has failed for good (429, 503) nothing is said of the request: nothing is asked
//! any more, what stands before it is still answered and written, and its own line is left out, so that the same command
//! asks it again.
//!
//! A request without a seed gets one from its place in the file, so that a batch that was interrupted has the answers of one that was
//! not, at any temperature.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::exit::{Code, Failure};

use super::answers::Answers;
use super::requests::{self, Request};

/// Requests that may be answered ahead of the one that is next in the file, for each that runs at a time.
const AHEAD: usize = 16;
/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Bits of a seed that are left to the answers of one request, which take the numbers behind its own.
pub const ANSWERS: u32 = 16;

/// Somebody to ask.
pub trait Ask: Clone + Send + 'static {
    /// Status and body of the answer.
    fn ask(&self, url: &str, body: &Value) -> impl Future<Output = (u16, Value)> + Send;
}

/// What was done.
#[derive(Default)]
pub struct Tally {
    /// Requests with a line.
    pub answered: usize,
    /// Refusals among them.
    pub refused: usize,
    /// Requests that failed twice.
    pub failed: usize,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
}

/// Asks until everything is answered, or until Ctrl-C.
///
/// # Errors
/// The first request in the file that there was nobody to answer, or the disk's.
pub async fn all(
    input: &Path,
    parallel: usize,
    asker: &impl Ask,
    answers: &mut Answers,
    tally: &mut Tally,
    cancel: &AtomicBool,
    told: impl Fn(u64),
) -> Result<(), Failure> {
    let mut waiting = requests::read(input)?.enumerate().skip(answers.done()).peekable();
    let mut running = JoinSet::new();
    let mut failed: Option<(usize, Failure)> = None;
    loop {
        while failed.is_none()
            && running.len() < parallel
            && waiting.peek().is_some_and(|(index, _)| index - answers.done() < parallel * AHEAD)
        {
            let Some((index, request)) = waiting.next() else { break };
            let (_, request) = request?;
            let asker = asker.clone();
            running.spawn(async move { one(index, seeded(request, index), asker).await });
        }
        let whole = failed.as_ref().is_some_and(|(index, _)| answers.done() >= *index);
        if running.is_empty() || whole || cancel.load(Ordering::Relaxed) {
            // What is dropped here is cancelled within a token.
            return failed.map_or(Ok(()), |(_, failure)| Err(failure));
        }
        let Ok(Some(joined)) = tokio::time::timeout(LOOK, running.join_next()).await else { continue };
        let answer = joined.map_err(|error| Failure::new(Code::Other, error))?;
        if nobody(answer.status) {
            if failed.as_ref().is_none_or(|(index, _)| answer.index < *index) {
                failed = Some((answer.index, answer.failure()));
            }
            continue;
        }
        tally.answered += 1;
        tally.refused += usize::from((400..500).contains(&answer.status));
        tally.failed += usize::from(answer.has_failed());
        let usage = &answer.body["usage"];
        tally.prompt_tokens += usage["prompt_tokens"].as_u64().unwrap_or(0);
        tally.completion_tokens += usage["completion_tokens"].as_u64().unwrap_or(0);
        answers.put(answer.index, answer.line())?;
        told(answers.done() as u64);
    }
}

/// The request with a seed.
fn seeded(mut request: Request, index: usize) -> Request {
    if let Some(fields) = request.body.as_object_mut() {
        let seed = fields.entry("seed").or_insert(Value::Null);
        if seed.is_null() {
            *seed = ((index as u64) << ANSWERS).into();
        }
    }
    request
}

struct Answer {
    index: usize,
    id: String,
    status: u16,
    body: Value,
}

/// Whether a status says that there is nobody to answer, whatever is asked.
fn nobody(status: u16) -> bool {
    matches!(status, 429 | 503)
}

async fn one(index: usize, request: Request, asker: impl Ask) -> Answer {
    let (mut status, mut body) = asker.ask(&request.url, &request.body).await;
    if status >= 500 && !nobody(status) {
        (status, body) = asker.ask(&request.url, &request.body).await;
    }
    Answer { index, id: request.id, status, body }
}

impl Answer {
    fn has_failed(&self) -> bool {
        self.status >= 500
    }

    fn line(&self) -> String {
        let response = json!({"status_code": self.status, "request_id": self.body["id"], "body": self.body});
        let code = self.body["error"]["code"].as_str().unwrap_or("server_error");
        let error = json!({"code": code, "message": self.said()});
        let (response, error) =
            if self.has_failed() { (Value::Null, error) } else { (response, Value::Null) };
        json!({
            "id": format!("batch_req_{:08}", self.index),
            "custom_id": self.id,
            "response": response,
            "error": error,
        })
        .to_string()
    }

    /// Why there is no answer.
    fn said(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or("no reason was given")
    }

    fn failure(&self) -> Failure {
        Failure::new(
            Code::Other,
            format!(
                "request {} ({:?}) failed with status {}: {}; what stands before it is written, and the same command goes on from there",
                self.index + 1,
                self.id,
                self.status,
                self.said()
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A status for a request, by its place and by how often it was asked before.
    type Status = fn(usize, usize) -> u16;

    /// Answers with what it was asked, except where a status is set.
    #[derive(Clone)]
    struct Told {
        status: Status,
        asked: Arc<Mutex<Vec<Value>>>,
    }

    impl Ask for Told {
        async fn ask(&self, _: &str, body: &Value) -> (u16, Value) {
            let index = body["index"].as_u64().unwrap() as usize;
            let before = {
                let mut asked = self.asked.lock().unwrap();
                asked.push(body.clone());
                asked.iter().filter(|other| *other == body).count() - 1
            };
            // Later ones are first.
            for _ in 0..(10 - index) {
                tokio::task::yield_now().await;
            }
            match (self.status)(index, before) {
                200 => (200, json!({"id": "x", "seed": body["seed"]})),
                status => (status, json!({"error": {"message": "the model has failed"}})),
            }
        }
    }

    struct Place {
        folder: tempfile::TempDir,
        ids: Vec<String>,
    }

    impl Place {
        fn new() -> Place {
            let folder = tempfile::tempdir().unwrap();
            let line = |index: usize| {
                let mut body = json!({"index": index});
                if index == 2 {
                    body["seed"] = 7.into();
                } else if index == 3 {
                    body["seed"] = Value::Null;
                }
                format!(
                    "{}\n",
                    json!({"custom_id": format!("r{index}"), "url": "/v1/completions", "body": body})
                )
            };
            let text: String = (0..10).map(line).collect();
            std::fs::write(folder.path().join("in.jsonl"), text).unwrap();
            let ids = requests::check(&folder.path().join("in.jsonl")).unwrap();
            Place { folder, ids }
        }

        fn run(&self, output: &str, status: Status) -> (Result<(), Failure>, usize, Tally) {
            let mut answers = Answers::open(&self.folder.path().join(output), &self.ids).unwrap();
            let asker = Told { status, asked: Arc::default() };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let mut tally = Tally::default();
            let never = AtomicBool::new(false);
            let input = self.folder.path().join("in.jsonl");
            let result = runtime.block_on(all(&input, 4, &asker, &mut answers, &mut tally, &never, |_| ()));
            answers.finish().unwrap();
            let asked = asker.asked.lock().unwrap().len();
            (result, asked, tally)
        }

        fn lines(&self, output: &str) -> Vec<String> {
            let text = std::fs::read_to_string(self.folder.path().join(output)).unwrap();
            text.lines().map(str::to_owned).collect()
        }
    }

    #[test]
    fn where_nobody_answers_there_is_no_line_and_the_next_run_asks_again() {
        let place = Place::new();
        assert!(place.run("whole.jsonl", |_, _| 200).0.is_ok());
        let statuses: [Status; 3] = [
            |index, _| if index == 5 { 503 } else { 200 },
            |index, _| if index == 5 { 429 } else { 200 },
            // Also when it is asked once more.
            |index, before| if index == 5 { [500, 503][before] } else { 200 },
        ];
        for status in statuses {
            let (result, _, tally) = place.run("out.jsonl", status);
            let message = result.unwrap_err().to_string();
            for word in ["request 6", "r5", "the model has failed", "goes on"] {
                assert!(message.contains(word), "{message}");
            }
            assert_eq!(tally.failed, 0);
            assert_eq!(place.lines("out.jsonl"), place.lines("whole.jsonl")[..5]);
            assert!(place.run("out.jsonl", |_, _| 200).0.is_ok());
            assert_eq!(place.lines("out.jsonl"), place.lines("whole.jsonl"));
            std::fs::remove_file(place.folder.path().join("out.jsonl")).unwrap();
        }
        // The first in the file is named, whichever was first in time, and nothing is asked after it.
        let (result, asked, _) = place.run("all.jsonl", |_, _| 503);
        assert_eq!(asked, 4);
        assert!(result.unwrap_err().to_string().contains("request 1 "));
        assert!(place.lines("all.jsonl").is_empty());
    }

    #[test]
    fn a_failure_is_asked_once_more_and_then_has_a_line_as_a_refusal_has() {
        let place = Place::new();
        assert!(place.run("whole.jsonl", |_, _| 200).0.is_ok());
        let whole = place.lines("whole.jsonl");

        let (result, asked, tally) =
            place.run("passing.jsonl", |index, before| if index == 5 && before == 0 { 500 } else { 200 });
        assert!(result.is_ok());
        assert_eq!((asked, tally.answered, tally.failed), (11, 10, 0));
        assert_eq!(place.lines("passing.jsonl"), whole);

        let (result, asked, tally) =
            place.run("lasting.jsonl", |index, _| if index == 5 { 500 } else { 200 });
        assert!(result.is_ok());
        assert_eq!((asked, tally.answered, tally.refused, tally.failed), (11, 10, 0, 1));
        let mut lines = place.lines("lasting.jsonl");
        let failed: Value = serde_json::from_str(&lines[5]).unwrap();
        assert_eq!((&failed["custom_id"], &failed["response"]), (&json!("r5"), &Value::Null));
        assert_eq!(failed["error"], json!({"code": "server_error", "message": "the model has failed"}));
        lines[5].clone_from(&whole[5]);
        assert_eq!(lines, whole);
        // It is answered: another run has nothing to do.
        assert_eq!(place.run("lasting.jsonl", |_, _| 200).1, 0);

        // A refusal is an answer.
        let (result, asked, tally) =
            place.run("refused.jsonl", |index, _| if index == 5 { 400 } else { 200 });
        assert!(result.is_ok());
        assert_eq!((asked, tally.refused, tally.failed), (10, 1, 0));
        assert_eq!(place.lines("refused.jsonl").len(), 10);
    }

    #[test]
    fn seeds_come_from_the_place_where_none_is_given() {
        let place = Place::new();
        assert!(place.run("out.jsonl", |_, _| 200).0.is_ok());
        let seed = |line: &String| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["response"]["body"]["seed"].as_u64().unwrap()
        };
        let seeds: Vec<u64> = place.lines("out.jsonl").iter().map(seed).collect();
        let expected: Vec<u64> = (0..10).map(|index| if index == 2 { 7 } else { index << 16 }).collect();
        assert_eq!(seeds, expected);
    }
}
