//! Ways of decoding against each other on one card, in turns: `trials PACK KERNELS OUT.json [rounds] [tokens] [name,name...]`.
//!
//! KERNELS is what `scripts/build-cuda-trials.sh` made. Every trial keeps a backend of its own, all of them open at once; in each round each of them decodes
//! the same run, the order shifted by one from round to round, so that clocks and heat fall on all alike. A trial whose ids differ from the first one's is
//! reported as wrong and its times are not. The first one is what is shipped. Some of them also verify: steps of several tokens whose picks are all wanted. Behind them
//! a build with clocks tells where a token's time goes, in some of the ways, and a verification's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use rawloop_backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_cuda::{CudaBackend, CudaOptions, StageClocks, TablePlace, Trial};
use rawloop_pack::Pack;

type Failure = Box<dyn std::error::Error>;

/// Lengths of the text before a run; the last two, behind which full layers take other kernels, for trials of these.
const CONTEXTS: [usize; 4] = [16, 512, 1536, 8192];
const OF_ALL: usize = 2;
/// Tokens of a verification and behind how many tokens, the last one for trials of long contexts; and steps of one turn.
const VERIFIED: [(usize, usize); 5] = [(1, 256), (2, 256), (4, 256), (8, 256), (4, 8192)];
const VERIFIED_SHORT: usize = 4;
const VERIFICATIONS: usize = 12;
/// Lengths of the prompts that trials of prompts run to their first token, and nothing else.
const PROMPTS: [usize; 2] = [512, 1024];
/// What the clocks of a stage stand for, each less the one before it.
const PARTS: [&str; 4] = ["until_it_could_start", "entry", "units", "way_out"];

/// A trial by its name: what it changes, kernels of its own (a file of the folder), whether it runs behind long contexts, verifies, and whether its clocks are wanted too.
struct Candidate {
    name: &'static str,
    way: fn(&mut Trial),
    build: Option<&'static str>,
    prompts: bool,
    long: bool,
    verifies: bool,
    clocks: bool,
}

const fn candidate(name: &'static str, way: fn(&mut Trial)) -> Candidate {
    Candidate { name, way, build: None, prompts: false, long: false, verifies: false, clocks: false }
}

/// The first one, which all others are compared with.
const SHIPPED: &str = "shipped";

const CANDIDATES: &[Candidate] = &[
    Candidate { prompts: true, clocks: true, long: true, verifies: true, ..candidate(SHIPPED, |_| ()) },
    candidate("ple_apart", |trial| trial.ple_apart = true),
    candidate("ffn_apart", |trial| trial.ffn_apart = true),
    candidate("attention_apart", |trial| trial.attention_apart = true),
    Candidate { build: Some("warps8"), ..candidate("warps8", |_| ()) },
    Candidate { build: Some("warps16"), ..candidate("warps16", |_| ()) },
    candidate("whole_48k", |trial| trial.whole = Some(48 << 10)),
];

