//! The stage program: what a token passes, as a flat list.
//!
//! Built once from a geometry. The reference interprets it, a backend executes the same list its own way, a listing prints
//! it. Two programs exist: [`Program::full`] for a token whose logits are wanted and [`Program::prefill`] for a prompt token
//! that is only needed for its K/V, which ends after the last layer that owns some.

use std::fmt;

use crate::Bits;
use crate::geometry::{AttentionKind, Geometry, LinearKind};

/// A quantised linear: `codes`, `multipliers` and `activation_scales` under one name (contract rules 1 to 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// Name without the part, `layers.3.q`.
    pub name: String,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
    /// Code width.
    pub bits: Bits,
}

impl Linear {
    /// Name of one of its tensors.
    pub fn part(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }
}

impl fmt::Display for Linear {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} int{} [{} x {}]", self.name, self.bits.width(), self.rows, self.columns)
    }
}

/// One stage. Every stage boundary is a tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Embedding row of the token (rule 11). Tap: `hidden`.
    Embed,
    /// Per-layer inputs of layers `0..layers`: projection, norm, table row (rules 10, 11). Tap: `per_layer_inputs`.
    PerLayerInputs {
        /// Layers whose inputs are wanted.
        layers: usize,
    },
    /// Input norm, then q and, in layers that own them, k and v (rules 1 to 4, 6). Taps: `input`, `q`, `k`, `v` as codes.
    NormQkv {
        /// Layer.
        layer: usize,
        /// Query projection.
        q: Linear,
        /// Key and value projections of a layer that owns its K/V.
        kv: Option<(Linear, Linear)>,
    },
    /// Head norms, rope, storing K/V, attention (rules 6 to 8, 12). Taps: `query`, `key_row`, `value_row`, `attention`.
    Attention {
        /// Layer.
        layer: usize,
        /// Layer whose K/V it reads.
        producer: usize,
        /// Sliding or full.
        kind: AttentionKind,
        /// Values per head.
        head_dim: usize,
    },
    /// Output projection, its norm, residual. Taps: `input`, `o`, `hidden`.
    Output {
        /// Layer.
        layer: usize,
        /// The projection.
        o: Linear,
    },
    /// FFN norm, gate and up (rule 4), GELU product (rule 5). Taps: `input`, `gate`, `up`, `ffn`.
    NormGateUp {
        /// Layer.
        layer: usize,
        /// Gate.
        gate: Linear,
        /// Up.
        up: Linear,
    },
    /// Down projection, its norm, residual. Taps: `down`, `hidden`.
    Down {
        /// Layer.
        layer: usize,
        /// The projection.
        down: Linear,
    },
    /// Per-layer-embedding gate and its product with the layer's input. Taps: `input`, `ple_gate`, `product`.
    PleGate {
        /// Layer.
        layer: usize,
        /// The gate.
        gate: Linear,
    },
    /// Per-layer-embedding projection, norm, residual, layer scalar (rule 11). Taps: `ple_projection`, `hidden`.
    PleProjection {
        /// Layer.
        layer: usize,
        /// The projection.
        projection: Linear,
    },
    /// The norm before the head. Tap: `final`.
    FinalNorm,
    /// Logits before the soft cap (rule 9). Tap: `logits`.
    Head,
    /// The token of the largest logit, lowest id on a tie. Tap: `token`.
    Pick,
}

impl Stage {
    /// Name of the stage kind.
    pub const fn name(&self) -> &'static str {
        match self {
            Stage::Embed => "embed",
            Stage::PerLayerInputs { .. } => "per_layer_inputs",
            Stage::NormQkv { .. } => "norm_qkv",
            Stage::Attention { .. } => "attention",
            Stage::Output { .. } => "output",
            Stage::NormGateUp { .. } => "norm_gate_up",
            Stage::Down { .. } => "down",
            Stage::PleGate { .. } => "ple_gate",
            Stage::PleProjection { .. } => "ple_projection",
            Stage::FinalNorm => "final_norm",
            Stage::Head => "head",
            Stage::Pick => "pick",
        }
    }

    /// The layer it belongs to.
    pub const fn layer(&self) -> Option<usize> {
        match self {
            Stage::NormQkv { layer, .. }
            | Stage::Attention { layer, .. }
            | Stage::Output { layer, .. }
            | Stage::NormGateUp { layer, .. }
            | Stage::Down { layer, .. }
            | Stage::PleGate { layer, .. }
            | Stage::PleProjection { layer, .. } => Some(*layer),
            _ => None,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:<16}", self.name())?;
        match self {
            Stage::PerLayerInputs { layers } => write!(f, " layers 0..{layers}"),
            Stage::NormQkv { q, kv, .. } => {
                write!(f, " {q}")?;
                if let Some((k, v)) = kv {
                    write!(f, "; {k}; {v}")?;
                }
                Ok(())
            }
            Stage::Attention { layer, producer, kind, head_dim } => {
                write!(f, " layers.{layer} {} head_dim {head_dim}, K/V of layer {producer}", kind.name())
            }
            Stage::Output { o, .. } => write!(f, " {o}"),
            Stage::NormGateUp { gate, up, .. } => write!(f, " {gate}; {up}"),
            Stage::Down { down, .. } => write!(f, " {down}"),
            Stage::PleGate { gate, .. } => write!(f, " {gate}"),
            Stage::PleProjection { projection, .. } => write!(f, " {projection}"),
            _ => Ok(()),
        }
    }
}

