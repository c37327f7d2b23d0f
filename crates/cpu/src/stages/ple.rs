//! Per-layer embeddings at the end of a layer: gate, product with the layer's input, projection, norm, residual, scalar.

use rawloop_spec::TapValue;

use super::linear::{codes_of, linears};
use crate::counters::Kind;
use crate::cut::Cut;
use crate::executor::{Executor, Pass, stage};
use crate::kernels::BlockMut;
use crate::parts::Grid;

impl Executor {
    /// The projection's input codes: `quantise(gelu(gate) * per_layer_input)`. The pass has inputs of `layers` layers.
    pub(crate) fn ple_gate(&mut self, pass: &mut Pass<'_>, layer: usize, layers: usize) {
        let Executor { weights, kernels, crew, space, counters, profile } = self;
        let (mapping, tokens) = (weights.mapping(), pass.tokens());
        let (weights, index) = (&weights.layers[layer], layer);
        let (gate, scale) = (&weights.ple_gate, weights.ple_projection.input_scale);
        let (rows, hidden) = (gate.matrix.rows, gate.matrix.columns);
        let gelu = mapping.gelu(weights.ple_gelu);
        let x = space.input.view(tokens, hidden);
        let cut = Cut::new(&gate.matrix, tokens, crew.threads());
        let inputs = &space.per_layer[..tokens * layers * rows];
        let product = Grid::by_columns(&mut space.product.codes[..tokens * rows], tokens, cut.rows);
        let mut kept_gate = None;
        if let (true, Some(kept)) = (pass.tap.listens(), &mut space.kept) {
            kept_gate = Some(Grid::by_columns(&mut kept.ple_gate[..rows], 1, cut.rows));
        }
        crew.run(&(product, kept_gate), |scratch, chunk, (mut product, kept_gate)| {
            let width = product.columns();
            let codes = &mut scratch.gate[..tokens * width];
            let out = BlockMut::new(codes, tokens, width, width);
            codes_of(kernels, mapping, gate, cut.tiles(chunk), x, &mut scratch.acc, out);
            for token in 0..tokens {
                let input = &inputs[(token * layers + index) * rows + cut.first_row(chunk)..][..width];
                let codes = &codes[token * width..][..width];
                scratch.sums[token] += kernels.gate_values(codes, gelu, input, scale, product.row(token));
            }
            if let Some(mut kept) = kept_gate {
                kept.row(0).copy_from_slice(codes);
            }
        });
        crew.take_sums(&mut space.product.sums[..tokens]);
        counters.read(gate);
        profile.lap(Kind::PleGate);
        if let (true, Some(kept)) = (pass.tap.listens(), &space.kept) {
            let values = [
                ("input", TapValue::Codes(&space.input.codes[..hidden])),
                ("ple_gate", TapValue::Codes(&kept.ple_gate[..rows])),
                ("product", TapValue::Codes(&space.product.codes[..rows])),
            ];
            pass.tap.show(pass.columns, weights.stage + stage::PLE_GATE, values);
        }
    }

    /// `hidden = (hidden + norm(projection(product))) * layer_scalar`, then the next layer's input codes or the final norm.
    pub(crate) fn ple_projection(&mut self, pass: &mut Pass<'_>, layer: usize) {
        let next = self.next_of(layer);
        let Executor { weights, kernels, crew, space, counters, .. } = &mut *self;
        let tokens = pass.tokens();
        let layer = &weights.layers[layer];
        let (projection, norm, factor) = (layer.ple_projection, layer.post_ple_norm, layer.layer_scalar);
        let index = layer.stage + stage::PLE_PROJECTION;
        let x = space.product.view(tokens, projection.matrix.columns);
        let out = &mut space.output[..tokens * projection.matrix.rows];
        linears(crew, kernels, weights.mapping(), [&projection], x, [out]);
        counters.read(&projection);
        self.close(pass, projection, norm, factor, next);
        self.profile.lap(Kind::PleProjection);
        let values = [
            ("ple_projection", TapValue::Codes(&self.space.output[..projection.matrix.rows])),
            ("hidden", TapValue::Floats(&self.space.hidden[..projection.matrix.rows])),
        ];
        pass.tap.show(pass.columns, index, values);
    }
}
