//! The shape of one model: everything a backend needs to know before it sees a weight.
//!
//! A geometry is derived from a checkpoint's configuration ([`crate::config`]) or a preset, written into the pack's manifest
//! and checked again when a pack is opened: [`Geometry::validate`] is the one place that says what the engine can run.

use crate::config::Unsupported;
use crate::{Bits, tile};

/// How far back a layer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum AttentionKind {
    /// The last `window` positions, the current one included.
    Sliding,
    /// Every position so far.
    Full,
}

impl AttentionKind {
    /// Name used in packs and listings.
    pub const fn name(self) -> &'static str {
        match self {
            AttentionKind::Sliding => "sliding",
            AttentionKind::Full => "full",
        }
    }
}

/// Rotary embedding of one kind of layer (contract rule 7).
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// Pairs that turn; the pairs behind them pass through.
    pub pairs: usize,
}

/// The nine quantised linears of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearKind {
    /// Query projection `[heads * head_dim x hidden]`.
    Q,
    /// Key projection `[kv_heads * head_dim x hidden]`, only in layers that own their K/V.
    K,
    /// Value projection, shaped as the key's.
    V,
    /// Attention output `[hidden x heads * head_dim]`.
    O,
    /// FFN gate `[ffn x hidden]`.
    Gate,
    /// FFN up `[ffn x hidden]`.
    Up,
    /// FFN down `[hidden x ffn]`.
    Down,
    /// Per-layer-embedding gate `[ple_width x hidden]`.
    PleGate,
    /// Per-layer-embedding projection `[hidden x ple_width]`.
    PleProjection,
}

impl LinearKind {
    /// All of them, in the order in which a token meets them.
    pub const ALL: [LinearKind; 9] = [
        LinearKind::Q,
        LinearKind::K,
        LinearKind::V,
        LinearKind::O,
        LinearKind::Gate,
        LinearKind::Up,
        LinearKind::Down,
        LinearKind::PleGate,
        LinearKind::PleProjection,
    ];

    /// Name in packs, listings and kernels.
    pub const fn name(self) -> &'static str {
        match self {
            LinearKind::Q => "q",
            LinearKind::K => "k",
            LinearKind::V => "v",
            LinearKind::O => "o",
            LinearKind::Gate => "gate",
            LinearKind::Up => "up",
            LinearKind::Down => "down",
            LinearKind::PleGate => "ple_gate",
            LinearKind::PleProjection => "ple_projection",
        }
    }
}

/// Code widths of a layer's linears, indexed by [`LinearKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[allow(missing_docs)] // the fields are the kinds above
pub struct LayerBits {
    pub q: Bits,
    pub k: Bits,
    pub v: Bits,
    pub o: Bits,
    pub gate: Bits,
    pub up: Bits,
    pub down: Bits,
    pub ple_gate: Bits,
    pub ple_projection: Bits,
}

impl LayerBits {
    /// The width of one linear.
    pub const fn get(&self, kind: LinearKind) -> Bits {
        match kind {
            LinearKind::Q => self.q,
            LinearKind::K => self.k,
            LinearKind::V => self.v,
            LinearKind::O => self.o,
            LinearKind::Gate => self.gate,
            LinearKind::Up => self.up,
            LinearKind::Down => self.down,
            LinearKind::PleGate => self.ple_gate,
            LinearKind::PleProjection => self.ple_projection,
        }
    }
}

/// One decoder layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Layer {
    /// Sliding or full.
    pub attention: AttentionKind,
    /// Values per head.
    pub head_dim: usize,
    /// Width of the FFN.
    pub ffn: usize,
    /// The layer whose K/V this one reads; itself where it owns them.
    pub producer: usize,
    /// Code widths.
    pub bits: LayerBits,
}

/// A whole model.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Geometry {
    /// Tokens in the vocabulary.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// K/V heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Width of one layer's per-layer embedding.
    pub ple_width: usize,
    /// Positions a sliding layer sees, the current one included.
    pub window: usize,
    /// Positions the model was trained for.
    pub max_context: usize,
    /// Cap of the logits, where the model has one.
    pub soft_cap: Option<f32>,
    /// Code width of the embedding table.
    pub embed_bits: Bits,
    /// Code width of the per-layer-embedding table.
    pub ple_bits: Bits,
    /// Code width of the head.
    pub head_bits: Bits,
    /// Rotary embedding of sliding layers.
    pub rope_sliding: Rope,
    /// Rotary embedding of full layers.
    pub rope_full: Rope,
    /// The layers, first to last.
    pub layers: Vec<Layer>,
}

impl Geometry {
    /// Rotary embedding of a kind of layer.
    pub fn rope(&self, kind: AttentionKind) -> Rope {
        match kind {
            AttentionKind::Sliding => self.rope_sliding,
            AttentionKind::Full => self.rope_full,
        }
    }

    /// Whether the layer computes its own K/V.
    pub fn owns_kv(&self, layer: usize) -> bool {
        self.layers[layer].producer == layer
    }

    /// Layers that own K/V. They come first: `0..own_layers()`.
    pub fn own_layers(&self) -> usize {
        (0..self.layers.len()).take_while(|&layer| self.owns_kv(layer)).count()
    }

