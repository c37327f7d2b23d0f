//! Drafting on the card: one list of kernels a draft, recorded once for each reach, started as often as drafts are wanted.
//!
//! The list ends by writing the drafted id where its first kernel reads it, and the drafter's hidden state where that kernel expects the
//! target's; so drafts follow each other without the host, which reads all of them at the end. The order of operations is the
//! reference's (`rawloop_ref::drafter`), so drafts are equal too. `kernels/draft.cu` has the kernels; attention is the target's.

use std::collections::HashMap;
use std::sync::Arc;

use rawloop_spec::AttentionKind;
use rawloop_spec::contract::KEY_BLOCK;

use crate::drafter_weights::{DrafterWeights, Halves};
use crate::driver::{Device, Graph, Launch};
use crate::form::{Reach, Role};
use crate::kv::KvLayout;
use crate::memory::{DeviceBytes, Pinned};
use crate::options::DriverError;
use crate::params::{Attention, Column, DraftChain, DraftLinear, Merge, Scale, argument};
use crate::plan::{Builder, MERGE_CHUNK, attend};
use crate::runner::Runner;

/// Drafts of one cycle at most.
const MOST: usize = 256;

/// The drafter of a model, with what flows through it.
pub(crate) struct Drafter {
    weights: DrafterWeights,
    graphs: HashMap<Reach, Graph>,
    column: DeviceBytes,
    chain: DeviceBytes,
    /// Embedding's other half: the target's or the drafter's hidden state `[backbone]`.
    hidden: DeviceBytes,
    streams: [DeviceBytes; 2],
    normed: DeviceBytes,
    /// Output of `o` and `down` `[hidden]`.
    projected: DeviceBytes,
    queries: DeviceBytes,
    product: DeviceBytes,
    scores: DeviceBytes,
    chosen: DeviceBytes,
    partials: [DeviceBytes; 3],
    /// Blocks of keys that a query can see.
    blocks: usize,
    next_column: Pinned<Column>,
    next_chain: Pinned<DraftChain>,
    drafts: Pinned<u32>,
}

impl Drafter {
    /// The drafter of a target of width `backbone`.
    pub fn new(
        device: &Arc<Device>,
        weights: DrafterWeights,
        layout: &KvLayout,
        backbone: usize,
    ) -> Result<Drafter, DriverError> {
        let geometry = &weights.geometry;
        let dim = geometry.layers.iter().map(|layer| layer.head_dim).max().unwrap_or(0);
        let blocks = layout.context.div_ceil(KEY_BLOCK).max(geometry.window / KEY_BLOCK + 3);
        let partials = geometry.heads * blocks;
        let clusters = geometry.ordered.map_or(0, |head| head.centroids);
        let floats = |count: usize| DeviceBytes::zeroed(device, 4 * count);
        Ok(Drafter {
            graphs: HashMap::new(),
            column: DeviceBytes::zeroed(device, size_of::<Column>())?,
            chain: DeviceBytes::zeroed(device, size_of::<DraftChain>())?,
            hidden: floats(backbone)?,
            streams: [floats(geometry.hidden)?, floats(geometry.hidden)?],
            normed: floats(geometry.hidden)?,
            projected: floats(geometry.hidden)?,
            queries: floats(geometry.heads * dim)?,
            product: floats(geometry.ffn)?,
            scores: floats(clusters)?,
            chosen: floats(clusters)?,
            partials: [floats(partials * dim)?, floats(partials)?, floats(partials)?],
            blocks,
            next_column: Pinned::zeroed(1)?,
            next_chain: Pinned::zeroed(1)?,
            drafts: Pinned::zeroed(MOST)?,
            weights,
        })
    }

    /// Drafts `depth` tokens behind the token of `column`, from the hidden state of the position before it.
    pub fn draft(
        &mut self,
        runner: &mut Runner,
        column: Column,
        (rows, offset): (&DeviceBytes, usize),
        depth: usize,
        drafts: &mut Vec<u32>,
    ) -> Result<(), DriverError> {
        let (position, depth) = (column.position as usize, depth.min(MOST));
        let device = runner.device.clone();
        runner.rope.reach(position + 1)?;
        let reach = Reach::of(position);
        if !self.graphs.contains_key(&reach) {
            let launches = self.build(runner, reach)?;
            let graph = device.capture(|| launches.iter().try_for_each(|launch| device.launch(launch)))?;
            self.graphs.insert(reach, graph);
        }
        self.next_column.values()[0] = column;
        self.next_column.send(&device, self.column.address(), 1)?;
        self.next_chain.values()[0] = DraftChain { drafts: self.drafts.address(), ..DraftChain::default() };
        self.next_chain.send(&device, self.chain.address(), 1)?;
        self.hidden.copy_from(0, rows, offset, self.hidden.len())?;
        for _ in 0..depth {
            self.graphs[&reach].launch()?;
        }
        device.synchronize()?;
        drafts.extend_from_slice(&self.drafts.values()[..depth]);
        Ok(())
    }

