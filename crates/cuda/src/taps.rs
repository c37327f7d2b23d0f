//! One token with every stage shown: the narrow list, launch by launch, with the values that it never writes down written down.
//!
//! Most values of a stage exist only in shared memory of the kernel that uses them. Kernels write them where [`TapRoom`] says; a value that is made at
//! the entry of a later stage is shown there, in the order in which the program has them.

use rawloop_spec::{Program, Stage, TapSink, TapValue};

use crate::backend::CudaBackend;
use crate::form::{End, Form, Part, Reach, Role};
use crate::memory::DeviceBytes;
use crate::options::DriverError;
use crate::params::Column;
use crate::room::TapRoom;

/// Memory for the taps of one stage.
struct Buffers {
    input: DeviceBytes,
    joined: DeviceBytes,
    a: DeviceBytes,
    b: DeviceBytes,
    query: DeviceBytes,
    attention: DeviceBytes,
}

fn codes(from: &DeviceBytes, count: usize) -> Result<Vec<i8>, DriverError> {
    let mut values = vec![0i8; count];
    from.read(0, &mut values)?;
    Ok(values)
}

fn floats(from: &DeviceBytes, count: usize) -> Result<Vec<f32>, DriverError> {
    let mut values = vec![0f32; count];
    from.read(0, &mut values)?;
    Ok(values)
}

