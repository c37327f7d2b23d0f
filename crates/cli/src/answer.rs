//! From flags to answers: what `run`, `chat` and `eval` share.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rawloop_engine::guided::{Grammar, Guide, GuidedError};
use rawloop_engine::{ChatOptions, Engine, EngineError, Finish, Model, SamplingOptions, Timings};
use serde_json::{Value, json};

use crate::args::{AnswerArgs, FormArgs, ModelArgs, SamplingArgs};
use crate::exit::{Code, Failure};
use crate::screen::note;
use crate::{model, run};

/// What ends a passage that --dry compares: it stands between things that repeat by right.
const DRY_BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// Tokens of an answer at most, where nothing else is said.
const MAX_TOKENS: usize = 2048;

/// Opens the model and the backend that the flags name.
pub fn engine(choice: Option<&Path>, args: &ModelArgs, cancel: &AtomicBool) -> Result<Engine, Failure> {
    let pack = model::open(choice, cancel)?;
    let engine = Engine::open(pack, |pack| run::backend(pack, args))?;
    let info = &engine.model().pack().manifest().model;
    if info.synthetic {
        note(format_args!("note: {} has synthetic weights; its text is noise", info.name));
    }
    Ok(engine)
}

/// A seed that differs from run to run. Small enough to be read off a screen and typed in again.
fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish() % 1_000_000_000
}

/// How to answer, as the flags say on top of the model's own settings.
///
/// A sampling flag out of its range is a mistake in the command line, found before any work.
pub fn options(
    model: &Model,
    answer: &AnswerArgs,
    sampling: &SamplingArgs,
    run: &ModelArgs,
) -> Result<ChatOptions, Failure> {
    let mut options = ChatOptions::of(model, MAX_TOKENS);
    let own = &mut options.generate.sampling;
    own.seed = fresh_seed();
    own.dry_breakers = DRY_BREAKERS.iter().filter_map(|text| model.tokenizer().token_id(text)).collect();
    options.generate.chunk = run.chunk;
    options.generate.draft = answer.draft.draft;
    apply(&mut options, model, answer, sampling)?;
    Ok(options)
}

/// Changes what the flags ask for, and nothing else.
pub fn apply(
    options: &mut ChatOptions,
    model: &Model,
    answer: &AnswerArgs,
    sampling: &SamplingArgs,
) -> Result<(), Failure> {
    apply_sampling(&mut options.generate.sampling, sampling);
    let vocab = model.pack().geometry().vocab;
    let valid = options.generate.sampling.validate(vocab);
    valid.map_err(|error| Failure::usage(format!("--{error}").replacen('_', "-", 1)))?;
    if answer.system.is_some() {
        options.system.clone_from(&answer.system);
    }
    if let Some(thought) = answer.thinking {
        options.thinking = thought.is_on();
        options.generate.thinking_budget = thought.budget();
    }
    let generate = &mut options.generate;
    set(&mut generate.max_tokens, answer.max_tokens);
    set(&mut generate.stop_strings, Some(answer.stop.clone()).filter(|stops| !stops.is_empty()));
    generate.detect_loops &= !answer.allow_loops;
    if let Some(guide) = guide(&answer.form)? {
        generate.constraint = Some(guide);
    }
    Ok(())
}