    fn build(&self, runner: &mut Runner, reach: Reach) -> Result<Vec<Launch>, DriverError> {
        let mut list = List {
            drafter: self,
            multiprocessors: runner.device.about.multiprocessors,
            builder: runner.builder(crate::room::TapRoom::default()),
            launches: Vec::new(),
        };
        list.all(reach)?;
        Ok(list.launches)
    }
}

/// The list of a draft under construction.
struct List<'a, 'b> {
    drafter: &'a Drafter,
    builder: Builder<'b>,
    multiprocessors: usize,
    launches: Vec<Launch>,
}

/// Where a linear's input comes from (`kernels/draft.cu`).
enum Input {
    Plain(u64),
    Embedded,
    Normed {
        stream: usize,
        norm: u64,
        /// What joins: its output, norm weights and the stream's factor behind it.
        join: Option<(u64, f32)>,
        write: bool,
    },
    Merged(Merge),
}

impl List<'_, '_> {
    fn all(&mut self, reach: Reach) -> Result<(), DriverError> {
        let Drafter { weights, streams, projected, normed, product, .. } = self.drafter;
        self.linear(weights.pre_projection, None, streams[0].address(), Input::Embedded)?;
        let mut stream = 0;
        let mut joining = None;
        for (index, layer) in weights.layers.iter().enumerate() {
            let entry = Input::Normed { stream, norm: layer.input_norm, join: joining, write: false };
            self.linear(layer.q, None, self.drafter.queries.address(), entry)?;
            stream ^= usize::from(joining.is_some());
            let merge = self.attention(index, reach)?;
            // The queries are used up where a kernel of its own merges.
            let queries = self.drafter.queries.address();
            let merged = match self.builder.merge_of_draft(merge, reach, queries)? {
                Some(launch) => {
                    self.launches.push(launch);
                    Input::Plain(queries)
                }
                None => Input::Merged(merge),
            };
            self.linear(layer.o, None, projected.address(), merged)?;
            let join = Some((layer.post_attention_norm, 1.0));
            let entry = Input::Normed { stream, norm: layer.pre_ffn_norm, join, write: false };
            self.linear(layer.gate, Some(layer.up), product.address(), entry)?;
            stream ^= 1;
            self.linear(layer.down, None, projected.address(), Input::Plain(product.address()))?;
            joining = Some((layer.post_ffn_norm, layer.layer_scalar));
        }
        let entry = Input::Normed { stream, norm: weights.final_norm, join: joining, write: true };
        self.linear(weights.post_projection, None, self.drafter.hidden.address(), entry)?;
        self.head(normed.address())
    }

    fn push(
        &mut self,
        name: &'static str,
        blocks: usize,
        threads: u32,
        shared: usize,
        arguments: Vec<Box<[u64]>>,
    ) -> Result<(), DriverError> {
        let early = !self.launches.is_empty();
        let grid = (blocks.max(1) as u32, 1, 1);
        let launch = self.builder.launch(name, grid, threads, shared, arguments, early, Role::Other)?;
        self.launches.push(launch);
        Ok(())
    }

    /// Blocks of the grid for `rows` rows, a warp a row.
    fn blocks(&self, rows: usize) -> usize {
        rows.div_ceil(self.builder.device.warps).min(4 * self.multiprocessors)
    }

