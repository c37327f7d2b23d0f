//! The checkpoint's names: modules, tensors, and which tensors have no part in a text model.
//!
//! Multimodal checkpoints put the text model under `model.language_model.`, text-only ones under `model.`.

use rawloop_spec::LinearKind;
use rawloop_spec::config::Module;

/// Names of a target's checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    prefix: &'static str,
}

impl Names {
    /// `Gemma4ForConditionalGeneration`.
    pub fn multimodal() -> Names {
        Names { prefix: "model.language_model." }
    }

    /// `Gemma4ForCausalLM`.
    pub fn text_only() -> Names {
        Names { prefix: "model." }
    }

    /// A tensor of the text model.
    pub fn text(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    /// A tensor of a layer.
    pub fn layer(&self, layer: usize, rest: &str) -> String {
        format!("{}layers.{layer}.{rest}", self.prefix)
    }

    /// A module with quantised weights.
    pub fn module(&self, module: Module) -> String {
        match module {
            Module::Embed => self.text("embed_tokens"),
            Module::Ple => self.text("embed_tokens_per_layer"),
            Module::Head => "lm_head".into(),
            Module::Linear(layer, kind) => self.layer(layer, linear(kind)),
        }
    }

    /// Why a tensor that is not expected is left out, or `None` where it has no place at all.
    pub fn skipped(&self, tensor: &str, owns_kv: impl Fn(usize) -> Option<bool>) -> Option<&'static str> {
        let one_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| tensor.starts_with(prefix));
        if one_of(&["model.vision_tower.", "model.embed_vision."]) {
            return Some("vision");
        }
        if one_of(&["model.audio_tower.", "model.embed_audio."]) {
            return Some("audio");
        }
        // Layers that read a producer's K/V may still carry K/V tensors of their own; nothing reads them.
        let (layer, rest) = tensor.strip_prefix(self.prefix)?.strip_prefix("layers.")?.split_once('.')?;
        let rest = rest.strip_prefix("self_attn.")?;
        let dead = ["k_proj.", "v_proj.", "k_norm.", "v_norm.", "k_cache_scale", "v_cache_scale"];
        (owns_kv(layer.parse().ok()?) == Some(false) && dead.iter().any(|name| rest.starts_with(name)))
            .then_some("dead_kv")
    }
}

/// Name of a linear inside its layer.
fn linear(kind: LinearKind) -> &'static str {
    match kind {
        LinearKind::Q => "self_attn.q_proj",
        LinearKind::K => "self_attn.k_proj",
        LinearKind::V => "self_attn.v_proj",
        LinearKind::O => "self_attn.o_proj",
        LinearKind::Gate => "mlp.gate_proj",
        LinearKind::Up => "mlp.up_proj",
        LinearKind::Down => "mlp.down_proj",
        LinearKind::PleGate => "per_layer_input_gate",
        LinearKind::PleProjection => "per_layer_projection",
    }
}
