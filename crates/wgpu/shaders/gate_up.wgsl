// Gate and up (rule 4), the GELU product and its quantisation (rule 5). The codes of gate and up are kept beside the product for taps.
// Constants: BITS of gate, BITS_UP and those of dot.wgsl.
@group(0) @binding(1) var<storage, read> gate: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> up: array<vec4<u32>>;
// Multipliers of gate, then of up, then the table of GELU.
@group(0) @binding(3) var<storage, read> factors: array<f32>;
@group(0) @binding(4) var<storage, read_write> output: array<u32>;
// Codes of gate and of up, two words for four rows.
@group(0) @binding(5) var<storage, read_write> codes: array<vec2<u32>>;

var<workgroup> gates: array<vec4<i32>, 4u * COLUMNS>;

const MATRICES = 2u;

fn weight(matrix: u32, index: u32) -> vec4<u32> {
  if (matrix == 0u) { return gate[index]; }
  return up[index];
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let first = group.y * COLUMNS;
  hold_first(0u, 0u, BITS, group.x, local);
  hold_first(1u, 1u, BITS_UP, group.x, local);
  take_input(group.x == 0u, local);
  for (var matrix = 0u; matrix < 2u; matrix++) {
    sum_rows(matrix, matrix, select(BITS, BITS_UP, matrix == 1u), group.x, first, local);
    if (matrix == 0u) {
      for (var i = local; i < 4u * COLUMNS; i += THREADS) { gates[i] = parts[(i / 4u) * THREADS + i % 4u]; }
      workgroupBarrier();
    }
  }
  for (var i = local; i < 4u * COLUMNS; i += THREADS) {
    let m = i / 4u;
    let row = group.x * 16u + (i % 4u) * 4u;
    var g = gates[i];
    var u = parts[m * THREADS + i % 4u];
    var product: vec4<f32>;
    for (var j = 0u; j < 4u; j++) {
      g[j] = quantise(keep(int_to_float(g[j]) * factors[row + j]), params.output_scale);
      u[j] = quantise(keep(int_to_float(u[j]) * factors[params.rows + row + j]), params.up_scale);
      product[j] = keep(factors[2u * params.rows + u32(g[j] + 128)] * keep(f32(u[j]) * params.up_scale));
    }
    let at = (first + m) * params.out_stride + row / 4u;
    output[at] = quantise4(product, params.next_scale);
    codes[at] = vec2<u32>(pack(g.x, g.y, g.z, g.w), pack(u.x, u.y, u.z, u.w));
  }
}
