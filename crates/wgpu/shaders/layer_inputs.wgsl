// Rule 11: the per-layer inputs, (norm(projection) + table row) * factor; a workgroup a layer and column. `rows` hold the table's
// values and become the result.
// Constants: WIDTH, the values of a layer.
@group(0) @binding(1) var<storage, read> projection: array<f32>;
@group(0) @binding(2) var<storage, read> norm: array<f32>;
@group(0) @binding(3) var<storage, read_write> rows: array<f32>;

var<workgroup> lanes: array<f32, 32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let base = group.y * params.in_stride + group.x * WIDTH;
  if (local < 32u) {
    var lane = 0.0;
    for (var i = local; i < WIDTH; i += 32u) {
      let x = projection[base + i];
      lane = fused(x, x, lane);
    }
    lanes[local] = lane;
  }
  workgroupBarrier();
  var all: array<vec4<f32>, 8>;
  for (var i = 0u; i < 8u; i++) { all[i] = vec4<f32>(lanes[4u * i], lanes[4u * i + 1u], lanes[4u * i + 2u], lanes[4u * i + 3u]); }
  let r = reciprocal_root(divide(tree(all), f32(WIDTH)));
  for (var i = local; i < WIDTH; i += 64u) {
    let normed = keep(keep(projection[base + i] * r) * norm[i]);
    rows[base + i] = keep(keep(normed + rows[base + i]) * params.factor);
  }
}
