//! A pack's tensors on the card.
//!
//! Codes are copied as they lie in the pack and turned into the kernels' order there (`kernels/repack.cu`), through one staging buffer; everything
//! else is copied as it is. The embedding table lies on the card (E2B: 101 MB, its row starts a token); the table of per-layer embeddings
//! lies in pinned host memory unless asked otherwise (E2B: 1.2 GB, 4.6 KB a token).

use std::sync::Arc;

use bytemuck::Pod;
use rawloop_pack::Pack;
use rawloop_spec::{Bits, Geometry, LinearKind, tile};

use crate::driver::{Device, Launch};
use crate::memory::{DeviceBytes, Pinned};
use crate::options::{CudaError, DriverError, TablePlace, Trial};
use crate::params::{Matrix, Scale, Table, argument};

/// Bytes of one piece of the arena.
const PIECE: usize = 64 << 20;

/// Parts that K is cut into at most.
pub(crate) const MOST_SPLITS: usize = 8;

/// Groups of down's inputs that a block of the kernel of a whole FFN makes.
const FFN_GROUPS: usize = 6;

/// More than the shared memory that the kernels of stages declare by themselves.
pub(crate) const STATIC_SHARED: usize = 1024;

/// Blocks of the grid and shared memory of the kernel of a whole FFN, whose down has codes of `bits`, and values of the FFN's hidden in a block.
pub(crate) fn ffn_cut(gate: &Matrix, bits: usize, hidden: usize) -> (usize, usize, usize) {
    let values = FFN_GROUPS * 32 / bits;
    let units = values / 16 * 2 * gate.split_k as usize;
    ((gate.rows as usize).div_ceil(values), 256 + units * 512 + hidden * 12 + 1024 + 16 * values, values)
}

/// Rows of the gate in a block of the kernel that has both linears of the per-layer embedding.
pub(crate) const PLE_ROWS: usize = 32;

/// Shared memory of a block of that kernel for one column (`kernels/ple.cu`), whose entry takes `enter` bytes.
pub(crate) fn ple_shared(gate: &Matrix, projection: &Matrix, enter: usize) -> usize {
    let units = PLE_ROWS / 16 * gate.split_k as usize + (projection.rows as usize).div_ceil(16);
    units * 512 + enter + 1024 + PLE_ROWS * 8 + gate.split_k as usize * 32
}

/// Whether one kernel can have both linears of the per-layer embedding: 8 bits, whole units, and room for the `bytes` of a block with all of its weights.
pub(crate) fn ple_fits(gate: &Matrix, projection: &Matrix, bytes: usize, device: &Device) -> bool {
    gate.bits == 8
        && projection.bits == 8
        && gate.splits == 1
        && projection.splits == 1
        && (gate.rows as usize).is_multiple_of(PLE_ROWS)
        && bytes + STATIC_SHARED <= device.shared
}

/// Shared memory of the entries of some columns: three vectors of floats, and one of floats and one of codes a column. The width is a multiple of 32.
pub(crate) fn enter_shared(hidden: usize, columns: usize) -> usize {
    hidden * (12 + 5 * columns)
}

/// Memory on the card that is only ever added to.
pub(crate) struct Arena {
    device: Arc<Device>,
    pieces: Vec<DeviceBytes>,
    used: usize,
    staging: Option<DeviceBytes>,
    /// Bytes given out.
    pub bytes: usize,
}

impl Arena {
    /// Nothing yet.
    pub fn new(device: &Arc<Device>) -> Arena {
        Arena { device: device.clone(), pieces: Vec::new(), used: 0, staging: None, bytes: 0 }
    }

    /// The piece and the offset of `length` fresh zero bytes.
    fn take(&mut self, length: usize) -> Result<(usize, usize), DriverError> {
        let start = self.used.next_multiple_of(256);
        self.bytes += length;
        if let Some(last) = self.pieces.last()
            && start + length <= last.len()
        {
            self.used = start + length;
            return Ok((self.pieces.len() - 1, start));
        }
        self.pieces.push(DeviceBytes::zeroed(&self.device, length.max(PIECE))?);
        self.used = length;
        Ok((self.pieces.len() - 1, 0))
    }

    /// Zeroed memory.
    pub fn room(&mut self, length: usize) -> Result<u64, DriverError> {
        let (piece, offset) = self.take(length)?;
        Ok(self.pieces[piece].address() + offset as u64)
    }

    /// A copy of `data`.
    pub fn copy<T: Pod>(&mut self, data: &[T]) -> Result<u64, DriverError> {
        let (piece, offset) = self.take(size_of_val(data))?;
        self.pieces[piece].write(offset, data)?;
        Ok(self.pieces[piece].address() + offset as u64)
    }