    /// Shape `[rows x columns]` of a layer's linear.
    pub fn linear_shape(&self, layer: usize, kind: LinearKind) -> (usize, usize) {
        let Layer { head_dim, ffn, .. } = self.layers[layer];
        let queries = self.heads * head_dim;
        match kind {
            LinearKind::Q => (queries, self.hidden),
            LinearKind::K | LinearKind::V => (self.kv_heads * head_dim, self.hidden),
            LinearKind::O => (self.hidden, queries),
            LinearKind::Gate | LinearKind::Up => (ffn, self.hidden),
            LinearKind::Down => (self.hidden, ffn),
            LinearKind::PleGate => (self.ple_width, self.hidden),
            LinearKind::PleProjection => (self.hidden, self.ple_width),
        }
    }

    /// The linears a layer has: all nine, or seven where its K/V come from a producer.
    pub fn linears(&self, layer: usize) -> impl Iterator<Item = LinearKind> + use<> {
        let owns = self.owns_kv(layer);
        LinearKind::ALL.into_iter().filter(move |kind| owns || !matches!(kind, LinearKind::K | LinearKind::V))
    }

    /// Checks every bound that kernels and loaders rely on.
    ///
    /// # Errors
    /// Names the first field the engine does not support and what it would need to be.
    pub fn validate(&self) -> Result<(), Unsupported> {
        let between = |field: &str, value: usize, low: usize, high: usize| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(Unsupported::new(field, value, format!("a value from {low} to {high}")))
            }
        };
        let multiple = |field: &str, value: usize| {
            if value.is_multiple_of(tile::COLUMN_MULTIPLE) {
                Ok(())
            } else {
                Err(Unsupported::new(field, value, format!("a multiple of {}", tile::COLUMN_MULTIPLE)))
            }
        };
        between("num_hidden_layers", self.layers.len(), 1, 256)?;
        between("vocab_size", self.vocab, 1, 1 << 20)?;
        between("hidden_size", self.hidden, 32, 1 << 14)?;
        between("hidden_size_per_layer_input", self.ple_width, 32, 1 << 12)?;
        between("num_attention_heads", self.heads, 1, 128)?;
        between("num_key_value_heads", self.kv_heads, 1, self.heads)?;
        between("sliding_window", self.window, 64, 1 << 16)?;
        between("max_position_embeddings", self.max_context, 1, 1 << 20)?;
        multiple("hidden_size", self.hidden)?;
        multiple("hidden_size_per_layer_input", self.ple_width)?;
        if !self.heads.is_multiple_of(self.kv_heads) {
            let expected = format!("a divisor of num_attention_heads ({})", self.heads);
            return Err(Unsupported::new("num_key_value_heads", self.kv_heads, expected));
        }
        if !self.window.is_multiple_of(crate::contract::KEY_BLOCK) {
            return Err(Unsupported::new("sliding_window", self.window, "a multiple of 64".into()));
        }
        if let Some(cap) = self.soft_cap
            && !(cap.is_finite() && cap > 0.0)
        {
            return Err(Unsupported::new("final_logit_softcapping", cap, "a positive number".into()));
        }
        if self.head_bits != Bits::Two {
            return Err(Unsupported::new(
                "bits of lm_head",
                self.head_bits.width(),
                "2 (contract rule 9)".into(),
            ));
        }
        // No head is wider than 512, so a kind of layer that does not occur cannot ask for a table of any size either.
        for (field, rope) in [
            ("rope_parameters of sliding layers", self.rope_sliding),
            ("rope_parameters of full layers", self.rope_full),
        ] {
            between(field, rope.pairs, 0, 256)?;
        }
        let own = self.own_layers();
        for (index, layer) in self.layers.iter().enumerate() {
            let field = |name: &str| format!("{name} of layer {index}");
            between(&field("head_dim"), layer.head_dim, 32, 512)?;
            between(&field("intermediate_size"), layer.ffn, 32, 1 << 15)?;
            multiple(&field("head_dim"), layer.head_dim)?;
            multiple(&field("intermediate_size"), layer.ffn)?;
            let producer = self.layers.get(layer.producer);
            let fits =
                producer.is_some_and(|p| p.attention == layer.attention && p.head_dim == layer.head_dim);
            // Owners come first: the prefill program ends at the last of them.
            if !fits || layer.producer >= own {
                let expected = "an earlier layer of the same kind that owns its K/V".into();
                return Err(Unsupported::new(&field("K/V producer"), layer.producer, expected));
            }
            let rope = self.rope(layer.attention);
            if rope.pairs > layer.head_dim / 2 || !(rope.theta.is_finite() && rope.theta > 1.0) {
                let expected = "a finite theta above 1 and at most half a head of pairs".into();
                return Err(Unsupported::new(&field("rope_parameters"), format!("{rope:?}"), expected));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::presets;

    #[test]
    fn an_owner_behind_a_sharing_layer_is_refused() {
        let mut geometry = presets::by_name("tiny").unwrap().geometry();
        geometry.layers[7].producer = 7;
        let error = geometry.validate().unwrap_err();
        assert_eq!(error.field, "K/V producer of layer 7");
    }

    #[test]
    fn rotary_pairs_are_bounded_even_where_no_layer_uses_them() {
        let mut geometry = presets::by_name("tiny").unwrap().geometry();
        geometry.rope_full.pairs = 1 << 40;
        assert!(geometry.validate().is_err());
    }
}
