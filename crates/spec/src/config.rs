//! From a checkpoint's text configuration to a [`Geometry`].
//!
//! Reading JSON is the converter's work; the fields and what follows from them (producers, head dims in both spellings,
//! double-wide FFN, rotated pairs) stand here. What the engine does not run is refused by the name it has in config.json.

use std::fmt;

use crate::Bits;
use crate::geometry::{AttentionKind, Geometry, Layer, LayerBits, LinearKind, Rope};

/// A field the engine does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The field's name in config.json, with the layer where there is one.
    pub field: String,
    /// What it holds.
    pub found: String,
    /// What would be supported.
    pub expected: String,
}

impl Unsupported {
    /// A refusal of `field`.
    pub fn new(field: &str, found: impl fmt::Display, expected: String) -> Self {
        Unsupported { field: field.into(), found: found.to_string(), expected }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} is {}, which is not supported: expected {}", self.field, self.found, self.expected)
    }
}

impl std::error::Error for Unsupported {}

/// Rotary parameters of one kind of layer, as config.json has them.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeParameters {
    /// `rope_type`: `default` or `proportional`.
    pub rope_type: String,
    /// `rope_theta`.
    pub theta: f64,
    /// `partial_rotary_factor`, 1 where absent.
    pub partial_rotary_factor: f64,
}

/// The fields of `text_config` that matter, under their own names.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the names are config.json's
pub struct TextConfig {
    pub vocab_size: usize,
    pub vocab_size_per_layer_input: usize,
    pub hidden_size: usize,
    pub hidden_size_per_layer_input: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_kv_shared_layers: usize,
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    pub num_global_key_value_heads: Option<usize>,
    pub head_dim: usize,
    /// Head dim of full layers in the older spelling.
    pub global_head_dim: Option<usize>,
    /// Head dims by layer in the newer spelling (`per_layer_config`).
    pub per_layer_head_dim: Vec<(usize, usize)>,
    pub layer_types: Vec<String>,
    pub sliding_window: usize,
    pub max_position_embeddings: usize,
    pub rms_norm_eps: f64,
    pub hidden_activation: String,
    pub attention_bias: bool,
    pub attention_k_eq_v: bool,
    pub enable_moe_block: bool,
    pub use_double_wide_mlp: bool,
    pub final_logit_softcapping: Option<f64>,
    pub rope_sliding: RopeParameters,
    pub rope_full: RopeParameters,
}

/// A module whose weights have a code width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// `embed_tokens`.
    Embed,
    /// `embed_tokens_per_layer`.
    Ple,
    /// `lm_head`.
    Head,
    /// A linear of a layer.
    Linear(usize, LinearKind),
}

impl TextConfig {
    /// Refuses what no part of the engine implements.
    ///
    /// # Errors
    /// Names the field.
    pub fn refuse_unsupported(&self) -> Result<(), Unsupported> {
        let refuse = |field: &str, found: &dyn fmt::Display, expected: &str| {
            Err(Unsupported::new(field, found, expected.into()))
        };
        if self.attention_k_eq_v {
            return refuse("attention_k_eq_v", &true, "false");
        }
        if self.enable_moe_block {
            return refuse("enable_moe_block", &true, "false (no mixture of experts)");
        }
        if self.attention_bias {
            return refuse("attention_bias", &true, "false");
        }
        if self.hidden_activation != "gelu_pytorch_tanh" {
            return refuse("hidden_activation", &self.hidden_activation, "gelu_pytorch_tanh");
        }
        if self.rms_norm_eps as f32 != crate::contract::RMS_EPSILON {
            return refuse("rms_norm_eps", &self.rms_norm_eps, "1e-6 (contract rule 6)");
        }
        if let Some(heads) = self.num_global_key_value_heads
            && heads != self.num_key_value_heads
        {
            return refuse("num_global_key_value_heads", &heads, "the same as num_key_value_heads, or none");
        }
        if self.layer_types.len() != self.num_hidden_layers {
            let expected = format!("as many as num_hidden_layers ({})", self.num_hidden_layers);
            return refuse("number of layer_types", &self.layer_types.len(), &expected);
        }
        for (name, rope, known) in [
            ("rope_parameters.sliding_attention.rope_type", &self.rope_sliding, ["default", "proportional"]),
            ("rope_parameters.full_attention.rope_type", &self.rope_full, ["proportional", "default"]),
        ] {
            if !known.contains(&rope.rope_type.as_str()) {
                return refuse(name, &rope.rope_type, "default or proportional");
            }
            if !(rope.partial_rotary_factor > 0.0 && rope.partial_rotary_factor <= 1.0) {
                let name = name.replace("rope_type", "partial_rotary_factor");
                return refuse(&name, &rope.partial_rotary_factor, "a share above 0 and up to 1");
            }
        }
        Ok(())
    }

