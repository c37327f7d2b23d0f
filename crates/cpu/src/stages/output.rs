//! The output projection of attention, its norm and the residual; then gate's and up's input codes.

use rawloop_spec::TapValue;

use super::linear::linears;
use super::rows::Next;
use crate::counters::Kind;
use crate::executor::{Executor, Pass, stage};

impl Executor {
    /// `hidden += norm(o(attention))`.
    pub(crate) fn output(&mut self, pass: &mut Pass<'_>, layer: usize) {
        let Executor { weights, kernels, crew, space, counters, .. } = &mut *self;
        let tokens = pass.tokens();
        let layer = &weights.layers[layer];
        let (o, norm, index) = (layer.o, layer.post_attention_norm, layer.stage + stage::OUTPUT);
        let next = Next::Codes { norm: Some(layer.pre_ffn_norm), scale: layer.gate.input_scale };
        let x = space.attended.view(tokens, o.matrix.columns);
        let out = &mut space.output[..tokens * o.matrix.rows];
        linears(crew, kernels, weights.mapping(), [&o], x, [out]);
        counters.read(&o);
        self.close(pass, o, norm, 1.0, next);
        self.profile.lap(Kind::Output);
        let values = [
            ("input", TapValue::Codes(&self.space.attended.codes[..o.matrix.columns])),
            ("o", TapValue::Codes(&self.space.output[..o.matrix.rows])),
            ("hidden", TapValue::Floats(&self.space.hidden[..o.matrix.rows])),
        ];
        pass.tap.show(pass.columns, index, values);
    }
}
