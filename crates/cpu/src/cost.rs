//! What a step costs, stage kind by stage kind: integer products, float products, bytes. Counted, not measured.
//!
//! Everything follows from the stage program and the geometry, the way this backend runs them: weights are read once a pass and
//! a pass has a bounded width (`columns.rs`), keys and values once for each token that sees them, and the prefill program
//! takes of its last layer k and v alone. Row work between two linears (norms, rope, quantising, softmax) is not counted:
//! it is a small multiple of the row, not of a matrix.
//!
//! Tests hold the bytes against what the kernels' counters say ([`crate::Counters`]) for every program, K/V format and
//! position, so a table made from here and a total made from there agree.

use std::ops::{Add, AddAssign, Range};

use rawloop_backend::columns::next_width;
use rawloop_spec::{AttentionKind, Geometry, Linear, Program, Stage, tile};

use crate::columns::{FULL_COLUMNS, PREFILL_COLUMNS};
use crate::counters::{Kind, STAGE_KINDS};
use crate::kv::KvFormat;
use crate::stages::head::HEAD_TOKENS;

/// Limbs of the head's input: each is one integer dot (contract rule 9).
const LIMBS: u64 = 3;

/// The cost of one stage kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageCost {
    /// Products of a code and an activation, added up in i32: linears, and three for each weight of the head.
    pub int8_macs: u64,
    /// Products of two floats, added up: the projection to the per-layer inputs, attention over the visible keys.
    pub f32_fmas: u64,
    /// Bytes of weights, multipliers and rows of gathered tables.
    pub weight_bytes: u64,
    /// Bytes of keys and values that are looked at.
    pub kv_bytes: u64,
}

impl StageCost {
    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.weight_bytes + self.kv_bytes
    }
}

impl Add for StageCost {
    type Output = StageCost;

    fn add(self, other: StageCost) -> StageCost {
        StageCost {
            int8_macs: self.int8_macs + other.int8_macs,
            f32_fmas: self.f32_fmas + other.f32_fmas,
            weight_bytes: self.weight_bytes + other.weight_bytes,
            kv_bytes: self.kv_bytes + other.kv_bytes,
        }
    }
}

/// The cost of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    kinds: [StageCost; STAGE_KINDS.len()],
}

impl Cost {
    /// One step of the full program over the tokens of one sequence at `positions`.
    pub fn full(geometry: &Geometry, kv: KvFormat, positions: Range<usize>) -> Cost {
        let passes = widths(positions.len(), FULL_COLUMNS);
        let head_passes = passes.map(|width| width.div_ceil(HEAD_TOKENS) as u64).sum();
        let passes = widths(positions.len(), FULL_COLUMNS).count() as u64;
        Counting { geometry, kv, positions, passes, head_passes }.count(&Program::full(geometry), None)
    }

    /// One step of the prefill program over the tokens of one sequence at `positions`.
    pub fn prefill(geometry: &Geometry, kv: KvFormat, positions: Range<usize>) -> Cost {
        let passes = widths(positions.len(), PREFILL_COLUMNS).count() as u64;
        let last = geometry.own_layers().checked_sub(1);
        Counting { geometry, kv, positions, passes, head_passes: 0 }.count(&Program::prefill(geometry), last)
    }

    /// By stage kind, in the order of [`STAGE_KINDS`].
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, StageCost)> {
        STAGE_KINDS.into_iter().zip(self.kinds)
    }

    /// All stages together.
    pub fn total(&self) -> StageCost {
        self.kinds.into_iter().fold(StageCost::default(), Add::add)
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        for (kind, other) in self.kinds.iter_mut().zip(other.kinds) {
            *kind = *kind + other;
        }
    }
}

/// Widths of the passes of a step.
fn widths(mut left: usize, most: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let width = next_width(left, most);
        left -= width;
        (width > 0).then_some(width)
    })
}

/// A step to be counted.
struct Counting<'a> {
    geometry: &'a Geometry,
    kv: KvFormat,
    positions: Range<usize>,
    passes: u64,
    head_passes: u64,
}

