//! A pack, resolved: where every tensor of a token's way lies in the mapping, without names.
//!
//! Loading looks every tensor up once and keeps byte ranges, row counts and the few scalars (activation scales, layer
//! scalar); nothing is copied and nothing repacked, so a model of any size loads in the time of a few thousand look-ups. A
//! stage turns a range into a slice through [`Mapping`], which costs a bounds check and no more.
//!
//! Invariant: every range lies inside the pack it was made from and has the tensor's format, since `rawloop_pack` checked
//! both. Read `drafter_weights.rs` for the drafter's part.

use std::sync::Arc;

use rawloop_pack::{Pack, PackError};
use rawloop_spec::{AttentionKind, Bits, Geometry, LinearKind, Program, Stage};

use crate::kernels::Tiles;

/// f32 values in the mapping.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Floats {
    offset: usize,
    count: usize,
}

/// bf16 values in the mapping, row-major.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Halves {
    offset: usize,
    count: usize,
}

/// u32 values in the mapping.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Words {
    offset: usize,
    count: usize,
}

/// Tiled weight codes in the mapping, `[rows x columns]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub bits: Bits,
    pub rows: usize,
    pub columns: usize,
    offset: usize,
    pub bytes: usize,
}

#[cfg(test)]
impl Matrix {
    /// A shape without a place, for tests of what depends on shapes alone.
    pub fn detached(bits: Bits, rows: usize, columns: usize) -> Matrix {
        let bytes = rawloop_spec::tile::matrix_bytes(bits, rows, columns);
        Matrix { bits, rows, columns, offset: 0, bytes }
    }
}

/// A quantised linear (contract rules 1 to 3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linear {
    pub matrix: Matrix,
    /// `s_in * w_scale`, one for each row.
    pub multipliers: Floats,
    pub input_scale: f32,
    pub output_scale: f32,
}

/// A table of which a token reads one row: codes in row layout, scales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub bits: Bits,
    pub columns: usize,
    offset: usize,
    bytes: usize,
    scales: Floats,
    scales_per_row: usize,
}

/// One layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerWeights {
    pub attention: AttentionKind,
    pub head_dim: usize,
    pub producer: usize,
    pub q: Linear,
    pub kv: Option<KvLinears>,
    pub o: Linear,
    pub gate: Linear,
    pub up: Linear,
    pub down: Linear,
    pub ple_gate: Linear,
    pub ple_projection: Linear,
    pub input_norm: Floats,
    pub q_norm: Floats,
    pub post_attention_norm: Floats,
    pub pre_ffn_norm: Floats,
    pub post_ffn_norm: Floats,
    pub post_ple_norm: Floats,
    pub layer_scalar: f32,
    pub gelu: Floats,
    pub ple_gelu: Floats,
    /// Index of the layer's first stage in the full program.
    pub stage: usize,
}

/// What a layer that owns its K/V has besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvLinears {
    pub k: Linear,
    pub v: Linear,
    pub k_norm: Floats,
}

/// A model, resolved.
pub(crate) struct Weights {
    pack: Arc<Pack>,
    pub geometry: Geometry,
    pub embed: Table,
    pub ple: Table,
    pub model_projection: Halves,
    pub ple_norm: Floats,
    pub rope_sliding: Floats,
    pub rope_full: Floats,
    pub layers: Vec<LayerWeights>,
    pub final_norm: Floats,
    pub head: Matrix,
    pub head_scales: Floats,
    /// Index of the final norm in the full program; the head and the pick follow it.
    pub final_stage: usize,
    /// Layers `0..own_layers` own K/V.
    pub own_layers: usize,
    /// `f32(sqrt(hidden))`, rule 11.
    pub embed_factor: f32,
    /// `f32(sqrt(ple_width))`, rule 11.
    pub ple_factor: f32,
    /// `f32(hidden^-0.5)`, rule 10.
    pub projection_factor: f32,
}

/// `f32(2^-0.5)`, rule 11.
pub(crate) const HALF_ROOT: f32 = std::f64::consts::FRAC_1_SQRT_2 as f32;

