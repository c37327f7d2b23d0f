//! `rawloop op`: an operation on a text.

use std::io::{IsTerminal, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use rawloop_engine::Session;
use rawloop_engine::ops::{self, OPS, Op, OpError, OpEvent, OpOptions, UNSUPPORTED};
use serde_json::{Value, json};

use crate::args::OpArgs;
use crate::exit::{Code, Failure};
use crate::screen::{Screen, note};
use crate::{answer, interrupt, progress, run};

use super::{print, print_json};

/// Runs and prints.
pub fn run(args: OpArgs) -> Result<(), Failure> {
    let Some(name) = args.name.as_deref().filter(|_| !args.list) else { return list(args.json) };
    let op = ops::find(name)?;
    let options = options(&args)?;
    options.check(op)?;
    // While stdin is read, Ctrl-C ends the process as it does any that reads.
    let texts = texts(&args, op)?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let cancel = interrupt::install();
    let engine = answer::engine(args.choice.model.as_deref(), &args.run, cancel)?;
    let (info, pack) = (engine.backend().info(), engine.model().pack().clone());
    let (model, backend) = engine.into_parts();
    let mut session = Session::with_snapshots(model, backend, 0)?;
    let started = Instant::now();
    let mut screen = Screen::new(false);
    let mut bar = None;
    let result = ops::run(&mut session, op, &texts, &options, cancel, &mut |event| {
        match event {
            OpEvent::Piece { index, count } => {
                let new = || progress::count(count, "pieces", args.run.quiet);
                // Another round has another number of pieces.
                if index == 0 {
                    bar = Some(new());
                }
                bar.get_or_insert_with(new).set_position(index as u64);
            }
            OpEvent::Text(text) if !args.json => {
                // The bar and the answer share a terminal: the answer comes after it.
                if let Some(bar) = bar.as_ref().filter(|_| std::io::stdout().is_terminal()) {
                    return bar.suspend(|| screen.text(text));
                }
                return screen.text(text);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let reader_gone = screen.gone();
    screen.end();
    let done = match result {
        Err(OpError::Cancelled) if reader_gone => return Ok(()),
        other => other?,
    };
    if args.json {
        print_json(&json!({
            "op": op.name,
            "text": done.text,
            "value": done.value,
            "whole": done.whole,
            "finish_reason": if done.whole { "stop" } else { "length" },
            "pieces": done.pieces,
            "dropped": done.dropped,
            "prompts": done.stats.prompts,
            "retried": done.stats.retried,
            "prompt_tokens": done.stats.prompt_tokens,
            "reused_tokens": done.stats.reused_tokens,
            "prefilled_tokens": done.stats.prompt_tokens - done.stats.reused_tokens,
            "decode_tokens": done.stats.tokens,
            "verify_steps": done.stats.verify_steps,
            "tokens_per_verify": done.stats.tokens_per_verify().map(answer::round),
            "seconds": (started.elapsed().as_secs_f64() * 1e3).round() / 1e3,
            "labels": run::labels(&pack, &info, &args.run),
        }))?;
    } else if !answer_was_shown(op) {
        print(&done.text)?;
    }
    if done.dropped > 0 && !args.json {
        note(format_args!("note: {} strings that are not in the text were dropped", done.dropped));
    }
    if !done.whole && !args.json {
        note("note: part of the answer was ended at its limit of tokens (--max-tokens, --ctx)");
    }
    Ok(())
}

/// Whether the events have carried the answer.
fn answer_was_shown(op: &Op) -> bool {
    matches!(op.shape, ops::Shape::Text | ops::Shape::Redacted)
}

/// The flags as the operation's options.
fn options(args: &OpArgs) -> Result<OpOptions, Failure> {
    let mut options = OpOptions::new();
    let given = [
        ("style", &args.style),
        ("to", &args.to),
        ("labels", &args.labels),
        ("fields", &args.fields),
        ("question", &args.question),
        ("count", &args.count),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            options = options.with(name, value);
        }
    }
    if let Some(path) = &args.schema {
        options = options.with("schema", file(path)?);
    }
    options.piece_tokens = args.piece_tokens;
    options.answer_tokens = args.max_tokens;
    options.chunk = args.run.chunk;
    Ok(options)
}

/// The texts of the files, or of stdin.
fn texts(args: &OpArgs, op: &Op) -> Result<Vec<String>, Failure> {
    if args.files.is_empty() {
        if std::io::stdin().is_terminal() {
            let name = op.name;
            return Err(Failure::usage(format!(
                "there is no text: name a file or pipe one in (rawloop op {name} FILE)"
            )));
        }
        return Ok(vec![stdin()?]);
    }
    if args.files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::usage("stdin (-) can be read once"));
    }
    args.files.iter().map(|path| if path.as_os_str() == "-" { stdin() } else { file(path) }).collect()
}

fn stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    text(bytes, "the text on stdin")
}

fn file(path: &Path) -> Result<String, Failure> {
    let bytes =
        std::fs::read(path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    text(bytes, &path.display().to_string())
}

fn text(bytes: Vec<u8>, name: &str) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::input(format!("{name} is not UTF-8: byte {at} begins no character"))
    })
}

/// What there is.
fn list(as_json: bool) -> Result<(), Failure> {
    if as_json {
        let option = |option: &ops::OpOption| json!({ "name": option.name, "about": option.about, "default": option.default });
        let supported = OPS.iter().map(|op| {
            let options: Vec<Value> = op.options.iter().map(option).collect();
            json!({ "name": op.name, "about": op.about, "texts": op.inputs, "json": op.is_json(), "options": options })
        });
        let others =
            UNSUPPORTED.iter().map(|op| json!({ "name": op.name, "about": op.about, "needs": op.needs }));
        return print_json(&json!({
            "operations": supported.collect::<Vec<_>>(),
            "not_supported": others.collect::<Vec<_>>(),
        }));
    }
    for op in OPS {
        print(&format!("{:<16} {}", op.name, op.about))?;
        for option in op.options {
            let default = option.default.map_or(String::new(), |value| format!(" [default: {value}]"));
            print(&format!("{:<16}   --{} {}{default}", "", option.name, option.about))?;
        }
    }
    print("\nNot supported by a text decoder:")?;
    for op in UNSUPPORTED {
        print(&format!("{:<16} {}: needs {}", op.name, op.about, op.needs))?;
    }
    Ok(())
}

impl From<OpError> for Failure {
    fn from(error: OpError) -> Self {
        let code = match error {
            OpError::Engine(error) => return error.into(),
            OpError::Cancelled => return Failure::interrupted(),
            OpError::NoRoom { .. } => Code::Context,
            OpError::Shape { .. } | OpError::Cut { .. } | OpError::NotInText { .. } => Code::Other,
            _ => Code::Usage,
        };
        Failure::new(code, error)
    }
}
