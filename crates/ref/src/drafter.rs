//! The MTP drafter: four query-only layers over the target's K/V, in floats.
//!
//! What it says decides speed, never text, so its arithmetic is only fixed (lane sums, the contract's exponential), not
//! integer. One cycle: the target has cached positions `0 .. n`, has picked token `n` and not yet seen it. The first draft
//! takes that token's embedding and the target's hidden state of position `n - 1` after the final norm; each further draft
//! takes the token just drafted and the drafter's own projected hidden state. Position `n` and the visible keys stay the
//! same through the cycle. A sliding layer sees the last `window + 1` cached keys, as the published implementation does.

use rawloop_pack::{Pack, PackError};
use rawloop_spec::contract::{gelu_float, rope_row};
use rawloop_spec::{AttentionKind, DrafterGeometry, OrderedHead};

use crate::attention::{attend, rope};
use crate::head::pick;
use crate::kv::KvCache;
use crate::linear::bf16_linear;
use crate::norm::norm_floats;
use crate::weights::{Model, ModelError};

struct DrafterLayerWeights {
    input_norm: Vec<f32>,
    q: Vec<u16>,
    q_norm: Vec<f32>,
    o: Vec<u16>,
    post_attention_norm: Vec<f32>,
    pre_ffn_norm: Vec<f32>,
    gate: Vec<u16>,
    up: Vec<u16>,
    down: Vec<u16>,
    post_ffn_norm: Vec<f32>,
    layer_scalar: f32,
}

/// The drafter of a pack.
pub struct Drafter {
    /// Its shape.
    pub geometry: DrafterGeometry,
    pre_projection: Vec<u16>,
    post_projection: Vec<u16>,
    rope_sliding: Vec<f32>,
    rope_full: Vec<f32>,
    layers: Vec<DrafterLayerWeights>,
    final_norm: Vec<f32>,
    embed: Vec<u16>,
    centroids: Vec<u16>,
    token_ordering: Vec<u32>,
}

/// One drafted token.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Its id.
    pub token: u32,
    /// The hidden state that feeds the next draft, in the target's width.
    pub hidden: Vec<f32>,
}

impl Drafter {
    /// Reads the drafter of a pack.
    ///
    /// # Errors
    /// The pack has none, or one of its tensors cannot be read.
    pub fn load(pack: &Pack) -> Result<Drafter, ModelError> {
        let Some(geometry) = pack.manifest().drafter.clone() else {
            return Err(ModelError::NoDrafter(pack.label().to_string()));
        };
        let floats = |name: String| -> Result<Vec<f32>, PackError> { Ok(pack.f32(&name)?.to_vec()) };
        let halves = |name: String| -> Result<Vec<u16>, PackError> { Ok(pack.bf16(&name)?.to_vec()) };
        let load_layer = |index: usize| -> Result<DrafterLayerWeights, PackError> {
            let name = |part: &str| format!("drafter.layers.{index}.{part}");
            Ok(DrafterLayerWeights {
                input_norm: floats(name("input_norm"))?,
                q: halves(name("q"))?,
                q_norm: floats(name("q_norm"))?,
                o: halves(name("o"))?,
                post_attention_norm: floats(name("post_attention_norm"))?,
                pre_ffn_norm: floats(name("pre_ffn_norm"))?,
                gate: halves(name("gate"))?,
                up: halves(name("up"))?,
                down: halves(name("down"))?,
                post_ffn_norm: floats(name("post_ffn_norm"))?,
                layer_scalar: floats(name("layer_scalar"))?[0],
            })
        };
        let ordered = geometry.ordered.is_some();
        Ok(Drafter {
            pre_projection: halves("drafter.pre_projection".into())?,
            post_projection: halves("drafter.post_projection".into())?,
            rope_sliding: floats("drafter.rope.sliding".into())?,
            rope_full: floats("drafter.rope.full".into())?,
            layers: (0..geometry.layers.len()).map(load_layer).collect::<Result<_, _>>()?,
            final_norm: floats("drafter.final_norm".into())?,
            embed: halves("drafter.embed".into())?,
            centroids: if ordered { halves("drafter.centroids".into())? } else { Vec::new() },
            token_ordering: if ordered { pack.u32("drafter.token_ordering")?.to_vec() } else { Vec::new() },
            geometry,
        })
    }

