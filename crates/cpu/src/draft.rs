//! The MTP drafter over the team: query-only layers on the target's K/V, bf16 lane sums (docs/spec.md, Drafter).
//!
//! The same order of operations as `rawloop_ref::drafter`, so drafts are equal too, although only verification decides text.
//! One token at a time, so every linear is a stream over its rows; the clustered head gathers the rows of the best
//! clusters only.

use rawloop_spec::contract::{gelu_float, rope_row};
use rawloop_spec::{AttentionKind, DrafterGeometry, OrderedHead};

use crate::drafter_weights::{DrafterLayerWeights, DrafterWeights};
use crate::executor::Executor;
use crate::kernels::{Best, Block, BlockMut};
use crate::parts::Grid;
use crate::sequence::Sequence;
use crate::stages::attention::{Seen, attend, heads_of_a_chunk};
use crate::weights::{Floats, Halves};

/// Bytes of weights of one chunk of a linear.
const CHUNK_BYTES: usize = 32 * 1024;

/// A pack's drafter with its buffers.
pub(crate) struct Drafter {
    weights: DrafterWeights,
    space: DraftSpace,
}

/// What flows through the drafter; allocated once, when the backend is opened.
struct DraftSpace {
    /// Embedding of the last token and hidden state `[2 x backbone]`.
    input: Vec<f32>,
    /// Residual stream `[hidden]`.
    x: Vec<f32>,
    /// A norm of it `[hidden]`.
    normed: Vec<f32>,
    /// Output of a linear `[hidden]`.
    projected: Vec<f32>,
    /// Queries, then the attention result `[heads x head_dim]`.
    queries: Vec<f32>,
    attended: Vec<f32>,
    /// GELU product `[ffn]`.
    product: Vec<f32>,
    /// Rope row of the cycle's position, sliding and full.
    rope: [(Vec<f32>, Vec<f32>); 2],
    /// Scores of the clusters and their order.
    scores: Vec<f32>,
    order: Vec<u32>,
}

impl DraftSpace {
    fn new(weights: &DrafterWeights, backbone: usize) -> DraftSpace {
        let geometry = &weights.geometry;
        let head_dim = geometry.layers.iter().map(|layer| layer.head_dim).max().unwrap_or(0);
        let queries = geometry.heads * head_dim;
        let clusters = geometry.ordered.map_or(0, |head| head.centroids);
        let floats = |count: usize| vec![0f32; count];
        let rope = |pairs: usize| (floats(pairs), floats(pairs));
        DraftSpace {
            input: floats(2 * backbone),
            x: floats(geometry.hidden),
            normed: floats(geometry.hidden),
            projected: floats(geometry.hidden),
            queries: floats(queries),
            attended: floats(queries),
            product: floats(geometry.ffn),
            rope: [rope(geometry.rope_sliding.pairs), rope(geometry.rope_full.pairs)],
            scores: floats(clusters),
            order: Vec::with_capacity(clusters),
        }
    }
}

impl Drafter {
    /// The drafter of a target of width `backbone`.
    pub fn new(weights: DrafterWeights, backbone: usize) -> Drafter {
        let space = DraftSpace::new(&weights, backbone);
        Drafter { weights, space }
    }

    /// Its shape.
    pub fn geometry(&self) -> &DrafterGeometry {
        &self.weights.geometry
    }