    /// Kind of each layer.
    ///
    /// # Errors
    /// A layer type other than `sliding_attention` and `full_attention`.
    pub fn attention_kinds(&self) -> Result<Vec<AttentionKind>, Unsupported> {
        let kind = |(index, name): (usize, &String)| match name.as_str() {
            "sliding_attention" => Ok(AttentionKind::Sliding),
            "full_attention" => Ok(AttentionKind::Full),
            other => {
                let expected = "sliding_attention or full_attention".into();
                Err(Unsupported::new(&format!("layer_types[{index}]"), other, expected))
            }
        };
        self.layer_types.iter().enumerate().map(kind).collect()
    }

    /// Head dim of a layer: the per-layer map first, then `global_head_dim` for full layers, then `head_dim`.
    pub fn head_dim_of(&self, layer: usize, kind: AttentionKind) -> usize {
        let mapped = self.per_layer_head_dim.iter().find(|(index, _)| *index == layer).map(|&(_, dim)| dim);
        let global = self.global_head_dim.filter(|_| kind == AttentionKind::Full);
        mapped.or(global).unwrap_or(self.head_dim)
    }

    /// Rotary parameters of a kind of layer whose heads have `head_dim` values.
    pub fn rope_of(&self, kind: AttentionKind, head_dim: usize) -> Rope {
        let parameters = match kind {
            AttentionKind::Sliding => &self.rope_sliding,
            AttentionKind::Full => &self.rope_full,
        };
        let pairs = (parameters.partial_rotary_factor * head_dim as f64 / 2.0) as usize;
        Rope { theta: parameters.theta, pairs }
    }

    /// The geometry, with code widths from `bits`.
    ///
    /// # Errors
    /// Names the field that the engine does not support.
    pub fn geometry(&self, bits: impl Fn(Module) -> Bits) -> Result<Geometry, Unsupported> {
        self.refuse_unsupported()?;
        if self.vocab_size_per_layer_input != self.vocab_size {
            let expected = format!("vocab_size ({})", self.vocab_size);
            return Err(Unsupported::new(
                "vocab_size_per_layer_input",
                self.vocab_size_per_layer_input,
                expected,
            ));
        }
        if self.num_kv_shared_layers >= self.num_hidden_layers {
            let expected = format!("fewer than num_hidden_layers ({})", self.num_hidden_layers);
            return Err(Unsupported::new("num_kv_shared_layers", self.num_kv_shared_layers, expected));
        }
        let kinds = self.attention_kinds()?;
        let own = self.num_hidden_layers - self.num_kv_shared_layers;
        let mut layers = Vec::with_capacity(kinds.len());
        for (index, &attention) in kinds.iter().enumerate() {
            let producer = if index < own { Some(index) } else { (0..own).rfind(|&p| kinds[p] == attention) };
            let Some(producer) = producer else {
                let expected = format!("a layer of its kind among the first {own} to read K/V from");
                return Err(Unsupported::new(&format!("layer_types[{index}]"), attention.name(), expected));
            };
            let wide = self.use_double_wide_mlp && index >= own;
            let width = |kind| bits(Module::Linear(index, kind));
            layers.push(Layer {
                attention,
                head_dim: self.head_dim_of(index, attention),
                // What does not fit is refused below as too wide.
                ffn: self.intermediate_size.saturating_mul(if wide { 2 } else { 1 }),
                producer,
                bits: LayerBits {
                    q: width(LinearKind::Q),
                    k: width(LinearKind::K),
                    v: width(LinearKind::V),
                    o: width(LinearKind::O),
                    gate: width(LinearKind::Gate),
                    up: width(LinearKind::Up),
                    down: width(LinearKind::Down),
                    ple_gate: width(LinearKind::PleGate),
                    ple_projection: width(LinearKind::PleProjection),
                },
            });
        }
        let rope = |kind| {
            let head_dim =
                layers.iter().find(|layer| layer.attention == kind).map_or(0, |layer| layer.head_dim);
            self.rope_of(kind, head_dim)
        };
        let geometry = Geometry {
            vocab: self.vocab_size,
            hidden: self.hidden_size,
            heads: self.num_attention_heads,
            kv_heads: self.num_key_value_heads,
            ple_width: self.hidden_size_per_layer_input,
            window: self.sliding_window,
            max_context: self.max_position_embeddings,
            soft_cap: self.final_logit_softcapping.map(|cap| cap as f32),
            embed_bits: bits(Module::Embed),
            ple_bits: bits(Module::Ple),
            head_bits: bits(Module::Head),
            rope_sliding: rope(AttentionKind::Sliding),
            rope_full: rope(AttentionKind::Full),
            layers,
        };
        geometry.validate()?;
        Ok(geometry)
    }
}
