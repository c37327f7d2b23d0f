//! `rawloop batch`: a file of requests to a file of answers.
//!
//! Both have the form of OpenAI's batches. Requests run through the server's own handlers, several at a time, and their answers are
//! the same as one at a time: the backend promises so. The answers stand in the order of the requests, whichever came first.

mod answers;
mod asker;
mod requests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::args::BatchArgs;
use crate::exit::{Code, Failure};
use crate::screen::note;
use crate::{answer, interrupt, progress};

use super::{print, print_json};
use answers::Answers;
use asker::Asker;
use requests::Request;

/// Requests that may be answered ahead of the one that is next in the file, for each that runs at a time.
const AHEAD: usize = 16;
/// How often Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// What was done.
#[derive(Default)]
struct Tally {
    answered: usize,
    refused: usize,
    prompt_tokens: u64,
    completion_tokens: u64,
}

/// Answers.
pub fn run(args: BatchArgs) -> Result<(), Failure> {
    let same = |a: &Path, b: &Path| a.canonicalize().ok().is_some_and(|a| Some(a) == b.canonicalize().ok());
    if same(&args.input, &args.output) {
        return Err(Failure::usage("requests and answers are the same file"));
    }
    let ids = requests::check(&args.input)?;
    let mut answers = Answers::open(&args.output, &ids)?;
    let earlier = answers.done();
    let cancel = interrupt::install();
    let started = Instant::now();
    let mut tally = Tally::default();
    if earlier < ids.len() {
        if earlier > 0 && !args.quiet {
            note(format_args!("{earlier} of {} are answered already", ids.len()));
        }
        let engine = answer::engine(args.choice.model.as_deref(), &args.run, cancel)?;
        let (model, backend) = engine.into_parts();
        let name = model.pack().manifest().model.name.clone();
        let asker = Asker::new(name, args.parallel, args.run.chunk, model, backend)?;
        let bar = progress::count(ids.len(), "answers", args.quiet || args.json);
        bar.set_position(earlier as u64);
        bar.reset_eta();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let result = runtime
            .block_on(all(&args, &asker, &mut answers, &mut tally, cancel, |done| bar.set_position(done)));
        bar.finish_and_clear();
        asker.end();
        result?;
    }
    let done = answers.done();
    answers.finish()?;
    if done < ids.len() {
        let message =
            format!("interrupted after {done} of {}; the same command goes on from there", ids.len());
        return Err(Failure::new(Code::Interrupted, message));
    }
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return print_json(&json!({"output": args.output, "requests": ids.len(), "earlier": earlier,
            "answered": tally.answered, "refused": tally.refused, "prompt_tokens": tally.prompt_tokens,
            "completion_tokens": tally.completion_tokens, "seconds": seconds}));
    }
    print(&format!(
        "{}: {} answers, {} of them refusals, {earlier} from before; {} prompt and {} completion tokens in {seconds:.1} s",
        args.output.display(),
        ids.len(),
        tally.refused,
        tally.prompt_tokens,
        tally.completion_tokens
    ))
}

/// Asks until everything is answered, or until Ctrl-C.
async fn all(
    args: &BatchArgs,
    asker: &Asker,
    answers: &mut Answers,
    tally: &mut Tally,
    cancel: &AtomicBool,
    told: impl Fn(u64),
) -> Result<(), Failure> {
    let mut waiting = requests::read(&args.input)?.enumerate().skip(answers.done()).peekable();
    let mut running = JoinSet::new();
    loop {
        while running.len() < args.parallel
            && waiting.peek().is_some_and(|(index, _)| index - answers.done() < args.parallel * AHEAD)
        {
            let Some((index, request)) = waiting.next() else { break };
            let (_, request) = request?;
            let asker = asker.clone();
            running.spawn(async move { one(index, request, &asker).await });
        }
        if running.is_empty() || cancel.load(Ordering::Relaxed) {
            // What is dropped here is cancelled within a token.
            return Ok(());
        }
        let Ok(Some(joined)) = tokio::time::timeout(LOOK, running.join_next()).await else { continue };
        let (index, status, line, usage) = joined.map_err(|error| Failure::new(Code::Other, error))?;
        tally.answered += 1;
        tally.refused += usize::from(status != 200);
        tally.prompt_tokens += usage["prompt_tokens"].as_u64().unwrap_or(0);
        tally.completion_tokens += usage["completion_tokens"].as_u64().unwrap_or(0);
        answers.put(index, line)?;
        told(answers.done() as u64);
    }
}

/// One request, and the line that answers it.
async fn one(index: usize, request: Request, asker: &Asker) -> (usize, u16, String, Value) {
    let (status, body) = asker.ask(&request.url, &request.body).await;
    let usage = body["usage"].clone();
    let line = json!({
        "id": format!("batch_req_{index:08}"),
        "custom_id": request.id,
        "response": {"status_code": status, "request_id": body["id"], "body": body},
        "error": null,
    });
    (index, status, line.to_string(), usage)
}
