// Rule 8 within one block of 64 keys, for one column: few workgroups run then, and each waits for memory more than it computes. So everything that
// it reads of K and V is under way before queries are made and before the first of it is used; four threads share a key, each with eight of a
// sum's 32 lanes for all HEADS queries; values go through workgroup memory, STAGED keys at a time, so that every thread has loaded some of them.
// Keys that are not visible get p = 0, which adds nothing to a sum that starts at +0.
// Constants: FORMAT, HEADS (of one KV head; 2 at most), DIM, STAGED (a power of two from 8 to 64). Needs: one of the queries_*.wgsl.
@group(0) @binding(1) var<storage, read> columns: array<Column>;
// Largest score and sum of a block and head.
@group(0) @binding(2) var<storage, read_write> tops: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> partial: array<vec2<f32>>;

const THREADS = 256u;
// Vectors of four words of a stored row, and those of a key that a thread reads.
const ROW = (DIM >> FORMAT) / 4u;
const MINE = (DIM / 16u) >> min(FORMAT, 1u);
// Vectors that a stage has.
const STAGE = STAGED * ROW;
// Vectors of a stage that a thread has, 4 at most.
const P = (STAGE + THREADS - 1u) / THREADS;
const STAGES = 64u / STAGED;
// Vectors of loads that are under way together.
const HELD = 16u;
const PAIRS = DIM / 2u;
const ITEMS = (HEADS * PAIRS + THREADS - 1u) / THREADS;
const LOWEST = -3.4028234e38;
// One more than the scores, so that neither writers nor readers meet in a bank.
const APART = 64u * HEADS + 1u;

var<workgroup> q: array<vec4<f32>, HEADS * DIM / 4u>;
// Lanes of all sums, then values.
var<workgroup> shared_vectors: array<vec4<u32>, 1032>;
var<workgroup> scores: array<f32, 64u * HEADS>;
var<workgroup> weights: array<f32, 64u * HEADS>;
var<workgroup> highest: array<f32, HEADS>;
// With i8, each value's unit.
var<workgroup> units: array<f32, 64>;
// Of a thread's key: eight lanes for each head.
var<private> lanes: array<vec4<f32>, 2u * HEADS>;
// Of a thread's pairs: sums of weighted values, and of weights.
var<private> sums: array<vec2<f32>, ITEMS>;
var<private> totals: array<f32, ITEMS>;

fn float4(w: vec4<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(w); }

fn word_at(index: u32) -> u32 { return kv[index / 4u][index % 4u]; }

fn fresh_vector(side: u32, i: u32) -> vec4<u32> {
  return vec4<u32>(fresh_word(side, 4u * i), fresh_word(side, 4u * i + 1u), fresh_word(side, 4u * i + 2u), fresh_word(side, 4u * i + 3u));
}

// Which vector of a key row the load `n` of the thread with lanes 8 * part to 8 * part + 7 is.
fn key_vector(part: u32, n: u32) -> u32 {
  if (FORMAT == 0u) { return (n / 2u) * 8u + part * 2u + n % 2u; }
  if (FORMAT == 1u) { return n * 4u + part; }
  return n * 2u + part / 2u;
}

// Which vector of the block's values the load `n` of a thread is: stages one behind the other.
fn value_vector(n: u32, local: u32) -> u32 {
  return (n / P) * STAGE + min((n % P) * THREADS + local, STAGE - 1u);
}

fn key_at(row: u32, part: u32, n: u32) -> vec4<u32> { return kv[row * ROW + key_vector(part, min(n, MINE - 1u))]; }

fn value_at(row: u32, n: u32, local: u32) -> vec4<u32> {
  return kv[params.kv_values / 4u + row * ROW + value_vector(min(n, STAGES * P - 1u), local)];
}

