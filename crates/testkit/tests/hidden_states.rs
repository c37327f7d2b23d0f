//! The reference against Transformers' hidden states, one layer at a time, on the trained tiny model and on synthetic ones.
//!
//! Every layer starts from Transformers' input, so that a code that falls to the other side of a rounding boundary in one
//! layer (float sums in another order) is not counted again in all layers behind it.

mod common;
#[path = "common/hidden.rs"]
mod hidden;

use std::path::{Path, PathBuf};

use common::{MODEL, goldens, sha256};
use hidden::{Tally, Tensors, compare_layers, relative};
use rawloop_convert::{ConvertOptions, SynthOptions, convert, synth};
use rawloop_pack::Pack;
use rawloop_ref::{KvFormat, Model, TokenState, greedy};
use rawloop_spec::tap::NoTap;
use rawloop_testkit::goldens::{Meta, check_hash, read, repository};

/// Positions that must agree.
const SHARE: f64 = 0.99;
/// The most that single flipped codes have been seen to move a row (0.032); a fault in few places moves it further.
const ONE_FLIP: f32 = 0.05;
/// Float sums in another order, in units of the largest value of a row.
const TOLERANCE: f32 = 1e-4;

fn check(name: &str, model: &Model, weights: &Path) {
    let folder = goldens(name);
    let path = folder.join("meta.json");
    let meta: Meta = read(&path).unwrap();
    check_hash(&path, &meta.checkpoint_sha256, &sha256(weights)).unwrap();
    check_hash(&path, &meta.config_sha256, &sha256(&weights.with_file_name("config.json"))).unwrap();
    let mut tally = Tally::default();
    for prompt in &meta.prompts {
        let tensors = Tensors::read(&folder, prompt);
        entry(model, &prompt.ids, &tensors);
        compare_layers(model, prompt, &tensors, TOLERANCE, &mut tally);
        exit(model, prompt.ids.len(), &prompt.logit_rows, &tensors);
    }
    println!(
        "{name}: {} of {} (layer, position) pairs agree to {TOLERANCE:e}, {} excluded as flipped codes: {:?}",
        tally.compared - tally.flipped.len(),
        tally.compared,
        tally.flipped.len(),
        tally.flipped
    );
    assert!(
        tally.flipped.iter().all(|&(_, _, by)| by < ONE_FLIP),
        "more than a flipped code: {:?}",
        tally.flipped
    );
    assert!(tally.share() >= SHARE, "{name}: only {:.4} agree", tally.share());
}

/// Embedding and per-layer inputs.
fn entry(model: &Model, ids: &[u32], tensors: &Tensors) {
    let mut cache = rawloop_ref::KvCache::new(&model.geometry, KvFormat::F32);
    let width = model.geometry.ple_width;
    for (position, &token) in ids.iter().enumerate() {
        let mut state = TokenState { token, position, ..TokenState::default() };
        model.run(0..2, &mut state, &mut cache, &mut NoTap);
        assert_eq!(relative(&state.hidden, &tensors.rows("layers.0.input")[position]), 0.0);
        for (layer, mine) in state.per_layer_inputs.chunks(width).enumerate() {
            let golden = &tensors.rows(&format!("layers.{layer}.per_layer_input"))[position];
            assert!(relative(mine, golden) < 1e-5, "per-layer input {layer} at {position}");
        }
    }
}

/// Final norm and logits from Transformers' last hidden state.
fn exit(model: &Model, positions: usize, logit_rows: &[usize], tensors: &Tensors) {
    let mut cache = rawloop_ref::KvCache::new(&model.geometry, KvFormat::F32);
    let stages = model.program.stages.len();
    for position in 0..positions {
        let hidden = tensors.rows("last_layer_output")[position].clone();
        let mut state = TokenState { position, hidden, ..TokenState::default() };
        model.run(stages - 3..stages, &mut state, &mut cache, &mut NoTap);
        assert!(relative(&state.final_norm, &tensors.rows("final_norm")[position]) < 1e-5);
        if let Some(row) = logit_rows.iter().position(|&row| row == position) {
            assert!(relative(&state.logits, &tensors.rows("logits")[row]) < 1e-5, "logits at {position}");
        }
    }
}

/// Greedy continuations, which the golden also holds.
fn continuations(name: &str, model: &Model) {
    let meta: Meta = read(&goldens(name).join("meta.json")).unwrap();
    for prompt in &meta.prompts {
        let out =
            greedy(model, KvFormat::F32, &prompt.ids, prompt.continuation.len(), &[], |_| true).unwrap();
        let differs = out.ids.iter().zip(&prompt.continuation).position(|(a, b)| a != b);
        if let Some(step) = differs {
            panic!(
                "{name}, {}: step {step} says {} instead of {}, whose margin is {}",
                prompt.name, out.ids[step], prompt.continuation[step], prompt.margins[step]
            );
        }
    }
}

#[test]
fn tiny_layers_equal_transformers() {
    check("tiny", &MODEL, &repository().join("models/tiny/checkpoint/model.safetensors"));
}

#[test]
fn tiny_continuations_equal_transformers() {
    continuations("tiny", &MODEL);
}

/// A synthetic checkpoint, converted as a user would, with the path of its weights.
fn synthetic(preset: &str, folder: &Path) -> (Model, PathBuf) {
    let checkpoint = folder.join("checkpoint");
    let options = SynthOptions { as_checkpoint: true, ..SynthOptions::pack(preset, checkpoint.clone()) };
    synth(&options, &mut ()).unwrap();
    let output = folder.join("model.rlp");
    let options = ConvertOptions {
        checkpoint: checkpoint.clone(),
        output: output.clone(),
        ..ConvertOptions::default()
    };
    convert(&options, &mut ()).unwrap();
    (Model::load(&Pack::open(&output).unwrap()).unwrap(), checkpoint.join("model.safetensors"))
}

#[test]
fn e4b_like_layers_and_continuations_equal_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let (model, weights) = synthetic("tiny-e4b", folder.path());
    check("tiny-e4b", &model, &weights);
    continuations("tiny-e4b", &model);
}

/// Layers only: one flipped code grows through 35 layers of random weights until another token wins, as it does when the
/// KV format changes.
#[test]
fn narrow_e2b_layers_equal_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let (model, weights) = synthetic("narrow-e2b", folder.path());
    check("narrow-e2b", &model, &weights);
}
