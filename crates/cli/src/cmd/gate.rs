//! `rawloop gate`: the same tokens, or where they part and how narrowly.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rawloop_engine::backend::{Backend, StepOutput, Wanted, Work};
use rawloop_engine::{Engine, Finish, GenerateOptions, Model, Session};
use rawloop_tokenizer::SpecialTokens;
use serde_json::json;

use crate::args::{GateArgs, ModelArgs};
use crate::exit::{Code, Failure};
use crate::questions::{Prompt, Row};
use crate::{answer, interrupt, progress, questions, run};

use super::{print, print_json};

/// Tokens that are compared where the file has no golden answer.
const TOKENS: usize = 64;

/// The first token at which two answers part.
struct Difference {
    index: usize,
    task: String,
    /// Absolute position in the sequence.
    position: usize,
    /// Which token of the answer, from 0.
    token: usize,
    ours: u32,
    expected: u32,
    /// Logit of ours less logit of the expected one.
    margin: f32,
}

/// Compares and reports.
pub fn run(args: GateArgs) -> Result<(), Failure> {
    let cancel = interrupt::install();
    let mut rows = questions::read(&args.goldens)?;
    rows.truncate(args.limit.unwrap_or(usize::MAX));
    let engine = answer::engine(args.choice.model.as_deref(), &args.run, cancel)?;
    let model = Arc::clone(engine.model());
    let info = engine.backend().info();
    let mut other = match args.against {
        None => None,
        Some(backend) => {
            let run = ModelArgs { backend, kernels: None, ..args.run.clone() };
            Some(Engine::open(Arc::clone(model.pack()), |pack| run::backend(pack, &run))?.session()?)
        }
    };
    let mut session = engine.session()?;
    let chunk = run::chunk(&args.run, &info);
    // A fresh backend for the margins, made when the first is wanted: the session's own is mid-conversation.
    let mut scales: Option<Box<dyn Backend>> = None;
    let bar = progress::count(rows.len(), "prompts", args.run.quiet || args.json);
    let mut differences = Vec::new();
    let mut tokens = 0;
    for (index, row) in rows.iter().enumerate() {
        let prompt = prompt(&model, row);
        let golden = row.output_ids.as_deref();
        let vocab = model.pack().geometry().vocab;
        if let Some(id) = golden.unwrap_or_default().iter().find(|&&id| id as usize >= vocab) {
            let message = format!(
                "{}: question {index} has token {id} in its output_ids, outside of the vocabulary of {vocab} tokens",
                args.goldens.display()
            );
            return Err(Failure::input(message));
        }
        let length = args.max_tokens.unwrap_or(golden.map_or(TOKENS, <[u32]>::len));
        let expected = match (&mut other, golden) {
            (Some(other), _) => greedy(other, &prompt, length, args.run.chunk, cancel)?,
            (None, Some(golden)) => golden[..length.min(golden.len())].to_vec(),
            (None, None) => {
                let message =
                    format!("{}: question {index} has no output_ids: give --against", args.goldens.display());
                return Err(Failure::input(message));
            }
        };
        let ours = greedy(&mut session, &prompt, expected.len(), args.run.chunk, cancel)?;
        tokens += expected.len();
        if let Some(token) = (0..expected.len()).find(|&at| ours.get(at) != Some(&expected[at])) {
            let Some(&found) = ours.get(token) else {
                let message =
                    format!("question {index} does not fit into the context of {} positions", info.context);
                return Err(Failure::new(Code::Context, message));
            };
            if scales.is_none() {
                scales = Some(run::backend(model.pack(), &args.run)?);
            }
            let held: Vec<u32> = prompt.iter().chain(&expected[..token]).copied().collect();
            let margin = match &mut scales {
                Some(scales) => margin(scales.as_mut(), &held, chunk, found, expected[token])?,
                None => f32::NAN,
            };
            differences.push(Difference {
                index,
                task: row.task().to_owned(),
                position: held.len(),
                token,
                ours: found,
                expected: expected[token],
                margin,
            });
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let against = other.as_ref().map_or("goldens", |other| other.backend().info().name);
    report(
        &args,
        &model,
        &differences,
        rows.len(),
        tokens,
        against,
        &run::labels(model.pack(), &info, &args.run),
    )
}

fn report(
    args: &GateArgs,
    model: &Model,
    differences: &[Difference],
    prompts: usize,
    tokens: usize,
    against: &str,
    labels: &serde_json::Value,
) -> Result<(), Failure> {
    let equal = prompts - differences.len();
    if args.json {
        let difference = |d: &Difference| {
            json!({
                "index": d.index, "task": d.task, "position": d.position, "answer_token": d.token,
                "ours": d.ours, "expected": d.expected, "margin": d.margin,
            })
        };
        print_json(&json!({
            "n": prompts,
            "equal": equal,
            "tokens": tokens,
            "against": against,
            "differences": differences.iter().map(difference).collect::<Vec<_>>(),
            "labels": labels,
        }))?;
    } else {
        let spelled = |id: u32| model.tokenizer().spelling(id).unwrap_or("?").to_owned();
        for d in differences {
            print(&format!(
                "prompt {} ({}): position {}, token {} of the answer: {} {:?}, expected {} {:?}, margin {:.6}",
                d.index,
                d.task,
                d.position,
                d.token,
                d.ours,
                spelled(d.ours),
                d.expected,
                spelled(d.expected),
                d.margin
            ))?;
        }
        print(&format!("{equal} of {prompts} prompts equal to {against}, {tokens} tokens compared"))?;
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Code::Other,
        format!("{} of {prompts} prompts differ from {against}", differences.len()),
    ))
}

fn prompt(model: &Model, row: &Row) -> Vec<u32> {
    match row.asked() {
        Some(Prompt::Ids(ids)) => ids.to_vec(),
        Some(Prompt::Rendered(text) | Prompt::Question(text)) => {
            model.tokenizer().encode(text, SpecialTokens::Parse)
        }
        None => Vec::new(),
    }
}

/// Greedy tokens, past every stop id.
fn greedy(
    session: &mut Session,
    prompt: &[u32],
    length: usize,
    chunk: Option<usize>,
    cancel: &AtomicBool,
) -> Result<Vec<u32>, Failure> {
    let options = GenerateOptions { ignore_eos: true, chunk, ..GenerateOptions::greedy(length) };
    let answer = session.generate(prompt, &options, cancel, &mut |_| ControlFlow::Continue(()))?;
    if answer.finish == Finish::Cancelled { Err(Failure::interrupted()) } else { Ok(answer.ids) }
}

/// How much larger one logit is than another behind some tokens.
fn margin(
    backend: &mut dyn Backend,
    held: &[u32],
    chunk: usize,
    ours: u32,
    expected: u32,
) -> Result<f32, Failure> {
    let sequence = backend.create()?;
    let mut output = StepOutput::default();
    let (before, last) = held.split_at(held.len() - 1);
    for tokens in before.chunks(chunk) {
        backend.step(&[Work { sequence, tokens, wanted: Wanted::Nothing }], &mut output)?;
    }
    backend.step(&[Work { sequence, tokens: last, wanted: Wanted::LastLogits }], &mut output)?;
    backend.free(sequence);
    Ok(output.logits[ours as usize] - output.logits[expected as usize])
}
