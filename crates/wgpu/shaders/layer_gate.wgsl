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

fn weight(matrix: u32, index: u32) -> vec4<u32> { return codes[index]; }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let first = group.y * COLUMNS;
  hold_first(0u, 0u, BITS, group.x, local);
  take_input(group.x == 0u, local);
  sum_rows(0u, 0u, BITS, group.x, first, local);
  for (var i = local; i < 4u * COLUMNS; i += THREADS) {
    let m = i / 4u;
    var g = parts[m * THREADS + i % 4u];
    let row = group.x * 16u + (i % 4u) * 4u;
    var product: vec4<f32>;
    for (var j = 0u; j < 4u; j++) {
      g[j] = quantise(keep(int_to_float(g[j]) * factors[row + j]), params.output_scale);
      let input = layer_inputs[(first + m) * params.other_stride + params.other_offset + row + j];
      product[j] = keep(factors[params.rows + u32(g[j] + 128)] * input);
    }
    let at = (first + m) * params.out_stride + row / 4u;
    output[at] = quantise4(product, params.next_scale);
    gate_codes[at] = pack(g.x, g.y, g.z, g.w);
  }
}
