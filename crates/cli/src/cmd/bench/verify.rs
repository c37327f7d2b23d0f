//! Verification of drafts: what M tokens with a pick behind each cost in one step, in units of a step of one.
//!
//! Beside each cost stands its bound: no step of M tokens can be faster than one token (its weights come from memory), nor
//! than its multiply-adds in registers alone. The cost over the bound is what the kernels lose; the cost over M is what
//! speculation has to gain.

use rawloop_cpu::Cost;
use rawloop_engine::backend::{Backend, Wanted};
use serde::Serialize;

use super::decode::PROMPT;
use super::prefill;
use super::runner::Runner;
use super::stats::median;
use crate::exit::Failure;

/// Widths.
pub const WIDTHS: std::ops::RangeInclusive<usize> = 2..=8;
/// Pairs of one step and the other, for each width.
const PAIRS: usize = 8;

/// What one width costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verify {
    /// Steps of one token that take as long: the median of pairs.
    pub steps: f64,
    /// The least it could be: one step, or the time of its products in registers alone, in the same unit; none where the
    /// kernels' peak is not known.
    pub bound: Option<f64>,
    /// `steps / bound`.
    pub over_bound: Option<f64>,
}

impl Verify {
    fn new(steps: f64, products: Option<f64>) -> Verify {
        let bound = products.map(|products| products.max(1.0));
        Verify { steps, bound, over_bound: bound.map(|bound| steps / bound) }
    }
}

/// The median cost of each width.
pub fn measure(runner: &mut Runner) -> Result<Vec<(usize, Verify)>, Failure> {
    let (sequence, token) = runner.prompt(PROMPT)?;
    runner.pick(sequence, token)?;
    let mut costs = Vec::new();
    for width in WIDTHS {
        let ids = runner.ids(width);
        let cost = Cost::full(runner.geometry, runner.kv, PROMPT + 1..PROMPT + 1 + width).total();
        // The first pair warms up.
        let (mut ratios, mut products) = (Vec::new(), Vec::new());
        for pair in 0..=PAIRS {
            let one = picks(runner, sequence, &ids[..1])?;
            let many = picks(runner, sequence, &ids)?;
            if pair > 0 {
                ratios.push(many / one);
                let peak = prefill::peak(runner, cost.int8_macs, cost.f32_fmas);
                products.extend(peak.map(|peak| peak.seconds(cost.int8_macs, cost.f32_fmas) / one));
            }
        }
        let products = (!products.is_empty()).then(|| median(products));
        costs.push((width, Verify::new(median(ratios), products)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_faster_than_one_token_or_its_products() {
        let narrow = Verify::new(1.2, Some(0.5));
        assert_eq!((narrow.bound, narrow.over_bound), (Some(1.0), Some(1.2)));
        let wide = Verify::new(3.0, Some(2.0));
        assert_eq!((wide.bound, wide.over_bound), (Some(2.0), Some(1.5)));
        assert_eq!(Verify::new(3.0, None), Verify { steps: 3.0, bound: None, over_bound: None });
    }
}
