//! The interpreter: one token through the stages of the program.
//!
//! [`TokenState`] holds what flows between stages; [`Model::run`] executes any range of them, which is how a test starts in
//! the middle with somebody else's hidden state. Everything a stage makes goes to the tap.

use std::ops::Range;

use rawloop_spec::contract::{quantise, rope_row};
use rawloop_spec::tap::NoTap;
use rawloop_spec::{Program, Stage, TapSink, TapValue};

use crate::attention::{attend, rope};
use crate::head;
use crate::kv::KvCache;
use crate::linear::{Linear, bf16_linear};
use crate::norm::{norm_codes, norm_floats};
use crate::weights::{Model, ModelError};

/// What flows between the stages of one token.
#[derive(Clone, Debug, Default)]
pub struct TokenState {
    /// Token id.
    pub token: u32,
    /// Absolute position.
    pub position: usize,
    /// Residual stream `[hidden]`.
    pub hidden: Vec<f32>,
    /// Per-layer inputs `[layers x ple_width]`.
    pub per_layer_inputs: Vec<f32>,
    /// Output codes of q `[heads x head_dim]`.
    pub q: Vec<i8>,
    /// Output codes of k and v `[kv_heads x head_dim]` in a layer that owns them.
    pub kv: Option<(Vec<i8>, Vec<i8>)>,
    /// Attention result `[heads x head_dim]`.
    pub attention: Vec<f32>,
    /// FFN hidden as down's input codes `[ffn]`.
    pub ffn: Vec<i8>,
    /// PLE product as the projection's input codes `[ple_width]`.
    pub product: Vec<i8>,
    /// After the final norm `[hidden]`.
    pub final_norm: Vec<f32>,
    /// Logits before the soft cap `[vocab]`.
    pub logits: Vec<f32>,
    /// The greedy token.
    pub picked: u32,
}

impl Model {
    /// Runs one token through every stage: its K/V join the cache, its logits and the greedy pick are in the state.
    ///
    /// # Errors
    /// The token is outside of the vocabulary.
    pub fn forward(
        &self,
        cache: &mut KvCache,
        token: u32,
        taps: &mut dyn TapSink,
    ) -> Result<TokenState, ModelError> {
        let vocab = self.geometry.vocab;
        if token as usize >= vocab {
            return Err(ModelError::Token { token, vocab });
        }
        let mut state = TokenState { token, position: cache.len(), ..TokenState::default() };
        self.run(0..self.program.stages.len(), &mut state, cache, taps);
        Ok(state)
    }

    /// Runs a prompt token that is only needed for its K/V: the stages of [`Program::prefill`].
    ///
    /// # Errors
    /// The token is outside of the vocabulary.
    pub fn prefill(&self, cache: &mut KvCache, token: u32) -> Result<(), ModelError> {
        let vocab = self.geometry.vocab;
        if token as usize >= vocab {
            return Err(ModelError::Token { token, vocab });
        }
        let mut state = TokenState { token, position: cache.len(), ..TokenState::default() };
        self.run(0..Program::prefill(&self.geometry).stages.len(), &mut state, cache, &mut NoTap);
        Ok(())
    }

    /// The embedding a token enters with, rule 11; the drafter takes it too.
    pub fn embedding(&self, token: u32) -> Vec<f32> {
        self.embed.row(token, 1, (self.geometry.hidden as f64).sqrt() as f32)
    }

    /// Runs the stages `range` on `state`.
    pub fn run(
        &self,
        range: Range<usize>,
        state: &mut TokenState,
        cache: &mut KvCache,
        taps: &mut dyn TapSink,
    ) {
        for index in range {
            let position = state.position;
            let mut tap = |name, value: TapValue| taps.tap(index, position, name, value);
            self.stage(&self.program.stages[index], state, cache, &mut tap);
        }
    }

