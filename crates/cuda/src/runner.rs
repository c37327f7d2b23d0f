//! Runs lists of launches: as graphs, recorded when a form is first used, or one by one.

use std::collections::HashMap;
use std::sync::Arc;

use crate::bulk::{self, Bulk, BulkRoom};
use crate::driver::{Device, Graph, Launch};
use crate::form::{Form, Role};
use crate::kv::KvLayout;
use crate::memory::{DeviceBytes, Pinned};
use crate::options::{DriverError, Trial};
use crate::params::{Chain, Column, Draw, MOST_STOPS, Stamps};
use crate::plan::{Builder, Functions, HANDED_ON, WIDTH};
use crate::room::{Room, TapRoom};
use crate::rope::RopeTable;
use crate::weights::Weights;

/// Passes whose columns may be on their way to the card at once.
const SLOTS: usize = 64;
/// Passes of prompts likewise.
const BULK_SLOTS: usize = 8;

/// Everything that a pass needs, besides sequences.
pub(crate) struct Runner {
    pub device: Arc<Device>,
    pub weights: Weights,
    pub room: Room,
    /// Of prompts, where the shape is one that its kernels know.
    pub bulk: Option<BulkRoom>,
    pub layout: Arc<KvLayout>,
    pub rope: RopeTable,
    pub trial: Trial,
    /// Clocks of the launches of a list.
    pub stamps: Option<DeviceBytes>,
    functions: Functions,
    /// By form, and how many tokens one has.
    graphs: HashMap<(Form, usize), Graph>,
    /// Columns of passes under way, [`WIDTH`] a slot.
    columns: Vec<Pinned<Column>>,
    /// The same of prompts, [`bulk::WIDEST`] a slot.
    bulk_columns: Vec<Pinned<Column>>,
    slot: usize,
    bulk_slot: usize,
    chain: Pinned<Chain>,
    draw: Pinned<Draw>,
    picks: Pinned<u64>,
    pub emitted: Pinned<u32>,
}

/// Launches of a list whose clocks there is room for.
pub(crate) const STAMPED: usize = 1024;
/// Ids a decode run can have under way at most.
pub(crate) const EMITTED: usize = 1 << 12;
/// What stands where no id was written yet.
pub(crate) const NO_TOKEN: u32 = u32::MAX;

impl Runner {
    pub fn new(
        device: Arc<Device>,
        weights: Weights,
        room: Room,
        layout: Arc<KvLayout>,
        rope: RopeTable,
        trial: Trial,
    ) -> Result<Runner, DriverError> {
        let bulk = BulkRoom::new(&device, &weights, &layout)?;
        let bulk_columns = (0..BULK_SLOTS).map(|_| Pinned::zeroed(bulk::WIDEST)).collect::<Result<_, _>>()?;
        let columns = (0..SLOTS).map(|_| Pinned::zeroed(WIDTH)).collect::<Result<_, _>>()?;
        let stamps = match trial.stamps {
            true => Some(DeviceBytes::zeroed(&device, STAMPED * size_of::<Stamps>())?),
            false => None,
        };
        let runner = Runner {
            trial,
            stamps,
            weights,
            room,
            bulk,
            layout,
            rope,
            functions: Functions::default(),
            graphs: HashMap::new(),
            columns,
            bulk_columns,
            slot: 0,
            bulk_slot: 0,
            chain: Pinned::zeroed(1)?,
            draw: Pinned::zeroed(1)?,
            picks: Pinned::zeroed(WIDTH)?,
            emitted: Pinned::zeroed(EMITTED)?,
            device,
        };
        Ok(runner)
    }

