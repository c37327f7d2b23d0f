//! A pass as a list of launches: which kernel, which grid, which addresses.
//!
//! Two forms of a layer exist. The **narrow** form serves one column: three to six kernels a layer, norms and residual sums folded into the entry of
//! the stage that needs them. The **wide** form serves up to [`WIDTH`] columns with one reading of the weights: the same linears, with norms, storing of K/V and merging of
//! attention in kernels of their own. Everything that varies from token to token (ids, positions, K/V addresses) lies on the card, so a list is
//! recorded once as a graph and serves every token of its form.
//!
//! Order matters for early starts: only the first kernel of a list waits for everything before it (the driver sees to that, or the kernel itself where a run's lists follow each other
//! in one graph), every other one may copy what no kernel of the list writes before its predecessor has finished. K/V of earlier positions are such a thing in the narrow form, not in the wide one.
//! `build` below is the order; who writes a value stands in the file of its stage.
//!
//! Reading order: `ends.rs` (inputs, final norm, head), `stage.rs` (how a linear becomes a launch), `layers.rs`, `attention.rs`, then what stands in their place: `layer_attention.rs` (a layer's attention as one
//! kernel), `long.rs` (full layers behind 512 positions), `several.rs` (2 to 8 columns). `form.rs` has what lists
//! differ in, `room.rs` where values lie, `runner.rs` what makes graphs of lists.

mod attention;
mod ends;
mod layer_attention;
mod layers;
mod long;
mod several;
mod several_layer_attention;
mod stage;

use std::collections::HashMap;
use std::sync::Arc;

use bytemuck::Pod;

use crate::driver::{Device, Function, Launch};
use crate::form::{Form, Part, Role};
use crate::kv::KvLayout;
use crate::options::{DriverError, Trial};
use crate::params::argument;
use crate::room::{Room, TapRoom};
use crate::rope::RopeTable;
use crate::weights::{LayerWeights, Weights};

pub(crate) use attention::{attend, format_index};
pub(crate) use stage::OutputKind;

use stage::Joining;

/// Columns of one wide pass at most.
pub(crate) const WIDTH: usize = 32;
/// Columns of the smaller of the two wide kernels.
const EIGHT: usize = 8;
/// Shared memory of a block that the larger one needs for E4B.
const WIDEST_SHARED: usize = 200_000;
/// Which of the buffers of the residual stream a prompt's pass hands its last column on in; the inputs of a token use the other one.
pub(crate) const HANDED_ON: usize = 1;
/// Blocks of keys that a full layer has in the shortest reach.
const SHORT_BLOCKS: usize = 8;
/// Blocks of keys merged at once.
pub(crate) const MERGE_CHUNK: usize = 16;

/// Columns of a wide pass at most on this device.
pub(crate) fn width(device: &Device) -> usize {
    if device.shared >= WIDEST_SHARED { WIDTH } else { EIGHT }
}

/// Everything a list is built from.
pub(crate) struct Builder<'a> {
    pub device: &'a Arc<Device>,
    pub functions: &'a mut Functions,
    pub weights: &'a Weights,
    pub room: &'a Room,
    pub layout: &'a KvLayout,
    pub rope: &'a RopeTable,
    pub taps: TapRoom,
    pub trial: &'a Trial,
    /// Where stages of a decode run write clocks; 0 where they do not.
    pub stamps: u64,
}

/// Kernels that were looked up.
#[derive(Default)]
pub(crate) struct Functions {
    found: HashMap<&'static str, Function>,
}

impl Functions {
    pub fn get(&mut self, device: &Device, name: &'static str) -> Result<Function, DriverError> {
        if let Some(function) = self.found.get(name) {
            return Ok(*function);
        }
        let function = device.function(name)?;
        self.found.insert(name, function);
        Ok(function)
    }
}

/// A list under construction.
struct List<'a, 'b> {
    builder: &'a mut Builder<'b>,
    form: Form,
    launches: Vec<Launch>,
    /// Which of the two buffers holds the residual stream.
    stream: usize,
    joining: Option<Joining>,
}

impl Builder<'_> {
    /// The launches of a form.
    ///
    /// # Errors
    /// A kernel is missing or would need more shared memory than there is.
    pub fn build(&mut self, form: Form) -> Result<Vec<Launch>, DriverError> {
        let own = self.layout.layers.len();
        let layers = self.weights.geometry.layers.len();
        let mut list = List { builder: self, form, launches: Vec::new(), stream: 0, joining: None };
        let run = match form.part {
            Part::Silent => 0..own - 1,
            Part::Rest => own - 1..layers,
            Part::Whole => 0..layers,
        };
        list.inputs(run.clone())?;
        if form.part == Part::Rest {
            list.stream = HANDED_ON;
        }
        for layer in run {
            if !list.attention_at_once(layer)? {
                list.qkv(layer)?;
                list.attention(layer, false)?;
                list.output(layer)?;
            }
            list.ffn(layer)?;
            list.ple(layer)?;
        }
        if form.part == Part::Silent {
            list.qkv(own - 1)?;
            list.attention(own - 1, true)?;
            return Ok(list.launches);
        }
        list.end()?;
        Ok(list.launches)
    }

    /// Threads of a stage kernel.
    pub fn threads(&self) -> u32 {
        32 * self.device.warps as u32
    }

    #[allow(clippy::too_many_arguments)] // the fields of a launch
    pub fn launch(
        &mut self,
        name: &'static str,
        grid: (u32, u32, u32),
        threads: u32,
        shared: usize,
        arguments: Vec<Box<[u64]>>,
        early: bool,
        role: Role,
    ) -> Result<Launch, DriverError> {
        let function = self.functions.get(self.device, name)?;
        if shared > function.dynamic {
            let why = format!("it needs {shared} bytes of shared memory, a block has {}", function.dynamic);
            return Err(DriverError { what: format!("preparing kernel {name}"), why });
        }
        Ok(Launch { name, function, grid, threads, shared, cluster: 1, arguments, early, role })
    }
}

impl List<'_, '_> {
    fn narrow(&self) -> bool {
        self.form.columns == 1
    }

    fn push(
        &mut self,
        name: &'static str,
        grid: (usize, usize, usize),
        threads: u32,
        shared: usize,
        arguments: Vec<Box<[u64]>>,
        role: Role,
    ) -> Result<(), DriverError> {
        let early = !self.launches.is_empty();
        let grid = (grid.0 as u32, grid.1 as u32, grid.2 as u32);
        let launch = self.builder.launch(name, grid, threads, shared, arguments, early, role)?;
        self.launches.push(launch);
        Ok(())
    }

    fn push_one<T: Pod>(
        &mut self,
        name: &'static str,
        grid: (usize, usize, usize),
        threads: u32,
        shared: usize,
        params: T,
        role: Role,
    ) -> Result<(), DriverError> {
        self.push(name, grid, threads, shared, vec![argument(params)], role)
    }

    fn weights(&self, layer: usize) -> LayerWeights {
        self.builder.weights.layers[layer].clone()
    }

    fn multiprocessors(&self) -> usize {
        self.builder.device.about.multiprocessors
    }
}
