//! Runs by the loop that answers are made with, on any backend: every token drawn (`--temperature`), or tokens drafted before each step (`--draft`).
//!
//! They go the way that they go for a user: drawn where the logits are if the backend can, drafts verified in one step, what was not right taken back. How
//! often drafts are right is a fact about weights and text; where weights are random they never are, and what holds is what a draft and a verification take.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rawloop_engine::backend::{Backend, StepOutput};
use rawloop_engine::generate::{Finish, Means, Request, Step, Timings, generate};
use rawloop_engine::sample::Sampler;
use rawloop_engine::sequence::Sequence;
use rawloop_engine::speculate::{Draft, Speculation};
use rawloop_engine::{EngineError, SamplingOptions};
use rawloop_pack::Pack;
use serde::Serialize;

use super::decode::PROMPT;
use super::runner::{SEED, ids};
use super::stats::{median, percentile};
use crate::args::BenchArgs;
use crate::exit::Failure;

/// How the tokens of a run come about.
#[derive(Clone, Debug)]
pub struct Way {
    /// `drawn` or `drafted`, in outputs.
    pub name: &'static str,
    sampling: SamplingOptions,
    draft: Option<usize>,
}

/// What a run was measured to be. Times are the wall's, between tokens as they arrive.
#[derive(Clone, Debug, Serialize)]
pub struct Answered {
    /// Above 0 where tokens were drawn.
    pub temperature: f64,
    /// Candidates kept.
    pub top_k: u32,
    /// Probability kept.
    pub top_p: f64,
    /// Tokens per second: the median of the rounds.
    pub tok_s: f64,
    /// Milliseconds to the next token: half of them take no longer.
    pub p50_ms: f64,
    /// Milliseconds to the next token: 99 of 100 take no longer.
    pub p99_ms: f64,
    /// Tokens per second of each round that counts.
    pub rounds: Vec<f64>,
    /// Drafts, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drafts: Option<Drafts>,
}

/// Drafts and their verification, of all rounds that count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Drafts {
    /// Tokens drafted before a step.
    pub depth: usize,
    /// Tokens drafted a second, while drafting.
    pub drafts_s: f64,
    /// Milliseconds of a drafted token.
    pub draft_ms: f64,
    /// Milliseconds of a step that verifies, with what picks and takes back.
    pub verify_ms: f64,
    /// Tokens that such a step gave.
    pub tokens_per_verify: f64,
    /// Share of the drafts that were right.
    pub accepted: f64,
}

/// The runs that the flags ask for: drawn ones without drafts, then with drafts, drawn where the flags say so.
///
/// # Errors
/// Drafts of a model without a drafter.
pub fn ways(args: &BenchArgs, pack: &Pack, has_drafter: bool) -> Result<Vec<Way>, Failure> {
    if args.draft.is_some() && !has_drafter {
        let what = "--draft: this model has no drafter (convert and synth add one with --assistant)";
        return Err(Failure::usage(what));
    }
    let sampling = match args.temperature {
        None => SamplingOptions::greedy(),
        Some(temperature) => {
            let own = SamplingOptions::from_pack(&pack.manifest().generation);
            let (top_k, top_p) = (args.top_k.unwrap_or(own.top_k), args.top_p.unwrap_or(own.top_p));
            SamplingOptions { temperature, top_k, top_p, seed: SEED, ..own }
        }
    };
    let drawn = args.temperature.map(|_| Way { name: "drawn", sampling: sampling.clone(), draft: None });
    let drafted = args.draft.map(|depth| Way { name: "drafted", sampling, draft: Some(depth) });
    Ok(drawn.into_iter().chain(drafted).collect())
}

/// One cold round and `rounds` more of `tokens` tokens behind the prompt of decode.
pub fn measure(
    backend: &mut dyn Backend,
    way: &Way,
    cap: Option<f32>,
    (tokens, rounds, chunk): (usize, usize, usize),
    cancel: &AtomicBool,
) -> Result<Answered, Failure> {
    let sampler = Sampler::new(way.sampling.clone(), backend.vocab(), cap);
    let mut sampler = sampler.map_err(EngineError::from)?;
    let prompt = ids(PROMPT, backend.vocab());
    let mut all = Vec::new();
    for round in 0..=rounds {
        let mut sequence = Sequence::create(backend, 0)?;
        let draft = way.draft.map_or(Draft::Off, Draft::Fixed);
        let (mut output, mut speculation) = (StepOutput::default(), Speculation::new(draft));
        let means = Means {
            sequence: &mut sequence,
            sampler: &mut sampler,
            output: &mut output,
            speculation: &mut speculation,
        };
        let request = Request {
            prompt: &prompt,
            stops: &[],
            max_tokens: tokens,
            chunk,
            marks: &[],
            constraint: None,
            budget: None,
        };
        let (start, mut times) = (Instant::now(), Vec::with_capacity(tokens));
        let outcome = generate(backend, means, request, cancel, &mut |step| {
            if let Step::Token { .. } = step {
                times.push(start.elapsed());
            }
            ControlFlow::Continue(())
        });
        sequence.free(backend);
        let outcome = outcome?;
        if outcome.finish == Finish::Cancelled {
            return Err(Failure::interrupted());
        }
        if round > 0 {
            all.push((outcome.timings, times));
        }
    }
    Ok(summary(way, &all))
}

