// Rule 10: bf16 rows times floats, every row a sum of 32 lanes, for COLUMNS columns at once.
// Four threads share a row, each has eight lanes: a load of 16 bytes is one step of them.
// Constants: COLUMNS; EARLY, with which eight steps are under way at once.
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> output: array<f32>;

var<workgroup> lanes: array<vec4<f32>, 128>;

fn upper(w: vec4<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(w & vec4<u32>(0xffff0000u)); }
fn lower(w: vec4<u32>) -> vec4<f32> { return bitcast<vec4<f32>>(w << vec4<u32>(16u)); }

// The weights of eight steps, or of the last one. Written out, because loads in a loop may wait for each other.
fn eight(at: u32, steps: u32) -> array<vec4<u32>, 8> {
  let end = at + (steps - 1u) * 4u;
  return array<vec4<u32>, 8>(
    weights[at], weights[min(at + 4u, end)], weights[min(at + 8u, end)], weights[min(at + 12u, end)],
    weights[min(at + 16u, end)], weights[min(at + 20u, end)], weights[min(at + 24u, end)], weights[min(at + 28u, end)]);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let row = group.x * 16u + local / 4u;
  let part = local % 4u;
  let first = group.y * COLUMNS;
  let steps = params.inputs / 32u;
  var a: array<vec4<f32>, COLUMNS>;
  var b: array<vec4<f32>, COLUMNS>;
  for (var m = 0u; m < COLUMNS; m++) {
    a[m] = vec4<f32>();
    b[m] = vec4<f32>();
  }
  var held: array<vec4<u32>, 8>;
  let begin_at = row * steps * 4u + part;
  for (var step = 0u; step < steps; step++) {
    if (EARLY == 1u && step % 8u == 0u) { held = eight(begin_at + step * 4u, steps - step); }
    var w: vec4<u32>;
    if (EARLY == 1u) { w = held[step % 8u]; } else { w = weights[begin_at + step * 4u]; }
    let high = upper(w);
    let low = lower(w);
    let w0 = vec4<f32>(low.x, high.x, low.y, high.y);
    let w1 = vec4<f32>(low.z, high.z, low.w, high.w);
    for (var m = 0u; m < COLUMNS; m++) {
      let at = (first + m) * (params.inputs / 4u) + step * 8u + part * 2u;
      a[m] = fused4(w0, input[at], a[m]);
      b[m] = fused4(w1, input[at + 1u], b[m]);
    }
  }
  for (var m = 0u; m < COLUMNS; m++) {
    workgroupBarrier();
    lanes[local * 2u] = a[m];
    lanes[local * 2u + 1u] = b[m];
    workgroupBarrier();
    if (part == 0u) {
      var all: array<vec4<f32>, 8>;
      for (var i = 0u; i < 8u; i++) { all[i] = lanes[local * 2u + i]; }
      output[(first + m) * params.out_stride + row] = keep(tree(all) * params.factor);
    }
  }
}
