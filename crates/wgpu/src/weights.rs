//! A pack's tensors on the device: one buffer each, and several for one that is larger than a binding may be.
//!
//! Bytes are copied as they lie in the pack; the kernels read the pack's tiles. The table of per-layer embeddings may stay in the mapped
//! pack instead ([`TablePlace::Host`]).

use std::sync::Arc;

use rawloop_pack::{Pack, PackError};
use rawloop_spec::{AttentionKind, Bits, Geometry, LinearKind, tile};
use wgpu::Buffer;

use crate::gpu::Gpu;
use crate::options::{TablePlace, WgpuError};

/// Rows of a matrix or table in one buffer.
pub(crate) struct Part {
    pub buffer: Buffer,
    pub first_row: usize,
    pub rows: usize,
}

/// A quantised matrix.
pub(crate) struct Matrix {
    pub parts: Vec<Part>,
    /// Row multipliers, or the head's row scales.
    pub multipliers: Buffer,
    pub rows: usize,
    pub inputs: usize,
    pub bits: Bits,
    pub input_scale: f32,
    pub output_scale: f32,
}

/// A table of which a token reads one row.
pub(crate) struct Table {
    pub parts: Vec<Part>,
    pub scales: Buffer,
    pub bits: Bits,
    /// Values of a row.
    pub columns: usize,
    /// Values that share a scale.
    pub block: usize,
    pub factor: f32,
}

/// The weights of one layer.
pub(crate) struct LayerWeights {
    pub q: Matrix,
    pub kv: Option<(Matrix, Matrix)>,
    pub o: Matrix,
    pub gate: Matrix,
    pub up: Matrix,
    /// Multipliers of gate, then of up.
    pub gate_up_multipliers: Buffer,
    pub down: Matrix,
    pub ple_gate: Matrix,
    pub ple_projection: Matrix,
    pub input_norm: Buffer,
    /// Norms of q, then of k.
    pub head_norms: Buffer,
    pub post_attention_norm: Buffer,
    pub pre_ffn_norm: Buffer,
    pub post_ffn_norm: Buffer,
    pub post_ple_norm: Buffer,
    pub layer_scalar: f32,
    pub gelu: Buffer,
    pub ple_gelu: Buffer,
}

/// All weights.
pub(crate) struct Weights {
    pub geometry: Geometry,
    pub embed: Table,
    /// None where it stays on the host.
    pub ple: Option<Table>,
    pub model_projection: Buffer,
    pub ple_norm: Buffer,
    /// Inverse frequencies of sliding and of full layers.
    pub frequencies: [Vec<f32>; 2],
    pub layers: Vec<LayerWeights>,
    pub final_norm: Buffer,
    pub head: Matrix,
    /// Bytes on the device.
    pub bytes: usize,
}

/// Copies tensors and counts them.
struct Loader<'a> {
    gpu: &'a Gpu,
    pack: &'a Pack,
    /// Bytes that one buffer may have.
    most: usize,
    bytes: usize,
}

impl Loader<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Buffer {
        self.bytes += bytes.len();
        self.gpu.copy(bytes)
    }

    fn floats(&mut self, name: &str) -> Result<Buffer, PackError> {
        let pack = self.pack;
        Ok(self.bytes(bytemuck::cast_slice(pack.f32(name)?)))
    }

    /// `bytes` in parts of whole units of `unit` bytes and `rows` rows.
    fn parts(&mut self, name: &str, bytes: &[u8], unit: usize, rows: usize) -> Result<Vec<Part>, WgpuError> {
        let units = self.most / unit;
        if units == 0 {
            return Err(self.shape(format!("a row tile of {name} has {unit} bytes, a binding {}", self.most)));
        }
        let parts = bytes.chunks(units * unit).enumerate().map(|(index, part)| {
            let count = part.len() / unit * rows;
            Part { buffer: self.bytes(part), first_row: index * units * rows, rows: count }
        });
        Ok(parts.collect())
    }

    fn shape(&self, what: String) -> WgpuError {
        WgpuError::Shape { pack: self.pack.label().into(), what }
    }

    fn matrix(&mut self, name: &str, bits: Bits, rows: usize, inputs: usize) -> Result<Matrix, WgpuError> {
        let pack = self.pack;
        let codes = pack.codes(&format!("{name}.codes"))?;
        let parts = self.parts(name, codes, tile::tile_bytes(bits, inputs), tile::rows(bits))?;
        let scales = pack.f32(&format!("{name}.activation_scales"))?;
        let multipliers = self.floats(&format!("{name}.multipliers"))?;
        let (input_scale, output_scale) = (scales[0], scales[1]);
        Ok(Matrix { parts, multipliers, rows, inputs, bits, input_scale, output_scale })
    }

    fn table(&mut self, name: &str, bits: Bits, columns: usize, block: usize) -> Result<Table, WgpuError> {
        let pack = self.pack;
        let codes = pack.codes(&format!("{name}.codes"))?;
        let parts = self.parts(name, codes, bits.bytes(columns), 1)?;
        let scales = self.floats(&format!("{name}.scales"))?;
        Ok(Table { parts, scales, bits, columns, block, factor: (block as f64).sqrt() as f32 })
    }

    fn layer(&mut self, geometry: &Geometry, index: usize) -> Result<LayerWeights, WgpuError> {
        let pack = self.pack;
        let name = |part: &str| format!("layers.{index}.{part}");
        let linear = |loader: &mut Self, kind: LinearKind| {
            let (rows, inputs) = geometry.linear_shape(index, kind);
            loader.matrix(&name(kind.name()), geometry.layers[index].bits.get(kind), rows, inputs)
        };
        let pair = |loader: &mut Self, first: &str, second: Option<&str>| -> Result<Buffer, PackError> {
            let mut both = pack.f32(&name(first))?.to_vec();
            if let Some(second) = second {
                both.extend_from_slice(pack.f32(&name(second))?);
            }
            Ok(loader.bytes(bytemuck::cast_slice(&both)))
        };
        let owns = geometry.owns_kv(index);
        let weights = LayerWeights {
            q: linear(self, LinearKind::Q)?,
            kv: if owns { Some((linear(self, LinearKind::K)?, linear(self, LinearKind::V)?)) } else { None },
            o: linear(self, LinearKind::O)?,
            gate: linear(self, LinearKind::Gate)?,
            up: linear(self, LinearKind::Up)?,
            gate_up_multipliers: pair(self, "gate.multipliers", Some("up.multipliers"))?,
            down: linear(self, LinearKind::Down)?,
            ple_gate: linear(self, LinearKind::PleGate)?,
            ple_projection: linear(self, LinearKind::PleProjection)?,
            input_norm: self.floats(&name("input_norm"))?,
            head_norms: pair(self, "q_norm", owns.then_some("k_norm"))?,
            post_attention_norm: self.floats(&name("post_attention_norm"))?,
            pre_ffn_norm: self.floats(&name("pre_ffn_norm"))?,
            post_ffn_norm: self.floats(&name("post_ffn_norm"))?,
            post_ple_norm: self.floats(&name("post_ple_norm"))?,
            layer_scalar: pack.f32(&name("layer_scalar"))?[0],
            gelu: self.floats(&name("gelu"))?,
            ple_gelu: self.floats(&name("ple_gelu"))?,
        };
        for matrix in [&weights.gate, &weights.up, &weights.ple_gate] {
            if matrix.parts.len() != 1 {
                return Err(self.shape(format!("an FFN matrix of layer {index} is larger than a binding")));
            }
        }
        Ok(weights)
    }
}