    /// Drafts `depth` tokens behind `token`, which the sequence does not hold yet. False, and nothing is done, where the hidden
    /// state of the sequence's last position is not held.
    pub fn draft(
        &mut self,
        executor: &mut Executor,
        sequence: &Sequence,
        token: u32,
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> bool {
        let Drafter { weights, space } = self;
        let cached = sequence.cache.position();
        let Some(hidden) = sequence.hidden.before(cached) else { return false };
        let mapping = executor.weights.mapping();
        for (frequencies, rope) in [weights.rope_sliding, weights.rope_full].into_iter().zip(&mut space.rope)
        {
            rope_row(cached, mapping.floats(frequencies), &mut rope.0, &mut rope.1);
        }
        let backbone = executor.weights.geometry.hidden;
        space.input[backbone..].copy_from_slice(hidden);
        let mut token = token;
        for _ in 0..depth {
            token = executor.draft_one(weights, space, sequence, token);
            drafts.push(token);
        }
        true
    }
}

impl Executor {
    /// One token; leaves the hidden state of the next in the second half of `space.input`.
    fn draft_one(
        &mut self,
        drafter: &DrafterWeights,
        space: &mut DraftSpace,
        sequence: &Sequence,
        token: u32,
    ) -> u32 {
        let kernels = self.kernels;
        let backbone = self.weights.geometry.hidden;
        let embed = self.weights.embed;
        let (row, scales) = self.weights.mapping().row(&embed, token);
        let factor = self.weights.embed_factor;
        kernels.expand_row(row, embed.bits, scales[0], factor, &mut space.input[..backbone]);
        self.halves_linear(drafter.pre_projection, &space.input, &mut space.x);
        for (index, layer) in drafter.layers.iter().enumerate() {
            self.norm_floats(&space.x, layer.input_norm, &mut space.normed);
            let width = self.draft_attention(drafter, space, sequence, index);
            self.halves_linear(layer.o, &space.attended[..width], &mut space.projected);
            self.norm_floats(&space.projected, layer.post_attention_norm, &mut space.normed);
            kernels.add_scaled(&mut space.x, &space.normed, 1.0);
            self.norm_floats(&space.x, layer.pre_ffn_norm, &mut space.normed);
            self.draft_product(layer, &space.normed, &mut space.product);
            self.halves_linear(layer.down, &space.product, &mut space.projected);
            self.norm_floats(&space.projected, layer.post_ffn_norm, &mut space.normed);
            kernels.add_scaled(&mut space.x, &space.normed, layer.layer_scalar);
        }
        self.norm_floats(&space.x, drafter.final_norm, &mut space.normed);
        self.halves_linear(drafter.post_projection, &space.normed, &mut space.input[backbone..]);
        match drafter.geometry.ordered {
            None => self.best_row(drafter.embed, &space.normed),
            Some(head) => self.best_of_clusters(drafter, head, space),
        }
    }

    fn norm_floats(&self, x: &[f32], norm: Floats, out: &mut [f32]) {
        self.kernels.norm(x, Some(self.weights.mapping().floats(norm)), out);
    }

    /// `out = weights * x`, every row a lane sum.
    fn halves_linear(&mut self, weights: Halves, x: &[f32], out: &mut [f32]) {
        let Executor { weights: model, kernels, crew, counters, .. } = self;
        let weights = model.mapping().halves(weights);
        let columns = x.len();
        let step = rows_of_a_chunk(columns);
        crew.run(&Grid::by_columns(out, 1, step), |_, chunk, out| {
            let rows = &weights[chunk * step * columns..][..out.columns() * columns];
            kernels.project(rows, Block::row_of(x), 1.0, out);
        });
        counters.weight_bytes += 2 * weights.len() as u64;
    }

    /// `gelu(gate) * up`, the same rows of both in a chunk.
    fn draft_product(&mut self, layer: &DrafterLayerWeights, x: &[f32], out: &mut [f32]) {
        let Executor { weights, kernels, crew, counters, .. } = self;
        let (gate, up) = (weights.mapping().halves(layer.gate), weights.mapping().halves(layer.up));
        let columns = x.len();
        let step = rows_of_a_chunk(columns).min(crew.row_len());
        crew.run(&Grid::by_columns(out, 1, step), |scratch, chunk, mut out| {
            let width = out.columns();
            let rows = chunk * step * columns..(chunk * step + width) * columns;
            let gated = &mut scratch.row[..width];
            kernels.project(&gate[rows.clone()], Block::row_of(x), 1.0, BlockMut::row_of(gated));
            let out = out.row(0);
            kernels.project(&up[rows], Block::row_of(x), 1.0, BlockMut::row_of(out));
            for (up, gate) in out.iter_mut().zip(gated) {
                *up *= gelu_float(*gate);
            }
        });
        counters.weight_bytes += 2 * (gate.len() + up.len()) as u64;
    }

