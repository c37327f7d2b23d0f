//! Reads hidden-state goldens and checks a model against them, one layer at a time.

use std::collections::HashMap;
use std::path::Path;

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

/// Every layer from its golden input, K/V included; f32 KV as Transformers has it.
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
        let range = stages[0]..stages[stages.len() - 1] + 1;
        let inputs = tensors.rows(&format!("layers.{layer}.input"));
        let extra = tensors.rows(&format!("layers.{layer}.per_layer_input"));
        let golden = match layer + 1 == layers {
            true => tensors.rows("last_layer_output"),
            false => tensors.rows(&format!("layers.{}.input", layer + 1)),
        };
        for (position, &token) in prompt.ids.iter().enumerate() {
            let width = model.geometry.ple_width;
            let mut per_layer_inputs = vec![0.0; layers * width];
            per_layer_inputs[layer * width..][..width].copy_from_slice(&extra[position]);
            let hidden = inputs[position].clone();
            let mut state = TokenState { token, position, hidden, per_layer_inputs, ..TokenState::default() };
            model.run(range.clone(), &mut state, &mut cache, &mut NoTap);
            let difference = relative(&state.hidden, &golden[position]);
            tally.compared += 1;
            if difference > tolerance {
                tally.flipped.push((layer, position, difference));
            }
        }
    }
}