    /// `data` in the staging buffer.
    fn stage(&mut self, data: &[u8]) -> Result<u64, DriverError> {
        if self.staging.as_ref().is_none_or(|staging| staging.len() < data.len()) {
            self.staging = None;
            self.staging = Some(DeviceBytes::zeroed(&self.device, data.len())?);
        }
        let Some(staging) = &self.staging else { return Ok(0) };
        staging.write(0, data)?;
        Ok(staging.address())
    }

    fn repack(
        &mut self,
        name: &'static str,
        threads: usize,
        arguments: Vec<Box<[u64]>>,
    ) -> Result<(), DriverError> {
        let function = self.device.function(name)?;
        let grid = (threads.div_ceil(256) as u32, 1, 1);
        self.device.launch(&Launch {
            name,
            function,
            grid,
            threads: 256,
            shared: 0,
            cluster: 1,
            arguments,
            early: false,
            role: crate::form::Role::Other,
        })?;
        self.device.synchronize()
    }

    /// Tiled matrices of one shape in the kernels' order, row blocks in turns, K in `splits` parts of the k blocks that come back.
    pub fn tiles(
        &mut self,
        matrices: &[&[u8]],
        bits: Bits,
        rows: usize,
        columns: usize,
        splits: usize,
    ) -> Result<(u64, usize), DriverError> {
        let groups = columns / tile::group_columns(bits);
        let (split_k, row_blocks) = (groups.div_ceil(8).div_ceil(splits), rows.div_ceil(16));
        let units = split_k * splits * row_blocks;
        let out = self.room(units * matrices.len() * 512)?;
        for (turn, codes) in matrices.iter().enumerate() {
            let staged = self.stage(codes)?;
            let number = |value: usize| argument(value as i32);
            let numbers =
                [rows, groups, tile::vectors(bits), split_k, splits, matrices.len(), turn].map(number);
            let arguments = [argument(staged), argument(out)].into_iter().chain(numbers).collect();
            self.repack("repack_tiles", units * 32, arguments)?;
        }
        Ok((out, split_k))
    }

    /// `down` in the order of the kernel that has all of an FFN (`kernels/layer_ffn.cu`): a block of its grid has [`FFN_GROUPS`] groups of inputs and all rows, in quads of
    /// 64 which are three units.
    pub fn ffn_down(
        &mut self,
        codes: &[u8],
        bits: Bits,
        rows: usize,
        columns: usize,
    ) -> Result<u64, DriverError> {
        let groups = columns / tile::group_columns(bits);
        let (blocks, quads) = (groups.div_ceil(FFN_GROUPS), rows.div_ceil(64));
        let out = self.room(blocks * quads * 3 * 512)?;
        let staged = self.stage(codes)?;
        let numbers = [rows, groups, tile::vectors(bits), blocks].map(|value| argument(value as i32));
        let arguments = [argument(staged), argument(out)].into_iter().chain(numbers).collect();
        self.repack("repack_ffn_down", blocks * quads * 96, arguments)?;
        Ok(out)
    }

    /// A bf16 matrix in chunks of 256 inputs, and the chunks of a row.
    pub fn halves(&mut self, rows: &[u16], count: usize, width: usize) -> Result<(u64, usize), DriverError> {
        let chunks = width.div_ceil(256);
        let staged = self.stage(bytemuck::cast_slice(rows))?;
        let out = self.room(count * chunks * 512)?;
        let arguments = vec![
            argument(staged),
            argument(out),
            argument(count as i32),
            argument(width as i32),
            argument(chunks as i32),
        ];
        self.repack("repack_bf16", count * chunks * 256, arguments)?;
        Ok((out, chunks))
    }

    /// Gives the staging buffer back.
    pub fn settle(&mut self) {
        self.staging = None;
    }
}

/// One layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerWeights {
    pub q: Matrix,
    pub kv: Option<(Matrix, Matrix)>,
    pub o: Matrix,
    /// Gate and up, row blocks in turns; the multipliers and scales are gate's.
    pub gate: Matrix,
    pub up_multipliers: u64,
    pub up_output: Scale,
    pub down: Matrix,
    /// Codes of `down` in the order of the kernel of a whole FFN; 0 where there is none.
    pub ffn_down: u64,
    pub ple_gate: Matrix,
    pub ple_projection: Matrix,
    pub input_norm: u64,
    pub q_norm: u64,
    pub k_norm: u64,
    pub post_attention_norm: u64,
    pub pre_ffn_norm: u64,
    pub post_ffn_norm: u64,
    pub post_ple_norm: u64,
    pub gelu: u64,
    pub ple_gelu: u64,
    pub layer_scalar: f32,
}

