// Rule 8 between blocks, and the quantisation of the result for the output projection: a workgroup a head and column.
// Constants: DIM.
@group(0) @binding(1) var<storage, read> columns: array<Column>;
@group(0) @binding(2) var<storage, read> tops: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> partial: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> attention: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> codes: array<u32>;

@compute @workgroup_size(DIM / 4u)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let column = first.column + group.y;
  let last = columns[column].position;
  var begin = 0u;
  if (params.window != 0u && last + 1u > params.window) { begin = last + 1u - params.window; }
  let blocks = last / 64u - begin / 64u + 1u;
  let slot = group.y * params.partials;
  let head = slot * params.heads + group.x;
  var top = tops[head].x;
  var sum = tops[head].y;
  var a = partial[head * (DIM / 4u) + local];
  for (var b = 1u; b < blocks; b++) {
    let at = head + b * params.heads;
    let other = tops[at];
    let m = max(top, other.x);
    // One of the two differences is 0, whose exponential is 1.
    let e = exponential(keep(min(top, other.x) - m));
    let c = select(1.0, e, top < m);
    let d = select(1.0, e, other.x < m);
    sum = fused(sum, c, keep(other.y * d));
    a = fused4(a, vec4<f32>(c), keep4(partial[at * (DIM / 4u) + local] * d));
    top = m;
  }
  let y = divide4(a, sum);
  attention[column * (params.in_stride / 4u) + group.x * (DIM / 4u) + local] = y;
  codes[column * params.out_stride + group.x * (DIM / 4u) + local] = quantise4(y, params.input_scale);
}
