//! Prefill: tokens per second of a whole prompt to its first token, and the share of what the multipliers could do.
//!
//! The prompt's tokens but the last run the prefill program, the last one the full program. The rate is over all of it; the
//! peak share is of the prefill program alone, since one token more is bound by memory.

use rawloop_engine::backend::{Backend, Wanted};
use serde::Serialize;

use super::runner::Runner;
use super::stats::median;
use crate::exit::Failure;

/// Operations of one measurement of a peak: half of the prompt's own, within these.
const FEWEST: u64 = 1 << 24;
const MOST: u64 = 1 << 36;

/// What prefill of one length was measured to be.
#[derive(Debug, Serialize)]
pub struct Prefill {
    /// Tokens per second, first token included.
    pub tok_s: f64,
    /// Milliseconds from the prompt to the first token.
    pub first_token_ms: f64,
    /// Time in which registers alone would have done it over the time it took; none where the kernels' peak is not known or
    /// the prompt is one token.
    pub peak_share: Option<f64>,
    /// Products of codes in the prefill program.
    pub int8_macs: u64,
    /// Products of floats in it.
    pub f32_fmas: u64,
    /// Bytes it reads: weights once a step, keys and values once a token that sees them.
    pub bytes: u64,
    /// Peak of the first kind, in 10^9 a second.
    pub peak_int8_g_s: Option<f64>,
    /// Peak of the second kind.
    pub peak_f32_g_s: Option<f64>,
    /// Tokens per second of the first round.
    pub cold_tok_s: f64,
    /// Tokens per second of each round that counts.
    pub rounds: Vec<f64>,
}

/// One round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Seconds of all tokens but the last.
    pub silent: f64,
    /// Seconds of the last.
    pub last: f64,
    /// Products of codes and of floats a second, around the round.
    pub peak: Option<Peak>,
}

/// What registers alone do in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Products of codes.
    pub int8: f64,
    /// Products of floats.
    pub f32: f64,
}

impl Peak {
    /// The share of this that so many products in so many seconds are.
    pub fn share(self, int8_macs: u64, f32_fmas: u64, seconds: f64) -> f64 {
        self.seconds(int8_macs, f32_fmas) / seconds
    }

    /// Seconds of so many products in registers alone.
    pub fn seconds(self, int8_macs: u64, f32_fmas: u64) -> f64 {
        int8_macs as f64 / self.int8 + f32_fmas as f64 / self.f32
    }

    fn between(self, other: Peak) -> Peak {
        Peak { int8: (self.int8 + other.int8) / 2.0, f32: (self.f32 + other.f32) / 2.0 }
    }
}

/// One cold round and `rounds` more.
pub fn measure(runner: &mut Runner, length: usize, rounds: usize) -> Result<Prefill, Failure> {
    let total = runner.prefill_cost(0, length - 1).total();
    let mut all = Vec::new();
    for _ in 0..=rounds {
        let before = peak(runner, total.int8_macs, total.f32_fmas);
        let round = round(runner, length)?;
        let after = peak(runner, total.int8_macs, total.f32_fmas);
        let between = before.zip(after).map(|(before, after)| before.between(after));
        all.push(Round { peak: between, ..round });
        runner.next("prefill");
    }
    Ok(summary(length, (total.int8_macs, total.f32_fmas, total.bytes()), &all))
}

/// One round without peaks: a fresh sequence, the whole prompt.
pub fn round(runner: &mut Runner, length: usize) -> Result<Round, Failure> {
    let ids = runner.ids(length);
    let sequence = runner.backend.create()?;
    let (before, last) = ids.split_at(length - 1);
    let silent = runner.prefill(sequence, before);
    let seconds = silent.and_then(|silent| Ok((silent, runner.step(sequence, last, Wanted::LastPick)?)));
    runner.backend.free(sequence);
    let (silent, last) = seconds?;
    Ok(Round { silent, last, peak: None })
}

/// What registers alone do now, measured for as long as half of so many products would take.
pub fn peak(runner: &mut Runner, int8_macs: u64, f32_fmas: u64) -> Option<Peak> {
    if int8_macs == 0 {
        return None;
    }
    let int8 = runner.backend.int8_macs_per_second((int8_macs / 2).clamp(FEWEST, MOST))?;
    let f32 = runner.backend.f32_fmas_per_second((f32_fmas / 2).clamp(FEWEST, MOST))?;
    Some(Peak { int8, f32 })
}

fn summary(length: usize, (int8_macs, f32_fmas, bytes): (u64, u64, u64), rounds: &[Round]) -> Prefill {
    let rate = |round: &Round| length as f64 / (round.silent + round.last);
    let warm = &rounds[1.min(rounds.len())..];
    let peaks: Vec<(Peak, f64)> = warm.iter().filter_map(|round| Some((round.peak?, round.silent))).collect();
    let of_peaks =
        |of: &dyn Fn(&(Peak, f64)) -> f64| (!peaks.is_empty()).then(|| median(peaks.iter().map(of)));
    Prefill {
        tok_s: median(warm.iter().map(rate)),
        first_token_ms: median(warm.iter().map(|round| (round.silent + round.last) * 1e3)),
        peak_share: of_peaks(&|(peak, seconds)| peak.share(int8_macs, f32_fmas, *seconds)),
        int8_macs,
        f32_fmas,
        bytes,
        peak_int8_g_s: of_peaks(&|(peak, _)| peak.int8 / 1e9),
        peak_f32_g_s: of_peaks(&|(peak, _)| peak.f32 / 1e9),
        cold_tok_s: rounds.first().map_or(f64::NAN, rate),
        rounds: warm.iter().map(rate).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_share_is_ideal_time_over_time() {
        let peak = Peak { int8: 100.0, f32: 10.0 };
        // 3 s of codes and 1 s of floats in 8 s.
        assert_eq!(peak.share(300, 10, 8.0), 0.5);
        assert_eq!(peak.between(Peak { int8: 300.0, f32: 30.0 }), Peak { int8: 200.0, f32: 20.0 });
    }

    #[test]
    fn rounds_are_summed_up_by_medians() {
        let peak = Some(Peak { int8: 100.0, f32: 10.0 });
        let round = |silent, last| Round { silent, last, peak };
        let rounds = [round(1000.0, 0.0), round(8.0, 2.0), round(4.0, 1.0), round(16.0, 4.0)];
        let prefill = summary(10, (300, 10, 7), &rounds);
        assert_eq!((prefill.tok_s, prefill.first_token_ms), (1.0, 10_000.0));
        assert_eq!(prefill.rounds, [1.0, 2.0, 0.5]);
        assert_eq!(prefill.cold_tok_s, 0.01);
        assert_eq!(prefill.peak_share, Some(0.5));
        let unknown = summary(10, (300, 10, 7), &rounds.map(|round| Round { peak: None, ..round }));
        assert_eq!((unknown.peak_share, unknown.peak_int8_g_s), (None, None));
    }
}
