// A quantised linear: output codes of input codes (rules 2 and 3).
// Constants: BITS and those of dot.wgsl.
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> multipliers: array<f32>;
@group(0) @binding(3) var<storage, read_write> output: array<u32>;

const MATRICES = 1u;

// Multipliers of four rows.
fn factors_of(row: u32) -> vec4<f32> {
  return vec4<f32>(multipliers[row], multipliers[row + 1u], multipliers[row + 2u], multipliers[row + 3u]);
}

fn weight(matrix: u32, index: u32) -> vec4<u32> { return codes[index]; }

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let first = group.y * COLUMNS;
  hold_first(0u, 0u, BITS, group.x, local);
  var factor: vec4<f32>;
  if (EARLY == 1u && local < 4u) { factor = factors_of(params.first_row + group.x * 16u + local * 4u); }
  take_input(group.x == 0u, local);
  sum_rows(0u, 0u, BITS, group.x, first, local);
  for (var i = local; i < 4u * COLUMNS; i += THREADS) {
    let m = i / 4u;
    let sum = parts[m * THREADS + i % 4u];
    let row = params.first_row + group.x * 16u + (i % 4u) * 4u;
    if (EARLY == 0u) { factor = factors_of(row); }
    var y: vec4<f32>;
    for (var j = 0u; j < 4u; j++) { y[j] = keep(int_to_float(sum[j]) * factor[j]); }
    output[(first + m) * params.out_stride + params.other_offset + row / 4u] = quantise4(y, params.output_scale);
  }
}
