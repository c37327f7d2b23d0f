//! Decoding: tokens per second, latency, bytes, and the share of a plain read, behind a short prompt or any depth.

use rawloop_engine::backend::Backend;
use serde::Serialize;

use super::runner::{Runner, Turn};
use super::stats::{median, percentile};
use crate::exit::Failure;

/// Tokens in the cache before a decode round begins.
pub const PROMPT: usize = 128;
/// Tokens decoded at each depth at most.
pub const DEPTH_TOKENS: usize = 64;

/// What decoding was measured to be.
#[derive(Debug, Serialize)]
pub struct Decode {
    /// Tokens per second.
    pub tok_s: f64,
    /// Bytes that a token reads, counted by the kernels.
    pub bytes_per_token: f64,
    /// Of these, weights.
    pub weight_bytes_per_token: f64,
    /// Of these, keys and values.
    pub kv_bytes_per_token: f64,
    /// Bytes a second, in 10^9.
    pub gb_s: f64,
    /// Bytes a second of the plain reads in between.
    pub read_gb_s: f64,
    /// Median of the turns' shares.
    pub read_share: f64,
    /// How many turns that was.
    pub turns: usize,
    /// Milliseconds of a token: half of them take no longer.
    pub p50_ms: f64,
    /// Milliseconds of a token: 99 of 100 take no longer.
    pub p99_ms: f64,
    /// Tokens per second of the first round.
    pub cold_tok_s: f64,
    /// Tokens per second of each round that counts.
    pub rounds: Vec<f64>,
}

/// Decode behind a context.
#[derive(Debug, Serialize)]
pub struct Depth {
    /// Tokens in the cache.
    pub context: usize,
    /// Tokens per second.
    pub tok_s: f64,
    /// Bytes that a token reads.
    pub bytes_per_token: f64,
    /// Bytes a second, in 10^9.
    pub gb_s: f64,
    /// Bytes a second of the plain reads in between.
    pub read_gb_s: f64,
    /// Median of the turns' shares.
    pub read_share: f64,
}

/// One cold round and `rounds` more.
pub fn measure(runner: &mut Runner, tokens: usize, rounds: usize) -> Result<Decode, Failure> {
    let mut all = Vec::new();
    for _ in 0..=rounds {
        all.push(round(runner, tokens, true)?);
        runner.next("decode");
    }
    Ok(summary(&all))
}

/// One round: a fresh sequence, the prompt, then the tokens.
pub fn round(runner: &mut Runner, tokens: usize, reads: bool) -> Result<Vec<Turn>, Failure> {
    let (sequence, token) = runner.prompt(PROMPT)?;
    let turns = runner.decode(sequence, token, tokens, reads);
    runner.backend.free(sequence);
    turns
}

/// Tokens per second of one round.
pub fn tokens_per_second(turns: &[Turn]) -> f64 {
    let seconds = || turns.iter().flat_map(|turn| &turn.seconds);
    seconds().count() as f64 / seconds().sum::<f64>()
}

/// Rounds, the first of them cold.
fn summary(rounds: &[Vec<Turn>]) -> Decode {
    let (cold, warm) = rounds.split_first().map_or((&[][..], &[][..]), |(cold, warm)| (&cold[..], warm));
    let rates: Vec<f64> = warm.iter().map(|turns| tokens_per_second(turns)).collect();
    let turns: Vec<&Turn> = warm.iter().flatten().collect();
    let milliseconds = || turns.iter().flat_map(|turn| &turn.seconds).map(|seconds| seconds * 1e3);
    let count = milliseconds().count() as f64;
    let bytes = |of: fn(&Turn) -> u64| turns.iter().map(|turn| of(turn)).sum::<u64>() as f64 / count;
    let (weights, kv) = (bytes(|turn| turn.weight_bytes), bytes(|turn| turn.kv_bytes));
    let tok_s = median(rates.iter().copied());
    Decode {
        tok_s,
        bytes_per_token: weights + kv,
        weight_bytes_per_token: weights,
        kv_bytes_per_token: kv,
        gb_s: (weights + kv) * tok_s / 1e9,
        read_gb_s: median(turns.iter().map(|turn| turn.read_rate())) / 1e9,
        read_share: median(turns.iter().map(|turn| turn.share())),
        turns: turns.len(),
        p50_ms: percentile(milliseconds(), 50.0),
        p99_ms: percentile(milliseconds(), 99.0),
        cold_tok_s: tokens_per_second(cold),
        rounds: rates,
    }
}