    fn linear(
        &mut self,
        weights: Halves,
        beside: Option<Halves>,
        out: u64,
        input: Input,
    ) -> Result<(), DriverError> {
        let drafter = self.drafter;
        let mut linear = DraftLinear {
            weights: weights.address,
            beside: beside.map_or(0, |beside| beside.address),
            out,
            column: drafter.column.address(),
            count: Scale::new(weights.width as f32),
            rows: weights.rows as i32,
            width: weights.width as i32,
            chunks: weights.chunks as i32,
            ..DraftLinear::default()
        };
        let mut shared = 4 * weights.width;
        match input {
            Input::Plain(address) => linear.input = address,
            Input::Embedded => {
                linear.kind = 1;
                linear.input = drafter.hidden.address();
                linear.embed = self.builder.weights.embed;
            }
            Input::Normed { stream, norm, join, write } => {
                linear.kind = 2;
                linear.input = drafter.streams[stream].address();
                linear.norm = norm;
                if let Some((norm, scalar)) = join {
                    linear.join = drafter.projected.address();
                    linear.join_norm = norm;
                    linear.scalar = scalar;
                    linear.stream_out = drafter.streams[stream ^ 1].address();
                }
                if write {
                    linear.normed = drafter.normed.address();
                }
            }
            Input::Merged(merge) => {
                linear.kind = 3;
                linear.merge = merge;
                shared += merge.heads as usize * 3 * MERGE_CHUNK * 4;
            }
        }
        let (blocks, threads) = (self.blocks(weights.rows), self.builder.threads());
        self.push("draft_linear", blocks, threads, shared, vec![argument(linear)])
    }

    /// The queries over the target's keys; what merges the partial results.
    fn attention(&mut self, index: usize, reach: Reach) -> Result<Merge, DriverError> {
        let drafter = self.drafter;
        let geometry = &drafter.weights.geometry;
        let shape = geometry.layers[index];
        let Builder { layout, rope, room, .. } = &self.builder;
        let kv = layout.layers[shape.producer];
        let sliding = shape.attention == AttentionKind::Sliding;
        // The target's two sets of frequencies come first.
        let set = 2 + usize::from(!sliding);
        let [values, largest, sums] = [0, 1, 2].map(|index: usize| drafter.partials[index].address());
        let params = Attention {
            columns: drafter.column.address(),
            q_float: drafter.queries.address(),
            q_norm: drafter.weights.layers[index].q_norm,
            rope: rope.address(set),
            values,
            largest,
            sums,
            chain: room.chain.address(),
            keys: kv.rows[0] as u64,
            values_at: kv.rows[1] as u64,
            key_scales: kv.scales[0] as u64,
            value_scales: kv.scales[1] as u64,
            rope_stride: rope.stride() as i32,
            pairs: rope.pairs(set) as i32,
            slots: kv.slots as i32,
            ring: i32::from(kv.ring),
            dim: shape.head_dim as i32,
            heads: geometry.heads as i32,
            kv_heads: geometry.kv_heads as i32,
            // One key more than the target's window (docs/spec.md).
            window: if sliding { geometry.window as i32 + 1 } else { 0 },
            blocks: drafter.blocks as i32,
            early: 1,
            past: 1,
            ..Attention::default()
        };
        let launch = attend(&mut self.builder, params, reach, 1, Role::Other)?;
        self.launches.push(launch);
        Ok(Merge {
            values,
            largest,
            sums,
            columns: params.columns,
            heads: params.heads,
            head_dim: params.dim,
            window: params.window,
            blocks: params.blocks,
            ..Merge::default()
        })
    }

    /// The best row for the final norm at `normed`, and its way into the next draft.
    fn head(&mut self, normed: u64) -> Result<(), DriverError> {
        let drafter = self.drafter;
        let weights = &drafter.weights;
        let (embed, chain) = (weights.embed, drafter.chain.address());
        let (mut count, mut size, mut tokens) = (embed.rows, 1, 0);
        if let (Some((centroids, ordering)), Some(head)) = (weights.clusters, weights.geometry.ordered) {
            let scores = drafter.scores.address();
            self.linear(centroids, None, scores, Input::Plain(normed))?;
            let arguments = vec![
                argument(scores),
                argument(head.centroids as i32),
                argument(head.top_k as i32),
                argument(drafter.chosen.address()),
            ];
            let threads = self.builder.threads();
            self.push(
                "draft_rank",
                head.centroids.div_ceil(self.builder.device.warps),
                threads,
                0,
                arguments,
            )?;
            (size, tokens) = (embed.rows / head.centroids, ordering);
            count = head.top_k * size;
        }
        let arguments = vec![
            argument(embed.address),
            argument(normed),
            argument(tokens),
            argument(drafter.chosen.address()),
            argument(chain),
            argument(count as i32),
            argument(size as i32),
            argument(embed.width as i32),
            argument(embed.chunks as i32),
        ];
        let (blocks, threads) = (self.blocks(count), self.builder.threads());
        self.push("draft_best", blocks, threads, 4 * embed.width, arguments)?;
        self.push("draft_pick", 1, 1, 0, vec![argument(chain), argument(drafter.column.address())])
    }
}