/// The bytes that ranges are ranges of.
#[derive(Clone, Copy)]
pub(crate) struct Mapping<'a>(&'a [u8]);

impl<'a> Mapping<'a> {
    pub fn floats(self, floats: Floats) -> &'a [f32] {
        bytemuck::cast_slice(&self.0[floats.offset..][..4 * floats.count])
    }

    /// A GELU table, entry `code + 128`.
    pub fn gelu(self, table: Floats) -> &'a [f32; 256] {
        match self.floats(table).try_into() {
            Ok(table) => table,
            Err(_) => unreachable!("the registry gives GELU tables 256 entries"),
        }
    }

    pub fn halves(self, halves: Halves) -> &'a [u16] {
        bytemuck::cast_slice(&self.0[halves.offset..][..2 * halves.count])
    }

    pub fn words(self, words: Words) -> &'a [u32] {
        bytemuck::cast_slice(&self.0[words.offset..][..4 * words.count])
    }

    pub fn bytes(self, matrix: &Matrix) -> &'a [u8] {
        &self.0[matrix.offset..][..matrix.bytes]
    }

    pub fn tiles(self, matrix: &Matrix) -> Tiles<'a> {
        match Tiles::new(matrix.bits, matrix.rows, matrix.columns, self.bytes(matrix)) {
            Ok(tiles) => tiles,
            Err(error) => unreachable!("the pack was checked: {error}"),
        }
    }

    /// One row of a gathered table: its codes and scales.
    pub fn row(self, table: &Table, row: u32) -> (&'a [u8], &'a [f32]) {
        let (row, bytes) = (row as usize, table.bits.bytes(table.columns));
        let codes = &self.0[table.offset..][..table.bytes][row * bytes..][..bytes];
        (codes, &self.floats(table.scales)[row * table.scales_per_row..][..table.scales_per_row])
    }
}

/// Looks tensors up.
#[derive(Clone, Copy)]
pub(crate) struct Resolver<'a>(pub &'a Pack);

impl Resolver<'_> {
    pub fn floats(self, name: &str) -> Result<Floats, PackError> {
        let count = self.0.f32(name)?.len();
        Ok(Floats { offset: self.offset(name)?, count })
    }

    pub fn scalar(self, name: &str) -> Result<f32, PackError> {
        Ok(self.0.f32(name)?.first().copied().unwrap_or_default())
    }

    pub fn halves(self, name: &str) -> Result<Halves, PackError> {
        let count = self.0.bf16(name)?.len();
        Ok(Halves { offset: self.offset(name)?, count })
    }

    pub fn words(self, name: &str) -> Result<Words, PackError> {
        let count = self.0.u32(name)?.len();
        Ok(Words { offset: self.offset(name)?, count })
    }

    fn matrix(self, name: &str, bits: Bits, rows: usize, columns: usize) -> Result<Matrix, PackError> {
        let bytes = self.0.codes(name)?.len();
        Ok(Matrix { bits, rows, columns, offset: self.offset(name)?, bytes })
    }

    fn table(
        self,
        name: &str,
        bits: Bits,
        columns: usize,
        scales_per_row: usize,
    ) -> Result<Table, PackError> {
        let codes = format!("{name}.codes");
        let bytes = self.0.codes(&codes)?.len();
        let scales = self.floats(&format!("{name}.scales"))?;
        Ok(Table { bits, columns, offset: self.offset(&codes)?, bytes, scales, scales_per_row })
    }

    fn offset(self, name: &str) -> Result<usize, PackError> {
        // The tensor lies inside the mapping, so its offset fits usize.
        Ok(self.0.tensor(name)?.entry.offset as usize)
    }
}

