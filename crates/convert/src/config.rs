//! config.json of a target model.
//!
//! Both spellings of the full layers' head dim are read: `global_head_dim`, and `per_layer_config` with a map of layer to
//! overrides. A field that is absent gets the default that Transformers has for it, and the pack's notes say so. Five fields
//! whose default fits no released checkpoint of this kind have none here: a guess would be another model.

use rawloop_spec::TextConfig;
use rawloop_spec::config::RopeParameters;
use serde_json::Value;

use crate::error::ConvertError;
use crate::fields::{Document, Fields};
use crate::names::Names;
use crate::quantization::Quantization;

/// What config.json says.
pub struct Config {
    /// The text model.
    pub text: TextConfig,
    /// Code widths.
    pub quantization: Quantization,
    /// Tensor and module names.
    pub names: Names,
    /// End-of-sequence ids.
    pub eos: Vec<u32>,
    /// Begin-of-sequence id.
    pub bos: Option<u32>,
    /// Padding id.
    pub pad: Option<u32>,
    /// Set in the folders that `synth` writes.
    pub synthetic: Option<SyntheticLabel>,
    /// Fields that were absent, with what was taken.
    pub defaulted: Vec<String>,
}

/// The mark of a synthetic checkpoint: `rawloop_synthetic` in config.json.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntheticLabel {
    /// Preset or name of the shape.
    pub preset: String,
    /// Seed of the weights.
    pub seed: u64,
}

impl SyntheticLabel {
    /// Name of the model.
    pub fn model_name(&self) -> String {
        format!("synthetic-{}-seed{}", self.preset, self.seed)
    }
}

impl Config {
    /// Reads a target's configuration.
    ///
    /// # Errors
    /// Names the field that is missing, of the wrong type or not supported.
    pub fn read(document: &Document) -> Result<Config, ConvertError> {
        let root = document.root()?;
        let model_type = root.required("model_type", "a text", root.text("model_type"))?;
        // Multimodal checkpoints nest the text model; a text-only one is it.
        let (text_fields, names) = match model_type {
            "gemma4" => {
                (root.required("text_config", "an object", root.object("text_config"))?, Names::multimodal())
            }
            "gemma4_text" => (root.clone(), Names::text_only()),
            _ => return Err(root.wrong("model_type", "\"gemma4\" or \"gemma4_text\"")),
        };
        let quantization = Quantization::read(&root)?;
        let mut defaulted = Vec::new();
        let text = text_config(&text_fields, &mut defaulted)?;
        let either = |name: &str| -> Result<Option<Vec<u32>>, ConvertError> {
            Ok(root.ids(name)?.or(text_fields.ids(name)?))
        };
        let first = |ids: Option<Vec<u32>>| ids.and_then(|ids| ids.first().copied());
        let synthetic = match root.object("rawloop_synthetic")? {
            None => None,
            Some(label) => Some(SyntheticLabel {
                preset: label.required("preset", "a text", label.text("preset"))?.into(),
                seed: label.required("seed", "a whole number", label.count("seed"))? as u64,
            }),
        };
        Ok(Config {
            text,
            quantization,
            names,
            eos: either("eos_token_id")?.unwrap_or_default(),
            bos: first(either("bos_token_id")?),
            pad: first(either("pad_token_id")?),
            synthetic,
            defaulted,
        })
    }
}

