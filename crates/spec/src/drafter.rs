//! Geometry of the MTP drafter (Google's assistant checkpoint).
//!
//! Query-only layers: each reads the K/V of the target's last own layer of its kind. Weights are bf16 and the arithmetic is
//! the contract's lane sum; a draft decides speed, never text, since verification is exact.

use crate::config::Unsupported;
use crate::geometry::{AttentionKind, Geometry, Rope};

/// One layer of the drafter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct DrafterLayer {
    /// Sliding or full.
    pub attention: AttentionKind,
    /// Values per head.
    pub head_dim: usize,
    /// The target's layer whose K/V it reads.
    pub producer: usize,
}

/// The clustered head: scores centroids first, then only the tokens of the best clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct OrderedHead {
    /// Clusters; the vocabulary is a multiple of it.
    pub centroids: usize,
    /// Clusters whose tokens are scored.
    pub top_k: usize,
}

/// The drafter.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct DrafterGeometry {
    /// Width of its own residual stream.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// K/V heads of the target.
    pub kv_heads: usize,
    /// Width of the FFN.
    pub ffn: usize,
    /// Window of its sliding layers.
    pub window: usize,
    /// Rotary embedding of sliding layers.
    pub rope_sliding: Rope,
    /// Rotary embedding of full layers.
    pub rope_full: Rope,
    /// Clustered head, or the whole vocabulary where none.
    pub ordered: Option<OrderedHead>,
    /// The layers.
    pub layers: Vec<DrafterLayer>,
}

impl DrafterGeometry {
    /// Rotary embedding of a kind of layer.
    pub fn rope(&self, kind: AttentionKind) -> Rope {
        match kind {
            AttentionKind::Sliding => self.rope_sliding,
            AttentionKind::Full => self.rope_full,
        }
    }

    /// Checks the drafter against the target it drafts for.
    ///
    /// # Errors
    /// Names the first field that does not fit.
    pub fn validate(&self, target: &Geometry) -> Result<(), Unsupported> {
        let refuse =
            |field: &str, found: usize, expected: String| Err(Unsupported::new(field, found, expected));
        for (field, value, high) in [
            ("assistant hidden_size", self.hidden, 1 << 14),
            ("assistant intermediate_size", self.ffn, 1 << 15),
            ("assistant sliding_window", self.window, 1 << 16),
            ("assistant num_attention_heads", self.heads, 128),
            ("assistant num_hidden_layers", self.layers.len(), 64),
        ] {
            if value == 0 || value > high {
                return refuse(field, value, format!("a value from 1 to {high}"));
            }
        }
        if !self.hidden.is_multiple_of(32) || !self.ffn.is_multiple_of(32) {
            return refuse("assistant hidden_size", self.hidden, "widths that are multiples of 32".into());
        }
        if self.kv_heads != target.kv_heads || !self.heads.is_multiple_of(self.kv_heads) {
            return refuse("assistant num_key_value_heads", self.kv_heads, format!("{}", target.kv_heads));
        }
        if let Some(head) = self.ordered
            && (head.centroids == 0
                || !target.vocab.is_multiple_of(head.centroids)
                || head.top_k == 0
                || head.top_k > head.centroids)
        {
            return refuse(
                "num_centroids",
                head.centroids,
                format!("a divisor of vocab_size ({})", target.vocab),
            );
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let fits = layer.producer < target.own_layers() && {
                let producer = &target.layers[layer.producer];
                producer.attention == layer.attention && producer.head_dim == layer.head_dim
            };
            let rope = self.rope(layer.attention);
            if !fits || rope.pairs > layer.head_dim / 2 || !(rope.theta.is_finite() && rope.theta > 1.0) {
                let expected = "a layer of the target with the same kind and head_dim".to_string();
                return refuse(&format!("K/V producer of assistant layer {index}"), layer.producer, expected);
            }
        }
        Ok(())
    }
}
