//! How many tokens to draft: as many as make the most tokens a second, by what steps cost and drafts were worth so far.
//!
//! A step over `M` tokens costs little more than one over a single token while the weights are what takes time, and the more the
//! wider it is. The chance that draft `i` is right, given that those before it were, is counted for each place. With both, the
//! tokens a second of every depth follow, and the best depth is taken; it is 0 where drafting does not pay. Then it rests for a
//! while, longer each time, and tries again: text changes. Where steps are so cheap that drafting would not pay if every draft
//! were right, no text can change that, and it rests for the longest time at once; a single step looks at the costs again.
//!
//! Steps over one token are what all of this is measured against, so there are some before the first draft, and one now and
//! then while drafting goes on.
//!
//! Times come from the clock, so depths differ from run to run. The text does not: it is the same at every depth.

use std::time::Duration;

/// Tokens drafted at most: a step over eight tokens is as wide as one run over the head's weights serves.
pub const DEEPEST: usize = 7;

/// What a step over 1, 2, ... tokens costs in steps over one, until it has been measured: E2B-sized on two CPU cores.
const PRIOR_COST: [f64; DEEPEST + 1] = [1.0, 1.08, 1.17, 1.36, 1.55, 1.79, 1.98, 2.12];
/// What a draft costs in steps over one token, until it has been measured.
const PRIOR_DRAFT: f64 = 0.06;
/// How often a draft is right, until it has been seen.
const PRIOR_ACCEPTANCE: f64 = 0.6;
/// Share of a new observation in an average.
const NEW: f64 = 0.125;
/// An observation counts as this many times the average at most: the machine does other things too.
const OUTLIER: f64 = 3.0;
/// Tokens without drafts after drafting stopped paying, at first and at most.
const REST: usize = 32;
const LONGEST_REST: usize = 512;
/// Steps with drafts after a rest, whatever they seem to be worth.
const TRIALS: usize = 2;
/// Their depth, at least.
const TRIAL_DEPTH: usize = 2;
/// Steps over one token before the first draft: the first step behind a prompt is slower than others.
const PLAIN_FIRST: usize = 3;
/// Steps with drafts between two over one token.
const PLAIN_EVERY: usize = 64;

/// An average that follows what it averages. It begins with the least of a few: what comes between makes a time longer, and
/// never shorter.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    value: f64,
    count: usize,
}

impl Average {
    fn add(&mut self, value: f64) {
        self.count += 1;
        match self.count {
            1 => self.value = value,
            2..=PLAIN_FIRST => self.value = self.value.min(value),
            _ => self.value += NEW * (value.min(OUTLIER * self.value) - self.value),
        }
    }

    fn get(&self) -> Option<f64> {
        (self.count > 0).then_some(self.value)
    }
}

/// What steps cost, whoever drafted for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    /// Seconds of a step over `index + 1` tokens.
    steps: [Average; DEEPEST + 1],
    /// Seconds of a step over one token, from wider ones, until one has been measured.
    unit: Average,
    /// How much steeper costs rise with the width than [`PRIOR_COST`]: one wide step says what the others are like.
    slope: Average,
    /// Steps with drafts since the last one over one token.
    since_plain: usize,
}

impl Costs {
    /// Takes note of a step over `width` tokens.
    pub fn add(&mut self, width: usize, time: Duration) {
        let Some(prior) = width.checked_sub(1).and_then(|index| PRIOR_COST.get(index)) else { return };
        let seconds = time.as_secs_f64();
        self.steps[width - 1].add(seconds);
        self.since_plain = if width == 1 { 0 } else { self.since_plain + 1 };
        match self.steps[0].get() {
            Some(unit) if width > 1 => self.slope.add(((seconds / unit - 1.0) / (prior - 1.0)).max(0.1)),
            Some(_) => {}
            None => self.unit.add(seconds / prior),
        }
    }

    /// Whether a step over one token has to be measured before the next draft.
    fn wants_plain(&self) -> bool {
        self.steps[0].count < PLAIN_FIRST || self.since_plain >= PLAIN_EVERY
    }

    /// A step over one token, where one was measured.
    pub fn plain(&self) -> Duration {
        self.steps[0].get().map_or(Duration::ZERO, Duration::from_secs_f64)
    }

    /// Seconds of a step over one token.
    fn unit(&self) -> f64 {
        self.steps[0].get().or(self.unit.get()).unwrap_or(1.0)
    }

    fn step(&self, width: usize) -> f64 {
        let rise = self.slope.get().unwrap_or(1.0) * (PRIOR_COST[width - 1] - 1.0);
        self.steps[width - 1].get().unwrap_or(self.unit() * (1.0 + rise))
    }
}