    /// Drafts `depth` tokens behind `token`, which the target has picked and not yet seen; `hidden` is the target's final
    /// norm at the last cached position.
    pub fn draft(
        &self,
        target: &Model,
        cache: &KvCache,
        token: u32,
        hidden: &[f32],
        depth: usize,
    ) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::with_capacity(depth);
        for _ in 0..depth {
            let next = match drafts.last() {
                None => self.step(target, cache, token, hidden),
                Some(last) => self.step(target, cache, last.token, &last.hidden),
            };
            drafts.push(next);
        }
        drafts
    }

    fn step(&self, target: &Model, cache: &KvCache, token: u32, hidden: &[f32]) -> Draft {
        let mut input = target.embedding(token);
        input.extend_from_slice(hidden);
        let mut x = bf16_linear(&self.pre_projection, &input);
        for (index, weights) in self.layers.iter().enumerate() {
            let attended = self.attention(index, weights, cache, &norm_floats(&x, &weights.input_norm));
            let projected = bf16_linear(&weights.o, &attended);
            add(&mut x, &norm_floats(&projected, &weights.post_attention_norm));
            let normed = norm_floats(&x, &weights.pre_ffn_norm);
            let gate = bf16_linear(&weights.gate, &normed);
            let up = bf16_linear(&weights.up, &normed);
            let product: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| gelu_float(*g) * u).collect();
            add(&mut x, &norm_floats(&bf16_linear(&weights.down, &product), &weights.post_ffn_norm));
            x.iter_mut().for_each(|value| *value *= weights.layer_scalar);
        }
        let last = norm_floats(&x, &self.final_norm);
        let token = match self.geometry.ordered {
            None => pick(&bf16_linear(&self.embed, &last)),
            Some(head) => self.pick_ordered(head, &last),
        };
        Draft { token, hidden: bf16_linear(&self.post_projection, &last) }
    }

    fn attention(&self, index: usize, weights: &DrafterLayerWeights, cache: &KvCache, x: &[f32]) -> Vec<f32> {
        let layer = self.geometry.layers[index];
        let cached = cache.len();
        let (frequencies, first) = match layer.attention {
            AttentionKind::Sliding => (&self.rope_sliding, cached.saturating_sub(self.geometry.window + 1)),
            AttentionKind::Full => (&self.rope_full, 0),
        };
        let (mut cosine, mut sine) = (vec![0.0; frequencies.len()], vec![0.0; frequencies.len()]);
        rope_row(cached, frequencies, &mut cosine, &mut sine);
        let group = self.geometry.heads / self.geometry.kv_heads;
        let queries = bf16_linear(&weights.q, x);
        let mut out = Vec::with_capacity(queries.len());
        for (kv_head, queries) in queries.chunks_exact(group * layer.head_dim).enumerate() {
            let visible = cache.visible(layer.producer, kv_head, layer.head_dim, first, cached);
            for query in queries.chunks_exact(layer.head_dim) {
                let mut query = norm_floats(query, &weights.q_norm);
                rope(&mut query, &cosine, &sine);
                out.extend(attend(&query, &visible));
            }
        }
        out
    }

    /// The best token of the best clusters; lower ids win among equals, clusters are taken by (score, lower index).
    fn pick_ordered(&self, head: OrderedHead, x: &[f32]) -> u32 {
        let scores = bf16_linear(&self.centroids, x);
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        let size = self.token_ordering.len() / head.centroids;
        let mut best: Option<(f32, u32)> = None;
        for &cluster in &order[..head.top_k] {
            for &token in &self.token_ordering[cluster * size..(cluster + 1) * size] {
                let row = &self.embed[token as usize * x.len()..][..x.len()];
                let logit = bf16_linear(row, x)[0];
                let better = best.is_none_or(|(top, id)| logit > top || (logit == top && token < id));
                if better {
                    best = Some((logit, token));
                }
            }
        }
        best.map_or(0, |(_, token)| token)
    }
}

fn add(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}
