//! Verification of drafts: what M tokens with a pick behind each cost in one step, in units of a step of one.

use rawloop_engine::backend::{Backend, Wanted};

use super::decode::PROMPT;
use super::runner::Runner;
use super::stats::median;
use crate::exit::Failure;

/// Widths.
pub const WIDTHS: std::ops::RangeInclusive<usize> = 2..=8;
/// Pairs of one step and the other, for each width.
const PAIRS: usize = 8;

/// The median cost of each width.
pub fn measure(runner: &mut Runner) -> Result<Vec<(usize, f64)>, Failure> {
    let (sequence, token) = runner.prompt(PROMPT)?;
    runner.pick(sequence, token)?;
    let mut costs = Vec::new();
    for width in WIDTHS {
        let ids = runner.ids(width);
        // The first pair warms up.
        let mut ratios = Vec::new();
        for pair in 0..=PAIRS {
            let one = picks(runner, sequence, &ids[..1])?;
            let many = picks(runner, sequence, &ids)?;
            if pair > 0 {
                ratios.push(many / one);
            }
        }
        costs.push((width, median(ratios)));
        runner.next("verification");
    }
    runner.backend.free(sequence);
    Ok(costs)
}

/// Seconds of a step that is then taken back.
fn picks(
    runner: &mut Runner,
    sequence: rawloop_engine::backend::SequenceId,
    ids: &[u32],
) -> Result<f64, Failure> {
    let position = runner.backend.position(sequence)?;
    let seconds = runner.step(sequence, ids, Wanted::Picks)?;
    runner.backend.truncate(sequence, position)?;
    Ok(seconds)
}
