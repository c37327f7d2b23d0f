//! `rawloop eval`: how many questions of a file are answered right.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rawloop_engine::chat::{Message, RenderOptions, Role, parse_output};
use rawloop_engine::{Finish, GenerateOptions, Model, Session, Timings};
use rawloop_tokenizer::{SpecialText, SpecialTokens};
use serde_json::{Value, json};

use crate::args::EvalArgs;
use crate::exit::Failure;
use crate::questions::{Prompt, Row};
use crate::{answer, interrupt, progress, questions, run};

use super::{print, print_json};

/// Answers of one kind.
#[derive(Clone, Copy, Default)]
struct Count {
    asked: usize,
    right: usize,
}

/// Asks and counts.
pub fn run(args: EvalArgs) -> Result<(), Failure> {
    let cancel = interrupt::install();
    let mut rows = questions::read(&args.tasks)?;
    rows.truncate(args.limit.unwrap_or(usize::MAX));
    if let Some(index) = rows.iter().position(|row| row.is_right("").is_none()) {
        let message = format!(
            "{}: question {index} has neither a key nor an answer with a number",
            args.tasks.display()
        );
        return Err(Failure::input(message));
    }
    let engine = answer::engine(args.choice.model.as_deref(), &args.run, cancel)?;
    let model = Arc::clone(engine.model());
    let info = engine.backend().info();
    let mut session = engine.session()?;
    let options = GenerateOptions {
        chunk: args.run.chunk,
        special: SpecialText::Keep,
        ..GenerateOptions::greedy(args.max_tokens)
    };
    let started = Instant::now();
    let bar = progress::count(rows.len(), "questions", args.run.quiet || args.json);
    let mut total = Count::default();
    let mut by_task: BTreeMap<&str, Count> = BTreeMap::new();
    let mut cut = 0;
    let mut timings = Timings::default();
    let mut items = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let (text, finish, took) = ask(&model, &mut session, row, &options, args.thinking, cancel)?;
        let right = row.is_right(&text).unwrap_or(false);
        timings = timings + took;
        cut += usize::from(matches!(finish, Finish::Length | Finish::Context));
        for count in [&mut total, by_task.entry(row.task()).or_default()] {
            count.asked += 1;
            count.right += usize::from(right);
        }
        items.push(json!({
            "index": index,
            "task": row.task(),
            "right": right,
            "text": text,
            "tokens": took.tokens,
            "finish_reason": finish.name(),
        }));
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json {
        let tasks: BTreeMap<&str, Value> = by_task
            .iter()
            .map(|(task, count)| (*task, json!({ "n": count.asked, "right": count.right })))
            .collect();
        return print_json(&json!({
            "tasks": args.tasks.file_name().map(|name| name.to_string_lossy()),
            "n": total.asked,
            "right": total.right,
            "by_task": tasks,
            "cut_short": cut,
            "max_tokens": args.max_tokens,
            "mode": if args.thinking { "greedy, thinking" } else { "greedy" },
            "verify_steps": timings.verify_steps,
            "tokens_per_verify": timings.tokens_per_verify().map(answer::round),
            "seconds": (started.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            "items": items,
            "labels": run::labels(model.pack(), &info, &args.run),
        }));
    }
    for (task, count) in &by_task {
        print(&format!("{task:<24} {:>5} of {:>5}", count.right, count.asked))?;
    }
    let share = 100.0 * total.right as f64 / total.asked as f64;
    let cut =
        if cut > 0 { format!(", {cut} cut short at {} tokens", args.max_tokens) } else { String::new() };
    print(&format!("{:<24} {:>5} of {:>5} right, {share:.1} %{cut}", "all", total.right, total.asked))
}

/// One answer: its text, why it ended, what it took.
fn ask(
    model: &Model,
    session: &mut Session,
    row: &Row,
    options: &GenerateOptions,
    thinking: bool,
    cancel: &AtomicBool,
) -> Result<(String, Finish, Timings), Failure> {
    let mut plain = false;
    let ids = match row.asked() {
        Some(Prompt::Ids(ids)) => ids.to_vec(),
        Some(Prompt::Rendered(text)) => model.tokenizer().encode(text, SpecialTokens::Parse),
        Some(Prompt::Question(text)) => {
            plain = true;
            let options = RenderOptions { enable_thinking: thinking, ..RenderOptions::default() };
            let rendered = model.render(&options, &[Message::new(Role::User, text)]);
            rendered.map_err(rawloop_engine::EngineError::from)?.to_ids(model.tokenizer())
        }
        None => Vec::new(),
    };
    let answer = session.generate(&ids, options, cancel, &mut |_| ControlFlow::Continue(()))?;
    if answer.finish == Finish::Cancelled {
        return Err(Failure::interrupted());
    }
    // A question in plain words is answered by the visible text, a rendered prompt by all of it.
    let text = if plain { parse_output(&answer.text, Default::default()).text } else { answer.text };
    Ok((text, answer.finish, answer.timings))
}