// Written out, because loads in a loop may wait for each other.
fn keys_of(row: u32, part: u32, n: u32) -> array<vec4<u32>, HELD> {
  var w: array<vec4<u32>, HELD>;
  w[0] = key_at(row, part, n);
  w[1] = key_at(row, part, n + 1u);
  w[2] = key_at(row, part, n + 2u);
  w[3] = key_at(row, part, n + 3u);
  if (MINE > 4u) {
    w[4] = key_at(row, part, n + 4u);
    w[5] = key_at(row, part, n + 5u);
    w[6] = key_at(row, part, n + 6u);
    w[7] = key_at(row, part, n + 7u);
  }
  if (MINE > 8u) {
    w[8] = key_at(row, part, n + 8u);
    w[9] = key_at(row, part, n + 9u);
    w[10] = key_at(row, part, n + 10u);
    w[11] = key_at(row, part, n + 11u);
    w[12] = key_at(row, part, n + 12u);
    w[13] = key_at(row, part, n + 13u);
    w[14] = key_at(row, part, n + 14u);
    w[15] = key_at(row, part, n + 15u);
  }
  return w;
}

fn values_of(row: u32, local: u32) -> array<vec4<u32>, HELD> {
  var w: array<vec4<u32>, HELD>;
  w[0] = value_at(row, 0u, local);
  w[1] = value_at(row, 1u, local);
  w[2] = value_at(row, 2u, local);
  w[3] = value_at(row, 3u, local);
  if (STAGES * P > 4u) {
    w[4] = value_at(row, 4u, local);
    w[5] = value_at(row, 5u, local);
    w[6] = value_at(row, 6u, local);
    w[7] = value_at(row, 7u, local);
  }
  if (STAGES * P > 8u) {
    w[8] = value_at(row, 8u, local);
    w[9] = value_at(row, 9u, local);
    w[10] = value_at(row, 10u, local);
    w[11] = value_at(row, 11u, local);
    w[12] = value_at(row, 12u, local);
    w[13] = value_at(row, 13u, local);
    w[14] = value_at(row, 14u, local);
    w[15] = value_at(row, 15u, local);
  }
  return w;
}

// The words of the staged key `key` that the pair is in.
fn staged(key: u32, pair: u32) -> vec2<u32> {
  let at = key * ROW * 4u;
  if (FORMAT == 0u) {
    let i = at + 2u * pair;
    return vec2<u32>(shared_vectors[i / 4u][i % 4u], shared_vectors[i / 4u][i % 4u + 1u]);
  }
  let i = at + select(pair, pair / 2u, FORMAT == 2u);
  return vec2<u32>(shared_vectors[i / 4u][i % 4u], 0u);
}

// Adds the products of the vector `n` of a thread's key to its lanes.
fn add_key(n: u32, stored: vec4<u32>, part: u32, fresh_key: bool, unit: f32) {
  if (n >= MINE) { return; }
  var w = stored;
  if (fresh_key) { w = fresh_vector(0u, key_vector(part, n)); }
  if (FORMAT == 0u) {
    for (var h = 0u; h < HEADS; h++) {
      let lane = 2u * h + n % 2u;
      lanes[lane] = fused4(q[h * (DIM / 4u) + key_vector(part, n)], float4(w), lanes[lane]);
    }
    return;
  }
  var x: array<vec4<f32>, 2>;
  if (FORMAT == 1u) {
    x[0] = vec4<f32>(halves(w.x), halves(w.y));
    x[1] = vec4<f32>(halves(w.z), halves(w.w));
  } else {
    let half = select(w.xy, w.zw, part % 2u == 1u);
    x[0] = keep4(vec4<f32>(codes4(half.x)) * unit);
    x[1] = keep4(vec4<f32>(codes4(half.y)) * unit);
  }
  for (var h = 0u; h < HEADS; h++) {
    let at = h * (DIM / 4u) + n * 8u + 2u * part;
    lanes[2u * h] = fused4(q[at], x[0], lanes[2u * h]);
    lanes[2u * h + 1u] = fused4(q[at + 1u], x[1], lanes[2u * h + 1u]);
  }
}

fn store_value(i: u32, w: vec4<u32>, stage: u32, fresh_at: u32, local: u32) {
  let at = i * THREADS + local;
  if (i >= P || at >= STAGE) { return; }
  var vector = w;
  if (stage * STAGED + at / ROW == fresh_at) { vector = fresh_vector(1u, at % ROW); }
  shared_vectors[at] = vector;
}

