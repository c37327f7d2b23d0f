//! Where the time goes: milliseconds, bytes and products by stage kind, for decode and for prefill.
//!
//! Times are laps of the backend between its stages, of the round whose sum is the median; bytes and products are counted
//! (`rawloop_cpu::Cost`). A stage is its linears and the row work that follows them up to the next one.

use std::time::Duration;

use rawloop_cpu::Cost;
use rawloop_engine::backend::Backend;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::decode::PROMPT;
use super::runner::{Runner, wall};
use crate::exit::Failure;

/// Tokens of a decode round at most.
const TOKENS: usize = 64;

/// One stage kind, per token of decode or per prompt of prefill.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Stage {
    /// Name of the kind.
    #[serde(skip)]
    pub name: &'static str,
    /// Milliseconds.
    pub ms: f64,
    /// Of the whole, 0 to 1.
    pub share: f64,
    /// Bytes of weights and of K/V.
    pub bytes: f64,
    /// Bytes a second, in 10^9.
    pub gb_s: f64,
    /// Products of codes and of floats a second, in 10^9.
    pub g_s: f64,
}

/// Tables of both programs.
#[derive(Debug)]
pub struct Stages {
    /// Of a decoded token.
    pub decode: Vec<Stage>,
    /// Of a prompt.
    pub prefill: Vec<Stage>,
    /// Tokens of that prompt.
    pub prompt: usize,
}

impl Stages {
    /// As JSON, stage kinds as keys.
    pub fn json(&self) -> Value {
        let table = |stages: &[Stage]| -> Map<String, Value> {
            stages.iter().map(|stage| (stage.name.to_owned(), json!(stage))).collect()
        };
        json!({
            "decode": table(&self.decode),
            "prefill": table(&self.prefill),
            "prefill_tokens": self.prompt,
        })
    }
}

/// Times of one round, in the order of the kinds.
type Times = Vec<(&'static str, Duration)>;

/// Measures both programs.
pub fn measure(runner: &mut Runner, tokens: usize, prompt: usize, rounds: usize) -> Result<Stages, Failure> {
    let tokens = tokens.min(TOKENS);
    let mut cost = Cost::default();
    for position in PROMPT..PROMPT + tokens {
        cost += Cost::full(runner.geometry, runner.kv, position..position + 1);
    }
    let mut all = Vec::new();
    for _ in 0..=rounds {
        let (sequence, token) = runner.prompt(PROMPT)?;
        let (token, _) = runner.pick(sequence, token)?;
        all.push(profiled(runner, |runner| runner.decode(sequence, token, tokens, false).map(|_| ()))?);
        runner.backend.free(sequence);
    }
    runner.next("stages of decode");
    let decode = table(&middle(all), &cost, tokens);

    let ids = runner.ids(prompt);
    let cost = runner.prefill_cost(0, prompt);
    let mut all = Vec::new();
    for _ in 0..=rounds {
        let sequence = runner.backend.create()?;
        all.push(profiled(runner, |runner| runner.prefill(sequence, &ids).map(|_| ()))?);
        runner.backend.free(sequence);
    }
    runner.next("stages of prefill");
    Ok(Stages { decode, prefill: table(&middle(all), &cost, 1), prompt })
}

fn profiled(
    runner: &mut Runner,
    work: impl FnOnce(&mut Runner) -> Result<(), Failure>,
) -> Result<Times, Failure> {
    runner.backend.set_profile(Some(wall));
    let done = work(runner);
    let times = runner.backend.profile().to_vec();
    runner.backend.set_profile(None);
    done.map(|()| times)
}

fn sum(times: &Times) -> Duration {
    times.iter().map(|(_, time)| *time).sum()
}

/// The round whose sum is the median, the first left out.
fn middle(mut rounds: Vec<Times>) -> Times {
    if rounds.len() > 1 {
        rounds.remove(0);
    }
    rounds.sort_by_key(sum);
    let index = rounds.len() / 2;
    rounds.into_iter().nth(index).unwrap_or_default()
}

/// Times and costs of `count` runs as one's.
fn table(times: &Times, cost: &Cost, count: usize) -> Vec<Stage> {
    let whole = sum(times).as_secs_f64();
    let stage = |(&(name, time), (_, cost)): (&(&'static str, Duration), (&str, rawloop_cpu::StageCost))| {
        let seconds = time.as_secs_f64();
        let rate = |amount: u64| if seconds > 0.0 { amount as f64 / seconds / 1e9 } else { 0.0 };
        Stage {
            name,
            ms: seconds * 1e3 / count as f64,
            share: if whole > 0.0 { seconds / whole } else { 0.0 },
            bytes: cost.bytes() as f64 / count as f64,
            gb_s: rate(cost.bytes()),
            g_s: rate(cost.int8_macs + cost.f32_fmas),
        }
    };
    times.iter().zip(cost.kinds()).map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_of_one_token_and_its_shares_are_one() {
        let geometry = rawloop_spec::presets::by_name("tiny").map(|preset| preset.geometry()).unwrap();
        let cost = Cost::full(&geometry, rawloop_cpu::KvFormat::F16, 0..1);
        let times: Times = cost.kinds().map(|(name, _)| (name, Duration::from_millis(20))).collect();
        let stages = table(&times, &cost, 10);
        assert!((stages.iter().map(|stage| stage.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(stages.iter().all(|stage| (stage.ms - 2.0).abs() < 1e-9));
        let head = stages.iter().find(|stage| stage.name == "head").unwrap();
        let expected = cost.kinds().find(|kind| kind.0 == "head").unwrap().1;
        assert!((head.gb_s - expected.bytes() as f64 / 0.02 / 1e9).abs() < 1e-12);
        assert!((head.bytes - expected.bytes() as f64 / 10.0).abs() < 1e-6);
    }

    #[test]
    fn the_middle_round_is_taken_and_the_cold_one_is_not() {
        let round = |milliseconds| vec![("embed", Duration::from_millis(milliseconds))];
        let rounds = [1, 9, 5, 7].map(round).to_vec();
        assert_eq!(sum(&middle(rounds)), Duration::from_millis(7));
        assert_eq!(sum(&middle(vec![round(4)])), Duration::from_millis(4));
    }
}
