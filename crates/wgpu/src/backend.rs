//! wgpu behind the engine's trait: sequences, validation, and the cutting of a step into passes.
//!
//! A step is validated as a whole before anything runs. What can fail afterwards is the device itself; a lost device makes every later call fail
//! with what the driver said, and the caller's text survives because the backend never owned it.
//!
//! Reading order: `plan.rs`, `runner.rs`, `chain.rs`.

use std::sync::Arc;

use rawloop_backend::columns::{self, Column as PassColumn, Output, Piece};
use rawloop_backend::runs;
use rawloop_backend::{
    Backend, BackendError, BackendInfo, PROMPT_STEP, SequenceId, Snapshot, StepOutput, Wanted, Work,
};
use rawloop_pack::Pack;
use rawloop_spec::TapSink;

use crate::adapter;
use crate::arithmetic::{self, Arithmetic};
use crate::chain::Chain;
use crate::gpu::Gpu;
use crate::kv::{KvBinding, KvCache, KvLayout};
use crate::options::{Fold, GpuError, WgpuError, WgpuOptions};
use crate::params::Column;
use crate::plan::{Builder, Plan};
use crate::room::{Room, WIDTH};
use crate::rope::RopeTables;
use crate::runner::{Run, Runner, Shape};
use crate::sequence::Sequences;
use crate::shaders::Pipelines;
use crate::snapshot;
use crate::stages::MOST_SPREAD;
use crate::weights::Weights;

/// Runs a pack on an adapter.
pub struct WgpuBackend {
    pub(crate) runner: Runner,
    pub(crate) sequences: Sequences,
    pub(crate) chain: Chain,
    arithmetic: Arithmetic,
    pipelines: Pipelines,
    pieces: Vec<Piece>,
    columns: Vec<PassColumn>,
}

pub(crate) fn failed(error: GpuError) -> BackendError {
    BackendError::Failed(format!("wgpu: {error}"))
}

/// The largest number of bytes that a sequence's layer, a rope table and a workgroup need, against what there is.
fn check_limits(pack: &Pack, gpu: &Gpu, layout: &KvLayout) -> Result<(), WgpuError> {
    let shape = |what: String| Err(WgpuError::Shape { pack: pack.label().into(), what });
    let geometry = pack.geometry();
    let binding = gpu.limits.max_storage_buffer_binding_size.min(gpu.limits.max_buffer_size);
    let largest = layout.layers.iter().map(|room| 4 * room.words as u64).max().unwrap_or(0);
    if largest > binding {
        return shape(format!(
            "K/V of one layer have {largest} bytes at this --ctx, a binding {binding}; use a smaller one or --kv i8"
        ));
    }
    let pairs = geometry.rope_sliding.pairs.max(geometry.rope_full.pairs);
    if (8 * pairs * layout.context) as u64 > binding {
        return shape(format!("rope rows of --ctx {} do not fit a binding of {binding}", layout.context));
    }
    let shared = gpu.limits.max_compute_workgroup_storage_size as usize;
    let (stream, dim) = (4 * geometry.hidden + 1024 + 512, geometry.layers.iter().map(|l| l.head_dim).max());
    // Queries of four heads, their scores and weights.
    let attention = 16 * dim.unwrap_or(0) + 2 * 1024 + 256;
    let needed = stream.max(attention).max(12 * 1024 + 128);
    if needed > shared {
        return shape(format!("a workgroup needs {needed} bytes of memory, the adapter has {shared}"));
    }
    Ok(())
}

/// What sequences bind, and the lists.
fn lists(
    gpu: &Gpu,
    pipelines: &mut Pipelines,
    weights: &Weights,
    room: &Room,
    layout: &KvLayout,
    rope: &RopeTables,
    fold: Fold,
) -> (KvBinding, [Plan; 2]) {
    let mut builder = Builder { gpu, pipelines, weights, room, layout, rope, fold };
    (builder.binding(), [builder.build(false), builder.build(true)])
}

