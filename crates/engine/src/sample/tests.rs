//! The sampler against rule 13 written down plainly, and properties of its own.

use super::*;
use rawloop_spec::contract;

/// Splitmix64: test data without a dependency.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 16_777_216.0
    }
}

/// Rule 13 with every step on the whole vocabulary.
fn plainly(
    options: &SamplingOptions,
    cap: Option<f32>,
    logits: &[f32],
    prompt: &[u32],
    answer: &[u32],
    position: usize,
    mask: Option<Mask<'_>>,
) -> Option<u32> {
    let raw = options.temperature == 0.0 && options.bias.is_empty() && !options.has_penalties();
    let all: Vec<u32> = prompt.iter().chain(answer).copied().collect();
    let first =
        if options.penalty_window == 0 { 0 } else { all.len().saturating_sub(options.penalty_window) };
    let mut order: Vec<(f32, u32)> = Vec::new();
    for (id, &z) in logits.iter().enumerate() {
        let id = id as u32;
        let mut v = if raw { z } else { cap.map_or(z, |cap| contract::soft_cap(z, cap)) };
        v += options.bias.iter().rev().find(|b| b.0 == id).map_or(0.0, |b| b.1);
        let occurs = all[first..].contains(&id);
        let answered = all.iter().enumerate().filter(|&(i, &x)| x == id && i >= first && i >= prompt.len());
        let answered = answered.count();
        if occurs && options.repetition != 1.0 {
            v = if v > 0.0 { v / options.repetition } else { v * options.repetition };
        }
        if answered > 0 {
            v -= options.presence;
            v -= options.frequency * answered as f32;
        }
        let passage = (first..all.len()).filter(|&i| all[i] == id).map(|i| {
            let pairs = all[first..i].iter().rev().zip(all.iter().rev());
            pairs.take(64).take_while(|(a, b)| a == b && !options.dry_breakers.contains(a)).count()
        });
        let passage = passage.max().unwrap_or(0);
        if options.dry > 0.0 && passage >= options.dry_length as usize {
            let steps = options.dry_length as usize..passage;
            v -= steps.fold(options.dry, |penalty, _| penalty * options.dry_base).min(100.0);
        }
        let forbidden = options.suppress.contains(&id) || mask.is_some_and(|m| !m.allows(id));
        if !forbidden && !z.is_nan() && z != f32::NEG_INFINITY && !v.is_nan() {
            order.push((v, id));
        }
    }
    order.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then(a.1.cmp(&b.1)));
    if options.temperature == 0.0 {
        return order.first().map(|o| o.1);
    }
    if options.top_k > 0 {
        order.truncate(options.top_k as usize);
    }
    let best = order.first()?.0 / options.temperature;
    let mut kept: Vec<(f32, f32, u32)> = order
        .iter()
        .map(|&(v, id)| (contract::exp(v / options.temperature - best), v / options.temperature - best, id))
        .collect();
    let sum = |kept: &[(f32, f32, u32)]| kept.iter().fold(0f32, |s, k| s + k.0);
    let until = |kept: &[(f32, f32, u32)], mass: f32| {
        let mut before = 0f32;
        let mut n = 0;
        for k in kept {
            if before >= mass {
                break;
            }
            before += k.0;
            n += 1;
        }
        n.max(1)
    };
    if options.top_p < 1.0 {
        let n = until(&kept, options.top_p * sum(&kept));
        kept.truncate(n);
    }
    if options.min_p > 0.0 {
        let n = kept.iter().filter(|k| k.0 >= options.min_p).count();
        kept.truncate(n.max(1));
    }
    if options.typical < 1.0 {
        let s = sum(&kept);
        let l = libm::log(f64::from(s)) as f32;
        let entropy = kept.iter().fold(0f32, |h, k| h + k.0 / s * (l - k.1));
        let mut by: Vec<usize> = (0..kept.len()).collect();
        by.sort_by(|&a, &b| (l - kept[a].1 - entropy).abs().total_cmp(&(l - kept[b].1 - entropy).abs()));
        let sorted: Vec<_> = by.iter().map(|&i| kept[i]).collect();
        let mut stay = by[..until(&sorted, options.typical * s)].to_vec();
        stay.sort();
        kept = stay.iter().map(|&i| kept[i]).collect();
    }
    let threshold = uniform(options.seed, position as u64, 0) * sum(&kept);
    let mut running = 0f32;
    for k in &kept {
        running += k.0;
        if running > threshold {
            return Some(k.2);
        }
    }
    kept.last().map(|k| k.2)
}

