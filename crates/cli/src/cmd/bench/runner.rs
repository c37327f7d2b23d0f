//! What every measurement is made of: steps of the backend by the clock on the wall, and plain reads between them.
//!
//! Time is the wall's, because that is what a user waits; what neighbours on the machine take away is dealt with by taking
//! turns and by medians, never by leaving it out.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rawloop_cpu::{Cost, CpuBackend, KvFormat};
use rawloop_engine::backend::{Backend, SequenceId, StepOutput, Wanted, Work};
use rawloop_spec::Geometry;

use crate::exit::Failure;

/// Tokens of a turn, and reads of the turn beside it, at most.
const TURN: usize = 8;
/// Turns of a round at least.
const TURNS: usize = 5;
/// The token ids follow from it.
pub const SEED: u64 = 1;

/// A backend under measurement.
pub struct Runner<'a> {
    /// The backend.
    pub backend: CpuBackend,
    /// Shape of the model.
    pub geometry: &'a Geometry,
    /// Storage of K/V.
    pub kv: KvFormat,
    /// Prompt tokens of a step.
    pub chunk: usize,
    /// Where progress is shown.
    pub bar: ProgressBar,
    cancel: &'a AtomicBool,
    output: StepOutput,
}

/// Some tokens, then as many plain reads.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// Seconds of each token.
    pub seconds: Vec<f64>,
    /// Bytes of weights that the tokens read.
    pub weight_bytes: u64,
    /// Bytes of K/V that the tokens read.
    pub kv_bytes: u64,
    /// Seconds and bytes of the plain reads; 0 where there were none.
    pub read: (f64, u64),
}

impl Turn {
    /// Bytes per second while decoding.
    pub fn rate(&self) -> f64 {
        (self.weight_bytes + self.kv_bytes) as f64 / self.seconds.iter().sum::<f64>()
    }

    /// Bytes per second of the plain reads.
    pub fn read_rate(&self) -> f64 {
        self.read.1 as f64 / self.read.0
    }

    /// How close decode came to the plain reads beside it.
    pub fn share(&self) -> f64 {
        self.rate() / self.read_rate()
    }
}

/// Token ids by a fixed rule; the first of a long prompt are a short one.
pub fn ids(count: usize, vocab: usize) -> Vec<u32> {
    let mut state = SEED;
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    };
    (0..count).map(|_| (next() % vocab.max(1) as u64) as u32).collect()
}

/// Time since the first call.
pub fn wall() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

impl<'a> Runner<'a> {
    /// Makes a runner.
    pub fn new(
        backend: CpuBackend,
        geometry: &'a Geometry,
        kv: KvFormat,
        chunk: usize,
        bar: ProgressBar,
        cancel: &'a AtomicBool,
    ) -> Runner<'a> {
        Runner { backend, geometry, kv, chunk, bar, cancel, output: StepOutput::default() }
    }

    /// One more thing is done; the next one begins.
    pub fn next(&self, what: &str) {
        self.bar.inc(1);
        self.bar.set_message(what.to_owned());
    }

    /// Token ids of the vocabulary.
    pub fn ids(&self, count: usize) -> Vec<u32> {
        ids(count, self.geometry.vocab)
    }

    /// One step; seconds.
    pub fn step(&mut self, sequence: SequenceId, tokens: &[u32], wanted: Wanted) -> Result<f64, Failure> {
        if self.cancel.load(Ordering::SeqCst) {
            return Err(Failure::interrupted());
        }
        let start = Instant::now();
        self.backend.step(&[Work { sequence, tokens, wanted }], &mut self.output)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Appends tokens whose outputs nobody wants; seconds.
    pub fn prefill(&mut self, sequence: SequenceId, tokens: &[u32]) -> Result<f64, Failure> {
        let mut seconds = 0.0;
        for chunk in tokens.chunks(self.chunk) {
            seconds += self.step(sequence, chunk, Wanted::Nothing)?;
        }
        Ok(seconds)
    }

    /// What [`Runner::prefill`] costs for tokens at `first..last`.
    pub fn prefill_cost(&self, first: usize, last: usize) -> Cost {
        let mut cost = Cost::default();
        for start in (first..last).step_by(self.chunk) {
            cost += Cost::prefill(self.geometry, self.kv, start..(start + self.chunk).min(last));
        }
        cost
    }

    /// Appends a token; the greedy one behind it, and seconds.
    pub fn pick(&mut self, sequence: SequenceId, token: u32) -> Result<(u32, f64), Failure> {
        let seconds = self.step(sequence, &[token], Wanted::LastPick)?;
        Ok((self.output.picks[0], seconds))
    }

    /// A new sequence with a prompt of `length` tokens, of which the last is handed back: it is the next to append.
    pub fn prompt(&mut self, length: usize) -> Result<(SequenceId, u32), Failure> {
        let ids = self.ids(length.max(1));
        let sequence = self.backend.create()?;
        let (last, before) = ids.split_last().unwrap_or((&0, &[]));
        self.prefill(sequence, before)?;
        Ok((sequence, *last))
    }

    /// Decodes `tokens` tokens from `token` on, in turns with plain reads where they are wanted.
    pub fn decode(
        &mut self,
        sequence: SequenceId,
        mut token: u32,
        tokens: usize,
        reads: bool,
    ) -> Result<Vec<Turn>, Failure> {
        let width = (tokens / TURNS).clamp(1, TURN);
        let mut turns = Vec::new();
        let mut left = tokens;
        while left > 0 {
            let count = width.min(left);
            left -= count;
            let mut turn = Turn::default();
            let before = self.backend.counters();
            for _ in 0..count {
                let (next, seconds) = self.pick(sequence, token)?;
                token = next;
                turn.seconds.push(seconds);
            }
            let after = self.backend.counters();
            turn.weight_bytes = after.weight_bytes - before.weight_bytes;
            turn.kv_bytes = after.kv_bytes - before.kv_bytes;
            if reads {
                let start = Instant::now();
                for _ in 0..count {
                    turn.read.1 += self.backend.read_weights();
                }
                turn.read.0 = start.elapsed().as_secs_f64();
            }
            turns.push(turn);
        }
        Ok(turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_every_time_and_inside_the_vocabulary() {
        let long = ids(1000, 4096);
        assert_eq!(long[..10], ids(10, 4096));
        assert!(long.iter().all(|&id| id < 4096));
        let distinct: std::collections::BTreeSet<u32> = long.iter().copied().collect();
        assert!(distinct.len() > 800);
    }

    #[test]
    fn a_share_is_a_ratio_of_bytes_a_second() {
        let turn = Turn { seconds: vec![1.0, 3.0], weight_bytes: 700, kv_bytes: 100, read: (2.0, 800) };
        assert_eq!((turn.rate(), turn.read_rate(), turn.share()), (200.0, 400.0, 0.5));
    }
}