/// One of them with its backend, or why there is none.
struct Open {
    name: &'static str,
    backend: Result<CudaBackend, String>,
    contexts: &'static [usize],
    verified: &'static [(usize, usize)],
    sequences: Vec<SequenceId>,
    /// Microseconds a token, by context.
    times: Vec<Vec<f64>>,
    prompts: bool,
    /// Milliseconds of a prompt, by length.
    firsts: Vec<Vec<f64>>,
    /// Microseconds a verification, by its tokens.
    verifications: Vec<Vec<f64>>,
    equal: bool,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pack, kernels, out, rest @ ..] = &arguments[..] else {
        return Err("trials PACK KERNELS OUT.json [rounds] [tokens] [name,name...]".into());
    };
    let number = |at: usize, usual: usize| rest.get(at).map_or(Ok(usual), |text| text.parse());
    let (rounds, tokens) = (number(0, 9)?, number(1, 256)?);
    let wanted: Vec<&str> = rest.get(2).map_or(Vec::new(), |names| names.split(',').collect());
    let (pack, kernels) = (Pack::open(pack.as_ref())?, Path::new(kernels));
    let mut open = Vec::new();
    let wanted = |c: &&Candidate| wanted.is_empty() || wanted.contains(&c.name);
    for candidate in CANDIDATES.iter().filter(wanted) {
        // What ships runs as it does in the program, whose kernels the ways are not among.
        let build = candidate.build.or((candidate.name != SHIPPED).then_some("ways"));
        let build = build.map(|build| kernels.join(format!("{build}.fatbin")));
        let mut trial = Trial { kernels: build, ..Trial::default() };
        (candidate.way)(&mut trial);
        open.push(Open {
            name: candidate.name,
            backend: opened(&pack, trial).map_err(|error| error.to_string()),
            contexts: match (candidate.long, candidate.prompts) {
                (true, _) => &CONTEXTS,
                (false, true) => &[],
                (false, false) => &CONTEXTS[..OF_ALL],
            },
            prompts: candidate.prompts,
            firsts: vec![Vec::new(); PROMPTS.len()],
            verified: match (candidate.verifies, candidate.long) {
                (true, true) => &VERIFIED,
                (true, false) => &VERIFIED[..VERIFIED_SHORT],
                (false, true) => &VERIFIED[VERIFIED_SHORT..],
                (false, false) => &[],
            },
            sequences: Vec::new(),
            times: vec![Vec::new(); CONTEXTS.len()],
            verifications: vec![Vec::new(); VERIFIED.len()],
            equal: true,
        });
    }
    prepare(&mut open, tokens)?;
    for round in 0..rounds {
        for turn in 0..open.len() {
            let at = (turn + round) % open.len();
            measure(&mut open[at], tokens)?;
        }
    }
    let clocked = CANDIDATES.iter().filter(|c| c.clocks).filter(wanted);
    let stamps = kernels.join("stamps.fatbin");
    let mut clocks: Vec<Clocks> = Vec::new();
    for candidate in clocked {
        let of = |columns| clocks_of(&pack, candidate.way, &stamps, tokens, columns);
        clocks.push((candidate.name.into(), of(1)));
        if candidate.verifies {
            clocks.push((format!("{}, verification of 4", candidate.name), of(4)));
        }
    }
    let text = report(&open, &clocks, rounds, tokens)?;
    std::fs::write(out, &text)?;
    print!("{text}");
    Ok(())
}

fn opened(pack: &Pack, trial: Trial) -> Result<CudaBackend, Failure> {
    let options = CudaOptions {
        context: (CONTEXTS[CONTEXTS.len() - 1] + 256).min(pack.geometry().max_context),
        per_layer_embeddings: TablePlace::Device,
        trial,
        ..CudaOptions::default()
    };
    Ok(CudaBackend::open(pack, &options)?)
}

fn prompt(count: usize, vocab: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761) % vocab as u32).collect()
}

/// A sequence with `context` tokens.
fn begun(backend: &mut CudaBackend, context: usize) -> Result<SequenceId, Failure> {
    let sequence = backend.create()?;
    let tokens = prompt(context, backend.vocab());
    let mut output = StepOutput::default();
    backend.step(&[Work { sequence, tokens: &tokens, wanted: Wanted::Nothing }], &mut output)?;
    Ok(sequence)
}

fn decode(backend: &mut CudaBackend, sequence: SequenceId, tokens: usize) -> Result<Vec<u32>, Failure> {
    let mut ids = Vec::with_capacity(tokens);
    backend.decode(sequence, 2, tokens, &[], &mut |id| {
        ids.push(id);
        true
    })?;
    Ok(ids)
}

/// Verifications of `width` tokens behind a prompt: all picks, and the median of their times in microseconds.
fn verify(backend: &mut CudaBackend, (width, behind): (usize, usize)) -> Result<(Vec<u32>, f64), Failure> {
    let sequence = begun(backend, behind)?;
    let tokens = prompt(width, backend.vocab());
    let (mut picks, mut times, mut output) = (Vec::new(), Vec::new(), StepOutput::default());
    for _ in 0..VERIFICATIONS {
        let start = Instant::now();
        backend.step(&[Work { sequence, tokens: &tokens, wanted: Wanted::Picks }], &mut output)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        picks.extend(&output.picks);
    }
    backend.free(sequence);
    Ok((picks, median(times)))
}