/// What the drafts of one source were worth.
#[derive(Clone, Debug)]
pub(super) struct Worth {
    /// Chance that the draft at a place is right, given that those before it were.
    acceptance: [f64; DEEPEST],
    /// Seconds of a draft.
    cost: Average,
    /// Tokens still to go without drafts.
    resting: usize,
    rest: usize,
    /// Steps still to go with drafts.
    trials: usize,
    /// It has not drafted since it rested.
    fresh: bool,
}

impl Worth {
    /// Of a source that has not drafted yet.
    pub fn new() -> Worth {
        let acceptance = [PRIOR_ACCEPTANCE; DEEPEST];
        Worth { acceptance, cost: Average::default(), resting: 0, rest: REST, trials: TRIALS, fresh: true }
    }

    /// Takes note of how long `count` drafts took.
    pub fn drafted(&mut self, count: usize, time: Duration) {
        if count > 0 {
            self.cost.add(time.as_secs_f64() / count as f64);
        }
    }

    /// Takes note of how many of some drafts were right.
    pub fn verified(&mut self, drafted: usize, accepted: usize) {
        for (place, chance) in self.acceptance.iter_mut().enumerate().take(drafted.min(accepted + 1)) {
            let right = if place < accepted { 1.0 } else { 0.0 };
            *chance += NEW * (right - *chance);
        }
    }

    /// Takes note of tokens that were picked, however.
    pub fn went_on(&mut self, tokens: usize) {
        self.resting = self.resting.saturating_sub(tokens);
    }

    /// Tokens to go before drafts are tried again.
    pub fn resting(&self) -> usize {
        self.resting
    }

    /// The depth that makes the most tokens a second, at most `most`; with those tokens a second. 0 begins a rest.
    pub fn depth(&mut self, costs: &Costs, most: usize) -> (usize, f64) {
        if self.resting > 0 || most == 0 || costs.wants_plain() {
            return (0, 0.0);
        }
        let most = most.min(DEEPEST);
        let (depth, rate) = self.best(costs, most, &self.acceptance);
        let hopeless = self.cost.get().is_some() && self.best(costs, most, &[1.0; DEEPEST]).0 == 0;
        if self.trials > 0 && (self.fresh || !hopeless) {
            self.trials -= 1;
            self.fresh = false;
            return (depth.max(TRIAL_DEPTH.min(most)), rate);
        }
        if depth == 0 {
            if hopeless {
                self.rest = LONGEST_REST;
            }
            self.resting = self.rest;
            self.rest = (2 * self.rest).min(LONGEST_REST);
            self.trials = TRIALS;
            self.fresh = true;
        } else {
            self.rest = REST;
        }
        (depth, rate)
    }

