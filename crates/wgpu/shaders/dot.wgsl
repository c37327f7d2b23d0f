// Sums of rule 2 over tiles, exact in i32, whatever the adapter makes of dot4I8Packed.
//
// A workgroup has 16 rows: four threads side by side have four rows each and read 64 neighbouring bytes of codes, the SLICES such fours
// share the inputs. Codes are taken without their zero point; each thread also adds up its input codes, so that the zero point
// is taken off once. 8-bit codes become signed by one xor instead.
// Constants: SLICES (a power of 4), COLUMNS (at once). Needs: weight() of the kernel and input_at() of one of the input_*.wgsl.

const THREADS = 4u * SLICES;
const ONES = 0x01010101u;

var<workgroup> parts: array<vec4<i32>, THREADS * COLUMNS>;

fn plane(w: vec4<u32>, bits: u32, index: u32) -> vec4<u32> {
  if (bits == 8u) { return w ^ vec4<u32>(0x80808080u); }
  if (bits == 4u) { return (w >> vec4<u32>(4u * index)) & vec4<u32>(0x0f0f0f0fu); }
  return (w >> vec4<u32>(2u * index)) & vec4<u32>(0x03030303u);
}

fn dots(w: vec4<u32>, x: u32) -> vec4<i32> {
  return vec4<i32>(dot4I8Packed(w.x, x), dot4I8Packed(w.y, x), dot4I8Packed(w.z, x), dot4I8Packed(w.w, x));
}

// The sums of row block `block` of a matrix with the columns from `first` on; those of rows 4j to 4j + 3 and the column m behind `first`
// come to stand in parts[m * THREADS + j].
fn sum_rows(matrix: u32, bits: u32, block: u32, first: u32, local: u32) {
  let slice = local / 4u;
  let planes = 8u / bits;
  let vectors = 8u / bits;
  let step = vectors * 4u;
  let groups = params.inputs * bits / 32u;
  // Vectors of 4 words: the first of these four rows in the tile.
  let start = (block / vectors) * groups * step + (block % vectors) * 4u + local % 4u;
  var sums: array<vec4<i32>, COLUMNS>;
  var ones: array<i32, COLUMNS>;
  for (var m = 0u; m < COLUMNS; m++) {
    sums[m] = vec4<i32>();
    ones[m] = 0;
  }
  for (var g = slice; g < groups; g += SLICES) {
    let w = weight(matrix, start + g * step);
    for (var p = 0u; p < planes; p++) {
      let v = plane(w, bits, p);
      for (var m = 0u; m < COLUMNS; m++) {
        let x = input_at(first + m, g * planes + p);
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
  for (var width = SLICES / 4u; width >= 1u; width /= 4u) {
    workgroupBarrier();
    for (var i = local; i < 4u * width * COLUMNS; i += THREADS) {
      let at = (i / (4u * width)) * THREADS + i % (4u * width);
      parts[at] += parts[at + 4u * width] + parts[at + 8u * width] + parts[at + 12u * width];
    }
  }
  workgroupBarrier();
}
