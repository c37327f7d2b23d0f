//! Synthetic weights keep activations in range: int8 codes use their range and do not saturate, and answers vary.

mod common;

use std::collections::BTreeMap;

use common::open;
use rawloop_convert::{SynthOptions, synth};
use rawloop_ref::{KvCache, KvFormat, Model, greedy};
use rawloop_spec::{Program, TapSink, TapValue};

#[derive(Default)]
struct Codes {
    count: f64,
    square: f64,
    saturated: f64,
}

/// Codes by name and stage, and the mean square of the residual stream.
#[derive(Default)]
struct Statistics {
    codes: BTreeMap<(&'static str, usize), Codes>,
    hidden: Vec<f64>,
}

impl TapSink for Statistics {
    fn tap(&mut self, stage: usize, _: usize, name: &'static str, value: TapValue) {
        match value {
            TapValue::Codes(codes) => {
                let entry = self.codes.entry((name, stage)).or_default();
                for &code in codes {
                    entry.count += 1.0;
                    entry.square += f64::from(code).powi(2);
                    entry.saturated += f64::from(code == 127 || code == -128);
                }
            }
            TapValue::Floats(values) if name == "hidden" => {
                let square: f64 = values.iter().map(|&value| f64::from(value).powi(2)).sum();
                self.hidden.push((square / values.len() as f64).sqrt());
            }
            _ => {}
        }
    }
}

#[test]
fn activations_stay_in_range_and_answers_vary() {
    let folder = tempfile::tempdir().unwrap();
    for preset in ["tiny", "tiny-e4b", "narrow-e2b"] {
        let path = folder.path().join(format!("{preset}.rlp"));
        synth(&SynthOptions::pack(preset, path.clone()), &mut ()).unwrap();
        let model = Model::load(&open(&path)).unwrap();
        let prompt: Vec<u32> = (0..24).map(|i| 500 + 13 * i).collect();

        let mut statistics = Statistics::default();
        let mut cache = KvCache::new(&model.geometry, KvFormat::F16);
        for &token in &prompt {
            model.forward(&mut cache, token, &mut statistics).unwrap();
        }
        let stages = Program::full(&model.geometry).stages.len();
        assert!(statistics.codes.keys().any(|&(_, stage)| stage > stages - 6), "the last layer was seen");
        for ((name, stage), codes) in &statistics.codes {
            let deviation = (codes.square / codes.count).sqrt();
            let saturated = codes.saturated / codes.count;
            assert!((8.0..55.0).contains(&deviation), "{preset} stage {stage} {name}: deviation {deviation}");
            assert!(saturated < 0.015, "{preset} stage {stage} {name}: {saturated} saturated");
        }
        for rms in statistics.hidden {
            assert!((0.4..3.0).contains(&rms), "{preset}: residual stream of {rms}");
        }

        let answer = greedy(&model, KvFormat::F16, &prompt, 32, &[], |_| true).unwrap().ids;
        let mut different = answer.clone();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 8, "{preset}: {answer:?}");
    }
}