    fn stage(
        &self,
        stage: &Stage,
        state: &mut TokenState,
        cache: &mut KvCache,
        tap: &mut dyn FnMut(&'static str, TapValue),
    ) {
        match *stage {
            Stage::Embed => {
                state.hidden = self.embedding(state.token);
                tap("hidden", TapValue::Floats(&state.hidden));
            }
            Stage::PerLayerInputs { layers } => {
                state.per_layer_inputs = self.per_layer_inputs(state, layers);
                tap("per_layer_inputs", TapValue::Floats(&state.per_layer_inputs));
            }
            Stage::NormQkv { layer, .. } => {
                let weights = &self.layers[layer];
                let input = weights.q.quantise_input(&norm_floats(&state.hidden, &weights.input_norm));
                state.q = weights.q.output_codes(&input);
                state.kv = weights.kv.as_ref().map(|(k, v)| (k.output_codes(&input), v.output_codes(&input)));
                tap("input", TapValue::Codes(&input));
                tap("q", TapValue::Codes(&state.q));
                if let Some((k, v)) = &state.kv {
                    tap("k", TapValue::Codes(k));
                    tap("v", TapValue::Codes(v));
                }
            }
            Stage::Attention { layer, .. } => self.attention(layer, state, cache, tap),
            Stage::Output { layer, .. } => {
                let weights = &self.layers[layer];
                let input = weights.o.quantise_input(&state.attention);
                let codes = weights.o.output_codes(&input);
                tap("input", TapValue::Codes(&input));
                tap("o", TapValue::Codes(&codes));
                add_normed(&mut state.hidden, &weights.o, &codes, &weights.post_attention_norm);
                tap("hidden", TapValue::Floats(&state.hidden));
            }
            Stage::NormGateUp { layer, .. } => {
                let weights = &self.layers[layer];
                let input = weights.gate.quantise_input(&norm_floats(&state.hidden, &weights.pre_ffn_norm));
                let gate = weights.gate.output_codes(&input);
                let up = weights.up.output_codes(&input);
                let product = gate.iter().zip(&up).map(|(&g, &u)| {
                    let gelu = weights.gelu[(g as i32 + 128) as usize];
                    quantise(gelu * weights.up.value(u), weights.down.input_scale)
                });
                state.ffn = product.collect();
                tap("input", TapValue::Codes(&input));
                tap("gate", TapValue::Codes(&gate));
                tap("up", TapValue::Codes(&up));
                tap("ffn", TapValue::Codes(&state.ffn));
            }
            Stage::Down { layer, .. } => {
                let weights = &self.layers[layer];
                let codes = weights.down.output_codes(&state.ffn);
                tap("down", TapValue::Codes(&codes));
                add_normed(&mut state.hidden, &weights.down, &codes, &weights.post_ffn_norm);
                tap("hidden", TapValue::Floats(&state.hidden));
            }
            Stage::PleGate { layer, .. } => {
                let weights = &self.layers[layer];
                let width = self.geometry.ple_width;
                let input = weights.ple_gate.quantise_input(&state.hidden);
                let gate = weights.ple_gate.output_codes(&input);
                let per_layer_input = &state.per_layer_inputs[layer * width..(layer + 1) * width];
                let product = gate.iter().zip(per_layer_input).map(|(&g, &p)| {
                    let gelu = weights.ple_gelu[(g as i32 + 128) as usize];
                    quantise(gelu * p, weights.ple_projection.input_scale)
                });
                state.product = product.collect();
                tap("input", TapValue::Codes(&input));
                tap("ple_gate", TapValue::Codes(&gate));
                tap("product", TapValue::Codes(&state.product));
            }
            Stage::PleProjection { layer, .. } => {
                let weights = &self.layers[layer];
                let codes = weights.ple_projection.output_codes(&state.product);
                tap("ple_projection", TapValue::Codes(&codes));
                add_normed(&mut state.hidden, &weights.ple_projection, &codes, &weights.post_ple_norm);
                state.hidden.iter_mut().for_each(|h| *h *= weights.layer_scalar);
                tap("hidden", TapValue::Floats(&state.hidden));
            }
            Stage::FinalNorm => {
                state.final_norm = norm_floats(&state.hidden, &self.final_norm);
                tap("final", TapValue::Floats(&state.final_norm));
            }
            Stage::Head => {
                state.logits = head::logits(&self.head, &self.head_scales, &state.final_norm);
                tap("logits", TapValue::Floats(&state.logits));
            }
            Stage::Pick => {
                state.picked = head::pick(&state.logits);
                tap("token", TapValue::Token(state.picked));
            }
        }
    }

    /// Rules 10 and 11: `(norm(projection of the embedding) + table row) * 2^-0.5`, layer by layer.
    fn per_layer_inputs(&self, state: &TokenState, layers: usize) -> Vec<f32> {
        let width = self.geometry.ple_width;
        let hidden_root = (1.0 / (self.geometry.hidden as f64).sqrt()) as f32;
        let half_root = std::f64::consts::FRAC_1_SQRT_2 as f32;
        let weights = &self.ple_model_projection[..layers * width * self.geometry.hidden];
        let projected: Vec<f32> =
            bf16_linear(weights, &state.hidden).iter().map(|p| p * hidden_root).collect();
        let rows = self.ple.row(state.token, self.geometry.layers.len(), (width as f64).sqrt() as f32);
        let mut out = Vec::with_capacity(layers * width);
        for (block, row) in projected.chunks_exact(width).zip(rows.chunks_exact(width)) {
            let normed = norm_floats(block, &self.ple_norm);
            out.extend(normed.iter().zip(row).map(|(n, r)| (n + r) * half_root));
        }
        out
    }

    fn attention(
        &self,
        layer: usize,
        state: &mut TokenState,
        cache: &mut KvCache,
        tap: &mut dyn FnMut(&'static str, TapValue),
    ) {
        let weights = &self.layers[layer];
        let shape = self.geometry.layers[layer];
        let dim = shape.head_dim;
        let frequencies = self.inverse_frequencies(shape.attention);
        let (mut cosine, mut sine) = (vec![0.0; frequencies.len()], vec![0.0; frequencies.len()]);
        rope_row(state.position, frequencies, &mut cosine, &mut sine);

        let mut query = Vec::with_capacity(state.q.len());
        for head in state.q.chunks_exact(dim) {
            let mut head = norm_codes(head, weights.q.output_scale, Some(&weights.q_norm));
            rope(&mut head, &cosine, &sine);
            query.extend(head);
        }
        tap("query", TapValue::Floats(&query));

        if let (Some((k, v)), Some((k_linear, v_linear))) = (&state.kv, &weights.kv) {
            let (mut key_row, mut value_row) = (Vec::new(), Vec::new());
            for (k, v) in k.chunks_exact(dim).zip(v.chunks_exact(dim)) {
                let mut key = norm_codes(k, k_linear.output_scale, Some(&weights.k_norm));
                rope(&mut key, &cosine, &sine);
                cache.format.store(&key, &mut key_row);
                cache.format.store(&norm_codes(v, v_linear.output_scale, None), &mut value_row);
            }
            tap("key_row", TapValue::Bytes(&key_row));
            tap("value_row", TapValue::Bytes(&value_row));
            cache.layers[layer].keys.push(key_row);
            cache.layers[layer].values.push(value_row);
        }

        let last = state.position + 1;
        let first = match shape.attention {
            rawloop_spec::AttentionKind::Sliding => last.saturating_sub(self.geometry.window),
            rawloop_spec::AttentionKind::Full => 0,
        };
        let group = self.geometry.heads / self.geometry.kv_heads;
        state.attention = Vec::with_capacity(query.len());
        for (kv_head, queries) in query.chunks_exact(group * dim).enumerate() {
            let visible = cache.visible(shape.producer, kv_head, dim, first, last);
            queries.chunks_exact(dim).for_each(|query| state.attention.extend(attend(query, &visible)));
        }
        tap("attention", TapValue::Floats(&state.attention));
    }
}

/// Residual: `hidden + norm(output of a calibrated linear)`.
fn add_normed(hidden: &mut [f32], linear: &Linear, codes: &[i8], weight: &[f32]) {
    let normed = norm_codes(codes, linear.output_scale, Some(weight));
    hidden.iter_mut().zip(normed).for_each(|(h, n)| *h += n);
}
