//! `rawloop generate`: a prompt in, ids out.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use rawloop_engine::backend::StepOutput;
use rawloop_engine::chat::{Message, RenderOptions, Role};
use rawloop_engine::generate::{Finish, Means, Request, Step, generate};
use rawloop_engine::guided::{Preparing, SharedEnvironment, Thinking};
use rawloop_engine::sample::Sampler;
use rawloop_engine::sequence::Sequence;
use rawloop_engine::speculate::Speculation;
use rawloop_engine::{EngineError, Model, SamplingOptions};
use rawloop_pack::Pack;
use rawloop_tokenizer::SpecialTokens;
use serde_json::json;

use crate::args::GenerateArgs;
use crate::exit::{Code, Failure};
use crate::screen::note;
use crate::{answer, interrupt, model, run};

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
    let constraint = constraint(&pack, &args, &prompt, &stops)?;
    let (context, chunk) = (backend.info().context, run::chunk(&args.run, &backend.info()));
    let mut sequence = Sequence::create(backend.as_mut(), 0)?;
    let cap = pack.geometry().soft_cap;
    let mut sampler =
        Sampler::new(SamplingOptions::greedy(), backend.vocab(), cap).map_err(EngineError::from)?;
    let (mut output, mut speculation) = (StepOutput::default(), Speculation::new(args.draft.draft));
    let means = Means {
        sequence: &mut sequence,
        sampler: &mut sampler,
        output: &mut output,
        speculation: &mut speculation,
    };
    let request = Request {
        prompt: &prompt,
        stops: &stops,
        max_tokens: args.max_tokens,
        chunk,
        marks: &[],
        constraint,
        budget: None,
    };
    let started = Instant::now();
    let mut ids = Vec::new();
    let mut first_ms = None;
    let outcome = generate(backend.as_mut(), means, request, cancel, &mut |step| {
        if let Step::Token { id, .. } = step {
            first_ms.get_or_insert_with(|| millis(started));
            ids.push(id);
        }
        ControlFlow::Continue(())
    })?;
    ids.extend(outcome.stop);
    let finish = match outcome.finish {
        Finish::Cancelled => "interrupted",
        finish => finish.name(),
    };
    if args.json {
        let text = run::decode_text(&pack, &ids)?;
        let info = backend.info();
        let mut timings = answer::timings_json(&outcome.timings);
        timings["load_ms"] = json!(load_ms);
        timings["prefill_tokens"] = json!(prompt.len() - 1);
        timings["first_token_ms"] = json!(first_ms);
        timings["decode_tokens"] = json!(ids.len());
        print_json(&json!({
            "prompt_ids": prompt,
            "output_ids": ids,
            "text": text,
            "finish_reason": finish,
            "timings": timings,
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

/// What holds the answer to a form, where the flags ask for one.
fn constraint(
    pack: &Arc<Pack>,
    args: &GenerateArgs,
    prompt: &[u32],
    stops: &[u32],
) -> Result<Option<Preparing>, Failure> {
    let Some(guide) = answer::guide(&args.form)? else { return Ok(None) };
    let model = Model::open(Arc::clone(pack))?;
    let environment = SharedEnvironment::new(model.tokenizer().clone());
    let thinking = Thinking::of_prompt(model.control(), prompt);
    Ok(Some(Preparing::new(&environment, &guide, thinking, stops)))
}

/// The ids that the flags give, or those of the text.
fn prompt(pack: &Arc<Pack>, args: &GenerateArgs) -> Result<Vec<u32>, Failure> {
    let Some(text) = &args.prompt else {
        let vocab = pack.geometry().vocab;
        return match args.prompt_ids.iter().find(|&&id| id as usize >= vocab) {
            Some(id) => Err(Failure::usage(format!(
                "--prompt-ids has {id}: the vocabulary of this model ends at {vocab}"
            ))),
            None => Ok(args.prompt_ids.clone()),
        };
    };
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
