//! The weights of a pack in the plainest form: one signed byte per code, row after row.
//!
//! Unpacking costs memory (four bytes where an int2 tensor has one) and buys linears of three lines. The gathered tables
//! stay as they are in the pack, a token reads one row of each.

use rawloop_pack::{Pack, PackError};
use rawloop_spec::{AttentionKind, Geometry, LinearKind, Program, tile};

use crate::linear::Linear;

/// A model cannot be taken from a pack.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A tensor is missing or has another shape.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The token is outside of the vocabulary.
    #[error("token {token} is outside of the vocabulary of {vocab} tokens")]
    Token {
        /// The id.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// The pack has no drafter.
    #[error("{0} has no drafter; convert it with an assistant checkpoint")]
    NoDrafter(String),
}

/// The weights of one layer.
pub(crate) struct LayerWeights {
    pub q: Linear,
    pub kv: Option<(Linear, Linear)>,
    pub o: Linear,
    pub gate: Linear,
    pub up: Linear,
    pub down: Linear,
    pub ple_gate: Linear,
    pub ple_projection: Linear,
    pub input_norm: Vec<f32>,
    pub q_norm: Vec<f32>,
    pub k_norm: Vec<f32>,
    pub post_attention_norm: Vec<f32>,
    pub pre_ffn_norm: Vec<f32>,
    pub post_ffn_norm: Vec<f32>,
    pub post_ple_norm: Vec<f32>,
    pub layer_scalar: f32,
    pub gelu: Vec<f32>,
    pub ple_gelu: Vec<f32>,
}

/// A table of which a token reads one row: codes in row layout and scales.
pub(crate) struct Table {
    pub bits: rawloop_spec::Bits,
    pub columns: usize,
    pub codes: Vec<u8>,
    pub scales: Vec<f32>,
}

impl Table {
    /// Rule 11: `(code * scale) * factor` for every column, one scale per `columns / scales_per_row` columns.
    pub fn row(&self, token: u32, scales_per_row: usize, factor: f32) -> Vec<f32> {
        let row_bytes = self.bits.bytes(self.columns);
        let row = &self.codes[token as usize * row_bytes..][..row_bytes];
        let scales = &self.scales[token as usize * scales_per_row..][..scales_per_row];
        let block = self.columns / scales_per_row;
        (0..self.columns)
            .map(|column| {
                let code = tile::row_code(row, self.bits, column) as i32 - self.bits.zero_point();
                (code as f32 * scales[column / block]) * factor
            })
            .collect()
    }
}

/// A model, unpacked.
pub struct Model {
    /// Its shape.
    pub geometry: Geometry,
    /// What a token passes.
    pub program: Program,
    pub(crate) embed: Table,
    pub(crate) ple: Table,
    pub(crate) ple_model_projection: Vec<u16>,
    pub(crate) ple_norm: Vec<f32>,
    pub(crate) rope_sliding: Vec<f32>,
    pub(crate) rope_full: Vec<f32>,
    pub(crate) layers: Vec<LayerWeights>,
    pub(crate) final_norm: Vec<f32>,
    /// `[vocab x hidden]`, values of the codes.
    pub(crate) head: Vec<i8>,
    pub(crate) head_scales: Vec<f32>,
}

impl Model {
    /// Unpacks a model.
    ///
    /// # Errors
    /// A tensor that the pack's registry promises cannot be read.
    pub fn load(pack: &Pack) -> Result<Model, ModelError> {
        let geometry = pack.geometry().clone();
        let floats = |name: &str| -> Result<Vec<f32>, PackError> { Ok(pack.f32(name)?.to_vec()) };
        let table = |name: &str, bits, columns| -> Result<Table, PackError> {
            let codes = pack.codes(&format!("{name}.codes"))?.to_vec();
            Ok(Table { bits, columns, codes, scales: floats(&format!("{name}.scales"))? })
        };
        let layers = (0..geometry.layers.len()).map(|index| load_layer(pack, &geometry, index));
        let layers = layers.collect::<Result<Vec<_>, PackError>>()?;
        let (vocab, hidden) = (geometry.vocab, geometry.hidden);
        Ok(Model {
            program: Program::full(&geometry),
            embed: table("embed", geometry.embed_bits, hidden)?,
            ple: table("ple", geometry.ple_bits, geometry.layers.len() * geometry.ple_width)?,
            ple_model_projection: pack.bf16("ple.model_projection")?.to_vec(),
            ple_norm: floats("ple.norm")?,
            rope_sliding: floats("rope.sliding")?,
            rope_full: floats("rope.full")?,
            layers,
            final_norm: floats("final_norm")?,
            head: Linear::unpack(pack.codes("head.codes")?, geometry.head_bits, vocab, hidden),
            head_scales: floats("head.scales")?,
            geometry,
        })
    }

    pub(crate) fn inverse_frequencies(&self, kind: AttentionKind) -> &[f32] {
        match kind {
            AttentionKind::Sliding => &self.rope_sliding,
            AttentionKind::Full => &self.rope_full,
        }
    }
}

fn load_layer(pack: &Pack, geometry: &Geometry, index: usize) -> Result<LayerWeights, PackError> {
    let floats = |part: &str| -> Result<Vec<f32>, PackError> {
        Ok(pack.f32(&format!("layers.{index}.{part}"))?.to_vec())
    };
    let linear = |kind: LinearKind| -> Result<Linear, PackError> {
        let (rows, columns) = geometry.linear_shape(index, kind);
        let bits = geometry.layers[index].bits.get(kind);
        let name = |part: &str| format!("layers.{index}.{}.{part}", kind.name());
        let scales = pack.f32(&name("activation_scales"))?;
        Ok(Linear {
            rows,
            columns,
            codes: Linear::unpack(pack.codes(&name("codes"))?, bits, rows, columns),
            multipliers: pack.f32(&name("multipliers"))?.to_vec(),
            input_scale: scales[0],
            output_scale: scales[1],
        })
    };
    let owns = geometry.owns_kv(index);
    Ok(LayerWeights {
        q: linear(LinearKind::Q)?,
        kv: if owns { Some((linear(LinearKind::K)?, linear(LinearKind::V)?)) } else { None },
        o: linear(LinearKind::O)?,
        gate: linear(LinearKind::Gate)?,
        up: linear(LinearKind::Up)?,
        down: linear(LinearKind::Down)?,
        ple_gate: linear(LinearKind::PleGate)?,
        ple_projection: linear(LinearKind::PleProjection)?,
        input_norm: floats("input_norm")?,
        q_norm: floats("q_norm")?,
        k_norm: if owns { floats("k_norm")? } else { Vec::new() },
        post_attention_norm: floats("post_attention_norm")?,
        pre_ffn_norm: floats("pre_ffn_norm")?,
        post_ffn_norm: floats("post_ffn_norm")?,
        post_ple_norm: floats("post_ple_norm")?,
        layer_scalar: floats("layer_scalar")?[0],
        gelu: floats("gelu")?,
        ple_gelu: floats("ple_gelu")?,
    })
}
