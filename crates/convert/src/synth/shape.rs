//! The shape of a synthetic model: a preset or somebody's config.json, as the JSON files of a checkpoint.
//!
//! Presets become JSON first and are then read like any other config.json, so that a synthetic pack has the geometry that
//! the conversion of the synthetic checkpoint finds.

use std::path::{Path, PathBuf};

use rawloop_spec::config::RopeParameters;
use rawloop_spec::presets::{self, Preset};
use rawloop_spec::{DrafterGeometry, Geometry, OrderedHead, TextConfig};
use serde_json::{Map, Value, json};

use super::{SynthOptions, tokenizer};
use crate::config::{Config, SyntheticLabel};
use crate::error::ConvertError;
use crate::fields::Document;
use crate::{assistant, convert};

/// Shape and files of a synthetic model.
pub struct Shape {
    /// What it calls itself.
    pub label: SyntheticLabel,
    /// config.json, with the label.
    pub config_json: Value,
    /// The assistant's config.json.
    pub assistant_json: Option<Value>,
    /// `config_json`, read.
    pub config: Config,
    /// The target.
    pub geometry: Geometry,
    /// The assistant.
    pub drafter: Option<DrafterGeometry>,
}

/// Hidden width, FFN width and clustered head of an assistant.
type DrafterShape = (usize, usize, OrderedHead);

impl Shape {
    /// The shape that the options name.
    ///
    /// # Errors
    /// Neither a preset nor a readable config.json, or one that the engine does not run.
    pub fn new(options: &SynthOptions) -> Result<Shape, ConvertError> {
        let (preset, file, mut config_json) = match presets::by_name(&options.shape) {
            Some(preset) => (preset.name.to_string(), PathBuf::from("config.json"), preset_json(&preset)),
            None => {
                let file = PathBuf::from(&options.shape);
                if !file.is_file() {
                    let names: Vec<&str> = presets::all().iter().map(|preset| preset.name).collect();
                    return Err(ConvertError::Options(format!(
                        "{} is neither a preset ({}) nor a config.json",
                        options.shape,
                        names.join(", ")
                    )));
                }
                let document = Document::read(&file, "the shape of the model")?;
                document.root()?;
                (shape_name(&file), file, document.value)
            }
        };
        let label = SyntheticLabel { preset, seed: options.seed };
        if let Some(object) = config_json.as_object_mut() {
            // There are no such towers in what is made here.
            for tower in ["vision_config", "audio_config"] {
                if object.contains_key(tower) {
                    object.insert(tower.into(), Value::Null);
                }
            }
            object.insert("rawloop_synthetic".into(), json!({ "preset": label.preset, "seed": label.seed }));
        }
        let document = Document { file, value: config_json };
        let config = Config::read(&document)?;
        let geometry = convert::geometry(&document.file, &config)?;
        if geometry.vocab < tokenizer::FEWEST {
            let field = "vocab_size".to_string();
            let (found, expected) = (geometry.vocab.to_string(), format!("at least {}", tokenizer::FEWEST));
            return Err(ConvertError::Field { file: document.file, field, found, expected });
        }
        let drafter_shape = match presets::by_name(&options.shape) {
            Some(preset) => (preset.drafter.0, preset.drafter.1, preset.ordered),
            None => drafter_shape(&geometry),
        };
        let (assistant_json, drafter) = if options.assistant {
            let value = assistant_json(&config.text, &geometry, drafter_shape, options.ordered);
            let document = Document { file: "assistant/config.json".into(), value };
            let drafter = assistant::read(&document, &geometry)?;
            (Some(document.value), Some(drafter))
        } else {
            (None, None)
        };
        Ok(Shape { label, config_json: document.value, assistant_json, config, geometry, drafter })
    }

    /// generation_config.json: what the released instruction models have.
    pub fn generation_document(&self) -> Document {
        let value = json!({
            "bos_token_id": 2, "pad_token_id": 0, "eos_token_id": [1, 106, 50],
            "do_sample": true, "temperature": 1.0, "top_k": 64, "top_p": 0.95
        });
        Document { file: "generation_config.json".into(), value }
    }
}

/// Name of a shape from its file: its stem, or the folder's name for a config.json.
fn shape_name(file: &Path) -> String {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.into());
    let stem = absolute.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = absolute.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match folder {
        Some(folder) if stem == "config" => folder,
        _ => stem,
    }
}

/// An assistant for a shape without a preset: widths as the released ones have them to their targets.
fn drafter_shape(geometry: &Geometry) -> DrafterShape {
    let hidden = if geometry.hidden >= 1024 { 256 } else { 64 };
    let most = (geometry.vocab / 32).clamp(1, 2048);
    let divides = |count: &usize| *count <= most && geometry.vocab.is_multiple_of(*count);
    let centroids = (0..12).rev().map(|power| 1 << power).find(divides).unwrap_or(1);
    (hidden, 8 * hidden, OrderedHead { centroids, top_k: (centroids / 64).max(1) })
}