fn random_logits(random: &mut Random, vocab: usize) -> Vec<f32> {
    let style = random.below(5);
    (0..vocab)
        .map(|_| {
            let wide = (random.unit() + random.unit() + random.unit() - 1.5) * 40.0;
            match style {
                // Many ties.
                0 => wide.round(),
                // Deep in the cap, where different logits become equal.
                1 => 150.0 + wide * 8.0,
                // An ulp apart.
                2 => f32::from_bits(20f32.to_bits() + random.below(64) as u32),
                // Hostile.
                3 => match random.below(12) {
                    0 => f32::NAN,
                    1 => f32::INFINITY,
                    2 => f32::NEG_INFINITY,
                    3 => -0.0,
                    4 => 0.0,
                    5 => f32::MAX,
                    _ => wide,
                },
                _ => wide,
            }
        })
        .collect()
}

fn random_options(random: &mut Random, vocab: usize) -> SamplingOptions {
    let mut options = SamplingOptions::greedy();
    options.seed = random.next();
    if random.below(6) > 0 {
        options.temperature = 0.05 + random.unit() * 3.0;
    }
    options.top_k = [0, 1, 2, 5, 40, 64, 10_000][random.below(7)];
    if random.below(2) == 0 {
        options.top_p = random.unit();
    }
    if random.below(3) == 0 {
        options.min_p = random.unit() * 0.3;
    }
    if random.below(3) == 0 {
        options.typical = random.unit();
    }
    if random.below(3) == 0 {
        options.repetition = 0.5 + random.unit() * 2.0;
    }
    if random.below(3) == 0 {
        options.presence = random.unit() * 2.0;
        options.frequency = random.unit();
    }
    if random.below(3) == 0 {
        options.dry = 0.1 + random.unit() * 3.0;
        options.dry_base = 1.0 + random.unit();
        options.dry_length = 1 + random.below(2) as u32;
        options.dry_breakers = vec![random.below(vocab) as u32];
    }
    options.penalty_window = [0, 0, 3, 9][random.below(4)];
    for _ in 0..[0, 0, 3, 40][random.below(4)] {
        options.bias.push((random.below(vocab) as u32, (random.unit() - 0.5) * 20.0));
    }
    for _ in 0..[0, 0, 0, 5][random.below(4)] {
        options.suppress.push(random.below(vocab) as u32);
    }
    options
}

#[test]
fn every_pick_is_the_one_of_the_plain_rule() {
    let mut random = Random(1);
    for case in 0..3000 {
        let vocab = [1, 7, 33, 300, 1500][random.below(5)];
        let options = random_options(&mut random, vocab);
        let cap = [None, Some(30.0), Some(30.0), Some(5.0)][random.below(4)];
        let few = 1 + random.below(vocab.min(4));
        let prompt: Vec<u32> = (0..random.below(12)).map(|_| random.below(few) as u32).collect();
        let words: Vec<u32> = (0..vocab.div_ceil(32)).map(|_| random.next() as u32).collect();
        let mask = (random.below(4) == 0).then_some(Mask(&words));
        let mut sampler = Sampler::new(options.clone(), vocab, cap).unwrap();
        sampler.begin(&prompt);
        let mut answer = Vec::new();
        for step in 0..4 {
            let mut logits = random_logits(&mut random, vocab);
            let before: Vec<u32> = logits.iter().map(|z| z.to_bits()).collect();
            let position = prompt.len() + step;
            let expected = plainly(&options, cap, &logits, &prompt, &answer, position, mask);
            let picked = sampler.pick(&mut logits, position, mask).ok();
            assert_eq!(picked, expected, "case {case} step {step} {options:?} cap {cap:?}");
            let after: Vec<u32> = logits.iter().map(|z| z.to_bits()).collect();
            assert!(before == after, "case {case}: the row was changed");
            let next = picked.unwrap_or(random.below(vocab) as u32);
            sampler.accept(next);
            answer.push(next);
        }
    }
}

