// The gate of the per-layer embeddings and its product with the layer's input, quantised (rule 5).
// Constants: BITS and those of dot.wgsl.
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;
// Multipliers, then the table of GELU.
@group(0) @binding(2) var<storage, read> factors: array<f32>;
@group(0) @binding(3) var<storage, read> layer_inputs: array<f32>;
@group(0) @binding(4) var<storage, read_write> output: array<u32>;
// Codes of the gate, for taps.
@group(0) @binding(5) var<storage, read_write> gate_codes: array<u32>;

const MATRICES = 1u;

// The table of GELU, where it is read before it is needed.
var<workgroup> table: array<f32, 256>;

// Four values of what is beside the table.
fn factors_of(at: u32) -> vec4<f32> { return vec4<f32>(factors[at], factors[at + 1u], factors[at + 2u], factors[at + 3u]); }

fn inputs_of(at: u32) -> vec4<f32> {
  return vec4<f32>(layer_inputs[at], layer_inputs[at + 1u], layer_inputs[at + 2u], layer_inputs[at + 3u]);
}

fn gelu(at: u32, code: i32) -> f32 {
  if (EARLY == 1u) { return table[u32(code + 128)]; }
  return factors[at + u32(code + 128)];
}

fn weight(matrix: u32, index: u32) -> vec4<u32> { return codes[index]; }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let first = group.y * COLUMNS;
  hold_first(0u, 0u, BITS, group.x, local);
  var factor: vec4<f32>;
  var layer_input: vec4<f32>;
  var value = 0.0;
  if (EARLY == 1u) {
    if (local < 256u) { value = factors[params.rows + local]; }
    if (local < 4u) {
      factor = factors_of(group.x * 16u + local * 4u);
      layer_input = inputs_of(params.other_offset + group.x * 16u + local * 4u);
    }
  }
  take_input(group.x == 0u, local);
  if (EARLY == 1u && local < 256u) { table[local] = value; }
  sum_rows(0u, 0u, BITS, group.x, first, local);
  for (var i = local; i < 4u * COLUMNS; i += THREADS) {
    let m = i / 4u;
    var g = parts[m * THREADS + i % 4u];
    let row = group.x * 16u + (i % 4u) * 4u;
    if (EARLY == 0u) {
      factor = factors_of(row);
      layer_input = inputs_of((first + m) * params.other_stride + params.other_offset + row);
    }
    var product: vec4<f32>;
    for (var j = 0u; j < 4u; j++) {
      g[j] = quantise(keep(int_to_float(g[j]) * factor[j]), params.output_scale);
      product[j] = keep(gelu(params.rows, g[j]) * layer_input[j]);
    }
    let at = (first + m) * params.out_stride + row / 4u;
    output[at] = quantise4(product, params.next_scale);
    gate_codes[at] = pack(g.x, g.y, g.z, g.w);
  }
}