/// A model on the card.
pub(crate) struct Weights {
    pub geometry: Geometry,
    pub embed: Table,
    pub ple: Table,
    pub model_projection: u64,
    pub projection_chunks: usize,
    pub ple_norm: u64,
    pub layers: Vec<LayerWeights>,
    pub final_norm: u64,
    pub head: Matrix,
    /// Inverse frequencies, sliding and full.
    pub frequencies: [Vec<f32>; 2],
    /// Codes, multipliers, norms and tables that a token reads whole.
    pub bytes_per_token: usize,
    _host: Option<(Pinned<u8>, Pinned<f32>)>,
}

impl Weights {
    /// Copies a model to the card.
    ///
    /// # Errors
    /// A tensor is missing, there is not enough memory, or gate and up of a layer differ in code width.
    pub fn load(
        pack: &Pack,
        arena: &mut Arena,
        place: TablePlace,
        trial: &Trial,
    ) -> Result<Weights, CudaError> {
        let geometry = pack.geometry().clone();
        let (vocab, hidden, layers) = (geometry.vocab, geometry.hidden, geometry.layers.len());
        let mut loader = Loader { pack, geometry: &geometry, arena, trial };
        let all = (0..layers).map(|layer| loader.layer(layer)).collect::<Result<Vec<_>, CudaError>>()?;
        let embed = Table {
            codes: loader.arena.copy(pack.codes("embed.codes")?)?,
            scales: loader.arena.copy(pack.f32("embed.scales")?)?,
            bits: geometry.embed_bits.width() as i32,
            columns: hidden as i32,
            scales_per_row: 1,
            factor: (hidden as f64).sqrt() as f32,
        };
        let (codes, scales) = (pack.codes("ple.codes")?, pack.f32("ple.scales")?);
        let (addresses, host) = match place {
            TablePlace::Device => ((loader.arena.copy(codes)?, loader.arena.copy(scales)?), None),
            TablePlace::Host => {
                let (mut pinned, mut scale) = (Pinned::zeroed(codes.len())?, Pinned::zeroed(scales.len())?);
                pinned.values().copy_from_slice(codes);
                scale.values().copy_from_slice(scales);
                ((pinned.address(), scale.address()), Some((pinned, scale)))
            }
        };
        let ple = Table {
            codes: addresses.0,
            scales: addresses.1,
            bits: geometry.ple_bits.width() as i32,
            columns: (layers * geometry.ple_width) as i32,
            scales_per_row: layers as i32,
            factor: (geometry.ple_width as f64).sqrt() as f32,
        };
        let rows = layers * geometry.ple_width;
        let (model_projection, projection_chunks) =
            loader.arena.halves(pack.bf16("ple.model_projection")?, rows, hidden)?;
        let (head_codes, split_k) =
            loader.arena.tiles(&[pack.codes("head.codes")?], geometry.head_bits, vocab, hidden, 1)?;
        let head = Matrix {
            codes: head_codes,
            multipliers: loader.floats("head.scales")?,
            rows: vocab as i32,
            split_k: split_k as i32,
            splits: 1,
            bits: geometry.head_bits.width() as i32,
            ..Matrix::default()
        };
        let (ple_norm, final_norm) = (loader.floats("ple.norm")?, loader.floats("final_norm")?);
        let frequencies = [pack.f32("rope.sliding")?.to_vec(), pack.f32("rope.full")?.to_vec()];
        loader.arena.settle();
        let tensors = rawloop_spec::tensor::target(&geometry);
        let bytes_per_token = tensors.iter().map(|tensor| tensor.bytes_per_token()).sum();
        Ok(Weights {
            embed,
            ple,
            model_projection,
            projection_chunks,
            ple_norm,
            layers: all,
            final_norm,
            head,
            frequencies,
            bytes_per_token,
            geometry,
            _host: host,
        })
    }
}

struct Loader<'a> {
    pack: &'a Pack,
    geometry: &'a Geometry,
    arena: &'a mut Arena,
    trial: &'a Trial,
}

