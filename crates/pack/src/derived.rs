//! Whether what the converter computed is what the contract computes from the rest of the pack.
//!
//! A wrong multiplier or table has a right hash, and every backend would agree on the wrong answer. So verification makes
//! the derived tensors again: multipliers (rule 2), shared input scales (rule 4), GELU tables (rule 5), rope frequencies
//! (rule 7) and the rows that fill up the last tile.

use rawloop_spec::{AttentionKind, Format, Geometry, LinearKind, contract, tile};

use crate::error::PackError;
use crate::pack::{Pack, Tensor};

impl Pack {
    /// Checks every derived tensor.
    pub(crate) fn check_derived(&self) -> Result<(), PackError> {
        let geometry = self.geometry();
        for kind in [AttentionKind::Sliding, AttentionKind::Full] {
            let Some(head_dim) = head_dim(geometry, kind) else { continue };
            let rope = geometry.rope(kind);
            let expected = contract::inverse_frequencies(rope.theta, head_dim, rope.pairs);
            self.expect(&format!("rope.{}", kind.name()), &expected)?;
            if let Some(drafter) = &self.manifest().drafter {
                let rope = drafter.rope(kind);
                let expected = contract::inverse_frequencies(rope.theta, head_dim, rope.pairs);
                self.expect(&format!("drafter.rope.{}", kind.name()), &expected)?;
            }
        }
        for layer in 0..geometry.layers.len() {
            self.check_layer(layer)?;
        }
        for tensor in self.tensors() {
            self.check_fill(&tensor)?;
        }
        Ok(())
    }

    fn check_layer(&self, layer: usize) -> Result<(), PackError> {
        let geometry = self.geometry();
        let name = |kind: LinearKind, part: &str| format!("layers.{layer}.{}.{part}", kind.name());
        let scales = |kind| self.f32(&name(kind, "activation_scales"));
        for kind in geometry.linears(layer) {
            let input = scales(kind)?[0];
            let weights = self.f32(&name(kind, "weight_scales"))?;
            let expected: Vec<f32> = weights.iter().map(|&scale| input * scale).collect();
            self.expect(&name(kind, "multipliers"), &expected)?;
            let shared_with = match kind {
                LinearKind::K | LinearKind::V => LinearKind::Q,
                LinearKind::Up => LinearKind::Gate,
                _ => kind,
            };
            let output = scales(kind)?[1];
            self.expect(&name(kind, "activation_scales"), &[scales(shared_with)?[0], output])?;
        }
        for (table, gate) in [("gelu", LinearKind::Gate), ("ple_gelu", LinearKind::PleGate)] {
            let expected = contract::gelu_table(scales(gate)?[1]);
            self.expect(&format!("layers.{layer}.{table}"), &expected)?;
        }
        Ok(())
    }

    /// Compares by bits: the contract leaves no room for a near miss.
    fn expect(&self, name: &str, expected: &[f32]) -> Result<(), PackError> {
        let found = self.f32(name)?;
        match found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits()) {
            Some(index) => Err(PackError::Tensor {
                file: self.label().into(),
                tensor: name.into(),
                what: "a derived value",
                found: format!("{} at {index}", found[index]),
                expected: format!("{}, which follows from the other tensors", expected[index]),
            }),
            None => Ok(()),
        }
    }

    /// Rows behind the last one of a tiled matrix are the zero point, so that their sums are zero.
    fn check_fill(&self, tensor: &Tensor) -> Result<(), PackError> {
        let entry = tensor.entry;
        let Format::Tiles(bits) = entry.format else { return Ok(()) };
        let end = entry.rows.next_multiple_of(tile::rows(bits));
        for row in entry.rows..end {
            for column in 0..entry.columns {
                let code = tile::code(tensor.bytes, bits, entry.columns, row, column);
                if i32::from(code) != bits.zero_point() {
                    return Err(PackError::Tensor {
                        file: self.label().into(),
                        tensor: entry.name.clone(),
                        what: "a code behind the last row",
                        found: format!("{code} in row {row}, column {column}"),
                        expected: format!("the zero point {}", bits.zero_point()),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Head dim of the layers of a kind: the denominator of their rope exponents.
fn head_dim(geometry: &Geometry, kind: AttentionKind) -> Option<usize> {
    geometry.layers.iter().find(|layer| layer.attention == kind).map(|layer| layer.head_dim)
}
