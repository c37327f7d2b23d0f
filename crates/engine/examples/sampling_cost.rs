//! What one pick from a Gemma vocabulary costs: `cargo run --release -p rawloop-engine --example sampling_cost`.

use std::time::Instant;

use rawloop_engine::sample::{LogProbabilities, Sampler, SamplingOptions};

const VOCAB: usize = 262_144;

fn main() {
    // Bell-shaped logits, as a model's are.
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 16_777_216.0
    };
    let mut logits: Vec<f32> =
        (0..VOCAB).map(|_| (uniform() + uniform() + uniform() + uniform() - 2.0) * 12.0 - 4.0).collect();
    let model = SamplingOptions { temperature: 1.0, top_k: 64, top_p: 0.95, ..SamplingOptions::greedy() };
    let cases = [
        ("top-k 64, top-p 0.95", model.clone()),
        ("the same with penalties", SamplingOptions { repetition: 1.1, frequency: 0.2, ..model.clone() }),
        ("no top-k: all that can change a sum is sorted", SamplingOptions { top_k: 0, ..model.clone() }),
        ("top-k 64 and log-probabilities", SamplingOptions { log_probabilities: Some(5), ..model }),
    ];
    let prompt: Vec<u32> = (0..2000).map(|i| i * 97 % VOCAB as u32).collect();
    for (name, options) in cases {
        let mut sampler = Sampler::new(options, VOCAB, Some(30.0)).expect("the options are in range");
        sampler.begin(&prompt);
        let mut report = LogProbabilities::default();
        let mut times = Vec::new();
        for position in 2000..2050 {
            let start = Instant::now();
            let id = sampler.pick(&mut logits, position, None).expect("there are candidates");
            sampler.report(&logits, id, &mut report);
            times.push(start.elapsed());
            sampler.accept(id);
        }
        times.sort();
        println!("{name}: {:.0} us (median of {})", times[25].as_secs_f64() * 1e6, times.len());
    }
}
