//! Steps 5 to 11: from ordered candidates to one of them.

use rawloop_spec::contract;

use super::SamplingOptions;
use super::select::value_in;

/// A candidate on its way through the filters.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: u32,
    /// `x - x_first`, never positive.
    gap: f32,
    /// `exp(gap)`.
    weight: f32,
    /// Distance from the expected surprise (typical only).
    distance: f32,
    /// Place in the order of step 4.
    place: u32,
}

/// The filters' buffers, reused from token to token.
#[derive(Debug, Default)]
pub(super) struct Filters {
    candidates: Vec<Candidate>,
}

impl Filters {
    /// Takes one of `keys`, which are in order and at least one.
    pub(super) fn draw(&mut self, keys: &[u64], options: &SamplingOptions, u: f32) -> u32 {
        self.weigh(keys, options.temperature);
        if options.top_p < 1.0 {
            self.keep_mass(options.top_p);
        }
        if options.min_p > 0.0 {
            // Weights never rise along the order.
            let kept = self.candidates.iter().take_while(|c| c.weight >= options.min_p).count();
            self.candidates.truncate(kept.max(1));
        }
        if options.typical < 1.0 {
            self.keep_typical(options.typical);
        }
        let threshold = u * self.sum();
        let mut running = 0f32;
        for candidate in &self.candidates {
            running += candidate.weight;
            if running > threshold {
                return candidate.id;
            }
        }
        self.candidates[self.candidates.len() - 1].id
    }

    /// Steps 5 and 7.
    fn weigh(&mut self, keys: &[u64], temperature: f32) {
        let first = value_in(keys[0]) / temperature;
        self.candidates.clear();
        self.candidates.extend(keys.iter().enumerate().map(|(place, &key)| {
            let gap = value_in(key) / temperature - first;
            let weight = contract::exp(gap);
            Candidate { id: key as u32, gap, weight, distance: 0.0, place: place as u32 }
        }));
    }

    fn sum(&self) -> f32 {
        self.candidates.iter().fold(0.0, |sum, c| sum + c.weight)
    }

    /// Keeps candidates, in their present order, until their weights reach a share of the sum of all.
    fn keep_mass(&mut self, share: f32) {
        let mass = share * self.sum();
        self.keep_until(mass);
    }

    fn keep_until(&mut self, mass: f32) {
        let mut before = 0f32;
        let mut kept = 0;
        while kept < self.candidates.len() && before < mass {
            before += self.candidates[kept].weight;
            kept += 1;
        }
        self.candidates.truncate(kept.max(1));
    }

    /// Step 10.
    fn keep_typical(&mut self, share: f32) {
        let sum = self.sum();
        let log_sum = libm::log(f64::from(sum)) as f32;
        let entropy =
            self.candidates.iter().fold(0f32, |entropy, c| entropy + c.weight / sum * (log_sum - c.gap));
        for candidate in &mut self.candidates {
            candidate.distance = (log_sum - candidate.gap - entropy).abs();
        }
        self.candidates
            .sort_unstable_by(|a, b| a.distance.total_cmp(&b.distance).then(a.place.cmp(&b.place)));
        self.keep_until(share * sum);
        self.candidates.sort_unstable_by_key(|candidate| candidate.place);
    }
}
