//! CUDA behind the engine's trait: sequences, validation, and the cutting of a step into passes.
//!
//! A step is validated as a whole before anything runs. What can fail afterwards is the card itself; a lost card makes every later call fail
//! with what the driver said, and the caller's text survives because the backend never owned it.
//!
//! Reading order: `plan`, `runner.rs`, `chain.rs`.

use std::path::Path;
use std::sync::Arc;

use rawloop_backend::columns::{self, Column as PassColumn, Output, Piece};
use rawloop_backend::runs;
use rawloop_backend::{
    Backend, BackendError, BackendInfo, Draw, PROMPT_STEP, SequenceId, Snapshot, StepOutput, Wanted, Work,
};
use rawloop_pack::Pack;
use rawloop_spec::TapSink;

use crate::bulk;
use crate::draft::Drafter;
use crate::drafter_weights::DrafterWeights;
use crate::draw;
use crate::driver::Device;
use crate::form::{End, Form, NEIGHBOURS, Part, Reach};
use crate::hidden::Hidden;
use crate::kv::{KvCache, KvLayout};
use crate::options::{CudaError, CudaOptions, DriverError};
use crate::params::{self, Column};
use crate::plan::{self, WIDTH};
use crate::room::Room;
use crate::rope::RopeTable;
use crate::runner::Runner;
use crate::sequence::Sequences;
use crate::snapshot;
use crate::weights::{Arena, Weights};

/// Runs a pack on a CUDA device.
pub struct CudaBackend {
    // Dropped in this order: graphs and sequences before the memory of the weights.
    pub(crate) runner: Runner,
    drafter: Option<Drafter>,
    /// [`CudaOptions::speculates`].
    speculates: bool,
    pub(crate) sequences: Sequences,
    arena: Arena,
    pieces: Vec<Piece>,
    columns: Vec<PassColumn>,
}

pub(crate) fn failed(error: DriverError) -> BackendError {
    BackendError::Failed(format!("CUDA: {error}"))
}

/// How many columns lie before the first run of neighbours of one sequence that is long enough for a prompt's pass.
fn before_a_prompt(columns: &[PassColumn]) -> usize {
    let runs = columns.chunk_by(|a, b| a.sequence == b.sequence);
    runs.take_while(|run| run.len() < bulk::LEAST).map(<[_]>::len).sum()
}

/// The kernels of a trial, in words so that they start where the driver wants them to.
fn kernels_of(path: &Path) -> Result<Vec<u64>, DriverError> {
    let fail = |error: std::io::Error| DriverError {
        what: format!("reading the kernels {}", path.display()),
        why: error.to_string(),
    };
    let bytes = std::fs::read(path).map_err(fail)?;
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(&bytes);
    Ok(words)
}

impl CudaBackend {
    /// Copies a pack to a device. Takes about the time of reading the file.
    ///
    /// # Errors
    /// There is no usable device, an option is not possible, or the pack is not one that this backend runs.
    pub fn open(pack: &Pack, options: &CudaOptions) -> Result<CudaBackend, CudaError> {
        let geometry = pack.geometry();
        let refused = CudaError::Context { context: options.context, limit: geometry.max_context };
        if options.context == 0 || options.context > geometry.max_context {
            return Err(refused);
        }
        let Some(layout) =
            KvLayout::new(geometry, pack.manifest().drafter.as_ref(), options.kv, options.context)
        else {
            return Err(refused);
        };
        let kernels = options.trial.kernels.as_deref().map(kernels_of).transpose()?;
        let device =
            Device::open(options.device, kernels.as_deref().map(bytemuck::cast_slice), &options.trial)?;
        let mut arena = Arena::new(&device);
        let weights = Weights::load(pack, &mut arena, options.per_layer_embeddings, &options.trial)?;
        let room = Room::new(&device, &weights, &layout)?;
        let drafter = if options.speculates { DrafterWeights::load(pack, &mut arena)? } else { None };
        let mut frequencies = weights.frequencies.to_vec();
        frequencies.extend(drafter.iter().flat_map(|drafter| drafter.frequencies.clone()));
        let rope = RopeTable::new(&device, frequencies, options.context)?;
        let runner = Runner::new(device, weights, room, Arc::new(layout), rope, options.trial.clone())?;
        let drafter = drafter
            .map(|weights| Drafter::new(&runner.device, weights, &runner.layout, geometry.hidden))
            .transpose()?;
        Ok(CudaBackend {
            runner,
            drafter,
            speculates: options.speculates,
            sequences: Sequences::default(),
            arena,
            pieces: Vec::new(),
            columns: Vec::new(),
        })
    }