/// What of the wanted can be. An entry inside of a linear needs the stream, its codes and the linear's sums in a workgroup's memory.
fn folds(pack: &Pack, gpu: &Gpu, wanted: Fold) -> Fold {
    let geometry = pack.geometry();
    let dim = geometry.layers.iter().map(|layer| layer.head_dim).max().unwrap_or(0);
    // The input of output and of down.
    let input =
        geometry.layers.iter().map(|layer| layer.ffn.max(geometry.heads * layer.head_dim)).max().unwrap_or(0);
    let fits = |needed: usize| needed <= gpu.limits.max_compute_workgroup_storage_size as usize;
    // Spread attention: values or lanes of sums; queries, a token's key and value; scores and the like.
    let spread = 16 * 1032 + 4 * dim * (MOST_SPREAD + 2) + 4 * 64 * (2 * MOST_SPREAD + 1) + 256;
    Fold {
        early: wanted.early && fits(input + 4096 + 1024 + 512),
        entries: wanted.entries && fits(5 * geometry.hidden + 4096 + 2048 + 512),
        spread: if fits(spread) { wanted.spread } else { 0 },
        ..wanted
    }
}

impl WgpuBackend {
    /// Copies a pack to an adapter's memory and makes the kernels.
    ///
    /// # Errors
    /// There is no such adapter, an option is not possible, or the model does not fit the adapter's limits.
    pub fn open(pack: Arc<Pack>, options: &WgpuOptions) -> Result<WgpuBackend, WgpuError> {
        WgpuBackend::open_with(pack, options, &mut |_| {})
    }

    /// As [`WgpuBackend::open`]; `progress` is told how many more bytes of weights were copied. Those that the device reads in place are not.
    ///
    /// # Errors
    /// As for [`WgpuBackend::open`].
    pub fn open_with(
        pack: Arc<Pack>,
        options: &WgpuOptions,
        progress: &mut dyn FnMut(usize),
    ) -> Result<WgpuBackend, WgpuError> {
        let geometry = pack.geometry();
        let refused = WgpuError::Context { context: options.context, limit: geometry.max_context };
        if options.context == 0 || options.context > geometry.max_context {
            return Err(refused);
        }
        let Some(layout) = KvLayout::new(geometry, options.kv, options.context) else {
            return Err(refused);
        };
        let mut gpu = Gpu::open(&adapter::choose(options.adapter.as_deref())?, options.in_place)?;
        if let Some(most) = options.binding {
            let limit = &mut gpu.limits.max_storage_buffer_binding_size;
            *limit = most.min(*limit);
        }
        check_limits(&pack, &gpu, &layout)?;
        let arithmetic = arithmetic::ask(&gpu)?;
        let fold = options.fold.unwrap_or_else(|| Fold::of(arithmetic.variant.native_fused));
        let fold = folds(&pack, &gpu, fold);
        let weights = Weights::load(&pack, &gpu, options.per_layer_embeddings, progress)?;
        let room = Room::new(&gpu, &weights.geometry, &layout);
        let rope = RopeTables::new(&gpu, weights.frequencies.clone(), options.context);
        gpu.check()?;
        let mut pipelines = Pipelines::new(arithmetic.variant);
        let made = lists(&gpu, &mut pipelines, &weights, &room, &layout, &rope, fold);
        gpu.check()?;
        let chain = Chain::new(&gpu);
        let runner = Runner::new(gpu, pack, weights, room, Arc::new(layout), rope, made);
        Ok(WgpuBackend {
            runner,
            sequences: Sequences::default(),
            chain,
            arithmetic,
            pipelines,
            pieces: Vec::new(),
            columns: Vec::new(),
        })
    }

    /// Lets other stages share a dispatch from now on.
    ///
    /// # Errors
    /// The device fails.
    pub fn set_fold(&mut self, fold: Fold) -> Result<(), WgpuError> {
        let runner = &mut self.runner;
        let fold = folds(&runner.pack, &runner.gpu, fold);
        let Runner { gpu, weights, room, layout, rope, .. } = runner;
        runner.plans = lists(gpu, &mut self.pipelines, weights, room, layout, rope, fold).1;
        Ok(runner.gpu.check()?)
    }

    /// Dispatches of a decoded token at a position.
    pub fn dispatches(&self, position: usize) -> usize {
        self.runner.dispatches(position)
    }

    /// Bytes on the device without K/V: weights, tables and the room of a pass.
    pub fn device_bytes(&self) -> usize {
        self.runner.weights.bytes + self.runner.room.bytes
    }

