//! Reads hidden-state goldens and checks a model against them, one layer at a time.

use std::collections::HashMap;
use std::path::Path;

use rawloop_ref::kv::LayerKv;
use rawloop_ref::{KvCache, KvFormat, Model, TokenState};
use rawloop_spec::tap::NoTap;
use rawloop_testkit::goldens::HiddenPrompt;
use safetensors::SafeTensors;

/// Tensors of one prompt: rows of floats by name.
pub struct Tensors(HashMap<String, Vec<Vec<f32>>>);

impl Tensors {
    /// All tensors of a prompt's files.
    pub fn read(folder: &Path, prompt: &HiddenPrompt) -> Tensors {
        let mut all = HashMap::new();
        for file in &prompt.files {
            let bytes = std::fs::read(folder.join(file)).unwrap();
            for (name, view) in SafeTensors::deserialize(&bytes).unwrap().tensors() {
                let width = *view.shape().last().unwrap();
                let floats: Vec<f32> =
                    view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
                all.insert(name, floats.chunks(width).map(<[f32]>::to_vec).collect());
            }
        }
        Tensors(all)
    }

    /// Rows of one tensor.
    pub fn rows(&self, name: &str) -> &[Vec<f32>] {
        &self.0[name]
    }
}

/// Largest difference of two rows in units of the golden's largest magnitude.
pub fn relative(mine: &[f32], golden: &[f32]) -> f32 {
    assert_eq!(mine.len(), golden.len());
    let scale = golden.iter().fold(f32::MIN_POSITIVE, |m, x| m.max(x.abs()));
    mine.iter().zip(golden).fold(0f32, |worst, (a, b)| worst.max((a - b).abs())) / scale
}

/// How a comparison went: (layer, position) pairs that agree and those that do not.
#[derive(Default)]
pub struct Tally {
    /// Pairs compared.
    pub compared: usize,
    /// Pairs beyond the tolerance, with their difference: a code next to a rounding boundary fell to the other side.
    pub flipped: Vec<(usize, usize, f32)>,
}

impl Tally {
    /// Share of pairs that agree.
    pub fn share(&self) -> f64 {
        1.0 - self.flipped.len() as f64 / self.compared as f64
    }
}

/// Every layer from its golden input and, where it owns K/V, with its golden K/V; f32 KV as Transformers has it.
///
/// A layer's own K/V are made first and compared; what flips there counts for its position and not for all positions that
/// look at it.
pub fn compare_layers(
    model: &Model,
    prompt: &HiddenPrompt,
    tensors: &Tensors,
    tolerance: f32,
    tally: &mut Tally,
) {
    let layers = model.geometry.layers.len();
    let mut cache = KvCache::new(&model.geometry, KvFormat::F32);
    for layer in 0..layers {
        let stages: Vec<usize> = (0..model.program.stages.len())
            .filter(|&s| model.program.stages[s].layer() == Some(layer))
            .collect();
        let (first, last) = (stages[0], stages[stages.len() - 1] + 1);
        let inputs = tensors.rows(&format!("layers.{layer}.input"));
        let extra = tensors.rows(&format!("layers.{layer}.per_layer_input"));
        let golden = match layer + 1 == layers {
            true => tensors.rows("last_layer_output"),
            false => tensors.rows(&format!("layers.{}.input", layer + 1)),
        };
        let state_at = |position: usize| {
            let width = model.geometry.ple_width;
            let mut per_layer_inputs = vec![0.0; layers * width];
            per_layer_inputs[layer * width..][..width].copy_from_slice(&extra[position]);
            let hidden = inputs[position].clone();
            TokenState {
                token: prompt.ids[position],
                position,
                hidden,
                per_layer_inputs,
                ..TokenState::default()
            }
        };
        let mut kv_flips = vec![0f32; prompt.ids.len()];
        if model.geometry.owns_kv(layer) {
            for position in 0..prompt.ids.len() {
                model.run(first..first + 2, &mut state_at(position), &mut cache, &mut NoTap);
            }
            kv_flips = take_golden_kv(model, layer, tensors, &mut cache);
        }
        for (position, kv_flip) in kv_flips.into_iter().enumerate() {
            let mut state = state_at(position);
            model.run(first..first + 1, &mut state, &mut cache, &mut NoTap);
            // The cache already holds the golden rows.
            state.kv = None;
            model.run(first + 1..last, &mut state, &mut cache, &mut NoTap);
            let difference = relative(&state.hidden, &golden[position]);
            tally.compared += 1;
            if difference > tolerance || kv_flip > tolerance {
                tally.flipped.push((layer, position, difference.max(kv_flip)));
            }
        }
    }
}

/// Replaces a layer's K/V by the golden ones and says by how much each position differed.
fn take_golden_kv(model: &Model, layer: usize, tensors: &Tensors, cache: &mut KvCache) -> Vec<f32> {
    let (heads, dim) = (model.geometry.kv_heads, model.geometry.layers[layer].head_dim);
    let positions = cache.layers[layer].keys.len();
    let mut flips = vec![0f32; positions];
    let LayerKv { keys, values } = &mut cache.layers[layer];
    for (name, rows) in [("key", keys), ("value", values)] {
        let golden = tensors.rows(&format!("layers.{layer}.{name}"));
        for (position, row) in rows.iter_mut().enumerate() {
            let mine = KvFormat::F32.load(row);
            row.clear();
            for head in 0..heads {
                let golden = &golden[head * positions + position];
                flips[position] = flips[position].max(relative(&mine[head * dim..(head + 1) * dim], golden));
                KvFormat::F32.store(golden, row);
            }
        }
    }
    flips
}
