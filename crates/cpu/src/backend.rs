//! The CPU behind the engine's trait: sequences, validation, and the cutting of a step into passes.
//!
//! A step is validated as a whole before anything runs, and nothing that runs afterwards can fail, so a refused step leaves every
//! sequence as it was. Then all columns without an output run the prefill program, up to 512 at once, and all others the
//! full program, up to 64 at once (`columns.rs`); every column's result is the same bytes however it was grouped.
//!
//! Reading order: `columns.rs`, `executor.rs`, `stages/`, then `kv.rs` and `crew.rs`; `weights.rs` and `workspace.rs` when needed.

use std::sync::Arc;
use std::time::Duration;

use rawloop_backend::columns::{self, Column, Output, Piece};
use rawloop_backend::{
    Backend, BackendError, BackendInfo, PROMPT_STEP, SequenceId, Snapshot, StepOutput, Wanted, Work,
};
use rawloop_pack::Pack;
use rawloop_spec::TapSink;

use crate::columns::{FULL_COLUMNS, PREFILL_COLUMNS};
use crate::counters::{Clock, Counters, Profile, STAGE_KINDS};
use crate::crew::Crew;
use crate::draft::Drafter;
use crate::drafter_weights::DrafterWeights;
use crate::executor::{Executor, Pass, Tap};
use crate::kernels::Kernels;
use crate::kv::{KvCache, KvLayout, Side};
use crate::options::{CpuError, CpuOptions, MOST_THREADS};
use crate::sequence::{Hidden, Sequences};
use crate::snapshot;
use crate::topology::Topology;
use crate::weights::{Resolver, Weights};
use crate::workspace::{Workspace, scratch_sizes};

/// Runs a pack on the CPU.
pub struct CpuBackend {
    executor: Executor,
    drafter: Option<Drafter>,
    layout: Arc<KvLayout>,
    sequences: Sequences,
    /// The step's work, validated; kept for its memory.
    pieces: Vec<Piece>,
    /// The pass's columns; kept for their memory.
    columns: Vec<Column>,
}

impl CpuBackend {
    /// Opens a backend over a pack. Takes milliseconds; the weights stay where they are.
    ///
    /// # Errors
    /// An option is not possible here, or the pack is not one that this backend runs.
    pub fn open(pack: Arc<Pack>, options: &CpuOptions) -> Result<CpuBackend, CpuError> {
        let geometry = pack.geometry();
        let own = geometry.own_layers();
        if let Some(layer) = (own..geometry.layers.len()).find(|&layer| geometry.owns_kv(layer)) {
            return Err(CpuError::Owners { pack: pack.label().into(), layer, before: own });
        }
        let kernels = match &options.kernels {
            None => Kernels::detect(),
            Some(name) => Kernels::by_name(name).ok_or_else(|| CpuError::Kernels {
                name: name.clone(),
                available: Kernels::available().iter().map(|k| k.name()).collect::<Vec<_>>().join(", "),
            })?,
        };
        let topology = Topology::detect();
        let threads = match options.threads {
            Some(threads) if (1..=MOST_THREADS).contains(&threads) => threads,
            Some(threads) => return Err(CpuError::Threads { threads }),
            None => topology.threads().min(MOST_THREADS),
        };
        let context = options.context;
        let refused = CpuError::Context { context, limit: geometry.max_context };
        if context == 0 || context > geometry.max_context {
            return Err(refused);
        }
        let drafter = match &pack.manifest().drafter {
            Some(drafter) => {
                pack.advise_drafter();
                let weights = DrafterWeights::load(Resolver(&pack), drafter.clone())?;
                Some(Drafter::new(weights, geometry.hidden))
            }
            None => None,
        };
        let drafter_geometry = drafter.as_ref().map(Drafter::geometry);
        let layout = KvLayout::new(geometry, drafter_geometry, options.kv, context).ok_or(refused)?;
        let drafter_heads = drafter_geometry.map(|drafter| {
            let dims = drafter.layers.iter().map(|layer| layer.head_dim);
            (drafter.heads, dims.max().unwrap_or(0))
        });
        let sizes = scratch_sizes(geometry, drafter_heads);
        let cpus = if options.affinity { topology.cpus() } else { &[] };
        let crew = Crew::new(threads, cpus, sizes).map_err(|source| CpuError::Team { threads, source })?;
        let space = Workspace::new(geometry, threads);
        let weights = Weights::load(pack)?;
        Ok(CpuBackend {
            executor: Executor {
                weights,
                kernels,
                crew,
                space,
                counters: Counters::default(),
                profile: Profile::default(),
            },
            drafter,
            layout: Arc::new(layout),
            sequences: Sequences::default(),
            pieces: Vec::new(),
            columns: Vec::with_capacity(PREFILL_COLUMNS),
        })
    }

