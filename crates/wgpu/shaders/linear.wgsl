// A quantised linear: output codes of input codes (rules 2 and 3).
// Constants: BITS, SLICES, COLUMNS.
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> multipliers: array<f32>;
@group(0) @binding(3) var<storage, read> input: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<u32>;

var<workgroup> parts: array<vec4<i32>, THREADS * COLUMNS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let quad = local % 4u;
  let slice = local / 4u;
  let first = group.y * COLUMNS;
  let planes = 8u / BITS;
  let step = tile_vectors(BITS) * 4u;
  let groups = params.inputs * BITS / 32u;
  let start = tile_start(BITS, group.x, quad);
  var sums: array<vec4<i32>, COLUMNS>;
  var ones: array<i32, COLUMNS>;
  for (var m = 0u; m < COLUMNS; m++) {
    sums[m] = vec4<i32>();
    ones[m] = 0;
  }
  for (var g = slice; g < groups; g += SLICES) {
    let w = codes[start + g * step];
    for (var p = 0u; p < planes; p++) {
      let v = plane(w, BITS, p);
      for (var m = 0u; m < COLUMNS; m++) {
        let x = input[(first + m) * params.in_stride + g * planes + p];
        sums[m] += dots(v, x);
        if (BITS != 8u) { ones[m] += dot4I8Packed(ONES, x); }
      }
    }
  }
  for (var m = 0u; m < COLUMNS; m++) {
    var sum = sums[m];
    if (BITS != 8u) { sum -= vec4<i32>(ones[m] << (BITS - 1u)); }
    parts[m * THREADS + local] = sum;
  }
  reduce(local);
  for (var i = local; i < 4u * COLUMNS; i += THREADS) {
    let m = i / 4u;
    let sum = parts[m * THREADS + i % 4u];
    let row = params.first_row + group.x * 16u + (i % 4u) * 4u;
    var y: vec4<f32>;
    for (var j = 0u; j < 4u; j++) { y[j] = keep(int_to_float(sum[j]) * multipliers[row + j]); }
    output[(first + m) * params.out_stride + row / 4u] = quantise4(y, params.output_scale);
  }
}
