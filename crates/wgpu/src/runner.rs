//! Encodes lists for a pass and submits them.

use std::sync::Arc;

use rawloop_pack::Pack;
use wgpu::{CommandEncoder, ComputePass, ComputePassDescriptor};

use crate::gpu::Gpu;
use crate::kv::{KvBinding, KvLayout, LayerGroups};
use crate::options::GpuError;
use crate::params::Column;
use crate::plan::{Dispatch, Grid, Plan, Role, Step};
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

    /// Dispatches of one column at a position, its pick included.
    pub fn dispatches(&self, position: usize) -> usize {
        let plan = self.plan(1);
        let merges = |step: &&Step| match &step.grid {
            Grid::Attention { folded, reach, .. } => reach.blocks(position, position) > *folded,
            _ => false,
        };
        let all = plan.steps.iter().chain(&plan.head).chain([&plan.pick_chain]);
        plan.steps.iter().filter(merges).count() + all.count()
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
            Grid::Attention { merge, folded, groups, heads, layer, reach } => {
                let together = (self.room.partials / reach.most).max(1);
                // Kernels that make keys and values themselves bind the buffer to write to it.
                let stores = step.roles.iter().flatten().any(|role| matches!(role, Role::Heads(_)));
                for run in shape.runs {
                    let kv = &run.kv[*layer];
                    for from in (0..run.count).step_by(together) {
                        let count = together.min(run.count - from);
                        let low = run.position + from;
                        let blocks = reach.blocks(low, low + count - 1);
                        let offset = offset(run.first + from);
                        start(pass, &step.dispatch);
                        pass.set_bind_group(1, if stores { &kv.store } else { &kv.read }, &offset);
                        pass.dispatch_workgroups(blocks as u32, *groups as u32, count as u32);
                        if blocks > *folded {
                            start(pass, merge);
                            pass.set_bind_group(1, &kv.read, &offset);
                            pass.dispatch_workgroups(*heads as u32, count as u32, 1);
                        }
                    }
                }
            }
            Grid::Merging { plain, folded, x, reach } => {
                let position = shape.runs.first().map_or(0, |run| run.position);
                let folds = reach.blocks(position, position) <= *folded;
                start(pass, if folds { &step.dispatch } else { plain });
                pass.dispatch_workgroups(*x as u32, 1, 1);
            }
        }
    }
}
