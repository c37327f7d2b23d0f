//! What a pass runs with, and the two programs it can run.
//!
//! The full program takes a token from its embedding to the head, the prefill program stops behind the last K/V that is
//! stored. Both are the same stages (`stages/`), each a method that takes every column of the pass through one step; a stage
//! boundary is a join of the team, and a tap where somebody listens. Row work between two linears (norm, residual, next
//! norm, quantise) is one job at the end of the first, which is why `input` codes exist before the stage that the
//! program counts them to.

use rawloop_backend::columns::Column;
use rawloop_spec::{TapSink, TapValue};

use crate::counters::{Counters, Profile};
use crate::crew::Crew;
use crate::kernels::{Activations, Kernels};
use crate::sequence::Sequence;
use crate::weights::{LayerWeights, Weights};
use crate::workspace::{Codes, Workspace};

/// Everything of a backend but its sequences.
pub(crate) struct Executor {
    pub weights: Weights,
    pub kernels: &'static Kernels,
    pub crew: Crew,
    pub space: Workspace,
    pub counters: Counters,
    pub profile: Profile,
}

/// Columns that run together.
pub(crate) struct Pass<'a> {
    pub columns: &'a [Column],
    pub sequences: &'a mut [Sequence],
    /// Logits of the step `[rows x vocab]`.
    pub logits: &'a mut [f32],
    /// Picks of the step.
    pub picks: &'a mut [u32],
    pub tap: Tap<'a>,
}

impl Pass<'_> {
    /// Tokens of the pass.
    pub fn tokens(&self) -> usize {
        self.columns.len()
    }
}

/// Who listens, if anybody; only passes of one column are listened to.
pub(crate) struct Tap<'a>(pub Option<&'a mut dyn TapSink>);

impl Tap<'_> {
    /// Whether values that fused stages would not keep are wanted.
    pub fn listens(&self) -> bool {
        self.0.is_some()
    }

    /// Shows the values of a stage.
    pub fn show<const N: usize>(
        &mut self,
        columns: &[Column],
        stage: usize,
        values: [(&'static str, TapValue); N],
    ) {
        if let (Some(sink), [column]) = (&mut self.0, columns)
            && sink.wants(stage)
        {
            for (name, value) in values {
                sink.tap(stage, column.position, name, value);
            }
        }
    }
}

/// The stages of a layer, counted from its first in the program.
pub(crate) mod stage {
    pub const NORM_QKV: usize = 0;
    pub const ATTENTION: usize = 1;
    pub const OUTPUT: usize = 2;
    pub const NORM_GATE_UP: usize = 3;
    pub const DOWN: usize = 4;
    pub const PLE_GATE: usize = 5;
    pub const PLE_PROJECTION: usize = 6;
}

impl Codes {
    /// The codes of the first `tokens` tokens as inputs of a linear of `columns` inputs.
    pub fn view(&self, tokens: usize, columns: usize) -> Activations<'_> {
        Activations::new(&self.codes[..tokens * columns], columns, columns, &self.sums[..tokens])
    }
}

impl Executor {
    /// Every stage, from a token to its output.
    pub fn full(&mut self, pass: &mut Pass<'_>) {
        let layers = self.weights.layers.len();
        self.profile.begin();
        self.embed(pass);
        self.per_layer_inputs(pass, layers);
        for layer in 0..layers {
            self.norm_qkv(pass, layer);
            self.attention(pass, layer);
            self.output(pass, layer);
            self.norm_gate_up(pass, layer);
            self.down(pass, layer);
            self.ple_gate(pass, layer, layers);
            self.ple_projection(pass, layer);
        }
        self.head(pass);
        self.counters.full_tokens += pass.tokens() as u64;
    }

    /// The stages that K/V depend on: all layers below the last owner, and of that one the storing of its K/V.
    pub fn prefill(&mut self, pass: &mut Pass<'_>) {
        let last = self.weights.own_layers - 1;
        self.profile.begin();
        self.embed(pass);
        self.per_layer_inputs(pass, last);
        for layer in 0..last {
            self.norm_qkv(pass, layer);
            self.attention(pass, layer);
            self.output(pass, layer);
            self.norm_gate_up(pass, layer);
            self.down(pass, layer);
            self.ple_gate(pass, layer, last);
            self.ple_projection(pass, layer);
        }
        self.norm_kv(pass, last);
        self.store_kv(pass, last);
        self.counters.prefill_tokens += pass.tokens() as u64;
    }

    /// A layer's weights.
    pub fn layer(&self, layer: usize) -> &LayerWeights {
        &self.weights.layers[layer]
    }
}
