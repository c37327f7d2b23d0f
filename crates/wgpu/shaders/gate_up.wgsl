// Gate and up (rule 4), the GELU product and its quantisation (rule 5). The codes of gate and up are kept beside the product for taps.
// Constants: BITS of gate, BITS_UP, SLICES, COLUMNS.
@group(0) @binding(1) var<storage, read> gate: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> up: array<vec4<u32>>;
// Of gate, then of up.
@group(0) @binding(3) var<storage, read> multipliers: array<f32>;
@group(0) @binding(4) var<storage, read> input: array<u32>;
@group(0) @binding(5) var<storage, read> gelu: array<f32>;
@group(0) @binding(6) var<storage, read_write> output: array<u32>;
// Codes of gate and of up, two words for four rows.
@group(0) @binding(7) var<storage, read_write> codes: array<vec2<u32>>;

var<workgroup> parts: array<vec4<i32>, THREADS * COLUMNS>;
var<workgroup> gates: array<vec4<i32>, 4u * COLUMNS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let quad = local % 4u;
  let slice = local / 4u;
  let first = group.y * COLUMNS;
  for (var matrix = 0u; matrix < 2u; matrix++) {
    let bits = select(BITS, BITS_UP, matrix == 1u);
    let planes = 8u / bits;
    let step = tile_vectors(bits) * 4u;
    let groups = params.inputs * bits / 32u;
    let start = tile_start(bits, group.x, quad);
    var sums: array<vec4<i32>, COLUMNS>;
    var ones: array<i32, COLUMNS>;
    for (var m = 0u; m < COLUMNS; m++) {
      sums[m] = vec4<i32>();
      ones[m] = 0;
    }
    for (var g = slice; g < groups; g += SLICES) {
      var w: vec4<u32>;
      if (matrix == 0u) { w = gate[start + g * step]; } else { w = up[start + g * step]; }
      for (var p = 0u; p < planes; p++) {
        let v = plane(w, bits, p);
        for (var m = 0u; m < COLUMNS; m++) {
          let x = input[(first + m) * params.in_stride + g * planes + p];
          sums[m] += dots(v, x);
          if (bits != 8u) { ones[m] += dot4I8Packed(ONES, x); }
        }
      }
    }
    for (var m = 0u; m < COLUMNS; m++) {
      var sum = sums[m];
      if (bits != 8u) { sum -= vec4<i32>(ones[m] << (bits - 1u)); }
      parts[m * THREADS + local] = sum;
    }
    reduce(local);
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
      g[j] = quantise(keep(int_to_float(g[j]) * multipliers[row + j]), params.output_scale);
      u[j] = quantise(keep(int_to_float(u[j]) * multipliers[params.rows + row + j]), params.up_scale);
      product[j] = keep(gelu[g[j] + 128] * keep(f32(u[j]) * params.up_scale));
    }
    let at = (first + m) * params.out_stride + row / 4u;
    output[at] = quantise4(product, params.next_scale);
    codes[at] = vec2<u32>(pack(g.x, g.y, g.z, g.w), pack(u.x, u.y, u.z, u.w));
  }
}
