//! Drafts: what the drafter takes for some tokens, in units of a step of one. With the costs of `verify.rs` and the tokens that
//! a verification gives (`rawloop run --stats`) this says what speculation is worth.

use rawloop_engine::backend::{Backend, Wanted};

use super::decode::PROMPT;
use super::runner::Runner;
use super::stats::median;
use crate::exit::Failure;

/// Tokens drafted.
pub const DEPTHS: [usize; 3] = [1, 3, 7];
/// Pairs of a step and the drafts behind it, for each depth.
const PAIRS: usize = 8;

/// The median cost of each depth; nothing where the model has no drafter.
pub fn measure(runner: &mut Runner) -> Result<Vec<(usize, f64)>, Failure> {
    if !runner.backend.info().has_drafter {
        return Ok(Vec::new());
    }
    let (sequence, token) = runner.prompt(PROMPT)?;
    let mut drafts = Vec::with_capacity(DEPTHS[DEPTHS.len() - 1]);
    let mut costs = Vec::new();
    for depth in DEPTHS {
        // The first pair warms up.
        let mut ratios = Vec::new();
        for pair in 0..=PAIRS {
            let position = runner.backend.position(sequence)?;
            let step = runner.step(sequence, &[token], Wanted::LastPick)?;
            let start = std::time::Instant::now();
            runner.backend.draft(sequence, token, depth, &mut drafts)?;
            if pair > 0 {
                ratios.push(start.elapsed().as_secs_f64() / step);
            }
            runner.backend.truncate(sequence, position)?;
        }
        costs.push((depth, median(ratios)));
    }
    runner.backend.free(sequence);
    runner.next("drafts");
    Ok(costs)
}