/// The first tokens behind a prompt of `count`, and the milliseconds to the very first.
fn first_token(backend: &mut CudaBackend, count: usize) -> Result<(Vec<u32>, f64), Failure> {
    let sequence = backend.create()?;
    let tokens = prompt(count, backend.vocab());
    let mut output = StepOutput::default();
    let start = Instant::now();
    backend.step(&[Work { sequence, tokens: &tokens, wanted: Wanted::LastPick }], &mut output)?;
    let time = start.elapsed().as_secs_f64() * 1e3;
    let mut ids = output.picks.clone();
    ids.extend(decode(backend, sequence, 16)?);
    backend.free(sequence);
    Ok((ids, time))
}

/// Begins the sequences, records the graphs, and compares ids with the first trial's.
fn prepare(open: &mut [Open], tokens: usize) -> Result<(), Failure> {
    let mut truth: Vec<Vec<u32>> = Vec::new();
    let mut first_tokens: Vec<Vec<u32>> = Vec::new();
    let mut verified: BTreeMap<(usize, usize), Vec<u32>> = BTreeMap::new();
    for (index, trial) in open.iter_mut().enumerate() {
        let Ok(backend) = &mut trial.backend else { continue };
        for (at, &context) in trial.contexts.iter().enumerate() {
            let sequence = begun(backend, context)?;
            let ids = decode(backend, sequence, tokens)?;
            if index == 0 {
                truth.push(ids);
            } else {
                trial.equal &= truth.get(at) == Some(&ids);
            }
            backend.free(sequence);
            trial.sequences.push(begun(backend, context)?);
        }
        for (at, &count) in PROMPTS.iter().enumerate().filter(|_| trial.prompts) {
            let (ids, _) = first_token(backend, count)?;
            if first_tokens.len() == at {
                first_tokens.push(ids.clone());
            }
            trial.equal &= first_tokens[at] == ids;
        }
        for &which in trial.verified {
            let (picks, _) = verify(backend, which)?;
            trial.equal &= *verified.entry(which).or_insert_with(|| picks.clone()) == picks;
        }
    }
    Ok(())
}

/// One run of a trial at each context; the sequence begins anew, since rings do not reach back a whole run.
fn measure(trial: &mut Open, tokens: usize) -> Result<(), Failure> {
    let Ok(backend) = &mut trial.backend else { return Ok(()) };
    for (at, &context) in trial.contexts.iter().enumerate() {
        let start = Instant::now();
        decode(backend, trial.sequences[at], tokens)?;
        trial.times[at].push(start.elapsed().as_secs_f64() * 1e6 / tokens as f64);
        backend.free(trial.sequences[at]);
        trial.sequences[at] = begun(backend, context)?;
    }
    for (&count, times) in PROMPTS.iter().zip(&mut trial.firsts).filter(|_| trial.prompts) {
        times.push(first_token(backend, count)?.1);
    }
    for (&which, times) in trial.verified.iter().zip(&mut trial.verifications) {
        times.push(verify(backend, which)?.1);
    }
    Ok(())
}

/// Microseconds of the parts of a stage kind in the chain, medians over stages and runs.
type Parts = BTreeMap<&'static str, Vec<[f64; 6]>>;
/// A trial's name with them, or why there are none.
type Clocks = (String, Result<Parts, String>);

/// Of a token decoded behind 512, or of a verification of `columns` tokens there.
fn clocks_of(
    pack: &Pack,
    way: fn(&mut Trial),
    kernels: &Path,
    tokens: usize,
    columns: usize,
) -> Result<Parts, String> {
    let mut trial = Trial { kernels: Some(kernels.into()), stamps: true, ..Trial::default() };
    way(&mut trial);
    let collect = || -> Result<Parts, Failure> {
        let mut backend = opened(pack, trial)?;
        let mut parts = Parts::new();
        for _ in 0..20 {
            let sequence = begun(&mut backend, 512)?;
            let stages = if columns == 1 {
                decode(&mut backend, sequence, tokens.min(32))?;
                backend.stage_clocks(512)?
            } else {
                let tokens = prompt(columns, backend.vocab());
                let mut output = StepOutput::default();
                for _ in 0..4 {
                    let work = Work { sequence, tokens: &tokens, wanted: Wanted::Picks };
                    backend.step(&[work], &mut output)?;
                }
                backend.verification_clocks(512, columns)?
            };
            for (index, stage) in stages.iter().enumerate() {
                let before = index.checked_sub(1).map_or(stage, |before| &stages[before]);
                parts.entry(stage.stage).or_default().push(parts_of(before, stage));
            }
            backend.free(sequence);
        }
        Ok(parts)
    };
    collect().map_err(|error| error.to_string())
}

