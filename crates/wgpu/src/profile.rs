//! Where the time of a decoded token goes: each step in a pass of its own between two timestamps.
//!
//! Steps that would overlap run apart here, so the sum is more than a token takes; the shares are what this is for.

use std::time::Duration;

use rawloop_backend::BackendError;
use rawloop_backend::SequenceId;
use wgpu::{BufferUsages, ComputePassDescriptor, ComputePassTimestampWrites, QuerySetDescriptor, QueryType};

use crate::backend::{WgpuBackend, failed};
use crate::params::Column;
use crate::plan::Role;
use crate::runner::{Run, Shape};

/// Name of a step's stage in the program, of `layers` layers; an entry belongs to the stage behind it.
fn name(role: Role, layers: usize) -> &'static str {
    match role {
        Role::Embed => "embed",
        Role::LayerInputs => "per_layer_inputs",
        Role::EnterQkv(layer) if layer == layers => "final_norm",
        Role::EnterQkv(_) | Role::Qkv(_) => "norm_qkv",
        Role::Heads(_) | Role::Attention(_) => "attention",
        Role::Output(_) => "output",
        Role::EnterFfn(_) | Role::GateUp(_) => "norm_gate_up",
        Role::Down(_) => "down",
        Role::EnterPle(_) | Role::PleGate(_) => "ple_gate",
        Role::PleProjection(_) => "ple_projection",
        Role::Head => "head",
        Role::Pick => "pick",
    }
}

/// What one stage kind took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// Name of the kind, as the program prints it.
    pub stage: &'static str,
    /// How many dispatches it was.
    pub dispatches: usize,
    /// All of them together.
    pub time: Duration,
}

impl WgpuBackend {
    /// Runs `columns` tokens `token` behind what a sequence holds, step by step, and forgets them; times and numbers of dispatches by stage. Empty
    /// where the adapter has no timestamps.
    ///
    /// # Errors
    /// Unknown sequence, or the device fails.
    pub fn profile(
        &mut self,
        sequence: SequenceId,
        token: u32,
        columns: usize,
    ) -> Result<Vec<StageTime>, BackendError> {
        let index = self.sequences.index(sequence)?;
        if !self.runner.gpu.timestamps || columns == 0 {
            return Ok(Vec::new());
        }
        let cache = &mut self.sequences.list[index].cache;
        let position = cache.position();
        let columns = columns.min(crate::room::WIDTH).min(cache.layout.context - position);
        cache.touched(position + columns);
        let cache = &self.sequences.list[index].cache;
        self.runner.columns.clear();
        self.runner
            .columns
            .extend((0..columns).map(|ahead| Column { token, position: (position + ahead) as u32 }));
        self.runner.send(0).map_err(failed)?;
        let runner = &self.runner;
        let runs = [Run { kv: &cache.groups, first: 0, position, count: columns }];
        let shape = Shape { columns, runs: &runs, full: true };
        let plan = runner.plan(columns);
        let steps: Vec<_> = plan.steps.iter().chain(&plan.head).chain([&plan.pick]).collect();
        let count = 2 * steps.len() as u32;
        let device = &runner.gpu.device;
        let queries =
            device.create_query_set(&QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count });
        let mut encoder = runner.gpu.encoder();
        for (number, step) in (0..).zip(&steps) {
            let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(ComputePassTimestampWrites {
                    query_set: &queries,
                    beginning_of_pass_write_index: Some(2 * number),
                    end_of_pass_write_index: Some(2 * number + 1),
                }),
            });
            runner.step(&mut pass, step, &shape);
        }
        let bytes = 8 * count as usize;
        let resolved = runner.gpu.buffer(bytes, BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC);
        encoder.resolve_query_set(&queries, 0..count, &resolved, 0);
        runner.gpu.queue.submit([encoder.finish()]);
        let ticks: Vec<u64> = runner.gpu.values(&resolved, 0, count as usize).map_err(failed)?;
        let nanoseconds = f64::from(runner.gpu.queue.get_timestamp_period());
        let layers = runner.weights.geometry.layers.len();
        let mut out: Vec<StageTime> = Vec::new();
        for (step, ticks) in steps.iter().zip(ticks.chunks_exact(2)) {
            let time = Duration::from_nanos((ticks[1].saturating_sub(ticks[0]) as f64 * nanoseconds) as u64);
            let Some(stage) = step.role().map(|role| name(role, layers)) else { continue };
            match out.iter_mut().find(|entry| entry.stage == stage) {
                Some(entry) => {
                    entry.dispatches += 1;
                    entry.time += time;
                }
                None => out.push(StageTime { stage, dispatches: 1, time }),
            }
        }
        Ok(out)
    }
}
