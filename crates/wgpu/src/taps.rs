//! One token through the program with every stage's values shown: each step runs alone and its buffers are read behind it.

use bytemuck::Pod;
use rawloop_spec::{Program, Stage, TapSink, TapValue};
use wgpu::Buffer;

use crate::backend::WgpuBackend;
use crate::options::GpuError;
use crate::params::Column;
use crate::plan::{Role, Step};
use crate::room::WIDTH;
use crate::runner::{Run, Runner, Shape};

/// Reads what a stage left behind.
fn read<T: Pod>(runner: &Runner, buffer: &Buffer, count: usize) -> Result<Vec<T>, GpuError> {
    runner.gpu.values(buffer, 0, count)
}

impl WgpuBackend {
    /// Runs one token of a sequence, showing everything to `taps`.
    pub(crate) fn tapped(
        &mut self,
        index: usize,
        token: u32,
        taps: &mut dyn TapSink,
    ) -> Result<(), GpuError> {
        let position = self.sequences.list[index].cache.position();
        self.runner.columns.clear();
        self.runner.columns.push(Column { token, position: position as u32 });
        self.runner.send(0)?;
        let runner = &self.runner;
        let cache = &self.sequences.list[index].cache;
        let runs = [Run { kv: &cache.groups, first: 0, position, count: 1 }];
        let shape = Shape { columns: 1, runs: &runs, full: true };
        let plan = runner.plan(1);
        let steps = plan.steps.iter().chain(&plan.head_logits).chain([&plan.pick]);
        let steps: Vec<_> = steps.collect();
        let stages = Program::full(&runner.weights.geometry).stages;
        for (number, step) in steps.iter().enumerate() {
            let mut encoder = runner.gpu.encoder();
            runner.encode(&mut encoder, [*step], &shape);
            runner.gpu.queue.submit([encoder.finish()]);
            // Values are there once the last dispatch of a role has run.
            if steps.get(number + 1).is_none_or(|next| next.roles != step.roles) {
                let row = |layer, side| cache.rows(&runner.gpu, layer, side, position, position + 1);
                let rows = |layer: usize| Ok([row(layer, 0)?, row(layer, 1)?]);
                for role in step.roles.iter().flatten() {
                    show(runner, &stages, (step, *role), position, &rows, taps)?;
                }
            }
        }
        self.sequences.list[index].cache.advance(position + 1);
        Ok(())
    }
}

/// The rows of K/V that a layer holds of the token.
type Rows<'a> = &'a dyn Fn(usize) -> Result<[Vec<u8>; 2], GpuError>;

