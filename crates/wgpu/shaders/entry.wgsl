// The entry of a stage: a linear's output codes join the residual stream by their norm, then comes the stage's own norm (rules 1 and 6).
//
// A kernel before the stage does it, a workgroup a column (enter.wgsl), or every workgroup of a stage for one column (input_entered.wgsl). Many
// workgroups that read a stream must not write it, so it is read at stream_in and written at stream_out. Where EARLY_ENTRY is 1 all that it reads is
// under way at once.
// Constants: HIDDEN, EARLY_ENTRY. Needs: THREADS, joining, norms (the joining linear's, then the stage's), hidden (bits of floats).

const JOIN = 1u;
const NORM = 2u;
// Vectors of four values, and those of a thread.
const VECTORS = HIDDEN / 4u;
const COUNT = (VECTORS + THREADS - 1u) / THREADS;

var<workgroup> stream: array<vec4<f32>, VECTORS>;
var<workgroup> lanes: array<f32, 32>;
var<workgroup> squares: array<i32, THREADS>;
var<private> own_norms: array<vec4<f32>, COUNT>;

// Brings the stream of a column to workgroup memory; returns the factor of its norm, 0 where it has none.
fn enter(column: u32, writes: bool, local: u32) -> f32 {
  let source = params.stream_in / 4u + column * VECTORS;
  let target_at = params.stream_out / 4u + column * VECTORS;
  let joins = (params.flags & JOIN) != 0u;
  let norm = (params.flags & NORM) != 0u;
  var codes_in: array<u32, COUNT>;
  var before: array<vec4<u32>, COUNT>;
  var joining_norms: array<vec4<f32>, COUNT>;
  for (var n = 0u; n < COUNT; n++) {
    let i = min(local + n * THREADS, VECTORS - 1u);
    if (joins) { codes_in[n] = joining[column * VECTORS + i]; }
    if (EARLY_ENTRY == 1u) {
      before[n] = hidden[source + i];
      if (joins) { joining_norms[n] = norms[i]; }
      if (norm) { own_norms[n] = norms[VECTORS + i]; }
    }
  }
  if (joins) {
    var sum = 0;
    for (var n = 0u; n < COUNT; n++) {
      if (local + n * THREADS < VECTORS) { sum += dot4I8Packed(codes_in[n], codes_in[n]); }
    }
    squares[local] = sum;
    workgroupBarrier();
    if (local < 16u) {
      for (var i = 16u; i < THREADS; i += 16u) { sum += squares[local + i]; }
      squares[local] = sum;
    }
    workgroupBarrier();
    sum = 0;
    for (var i = 0u; i < 16u; i++) { sum += squares[i]; }
    let total = int_to_float(sum);
    let scale = params.join_scale;
    let r = reciprocal_root(divide(keep(total * keep(scale * scale)), f32(HIDDEN)));
    for (var n = 0u; n < COUNT; n++) {
      let i = local + n * THREADS;
      if (i < VECTORS) {
        if (EARLY_ENTRY == 0u) {
          before[n] = hidden[source + i];
          joining_norms[n] = norms[i];
        }
        let value = keep4(keep4(keep4(vec4<f32>(codes4(codes_in[n])) * scale) * r) * joining_norms[n]);
        let h = keep4(keep4(bitcast<vec4<f32>>(before[n]) + value) * params.scalar);
        stream[i] = h;
        if (writes) { hidden[target_at + i] = bitcast<vec4<u32>>(h); }
      }
    }
  } else {
    for (var n = 0u; n < COUNT; n++) {
      let i = local + n * THREADS;
      if (i < VECTORS) {
        if (EARLY_ENTRY == 0u) { before[n] = hidden[source + i]; }
        stream[i] = bitcast<vec4<f32>>(before[n]);
      }
    }
  }
  workgroupBarrier();
  if (!norm) { return 0.0; }
  if (local < 32u) {
    var lane = 0.0;
    if (EARLY_ENTRY == 1u && HIDDEN % 256u == 0u) {
      for (var i = local; i < HIDDEN; i += 256u) {
        let x = array<f32, 8>(stream_at(i), stream_at(i + 32u), stream_at(i + 64u), stream_at(i + 96u),
                              stream_at(i + 128u), stream_at(i + 160u), stream_at(i + 192u), stream_at(i + 224u));
        var eight = x;
        for (var j = 0u; j < 8u; j++) { lane = fused(eight[j], eight[j], lane); }
      }
    } else {
      for (var i = local; i < HIDDEN; i += 32u) {
        let x = stream_at(i);
        lane = fused(x, x, lane);
      }
    }
    lanes[local] = lane;
  }
  workgroupBarrier();
  var all: array<vec4<f32>, 8>;
  for (var i = 0u; i < 8u; i++) { all[i] = vec4<f32>(lanes[4u * i], lanes[4u * i + 1u], lanes[4u * i + 2u], lanes[4u * i + 3u]); }
  return reciprocal_root(divide(tree(all), f32(HIDDEN)));
}

fn stream_at(i: u32) -> f32 { return stream[i / 4u][i % 4u]; }

// Four values behind the norm of factor r: the thread's vector `n`.
fn normed4(local: u32, n: u32, r: f32) -> vec4<f32> {
  let i = local + n * THREADS;
  let x = stream[i];
  if ((params.flags & NORM) == 0u) { return x; }
  if (EARLY_ENTRY == 0u) { own_norms[n] = norms[VECTORS + i]; }
  return keep4(keep4(x * r) * own_norms[n]);
}