    /// Bytes on the card without K/V: weights, tables and the room of a pass.
    pub fn device_bytes(&self) -> usize {
        let prompts = self.runner.bulk.as_ref().map_or(0, |room| room.bytes());
        self.arena.bytes + self.runner.room.bytes() + prompts
    }

    /// Bytes of weights that a decoded token reads whole.
    pub fn bytes_per_token(&self) -> usize {
        self.runner.weights.bytes_per_token
    }

    fn bind(&self) -> Result<(), BackendError> {
        self.runner.device.bind().map_err(failed)
    }

    /// Checks the work and resolves it into `pieces`; counts the rows of picks and of logits.
    fn validate(&self, work: &[Work<'_>], pieces: &mut Vec<Piece>) -> Result<[usize; 2], BackendError> {
        let place = |id| {
            let sequence = self.sequences.index(id)?;
            Ok((sequence, self.sequences.list[sequence].cache.position()))
        };
        columns::resolve(work, self.vocab(), self.runner.layout.context, place, pieces)
    }

    /// Whether the only column of a step that wants an output goes along with the prompt before it, which ends `silent`, through the layers that own K/V: where prompts have
    /// passes of their own and it makes no tile more. Several such columns are quicker in a pass of theirs.
    fn goes_along(&self, silent: &[PassColumn], wanted: &[PassColumn]) -> bool {
        let (Some(room), [last]) = (&self.runner.bulk, wanted) else { return false };
        let own = silent.iter().rev().take_while(|column| column.sequence == last.sequence).count();
        // Passes are even, so none of a prompt of this length is shorter than the least.
        let passes = own + 1 >= bulk::LEAST && room.width >= 2 * bulk::LEAST;
        passes && bulk::tiles(own + 1, room.width) == bulk::tiles(own, room.width)
    }

    /// Runs the columns of `list` in passes; the last one hands its stream on where the rest of the program follows.
    fn passes(
        &mut self,
        list: &[PassColumn],
        part: Part,
        hands_on: bool,
        output: &mut StepOutput,
    ) -> Result<(), DriverError> {
        let most = plan::width(&self.runner.device);
        let width = self.runner.bulk.as_ref().map_or(0, |room| room.width);
        let prompts_apart = part == Part::Silent && width >= bulk::LEAST;
        let mut rest = list;
        while let Some(first) = rest.first() {
            // A pass of short prompts ends where a long one begins, which has passes of its own to its last token.
            let short = if prompts_apart { before_a_prompt(rest) } else { rest.len() };
            if short == 0 {
                let same = rest.iter().take_while(|column| column.sequence == first.sequence).count();
                let (pass, behind) = rest.split_at(columns::next_width(same, width));
                rest = behind;
                self.bulk(pass, hands_on && rest.is_empty())?;
            } else {
                let (pass, behind) = rest.split_at(columns::next_width(short, most));
                rest = behind;
                self.pass(pass, part, output)?;
            }
        }
        Ok(())
    }

    fn bulk(&mut self, pass: &[PassColumn], hands_on: bool) -> Result<(), DriverError> {
        let CudaBackend { runner, sequences, .. } = self;
        let Some(last) = pass.last() else { return Ok(()) };
        runner.rope.reach(last.position + 1)?;
        let sequence = &mut sequences.list[last.sequence];
        let columns = pass.iter().map(|column| Column {
            kv: sequence.cache.address(),
            token: column.token,
            position: column.position as i32,
        });
        runner.bulk(columns, hands_on.then_some(pass.len() - 1))?;
        sequence.cache.advance(last.position + 1);
        Ok(())
    }

    fn pass(&mut self, pass: &[PassColumn], part: Part, output: &mut StepOutput) -> Result<(), DriverError> {
        let CudaBackend { runner, sequences, .. } = self;
        let last = pass.iter().map(|column| column.position).max().unwrap_or(0);
        runner.rope.reach(last + 1)?;
        runner.send(pass.iter().map(|column| Column {
            kv: sequences.list[column.sequence].cache.address(),
            token: column.token,
            position: column.position as i32,
        }))?;
        // Columns of one sequence follow each other.
        let neighbours = (2..=NEIGHBOURS).contains(&pass.len())
            && pass.iter().all(|column| column.sequence == pass[0].sequence);
        let (columns, reach) = (pass.len(), Reach::of(last));
        runner.start(Form { columns, part, end: End::Open, reach, neighbours })?;
        let mut first = 0;
        for columns in pass.chunk_by(|a, b| a.sequence == b.sequence) {
            let sequence = &mut sequences.list[columns[0].sequence];
            sequence.cache.advance(columns[0].position + columns.len());
            if part != Part::Silent {
                sequence.hidden.keep(&runner.room.last, first, columns[0].position, columns.len())?;
            }
            first += columns.len();
        }
        if part == Part::Silent {
            return Ok(());
        }
        let vocab = runner.weights.geometry.vocab;
        let picks = pass.iter().take_while(|column| matches!(column.output, Output::Pick(_))).count();
        if picks > 0 {
            let mut found = [0; WIDTH];
            runner.picks(picks, &mut found)?;
            for (column, pick) in pass.iter().zip(found) {
                if let Output::Pick(row) = column.output {
                    output.picks[row] = pick;
                }
            }
        }
        if let Some(Output::Logits(row)) = pass.get(picks).map(|column| column.output) {
            let count = pass.len() - picks;
            runner.logits(picks, count, &mut output.logits[row * vocab..(row + count) * vocab])?;
        }
        Ok(())
    }

    /// Tokens behind `token`, run after run.
    fn run(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        how: (&[u32], Option<params::Draw>),
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), BackendError> {
        self.bind()?;
        let index = self.sequences.index(sequence)?;
        runs::decode(token, limit, emit, |token, left, emit| {
            let position = self.sequences.list[index].cache.position();
            let room = runs::room(token, self.vocab(), position, self.runner.layout.context)?;
            self.run_chain(index, token, left.min(room), how, emit)
        })
    }

    fn new_sequence(&self) -> Result<(KvCache, Hidden), DriverError> {
        let device = &self.runner.device;
        let cache = KvCache::new(device, self.runner.layout.clone())?;
        Ok((cache, Hidden::new(device, 4 * self.runner.weights.geometry.hidden)?))
    }
}

impl Drop for CudaBackend {
    fn drop(&mut self) {
        // Nothing may run while its memory goes; an error has nobody to be told to.
        let _ = self.runner.device.bind().and_then(|()| self.runner.device.synchronize());
    }
}

impl Backend for CudaBackend {
    fn info(&self) -> BackendInfo {
        let mut cost = self.runner.layout.cost();
        cost.fixed += Hidden::bytes(4 * self.runner.weights.geometry.hidden);
        let about = &self.runner.device.about;
        BackendInfo {
            name: "cuda",
            kernels: format!("{}, sm_{}{}", about.name, about.capability.0, about.capability.1),
            threads: 1,
            kv: self.runner.layout.format.name(),
            context: self.runner.layout.context,
            has_drafter: self.drafter.is_some(),
            cost,
            // A pass of its own width takes the time of a few tokens.
            prompt_step: self.runner.bulk.as_ref().map_or(PROMPT_STEP, |room| room.width),
            takes_last_along: self.runner.bulk.is_some(),
        }
    }