    /// Bytes of weights that the device reads where the pack is mapped.
    pub fn in_place_bytes(&self) -> usize {
        self.runner.weights.in_place
    }

    /// What the adapter's arithmetic is.
    pub fn arithmetic(&self) -> &Arithmetic {
        &self.arithmetic
    }

    fn validate(&self, work: &[Work<'_>], pieces: &mut Vec<Piece>) -> Result<[usize; 2], BackendError> {
        let place = |id| {
            let sequence = self.sequences.index(id)?;
            Ok((sequence, self.sequences.list[sequence].cache.position()))
        };
        columns::resolve(work, self.vocab(), self.runner.layout.context, place, pieces)
    }

    /// Runs the columns of `list` in passes.
    fn passes(&mut self, list: &[PassColumn], full: bool, output: &mut StepOutput) -> Result<(), GpuError> {
        let logits = list.iter().any(|column| matches!(column.output, Output::Logits(_)));
        let most = if logits { WIDTH.min(self.runner.room.logit_rows) } else { WIDTH };
        let mut rest = list;
        while !rest.is_empty() {
            let (pass, behind) = rest.split_at(columns::next_width(rest.len(), most));
            rest = behind;
            self.pass(pass, full, output)?;
        }
        Ok(())
    }

    fn pass(&mut self, pass: &[PassColumn], full: bool, output: &mut StepOutput) -> Result<(), GpuError> {
        let WgpuBackend { runner, sequences, .. } = self;
        runner.columns.clear();
        runner.columns.extend(
            pass.iter().map(|column| Column { token: column.token, position: column.position as u32 }),
        );
        runner.send(0)?;
        let picks = pass.iter().take_while(|column| !matches!(column.output, Output::Logits(_))).count();
        let mut runs: Vec<Run<'_>> = Vec::new();
        for (index, column) in pass.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if index > 0 && pass[index - 1].sequence == column.sequence => run.count += 1,
                _ => {
                    let kv = &sequences.list[column.sequence].cache.groups;
                    runs.push(Run { kv, first: index, position: column.position, count: 1 });
                }
            }
        }
        let shape = Shape { columns: pass.len(), runs: &runs, full };
        let plan = runner.plan(pass.len());
        let mut encoder = runner.gpu.encoder();
        let vocab = runner.weights.geometry.vocab;
        if full {
            let head = if picks < pass.len() { &plan.head_logits } else { &plan.head };
            runner.encode(&mut encoder, runner.body(&shape).chain(head).chain([&plan.pick]), &shape);
        } else {
            runner.encode(&mut encoder, runner.body(&shape), &shape);
        }
        let (room, rows) = (&runner.room, pass.len() - picks);
        if full && picks > 0 {
            encoder.copy_buffer_to_buffer(&room.picks, 0, &room.staging, 0, 4 * picks as u64);
        }
        runner.gpu.queue.submit([encoder.finish()]);
        for column in pass {
            sequences.list[column.sequence].cache.advance(column.position + 1);
        }
        if full && picks > 0 {
            let mut found = [0u32; WIDTH];
            runner.gpu.read_staging(&room.staging, bytemuck::cast_slice_mut(&mut found[..picks]))?;
            for (column, pick) in pass.iter().zip(found) {
                if let Output::Pick(row) = column.output {
                    output.picks[row] = pick;
                }
            }
        }
        if let (true, Some(Output::Logits(row))) = (full, pass.get(picks).map(|column| column.output)) {
            let bytes = (4 * vocab * rows) as u64;
            let mut encoder = runner.gpu.encoder();
            let from = (4 * vocab * picks) as u64;
            encoder.copy_buffer_to_buffer(&room.logits, from, &room.staging, 0, bytes);
            runner.gpu.queue.submit([encoder.finish()]);
            let logits = &mut output.logits[row * vocab..(row + rows) * vocab];
            runner.gpu.read_staging(&room.staging, bytemuck::cast_slice_mut(logits))?;
        }
        runner.gpu.check()
    }
}

impl Drop for WgpuBackend {
    fn drop(&mut self) {
        // Nothing may run while its memory goes; an error has nobody to be told to.
        let _ = self.runner.gpu.wait();
    }
}