/// Decode behind each of `contexts`. The cache grows by prefill from one to the next; each depth is measured on a fork of it.
pub fn depths(runner: &mut Runner, contexts: &[usize], tokens: usize) -> Result<Vec<Depth>, Failure> {
    let tokens = tokens.min(DEPTH_TOKENS);
    let deepest = contexts.iter().copied().max().unwrap_or(0);
    // The token behind the deepest context is one more.
    let ids = runner.ids(deepest + 1);
    let sequence = runner.backend.create()?;
    let mut order: Vec<usize> = contexts.to_vec();
    order.sort_unstable();
    order.dedup();
    let mut held = 0;
    let mut depths = Vec::new();
    for context in order {
        runner.prefill(sequence, &ids[held..context])?;
        held = context;
        let fork = runner.backend.fork(sequence)?;
        // One token ahead: the first behind a prefill finds other data in the caches.
        let (token, _) = runner.pick(fork, ids[context])?;
        let turns = runner.decode(fork, token, tokens, true);
        runner.backend.free(fork);
        let turns = turns?;
        let bytes: u64 = turns.iter().map(|turn| turn.weight_bytes + turn.kv_bytes).sum();
        let seconds: f64 = median(turns.iter().flat_map(|turn| turn.seconds.iter().copied()));
        let bytes = bytes as f64 / tokens as f64;
        depths.push(Depth {
            context,
            tok_s: 1.0 / seconds,
            bytes_per_token: bytes,
            gb_s: bytes / seconds / 1e9,
            read_gb_s: median(turns.iter().map(Turn::read_rate)) / 1e9,
            read_share: median(turns.iter().map(Turn::share)),
        });
        runner.next("decode behind a context");
    }
    runner.backend.free(sequence);
    Ok(depths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(seconds: &[f64], read_seconds: f64) -> Turn {
        let count = seconds.len() as u64;
        Turn {
            seconds: seconds.to_vec(),
            weight_bytes: 900 * count,
            kv_bytes: 100 * count,
            read: (read_seconds, 800 * count),
        }
    }

    #[test]
    fn the_cold_round_counts_nowhere_but_in_its_own_field() {
        let cold = vec![turn(&[100.0, 100.0], 100.0)];
        // 4 tokens in 2 s, in 1 s, in 4 s.
        let warm = [0.5, 0.25, 1.0].map(|each| vec![turn(&[each, each], each), turn(&[each, each], each)]);
        let rounds: Vec<Vec<Turn>> = std::iter::once(cold).chain(warm).collect();
        let decode = summary(&rounds);
        assert_eq!(decode.rounds, [2.0, 4.0, 1.0]);
        assert_eq!((decode.tok_s, decode.cold_tok_s, decode.turns), (2.0, 0.01, 6));
        assert_eq!((decode.bytes_per_token, decode.weight_bytes_per_token), (1000.0, 900.0));
        assert_eq!(decode.gb_s, 2000.0 / 1e9);
        // A turn of two tokens of `each` seconds decodes 1000 / each and reads 1600 / each bytes a second.
        assert_eq!(decode.read_share, 0.625);
        assert_eq!(decode.read_gb_s, 3200.0 / 1e9);
        assert_eq!((decode.p50_ms, decode.p99_ms), (500.0, 1000.0));
    }

    #[test]
    fn a_share_is_the_median_of_pairs_not_the_ratio_of_medians() {
        // Decode and read of a pair are slow together: each pair says 0.5, 0.5, 1.0.
        let rounds = vec![vec![], vec![turn(&[1.0], 0.4), turn(&[10.0], 4.0), turn(&[2.0], 1.6)]];
        let decode = summary(&rounds);
        assert_eq!(decode.read_share, 0.5);
    }
}
