//! Shapes known by name: the released models, the shipped tiny one, and small ones that keep a released pattern.
//!
//! The only file with literals of a model. A preset is a [`TextConfig`] plus code widths, so that it takes the same road as
//! a checkpoint's config.json.

use crate::Bits;
use crate::config::{Module, RopeParameters, TextConfig};
use crate::drafter::{DrafterGeometry, DrafterLayer, OrderedHead};
use crate::geometry::{AttentionKind, Geometry, LinearKind};

/// A model's shape and what else its files would say.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for listings.
    pub about: &'static str,
    /// The text configuration.
    pub config: TextConfig,
    /// Layers below this have 4-bit FFNs, those from it on 2-bit ones.
    pub wide_ffn_bits_below: usize,
    /// Width of the per-layer-embedding table.
    pub ple_bits: Bits,
    /// Hidden width and FFN of its drafter.
    pub drafter: (usize, usize),
    /// Clustered head of its drafter.
    pub ordered: OrderedHead,
}

/// All presets.
pub fn all() -> Vec<Preset> {
    let window = 512;
    vec![
        Preset {
            name: "tiny",
            about: "the shipped test model's shape: 10 layers, hidden 256",
            config: config(4096, 256, 512, pattern(10, 5), 5, (4, 1), (64, 128), 32, 128, 8192, true),
            wide_ffn_bits_below: 5,
            ple_bits: Bits::Four,
            drafter: (64, 256),
            ordered: OrderedHead { centroids: 64, top_k: 8 },
        },
        Preset {
            name: "tiny-e4b",
            about: "E4B's pattern in small: 12 layers, 2 KV heads, 2-bit per-layer embeddings",
            config: config(1024, 128, 256, pattern(12, 6), 6, (4, 2), (32, 64), 32, 64, 8192, false),
            wide_ffn_bits_below: usize::MAX,
            ple_bits: Bits::Two,
            drafter: (64, 128),
            ordered: OrderedHead { centroids: 32, top_k: 4 },
        },
        Preset {
            name: "narrow-e2b",
            about: "E2B's 35 layers, narrow: hidden 128",
            config: config(1024, 128, 256, pattern(35, 5), 20, (8, 1), (32, 64), 32, 64, 8192, true),
            wide_ffn_bits_below: 15,
            ple_bits: Bits::Four,
            drafter: (64, 128),
            ordered: OrderedHead { centroids: 32, top_k: 4 },
        },
        Preset {
            name: "e2b",
            about: "Gemma 4 E2B: 35 layers, hidden 1536",
            config: config(
                262_144,
                1536,
                6144,
                pattern(35, 5),
                20,
                (8, 1),
                (256, 512),
                256,
                window,
                131_072,
                true,
            ),
            wide_ffn_bits_below: 15,
            ple_bits: Bits::Four,
            drafter: (256, 2048),
            ordered: OrderedHead { centroids: 2048, top_k: 32 },
        },
        Preset {
            name: "e4b",
            about: "Gemma 4 E4B: 42 layers, hidden 2560",
            config: config(
                262_144,
                2560,
                10_240,
                pattern(42, 6),
                18,
                (8, 2),
                (256, 512),
                256,
                window,
                131_072,
                false,
            ),
            wide_ffn_bits_below: usize::MAX,
            ple_bits: Bits::Two,
            drafter: (256, 2048),
            ordered: OrderedHead { centroids: 2048, top_k: 32 },
        },
    ]
}