impl Weights {
    /// Resolves a pack and tells the operating system how its tensors will be read.
    ///
    /// # Errors
    /// A tensor that the registry promises cannot be read.
    pub fn load(pack: Arc<Pack>) -> Result<Weights, PackError> {
        let resolver = Resolver(&pack);
        let geometry = pack.geometry().clone();
        let program = Program::full(&geometry);
        let first_stage = |wanted: usize| {
            let found = |stage: &Stage| matches!(stage, Stage::NormQkv { layer, .. } if *layer == wanted);
            program.stages.iter().position(found).unwrap_or_default()
        };
        let layers = (0..geometry.layers.len())
            .map(|index| load_layer(resolver, &geometry, index, first_stage(index)))
            .collect::<Result<Vec<_>, PackError>>()?;
        let layer_count = layers.len();
        let (vocab, hidden, ple_width) = (geometry.vocab, geometry.hidden, geometry.ple_width);
        pack.advise_weights();
        pack.advise_gathered();
        Ok(Weights {
            embed: resolver.table("embed", geometry.embed_bits, hidden, 1)?,
            ple: resolver.table("ple", geometry.ple_bits, layer_count * ple_width, layer_count)?,
            model_projection: resolver.halves("ple.model_projection")?,
            ple_norm: resolver.floats("ple.norm")?,
            rope_sliding: resolver.floats("rope.sliding")?,
            rope_full: resolver.floats("rope.full")?,
            layers,
            final_norm: resolver.floats("final_norm")?,
            head: resolver.matrix("head.codes", geometry.head_bits, vocab, hidden)?,
            head_scales: resolver.floats("head.scales")?,
            final_stage: program.stages.iter().position(|s| *s == Stage::FinalNorm).unwrap_or_default(),
            own_layers: geometry.own_layers(),
            embed_factor: (hidden as f64).sqrt() as f32,
            ple_factor: (ple_width as f64).sqrt() as f32,
            projection_factor: (1.0 / (hidden as f64).sqrt()) as f32,
            geometry,
            pack,
        })
    }

    /// The bytes behind the ranges.
    pub fn mapping(&self) -> Mapping<'_> {
        Mapping(self.pack.bytes())
    }

    /// Inverse frequencies of a kind of layer.
    pub fn frequencies(&self, kind: AttentionKind) -> &[f32] {
        self.mapping().floats(match kind {
            AttentionKind::Sliding => self.rope_sliding,
            AttentionKind::Full => self.rope_full,
        })
    }
}

fn load_layer(
    resolver: Resolver<'_>,
    geometry: &Geometry,
    index: usize,
    stage: usize,
) -> Result<LayerWeights, PackError> {
    let floats = |part: &str| resolver.floats(&format!("layers.{index}.{part}"));
    let linear = |kind: LinearKind| -> Result<Linear, PackError> {
        let (rows, columns) = geometry.linear_shape(index, kind);
        let part = |part: &str| format!("layers.{index}.{}.{part}", kind.name());
        let scales = resolver.0.f32(&part("activation_scales"))?;
        let bits = geometry.layers[index].bits.get(kind);
        Ok(Linear {
            matrix: resolver.matrix(&part("codes"), bits, rows, columns)?,
            multipliers: resolver.floats(&part("multipliers"))?,
            input_scale: scales[0],
            output_scale: scales[1],
        })
    };
    let kv = if geometry.owns_kv(index) {
        let (k, v) = (linear(LinearKind::K)?, linear(LinearKind::V)?);
        Some(KvLinears { k, v, k_norm: floats("k_norm")? })
    } else {
        None
    };
    let shape = geometry.layers[index];
    Ok(LayerWeights {
        attention: shape.attention,
        head_dim: shape.head_dim,
        producer: shape.producer,
        q: linear(LinearKind::Q)?,
        kv,
        o: linear(LinearKind::O)?,
        gate: linear(LinearKind::Gate)?,
        up: linear(LinearKind::Up)?,
        down: linear(LinearKind::Down)?,
        ple_gate: linear(LinearKind::PleGate)?,
        ple_projection: linear(LinearKind::PleProjection)?,
        input_norm: floats("input_norm")?,
        q_norm: floats("q_norm")?,
        post_attention_norm: floats("post_attention_norm")?,
        pre_ffn_norm: floats("pre_ffn_norm")?,
        post_ffn_norm: floats("post_ffn_norm")?,
        post_ple_norm: floats("post_ple_norm")?,
        layer_scalar: resolver.scalar(&format!("layers.{index}.layer_scalar"))?,
        gelu: floats("gelu")?,
        ple_gelu: floats("ple_gelu")?,
        stage,
    })
}
