//! A layer's attention as one kernel of clusters (`kernels/layer_attention.cu`): whether a layer can run that way, and its launch.
//!
//! The sums of the output projection are in two buffers there, by turns of layers: the kernel of a layer clears those of the next one, since nothing of its own cluster could
//! be cleared before other clusters add. The first layer's are cleared with the embedding. Layers that keep the three kernels take turns with the rest.

use bytemuck::{Pod, Zeroable};
use rawloop_spec::AttentionKind;
use rawloop_spec::contract::KEY_BLOCK;

use crate::driver::Launch;
use crate::form::{Part, Reach, Role};
use crate::options::{DriverError, KvFormat};
use crate::params::{Enter, Matrix, Scale, Table, argument};
use crate::weights::LayerWeights;

use super::several_layer_attention::plain_name_of_several;
use super::{Builder, List, SHORT_BLOCKS, format_index};

/// Blocks of a cluster that every device with clusters holds.
pub(super) const PORTABLE: usize = 8;
/// Bytes of barriers and counters at the start of shared memory.
pub(super) const CONTROL: usize = 256;
/// Blocks of keys that are merged at most.
pub(super) const MOST_BLOCKS: usize = 16;

/// Arguments of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
struct LayerAttention {
    q: Matrix,
    k: Matrix,
    v: Matrix,
    o: Matrix,
    enter: Enter,
    embed: Table,
    columns: u64,
    q_norm: u64,
    k_norm: u64,
    rope: u64,
    chain: u64,
    sums: u64,
    zero: u64,
    zero_too: u64,
    stamps: u64,
    keys: u64,
    values_at: u64,
    key_scales: u64,
    value_scales: u64,
    rope_stride: i32,
    pairs: i32,
    slots: i32,
    ring: i32,
    dim: i32,
    group: i32,
    window: i32,
    own: i32,
    row_blocks: i32,
    output_blocks: i32,
    zero_count: i32,
    zero_too_count: i32,
    of_group: u32,
    of_part: u32,
    of_slots: u32,
    of_words: u32,
    of_split: u32,
    count: Scale,
    late: i32,
    at_keys: i32,
    at_values: i32,
    at_entry: i32,
    at_output: i32,
    at_partials: i32,
    at_rest: i32,
    begins: i32,
    fill: i32,
}

/// What a block of the grid has: rows, and where things lie in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub row_blocks: usize,
    pub output_blocks: usize,
    pub late: usize,
    pub keys: usize,
    pub values: usize,
    pub entry: usize,
    pub output: usize,
    pub partials: usize,
    pub rest: usize,
    pub shared: usize,
}

/// What the kernel divides numbers below 2^17 by `n` with, as the high word of a product: 2^32 / n, rounded up; 0 for 1.
fn over(n: usize) -> u32 {
    (1u64 << 32).div_ceil(n as u64) as u32
}

impl List<'_, '_> {
    /// Blocks of a cluster, where layers of this list may run that way.
    fn cluster(&self) -> Option<usize> {
        let Builder { trial, device, .. } = &*self.builder;
        let size = trial.cluster.unwrap_or(PORTABLE).clamp(2, PORTABLE);
        // A few columns have clusters of one size.
        let few = self.form.neighbours && self.is_several() && size == PORTABLE;
        let runs = (self.narrow() || few) && device.has_clusters() && !trial.attention_apart;
        runs.then_some(size)
    }

    /// The buffer of sums that the output projection of a layer adds to.
    pub(super) fn output_sums(&self, layer: usize) -> usize {
        if self.cluster().is_some() && layer % 2 == 1 { 3 } else { 0 }
    }

    /// The embedding; where layers may run in clusters it clears the sums of the first of them.
    pub(super) fn embed(
        &mut self,
        first_layer: usize,
        mut arguments: Vec<Box<[u64]>>,
    ) -> Result<(), DriverError> {
        let columns = self.form.columns;
        if self.cluster().is_none() {
            return self.push("embed", (columns, 1, 1), 256, 0, arguments, Role::Embed);
        }
        let sums = self.builder.room.sums[self.output_sums(first_layer)].address();
        arguments.extend([argument(sums), argument(self.builder.weights.geometry.hidden as i32)]);
        self.push("embed_clearing", (columns, 1, 1), 256, 0, arguments, Role::Embed)
    }

