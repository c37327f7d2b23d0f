// The entry of a stage: a linear's output codes join the residual stream by their norm, then norm and quantisation (rules 1 and 6).
// A workgroup a column; flags say which parts are wanted.
// Constants: HIDDEN.
@group(0) @binding(1) var<storage, read> joining: array<u32>;
@group(0) @binding(2) var<storage, read> join_norm: array<f32>;
@group(0) @binding(3) var<storage, read_write> hidden: array<f32>;
@group(0) @binding(4) var<storage, read> norm: array<f32>;
@group(0) @binding(5) var<storage, read_write> codes: array<u32>;
@group(0) @binding(6) var<storage, read_write> floats: array<f32>;

const JOIN = 1u;
const NORM = 2u;
const CODES = 4u;
const FLOATS = 8u;
const THREADS = 256u;

var<workgroup> stream: array<f32, HIDDEN>;
var<workgroup> lanes: array<f32, 32>;
var<workgroup> squares: atomic<i32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let column = group.y;
  let base = column * HIDDEN;
  if ((params.flags & JOIN) != 0u) {
    if (local == 0u) { atomicStore(&squares, 0); }
    workgroupBarrier();
    var sum = 0;
    for (var i = local; i < HIDDEN / 4u; i += THREADS) {
      let word = joining[column * params.in_stride + i];
      sum += dot4I8Packed(word, word);
    }
    atomicAdd(&squares, sum);
    workgroupBarrier();
    let total = int_to_float(atomicLoad(&squares));
    let scale = params.output_scale;
    let r = reciprocal_root(divide(keep(total * keep(scale * scale)), f32(HIDDEN)));
    for (var i = local; i < HIDDEN / 4u; i += THREADS) {
      let code = codes4(joining[column * params.in_stride + i]);
      for (var j = 0u; j < 4u; j++) {
        let at = 4u * i + j;
        let value = keep(keep(keep(f32(code[j]) * scale) * r) * join_norm[at]);
        let h = keep(keep(hidden[base + at] + value) * params.scalar);
        stream[at] = h;
        hidden[base + at] = h;
      }
    }
  } else {
    for (var i = local; i < HIDDEN; i += THREADS) { stream[i] = hidden[base + i]; }
  }
  workgroupBarrier();
  var r = 0.0;
  let with_norm = (params.flags & NORM) != 0u;
  if (with_norm) {
    if (local < 32u) {
      var lane = 0.0;
      for (var i = local; i < HIDDEN; i += 32u) {
        let x = stream[i];
        lane = fused(x, x, lane);
      }
      lanes[local] = lane;
    }
    workgroupBarrier();
    var all: array<vec4<f32>, 8>;
    for (var i = 0u; i < 8u; i++) { all[i] = vec4<f32>(lanes[4u * i], lanes[4u * i + 1u], lanes[4u * i + 2u], lanes[4u * i + 3u]); }
    r = reciprocal_root(divide(tree(all), f32(HIDDEN)));
  }
  for (var i = local; i < HIDDEN / 4u; i += THREADS) {
    var x: vec4<f32>;
    for (var j = 0u; j < 4u; j++) {
      let at = 4u * i + j;
      x[j] = stream[at];
      if (with_norm) { x[j] = keep(keep(x[j] * r) * norm[at]); }
      if ((params.flags & FLOATS) != 0u) { floats[base + at] = x[j]; }
    }
    if ((params.flags & CODES) != 0u) { codes[column * params.out_stride + i] = quantise4(x, params.input_scale); }
  }
}