pub fn apply_sampling(own: &mut SamplingOptions, args: &SamplingArgs) {
    set(&mut own.temperature, args.greedy.then_some(0.0).or(args.temperature));
    set(&mut own.top_k, args.top_k);
    set(&mut own.top_p, args.top_p);
    set(&mut own.min_p, args.min_p);
    set(&mut own.typical, args.typical);
    set(&mut own.repetition, args.repetition);
    set(&mut own.presence, args.presence);
    set(&mut own.frequency, args.frequency);
    set(&mut own.dry, args.dry);
    set(&mut own.dry_base, args.dry_base);
    set(&mut own.dry_length, args.dry_length);
    set(&mut own.penalty_window, args.penalty_window);
    set(&mut own.seed, args.seed);
    set(&mut own.bias, Some(args.bias.clone()).filter(|bias| !bias.is_empty()));
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// What the answer has to look like, as the flags say.
pub fn guide(form: &FormArgs) -> Result<Option<Guide>, Failure> {
    let grammar = if let Some(schema) = &form.json_schema {
        // A path does not begin with a brace; a schema that is a file's name would be `true` or `false`.
        let inline = schema.trim_start().starts_with('{');
        let text = if inline { schema.clone() } else { read(Path::new(schema))? };
        let schema: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::input(format!("the schema of --json-schema is no JSON: {error}")))?;
        Grammar::json_schema(&schema)
    } else if let Some(pattern) = &form.regex {
        Grammar::regex(pattern)
    } else if let Some(path) = &form.grammar {
        let text = read(path)?;
        if path.extension().is_some_and(|extension| extension == "gbnf") {
            Grammar::gbnf(&text)
        } else {
            Grammar::lark(&text)
        }
    } else if form.choice.is_empty() {
        return Ok(None);
    } else {
        Grammar::choice(&form.choice)
    };
    Ok(Some(grammar?.into()))
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

/// The settings that decide what is picked, for JSON outputs: with them an answer can be had again.
pub fn sampling_json(options: &SamplingOptions) -> Value {
    // As typed in: 0.95, not the nearest f32 written out in full.
    let short = |value: f32| value.to_string().parse::<f64>().unwrap_or(f64::from(value));
    json!({
        "temperature": short(options.temperature),
        "top_k": options.top_k,
        "top_p": short(options.top_p),
        "min_p": short(options.min_p),
        "typical": short(options.typical),
        "repetition": short(options.repetition),
        "presence": short(options.presence),
        "frequency": short(options.frequency),
        "dry": short(options.dry),
        "dry_base": short(options.dry_base),
        "dry_length": options.dry_length,
        "penalty_window": options.penalty_window,
        "seed": options.seed,
    })
}

/// Timings for JSON outputs.
pub fn timings_json(timings: &Timings) -> Value {
    let millis = |time: std::time::Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    json!({
        "prompt_tokens": timings.prompt_tokens,
        "prefilled_tokens": timings.prefill_tokens(),
        "reused_tokens": timings.reused_tokens,
        "prefill_ms": millis(timings.prefill),
        "decode_tokens": timings.tokens,
        "decode_ms": millis(timings.decode),
        "decode_steps": timings.decode_steps,
        "forced_tokens": timings.forced_tokens,
        "verify_steps": timings.verify_steps,
        "tokens_per_verify": timings.tokens_per_verify().map(round),
        "drafted_tokens": timings.drafted_tokens,
        "accepted_tokens": timings.accepted_tokens,
        "draft_ms": millis(timings.draft),
        "draft_speedup": timings.draft_speedup().map(round),
        "guide_ms": millis(timings.guide),
        "guide_us_per_token": timings.guide_per_token().map(|time| round(time.as_secs_f64() * 1e6)),
        "prefill_tokens_per_second": round(timings.prefill_rate()),
        "decode_tokens_per_second": round(timings.decode_rate()),
    })
}

/// Timings for a person.
pub fn timings_text(timings: &Timings) -> String {
    let mut text = format!(
        "prompt {} tokens ({} reused) in {:.2} s, {:.0} tokens/s; answer {} tokens in {:.2} s, {:.1} tokens/s",
        timings.prompt_tokens,
        timings.reused_tokens,
        timings.prefill.as_secs_f64(),
        timings.prefill_rate(),
        timings.tokens,
        timings.decode.as_secs_f64(),
        timings.decode_rate()
    );
    if let Some(rate) = timings.tokens_per_verify() {
        let Timings { accepted_tokens, drafted_tokens, verify_steps, .. } = timings;
        text += &format!(
            "; {accepted_tokens} of {drafted_tokens} drafts right, {rate:.2} tokens in each of {verify_steps} verifications"
        );
        if let Some(speedup) = timings.draft_speedup() {
            text += &format!(", {speedup:.2} times as fast as without");
        }
    }
    if timings.forced_tokens > 0 {
        text += &format!("; {} tokens forced", timings.forced_tokens);
    }
    if let Some(time) = timings.guide_per_token() {
        text += &format!("; grammar {:.0} us/token", time.as_secs_f64() * 1e6);
    }
    text
}

/// To two places.
pub fn round(rate: f64) -> f64 {
    (rate * 100.0).round() / 100.0
}

/// What an answer that did not end by itself means for the exit code.
pub fn ending(finish: Finish, context: usize) -> Result<(), Failure> {
    match finish {
        Finish::Stop | Finish::Length | Finish::Loop => Ok(()),
        Finish::Cancelled => Err(Failure::interrupted()),
        Finish::Context => {
            let message =
                format!("the context of {context} positions is full; raise --ctx or shorten the prompt");
            Err(Failure::new(Code::Context, message))
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Backend(error) => error.into(),
            EngineError::Context { .. } => Failure::new(Code::Context, error),
            EngineError::Guided(error) => error.into(),
            EngineError::Option(_) | EngineError::EmptyPrompt | EngineError::Chunk => Failure::usage(error),
            EngineError::NoTokenizer { .. }
            | EngineError::Tokenizer { .. }
            | EngineError::Vocabulary { .. }
            | EngineError::ControlToken { .. }
            | EngineError::TestPrompt { .. }
            | EngineError::SessionFile(_)
            | EngineError::Pack(_)
            | EngineError::UnknownModel { .. }
            | EngineError::Token { .. } => Failure::input(error),
            _ => Failure::new(Code::Other, error),
        }
    }
}

impl From<GuidedError> for Failure {
    fn from(error: GuidedError) -> Self {
        match error {
            // What the grammar says is the user's; that it became too much while it was followed is not.
            GuidedError::Failed(_) | GuidedError::Tokenizer(_) => Failure::new(Code::Other, error),
            _ => Failure::usage(error),
        }
    }
}