    /// Whether the list can begin with the attention of `layer` beside its inputs: a list that does has no kernel of its own for the embedding.
    ///
    /// # Errors
    /// The driver refuses.
    pub(super) fn begins_at_once(&mut self, layer: usize) -> Result<bool, DriverError> {
        let short = self.builder.weights.geometry.hidden <= 4 * self.builder.threads() as usize;
        Ok(self.narrow() && short && self.at_once_launch(layer)?.is_some())
    }

    /// The whole attention of a layer as one kernel, where that is possible; whether it is.
    ///
    /// # Errors
    /// The driver refuses.
    pub(super) fn attention_at_once(&mut self, layer: usize) -> Result<bool, DriverError> {
        let Some((mut launch, shape)) = self.at_once_launch(layer)? else { return Ok(false) };
        let weights = self.weights(layer);
        let early = !self.launches.is_empty();
        let arguments = self.at_once_arguments(layer, &weights, &shape);
        if let Some(name) = self.plain_name(&arguments, &launch) {
            let Launch { grid, threads, shared, cluster, role, .. } = launch;
            launch = self.builder.launch(name, grid, threads, shared, Vec::new(), false, role)?;
            launch.cluster = cluster;
        }
        launch.early = early;
        launch.arguments = vec![argument(arguments)];
        if !self.narrow() {
            launch.arguments.push(argument(self.form.columns as i32));
        }
        self.launches.push(launch);
        self.joins(self.output_sums(layer), weights.o, weights.post_attention_norm, 1.0);
        Ok(true)
    }