/// From the end of the stage before (attention has no clocks and lies between) to this one's input, then its own parts.
fn parts_of(before: &StageClocks, stage: &StageClocks) -> [f64; 6] {
    let micros = |from: u64, to: u64| to.wrapping_sub(from) as i64 as f64 / 1e3;
    let own = stage.nanoseconds;
    let mut parts = [0.0; 6];
    parts[0] = micros(before.nanoseconds[4], own[1]);
    for part in 0..4 {
        parts[part + 1] = micros(own[part], own[part + 1]);
    }
    // Cycles from the wait's end to the way out.
    parts[5] = stage.cycles[4].wrapping_sub(stage.cycles[1]) as f64;
    parts
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn report(open: &[Open], clocks: &[Clocks], rounds: usize, tokens: usize) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let card = open.iter().find_map(|trial| trial.backend.as_ref().ok()).map(|b| b.info().kernels);
    writeln!(text, "{{\n  \"card\": {:?},", card.unwrap_or_default())?;
    writeln!(text, "  \"rounds\": {rounds},\n  \"tokens\": {tokens},\n  \"trials\": [")?;
    for (index, trial) in open.iter().enumerate() {
        let comma = if index + 1 < open.len() { "," } else { "" };
        write!(text, "    {{ \"name\": {:?}", trial.name)?;
        match &trial.backend {
            Err(why) => write!(text, ", \"error\": {why:?}")?,
            Ok(_) if !trial.equal => write!(text, ", \"error\": \"other ids than the first trial's\"")?,
            Ok(_) => {
                for (count, times) in PROMPTS.iter().zip(&trial.firsts).filter(|_| trial.prompts) {
                    let least = times.iter().copied().fold(f64::NAN, f64::min);
                    let p50 = median(times.iter().copied());
                    write!(
                        text,
                        ", \"prompt_of_{count}\": {{ \"ms_p50\": {p50:.3}, \"ms_least\": {least:.3} }}"
                    )?;
                }
                for (at, context) in trial.contexts.iter().enumerate() {
                    let times = &trial.times[at];
                    let (p50, least) =
                        (median(times.iter().copied()), times.iter().copied().fold(f64::NAN, f64::min));
                    write!(
                        text,
                        ", \"behind_{context}\": {{ \"us_p50\": {p50:.1}, \"us_least\": {least:.1}, \"tokens_a_second\": {:.0} }}",
                        1e6 / p50
                    )?;
                }
                for ((width, behind), times) in trial.verified.iter().zip(&trial.verifications) {
                    let least = times.iter().copied().fold(f64::NAN, f64::min);
                    let p50 = median(times.iter().copied());
                    write!(
                        text,
                        ", \"verification_of_{width}_behind_{behind}\": {{ \"us_p50\": {p50:.1}, \"us_least\": {least:.1} }}"
                    )?;
                }
            }
        }
        writeln!(text, " }}{comma}")?;
    }
    writeln!(text, "  ],\n  \"clocks_us\": {{")?;
    for (trial, (name, found)) in clocks.iter().enumerate() {
        let comma = if trial + 1 < clocks.len() { "," } else { "" };
        let parts = match found {
            Ok(parts) => parts,
            Err(why) => {
                writeln!(text, "    {name:?}: {why:?}{comma}")?;
                continue;
            }
        };
        writeln!(text, "    {name:?}: {{")?;
        for (index, (stage, samples)) in parts.iter().enumerate() {
            let of = |part: usize| median(samples.iter().map(|sample| sample[part]));
            write!(text, "      {stage:?}: {{ \"from_the_stage_before\": {:.2}", of(0))?;
            for (at, part) in PARTS.iter().enumerate() {
                write!(text, ", \"{part}\": {:.2}", of(at + 1))?;
            }
            write!(text, ", \"cycles_behind_the_wait\": {:.0}", of(5))?;
            writeln!(text, " }}{}", if index + 1 < parts.len() { "," } else { "" })?;
        }
        writeln!(text, "    }}{comma}")?;
    }
    writeln!(text, "  }}\n}}")?;
    Ok(text)
}
