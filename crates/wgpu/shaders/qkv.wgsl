// q, k and v of a layer in one dispatch: three matrices of the same code width with the same input (rule 4).
// `rows` are those of q, `count` those of k; k's output stands `other_stride` words behind q's, v's `other_offset` words behind k's.
// Constants: BITS and those of dot.wgsl.
@group(0) @binding(1) var<storage, read> q: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<u32>>;
// Of q, then of k, then of v.
@group(0) @binding(4) var<storage, read> multipliers: array<f32>;
@group(0) @binding(5) var<storage, read_write> output: array<u32>;

const MATRICES = 1u;

// Multipliers of four rows.
fn factors_of(row: u32) -> vec4<f32> {
  return vec4<f32>(multipliers[row], multipliers[row + 1u], multipliers[row + 2u], multipliers[row + 3u]);
}

fn weight(matrix: u32, index: u32) -> vec4<u32> {
  if (matrix == 0u) { return q[index]; }
  if (matrix == 1u) { return k[index]; }
  return v[index];
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let first = group.y * COLUMNS;
  let start = group.x * 16u;
  var matrix = 0u;
  var before = 0u;
  var place = 0u;
  var scale = params.output_scale;
  if (start >= params.rows) {
    matrix = 1u;
    before = params.rows;
    place = params.other_stride;
    scale = params.up_scale;
  }
  if (start >= params.rows + params.count) {
    matrix = 2u;
    before += params.count;
    place += params.other_offset;
    scale = params.next_scale;
  }
  let block = (start - before) / 16u;
  hold_first(matrix, 0u, BITS, block, local);
  var factor: vec4<f32>;
  if (EARLY == 1u && local < 4u) { factor = factors_of(start + local * 4u); }
  take_input(group.x == 0u, local);
  sum_rows(matrix, 0u, BITS, block, first, local);
  for (var i = local; i < 4u * COLUMNS; i += THREADS) {
    let m = i / 4u;
    let sum = parts[m * THREADS + i % 4u];
    let row = start + (i % 4u) * 4u;
    if (EARLY == 0u) { factor = factors_of(row); }
    var y: vec4<f32>;
    for (var j = 0u; j < 4u; j++) { y[j] = keep(int_to_float(sum[j]) * factor[j]); }
    output[(first + m) * params.out_stride + place + (row - before) / 4u] = quantise4(y, scale);
  }
}