    /// Queries of `space.normed` over the target's K/V; returns the width of `space.attended`.
    fn draft_attention(
        &mut self,
        drafter: &DrafterWeights,
        space: &mut DraftSpace,
        sequence: &Sequence,
        index: usize,
    ) -> usize {
        let geometry = &drafter.geometry;
        let (shape, layer) = (geometry.layers[index], &drafter.layers[index]);
        let (heads, dim) = (geometry.heads, shape.head_dim);
        let width = heads * dim;
        self.halves_linear(layer.q, &space.normed, &mut space.queries[..width]);
        let Executor { weights, kernels, crew, counters, .. } = self;
        let norm = weights.mapping().floats(layer.q_norm);
        let (cosine, sine) = &space.rope[shape.attention as usize];
        let cached = sequence.cache.position();
        // One key more than the target's window: what the published implementation does.
        let first = match shape.attention {
            AttentionKind::Sliding => cached.saturating_sub(geometry.window + 1),
            AttentionKind::Full => 0,
        };
        let group = heads_of_a_chunk(heads, geometry.kv_heads, 1, crew.threads());
        let queries = &space.queries[..width];
        let attended = Grid::by_columns(&mut space.attended[..width], 1, group * dim);
        crew.run(&attended, |scratch, chunk, mut out| {
            let query = &mut scratch.query[..group * dim];
            let from = &queries[chunk * group * dim..][..group * dim];
            for (from, head) in from.chunks_exact(dim).zip(query.chunks_exact_mut(dim)) {
                kernels.norm(from, Some(norm), head);
            }
            kernels.rope(query, dim, cosine, sine);
            let seen = Seen {
                cache: &sequence.cache,
                layer: shape.producer,
                kv_head: chunk * group / (heads / geometry.kv_heads),
                visible: first..cached,
            };
            attend(kernels, &seen, query, dim, (&mut scratch.state, &mut scratch.block), out.row(0));
        });
        let row_bytes = 2 * geometry.kv_heads * sequence.cache.layout().format.row_bytes(dim);
        counters.kv_bytes += (row_bytes * (cached - first)) as u64;
        width
    }

    /// The best row of a matrix; the lowest among equals.
    fn best_row(&mut self, rows: Halves, x: &[f32]) -> u32 {
        let Executor { weights, kernels, crew, counters, .. } = self;
        let rows = weights.mapping().halves(rows);
        let columns = x.len();
        let step = rows_of_a_chunk(columns).min(crew.row_len());
        crew.run(&(rows.len() / columns).div_ceil(step), |scratch, chunk, ()| {
            let first = chunk * step;
            let rows = &rows[first * columns..];
            let rows = &rows[..rows.len().min(step * columns)];
            let logits = &mut scratch.row[..rows.len() / columns];
            kernels.project(rows, Block::row_of(x), 1.0, BlockMut::row_of(logits));
            for (row, &logit) in logits.iter().enumerate() {
                scratch.best[0] = scratch.best[0].better(Best { logit, id: (first + row) as u32 });
            }
        });
        counters.weight_bytes += 2 * rows.len() as u64;
        self.take_pick()
    }

    /// The best token of the best clusters; clusters are taken by (score, lower index), tokens by (logit, lower id).
    fn best_of_clusters(
        &mut self,
        drafter: &DrafterWeights,
        head: OrderedHead,
        space: &mut DraftSpace,
    ) -> u32 {
        let Some((centroids, tokens)) = drafter.clusters else { return 0 };
        self.halves_linear(centroids, &space.normed, &mut space.scores);
        let DraftSpace { scores, order, normed, .. } = space;
        order.clear();
        order.extend(0..head.centroids as u32);
        let before = |&a: &u32, &b: &u32| scores[b as usize].total_cmp(&scores[a as usize]).then(a.cmp(&b));
        if head.top_k < order.len() {
            order.select_nth_unstable_by(head.top_k, before);
        }
        let chosen = &order[..head.top_k];
        let Executor { weights, kernels, crew, counters, .. } = self;
        let (tokens, rows) = (weights.mapping().words(tokens), weights.mapping().halves(drafter.embed));
        let (size, columns) = (tokens.len() / head.centroids, normed.len());
        crew.run(&chosen.len(), |scratch, chunk, ()| {
            for &id in &tokens[chosen[chunk] as usize * size..][..size] {
                let mut logit = [0f32];
                let row = &rows[id as usize * columns..][..columns];
                kernels.project(row, Block::row_of(normed), 1.0, BlockMut::row_of(&mut logit));
                scratch.best[0] = scratch.best[0].better(Best { logit: logit[0], id });
            }
        });
        counters.weight_bytes += (2 * chosen.len() * size * columns) as u64;
        self.take_pick()
    }

    fn take_pick(&mut self) -> u32 {
        let mut best = [Best::NONE];
        self.crew.take_best(&mut best);
        if best[0].id == u32::MAX { 0 } else { best[0].id }
    }
}

/// Rows of one chunk of a bf16 linear.
fn rows_of_a_chunk(columns: usize) -> usize {
    (CHUNK_BYTES / (2 * columns)).max(1)
}