impl Counting<'_> {
    /// Adds up a program; of the layer `stored_only` nothing but k and v is computed.
    fn count(&self, program: &Program, stored_only: Option<usize>) -> Cost {
        let mut cost = Cost::default();
        for stage in &program.stages {
            let stored_only = stage.layer().is_some() && stage.layer() == stored_only;
            if let Some((kind, stage)) = self.stage(stage, stored_only) {
                let sum = &mut cost.kinds[kind as usize];
                *sum = *sum + stage;
            }
        }
        cost
    }

    fn stage(&self, stage: &Stage, stored_only: bool) -> Option<(Kind, StageCost)> {
        let Geometry { vocab, hidden, ple_width, .. } = *self.geometry;
        let tokens = self.positions.len() as u64;
        let gathered = |codes: usize, scales: usize| tokens * (codes + 4 * scales) as u64;
        Some(match stage {
            Stage::Embed => {
                let row = self.geometry.embed_bits.bytes(hidden);
                (Kind::Embed, StageCost { weight_bytes: gathered(row, 1), ..StageCost::default() })
            }
            Stage::PerLayerInputs { layers } => {
                let weights = (layers * ple_width * hidden) as u64;
                let rows = gathered(layers * self.geometry.ple_bits.bytes(ple_width), *layers);
                let cost = StageCost {
                    f32_fmas: tokens * weights,
                    weight_bytes: self.passes * 2 * weights + rows,
                    ..StageCost::default()
                };
                (Kind::PerLayerInputs, cost)
            }
            Stage::NormQkv { q, kv, .. } => {
                let q = (!stored_only).then_some(q);
                let linears = q.into_iter().chain(kv.iter().flat_map(|(k, v)| [k, v]));
                let cost = linears.map(|linear| self.linear(linear));
                (Kind::NormQkv, cost.fold(StageCost::default(), Add::add))
            }
            Stage::Attention { kind, head_dim, .. } if !stored_only => {
                (Kind::Attention, self.attention(*kind, *head_dim))
            }
            Stage::Attention { .. } => return None,
            Stage::Output { o, .. } => (Kind::Output, self.linear(o)),
            Stage::NormGateUp { gate, up, .. } => (Kind::NormGateUp, self.linear(gate) + self.linear(up)),
            Stage::Down { down, .. } => (Kind::Down, self.linear(down)),
            Stage::PleGate { gate, .. } => (Kind::PleGate, self.linear(gate)),
            Stage::PleProjection { projection, .. } => (Kind::PleProjection, self.linear(projection)),
            Stage::Head => {
                let codes = tile::matrix_bytes(self.geometry.head_bits, vocab, hidden);
                let cost = StageCost {
                    int8_macs: LIMBS * tokens * (vocab * hidden) as u64,
                    weight_bytes: self.head_passes * (codes + 4 * vocab) as u64,
                    ..StageCost::default()
                };
                (Kind::Head, cost)
            }
            Stage::FinalNorm | Stage::Pick => return None,
        })
    }

    fn linear(&self, linear: &Linear) -> StageCost {
        let Linear { rows, columns, bits, .. } = *linear;
        StageCost {
            int8_macs: (self.positions.len() * rows * columns) as u64,
            weight_bytes: self.passes * (tile::matrix_bytes(bits, rows, columns) + 4 * rows) as u64,
            ..StageCost::default()
        }
    }

    /// A score and a weighted value for every head and visible key.
    fn attention(&self, kind: AttentionKind, head_dim: usize) -> StageCost {
        let Geometry { heads, kv_heads, window, .. } = *self.geometry;
        let seen = |position: usize| match kind {
            AttentionKind::Sliding => (position + 1).min(window),
            AttentionKind::Full => position + 1,
        };
        let keys: u64 = self.positions.clone().map(|position| seen(position) as u64).sum();
        StageCost {
            f32_fmas: 2 * keys * (heads * head_dim) as u64,
            kv_bytes: 2 * keys * (kv_heads * self.kv.row_bytes(head_dim)) as u64,
            ..StageCost::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawloop_spec::presets;

    fn e2b() -> Geometry {
        presets::by_name("e2b").unwrap().geometry()
    }

    fn millions(count: u64) -> u64 {
        (count + 500_000) / 1_000_000
    }

    #[test]
    fn a_prompt_token_of_e2b_takes_528_million_multiply_adds_in_its_weights() {
        let total = Cost::prefill(&e2b(), KvFormat::F16, 0..1).total();
        // Attention of the first position: one key for the 14 layers below the last owner.
        let attention = 2 * 8 * (12 * 256 + 2 * 512);
        assert_eq!(total.f32_fmas - attention, 14 * 256 * 1536);
        assert_eq!(millions(total.int8_macs), 522);
        assert_eq!(millions(total.int8_macs + total.f32_fmas - attention), 528);
    }

    #[test]
    fn a_decoded_token_of_e2b_takes_1877_million_and_its_head() {
        let cost = Cost::full(&e2b(), KvFormat::F16, 0..1);
        let kind = |name| cost.kinds().find(|kind| kind.0 == name).unwrap().1;
        let head = kind("head").int8_macs;
        assert_eq!(head, 3 * 262_144 * 1536);
        let projection = kind("per_layer_inputs").f32_fmas;
        assert_eq!(millions(cost.total().int8_macs - head + projection), 1877);
        assert_eq!(millions(cost.total().weight_bytes), 795);
    }

    #[test]
    fn attention_counts_visible_keys_and_no_others() {
        let geometry = e2b();
        let of = |positions| {
            let cost = Cost::prefill(&geometry, KvFormat::F16, positions);
            cost.kinds().find(|kind| kind.0 == "attention").unwrap().1
        };
        // 12 sliding layers of 256 see 512 keys, 2 full layers of 512 see all.
        let expected = |keys: u64| 2 * 8 * (12 * 256 * keys.min(512) + 2 * 512 * keys);
        for position in [0, 510, 511, 512, 4095] {
            let cost = of(position..position + 1);
            assert_eq!(cost.f32_fmas, expected(position as u64 + 1), "position {position}");
            // One KV head, 2 bytes a value: an eighth of the products, times two bytes.
            assert_eq!(cost.kv_bytes, cost.f32_fmas / 8 * 2, "position {position}");
        }
        let all: u64 = (1..=700).map(expected).sum();
        assert_eq!(of(0..700).f32_fmas, all);
    }

    #[test]
    fn weights_are_read_once_a_pass() {
        let geometry = e2b();
        let bytes = |width| Cost::prefill(&geometry, KvFormat::F16, 0..width).total().weight_bytes;
        let rows = 384 + 4 + 14 * (128 + 4);
        assert_eq!(bytes(512) - bytes(1), 511 * rows);
        assert_eq!(bytes(513) - 513 * rows, 2 * (bytes(512) - 512 * rows));
        assert_eq!(Cost::prefill(&geometry, KvFormat::F16, 7..7), Cost::default());
        let head = |width| {
            let cost = Cost::full(&geometry, KvFormat::F16, 0..width);
            cost.kinds().find(|kind| kind.0 == "head").unwrap().1.weight_bytes
        };
        // 65 columns are passes of 33 and 32: five and four runs over the head.
        assert_eq!([head(8), head(9), head(65)], [head(1), 2 * head(1), 9 * head(1)]);
    }
}
