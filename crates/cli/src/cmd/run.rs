//! `rawloop run`: one answer.

use std::io::{IsTerminal, Read};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rawloop_engine::{ChatEvent, ChatSession, Engine, Event, Finish, GenerateOptions, Session, Timings};
use rawloop_tokenizer::SpecialTokens;
use serde_json::{Value, json};

use crate::args::RunArgs;
use crate::exit::Failure;
use crate::screen::{Screen, note};
use crate::{answer, interrupt, run};

use super::print_json;

/// How long stdin may stay silent before a note says that it is being read.
const SILENCE: Duration = Duration::from_secs(1);

/// What is printed as JSON.
struct Answered {
    text: String,
    reasoning: String,
    calls: Vec<Value>,
    finish: Finish,
    timings: Timings,
}

/// Answers and prints.
pub fn run(args: RunArgs) -> Result<(), Failure> {
    // While stdin is read, Ctrl-C ends the process as it does any that reads.
    let prompt = prompt(&args)?;
    let cancel = interrupt::install();
    let started = Instant::now();
    let engine = answer::engine(args.choice.model.as_deref(), &args.run, cancel)?;
    let options = answer::options(engine.model(), &args.answer, &args.sampling, &args.run)?;
    let load_ms = (started.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    let info = engine.backend().info();
    let pack = engine.model().pack().clone();
    let sampling = answer::sampling_json(&options.generate.sampling);
    let mut screen = Screen::new(!args.json);
    let answered = if args.raw {
        complete(engine, &prompt, &options.generate, cancel, &args, &mut screen)?
    } else {
        let session = one_answer(engine)?;
        let chat = ChatSession::new(session, options);
        let turn = chat.respond(&prompt, cancel, &mut |event| match event {
            ChatEvent::Reasoning(text) if !args.json => screen.thought(text),
            ChatEvent::Text(text) if !args.json => screen.text(text),
            ChatEvent::Call(call) if !args.json => screen.call(call),
            _ => ControlFlow::Continue(()),
        })?;
        let call = |call: &rawloop_engine::chat::ParsedCall| json!({ "name": call.name, "arguments": call.arguments });
        Answered {
            calls: turn.output.calls.iter().map(call).collect(),
            text: turn.output.text,
            reasoning: turn.output.reasoning,
            finish: turn.finish,
            timings: turn.timings,
        }
    };
    screen.end();
    if args.json {
        print_json(&json!({
            "text": answered.text,
            "reasoning": answered.reasoning,
            "tool_calls": answered.calls,
            "finish_reason": answered.finish.name(),
            "load_ms": load_ms,
            "timings": answer::timings_json(&answered.timings),
            "sampling": sampling,
            "labels": run::labels(&pack, &info, &args.run),
        }))?;
    }
    if args.stats {
        note(format_args!("{}", answer::timings_text(&answered.timings)));
    }
    if screen.gone() {
        return Ok(());
    }
    if answered.finish == Finish::Length && !args.json {
        note(format_args!(
            "note: the answer was ended after {} tokens (--max-tokens)",
            answered.timings.tokens
        ));
    }
    answer::ending(answered.finish, info.context)
}

/// A session for one answer: nothing will come back to it, so it keeps no snapshots.
fn one_answer(engine: Engine) -> Result<Session, Failure> {
    let (model, backend) = engine.into_parts();
    Ok(Session::with_snapshots(model, backend, 0)?)
}

/// Continues a text as it stands.
fn complete(
    engine: Engine,
    prompt: &str,
    options: &GenerateOptions,
    cancel: &AtomicBool,
    args: &RunArgs,
    screen: &mut Screen,
) -> Result<Answered, Failure> {
    let model = engine.model().clone();
    let ids = model.control().raw_prompt(model.tokenizer(), prompt, SpecialTokens::Parse);
    let answer = one_answer(engine)?.generate(&ids, options, cancel, &mut |event| match event {
        Event::Token { text, .. } | Event::Rest { text } if !args.json => screen.text(text),
        _ => ControlFlow::Continue(()),
    })?;
    Ok(Answered {
        text: answer.text,
        reasoning: String::new(),
        calls: Vec::new(),
        finish: answer.finish,
        timings: answer.timings,
    })
}

/// The words of the command line and the text on stdin.
fn prompt(args: &RunArgs) -> Result<String, Failure> {
    let words = args.prompt.join(" ");
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        if words.trim().is_empty() {
            return Err(Failure::usage("there is no prompt: give one, or pipe text in (rawloop run --help)"));
        }
        return Ok(words);
    }
    let mut bytes = Vec::new();
    let read = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A pipe that stays silent and open looks like a hang; say what is going on.
        let waiting = scope.spawn(|| {
            std::thread::park_timeout(SILENCE);
            if !read.load(Ordering::Acquire) {
                eprintln!("reading the rest of the prompt from stdin (close it, or run with </dev/null)");
            }
        });
        let result = stdin.lock().read_to_end(&mut bytes);
        read.store(true, Ordering::Release);
        waiting.thread().unpark();
        result
    })?;
    let piped = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::input(format!("the text on stdin is not UTF-8: byte {at} begins no character"))
    })?;
    let prompt = match (words.trim().is_empty(), piped.trim().is_empty()) {
        (true, _) => piped,
        (false, true) => words,
        (false, false) => format!("{words}\n\n{piped}"),
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty: give one, or pipe text in (rawloop run --help)"));
    }
    Ok(prompt)
}
