//! Encodes lists for a pass and submits them.

use std::sync::Arc;

use rawloop_pack::Pack;
use wgpu::{CommandEncoder, ComputePass, ComputePassDescriptor};

use crate::gpu::Gpu;
use crate::kv::{KvBinding, KvLayout, LayerGroups};
use crate::options::GpuError;
use crate::params::Column;
use crate::plan::{Dispatch, Grid, Plan, Step};
use crate::room::{CHAIN_HEADER, FIRST_STRIDE, MOST_STOPS, Room};
use crate::rope::RopeTables;
use crate::weights::{Weights, host_row};

/// Neighbouring columns of one sequence.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub kv: &'a [LayerGroups],
    /// The first of them in the pass, its position, and how many there are.
    pub first: usize,
    pub position: usize,
    pub count: usize,
}

/// What a pass is, beside its list.
pub(crate) struct Shape<'a> {
    pub columns: usize,
    pub runs: &'a [Run<'a>],
    /// Whether the whole program runs.
    pub full: bool,
}

/// Everything that a pass needs, besides sequences.
pub(crate) struct Runner {
    pub gpu: Gpu,
    pub pack: Arc<Pack>,
    pub weights: Weights,
    pub room: Room,
    pub layout: Arc<KvLayout>,
    pub rope: RopeTables,
    pub binding: KvBinding,
    /// The lists for one column and for several.
    pub plans: [Plan; 2],
    /// Columns of the pass that is sent.
    pub columns: Vec<Column>,
    /// Table rows that the host makes.
    rows: Vec<f32>,
}

impl Runner {
    /// Takes everything together.
    pub fn new(
        gpu: Gpu,
        pack: Arc<Pack>,
        weights: Weights,
        room: Room,
        layout: Arc<KvLayout>,
        rope: RopeTables,
        (binding, plans): (KvBinding, [Plan; 2]),
    ) -> Runner {
        let (columns, rows) = (Vec::new(), Vec::new());
        Runner { gpu, pack, weights, room, layout, rope, binding, plans, columns, rows }
    }

    /// The list for so many columns.
    pub fn plan(&self, columns: usize) -> &Plan {
        &self.plans[usize::from(columns > 1)]
    }

    /// Sends the tokens and positions of `self.columns`, the rope rows that they need, and their table rows where the host makes those.
    ///
    /// # Errors
    /// The mapped table cannot be read.
    pub fn send(&mut self, ahead: usize) -> Result<(), GpuError> {
        let last = self.columns.iter().map(|column| column.position as usize).max().unwrap_or(0);
        self.rope.reach(&self.gpu, last + 1 + ahead);
        self.gpu.write(&self.room.columns, 0, bytemuck::cast_slice(&self.columns));
        if self.weights.ple.is_none() {
            let geometry = &self.weights.geometry;
            let width = geometry.layers.len() * geometry.ple_width;
            self.rows.resize(width * self.columns.len(), 0.0);
            for (row, column) in self.rows.chunks_exact_mut(width).zip(&self.columns) {
                host_row(&self.pack, column.token, row)
                    .map_err(|error| GpuError::Internal(error.to_string()))?;
            }
            self.gpu.write(&self.room.layer_inputs, 0, bytemuck::cast_slice(&self.rows));
        }
        Ok(())
    }

    /// Starts a token chain anew.
    pub fn reset_chain(&mut self, stops: &[u32]) {
        let mut header = [0u32; CHAIN_HEADER];
        let known = stops.len().min(MOST_STOPS);
        header[2] = known as u32;
        header[3..3 + known].copy_from_slice(&stops[..known]);
        self.gpu.write(&self.room.chain, 0, bytemuck::cast_slice(&header));
    }

    /// Encodes steps into one compute pass.
    pub fn encode<'s>(
        &self,
        encoder: &mut CommandEncoder,
        steps: impl IntoIterator<Item = &'s Step>,
        shape: &Shape<'_>,
    ) {
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
        for step in steps {
            self.step(&mut pass, step, shape);
        }
    }

    /// The steps of a pass before the head.
    pub fn body<'s>(&'s self, shape: &Shape<'_>) -> impl Iterator<Item = &'s Step> + use<'s> {
        let full = shape.full;
        self.plan(shape.columns).steps.iter().filter(move |step| full || step.prefill)
    }

    /// Encodes one step.
    pub fn step(&self, pass: &mut ComputePass<'_>, step: &Step, shape: &Shape<'_>) {
        let start = |pass: &mut ComputePass<'_>, dispatch: &Dispatch| {
            pass.set_pipeline(&dispatch.pipeline.pipeline);
            pass.set_bind_group(0, &dispatch.group, &[]);
        };
        let offset = |column: usize| [(column * FIRST_STRIDE) as u32];
        let columns = shape.columns;
        let mut simple = |x: usize, y: usize| {
            start(pass, &step.dispatch);
            pass.dispatch_workgroups(x as u32, y as u32, 1);
        };
        match &step.grid {
            Grid::Columns(x) => simple(*x, columns),
            Grid::Blocks(x, wide) => simple(*x, columns.div_ceil(*wide)),
            Grid::Layers(x, wide) => {
                let all = self.weights.geometry.layers.len();
                let layers = if shape.full { all } else { self.plan(columns).prefill_layers };
                simple(x * layers, columns.div_ceil(*wide));
            }
            Grid::Heads { x, layer } => {
                start(pass, &step.dispatch);
                for run in shape.runs {
                    pass.set_bind_group(1, &run.kv[*layer].store, &offset(run.first));
                    pass.dispatch_workgroups(*x as u32, run.count as u32, 1);
                }
            }
            Grid::Attention { merge, groups, heads, layer, window, partials } => {
                let together = (self.room.partials / partials).max(1);
                for run in shape.runs {
                    for from in (0..run.count).step_by(together) {
                        let count = together.min(run.count - from);
                        let (low, high) = (run.position + from, run.position + from + count - 1);
                        let begin = if *window == 0 { 0 } else { (low + 1).saturating_sub(*window) };
                        let blocks = (high / 64 - begin / 64 + 1).min(*partials);
                        let offset = offset(run.first + from);
                        start(pass, &step.dispatch);
                        pass.set_bind_group(1, &run.kv[*layer].read, &offset);
                        pass.dispatch_workgroups(blocks as u32, *groups as u32, count as u32);
                        start(pass, merge);
                        pass.set_bind_group(1, &run.kv[*layer].read, &offset);
                        pass.dispatch_workgroups(*heads as u32, count as u32, 1);
                    }
                }
            }
        }
    }
}