fn summary(way: &Way, rounds: &[(Timings, Vec<Duration>)]) -> Answered {
    let rates: Vec<f64> = rounds.iter().map(|(timings, _)| timings.decode_rate()).collect();
    let gaps = || {
        let times = rounds.iter().flat_map(|(_, times)| times.windows(2));
        times.map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e3)
    };
    let all: Timings = rounds.iter().map(|(timings, _)| *timings).sum();
    let each = |time: Duration, count: usize| time.as_secs_f64() * 1e3 / count as f64;
    let drafts = |depth| Drafts {
        depth,
        drafts_s: all.drafted_tokens as f64 / all.draft.as_secs_f64(),
        draft_ms: each(all.draft, all.drafted_tokens),
        verify_ms: each(all.verify, all.verify_steps),
        tokens_per_verify: all.tokens_per_verify().unwrap_or(f64::NAN),
        accepted: all.accepted_tokens as f64 / all.drafted_tokens as f64,
    };
    let SamplingOptions { temperature, top_k, top_p, .. } = way.sampling;
    // As it was written: the nearest f64 of 0.95 has more digits than the flag.
    let written = |value: f32| (f64::from(value) * 1e6).round() / 1e6;
    Answered {
        temperature: written(temperature),
        top_k,
        top_p: written(top_p),
        tok_s: median(rates.iter().copied()),
        p50_ms: percentile(gaps(), 50.0),
        p99_ms: percentile(gaps(), 99.0),
        rounds: rates,
        drafts: way.draft.map(drafts),
    }
}

/// Lines for people.
pub fn lines(answered: &Answered) -> Vec<String> {
    let Answered { temperature, top_k, top_p, tok_s, p50_ms, p99_ms, drafts, .. } = answered;
    let how = match *temperature > 0.0 {
        true => format!("drawn at {temperature}, top-k {top_k}, top-p {top_p}"),
        false => "greedy".into(),
    };
    let first = |what: &str| {
        format!("{what} {tok_s:.1} tok/s; between tokens {p50_ms:.3} ms (p50), {p99_ms:.3} ms (p99)")
    };
    let Some(drafts) = drafts else { return vec![first(&format!("{how}:"))] };
    let Drafts { depth, drafts_s, draft_ms, verify_ms, tokens_per_verify, accepted } = drafts;
    vec![
        first(&format!("{how}, {depth} drafted a step:")),
        format!(
            "  {drafts_s:.0} drafts/s, {draft_ms:.3} ms each; verified in {verify_ms:.3} ms, which gives {tokens_per_verify:.2} tokens; {:.1} % of drafts right",
            100.0 * accepted
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drafts_took_is_of_all_rounds_and_rates_are_of_each() {
        let milliseconds = |values: &[u64]| values.iter().map(|&ms| Duration::from_millis(ms)).collect();
        let round = |seconds: u64, accepted_tokens: usize| Timings {
            decode: Duration::from_secs(seconds),
            decode_tokens: 8,
            verify_steps: 4,
            verified_tokens: 4 + accepted_tokens,
            drafted_tokens: 12,
            accepted_tokens,
            draft: Duration::from_millis(375),
            verify: Duration::from_millis(500),
            ..Timings::default()
        };
        let way = Way { name: "drafted", sampling: SamplingOptions::greedy(), draft: Some(3) };
        let rounds = [
            (round(2, 6), milliseconds(&[1, 2, 4])),
            (round(4, 0), milliseconds(&[5, 9])),
            (round(8, 0), milliseconds(&[])),
        ];
        let answered = summary(&way, &rounds);
        assert_eq!((answered.tok_s, answered.rounds), (2.0, vec![4.0, 2.0, 1.0]));
        assert_eq!((answered.p50_ms, answered.p99_ms), (2.0, 4.0));
        let drafts = Drafts {
            depth: 3,
            drafts_s: 32.0,
            draft_ms: 31.25,
            verify_ms: 125.0,
            tokens_per_verify: 1.5,
            accepted: 6.0 / 36.0,
        };
        assert_eq!(answered.drafts, Some(drafts));
    }
}