impl CudaBackend {
    /// Appends one token to a sequence and shows every stage.
    pub(crate) fn tapped(
        &mut self,
        index: usize,
        token: u32,
        taps: &mut dyn TapSink,
    ) -> Result<(), DriverError> {
        let geometry = self.runner.weights.geometry.clone();
        let stages = Program::full(&geometry).stages;
        let stage_of = |wanted: &dyn Fn(&Stage) -> bool| stages.iter().position(wanted).unwrap_or_default();
        let layer_stage = |layer: usize, offset: usize| {
            stage_of(&|stage| matches!(stage, Stage::NormQkv { layer: l, .. } if *l == layer)) + offset
        };
        let (hidden, heads) = (geometry.hidden, geometry.heads);
        let device = self.runner.device.clone();
        let most = self.runner.room.code_stride;
        let room = |bytes: usize| DeviceBytes::zeroed(&device, bytes);
        let buffers = Buffers {
            input: room(most)?,
            joined: room(most)?,
            a: room(most)?,
            b: room(most)?,
            query: room(4 * most)?,
            attention: room(4 * most)?,
        };
        let tap_room = TapRoom {
            input: buffers.input.address(),
            joined: buffers.joined.address(),
            a: buffers.a.address(),
            b: buffers.b.address(),
            query: buffers.query.address(),
            attention: buffers.attention.address(),
        };
        let position = self.sequences.list[index].cache.position();
        let column =
            Column { kv: self.sequences.list[index].cache.address(), token, position: position as i32 };
        self.runner.rope.reach(position + 1)?;
        self.runner.reset_chain(&[])?;
        self.runner.send(std::iter::once(column))?;
        let form = Form {
            columns: 1,
            part: Part::Whole,
            end: End::Open,
            reach: Reach::of(position),
            neighbours: false,
        };
        let launches = self.runner.launches(form, tap_room)?;
        let mut stream = 0;
        for launch in &launches {
            device.launch(launch)?;
            let runner = &self.runner;
            let room = &runner.room;
            let mut show = |stage: usize, name, value: TapValue| taps.tap(stage, position, name, value);
            // The linear that joined at this kernel's entry, and the stream behind it.
            let mut joined = |stage: usize, name, stream: &mut usize| -> Result<(), DriverError> {
                *stream ^= 1;
                show(stage, name, TapValue::Codes(&codes(&buffers.joined, hidden)?));
                show(stage, "hidden", TapValue::Floats(&floats(&room.hidden[*stream], hidden)?));
                Ok(())
            };
            match launch.role {
                Role::Embed => show(0, "hidden", TapValue::Floats(&floats(&room.hidden[0], hidden)?)),
                Role::Combine => {
                    let count = geometry.layers.len() * geometry.ple_width;
                    let values = floats(&room.per_layer_inputs, count)?;
                    show(1, "per_layer_inputs", TapValue::Floats(&values));
                }
                Role::Qkv(layer) => {
                    if layer > 0 {
                        joined(layer_stage(layer - 1, 6), "ple_projection", &mut stream)?;
                    }
                    let stage = layer_stage(layer, 0);
                    let dim = geometry.layers[layer].head_dim;
                    show(stage, "input", TapValue::Codes(&codes(&buffers.input, hidden)?));
                    show(stage, "q", TapValue::Codes(&codes(&room.q, heads * dim)?));
                    if geometry.owns_kv(layer) {
                        let count = geometry.kv_heads * dim;
                        show(stage, "k", TapValue::Codes(&codes(&room.k, count)?));
                        show(stage, "v", TapValue::Codes(&codes(&room.v, count)?));
                    }
                }
                Role::Attend(layer) => {
                    let stage = layer_stage(layer, 1);
                    let count = heads * geometry.layers[layer].head_dim;
                    show(stage, "query", TapValue::Floats(&floats(&buffers.query, count)?));
                    if geometry.owns_kv(layer) {
                        let cache = &self.sequences.list[index].cache;
                        let (key, value) = (
                            cache.rows(layer, 0, position, position + 1)?,
                            cache.rows(layer, 1, position, position + 1)?,
                        );
                        show(stage, "key_row", TapValue::Bytes(&key));
                        show(stage, "value_row", TapValue::Bytes(&value));
                    }
                }
                Role::Output(layer) => {
                    let count = heads * geometry.layers[layer].head_dim;
                    let values = floats(&buffers.attention, count)?;
                    show(layer_stage(layer, 1), "attention", TapValue::Floats(&values));
                    let stage = layer_stage(layer, 2);
                    show(stage, "input", TapValue::Codes(&codes(&buffers.input, count)?));
                }
                Role::GateUp(layer) => {
                    joined(layer_stage(layer, 2), "o", &mut stream)?;
                    let stage = layer_stage(layer, 3);
                    let ffn = geometry.layers[layer].ffn;
                    show(stage, "input", TapValue::Codes(&codes(&buffers.input, hidden)?));
                    show(stage, "gate", TapValue::Codes(&codes(&buffers.a, ffn)?));
                    show(stage, "up", TapValue::Codes(&codes(&buffers.b, ffn)?));
                    show(stage, "ffn", TapValue::Codes(&codes(&room.ffn, ffn)?));
                }
                Role::PleGate(layer) => {
                    joined(layer_stage(layer, 4), "down", &mut stream)?;
                    let stage = layer_stage(layer, 5);
                    let width = geometry.ple_width;
                    show(stage, "input", TapValue::Codes(&codes(&buffers.input, hidden)?));
                    show(stage, "ple_gate", TapValue::Codes(&codes(&buffers.a, width)?));
                    show(stage, "product", TapValue::Codes(&codes(&room.product, width)?));
                }
                Role::Final => {
                    let last = geometry.layers.len() - 1;
                    joined(layer_stage(last, 6), "ple_projection", &mut stream)?;
                    let stage = stage_of(&|stage| *stage == Stage::FinalNorm);
                    show(stage, "final", TapValue::Floats(&floats(&room.last, hidden)?));
                }
                _ => {}
            }
        }
        let mut logits = vec![0f32; geometry.vocab];
        self.runner.logits(0, 1, &mut logits)?;
        let mut picks = [0; crate::plan::WIDTH];
        self.runner.picks(1, &mut picks)?;
        let head = stage_of(&|stage| *stage == Stage::Head);
        taps.tap(head, position, "logits", TapValue::Floats(&logits));
        taps.tap(head + 1, position, "token", TapValue::Token(picks[0]));
        let sequence = &mut self.sequences.list[index];
        sequence.hidden.keep(&self.runner.room.last, 0, position, 1)?;
        sequence.cache.advance(position + 1);
        device.synchronize()
    }
}
