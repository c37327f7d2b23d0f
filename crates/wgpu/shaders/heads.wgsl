// Head norms, rope and the storing of K/V (rules 6, 7, 12); a workgroup a head: queries, then keys, then values.
// Constants: FORMAT of K/V (0 f32, 1 f16, 2 i8).
@group(0) @binding(1) var<storage, read> columns: array<Column>;
@group(0) @binding(2) var<storage, read> q: array<u32>;
@group(0) @binding(3) var<storage, read> k: array<u32>;
@group(0) @binding(4) var<storage, read> v: array<u32>;
// Of q, then of k.
@group(0) @binding(5) var<storage, read> norms: array<f32>;
// Cosines and sines, a row a position.
@group(0) @binding(6) var<storage, read> turns: array<f32>;
@group(0) @binding(7) var<storage, read_write> query: array<f32>;
@group(1) @binding(1) var<storage, read_write> kv: array<u32>;

const THREADS = 64u;

var<workgroup> values: array<f32, 512>;
var<workgroup> squares: atomic<i32>;
var<workgroup> largest: atomic<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let column = first.column + group.y;
  let position = columns[column].position;
  let dim = params.head_dim;
  let is_query = group.x < params.heads;
  let is_value = group.x >= params.heads + params.kv_heads;
  var head = group.x;
  var scale = params.output_scale;
  if (!is_query) {
    head -= params.heads;
    scale = params.up_scale;
  }
  if (is_value) {
    head -= params.kv_heads;
    scale = params.next_scale;
  }
  if (local == 0u) {
    atomicStore(&squares, 0);
    atomicStore(&largest, 0u);
  }
  workgroupBarrier();
  var sum = 0;
  for (var i = local; i < dim / 4u; i += THREADS) {
    var word: u32;
    if (is_query) { word = q[column * params.in_stride + head * (dim / 4u) + i]; }
    else if (is_value) { word = v[column * params.other_stride + head * (dim / 4u) + i]; }
    else { word = k[column * params.other_stride + head * (dim / 4u) + i]; }
    sum += dot4I8Packed(word, word);
    let code = codes4(word);
    for (var j = 0u; j < 4u; j++) { values[4u * i + j] = f32(code[j]); }
  }
  atomicAdd(&squares, sum);
  workgroupBarrier();
  let total = int_to_float(atomicLoad(&squares));
  let r = reciprocal_root(divide(keep(total * keep(scale * scale)), f32(dim)));
  for (var i = local; i < dim; i += THREADS) {
    var y = keep(keep(values[i] * scale) * r);
    if (!is_value) { y = keep(y * norms[select(dim, 0u, is_query) + i]); }
    values[i] = y;
  }
  workgroupBarrier();
  if (!is_value) {
    let half = dim / 2u;
    let row = position * 2u * params.pairs;
    for (var i = local; i < params.pairs; i += THREADS) {
      let c = turns[row + i];
      let s = turns[row + params.pairs + i];
      let a = values[i];
      let b = values[i + half];
      values[i] = keep(keep(c * a) - keep(s * b));
      values[i + half] = keep(keep(s * a) + keep(c * b));
    }
    workgroupBarrier();
  }
  if (is_query) {
    for (var i = local; i < dim; i += THREADS) { query[column * params.out_stride + head * dim + i] = values[i]; }
    return;
  }
  let row = head * params.slots + slot_of(position);
  let start = select(0u, params.kv_values, is_value);
  if (FORMAT == 0u) {
    for (var i = local; i < dim; i += THREADS) { kv[start + row * dim + i] = bitcast<u32>(values[i]); }
  } else if (FORMAT == 1u) {
    for (var i = local; i < dim / 2u; i += THREADS) {
      kv[start + row * (dim / 2u) + i] = to_half(values[2u * i]) | (to_half(values[2u * i + 1u]) << 16u);
    }
  } else {
    var top = 0u;
    for (var i = local; i < dim; i += THREADS) { top = max(top, bitcast<u32>(values[i]) & 0x7fffffffu); }
    atomicMax(&largest, top);
    workgroupBarrier();
    let unit = divide(bitcast<f32>(atomicLoad(&largest)), 127.0);
    for (var i = local; i < dim / 4u; i += THREADS) {
      let x = vec4<f32>(values[4u * i], values[4u * i + 1u], values[4u * i + 2u], values[4u * i + 3u]);
      var word = 0u;
      if (unit != 0.0) { word = quantise4(x, unit); }
      kv[start + row * (dim / 4u) + i] = word;
    }
    if (local == 0u) { kv[select(params.kv_key_scales, params.kv_value_scales, is_value) + row] = bitcast<u32>(unit); }
  }
}