fn preset_json(preset: &Preset) -> Value {
    let mut text = text_json(&preset.config);
    text.insert("model_type".into(), "gemma4_text".into());
    text.insert("tie_word_embeddings".into(), false.into());
    let layers = preset.config.num_hidden_layers;
    let mut modules = Map::new();
    let mut bits = |pattern: String, bits: u8| modules.insert(pattern, json!({ "num_bits": bits }));
    bits("^lm_head$".into(), 2);
    bits("language_model\\.embed_tokens$".into(), 2);
    bits("language_model\\.embed_tokens_per_layer$".into(), preset.ple_bits.into());
    let wide = preset.wide_ffn_bits_below.min(layers);
    if wide < layers {
        let numbers: Vec<String> = (0..wide).map(|layer| layer.to_string()).collect();
        bits(format!("language_model\\.layers\\.({})\\.mlp\\.", numbers.join("|")), 4);
        bits("language_model\\.layers\\.\\d+\\.mlp\\.".into(), 2);
    } else {
        bits("language_model\\.layers\\.\\d+\\.mlp\\.".into(), 4);
    }
    bits("language_model\\.layers\\.\\d+\\.per_layer_input_gate$".into(), 8);
    bits("language_model\\.layers\\.\\d+\\.per_layer_projection$".into(), 8);
    bits("language_model\\.layers\\.\\d+\\.self_attn\\.".into(), 4);
    json!({
        "architectures": ["Gemma4ForConditionalGeneration"],
        "model_type": "gemma4",
        "dtype": "float32",
        "text_config": text,
        "vision_config": null,
        "audio_config": null,
        "tie_word_embeddings": false,
        "eos_token_id": [1, 106],
        "bos_token_id": 2,
        "pad_token_id": 0,
        "quantization_config": {
            "quant_method": "gemma",
            "num_bits": 4,
            "quantize_embeddings": true,
            "module_quant_configs": modules,
            "modules_to_not_convert": ["model.language_model.per_layer_model_projection"]
        }
    })
}

fn assistant_json(
    target: &TextConfig,
    geometry: &Geometry,
    (hidden, ffn, ordered): DrafterShape,
    with_clusters: bool,
) -> Value {
    let full =
        geometry.layers.iter().find(|layer| layer.attention.name() == "full").map(|layer| layer.head_dim);
    let text = text_json(&TextConfig {
        hidden_size: hidden,
        hidden_size_per_layer_input: 0,
        vocab_size_per_layer_input: 0,
        intermediate_size: ffn,
        num_hidden_layers: 4,
        num_kv_shared_layers: 4,
        num_attention_heads: 4.max(geometry.kv_heads),
        layer_types: ["sliding", "sliding", "sliding", "full"].map(|kind| format!("{kind}_attention")).into(),
        use_double_wide_mlp: false,
        final_logit_softcapping: None,
        global_head_dim: full,
        per_layer_head_dim: Vec::new(),
        ..target.clone()
    });
    json!({
        "architectures": ["Gemma4AssistantForCausalLM"],
        "model_type": "gemma4_assistant",
        "dtype": "bfloat16",
        "backbone_hidden_size": geometry.hidden,
        "use_ordered_embeddings": with_clusters,
        "num_centroids": ordered.centroids,
        "centroid_intermediate_top_k": ordered.top_k,
        "tie_word_embeddings": true,
        "text_config": text
    })
}

fn text_json(config: &TextConfig) -> Map<String, Value> {
    let rope = |parameters: &RopeParameters| {
        json!({
            "rope_type": parameters.rope_type,
            "rope_theta": parameters.theta,
            "partial_rotary_factor": parameters.partial_rotary_factor
        })
    };
    let value = json!({
        "vocab_size": config.vocab_size,
        "vocab_size_per_layer_input": config.vocab_size_per_layer_input,
        "hidden_size": config.hidden_size,
        "hidden_size_per_layer_input": config.hidden_size_per_layer_input,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_kv_shared_layers": config.num_kv_shared_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "global_head_dim": config.global_head_dim,
        "layer_types": config.layer_types,
        "sliding_window": config.sliding_window,
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "hidden_activation": config.hidden_activation,
        "attention_bias": config.attention_bias,
        "attention_k_eq_v": config.attention_k_eq_v,
        "enable_moe_block": config.enable_moe_block,
        "use_double_wide_mlp": config.use_double_wide_mlp,
        "final_logit_softcapping": config.final_logit_softcapping,
        "rope_parameters": {
            "sliding_attention": rope(&config.rope_sliding),
            "full_attention": rope(&config.rope_full)
        },
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 2
    });
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