fn show(
    runner: &Runner,
    stages: &[Stage],
    (step, role): (&Step, Role),
    position: usize,
    rows: Rows<'_>,
    taps: &mut dyn TapSink,
) -> Result<(), GpuError> {
    let (room, geometry) = (&runner.room, &runner.weights.geometry);
    let (hidden, ple) = (geometry.hidden, geometry.ple_width);
    let layers = geometry.layers.len();
    let at = |layer: usize, stage: usize| 2 + 7 * layer + stage;
    let codes = |buffer: &Buffer, count| read::<i8>(runner, buffer, count);
    let floats = |buffer: &Buffer, count| read::<f32>(runner, buffer, count);
    let stream = || runner.gpu.values::<f32>(&room.hidden, step.side * WIDTH * hidden, hidden);
    let input = || match step.entered() {
        true => runner.gpu.values::<i8>(&room.hidden, 8 * WIDTH * hidden, hidden),
        false => codes(&room.input, hidden),
    };
    let mut tap = |stage: usize, name, value: TapValue<'_>| taps.tap(stage, position, name, value);
    match role {
        Role::Embed => tap(0, "hidden", TapValue::Floats(&stream()?)),
        Role::LayerInputs => {
            let values = floats(&room.layer_inputs, layers * ple)?;
            tap(1, "per_layer_inputs", TapValue::Floats(&values));
        }
        Role::EnterQkv(layer) => {
            if layer > 0 {
                tap(at(layer - 1, 6), "hidden", TapValue::Floats(&stream()?));
            }
            if layer == layers {
                tap(at(layer, 0), "final", TapValue::Floats(&floats(&room.last, hidden)?));
            }
        }
        Role::Qkv(layer) => {
            let stage = at(layer, 0);
            let dim = geometry.layers[layer].head_dim;
            let part = |first, count| runner.gpu.values::<i8>(&room.qkv, first, count);
            tap(stage, "input", TapValue::Codes(&input()?));
            tap(stage, "q", TapValue::Codes(&part(0, geometry.heads * dim)?));
            if geometry.owns_kv(layer) {
                let (first, count) = (room.heads_width, geometry.kv_heads * dim);
                tap(stage, "k", TapValue::Codes(&part(first, count)?));
                tap(stage, "v", TapValue::Codes(&part(first + room.kv_width, count)?));
            }
        }
        Role::Heads(layer) => {
            let count = geometry.heads * geometry.layers[layer].head_dim;
            tap(at(layer, 1), "query", TapValue::Floats(&floats(&room.query, count)?));
            if geometry.owns_kv(layer) {
                let [key, value] = rows(layer)?;
                tap(at(layer, 1), "key_row", TapValue::Bytes(&key));
                tap(at(layer, 1), "value_row", TapValue::Bytes(&value));
            }
        }
        Role::Attention(layer) => {
            let count = geometry.heads * geometry.layers[layer].head_dim;
            tap(at(layer, 1), "attention", TapValue::Floats(&floats(&room.attention, count)?));
            tap(at(layer, 2), "input", TapValue::Codes(&codes(&room.o_input, count)?));
        }
        Role::Output(layer) => tap(at(layer, 2), "o", TapValue::Codes(&codes(&room.joining, hidden)?)),
        Role::EnterFfn(layer) => {
            tap(at(layer, 2), "hidden", TapValue::Floats(&stream()?));
            tap(at(layer, 3), "input", TapValue::Codes(&input()?));
        }
        Role::GateUp(layer) => {
            let ffn = geometry.layers[layer].ffn;
            let both = codes(&room.gate_up, 2 * ffn)?;
            // Four codes of gate and four of up take turns.
            let of = |which: usize| -> Vec<i8> {
                both.chunks_exact(8).flat_map(|eight| &eight[4 * which..4 * which + 4]).copied().collect()
            };
            tap(at(layer, 3), "gate", TapValue::Codes(&of(0)));
            tap(at(layer, 3), "up", TapValue::Codes(&of(1)));
            tap(at(layer, 3), "ffn", TapValue::Codes(&codes(&room.ffn, ffn)?));
        }
        Role::Down(layer) => tap(at(layer, 4), "down", TapValue::Codes(&codes(&room.joining, hidden)?)),
        Role::EnterPle(layer) => {
            tap(at(layer, 4), "hidden", TapValue::Floats(&stream()?));
            tap(at(layer, 5), "input", TapValue::Codes(&input()?));
        }
        Role::PleGate(layer) => {
            tap(at(layer, 5), "ple_gate", TapValue::Codes(&codes(&room.layer_gate, ple)?));
            tap(at(layer, 5), "product", TapValue::Codes(&codes(&room.product, ple)?));
        }
        Role::PleProjection(layer) => {
            tap(at(layer, 6), "ple_projection", TapValue::Codes(&codes(&room.joining, hidden)?));
        }
        Role::Head => {
            let logits = floats(&room.logits, geometry.vocab)?;
            tap(stages.len() - 2, "logits", TapValue::Floats(&logits));
        }
        Role::Pick => {
            let picks: Vec<u32> = read(runner, &room.picks, 1)?;
            tap(stages.len() - 1, "token", TapValue::Token(picks[0]));
        }
    }
    Ok(())
}
