//! Attention of few groups over long contexts, split by blocks of keys.
//!
//! One decoded token of E2B is a single group: eight query heads, one KV head. Giving each thread some of the heads would read and
//! widen every key once a thread (34 against 46 G multiply-adds a second a core with four heads instead of eight).
//! So each chunk takes one block of 64 keys for all heads and leaves the block's maximum, sum and weighted values behind;
//! then each group's blocks are merged in ascending order, as rule 8 has it. What a block leaves is a function of the block
//! alone, so the split changes no bit. Blocks go in rounds, as many as there is room for.

use std::ops::Range;

use super::attention::LayerAttention;
use crate::crew::Crew;
use crate::kernels::AttentionState;
use crate::parts::Grid;
use crate::workspace::Kept;

/// Blocks in a context from which on the second join is worth it.
const FEWEST_BLOCKS: usize = 4;
/// Blocks between two merges: 1 MB of partial results for E2B's widest heads.
const ROOM: usize = 64;

/// Partial results of blocks and groups.
pub(crate) struct KeySplit {
    /// What each block of a round leaves.
    blocks: Vec<AttentionState>,
    /// Each group's result so far.
    groups: Vec<AttentionState>,
    /// Each group's queries `[groups x heads x dim]`.
    queries: Vec<f32>,
}

impl KeySplit {
    /// Room for `threads` threads and groups of `heads` heads of `dim` values.
    pub fn new(threads: usize, heads: usize, dim: usize) -> KeySplit {
        let state = || {
            let mut state = AttentionState::default();
            state.reset(heads, dim);
            state
        };
        // A team of one never splits.
        let (groups, blocks) = if threads == 1 { (0, 0) } else { (most_groups(threads), room(threads)) };
        KeySplit {
            blocks: (0..blocks).map(|_| state()).collect(),
            groups: (0..groups).map(|_| state()).collect(),
            queries: vec![0.0; groups * heads * dim],
        }
    }
}

/// Groups that are split at most: with more, whole groups keep the team busy.
fn most_groups(threads: usize) -> usize {
    2 * threads - 1
}

/// Blocks of a round, of all groups together.
fn room(threads: usize) -> usize {
    ROOM.max(4 * threads)
}

/// Whether to split `groups` groups over contexts of up to `blocks` blocks.
pub(super) fn pays(groups: usize, blocks: usize, threads: usize) -> bool {
    threads > 1 && groups <= most_groups(threads) && blocks >= FEWEST_BLOCKS
}

/// Rule 8 for some tokens of a pass; `codes` is their `[tokens x heads x dim]` of o's input.
pub(super) fn attend(
    attention: &LayerAttention<'_>,
    crew: &mut Crew,
    split: &mut KeySplit,
    tokens: Range<usize>,
    codes: &mut [i8],
    kept: Option<&mut Kept>,
) {
    let (kernels, dim, heads) = (attention.kernels, attention.layer.head_dim, attention.shared());
    let (width, kv_heads) = (attention.width(), attention.weights.geometry.kv_heads);
    let (groups, size) = (tokens.len() * kv_heads, heads * dim);
    let place = |group: usize| (tokens.start + group / kv_heads, group % kv_heads * heads);
    let seen = |group: usize| {
        let (token, head) = place(group);
        attention.seen(token, head)
    };

    let queries = &mut split.queries[..groups * size];
    let states = &mut split.groups[..groups];
    crew.run(
        &(Grid::by_rows(queries, groups, 1), Grid::by_rows(states, groups, 1)),
        |_, group, (mut query, mut state)| {
            let (token, head) = place(group);
            attention.query(token, head, query.row(0));
            state.row(0)[0].reset(heads, dim);
        },
    );
    let queries = &split.queries[..groups * size];
    let mut kept = kept.map(|kept| {
        kept.query[..size * groups].copy_from_slice(queries);
        &mut kept.attention[..width]
    });

    let longest = (0..groups).map(|group| seen(group).blocks().len()).max().unwrap_or(0);
    let each = (split.blocks.len() / groups).min(longest).max(1);
    for round in (0..longest).step_by(each) {
        let blocks = &mut split.blocks[..groups * each];
        crew.run(&Grid::by_rows(blocks, groups * each, 1), |_, chunk, mut block| {
            let (group, index) = (chunk / each, round + chunk % each);
            let (seen, state) = (seen(group), &mut block.row(0)[0]);
            state.reset(heads, dim);
            if let Some(index) = seen.blocks().nth(index) {
                let [keys, values] = seen.block(index);
                kernels.attend_block(&queries[group * size..][..size], keys, values, state);
            }
        });
        let last = round + each >= longest;
        let results = (
            Grid::by_rows(&mut split.groups[..groups], groups, 1),
            Grid::by_rows(&mut split.blocks[..groups * each], groups, 1),
            Grid::new(&mut *codes, tokens.len(), width, 1, size),
        );
        let kept = kept.as_mut().map(|kept| Grid::by_columns(kept, 1, size));
        crew.run(&(results, kept), |scratch, group, ((mut state, mut blocks, mut codes), kept)| {
            let state = &mut state.row(0)[0];
            for block in blocks.row(0).iter_mut().filter(|block| block.blocks() > 0) {
                kernels.merge(state, block);
            }
            if last {
                let out = &mut scratch.row[..size];
                kernels.attention_output(state, out);
                scratch.sums[place(group).0] +=
                    kernels.quantise(out, attention.layer.o.input_scale, codes.row(0));
                if let Some(mut kept) = kept {
                    kept.row(0).copy_from_slice(out);
                }
            }
        });
    }
}