impl Backend for WgpuBackend {
    fn info(&self) -> BackendInfo {
        let gpu = &self.runner.gpu;
        BackendInfo {
            name: "wgpu",
            kernels: format!("{}, {}", gpu.name, gpu.api),
            threads: 1,
            kv: self.runner.layout.format.name(),
            context: self.runner.layout.context,
            has_drafter: false,
            cost: self.runner.layout.cost(),
            prompt_step: PROMPT_STEP,
            takes_last_along: false,
        }
    }

    fn vocab(&self) -> usize {
        self.runner.weights.geometry.vocab
    }

    fn create(&mut self) -> Result<SequenceId, BackendError> {
        let Runner { gpu, binding, layout, .. } = &self.runner;
        let cache = KvCache::new(gpu, binding, layout.clone()).map_err(failed)?;
        self.sequences.insert(cache)
    }

    fn free(&mut self, sequence: SequenceId) {
        self.sequences.remove(sequence);
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, BackendError> {
        let original = self.sequences.get(sequence)?;
        let cache = original.fork(&self.runner.gpu, &self.runner.binding).map_err(failed)?;
        self.sequences.insert(cache)
    }

    fn position(&self, sequence: SequenceId) -> Result<usize, BackendError> {
        Ok(self.sequences.get(sequence)?.position())
    }

    fn truncate(&mut self, sequence: SequenceId, position: usize) -> Result<(), BackendError> {
        let cache = self.sequences.get_mut(sequence)?;
        let from = cache.position();
        cache.truncate(position).map_err(|lowest| BackendError::RewindTooFar { from, to: position, lowest })
    }

    fn snapshot(&self, sequence: SequenceId) -> Result<Snapshot, BackendError> {
        let cache = self.sequences.get(sequence)?;
        let bytes = snapshot::take(&self.runner.gpu, cache).map_err(failed)?;
        Ok(Snapshot { position: cache.position(), bytes })
    }

    fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<(), BackendError> {
        let cache = self.sequences.get_mut(sequence)?;
        snapshot::restore(&self.runner.gpu, cache, snapshot.position, &snapshot.bytes)
            .map_err(BackendError::Snapshot)
    }

    fn step(&mut self, work: &[Work<'_>], output: &mut StepOutput) -> Result<(), BackendError> {
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut list = std::mem::take(&mut self.columns);
        let result = self.validate(work, &mut pieces).and_then(|[picks, logits]| {
            output.picks.resize(picks, 0);
            output.logits.resize(logits * self.vocab(), 0.0);
            list.clear();
            list.extend(columns::prefill(work, &pieces));
            self.passes(&list, false, output).map_err(failed)?;
            list.clear();
            list.extend(columns::full(work, &pieces));
            self.passes(&list, true, output).map_err(failed)
        });
        (self.pieces, self.columns) = (pieces, list);
        result
    }

    fn decode(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: &[u32],
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), BackendError> {
        let index = self.sequences.index(sequence)?;
        runs::decode(token, limit, emit, |token, left, emit| {
            let position = self.sequences.list[index].cache.position();
            let room = runs::room(token, self.vocab(), position, self.runner.layout.context)?;
            self.run_chain(index, token, left.min(room), stops, emit)
        })
    }

    fn draft(
        &mut self,
        sequence: SequenceId,
        _token: u32,
        _depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), BackendError> {
        drafts.clear();
        self.sequences.index(sequence)?;
        Err(BackendError::NoDrafter)
    }

    fn step_tapped(
        &mut self,
        sequence: SequenceId,
        tokens: &[u32],
        taps: &mut dyn TapSink,
    ) -> Result<(), BackendError> {
        if tokens.is_empty() {
            return self.position(sequence).map(|_| ());
        }
        self.validate(&[Work { sequence, tokens, wanted: Wanted::Picks }], &mut Vec::new())?;
        let index = self.sequences.index(sequence)?;
        for &token in tokens {
            self.tapped(index, token, taps).map_err(failed)?;
        }
        Ok(())
    }

    fn kv_row(
        &self,
        sequence: SequenceId,
        layer: usize,
        position: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), BackendError> {
        let cache = self.sequences.get(sequence)?;
        match cache.row(&self.runner.gpu, layer, position).map_err(failed)? {
            Some([key, value]) => Ok((key, value)),
            None => Err(BackendError::Failed(format!("layer {layer} holds no K/V at position {position}"))),
        }
    }
}
