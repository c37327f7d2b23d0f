//! The merge loop of byte-pair encoding: of all neighbouring pairs that have a rule, the one of lowest rank is joined, the
//! leftmost of equals first, until no pair has a rule.
//!
//! Two ways to the same result. A short piece (a word) keeps its pairs in an array and scans it for the minimum: no
//! pointers, everything in one or two cache lines. A long one (a Chinese paragraph, a megabyte of spaces) uses a heap over a
//! linked list, O(n log n).
//!
//! Invariant: a rank belongs to one pair, so "the pair at this place still has the rank that was queued" means that the
//! queued merge is not stale.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::table::{NONE, Rules};

/// Longest piece for the array. Over the 262,144 vocabulary any limit from 24 to 96 gives the same speed; at 12 indented code
/// is a fifth slower.
const SHORT: usize = 32;

/// Working memory of the loop, kept between pieces.
#[derive(Default)]
pub(crate) struct MergeBuffers {
    pairs: Vec<(u32, u32)>,
    nodes: Vec<Node>,
    queue: BinaryHeap<Reverse<(u32, usize)>>,
}

#[derive(Clone, Copy)]
struct Node {
    id: u32,
    /// Rule for this node and the next one; rank `NONE` if there is none or the node has been merged away.
    rank: u32,
    product: u32,
    previous: usize,
    next: usize,
}

const END: usize = usize::MAX;

impl MergeBuffers {
    /// Merges `piece` as far as it goes and appends the ids to `out`. Leaves `piece` empty.
    pub fn merge(&mut self, rules: Rules, piece: &mut Vec<u32>, out: &mut Vec<u32>) {
        match piece.len() {
            0 | 1 => {}
            2..=SHORT => self.merge_short(rules, piece),
            _ => return self.merge_long(rules, piece, out),
        }
        out.append(piece);
    }

    fn merge_short(&mut self, rules: Rules, piece: &mut Vec<u32>) {
        let pair = |left, right| rules.merge(left, right).unwrap_or((NONE, NONE));
        self.pairs.clear();
        self.pairs.extend(piece.windows(2).map(|two| pair(two[0], two[1])));
        loop {
            let mut best = (NONE, 0);
            for (at, &(rank, _)) in self.pairs.iter().enumerate() {
                // Strictly lower, so that the leftmost of equals stays.
                if rank < best.0 {
                    best = (rank, at);
                }
            }
            let (rank, at) = best;
            if rank == NONE {
                return;
            }
            piece[at] = self.pairs[at].1;
            piece.remove(at + 1);
            self.pairs.remove(at);
            if at > 0 {
                self.pairs[at - 1] = pair(piece[at - 1], piece[at]);
            }
            if at + 1 < piece.len() {
                self.pairs[at] = pair(piece[at], piece[at + 1]);
            }
        }
    }

    fn merge_long(&mut self, rules: Rules, piece: &mut Vec<u32>, out: &mut Vec<u32>) {
        let nodes = &mut self.nodes;
        let last = piece.len() - 1;
        nodes.clear();
        nodes.extend(piece.drain(..).enumerate().map(|(at, id)| Node {
            id,
            rank: NONE,
            product: NONE,
            previous: at.wrapping_sub(1),
            next: if at == last { END } else { at + 1 },
        }));
        // One heapify over a reused vector instead of n pushes.
        let mut queue = std::mem::take(&mut self.queue).into_vec();
        queue.clear();
        queue.extend((0..last).filter_map(|at| find_rule(rules, nodes, at)));
        let mut queue = BinaryHeap::from(queue);

        while let Some(Reverse((rank, at))) = queue.pop() {
            let node = nodes[at];
            if node.rank != rank || node.next == END {
                continue;
            }
            let merged_away = nodes[node.next];
            nodes[node.next].rank = NONE;
            nodes[at].id = node.product;
            nodes[at].next = merged_away.next;
            if merged_away.next != END {
                nodes[merged_away.next].previous = at;
            }
            queue.extend(find_rule(rules, nodes, at));
            if node.previous != END {
                queue.extend(find_rule(rules, nodes, node.previous));
            }
        }
        let mut at = 0;
        while at != END {
            out.push(nodes[at].id);
            at = nodes[at].next;
        }
        self.queue = queue;
    }
}

/// Looks up the rule of a node and its next one, notes it in the node and returns the queue entry.
fn find_rule(rules: Rules, nodes: &mut [Node], at: usize) -> Option<Reverse<(u32, usize)>> {
    let next = nodes[at].next;
    let rule = if next == END { None } else { rules.merge(nodes[at].id, nodes[next].id) };
    let (rank, product) = rule.unwrap_or((NONE, NONE));
    nodes[at].rank = rank;
    nodes[at].product = product;
    rule.map(|_| Reverse((rank, at)))
}
