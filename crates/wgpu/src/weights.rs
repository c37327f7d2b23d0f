//! A pack's tensors on the device: one buffer each, and several for one that is larger than a binding may be.
//!
//! Bytes are those of the pack, copied or read in place (`import.rs`); the kernels read the pack's tiles. The table of per-layer embeddings may stay in the mapped
//! pack instead ([`TablePlace::Host`]).

use std::sync::Arc;

use rawloop_pack::{Pack, PackError};
use rawloop_spec::{AttentionKind, Bits, Geometry, LinearKind, tile};
use wgpu::Buffer;

use crate::gpu::Gpu;
use crate::import::{self, Import};
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
    /// Multipliers of q, k and v, one behind the other.
    pub qkv_multipliers: Buffer,
    pub gate: Matrix,
    pub up: Matrix,
    /// Multipliers of gate, then of up, then the table of GELU.
    pub gate_up_factors: Buffer,
    pub down: Matrix,
    pub ple_gate: Matrix,
    pub ple_projection: Matrix,
    /// Multipliers of the gate, then its table of GELU.
    pub ple_gate_factors: Buffer,
    /// The norm of the layer before this one, which its linear joins the stream by, then the norm of q, k and v. The first layer has its own
    /// norm twice.
    pub qkv_norms: Buffer,
    /// Norms of q, then of k.
    pub head_norms: Buffer,
    /// The norm behind attention, then the one before the FFN.
    pub ffn_norms: Buffer,
    /// The norm behind the FFN.
    pub ple_norms: Buffer,
    pub layer_scalar: f32,
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
    /// The norm behind the last layer, then the final one.
    pub final_norms: Buffer,
    pub head: Matrix,
    /// Bytes that were copied to the device.
    pub bytes: usize,
    /// Bytes that it reads where the pack is mapped.
    pub in_place: usize,
    /// The memory behind those; goes last.
    _import: Option<Import>,
}

/// Copies tensors and counts them.
struct Loader<'a> {
    gpu: &'a Gpu,
    pack: &'a Pack,
    /// Bytes that one buffer may have.
    most: usize,
    import: Option<Import>,
    bytes: usize,
    in_place: usize,
    /// Is told of bytes that were copied.
    progress: &'a mut dyn FnMut(usize),
}

impl Loader<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Buffer {
        /// Bytes between two reports.
        const REPORTED: usize = 64 << 20;
        if let Some(buffer) = self.import.as_ref().and_then(|import| import.buffer(bytes)) {
            self.in_place += bytes.len();
            return buffer;
        }
        self.bytes += bytes.len();
        let buffer = self.gpu.storage(bytes.len());
        for (index, piece) in bytes.chunks(REPORTED).enumerate() {
            self.gpu.write(&buffer, index * REPORTED, piece);
            (self.progress)(piece.len());
        }
        buffer
    }

    fn floats(&mut self, name: &str) -> Result<Buffer, PackError> {
        let pack = self.pack;
        Ok(self.bytes(bytemuck::cast_slice(pack.f32(name)?)))
    }

    /// Several tensors of floats in one buffer: a stage may bind eight.
    fn joined(&mut self, names: &[String]) -> Result<Buffer, PackError> {
        let mut all = Vec::new();
        for name in names {
            all.extend_from_slice(self.pack.f32(name)?);
        }
        Ok(self.bytes(bytemuck::cast_slice(&all)))
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
        let owns = geometry.owns_kv(index);
        let input_norm = name("input_norm");
        let before =
            if index == 0 { input_norm.clone() } else { format!("layers.{}.post_ple_norm", index - 1) };
        let own = |parts: &[&str]| parts.iter().map(|part| name(part)).collect::<Vec<_>>();
        let qkv = ["q.multipliers", "k.multipliers", "v.multipliers"];
        let head_norms = ["q_norm", "k_norm"];
        let weights = LayerWeights {
            q: linear(self, LinearKind::Q)?,
            kv: if owns { Some((linear(self, LinearKind::K)?, linear(self, LinearKind::V)?)) } else { None },
            o: linear(self, LinearKind::O)?,
            gate: linear(self, LinearKind::Gate)?,
            up: linear(self, LinearKind::Up)?,
            qkv_multipliers: self.joined(&own(&qkv[..if owns { 3 } else { 1 }]))?,
            gate_up_factors: self.joined(&own(&["gate.multipliers", "up.multipliers", "gelu"]))?,
            down: linear(self, LinearKind::Down)?,
            ple_gate: linear(self, LinearKind::PleGate)?,
            ple_projection: linear(self, LinearKind::PleProjection)?,
            ple_gate_factors: self.joined(&own(&["ple_gate.multipliers", "ple_gelu"]))?,
            qkv_norms: self.joined(&[before, input_norm])?,
            head_norms: self.joined(&own(&head_norms[..if owns { 2 } else { 1 }]))?,
            ffn_norms: self.joined(&own(&["post_attention_norm", "pre_ffn_norm"]))?,
            ple_norms: self.joined(&own(&["post_ffn_norm"]))?,
            layer_scalar: pack.f32(&name("layer_scalar"))?[0],
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
    pub fn load(
        pack: &Arc<Pack>,
        gpu: &Gpu,
        place: TablePlace,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Weights, WgpuError> {
        let geometry = pack.geometry().clone();
        let (vocab, hidden, width) = (geometry.vocab, geometry.hidden, geometry.ple_width);
        let layers = geometry.layers.len();
        let most = gpu.limits.max_storage_buffer_binding_size.min(gpu.limits.max_buffer_size);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let import = import::open(gpu, pack);
        let mut loader = Loader { gpu, pack, most, import, bytes: 0, in_place: 0, progress };
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
            final_norms: loader
                .joined(&[format!("layers.{}.post_ple_norm", layers - 1), "final_norm".into()])?,
            head,
            bytes: loader.bytes,
            in_place: loader.in_place,
            _import: loader.import,
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
