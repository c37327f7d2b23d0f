//! `rawloop generate`: a prompt in, ids out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rawloop_engine::backend::{StepOutput, Wanted, Work};
use rawloop_engine::chat::{Message, RenderOptions, Role};
use rawloop_engine::{EngineError, Model};
use rawloop_pack::Pack;
use rawloop_tokenizer::SpecialTokens;
use serde_json::json;

use crate::args::GenerateArgs;
use crate::exit::{Code, Failure};
use crate::screen::note;
use crate::{interrupt, model, run};

use super::{print, print_json};

/// Greedy continuation of a prompt.
pub fn run(args: GenerateArgs) -> Result<(), Failure> {
    if args.temperature != 0.0 {
        return Err(Failure::usage(
            "generate is greedy: --temperature takes 0 (sampling is what `rawloop run` does)",
        ));
    }
    let cancel = interrupt::install();
    let load = Instant::now();
    let pack = model::open(args.choice.model.as_deref(), cancel)?;
    let mut backend = run::backend(&pack, &args.run)?;
    let load_ms = millis(load);
    let prompt = prompt(&pack, &args)?;
    let info = &pack.manifest().model;
    if info.synthetic {
        note(format_args!("note: {} has synthetic weights; its tokens are noise", info.name));
    }
    let stops = pack.manifest().generation.eos.clone();
    let sequence = backend.create()?;
    let needed = prompt.len().saturating_add(args.max_tokens);
    let context = backend.info().context;
    if prompt.len() > context {
        let message =
            format!("the prompt has {} tokens but the context holds {context}; raise --ctx", prompt.len());
        return Err(Failure::new(Code::Context, message));
    }

    let started = Instant::now();
    let (&last, before) = prompt.split_last().ok_or_else(|| Failure::usage("the prompt is empty"))?;
    let mut output = StepOutput::default();
    for tokens in before.chunks(args.run.chunk) {
        backend.step(&[Work { sequence, tokens, wanted: Wanted::Nothing }], &mut output)?;
        if cancel.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
    }
    let prefill_ms = millis(started);

    let mut ids = Vec::new();
    let mut first_ms = None;
    let limit = args.max_tokens.min(context - before.len());
    let decode = Instant::now();
    backend.decode(sequence, last, limit, &stops, &mut |token| {
        first_ms.get_or_insert_with(|| millis(started));
        ids.push(token);
        !cancel.load(Ordering::Relaxed)
    })?;
    let decode_ms = millis(decode);
    let finish = match ids.last() {
        _ if cancel.load(Ordering::Relaxed) => "interrupted",
        Some(id) if stops.contains(id) => "stop",
        _ if ids.len() < args.max_tokens && needed > context => "context",
        _ => "length",
    };
    if args.json {
        let text = run::decode_text(&pack, &ids)?;
        let info = backend.info();
        print_json(&json!({
            "prompt_ids": prompt,
            "output_ids": ids,
            "text": text,
            "finish_reason": finish,
            "timings": {
                "load_ms": load_ms,
                "prefill_tokens": before.len(),
                "prefill_ms": prefill_ms,
                "first_token_ms": first_ms,
                "decode_tokens": ids.len(),
                "decode_ms": decode_ms,
            },
            "labels": run::labels(&pack, &info, &args.run),
        }))?;
    } else {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        print(&ids.join(","))?;
    }
    match finish {
        "interrupted" => Err(Failure::interrupted()),
        "context" => Err(Failure::new(
            Code::Context,
            format!("the context of {context} positions is full; raise --ctx"),
        )),
        _ => Ok(()),
    }
}

/// The ids that the flags give, or those of the text.
fn prompt(pack: &Arc<Pack>, args: &GenerateArgs) -> Result<Vec<u32>, Failure> {
    let Some(text) = &args.prompt else { return Ok(args.prompt_ids.clone()) };
    let model = Model::open(Arc::clone(pack))?;
    if args.raw {
        return Ok(model.control().raw_prompt(model.tokenizer(), text, SpecialTokens::Parse));
    }
    let rendered = model.render(&RenderOptions::default(), &[Message::new(Role::User, text)]);
    Ok(rendered.map_err(EngineError::from)?.to_ids(model.tokenizer()))
}

fn millis(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1e3
}
