//! Full layers where many keys are seen, as ways that are being measured (`Trial::long_attention`, `Trial::long_merge`): all heads of a K/V head in
//! one block of the grid, and the merge of partial results as a kernel of its own.
//!
//! Both make the same partial results and codes as what is shipped, so either may run without the other. The grid has as many blocks as there
//! are multiprocessors: a block whose columns have more blocks of keys takes several, and the next one's rows come while it computes.

use rawloop_spec::AttentionKind;
use rawloop_spec::contract::KEY_BLOCK;

use crate::driver::Launch;
use crate::form::{Reach, Role};
use crate::options::{DriverError, KvFormat};
use crate::params::{Attention, Matrix, Merge, argument};

use super::{Builder, List, format_index};

/// Threads of a block that attends.
const ATTEND_THREADS: u32 = 256;
/// Threads of a block that merges, which is also how many blocks of keys it takes at once, and the dims of a head it has.
const MERGE_THREADS: usize = 160;
const MERGE_DIMS: usize = 32;
/// What tests have in place of that and as blocks of the grid for a column and some heads, so that few tokens need several rounds.
const SMALL: usize = 2;
/// Blocks of keys there are at least where heads are cut into as few parts as possible.
const MIDDLE_BLOCKS: usize = 32;

impl List<'_, '_> {
    /// Whether the merge of a layer is a kernel of its own for any number of columns. Taps want it as the projection's entry.
    pub(super) fn merges_apart(&self, layer: usize) -> bool {
        let trial = self.builder.trial;
        let shape = self.builder.weights.geometry.layers[layer];
        trial.long_merge
            && shape.attention == AttentionKind::Full
            && (trial.long_always.is_some() || self.form.reach != Reach::Short)
            && self.builder.taps.input == 0
            && shape.head_dim.is_multiple_of(MERGE_DIMS)
    }

    /// The merge of all columns, for an output projection that takes codes.
    pub(super) fn merge_apart(&mut self, layer: usize, merge: Merge, o: &Matrix) -> Result<(), DriverError> {
        let room = self.builder.room;
        let chunk = if self.builder.trial.long_always.is_some() { SMALL } else { MERGE_THREADS };
        let padded = o.splits as usize * o.split_k as usize * (256 / o.bits as usize);
        let arguments = vec![
            argument(merge),
            argument(room.input.address()),
            argument(room.code_stride as i32),
            argument(padded as i32),
            argument(chunk as i32),
        ];
        let shared = 2 * chunk * MERGE_DIMS * 4;
        let grid = (merge.head_dim as usize / MERGE_DIMS, merge.heads as usize, self.form.columns);
        self.push("merge_long", grid, MERGE_THREADS as u32, shared, arguments, Role::Output(layer))
    }
}

/// Attention of some columns by blocks that have all heads of a K/V head, or as many as leave no multiprocessor without work; nothing where this way does not serve.
pub(super) fn attend_many(
    builder: &mut Builder<'_>,
    mut params: Attention,
    reach: Reach,
    columns: usize,
    role: Role,
) -> Result<Option<Launch>, DriverError> {
    let trial = builder.trial;
    let serves = trial.long_attention
        && params.window == 0
        && params.past == 0
        && params.q_float == 0
        && (trial.long_always.is_some() || reach != Reach::Short);
    if !serves {
        return Ok(None);
    }
    let (dim, kv_heads) = (params.dim as usize, params.kv_heads as usize);
    let group = params.heads as usize / kv_heads;
    let (most_heads, multiprocessors) = match trial.long_always {
        Some(heads) => (heads, SMALL * kv_heads * group.div_ceil(heads) * columns),
        None => (8, builder.device.about.multiprocessors),
    };
    let seen = if reach == Reach::Long { params.blocks as usize } else { MIDDLE_BLOCKS };
    // Four heads of eight twice the blocks: where fewer than three quarters of the multiprocessors would have one.
    let parts = |heads: usize| kv_heads * group.div_ceil(heads);
    let mut heads = group.next_power_of_two().clamp(2, most_heads);
    while heads > 2
        && trial.long_always.is_none()
        && seen.min(multiprocessors) * parts(heads) * columns * 4 < multiprocessors * 3
    {
        heads /= 2;
    }
    let name = attend_many_name(builder.layout.format, heads);
    let most = builder.functions.get(builder.device, name)?.dynamic;
    let buffer = KEY_BLOCK * (dim * builder.layout.format.value_bytes() + 64);
    let rest = 4 * (heads * (dim + 2 * KEY_BLOCK) + 4 * dim + 2 * params.pairs as usize);
    params.one_buffer = i32::from(2 * buffer + rest > most);
    let shared = if params.one_buffer == 1 { buffer } else { 2 * buffer } + rest;
    if shared > most {
        return Ok(None);
    }
    let blocks = (multiprocessors / (parts(heads) * columns)).clamp(1, seen.min(params.blocks as usize));
    let grid = (blocks as u32, parts(heads) as u32, columns as u32);
    builder.launch(name, grid, ATTEND_THREADS, shared, vec![argument(params)], true, role).map(Some)
}

fn attend_many_name(format: KvFormat, heads: usize) -> &'static str {
    let names = [
        ["attend_many_f32_2", "attend_many_f32_4", "attend_many_f32_8"],
        ["attend_many_f16_2", "attend_many_f16_4", "attend_many_f16_8"],
        ["attend_many_i8_2", "attend_many_i8_4", "attend_many_i8_8"],
    ];
    names[format_index(format)][heads.ilog2() as usize - 1]
}