/// The text fields of a target or an assistant. Absent fields are taken from Transformers' `Gemma4TextConfig` and listed in
/// `defaulted`.
pub(crate) fn text_config(fields: &Fields, defaulted: &mut Vec<String>) -> Result<TextConfig, ConvertError> {
    let shape = |name: &str| fields.required(name, "a whole number", fields.count(name));
    let mut count = |name: &str, default: usize| -> Result<usize, ConvertError> {
        Ok(fields.count(name)?.unwrap_or_else(|| noted(defaulted, name, default)))
    };
    let vocab_size = count("vocab_size", 262_144)?;
    let vocab_size_per_layer_input = count("vocab_size_per_layer_input", 262_144)?;
    let hidden_size_per_layer_input = count("hidden_size_per_layer_input", 256)?;
    let num_kv_shared_layers = count("num_kv_shared_layers", 0)?;
    let head_dim = count("head_dim", 256)?;
    let sliding_window = count("sliding_window", 512)?;
    let max_position_embeddings = count("max_position_embeddings", 131_072)?;
    let num_hidden_layers = shape("num_hidden_layers")?;
    let layer_types = match fields.texts("layer_types")? {
        Some(types) => types,
        None => {
            noted(defaulted, "layer_types", "every sixth layer full");
            let kind = |index| if index % 6 == 5 { "full_attention" } else { "sliding_attention" };
            (0..num_hidden_layers.min(1024)).map(|index| kind(index).into()).collect()
        }
    };
    // Transformers turns a sliding last layer into a full one; nobody trains such a model, so the file is wrong.
    if layer_types.last().is_some_and(|kind| kind != "full_attention") {
        return Err(fields.wrong("layer_types", "a list that ends with full_attention"));
    }
    // "vision" lets image tokens see each other, which does not concern text; "all" does.
    if fields.text("use_bidirectional_attention")?.is_some_and(|value| value != "vision") {
        return Err(fields.wrong("use_bidirectional_attention", "null or \"vision\""));
    }
    let per_layer = per_layer_head_dims(fields)?;
    let global_head_dim = match fields.count("global_head_dim")? {
        None if per_layer.is_none() => Some(noted(defaulted, "global_head_dim", 512)),
        given => given,
    };
    let (rope_sliding, rope_full) = match fields.object("rope_parameters")? {
        None => {
            noted(
                defaulted,
                "rope_parameters",
                "theta 10000, and theta 1000000 over a quarter of a full head",
            );
            (rope("default", 10_000.0, 1.0), rope("proportional", 1_000_000.0, 0.25))
        }
        Some(kinds) => (read_rope(&kinds, "sliding_attention")?, read_rope(&kinds, "full_attention")?),
    };
    let mut flag = |name: &str| -> Result<bool, ConvertError> {
        Ok(fields.flag(name)?.unwrap_or_else(|| noted(defaulted, name, false)))
    };
    Ok(TextConfig {
        vocab_size,
        vocab_size_per_layer_input,
        hidden_size: shape("hidden_size")?,
        hidden_size_per_layer_input,
        intermediate_size: shape("intermediate_size")?,
        num_hidden_layers,
        num_kv_shared_layers,
        num_attention_heads: shape("num_attention_heads")?,
        num_key_value_heads: shape("num_key_value_heads")?,
        // It only means something together with attention_k_eq_v, which is refused.
        num_global_key_value_heads: fields.count("num_global_key_value_heads")?,
        head_dim,
        global_head_dim,
        per_layer_head_dim: per_layer.unwrap_or_default(),
        layer_types,
        sliding_window,
        max_position_embeddings,
        attention_bias: flag("attention_bias")?,
        attention_k_eq_v: flag("attention_k_eq_v")?,
        enable_moe_block: flag("enable_moe_block")?,
        use_double_wide_mlp: flag("use_double_wide_mlp")?,
        rms_norm_eps: match fields.number("rms_norm_eps")? {
            Some(epsilon) => epsilon,
            None => noted(defaulted, "rms_norm_eps", 1e-6),
        },
        hidden_activation: match fields.text("hidden_activation")? {
            Some(name) => name.into(),
            None => noted(defaulted, "hidden_activation", "gelu_pytorch_tanh").into(),
        },
        // Absent and null both mean no cap.
        final_logit_softcapping: fields.number("final_logit_softcapping")?,
        rope_sliding,
        rope_full,
    })
}

/// Head dims of `per_layer_config`, where there is one.
fn per_layer_head_dims(fields: &Fields) -> Result<Option<Vec<(usize, usize)>>, ConvertError> {
    let Some(layers) = fields.object("per_layer_config")? else { return Ok(None) };
    let mut dims = Vec::new();
    for (key, _) in layers.entries() {
        let layer = key.parse::<usize>().map_err(|_| layers.wrong(key, "under the number of a layer"))?;
        let Some(options) = layers.object(key)? else { continue };
        for (option, value) in options.entries() {
            match option.as_str() {
                "head_dim" => {}
                // The same count as everywhere else changes nothing.
                "num_key_value_heads" if fields.get("num_key_value_heads") == Some(value) => {}
                _ => return Err(options.wrong(option, "no override but head_dim")),
            }
        }
        if let Some(head_dim) = options.count("head_dim")? {
            dims.push((layer, head_dim));
        }
    }
    Ok(Some(dims))
}

fn read_rope(kinds: &Fields, kind: &str) -> Result<RopeParameters, ConvertError> {
    let fields = kinds.required(kind, "an object", kinds.object(kind))?;
    let rope_type = fields.required("rope_type", "a text", fields.text("rope_type"))?;
    let theta = fields.required("rope_theta", "a number", fields.number("rope_theta"))?;
    let share = fields.number("partial_rotary_factor")?.unwrap_or(1.0);
    // The default type with a share narrows the head that the frequencies span, which the contract does not have.
    if rope_type == "default" && share != 1.0 {
        return Err(fields.wrong("partial_rotary_factor", "1 with rope_type default"));
    }
    Ok(rope(rope_type, theta, share))
}

fn rope(rope_type: &str, theta: f64, partial_rotary_factor: f64) -> RopeParameters {
    RopeParameters { rope_type: rope_type.into(), theta, partial_rotary_factor }
}

fn noted<T: Into<Value> + Clone>(defaulted: &mut Vec<String>, name: &str, value: T) -> T {
    defaulted.push(format!("config.json has no {name}; taken: {}", value.clone().into()));
    value
}