/// The preset of that name.
pub fn by_name(name: &str) -> Option<Preset> {
    all().into_iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Code width of a module.
    pub fn bits(&self, module: Module) -> Bits {
        match module {
            Module::Embed | Module::Head => Bits::Two,
            Module::Ple => self.ple_bits,
            Module::Linear(_, LinearKind::PleGate | LinearKind::PleProjection) => Bits::Eight,
            Module::Linear(layer, LinearKind::Gate | LinearKind::Up | LinearKind::Down) => {
                if layer < self.wide_ffn_bits_below { Bits::Four } else { Bits::Two }
            }
            Module::Linear(..) => Bits::Four,
        }
    }

    /// The geometry.
    pub fn geometry(&self) -> Geometry {
        match self.config.geometry(|module| self.bits(module)) {
            Ok(geometry) => geometry,
            // The presets are constants of this file and a test builds every one.
            Err(error) => unreachable!("preset {}: {error}", self.name),
        }
    }

    /// The drafter's geometry, with the clustered head or without.
    pub fn drafter(&self, ordered: bool) -> DrafterGeometry {
        let target = self.geometry();
        let (hidden, ffn) = self.drafter;
        let kinds =
            [AttentionKind::Sliding, AttentionKind::Sliding, AttentionKind::Sliding, AttentionKind::Full];
        let layers = kinds.map(|attention| {
            let producer =
                (0..target.own_layers()).rfind(|&layer| target.layers[layer].attention == attention);
            let producer = producer.unwrap_or_default();
            DrafterLayer { attention, head_dim: target.layers[producer].head_dim, producer }
        });
        DrafterGeometry {
            hidden,
            heads: 4,
            kv_heads: target.kv_heads,
            ffn,
            window: target.window,
            rope_sliding: target.rope_sliding,
            rope_full: target.rope_full,
            ordered: ordered.then_some(self.ordered),
            layers: layers.to_vec(),
        }
    }
}

/// `count` layers of which every `period`-th is full.
fn pattern(count: usize, period: usize) -> Vec<String> {
    let kind = |index| if index % period == period - 1 { "full_attention" } else { "sliding_attention" };
    (0..count).map(|index| kind(index).to_string()).collect()
}

#[allow(clippy::too_many_arguments)] // one line of the table above
fn config(
    vocab: usize,
    hidden: usize,
    ffn: usize,
    layer_types: Vec<String>,
    shared: usize,
    (heads, kv_heads): (usize, usize),
    (head_dim, global_head_dim): (usize, usize),
    ple_width: usize,
    window: usize,
    context: usize,
    double_wide: bool,
) -> TextConfig {
    TextConfig {
        vocab_size: vocab,
        vocab_size_per_layer_input: vocab,
        hidden_size: hidden,
        hidden_size_per_layer_input: ple_width,
        intermediate_size: ffn,
        num_hidden_layers: layer_types.len(),
        num_kv_shared_layers: shared,
        num_attention_heads: heads,
        num_key_value_heads: kv_heads,
        num_global_key_value_heads: None,
        head_dim,
        global_head_dim: Some(global_head_dim),
        per_layer_head_dim: Vec::new(),
        layer_types,
        sliding_window: window,
        max_position_embeddings: context,
        rms_norm_eps: 1e-6,
        hidden_activation: "gelu_pytorch_tanh".into(),
        attention_bias: false,
        attention_k_eq_v: false,
        enable_moe_block: false,
        use_double_wide_mlp: double_wide,
        final_logit_softcapping: Some(30.0),
        rope_sliding: RopeParameters {
            rope_type: "default".into(),
            theta: 10_000.0,
            partial_rotary_factor: 1.0,
        },
        rope_full: RopeParameters {
            rope_type: "proportional".into(),
            theta: 1_000_000.0,
            partial_rotary_factor: 0.25,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_and_its_drafters_are_valid() {
        for preset in all() {
            let geometry = preset.geometry();
            geometry.validate().unwrap();
            for ordered in [false, true] {
                preset.drafter(ordered).validate(&geometry).unwrap();
            }
        }
    }

    #[test]
    fn e2b_shares_the_keys_of_layers_13_and_14() {
        let geometry = by_name("e2b").unwrap().geometry();
        assert_eq!(geometry.own_layers(), 15);
        let full: Vec<usize> =
            (0..35).filter(|&l| geometry.layers[l].attention == AttentionKind::Full).collect();
        assert_eq!(full, [4, 9, 14, 19, 24, 29, 34]);
        for layer in 15..35 {
            let expected = if full.contains(&layer) { 14 } else { 13 };
            assert_eq!(geometry.layers[layer].producer, expected);
            assert_eq!(geometry.layers[layer].ffn, 12_288);
        }
        assert_eq!(geometry.rope_full.pairs, 64);
        assert_eq!(geometry.rope_sliding.pairs, 128);
    }

    #[test]
    fn e4b_shares_the_keys_of_layers_22_and_23() {
        let geometry = by_name("e4b").unwrap().geometry();
        assert_eq!(geometry.own_layers(), 24);
        assert_eq!((geometry.layers[24].producer, geometry.layers[29].producer), (22, 23));
        assert_eq!(geometry.layers[41].ffn, 10_240);
    }
}
