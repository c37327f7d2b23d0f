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

// The table of GELU, where it is read before it is needed.
var<workgroup> table: array<f32, 256>;

// Four values of what is beside the table.
fn factors_of(at: u32) -> vec4<f32> { return vec4<f32>(factors[at], factors[at + 1u], factors[at + 2u], factors[at + 3u]); }

fn gelu(at: u32, code: i32) -> f32 {
  if (EARLY == 1u) { return table[u32(code + 128)]; }
  return factors[at + u32(code + 128)];
}

fn weight(matrix: u32, index: u32) -> vec4<u32> {
  if (matrix == 0u) { return gate[index]; }
  return up[index];
}

fn keep_gates(local: u32) {
  for (var i = local; i < 4u * COLUMNS; i += THREADS) { gates[i] = parts[(i / 4u) * THREADS + i % 4u]; }
  workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let first = group.y * COLUMNS;
  hold_first(0u, 0u, BITS, group.x, local);
  hold_first(1u, 1u, BITS_UP, group.x, local);
  var of_gate: vec4<f32>;
  var of_up: vec4<f32>;
  var value = 0.0;
  if (EARLY == 1u) {
    if (local < 256u) { value = factors[2u * params.rows + local]; }
    if (local < 4u) {
      of_gate = factors_of(group.x * 16u + local * 4u);
      of_up = factors_of(params.rows + group.x * 16u + local * 4u);
    }
  }
  take_input(group.x == 0u, local);
  if (EARLY == 1u && local < 256u) { table[local] = value; }
  if (EARLY == 1u) {
    // Written out, so that what is held has places that are constants.
    sum_rows(0u, 0u, BITS, group.x, first, local);
    keep_gates(local);
    sum_rows(1u, 1u, BITS_UP, group.x, first, local);
  } else {
    for (var matrix = 0u; matrix < 2u; matrix++) {
      sum_rows(matrix, 0u, select(BITS, BITS_UP, matrix == 1u), group.x, first, local);
      if (matrix == 0u) { keep_gates(local); }
    }
  }
  for (var i = local; i < 4u * COLUMNS; i += THREADS) {
    let m = i / 4u;
    let row = group.x * 16u + (i % 4u) * 4u;
    var g = gates[i];
    var u = parts[m * THREADS + i % 4u];
    if (EARLY == 0u) {
      of_gate = factors_of(row);
      of_up = factors_of(params.rows + row);
    }
    var product: vec4<f32>;
    for (var j = 0u; j < 4u; j++) {
      g[j] = quantise(keep(int_to_float(g[j]) * of_gate[j]), params.output_scale);
      u[j] = quantise(keep(int_to_float(u[j]) * of_up[j]), params.up_scale);
      product[j] = keep(gelu(2u * params.rows, g[j]) * keep(f32(u[j]) * params.up_scale));
    }
    let at = (first + m) * params.out_stride + row / 4u;
    output[at] = quantise4(product, params.next_scale);
    codes[at] = vec2<u32>(pack(g.x, g.y, g.z, g.w), pack(u.x, u.y, u.z, u.w));
  }
}
