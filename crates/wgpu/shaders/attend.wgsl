// Rule 8 within one block of 64 keys: a workgroup a block, HEADS query heads of one KV head, and a column. A thread has one key of one head,
// with the 32 lanes of its sum in registers; then threads share the values' pairs.
// Keys that are not visible get p = 0, which adds nothing to a sum that starts at +0.
// Constants: FORMAT, HEADS, DIM. Needs: one of the queries_*.wgsl.
@group(0) @binding(1) var<storage, read> columns: array<Column>;
// Largest score and sum of a block and head.
@group(0) @binding(2) var<storage, read_write> tops: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> partial: array<vec2<f32>>;

const THREADS = 64u * HEADS;

var<workgroup> q: array<vec4<f32>, HEADS * DIM / 4u>;
var<workgroup> scores: array<f32, THREADS>;
var<workgroup> weights: array<f32, THREADS>;
// With i8, each key's and value's unit.
var<workgroup> units: array<f32, 64>;

fn float4(w: vec4<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(w); }

fn word_at(index: u32) -> u32 { return kv[index / 4u][index % 4u]; }

// The vector of 4 words `i` of the key row `row`.
fn key4(made_here: bool, row: u32, i: u32) -> vec4<u32> {
  if (made_here) { return vec4<u32>(fresh_word(0u, 4u * i), fresh_word(0u, 4u * i + 1u), fresh_word(0u, 4u * i + 2u), fresh_word(0u, 4u * i + 3u)); }
  return kv[row * ((DIM >> FORMAT) / 4u) + i];
}

// The word `i` of the value row `row`.
fn value_word(made_here: bool, row: u32, i: u32) -> u32 {
  if (made_here) { return fresh_word(1u, i); }
  return word_at(params.kv_values + row * (DIM >> FORMAT) + i);
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
  take_queries(column, block, last, head, group.x, local);
  let key = local % 64u;
  let mine = local / 64u;
  let position = block * 64u + key;
  let visible = position >= begin && position <= last;
  let fresh_key = is_fresh(position, last);
  // Slots are a multiple of 64, so a block is not torn.
  let rows = kv_head * params.slots + slot_of(block * 64u);
  var lanes: array<vec4<f32>, 8>;
  for (var i = 0u; i < 8u; i++) { lanes[i] = vec4<f32>(); }
  let row = rows + key;
  let query_start = mine * (DIM / 4u);
  var score = 0.0;
  if (visible) {
    if (FORMAT == 0u) {
      for (var d = 0u; d < DIM / 32u; d++) {
        for (var i = 0u; i < 8u; i++) {
          lanes[i] = fused4(q[query_start + d * 8u + i], float4(key4(fresh_key, row, d * 8u + i)), lanes[i]);
        }
      }
    } else if (FORMAT == 1u) {
      for (var d = 0u; d < DIM / 32u; d++) {
        for (var i = 0u; i < 4u; i++) {
          let w = key4(fresh_key, row, d * 4u + i);
          let at = query_start + d * 8u + 2u * i;
          lanes[2u * i] = fused4(q[at], vec4<f32>(halves(w.x), halves(w.y)), lanes[2u * i]);
          lanes[2u * i + 1u] = fused4(q[at + 1u], vec4<f32>(halves(w.z), halves(w.w)), lanes[2u * i + 1u]);
        }
      }
    } else {
      var unit = bitcast<f32>(word_at(params.kv_key_scales + row));
      if (fresh_key) { unit = bitcast<f32>(fresh_word(0u, DIM / 4u)); }
      for (var d = 0u; d < DIM / 32u; d++) {
        for (var i = 0u; i < 2u; i++) {
          let w = key4(fresh_key, row, d * 2u + i);
          for (var j = 0u; j < 4u; j++) {
            let x = keep4(vec4<f32>(codes4(w[j])) * unit);
            lanes[4u * i + j] = fused4(q[query_start + d * 8u + 4u * i + j], x, lanes[4u * i + j]);
          }
        }
      }
    }
    score = tree(lanes);
  }
  scores[local] = score;
  if (FORMAT == 2u && mine == 0u) {
    units[key] = bitcast<f32>(word_at(params.kv_value_scales + row));
    if (fresh_key) { units[key] = bitcast<f32>(fresh_word(1u, DIM / 4u)); }
  }
  workgroupBarrier();
  let begin_at = max(begin, block * 64u) - block * 64u;
  let to = min(last - block * 64u, 63u);
  var top = scores[mine * 64u + begin_at];
  for (var i = begin_at + 1u; i <= to; i++) { top = max(top, scores[mine * 64u + i]); }
  var weight = 0.0;
  if (visible) { weight = exponential(keep(score - top)); }
  weights[local] = weight;
  workgroupBarrier();
  let slot = group.z * params.partials + group.x;
  if (key == 0u) {
    var sum = 0.0;
    for (var i = 0u; i < 64u; i++) { sum = added(sum + weights[mine * 64u + i]); }
    tops[slot * params.heads + head + mine] = vec2<f32>(top, sum);
  }
  for (var item = local; item < HEADS * DIM / 2u; item += THREADS) {
    let pair = item % (DIM / 2u);
    let which = item / (DIM / 2u);
    var a = 0.0;
    var b = 0.0;
    // Eight loads are under way before the first is used.
    for (var start = 0u; start < 64u; start += 8u) {
      var w: array<vec2<u32>, 8>;
      for (var i = 0u; i < 8u; i++) {
        let value = rows + start + i;
        let fresh_value = is_fresh(block * 64u + start + i, last);
        if (FORMAT == 0u) {
          w[i] = vec2<u32>(value_word(fresh_value, value, 2u * pair), value_word(fresh_value, value, 2u * pair + 1u));
        } else if (FORMAT == 1u) {
          w[i].x = value_word(fresh_value, value, pair);
        } else {
          w[i].x = value_word(fresh_value, value, pair / 2u);
        }
      }
      for (var i = 0u; i < 8u; i++) {
        var x: vec2<f32>;
        if (FORMAT == 0u) {
          x = bitcast<vec2<f32>>(w[i]);
        } else if (FORMAT == 1u) {
          x = halves(w[i].x);
        } else {
          let code = codes4(select(w[i].x, w[i].x >> 16u, pair % 2u == 1u));
          x = vec2<f32>(keep(f32(code.x) * units[start + i]), keep(f32(code.y) * units[start + i]));
        }
        let p = weights[which * 64u + start + i];
        a = fused(p, x.x, a);
        b = fused(p, x.y, b);
      }
    }
    partial[(slot * params.heads + head + which) * (DIM / 2u) + pair] = vec2<f32>(a, b);
  }
}