impl Loader<'_> {
    fn floats(&mut self, name: &str) -> Result<u64, CudaError> {
        Ok(self.arena.copy(self.pack.f32(name)?)?)
    }

    fn matrix(
        &mut self,
        layer: usize,
        kind: LinearKind,
        beside: Option<LinearKind>,
    ) -> Result<Matrix, CudaError> {
        let (rows, columns) = self.geometry.linear_shape(layer, kind);
        let bits = self.geometry.layers[layer].bits.get(kind);
        let name = |kind: LinearKind, part: &str| format!("layers.{layer}.{}.{part}", kind.name());
        let scales = self.pack.f32(&name(kind, "activation_scales"))?;
        let mut codes = vec![self.pack.codes(&name(kind, "codes"))?];
        if let Some(beside) = beside {
            codes.push(self.pack.codes(&name(beside, "codes"))?);
        }
        let splits = self.splits(kind, columns.div_ceil(256 / bits.width()));
        let (codes, split_k) = self.arena.tiles(&codes, bits, rows, columns, splits)?;
        Ok(Matrix {
            codes,
            multipliers: self.floats(&name(kind, "multipliers"))?,
            rows: rows as i32,
            split_k: split_k as i32,
            splits: splits as i32,
            bits: bits.width() as i32,
            input: Scale::new(scales[0]),
            output: Scale::new(scales[1]),
        })
    }

    /// A second `down` for the kernel of a whole FFN, where the card and the model have one: clusters, whole row blocks of gate (not at 8 bits), a short entry, room for a
    /// block's weights, and one kernel behind it for the per-layer embedding, which reads copies of its sums.
    fn ffn_down(&mut self, layer: usize, gate: &Matrix, ple: (&Matrix, &Matrix)) -> Result<u64, CudaError> {
        let bits = self.geometry.layers[layer].bits.get(LinearKind::Down);
        let (device, hidden) = (&self.arena.device, self.geometry.hidden);
        let ple_bytes = ple_shared(ple.0, ple.1, enter_shared(hidden, 1));
        let fits = !self.trial.ffn_apart
            && !self.trial.ple_apart
            && device.has_clusters()
            && bits != Bits::Eight
            && gate.splits == 1
            && hidden <= 4 * 32 * device.warps
            && ffn_cut(gate, bits.width(), hidden).1 + STATIC_SHARED <= device.shared
            && ple_fits(ple.0, ple.1, ple_bytes, device);
        if !fits {
            return Ok(0);
        }
        let (rows, columns) = self.geometry.linear_shape(layer, LinearKind::Down);
        let codes = self.pack.codes(&format!("layers.{layer}.{}.codes", LinearKind::Down.name()))?;
        Ok(self.arena.ffn_down(codes, bits, rows, columns)?)
    }

    /// Parts of K of a linear: those with few rows are cut, so that about every multiprocessor has work. A part of the output projection is
    /// about a head, so that few blocks of the grid merge the same one.
    fn splits(&self, kind: LinearKind, k_blocks: usize) -> usize {
        let wanted = match kind {
            LinearKind::O => self.geometry.heads.min(MOST_SPLITS),
            LinearKind::Down => (k_blocks / 24).clamp(1, MOST_SPLITS),
            _ => 1,
        };
        // Every part has something to do.
        k_blocks.div_ceil(k_blocks.div_ceil(wanted.clamp(1, k_blocks)))
    }

    fn layer(&mut self, layer: usize) -> Result<LayerWeights, CudaError> {
        let bits = self.geometry.layers[layer].bits;
        if bits.gate != bits.up {
            let what = format!("gate and up of layer {layer} have codes of different widths");
            return Err(CudaError::Shape { pack: self.pack.label().into(), what });
        }
        let owns = self.geometry.owns_kv(layer);
        let gate = self.matrix(layer, LinearKind::Gate, Some(LinearKind::Up))?;
        let ple_gate = self.matrix(layer, LinearKind::PleGate, None)?;
        let ple_projection = self.matrix(layer, LinearKind::PleProjection, None)?;
        let name = |part: &str| format!("layers.{layer}.{part}");
        Ok(LayerWeights {
            q: self.matrix(layer, LinearKind::Q, None)?,
            kv: match owns {
                true => {
                    let k = self.matrix(layer, LinearKind::K, None)?;
                    Some((k, self.matrix(layer, LinearKind::V, None)?))
                }
                false => None,
            },
            o: self.matrix(layer, LinearKind::O, None)?,
            gate,
            up_multipliers: self.floats(&name("up.multipliers"))?,
            up_output: Scale::new(self.pack.f32(&name("up.activation_scales"))?[1]),
            down: self.matrix(layer, LinearKind::Down, None)?,
            ffn_down: self.ffn_down(layer, &gate, (&ple_gate, &ple_projection))?,
            ple_gate,
            ple_projection,
            input_norm: self.floats(&name("input_norm"))?,
            q_norm: self.floats(&name("q_norm"))?,
            k_norm: if owns { self.floats(&name("k_norm"))? } else { 0 },
            post_attention_norm: self.floats(&name("post_attention_norm"))?,
            pre_ffn_norm: self.floats(&name("pre_ffn_norm"))?,
            post_ffn_norm: self.floats(&name("post_ffn_norm"))?,
            post_ple_norm: self.floats(&name("post_ple_norm"))?,
            gelu: self.floats(&name("gelu"))?,
            ple_gelu: self.floats(&name("ple_gelu"))?,
            layer_scalar: self.pack.f32(&name("layer_scalar"))?.first().copied().unwrap_or_default(),
        })
    }
}