    /// A builder of lists.
    pub fn builder(&mut self, taps: TapRoom) -> Builder<'_> {
        Builder {
            device: &self.device,
            functions: &mut self.functions,
            weights: &self.weights,
            room: &self.room,
            layout: &self.layout,
            rope: &self.rope,
            taps,
            trial: &self.trial,
            stamps: self.stamps.as_ref().map_or(0, |stamps| stamps.address()),
        }
    }

    /// Sends the columns of the next pass.
    pub fn send(&mut self, columns: impl Iterator<Item = Column>) -> Result<(), DriverError> {
        self.slot += 1;
        if self.slot >= SLOTS {
            self.device.synchronize()?;
            self.slot = 0;
        }
        let pinned = &mut self.columns[self.slot];
        let mut count = 0;
        for (slot, column) in pinned.values().iter_mut().zip(columns) {
            *slot = column;
            count += 1;
        }
        pinned.send(&self.device, self.room.columns.address(), count)
    }

    /// Starts a token chain anew. Nothing may be under way.
    pub fn reset_chain(&mut self, stops: &[u32]) -> Result<(), DriverError> {
        let mut chain = Chain { emitted: self.emitted.address(), ..Chain::default() };
        let known = stops.len().min(MOST_STOPS);
        chain.stops[..known].copy_from_slice(&stops[..known]);
        chain.stop_count = known as i32;
        self.chain.values()[0] = chain;
        self.emitted.values().fill(NO_TOKEN);
        self.chain.send(&self.device, self.room.chain.address(), 1)
    }

    /// Tells how the next run draws. Nothing may be under way.
    pub fn set_draw(&mut self, draw: Draw) -> Result<(), DriverError> {
        self.draw.values()[0] = draw;
        self.draw.send(&self.device, self.room.draw.address(), 1)
    }

    /// Starts the list of a form.
    pub fn start(&mut self, form: Form) -> Result<(), DriverError> {
        self.start_tokens(form, 1)
    }

    /// Starts the list of a form of a run once for each of some neighbouring tokens, as one graph: a list that begins with its projection starts beside the end of the one
    /// before.
    pub fn start_tokens(&mut self, form: Form, tokens: usize) -> Result<(), DriverError> {
        let key = (form, tokens);
        if !self.graphs.contains_key(&key) {
            let mut launches = self.builder(TapRoom::default()).build(form)?;
            let device = self.device.clone();
            let graph = device.capture(|| {
                (0..tokens).try_for_each(|token| {
                    launches[0].early = token > 0 && launches[0].role == Role::Project;
                    launches.iter().try_for_each(|launch| device.launch(launch))
                })
            })?;
            self.graphs.insert(key, graph);
        }
        self.graphs[&key].launch()
    }

    /// Runs a prompt's pass: neighbouring positions of one sequence, whose K/V are stored and nothing else. The stream of column `last`, if there is one, is handed
    /// on to the list of the rest.
    pub fn bulk(
        &mut self,
        columns: impl Iterator<Item = Column>,
        last: Option<usize>,
    ) -> Result<(), DriverError> {
        let (_, stream) = self.bulk_launches(columns, true)?;
        match (&self.bulk, last) {
            (Some(bulk), Some(last)) => bulk.hand_on(stream, last, &self.room.hidden[HANDED_ON]),
            _ => Ok(()),
        }
    }

    /// Sends the columns of a prompt's pass and makes its list, whose launches are started meanwhile where `start` says so; which buffer has the stream behind it.
    pub fn bulk_launches(
        &mut self,
        columns: impl Iterator<Item = Column>,
        start: bool,
    ) -> Result<(Vec<Launch>, usize), DriverError> {
        let Some(room) = &self.bulk else { return Ok((Vec::new(), 0)) };
        self.bulk_slot += 1;
        if self.bulk_slot >= BULK_SLOTS {
            // The columns of passes before may still be on their way.
            self.device.synchronize()?;
            self.bulk_slot = 0;
        }
        let pinned = &mut self.bulk_columns[self.bulk_slot];
        let mut count = 0;
        for (slot, column) in pinned.values().iter_mut().zip(columns) {
            *slot = column;
            count += 1;
        }
        pinned.send(&self.device, room.columns(), count)?;
        let mut builder = Builder {
            device: &self.device,
            functions: &mut self.functions,
            weights: &self.weights,
            room: &self.room,
            layout: &self.layout,
            rope: &self.rope,
            taps: TapRoom::default(),
            trial: &self.trial,
            stamps: 0,
        };
        Bulk::build(&mut builder, room, count, start)
    }

    /// The launches of a form, to be started one by one.
    pub fn launches(&mut self, form: Form, taps: TapRoom) -> Result<Vec<Launch>, DriverError> {
        self.builder(taps).build(form)
    }

    /// Greedy ids of the first `count` columns of the pass that just ran.
    pub fn picks(&mut self, count: usize, picks: &mut [u32; WIDTH]) -> Result<(), DriverError> {
        self.picks.values().fill(0);
        self.picks.send(&self.device, self.room.best.address(), WIDTH)?;
        let at_once = self.builder(TapRoom::default()).head_width();
        for first in (0..count).step_by(at_once) {
            let best = self.room.best.address() + 8 * first as u64;
            let width = at_once.min(count - first);
            let launch = self.builder(TapRoom::default()).head(first, width, best, 0, false)?;
            self.device.launch(&launch)?;
        }
        let mut best = [0u64; WIDTH];
        self.room.best.read(0, &mut best)?;
        for (pick, best) in picks.iter_mut().zip(best) {
            *pick = if best == 0 { 0 } else { !(best as u32) };
        }
        Ok(())
    }

    /// Logits of `count` columns from `first` on of the pass that just ran, `[count x vocab]`.
    pub fn logits(&mut self, first: usize, count: usize, logits: &mut [f32]) -> Result<(), DriverError> {
        let vocab = self.weights.geometry.vocab;
        let at_once = self.builder(TapRoom::default()).head_width();
        for step in (0..count).step_by(at_once) {
            let to = self.room.logits.address() + (4 * step * vocab) as u64;
            let width = at_once.min(count - step);
            let launch = self.builder(TapRoom::default()).head(first + step, width, 0, to, false)?;
            self.device.launch(&launch)?;
        }
        self.room.logits.read(0, &mut logits[..count * vocab])
    }
}