    /// The best depth where drafts are right as often as said, and its tokens a second.
    fn best(&self, costs: &Costs, most: usize, acceptance: &[f64; DEEPEST]) -> (usize, f64) {
        let draft = self.cost.get().unwrap_or(PRIOR_DRAFT * costs.unit());
        let mut best = (0, 1.0 / costs.step(1));
        let (mut tokens, mut reached) = (1.0, 1.0);
        for depth in 1..=most {
            reached *= acceptance[depth - 1];
            tokens += reached;
            let rate = tokens / (costs.step(depth + 1) + draft * depth as f64);
            if rate > best.1 {
                best = (depth, rate);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step over one token takes a second.
    fn costs(of: impl Fn(usize) -> f64) -> Costs {
        let mut costs = Costs::default();
        for width in (1..=DEEPEST + 1).chain([1; PLAIN_FIRST]) {
            costs.add(width, Duration::from_secs_f64(of(width)));
        }
        costs
    }

    /// What became of some tokens whose steps, drafts and chances are these; a clock that is counted and not read.
    #[derive(Debug, Default)]
    struct Simulated {
        seconds: f64,
        tokens: usize,
        /// Steps with drafts, in the order of the tokens before them.
        drafted: Vec<usize>,
    }

    fn simulate(tokens: usize, step: impl Fn(usize) -> f64, draft: f64, chance: f64) -> Simulated {
        let (mut costs, mut worth, mut done) = (Costs::default(), Worth::new(), Simulated::default());
        let mut random = 1u64;
        let mut is_right = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((random >> 40) as f64) < chance * f64::from(1 << 24)
        };
        while done.tokens < tokens {
            let depth = worth.depth(&costs, DEEPEST).0;
            if depth > 0 {
                worth.drafted(depth, Duration::from_secs_f64(draft * depth as f64));
                done.drafted.push(done.tokens);
            }
            let accepted = (0..depth).take_while(|_| is_right()).count();
            costs.add(depth + 1, Duration::from_secs_f64(step(depth + 1)));
            worth.verified(depth, accepted);
            worth.went_on(accepted + 1);
            done.seconds += step(depth + 1) + draft * depth as f64;
            done.tokens += accepted + 1;
        }
        done
    }

    /// Steps so cheap that no draft can pay: that is known behind the first one, and costs next to nothing from then on,
    /// however right the drafts are.
    #[test]
    fn where_steps_are_too_cheap_drafting_ends_with_the_first_draft() {
        for chance in [0.0, 0.7, 1.0] {
            let done = simulate(5000, |width| 1.0 + 0.5 * (width - 1) as f64, 0.8, chance);
            assert_eq!(done.drafted.iter().filter(|&&at| at < LONGEST_REST).count(), 1, "{:?}", done.drafted);
            assert!(done.drafted.len() <= 1 + 5000 / LONGEST_REST, "{:?}", done.drafted);
            let without = done.tokens as f64;
            assert!(done.seconds < 1.01 * without, "{chance}: {} instead of {without}", done.seconds);
        }
    }

    /// Where it pays it goes on, at no more than a step in 64 without drafts.
    #[test]
    fn where_drafts_pay_they_go_on() {
        let step = |width: usize| PRIOR_COST[width - 1];
        let done = simulate(5000, step, PRIOR_DRAFT, 0.8);
        let without = done.tokens as f64;
        assert!(done.seconds < 0.6 * without, "{} instead of {without}", done.seconds);
        // A first step that is ten times as slow as the others does not make drafts look better for long.
        let slow = std::cell::Cell::new(true);
        let cheap = |width: usize| if slow.replace(false) { 10.0 } else { 1.0 + 0.5 * (width - 1) as f64 };
        let done = simulate(5000, cheap, 0.8, 0.7);
        assert!(done.seconds < 9.0 + 1.05 * done.tokens as f64, "{} for {}", done.seconds, done.tokens);
    }

    fn worth(right: usize, drafted: usize) -> Worth {
        let mut worth = Worth { trials: 0, ..Worth::new() };
        for _ in 0..100 {
            worth.verified(drafted, right);
        }
        worth.drafted(1, Duration::from_millis(50));
        worth
    }

    #[test]
    fn drafts_that_are_always_right_go_deep_and_wrong_ones_end() {
        let cheap = costs(|width| PRIOR_COST[width - 1]);
        assert_eq!(worth(7, 7).depth(&cheap, 7).0, 7);
        assert_eq!(worth(7, 7).depth(&cheap, 3).0, 3, "no more than can be used");
        assert_eq!(worth(2, 7).depth(&cheap, 7).0, 2);
        assert_eq!(worth(0, 7).depth(&cheap, 7).0, 0);
        let dear = costs(|width| width as f64);
        assert_eq!(worth(7, 7).depth(&dear, 7).0, 0, "a step that costs as much as its tokens gains nothing");
    }

    #[test]
    fn a_source_that_does_not_pay_rests_longer_each_time() {
        let cheap = costs(|width| PRIOR_COST[width - 1]);
        let mut worth = worth(0, 7);
        let mut rests = Vec::new();
        for _ in 0..7 {
            assert_eq!(worth.depth(&cheap, 7).0, 0);
            rests.push(worth.resting());
            assert_eq!(worth.depth(&cheap, 7), (0, 0.0), "resting");
            worth.went_on(worth.resting());
            for _ in 0..TRIALS {
                assert_eq!(worth.depth(&cheap, 7).0, TRIAL_DEPTH);
                worth.verified(TRIAL_DEPTH, 0);
            }
        }
        assert_eq!(rests, [32, 64, 128, 256, 512, 512, 512]);
        for _ in 0..20 {
            worth.verified(7, 7);
        }
        assert!(worth.depth(&cheap, 7).0 > 0);
        assert_eq!(worth.rest, REST);
    }

    #[test]
    fn one_wide_step_tells_what_the_other_widths_cost() {
        let mut costs = Costs::default();
        costs.add(1, Duration::from_secs(1));
        costs.add(8, Duration::from_secs(8));
        assert!(costs.step(4) > 3.0 && costs.step(4) < 4.0, "{}", costs.step(4));
    }

    #[test]
    fn one_slow_step_does_not_change_the_picture() {
        let mut costs = costs(|width| PRIOR_COST[width - 1]);
        costs.add(1, Duration::from_secs(1000));
        assert!(costs.step(1) < 1.3);
        assert_eq!(Costs::default().step(2), PRIOR_COST[1], "unmeasured costs are the prior's");
    }
}