#[test]
fn greedy_takes_the_lowest_id_among_equals_and_ignores_what_is_no_number() {
    let mut sampler = Sampler::new(SamplingOptions::greedy(), 5, Some(30.0)).unwrap();
    assert_eq!(sampler.pick(&mut [f32::NAN, 1.0, 7.0, 7.0, -1.0], 0, None), Ok(2));
    // Past the cap's saturation the raw logits still decide.
    assert_eq!(sampler.pick(&mut [500.0, 501.0, 0.0, 502.0, 0.0], 0, None), Ok(3));
    let none = sampler.pick(&mut [f32::NAN; 5], 3, None).unwrap_err();
    assert_eq!(none, SampleError::NoCandidate { position: 3, numbers: 0, vocab: 5 });
    assert!(matches!(sampler.pick(&mut [0.0; 4], 0, None), Err(SampleError::Width { found: 4, vocab: 5 })));
}

#[test]
fn draws_follow_the_distribution() {
    let options = SamplingOptions { temperature: 1.0, seed: 3, ..SamplingOptions::greedy() };
    let mut sampler = Sampler::new(options, 4, None).unwrap();
    let shares = [0.5f64, 0.3, 0.15, 0.05];
    let mut logits: Vec<f32> = shares.iter().map(|p| p.ln() as f32).collect();
    let draws = 20_000;
    let mut counts = [0f64; 4];
    for position in 0..draws {
        counts[sampler.pick(&mut logits, position, None).unwrap() as usize] += 1.0;
    }
    let chi: f64 =
        (0..4).map(|i| (counts[i] - shares[i] * draws as f64).powi(2) / (shares[i] * draws as f64)).sum();
    // 16.3 is exceeded once in a thousand seeds with three degrees of freedom.
    assert!(chi < 16.3, "{counts:?}");
}

#[test]
fn the_same_seed_and_position_draw_the_same_token() {
    let options = SamplingOptions { temperature: 1.0, seed: 9, ..SamplingOptions::greedy() };
    let mut logits = vec![0.0; 64];
    let run = |logits: &mut [f32], from: usize| -> Vec<u32> {
        let mut sampler = Sampler::new(options.clone(), 64, None).unwrap();
        (from..100).map(|position| sampler.pick(logits, position, None).unwrap()).collect()
    };
    let whole = run(&mut logits, 0);
    assert_eq!(whole[40..], run(&mut logits, 40), "a resumed sequence draws what a whole one draws");
    let distinct: std::collections::BTreeSet<_> = whole.iter().collect();
    assert!(distinct.len() > 30);
}

#[test]
fn log_probabilities_sum_to_one_and_ignore_the_filters() {
    let options = SamplingOptions {
        temperature: 0.7,
        top_k: 2,
        top_p: 0.3,
        suppress: vec![4],
        log_probabilities: Some(5),
        ..SamplingOptions::greedy()
    };
    let mut sampler = Sampler::new(options, 5, Some(30.0)).unwrap();
    let mut logits = [3.0, 3.0, 1.0, -2.0, 9.0];
    let picked = sampler.pick(&mut logits, 0, None).unwrap();
    let mut report = LogProbabilities::default();
    sampler.report(&logits, picked, &mut report);
    let ids: Vec<u32> = report.top.iter().map(|t| t.id).collect();
    assert_eq!(ids, [4, 0, 1, 2, 3]);
    assert!(report.top.contains(&report.picked));
    let total: f64 = report.top.iter().map(|t| f64::from(t.value).exp()).sum();
    assert!((total - 1.0).abs() < 1e-6, "{total}");
    let mut hostile = [f32::NAN, f32::NEG_INFINITY, 1.0, 1.0, 1.0];
    let picked = sampler.pick(&mut hostile, 0, None).unwrap();
    sampler.report(&hostile, picked, &mut report);
    assert!(report.top.iter().all(|t| t.value.is_finite()));
    sampler.report(&hostile, 0, &mut report);
    assert_eq!(report.picked.value, f32::MIN);
}