    /// What was read so far.
    pub fn counters(&self) -> Counters {
        self.executor.counters
    }

    /// Starts to take times by stage kind from zero, by a clock of the caller's thread, or stops.
    pub fn set_profile(&mut self, clock: Option<Clock>) {
        self.executor.profile.set(clock);
    }

    /// Times by stage kind since [`CpuBackend::set_profile`].
    pub fn profile(&self) -> [(&'static str, Duration); STAGE_KINDS.len()] {
        let times = self.executor.profile.times();
        std::array::from_fn(|kind| (STAGE_KINDS[kind], times[kind]))
    }

    /// Reads everything a decoded token reads whole, with the same threads and nothing else to do; returns the bytes. The
    /// time this takes is what a token's time is compared with.
    pub fn read_weights(&mut self) -> u64 {
        self.executor.read_weights()
    }

    /// Products of a code and an activation that the same threads add up in a second in registers alone, by the
    /// instructions of the same kernels, measured over about `count` of them. None where the kernels have no such loop.
    pub fn int8_macs_per_second(&mut self, count: u64) -> Option<f64> {
        self.executor.int8_macs_per_second(count)
    }

    /// [`CpuBackend::int8_macs_per_second`] for fused multiply-adds of floats.
    pub fn f32_fmas_per_second(&mut self, count: u64) -> Option<f64> {
        self.executor.f32_fmas_per_second(count)
    }

    /// Checks the work and resolves it into `pieces`; counts the rows of picks and of logits.
    fn validate(&self, work: &[Work<'_>], pieces: &mut Vec<Piece>) -> Result<[usize; 2], BackendError> {
        let place = |id| Ok((self.sequences.index(id)?, self.sequences.get(id)?.cache.position()));
        columns::resolve(work, self.executor.weights.geometry.vocab, self.layout.context, place, pieces)
    }

    /// Runs the columns of `feed` in passes of one program.
    fn passes(
        &mut self,
        mut feed: impl Iterator<Item = Column>,
        count: usize,
        full: bool,
        output: &mut StepOutput,
    ) {
        let most = if full { FULL_COLUMNS } else { PREFILL_COLUMNS };
        let mut left = count;
        while left > 0 {
            let width = columns::next_width(left, most);
            left -= width;
            self.columns.clear();
            self.columns.extend(feed.by_ref().take(width));
            self.pass(full, &mut output.picks, &mut output.logits, Tap(None));
        }
    }

    /// Runs `self.columns` through one program and counts them in their sequences.
    fn pass<'a>(&'a mut self, full: bool, picks: &'a mut [u32], logits: &'a mut [f32], tap: Tap<'a>) {
        let CpuBackend { executor, sequences, columns, .. } = self;
        let sequences = sequences.all();
        let mut pass = Pass { columns, sequences, logits, picks, tap };
        if full {
            executor.full(&mut pass)
        } else {
            executor.prefill(&mut pass)
        }
        for column in pass.columns {
            let sequence = &mut pass.sequences[column.sequence];
            sequence.cache.advance(column.position + 1);
        }
    }
}

fn no_memory(error: std::io::Error) -> BackendError {
    BackendError::Failed(format!("no memory for the K/V of a sequence: {error}; lower --ctx"))
}

impl Backend for CpuBackend {
    fn info(&self) -> BackendInfo {
        let mut cost = self.layout.cost();
        cost.fixed += Hidden::bytes(self.executor.weights.geometry.hidden);
        BackendInfo {
            name: "cpu",
            kernels: self.executor.kernels.name().into(),
            threads: self.executor.crew.threads(),
            kv: self.layout.format.name(),
            context: self.layout.context,
            has_drafter: self.drafter.is_some(),
            cost,
            prompt_step: PROMPT_STEP,
            takes_last_along: false,
        }
    }

    fn vocab(&self) -> usize {
        self.executor.weights.geometry.vocab
    }

