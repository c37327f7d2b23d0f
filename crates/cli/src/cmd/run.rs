//! `rawloop run`: one answer.

use std::io::{IsTerminal, Read};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rawloop_engine::{
    ChatEvent, ChatSession, Engine, Event, Finish, GenerateOptions, SamplingOptions, Session, Timings,
};
use rawloop_tokenizer::SpecialTokens;
use serde_json::{Value, json};

use crate::args::RunArgs;
use crate::exit::{Code, Failure};
use crate::screen::{Screen, note};
use crate::{answer, interrupt, run};

use super::{print, print_json};

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
    let greedy = options.generate.sampling.temperature == 0.0;
    if args.n > 1 && greedy {
        return Err(Failure::usage("--n: greedy answers are all the same; give a --temperature above 0"));
    }
    let load_ms = (started.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    let info = engine.backend().info();
    let pack = engine.model().pack().clone();
    let labels = run::labels(&pack, &info, &args.run);
    let session = session(engine, args.n)?;
    let mut talk = if args.raw {
        Talk::Raw(Box::new((session, options.generate)))
    } else {
        Talk::Chat(ChatSession::new(session, options))
    };
    let mut list = Vec::new();
    let mut finish = Finish::Stop;
    let mut cut = false;
    for index in 0..args.n {
        let mut screen = Screen::new(!args.json);
        let sampling = answer::sampling_json(&talk.sampling());
        let answered = match &mut talk {
            Talk::Raw(raw) => complete(&mut raw.0, &raw.1, &prompt, cancel, &args, &mut screen)?,
            Talk::Chat(chat) => respond(chat, &prompt, cancel, &args, &mut screen)?,
        };
        screen.end();
        finish = answered.finish;
        cut |= matches!(finish, Finish::Length | Finish::Loop);
        if args.json {
            list.push(json!({
                "text": answered.text,
                "reasoning": answered.reasoning,
                "tool_calls": answered.calls,
                "finish_reason": finish.name(),
                "load_ms": load_ms,
                "timings": answer::timings_json(&answered.timings),
                "sampling": sampling,
                "labels": labels,
            }));
        }
        if args.stats {
            note(format_args!("{}; ended by {}", answer::timings_text(&answered.timings), finish.name()));
        }
        if screen.gone() {
            return Ok(());
        }
        if !args.json {
            note_ending(&answered);
            if index + 1 < args.n {
                print("")?;
            }
        }
        if matches!(finish, Finish::Cancelled) {
            break;
        }
        talk.next_seed()?;
    }
    if args.json {
        match (args.n, list.pop()) {
            (1, Some(only)) => print_json(&only)?,
            (_, last) => {
                list.extend(last);
                print_json(&Value::from(list))?;
            }
        }
    }
    answer::ending(finish, info.context)?;
    if cut && args.answer.form.is_given() {
        return Err(Failure::new(
            Code::Other,
            "an answer was cut, so it may not have the form asked for; raise --max-tokens or bound the form",
        ));
    }
    Ok(())
}

/// Who answers.
enum Talk {
    /// In the chat format.
    Chat(ChatSession),
    /// The text as it stands.
    Raw(Box<(Session, GenerateOptions)>),
}

impl Talk {
    fn sampling(&self) -> SamplingOptions {
        match self {
            Talk::Chat(chat) => chat.options().generate.sampling,
            Talk::Raw(raw) => raw.1.sampling.clone(),
        }
    }

    /// Makes the next answer another one.
    fn next_seed(&mut self) -> Result<(), Failure> {
        let advance = |sampling: &mut SamplingOptions| sampling.seed = sampling.seed.wrapping_add(1);
        match self {
            Talk::Chat(chat) => {
                chat.change_options(|options| advance(&mut options.generate.sampling))?;
                chat.set_messages(Vec::new())?;
            }
            Talk::Raw(raw) => advance(&mut raw.1.sampling),
        }
        Ok(())
    }
}

/// Says where an answer did not end by itself.
fn note_ending(answered: &Answered) {
    let tokens = answered.timings.tokens;
    match answered.finish {
        Finish::Length => {
            note(format_args!("note: the answer was ended after {tokens} tokens (--max-tokens)"))
        }
        Finish::Loop => note(format_args!(
            "note: the answer was ended after {tokens} tokens because it repeated itself (--allow-loops lets it)"
        )),
        Finish::Stop | Finish::Context | Finish::Cancelled => {}
    }
}

/// A session for so many answers. Nothing will come back to a single one, so it keeps no snapshots then.
fn session(engine: Engine, answers: usize) -> Result<Session, Failure> {
    if answers > 1 {
        return Ok(engine.session()?);
    }
    let (model, backend) = engine.into_parts();
    Ok(Session::with_snapshots(model, backend, 0)?)
}

/// Answers a message.
fn respond(
    chat: &ChatSession,
    prompt: &str,
    cancel: &AtomicBool,
    args: &RunArgs,
    screen: &mut Screen,
) -> Result<Answered, Failure> {
    let turn = chat.respond(prompt, cancel, &mut |event| match event {
        ChatEvent::Reasoning(text) if !args.json => screen.thought(text),
        ChatEvent::Text(text) if !args.json => screen.text(text),
        ChatEvent::Call(call) if !args.json => screen.call(call),
        _ => ControlFlow::Continue(()),
    })?;
    let call =
        |call: &rawloop_engine::chat::ParsedCall| json!({ "name": call.name, "arguments": call.arguments });
    Ok(Answered {
        calls: turn.output.calls.iter().map(call).collect(),
        text: turn.output.text,
        reasoning: turn.output.reasoning,
        finish: turn.finish,
        timings: turn.timings,
    })
}

/// Continues a text as it stands.
fn complete(
    session: &mut Session,
    options: &GenerateOptions,
    prompt: &str,
    cancel: &AtomicBool,
    args: &RunArgs,
    screen: &mut Screen,
) -> Result<Answered, Failure> {
    let model = session.model().clone();
    let ids = model.control().raw_prompt(model.tokenizer(), prompt, SpecialTokens::Parse);
    let answer = session.generate(&ids, options, cancel, &mut |event| match event {
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