    /// The kernel made for what E2B has, where a layer has that.
    fn plain_name(&self, p: &LayerAttention, launch: &Launch) -> Option<&'static str> {
        let threads = self.builder.threads() as i32;
        let whole = |m: &Matrix| m.bits == 4 && m.split_k % 4 == 0;
        // A few columns have no kernel that begins a list.
        let one = self.narrow();
        let plain = (one || p.begins == 0)
            && launch.cluster as usize == PORTABLE
            && self.builder.layout.format == KvFormat::F16
            && p.enter.is_plain(4 * threads, true, p.begins != 0)
            && whole(&p.q)
            && 64 * p.q.split_k == p.enter.hidden
            && whole(&p.o);
        match (p.dim, p.begins) {
            _ if !plain => None,
            // Their heads are a part of the output projection's K each.
            (dim, _) if !one && (64 * p.o.split_k, p.o.rows) != (dim, 4 * threads) => None,
            (dim, _) if !one => plain_name_of_several(self.form.columns, dim, p.window > 0),
            (256, 0) => Some("layer_attention_256"),
            (512, 0) => Some("layer_attention_512"),
            (256, _) => Some("layer_attention_first"),
            _ => None,
        }
    }

    /// That kernel's launch without its arguments, where all clusters fit.
    fn at_once_launch(&mut self, layer: usize) -> Result<Option<(Launch, Shape)>, DriverError> {
        let weights = self.weights(layer);
        let Some(size) = self.cluster() else { return Ok(None) };
        let (kept, names) = match self.form.columns {
            1 => (1, ["layer_attention_f32", "layer_attention_f16", "layer_attention_i8"]),
            2 => (2, ["layer_attention_2_f32", "layer_attention_2_f16", "layer_attention_2_i8"]),
            _ => (4, ["layer_attention_4_f32", "layer_attention_4_f16", "layer_attention_4_i8"]),
        };
        let name = names[format_index(self.builder.layout.format)];
        let most = self.builder.functions.get(self.builder.device, name)?.dynamic;
        let shape = match kept {
            1 => self.at_once(layer, &weights, size, most),
            _ => self.at_once_of_several(layer, &weights, kept, most),
        };
        let Some(shape) = shape else { return Ok(None) };
        let heads = self.builder.weights.geometry.heads;
        let grid = ((heads * size) as u32, 1, 1);
        let (role, threads) = (Role::Attend(layer), self.builder.threads());
        let mut launch = self.builder.launch(name, grid, threads, shape.shared, Vec::new(), false, role)?;
        launch.cluster = size as u32;
        // Clusters of different heads do not wait for each other, but one behind the other they would take twice as long.
        let fits = self.builder.device.clusters(&launch)? >= heads;
        Ok(fits.then_some((launch, shape)))
    }

    /// Shared memory that keeps the blocks of an FFN that is one kernel away from those of the attention before it: beside them attention takes longer than the FFN gains by being ready.
    fn alone(&self, weights: &LayerWeights) -> usize {
        if !self.ffn_is_one(weights) {
            return 0;
        }
        self.builder.device.shared.saturating_sub(self.ffn_bytes(weights))
    }

    /// How a layer runs in clusters of `size`, if it can.
    fn at_once(&self, layer: usize, weights: &LayerWeights, size: usize, most: usize) -> Option<Shape> {
        let geometry = &self.builder.weights.geometry;
        let (q, o, dim) = (&weights.q, &weights.o, geometry.layers[layer].head_dim);
        let threads = self.builder.threads() as usize;
        let inputs = |m: &Matrix| (m.split_k * (256 / m.bits)) as usize;
        let sliding = geometry.layers[layer].attention == AttentionKind::Sliding;
        // Blocks of keys that may be seen; one more than the cluster has blocks lies beside the first one.
        let window = geometry.window;
        let blocks = if sliding { (window + KEY_BLOCK - 2) / KEY_BLOCK + 1 } else { SHORT_BLOCKS };
        let folds = sliding && window.is_multiple_of(KEY_BLOCK) && blocks == size + 1;
        let alike = weights.kv.as_ref().is_none_or(|(k, v)| {
            [k, v].iter().all(|m| (m.bits, m.split_k, m.splits) == (q.bits, q.split_k, q.splits))
        });
        let spans = if weights.kv.is_some() { 3 } else { 1 };
        let row_blocks = (dim / 16).div_ceil(size);
        let pairs = self.builder.rope.pairs(usize::from(!sliding));
        let possible = self.builder.taps.input == 0
            && (blocks <= size || folds)
            && blocks <= MOST_BLOCKS
            && (sliding || self.form.reach == Reach::Short && self.builder.trial.long_always.is_none())
            && alike
            && q.splits == 1
            && [32, 64, 128, 256, 512].contains(&dim)
            && pairs.is_multiple_of(4)
            && threads >= 4 * KEY_BLOCK
            && spans * dim.div_ceil(128) * 32 <= threads
            && row_blocks * 4 * (size + spans - 1) <= threads
            && inputs(o).is_multiple_of(dim);
        if !possible {
            return None;
        }
        let output_blocks = (o.rows as usize).div_ceil(16).div_ceil(size);
        let (units, output_units) =
            (row_blocks * spans * q.split_k as usize, output_blocks * o.split_k as usize);
        let buffer = KEY_BLOCK * (dim * self.builder.layout.format.value_bytes() + 64);
        let (entry, partials) = (self.enter_bytes(1), blocks * dim * 4);
        // Where every block has rows of q no partial result comes before the entry is over, and takes its place.
        let shares = row_blocks * size == dim / 16;
        let rest = 4 * (2 * dim + (self.builder.device.warps + 3) * KEY_BLOCK)
            + 8 * MOST_BLOCKS
            + row_blocks * spans * 16 * 8
            + spans * dim
            + inputs(q)
            + inputs(o)
            + 4 * (2 * pairs).next_multiple_of(4)
            + if spans == 3 { 4 * dim } else { 0 };
        // Values, then keys as well, come where the weights of q, k and v were, behind those of the output projection.
        let of = |late: usize| {
            let taken = CONTROL + 512 * output_units;
            let end_of_weights = (taken + late * buffer).max(CONTROL + 512 * units);
            let place = |early: usize, later: usize| match late > later {
                true => taken + later * buffer,
                false => end_of_weights + early * buffer,
            };
            let end = end_of_weights + (2 - late) * buffer;
            let (at_partials, at_rest) = match shares {
                true => (end, end + entry.max(partials)),
                false => (end + entry, end + entry + partials),
            };
            Shape {
                row_blocks,
                output_blocks,
                late,
                keys: place(0, 1),
                values: place(1, 0),
                entry: end,
                output: CONTROL,
                partials: at_partials,
                rest: at_rest,
                shared: at_rest + rest,
            }
        };
        let shape = (0..3).map(of).find(|shape| shape.shared <= most)?;
        Some(Shape { shared: shape.shared.max(self.alone(weights)).min(most), ..shape })
    }

    fn at_once_arguments(&mut self, layer: usize, weights: &LayerWeights, shape: &Shape) -> LayerAttention {
        let enter = self.enter(weights.input_norm, weights.q.input);
        let builder = &*self.builder;
        let (room, rope, geometry) = (builder.room, builder.rope, &builder.weights.geometry);
        let own = geometry.layers[layer];
        let kv = builder.layout.layers[own.producer];
        let sliding = own.attention == AttentionKind::Sliding;
        let set = usize::from(!sliding);
        let (k, v) = weights.kv.unwrap_or_default();
        let (zero_too, zero_too_count) = self.ffn_clears(weights);
        // Behind its inputs alone, without a kernel of the embedding: `begins_at_once` was true.
        let begins = self.launches.iter().all(|launch| matches!(launch.role, Role::Project | Role::Combine));
        let embeds = begins && self.form.part != Part::Rest;
        LayerAttention {
            q: weights.q,
            k,
            v,
            o: weights.o,
            enter,
            embed: if embeds { builder.weights.embed } else { Table::default() },
            columns: room.columns.address(),
            q_norm: weights.q_norm,
            k_norm: weights.k_norm,
            rope: rope.address(set),
            chain: room.chain.address(),
            sums: room.sums[self.output_sums(layer)].address(),
            zero: room.sums[self.output_sums(layer + 1)].address(),
            zero_too,
            stamps: self.stamped(),
            keys: kv.rows[0] as u64,
            values_at: kv.rows[1] as u64,
            key_scales: kv.scales[0] as u64,
            value_scales: kv.scales[1] as u64,
            rope_stride: rope.stride() as i32,
            pairs: rope.pairs(set) as i32,
            slots: kv.slots as i32,
            ring: i32::from(kv.ring),
            dim: own.head_dim as i32,
            group: (geometry.heads / geometry.kv_heads) as i32,
            window: if sliding { geometry.window as i32 } else { 0 },
            own: i32::from(weights.kv.is_some()),
            row_blocks: shape.row_blocks as i32,
            output_blocks: shape.output_blocks as i32,
            zero_count: (self.form.columns * geometry.hidden) as i32,
            zero_too_count,
            of_group: over(geometry.heads / geometry.kv_heads),
            of_part: over(((weights.o.split_k * (256 / weights.o.bits)) as usize / own.head_dim).max(1)),
            of_slots: over(kv.slots),
            of_words: over(4 * shape.row_blocks),
            of_split: over(weights.q.split_k as usize),
            count: Scale::new(own.head_dim as f32),
            late: shape.late as i32,
            at_keys: shape.keys as i32,
            at_values: shape.values as i32,
            at_entry: shape.entry as i32,
            at_output: shape.output as i32,
            at_partials: shape.partials as i32,
            at_rest: shape.rest as i32,
            begins: i32::from(begins),
            fill: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::over;

    #[test]
    fn a_high_word_is_the_quotient() {
        for n in (1..2048).chain([4096, 8191]) {
            for x in (0..1 << 17).step_by(61).chain((0..1 << 17).step_by(n)).flat_map(|x| [x, x + n - 1]) {
                let x = x.min((1 << 17) - 1);
                let inverse = over(n);
                let found = if inverse == 0 { x } else { ((x as u64 * u64::from(inverse)) >> 32) as usize };
                assert_eq!(found, x / n, "{x} / {n}");
            }
        }
    }
}