    fn create(&mut self) -> Result<SequenceId, BackendError> {
        let cache = KvCache::new(self.layout.clone()).map_err(no_memory)?;
        self.sequences.insert(cache, Hidden::new(self.executor.weights.geometry.hidden))
    }

    fn free(&mut self, sequence: SequenceId) {
        self.sequences.remove(sequence);
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, BackendError> {
        let original = self.sequences.get(sequence)?;
        let cache = original.cache.fork().map_err(no_memory)?;
        let hidden = original.hidden.clone();
        self.sequences.insert(cache, hidden)
    }

    fn position(&self, sequence: SequenceId) -> Result<usize, BackendError> {
        Ok(self.sequences.get(sequence)?.cache.position())
    }

    fn truncate(&mut self, sequence: SequenceId, position: usize) -> Result<(), BackendError> {
        let sequence = self.sequences.get_mut(sequence)?;
        let from = sequence.cache.position();
        if position < from {
            sequence.cache.truncate(position).map_err(|lowest| BackendError::RewindTooFar {
                from,
                to: position,
                lowest,
            })?;
            sequence.hidden.cut(position);
        }
        Ok(())
    }

    fn snapshot(&self, sequence: SequenceId) -> Result<Snapshot, BackendError> {
        let cache = &self.sequences.get(sequence)?.cache;
        Ok(Snapshot { position: cache.position(), bytes: snapshot::take(cache) })
    }

    fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<(), BackendError> {
        let sequence = self.sequences.get_mut(sequence)?;
        snapshot::restore(&mut sequence.cache, snapshot.position, &snapshot.bytes)
            .map_err(BackendError::Snapshot)?;
        // The tokens before a snapshot's position are the ones held, so their hidden states are too.
        sequence.hidden.cut(snapshot.position);
        Ok(())
    }

    fn step(&mut self, work: &[Work<'_>], output: &mut StepOutput) -> Result<(), BackendError> {
        let mut pieces = std::mem::take(&mut self.pieces);
        let checked = self.validate(work, &mut pieces);
        if let Ok([picks, logits]) = checked {
            // Lengths change, old values are overwritten: nothing is cleared that a pass is about to write.
            output.picks.resize(picks, 0);
            output.logits.resize(logits * self.vocab(), 0.0);
            let silent = pieces.iter().map(|piece| piece.silent).sum();
            self.passes(columns::prefill(work, &pieces), silent, false, output);
            self.passes(columns::full(work, &pieces), picks + logits, true, output);
        }
        self.pieces = pieces;
        checked.map(|_| ())
    }

    fn draft(
        &mut self,
        sequence: SequenceId,
        token: u32,
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), BackendError> {
        drafts.clear();
        let vocab = self.vocab();
        let drafter = self.drafter.as_mut().ok_or(BackendError::NoDrafter)?;
        if token as usize >= vocab {
            return Err(BackendError::Token { token, vocab });
        }
        let sequence = self.sequences.get(sequence)?;
        if drafter.draft(&mut self.executor, sequence, token, depth, drafts) {
            return Ok(());
        }
        let why = "no output was wanted of the last token, so there is nothing to draft from";
        Err(BackendError::Failed(why.into()))
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
        let mut pieces = std::mem::take(&mut self.pieces);
        let checked = self.validate(&[Work { sequence, tokens, wanted: Wanted::Picks }], &mut pieces);
        if checked.is_ok() {
            let Executor { weights, space, .. } = &mut self.executor;
            space.keep(&weights.geometry);
            let Piece { sequence, position, .. } = pieces[0];
            for (index, &token) in tokens.iter().enumerate() {
                self.columns.clear();
                self.columns.push(Column {
                    token,
                    sequence,
                    position: position + index,
                    output: Output::Pick(0),
                });
                self.pass(true, &mut [0], &mut [], Tap(Some(&mut *taps)));
            }
        }
        self.pieces = pieces;
        checked.map(|_| ())
    }

    fn kv_row(
        &self,
        sequence: SequenceId,
        layer: usize,
        position: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), BackendError> {
        let cache = &self.sequences.get(sequence)?.cache;
        let row = |side| cache.row(layer, side, position);
        match (row(Side::Keys), row(Side::Values)) {
            (Some(key), Some(value)) => Ok((key, value)),
            _ => Err(BackendError::Failed(format!("layer {layer} holds no K/V at position {position}"))),
        }
    }
}
