//! `rawloop bench`: what this machine gets out of a model, by a protocol that holds on shared machines too.
//!
//! `runner.rs` is what everything is made of, `decode.rs`, `prefill.rs`, `verify.rs`, `draft.rs`, `stages.rs`, `answers.rs`, `startup.rs` and
//! `compare.rs` are one measurement each, `card.rs` is the protocol on a device, `report.rs` and `table.rs` are what is printed, `record.rs` and `plot.rs` what is
//! kept. The order below matters: fresh processes go first, while this one has not touched the weights; memory is read
//! after the standard protocol and before anything optional.

mod answers;
mod card;
mod compare;
mod decode;
mod draft;
mod memory;
mod plot;
mod prefill;
mod record;
mod report;
mod runner;
mod stages;
mod startup;
mod stats;
mod table;
mod verify;

use rawloop_engine::backend::Backend;

use self::report::Report;
use self::runner::Runner;
use super::{print, print_json};
use crate::args::{BackendName, BenchArgs, CONTEXTS, PROMPTS};
use crate::exit::Failure;
use crate::machine::Machine;
use crate::screen::note;
use crate::{interrupt, model, progress, run};

/// Positions beyond a depth and its tokens: the token that warms up.
const AHEAD: usize = 1;

/// Measures and prints.
pub fn run(args: BenchArgs) -> Result<(), Failure> {
    let cancel = interrupt::install();
    match args.run.backend {
        BackendName::Cpu => {}
        BackendName::Cuda | BackendName::Wgpu => return card::run(&args, cancel),
        BackendName::Auto if rawloop_cuda::report().is_ok() => return card::run(&args, cancel),
        BackendName::Auto => {}
        BackendName::Ref => {
            return Err(Failure::usage("bench measures backends; the reference is not made for speed"));
        }
    }
    if args.startup {
        return print_json(&startup::once(&args, cancel)?);
    }
    let load = report::machine_load();
    let pack = model::open(args.choice.model.as_deref(), cancel)?;
    let plan = Plan::new(&args, pack.geometry().max_context)?;
    if load > 0.5 {
        note(format_args!(
            "note: other programs use this machine (load {load:.1}): shares and ratios hold, absolute figures do not"
        ));
    }
    let bar = progress::count(plan.steps(&args), "startup", args.run.quiet);
    let startup = startup::measure(&args, cancel, &mut || bar.inc(1))?;

    let backend = run::cpu_backend(&pack, &plan.run)?;
    let machine = Machine::look();
    let info = backend.info();
    let chunk = run::chunk(&args.run, &info);
    let ways = answers::ways(&args, &pack, info.has_drafter)?;
    let labels = report::labels(run::labels(&pack, &info, &plan.run), &args, chunk, &machine, load);
    let kv = run::cpu_kv(plan.run.kv);
    let mut runner = Runner::new(backend, pack.geometry(), kv, chunk, bar, cancel);
    runner.bar.set_message("decode");
    let decode = decode::measure(&mut runner, args.tokens, args.rounds)?;
    let mut prefill = Vec::new();
    for &length in &plan.prompts {
        prefill.push((length, prefill::measure(&mut runner, length, args.rounds)?));
    }
    let peak_bytes = memory::peak_bytes();
    let contexts = decode::depths(&mut runner, &plan.contexts, args.tokens)?;
    let verify = if args.verify { verify::measure(&mut runner)? } else { Vec::new() };
    let draft = if args.verify { draft::measure(&mut runner)? } else { Vec::new() };
    let (mut answers, cap) = (Vec::new(), pack.geometry().soft_cap);
    for way in ways {
        let lengths = (args.tokens, args.rounds, chunk);
        let answered = answers::measure(&mut runner.backend, &way, cap, lengths, cancel)?;
        answers.push((way.name, answered));
        runner.next(way.name);
    }
    let prompt = plan.prompts.first().copied().unwrap_or(1);
    let stages = match args.stages {
        true => Some(stages::measure(&mut runner, args.tokens, prompt, args.rounds)?),
        false => None,
    };
    let compare = match &args.compare {
        Some(command) => {
            let prompt = args.compare_prefill;
            Some(compare::measure(&mut runner, command, prompt, args.tokens, args.rounds, cancel)?)
        }
        None => None,
    };
    runner.bar.finish_and_clear();

    let protocol = report::protocol(&args, &plan.prompts);
    let report = Report {
        labels,
        protocol,
        startup,
        peak_bytes,
        decode,
        prefill,
        contexts,
        verify,
        draft,
        answers,
        stages,
        compare,
    };
    let value = report.json();
    let (title, conditions) = (report::title(&pack), report::conditions(&report.labels));
    if let Some(path) = &args.svg {
        plot::write(path, &report.contexts, &title, &conditions)?;
    }
    if let Some(folder) = &args.record {
        let path = record::write(folder, &report, &value)?;
        note(format_args!("kept as {}", path.display()));
    }
    if args.json { print_json(&value) } else { print(&table::table(&report, &title, &conditions)) }
}

/// The lengths that fit the model, and the flags with a context that holds them.
struct Plan {
    prompts: Vec<usize>,
    contexts: Vec<usize>,
    run: crate::args::ModelArgs,
}

impl Plan {
    fn new(args: &BenchArgs, trained: usize) -> Result<Plan, Failure> {
        let limit = args.run.ctx.unwrap_or(trained).min(trained);
        let depth_tokens = args.tokens.min(decode::DEPTH_TOKENS) + AHEAD;
        let prompts = match &args.prompts {
            Some(prompts) => prompts.clone(),
            None => fitting(&PROMPTS, limit, 0, "prompts"),
        };
        let contexts = match &args.contexts {
            Some(contexts) if contexts[..] != CONTEXTS => contexts.clone(),
            None if args.svg.is_none() => Vec::new(),
            _ => fitting(&CONTEXTS, limit, depth_tokens, "contexts"),
        };
        let needed = [decode::PROMPT + args.tokens + AHEAD, decode::PROMPT + verify::WIDTHS.end() + AHEAD]
            .into_iter()
            .chain(prompts.iter().copied())
            .chain(contexts.iter().map(|context| context.saturating_add(depth_tokens)))
            .chain(args.compare_prefill)
            .max()
            .unwrap_or(1);
        if needed > limit {
            let whose = if limit < trained { "--ctx leaves" } else { "the model was trained for" };
            return Err(Failure::usage(format!(
                "{needed} positions are needed but {whose} {limit}; lower --tokens, --prompts or --contexts"
            )));
        }
        let run = crate::args::ModelArgs { ctx: Some(args.run.ctx.unwrap_or(needed)), ..args.run.clone() };
        Ok(Plan { prompts, contexts, run })
    }

    /// How many times progress is made.
    fn steps(&self, args: &BenchArgs) -> usize {
        let rounds = args.rounds + 1;
        let compare = usize::from(args.compare.is_some()) * rounds;
        let verify = usize::from(args.verify) * (verify::WIDTHS.count() + 1);
        rounds * (2 + self.prompts.len())
            + self.contexts.len()
            + verify
            + usize::from(args.temperature.is_some())
            + usize::from(args.draft.is_some())
            + 2 * usize::from(args.stages)
            + compare
    }
}

/// What of a list of defaults fits into the context, said where it is not all.
fn fitting(lengths: &[usize], limit: usize, beyond: usize, what: &str) -> Vec<usize> {
    let fit: Vec<usize> = lengths.iter().copied().filter(|length| length + beyond <= limit).collect();
    if fit.len() < lengths.len() {
        note(format_args!("note: {what} that do not fit into {limit} positions are left out"));
    }
    fit
}