    fn vocab(&self) -> usize {
        self.runner.weights.geometry.vocab
    }

    fn create(&mut self) -> Result<SequenceId, BackendError> {
        self.bind()?;
        let (cache, hidden) = self.new_sequence().map_err(failed)?;
        self.sequences.insert(cache, hidden)
    }

    fn free(&mut self, sequence: SequenceId) {
        if self.bind().is_ok() {
            self.sequences.remove(sequence);
        }
    }

    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, BackendError> {
        self.bind()?;
        let original = self.sequences.get(sequence)?;
        let device = &self.runner.device;
        let hidden = original.hidden.fork(device).map_err(failed)?;
        let cache = original.cache.fork(device).map_err(failed)?;
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
        self.snapshot_at(sequence, self.position(sequence)?)
    }

    fn snapshot_at(&self, sequence: SequenceId, position: usize) -> Result<Snapshot, BackendError> {
        self.bind()?;
        let cache = &self.sequences.get(sequence)?.cache;
        let (from, lowest) = (cache.position(), cache.lowest());
        if position > from || position < lowest.min(from) {
            return Err(BackendError::RewindTooFar { from, to: position, lowest });
        }
        let bytes = snapshot::take(cache, position).map_err(BackendError::Failed)?;
        Ok(Snapshot { position, bytes })
    }

    fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.bind()?;
        let sequence = self.sequences.get_mut(sequence)?;
        snapshot::restore(&mut sequence.cache, snapshot.position, &snapshot.bytes)
            .map_err(BackendError::Snapshot)?;
        // The tokens before a snapshot's position are the ones held, so their hidden states are too.
        sequence.hidden.cut(snapshot.position);
        Ok(())
    }

    fn step(&mut self, work: &[Work<'_>], output: &mut StepOutput) -> Result<(), BackendError> {
        self.bind()?;
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut list = std::mem::take(&mut self.columns);
        let result = self.validate(work, &mut pieces).and_then(|[picks, logits]| {
            output.picks.resize(picks, 0);
            output.logits.resize(logits * self.vocab(), 0.0);
            self.runner.reset_chain(&[]).map_err(failed)?;
            list.clear();
            list.extend(columns::prefill(work, &pieces));
            let silent = list.len();
            list.extend(columns::full(work, &pieces));
            let along = self.goes_along(&list[..silent], &list[silent..]);
            let first = if along { &list[..] } else { &list[..silent] };
            self.passes(first, Part::Silent, along, output).map_err(failed)?;
            let part = if along { Part::Rest } else { Part::Whole };
            self.passes(&list[silent..], part, false, output).map_err(failed)?;
            self.runner.device.synchronize().map_err(failed)
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
        self.run(sequence, token, limit, (stops, None), emit)
    }

    fn decode_drawn(
        &mut self,
        sequence: SequenceId,
        token: u32,
        limit: usize,
        stops: &[u32],
        draw: &Draw<'_>,
        emit: &mut dyn FnMut(u32) -> bool,
    ) -> Result<bool, BackendError> {
        if !self.speculates {
            return Ok(false);
        }
        let geometry = &self.runner.weights.geometry;
        let Some(draw) = draw::of(draw, geometry.vocab, geometry.soft_cap) else { return Ok(false) };
        self.run(sequence, token, limit, (stops, Some(draw)), emit).map(|()| true)
    }

    fn draft(
        &mut self,
        sequence: SequenceId,
        token: u32,
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), BackendError> {
        drafts.clear();
        self.bind()?;
        let vocab = self.vocab();
        let drafter = self.drafter.as_mut().ok_or(BackendError::NoDrafter)?;
        if token as usize >= vocab {
            return Err(BackendError::Token { token, vocab });
        }
        let sequence = self.sequences.get(sequence)?;
        let position = sequence.cache.position();
        let Some(hidden) = sequence.hidden.before(position) else {
            let why = "no output was wanted of the last token, so there is nothing to draft from";
            return Err(BackendError::Failed(why.into()));
        };
        let column = Column { kv: sequence.cache.address(), token, position: position as i32 };
        drafter.draft(&mut self.runner, column, hidden, depth, drafts).map_err(failed)
    }

    fn step_tapped(
        &mut self,
        sequence: SequenceId,
        tokens: &[u32],
        taps: &mut dyn TapSink,
    ) -> Result<(), BackendError> {
        self.bind()?;
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
        self.bind()?;
        let cache = &self.sequences.get(sequence)?.cache;
        let row = |side| cache.row(layer, side, position).map_err(failed);
        match (row(0)?, row(1)?) {
            (Some(key), Some(value)) => Ok((key, value)),
            _ => Err(BackendError::Failed(format!("layer {layer} holds no K/V at position {position}"))),
        }
    }
}
