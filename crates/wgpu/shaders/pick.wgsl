// The greedy token (rule 9: the largest logit, the lowest id among equals) of each column; where CHAIN is 1, the next token of the
// first column: it is emitted, and unless it is a stop id the column moves on to it.
@group(0) @binding(1) var<storage, read> best: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> columns: array<Column>;
@group(0) @binding(3) var<storage, read_write> chain: array<u32>;
@group(0) @binding(4) var<storage, read_write> picks: array<u32>;

// The words of `chain`: whether it has ended, ids emitted, stop ids and their number, then the emitted ids.
const ENDED = 0u;
const EMITTED = 1u;
const STOPS = 2u;
const FIRST_STOP = 3u;
const MOST_STOPS = 29u;
const FIRST_EMITTED = 32u;

const THREADS = 256u;

var<workgroup> found: array<vec2<u32>, THREADS>;

fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let take = b.x > a.x || (b.x == a.x && b.y < a.y);
  return select(a, b, take);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  var top = vec2<u32>(0u, 0xffffffffu);
  for (var i = local; i < params.count; i += THREADS) { top = better(top, best[group.y * params.in_stride + i]); }
  found[local] = top;
  for (var width = THREADS / 2u; width >= 1u; width /= 2u) {
    workgroupBarrier();
    if (local < width) { found[local] = better(found[local], found[local + width]); }
  }
  if (local != 0u) { return; }
  let id = found[0].y;
  picks[group.y] = id;
  if (CHAIN == 0u || chain[ENDED] != 0u) { return; }
  let index = chain[EMITTED];
  chain[FIRST_EMITTED + index] = id;
  chain[EMITTED] = index + 1u;
  for (var i = 0u; i < min(chain[STOPS], MOST_STOPS); i++) {
    if (chain[FIRST_STOP + i] == id) { chain[ENDED] = 1u; }
  }
  if (chain[ENDED] == 0u) {
    columns[0].token = id;
    columns[0].position += 1u;
  }
}