// Adds the values of a stage to the sums, of which the thread has loaded some; `fresh_at` is the key in the block whose value is not stored yet.
fn add_stage(stage: u32, w0: vec4<u32>, w1: vec4<u32>, w2: vec4<u32>, w3: vec4<u32>, fresh_at: u32, local: u32) {
  if (stage > 0u) { workgroupBarrier(); }
  store_value(0u, w0, stage, fresh_at, local);
  store_value(1u, w1, stage, fresh_at, local);
  store_value(2u, w2, stage, fresh_at, local);
  store_value(3u, w3, stage, fresh_at, local);
  workgroupBarrier();
  for (var item = 0u; item < ITEMS; item++) {
    let at = item * THREADS + local;
    if (at < HEADS * PAIRS) {
      let pair = at % PAIRS;
      let weights_at = (at / PAIRS) * 64u + stage * STAGED;
      for (var start = 0u; start < STAGED; start += 8u) {
        var p: array<f32, 8>;
        var w: array<vec2<u32>, 8>;
        for (var i = 0u; i < 8u; i++) {
          p[i] = weights[weights_at + start + i];
          w[i] = staged(start + i, pair);
        }
        for (var i = 0u; i < 8u; i++) {
          var x: vec2<f32>;
          if (FORMAT == 0u) {
            x = bitcast<vec2<f32>>(w[i]);
          } else if (FORMAT == 1u) {
            x = halves(w[i].x);
          } else {
            let unit = units[stage * STAGED + start + i];
            let code = codes4(select(w[i].x, w[i].x >> 16u, pair % 2u == 1u));
            x = vec2<f32>(keep(f32(code.x) * unit), keep(f32(code.y) * unit));
          }
          sums[item] = vec2<f32>(fused(p[i], x.x, sums[item].x), fused(p[i], x.y, sums[item].y));
          totals[item] = added(totals[item] + p[i]);
        }
      }
    }
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let column = first.column + group.z;
  let last = columns[column].position;
  var begin = 0u;
  if (params.window != 0u && last + 1u > params.window) { begin = last + 1u - params.window; }
  let block = begin / 64u + group.x;
  if (block * 64u > last) { return; }
  let head = group.y * HEADS;
  let kv_head = head / (params.heads / params.kv_heads);
  // Slots are a multiple of 64, so a block is not torn.
  let rows = kv_head * params.slots + slot_of(block * 64u);
  let key = local / 4u;
  let part = local % 4u;
  var keys = keys_of(rows + key, part, 0u);
  var values = values_of(rows, local);
  var key_unit = 0.0;
  var value_unit = 0.0;
  if (FORMAT == 2u) {
    key_unit = bitcast<f32>(word_at(params.kv_key_scales + rows + key));
    value_unit = bitcast<f32>(word_at(params.kv_value_scales + rows + local % 64u));
  }
  take_queries(column, block, last, head, group.x, local);
  let fresh_key = is_fresh(block * 64u + key, last);
  if (FORMAT == 2u) {
    if (fresh_key) { key_unit = bitcast<f32>(fresh_word(0u, DIM / 4u)); }
    if (is_fresh(block * 64u + local % 64u, last)) { value_unit = bitcast<f32>(fresh_word(1u, DIM / 4u)); }
    if (local < 64u) { units[local] = value_unit; }
  }
  for (var i = 0u; i < 2u * HEADS; i++) { lanes[i] = vec4<f32>(); }
  for (var base = 0u; base < MINE; base += HELD) {
    if (base > 0u) { keys = keys_of(rows + key, part, base); }
    add_key(base + 0u, keys[0], part, fresh_key, key_unit);
    add_key(base + 1u, keys[1], part, fresh_key, key_unit);
    add_key(base + 2u, keys[2], part, fresh_key, key_unit);
    add_key(base + 3u, keys[3], part, fresh_key, key_unit);
    if (MINE > 4u) {
      add_key(base + 4u, keys[4], part, fresh_key, key_unit);
      add_key(base + 5u, keys[5], part, fresh_key, key_unit);
      add_key(base + 6u, keys[6], part, fresh_key, key_unit);
      add_key(base + 7u, keys[7], part, fresh_key, key_unit);
    }
    if (MINE > 8u) {
      add_key(base + 8u, keys[8], part, fresh_key, key_unit);
      add_key(base + 9u, keys[9], part, fresh_key, key_unit);
      add_key(base + 10u, keys[10], part, fresh_key, key_unit);
      add_key(base + 11u, keys[11], part, fresh_key, key_unit);
      add_key(base + 12u, keys[12], part, fresh_key, key_unit);
      add_key(base + 13u, keys[13], part, fresh_key, key_unit);
      add_key(base + 14u, keys[14], part, fresh_key, key_unit);
      add_key(base + 15u, keys[15], part, fresh_key, key_unit);
    }
  }
  for (var h = 0u; h < HEADS; h++) {
    shared_vectors[2u * part * APART + h * 64u + key] = bitcast<vec4<u32>>(lanes[2u * h]);
    shared_vectors[(2u * part + 1u) * APART + h * 64u + key] = bitcast<vec4<u32>>(lanes[2u * h + 1u]);
  }
  workgroupBarrier();
  // From here on a thread has one key of one head, and then pairs of values.
  let position = block * 64u + local % 64u;
  let visible = position >= begin && position <= last;
  let mine = local / 64u;
  var score = LOWEST;
  if (mine < HEADS) {
    if (visible) {
      var all: array<vec4<f32>, 8>;
      for (var i = 0u; i < 8u; i++) { all[i] = float4(shared_vectors[i * APART + local]); }
      score = tree(all);
    }
    scores[local] = score;
  }
  workgroupBarrier();
  if (mine < HEADS) {
    var top = vec4<f32>(LOWEST);
    for (var i = 0u; i < 64u; i += 4u) {
      let at = mine * 64u + i;
      top = max(top, vec4<f32>(scores[at], scores[at + 1u], scores[at + 2u], scores[at + 3u]));
    }
    let largest_score = max(max(top.x, top.y), max(top.z, top.w));
    var weight = 0.0;
    if (visible) { weight = exponential(keep(score - largest_score)); }
    weights[local] = weight;
    if (local % 64u == 0u) { highest[mine] = largest_score; }
  }
  for (var item = 0u; item < ITEMS; item++) {
    sums[item] = vec2<f32>();
    totals[item] = 0.0;
  }
  let fresh_at = select(64u, last - block * 64u, is_fresh(last, last) && last / 64u == block);
  // Written out, so that what is held needs no index.
  add_stage(0u, values[0], values[1], values[2], values[3], fresh_at, local);
  if (STAGES > 1u) { add_stage(1u, values[P], values[P + 1u], values[P + 2u], values[P + 3u], fresh_at, local); }
  if (STAGES > 2u) { add_stage(2u, values[2u * P], values[2u * P + 1u], values[2u * P + 2u], values[2u * P + 3u], fresh_at, local); }
  if (STAGES > 3u) { add_stage(3u, values[3u * P], values[3u * P + 1u], values[3u * P + 2u], values[3u * P + 3u], fresh_at, local); }
  for (var stage = 4u; stage < STAGES; stage++) {
    let n = stage * P;
    add_stage(stage, value_at(rows, n, local), value_at(rows, n + 1u, local), value_at(rows, n + 2u, local), value_at(rows, n + 3u, local),
              fresh_at, local);
  }
  let slot = (group.z * params.partials + group.x) * params.heads + head;
  for (var item = 0u; item < ITEMS; item++) {
    let at = item * THREADS + local;
    if (at < HEADS * PAIRS) {
      partial[slot * PAIRS + at] = sums[item];
      if (at % PAIRS == 0u) { tops[slot + at / PAIRS] = vec2<f32>(highest[at / PAIRS], totals[item]); }
    }
  }
}
