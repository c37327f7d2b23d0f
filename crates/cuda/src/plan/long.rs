//! Full layers where more than 512 keys are seen: all heads of a K/V head in one block of the grid, and the merge of partial results as a kernel of its own. A
//! draft's full layer takes both too.
//!
//! Both make the same partial results and codes as what runs elsewhere, so either may run without the other: where taps are wanted the merge stays in the projection's entry. The grid has as many blocks as there
//! are multiprocessors: a block whose columns have more blocks of keys takes several, and the next one's rows come while it computes.

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

impl Builder<'_> {
    /// Whether attention with that window, 0 for a full layer, sees so many keys.
    fn is_long(&self, window: i32, reach: Reach) -> bool {
        window == 0 && (self.trial.long_always.is_some() || reach != Reach::Short)
    }

    /// Whether the merge of a full layer is a kernel of its own for any number of columns.
    fn merges_apart(&self, merge: &Merge, reach: Reach) -> bool {
        self.is_long(merge.window, reach) && (merge.head_dim as usize).is_multiple_of(MERGE_DIMS)
    }

    /// That merge: codes of `padded` inputs to `codes`, `stride` from column to column, or only the results to the merge's tap. `past` is 1 where a column's own
    /// position is not seen.
    fn merge_apart(
        &mut self,
        merge: Merge,
        (codes, stride, padded): (u64, usize, usize),
        past: i32,
        columns: usize,
        role: Role,
    ) -> Result<Launch, DriverError> {
        let chunk = if self.trial.long_always.is_some() { SMALL } else { MERGE_THREADS };
        let arguments = vec![
            argument(merge),
            argument(codes),
            argument(stride as i32),
            argument(padded as i32),
            argument(chunk as i32),
            argument(past),
        ];
        let shared = 2 * chunk * MERGE_DIMS * 4;
        let grid = ((merge.head_dim as usize / MERGE_DIMS) as u32, merge.heads as u32, columns as u32);
        self.launch("merge_long", grid, MERGE_THREADS as u32, shared, arguments, true, role)
    }

    /// The merge of a draft's full layer as floats at `out`, where it is a kernel of its own.
    pub fn merge_of_draft(
        &mut self,
        merge: Merge,
        reach: Reach,
        out: u64,
    ) -> Result<Option<Launch>, DriverError> {
        if !self.merges_apart(&merge, reach) {
            return Ok(None);
        }
        self.merge_apart(Merge { tap: out, ..merge }, (0, 0, 0), 1, 1, Role::Other).map(Some)
    }
}

impl List<'_, '_> {
    /// Whether a layer's merge is that kernel or the one of a few columns. Taps want it as the projection's entry.
    pub(super) fn merges_apart(&self, merge: &Merge) -> bool {
        self.builder.taps.input == 0
            && (self.builder.merges_apart(merge, self.form.reach) || self.merges_few(merge))
    }

    /// The merge of all columns, for an output projection that takes codes.
    pub(super) fn merge_apart(&mut self, layer: usize, merge: Merge, o: &Matrix) -> Result<(), DriverError> {
        let room = self.builder.room;
        let padded = o.splits as usize * o.split_k as usize * (256 / o.bits as usize);
        if !self.builder.merges_apart(&merge, self.form.reach) {
            return self.merge_few(layer, merge, padded);
        }
        let to = (room.input.address(), room.code_stride, padded);
        let launch = self.builder.merge_apart(merge, to, 0, self.form.columns, Role::Output(layer))?;
        self.launches.push(launch);
        Ok(())
    }
}

/// Attention of some columns by blocks that have all heads of a K/V head, or as many as leave no multiprocessor without work; nothing where few keys are seen.
pub(super) fn attend_many(
    builder: &mut Builder<'_>,
    mut params: Attention,
    reach: Reach,
    columns: usize,
    role: Role,
) -> Result<Option<Launch>, DriverError> {
    let trial = builder.trial;
    if !builder.is_long(params.window, reach) {
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
    let rest = 4 * (heads * (dim + 2 * KEY_BLOCK) + 2 * dim + 2 * params.pairs as usize);
    params.one_buffer = i32::from(2 * buffer + rest > most);
    let shared = if params.one_buffer == 1 { buffer } else { 2 * buffer } + rest;
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
