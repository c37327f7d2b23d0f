//! The feed-forward network: gate and up with their GELU product (rules 4 and 5), then down, its norm and the residual.
//!
//! A chunk runs the same rows of gate and up and multiplies them, so neither's output is ever a whole vector.

use rawloop_spec::TapValue;

use super::linear::{codes_of, linears};
use super::rows::Next;
use crate::counters::Kind;
use crate::cut::Cut;
use crate::executor::{Executor, Pass, stage};
use crate::kernels::BlockMut;
use crate::parts::Grid;

impl Executor {
    /// Down's input codes: `quantise(gelu(gate) * up)`.
    pub(crate) fn norm_gate_up(&mut self, pass: &mut Pass<'_>, layer: usize) {
        let Executor { weights, kernels, crew, space, counters, profile } = self;
        let (mapping, tokens) = (weights.mapping(), pass.tokens());
        let layer = &weights.layers[layer];
        let (gate, up, scale) = (&layer.gate, &layer.up, layer.down.input_scale);
        let (rows, hidden) = (gate.matrix.rows, gate.matrix.columns);
        let gelu = mapping.gelu(layer.gelu);
        let x = space.input.view(tokens, hidden);
        let [gate_cut, up_cut] = Cut::alike([&gate.matrix, &up.matrix], tokens, crew.threads());
        let step = gate_cut.rows;
        let ffn = Grid::by_columns(&mut space.ffn.codes[..tokens * rows], tokens, step);
        let (mut kept_gate, mut kept_up) = (None, None);
        if let (true, Some(kept)) = (pass.tap.listens(), &mut space.kept) {
            kept_gate = Some(Grid::by_columns(&mut kept.gate[..rows], 1, step));
            kept_up = Some(Grid::by_columns(&mut kept.up[..rows], 1, step));
        }
        crew.run(&(ffn, kept_gate, kept_up), |scratch, chunk, (mut ffn, kept_gate, kept_up)| {
            let width = ffn.columns();
            let gate_codes = &mut scratch.gate[..tokens * width];
            let out = BlockMut::new(gate_codes, tokens, width, width);
            codes_of(kernels, mapping, gate, gate_cut.tiles(chunk), x, &mut scratch.acc, out);
            let up_codes = &mut scratch.up[..tokens * width];
            let out = BlockMut::new(up_codes, tokens, width, width);
            codes_of(kernels, mapping, up, up_cut.tiles(chunk), x, &mut scratch.acc, out);
            for token in 0..tokens {
                let (g, u) = (&gate_codes[token * width..][..width], &up_codes[token * width..][..width]);
                scratch.sums[token] += kernels.gate_codes(g, gelu, u, up.output_scale, scale, ffn.row(token));
            }
            for (kept, codes) in [(kept_gate, &*gate_codes), (kept_up, &*up_codes)] {
                if let Some(mut kept) = kept {
                    kept.row(0).copy_from_slice(codes);
                }
            }
        });
        crew.take_sums(&mut space.ffn.sums[..tokens]);
        counters.read(gate);
        counters.read(up);
        profile.lap(Kind::NormGateUp);
        if let (true, Some(kept)) = (pass.tap.listens(), &space.kept) {
            let values = [
                ("input", TapValue::Codes(&space.input.codes[..hidden])),
                ("gate", TapValue::Codes(&kept.gate[..rows])),
                ("up", TapValue::Codes(&kept.up[..rows])),
                ("ffn", TapValue::Codes(&space.ffn.codes[..rows])),
            ];
            pass.tap.show(pass.columns, layer.stage + stage::NORM_GATE_UP, values);
        }
    }

    /// `hidden += norm(down(ffn))`, then the PLE gate's input codes.
    pub(crate) fn down(&mut self, pass: &mut Pass<'_>, layer: usize) {
        let Executor { weights, kernels, crew, space, counters, .. } = &mut *self;
        let tokens = pass.tokens();
        let layer = &weights.layers[layer];
        let (down, norm, index) = (layer.down, layer.post_ffn_norm, layer.stage + stage::DOWN);
        let next = Next::Codes { norm: None, scale: layer.ple_gate.input_scale };
        let x = space.ffn.view(tokens, down.matrix.columns);
        let out = &mut space.output[..tokens * down.matrix.rows];
        linears(crew, kernels, weights.mapping(), [&down], x, [out]);
        counters.read(&down);
        self.close(pass, down, norm, 1.0, next);
        self.profile.lap(Kind::Down);
        let values = [
            ("down", TapValue::Codes(&self.space.output[..down.matrix.rows])),
            ("hidden", TapValue::Floats(&self.space.hidden[..down.matrix.rows])),
        ];
        pass.tap.show(pass.columns, index, values);
    }
}
