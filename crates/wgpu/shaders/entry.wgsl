// The entry of a stage: a linear's output codes join the residual stream by their norm, then comes the stage's own norm (rules 1 and 6).
//
// A kernel before the stage does it, a workgroup a column (enter.wgsl), or every workgroup of a stage for one column (input_entered.wgsl). Many
// workgroups that read a stream must not write it, so it is read at stream_in and written at stream_out.
// Constants: HIDDEN. Needs: THREADS, joining, norms (the joining linear's, then the stage's), hidden (bits of floats).

const JOIN = 1u;
const NORM = 2u;

var<workgroup> stream: array<f32, HIDDEN>;
var<workgroup> lanes: array<f32, 32>;
var<workgroup> squares: atomic<i32>;

// Brings the stream of a column to workgroup memory; returns the factor of its norm, 0 where it has none.
fn enter(column: u32, writes: bool, local: u32) -> f32 {
  let source = params.stream_in + column * HIDDEN;
  let target_at = params.stream_out + column * HIDDEN;
  if ((params.flags & JOIN) != 0u) {
    if (local == 0u) { atomicStore(&squares, 0); }
    workgroupBarrier();
    var sum = 0;
    for (var i = local; i < HIDDEN / 4u; i += THREADS) {
      let word = joining[column * (HIDDEN / 4u) + i];
      sum += dot4I8Packed(word, word);
    }
    atomicAdd(&squares, sum);
    workgroupBarrier();
    let total = int_to_float(atomicLoad(&squares));
    let scale = params.join_scale;
    let r = reciprocal_root(divide(keep(total * keep(scale * scale)), f32(HIDDEN)));
    for (var i = local; i < HIDDEN / 4u; i += THREADS) {
      let code = codes4(joining[column * (HIDDEN / 4u) + i]);
      for (var j = 0u; j < 4u; j++) {
        let at = 4u * i + j;
        let value = keep(keep(keep(f32(code[j]) * scale) * r) * norms[at]);
        let h = keep(keep(bitcast<f32>(hidden[source + at]) + value) * params.scalar);
        stream[at] = h;
        if (writes) { hidden[target_at + at] = bitcast<u32>(h); }
      }
    }
  } else {
    for (var i = local; i < HIDDEN; i += THREADS) { stream[i] = bitcast<f32>(hidden[source + i]); }
  }
  workgroupBarrier();
  if ((params.flags & NORM) == 0u) { return 0.0; }
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
  return reciprocal_root(divide(tree(all), f32(HIDDEN)));
}

// Four values behind the norm of factor r.
fn normed4(i: u32, r: f32) -> vec4<f32> {
  var x: vec4<f32>;
  for (var j = 0u; j < 4u; j++) {
    let at = 4u * i + j;
    x[j] = stream[at];
    if ((params.flags & NORM) != 0u) { x[j] = keep(keep(x[j] * r) * norms[HIDDEN + at]); }
  }
  return x;
}