impl Weights {
    /// Copies a pack to a device.
    ///
    /// # Errors
    /// A tensor cannot be read, is too large for the device's limits, or does not fit its memory.
    pub fn load(pack: &Arc<Pack>, gpu: &Gpu, place: TablePlace) -> Result<Weights, WgpuError> {
        let geometry = pack.geometry().clone();
        let (vocab, hidden, width) = (geometry.vocab, geometry.hidden, geometry.ple_width);
        let layers = geometry.layers.len();
        let most = gpu.limits.max_storage_buffer_binding_size.min(gpu.limits.max_buffer_size);
        let mut loader = Loader { gpu, pack, most: usize::try_from(most).unwrap_or(usize::MAX), bytes: 0 };
        let projection: &[u8] = bytemuck::cast_slice(pack.bf16("ple.model_projection")?);
        if projection.len() > loader.most || vocab * layers * 4 > loader.most {
            return Err(loader.shape("per-layer projection or scales are larger than a binding".into()));
        }
        let frequencies = |kind: AttentionKind| pack.f32(&format!("rope.{}", kind.name()));
        let embed = loader.table("embed", geometry.embed_bits, hidden, hidden)?;
        let ple = match place {
            TablePlace::Device => Some(loader.table("ple", geometry.ple_bits, layers * width, width)?),
            TablePlace::Host => None,
        };
        let codes = pack.codes("head.codes")?;
        let bits = geometry.head_bits;
        let parts = loader.parts("head", codes, tile::tile_bytes(bits, hidden), tile::rows(bits))?;
        let head = Matrix {
            parts,
            multipliers: loader.floats("head.scales")?,
            rows: vocab,
            inputs: hidden,
            bits,
            input_scale: 0.0,
            output_scale: 0.0,
        };
        let frequencies =
            [frequencies(AttentionKind::Sliding)?.to_vec(), frequencies(AttentionKind::Full)?.to_vec()];
        let list = (0..layers).map(|index| {
            let layer = loader.layer(&geometry, index)?;
            gpu.check()?;
            Ok(layer)
        });
        let list = list.collect::<Result<Vec<_>, WgpuError>>()?;
        let weights = Weights {
            embed,
            ple,
            model_projection: loader.bytes(projection),
            ple_norm: loader.floats("ple.norm")?,
            frequencies,
            layers: list,
            final_norm: loader.floats("final_norm")?,
            head,
            bytes: loader.bytes,
            geometry,
        };
        gpu.wait()?;
        Ok(weights)
    }
}

/// The row of a token in the table of per-layer embeddings as floats, from the mapped pack (rule 11).
///
/// # Errors
/// The pack has no such table.
pub(crate) fn host_row(pack: &Pack, token: u32, row: &mut [f32]) -> Result<(), PackError> {
    let geometry = pack.geometry();
    let (bits, width) = (geometry.ple_bits, geometry.ple_width);
    let bytes = bits.bytes(row.len());
    let codes = &pack.codes("ple.codes")?[token as usize * bytes..][..bytes];
    let layers = geometry.layers.len();
    let scales = &pack.f32("ple.scales")?[token as usize * layers..][..layers];
    let factor = (width as f64).sqrt() as f32;
    for (column, value) in row.iter_mut().enumerate() {
        let code = tile::row_code(codes, bits, column) as i32 - bits.zero_point();
        *value = (code as f32 * scales[column / width]) * factor;
    }
    Ok(())
}
