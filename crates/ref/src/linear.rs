//! Rules 1 to 3: exact integer linears between static activation scales.

use rawloop_spec::contract::{bf16_to_f32, lane_sum, quantise};
use rawloop_spec::{Bits, tile};

/// A quantised linear `[rows x columns]`.
pub struct Linear {
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
    /// Values of the codes, row after row.
    pub codes: Vec<i8>,
    /// `s_in * w_scale`, one per row.
    pub multipliers: Vec<f32>,
    /// Scale of the input codes.
    pub input_scale: f32,
    /// Scale of the output codes.
    pub output_scale: f32,
}

impl Linear {
    /// Values of a tiled matrix's codes, row after row.
    pub fn unpack(tiles: &[u8], bits: Bits, rows: usize, columns: usize) -> Vec<i8> {
        let value = |row, column| tile::code(tiles, bits, columns, row, column) as i32 - bits.zero_point();
        (0..rows * columns).map(|i| value(i / columns, i % columns) as i8).collect()
    }

    /// Rule 1 on a whole vector, with this linear's input scale.
    pub fn quantise_input(&self, x: &[f32]) -> Vec<i8> {
        x.iter().map(|&value| quantise(value, self.input_scale)).collect()
    }

    /// Rules 2 and 3: output codes of input codes.
    pub fn output_codes(&self, input: &[i8]) -> Vec<i8> {
        let rows = self.codes.chunks_exact(self.columns).zip(&self.multipliers);
        rows.map(|(row, multiplier)| {
            let sum: i32 = row.iter().zip(input).map(|(&code, &q)| code as i32 * q as i32).sum();
            quantise(sum as f32 * multiplier, self.output_scale)
        })
        .collect()
    }

    /// The value of an output code.
    pub fn value(&self, code: i8) -> f32 {
        code as f32 * self.output_scale
    }
}

/// Rule 10: a bf16 matrix times a float vector, every row a lane sum.
pub fn bf16_linear(weights: &[u16], x: &[f32]) -> Vec<f32> {
    let rows = weights.chunks_exact(x.len());
    rows.map(|row| lane_sum(x.len(), |i| (bf16_to_f32(row[i]), x[i]))).collect()
}