/// A list of stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The stages in order.
    pub stages: Vec<Stage>,
}

impl Program {
    /// Everything, from a token to the next.
    pub fn full(geometry: &Geometry) -> Program {
        let layers = geometry.layers.len();
        let mut stages = vec![Stage::Embed, Stage::PerLayerInputs { layers }];
        for layer in 0..layers {
            push_layer(geometry, layer, &mut stages);
        }
        stages.extend([Stage::FinalNorm, Stage::Head, Stage::Pick]);
        Program { stages }
    }

    /// What a prompt token needs whose logits nobody wants: all layers below the last K/V owner, and of that owner only
    /// q, k and v with the storing of K/V. Layers behind it own no K/V, so nothing later ever reads them.
    pub fn prefill(geometry: &Geometry) -> Program {
        let last = geometry.own_layers() - 1;
        let mut stages = vec![Stage::Embed, Stage::PerLayerInputs { layers: last }];
        for layer in 0..last {
            push_layer(geometry, layer, &mut stages);
        }
        push_layer(geometry, last, &mut stages);
        let keep =
            stages.iter().position(|stage| matches!(stage, Stage::Output { layer, .. } if *layer == last));
        stages.truncate(keep.unwrap_or(stages.len()));
        Program { stages }
    }
}

fn push_layer(geometry: &Geometry, layer: usize, stages: &mut Vec<Stage>) {
    let linear = |kind: LinearKind| {
        let (rows, columns) = geometry.linear_shape(layer, kind);
        let bits = geometry.layers[layer].bits.get(kind);
        Linear { name: format!("layers.{layer}.{}", kind.name()), rows, columns, bits }
    };
    let own = geometry.owns_kv(layer);
    let shape = geometry.layers[layer];
    stages.extend([
        Stage::NormQkv {
            layer,
            q: linear(LinearKind::Q),
            kv: own.then(|| (linear(LinearKind::K), linear(LinearKind::V))),
        },
        Stage::Attention { layer, producer: shape.producer, kind: shape.attention, head_dim: shape.head_dim },
        Stage::Output { layer, o: linear(LinearKind::O) },
        Stage::NormGateUp { layer, gate: linear(LinearKind::Gate), up: linear(LinearKind::Up) },
        Stage::Down { layer, down: linear(LinearKind::Down) },
        Stage::PleGate { layer, gate: linear(LinearKind::PleGate) },
        Stage::PleProjection { layer, projection: linear(LinearKind::PleProjection) },
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn a_full_program_has_seven_stages_a_layer() {
        let geometry = presets::by_name("e2b").unwrap().geometry();
        assert_eq!(Program::full(&geometry).stages.len(), 2 + 7 * 35 + 3);
    }

    #[test]
    fn prefill_stops_at_the_last_owner() {
        let geometry = presets::by_name("e2b").unwrap().geometry();
        let program = Program::prefill(&geometry);
        assert_eq!(program.stages.len(), 2 + 7 * 14 + 2);
        assert!(matches!(program.stages.last(), Some(Stage::Attention { layer: 14, .. })));
        assert_eq!(program.stages[1], Stage::PerLayerInputs { layers: 14 });
    }

    #[test]
    fn prefill_is_the_beginning_of_the_full_program() {
        for preset in presets::all() {
            let geometry = preset.geometry();
            let (full, prefill) = (Program::full(&geometry), Program::prefill(&geometry));
            assert_eq!(full.stages[2..prefill.stages.len()], prefill.stages[2..]);
        }
    }
}
