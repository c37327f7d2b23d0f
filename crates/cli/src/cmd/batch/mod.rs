//! `rawloop batch`: a file of requests to a file of answers.
//!
//! Both have the form of OpenAI's batches. Requests run through the server's own handlers, several at a time, and their answers are
//! the same as one at a time: the backend promises so. The answers stand in the order of the requests, whichever came first.

mod answers;
mod asker;
mod requests;
mod work;

use std::path::Path;
use std::time::Instant;

use serde_json::json;

use crate::args::BatchArgs;
use crate::exit::{Code, Failure};
use crate::screen::note;
use crate::{answer, interrupt, progress};

use super::{print, print_json};
use answers::Answers;
use asker::Asker;
use work::Tally;

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
    let mut result = Ok(());
    if earlier < ids.len() {
        if earlier > 0 && !args.run.quiet {
            note(format_args!("{earlier} of {} are answered already", ids.len()));
        }
        let engine = answer::engine(args.choice.model.as_deref(), &args.run, cancel)?;
        let (model, backend) = engine.into_parts();
        let name = model.pack().manifest().model.name.clone();
        let asker = Asker::new(name, args.parallel, args.run.chunk, model, backend)?;
        let bar = progress::count(ids.len(), "answers", args.run.quiet || args.json);
        bar.set_position(earlier as u64);
        bar.reset_eta();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let told = |done| bar.set_position(done);
        result = runtime.block_on(work::all(
            &args.input,
            args.parallel,
            &asker,
            &mut answers,
            &mut tally,
            cancel,
            told,
        ));
        bar.finish_and_clear();
        asker.end();
    }
    let done = answers.done();
    // What was answered is kept whatever happened.
    let kept = answers.finish();
    result?;
    kept?;
    if done < ids.len() {
        let message =
            format!("interrupted after {done} of {}; the same command goes on from there", ids.len());
        return Err(Failure::new(Code::Interrupted, message));
    }
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return print_json(&json!({"output": args.output, "requests": ids.len(), "earlier": earlier,
            "answered": tally.answered, "refused": tally.refused, "failed": tally.failed, "prompt_tokens": tally.prompt_tokens,
            "completion_tokens": tally.completion_tokens, "seconds": seconds}));
    }
    print(&format!(
        "{}: {} answers, {} of them refusals and {} failures, {earlier} from before; {} prompt and {} completion tokens in {seconds:.1} s",
        args.output.display(),
        ids.len(),
        tally.refused,
        tally.failed,
        tally.prompt_tokens,
        tally.completion_tokens
    ))
}
