// Sums of rule 2 over tiles, exact in i32, whatever the adapter makes of dot4I8Packed.
//
// A workgroup has 16 rows: four threads side by side have four rows each and read 64 neighbouring bytes of codes, the SLICES such fours
// share the inputs. Codes are taken without their zero point; each thread also adds up its input codes, so that the zero point
// is taken off once. 8-bit codes become signed by one xor instead.
// A thread has LOADS of its vectors of weights under way at once; the first of them from before the input is there, where EARLY is 1.
// Constants: SLICES (a power of 4), COLUMNS (at once), LOADS (8 at most), EARLY, INPUTS (0 where the numbers of
// the dispatch say it). Needs: weight() and MATRICES of the kernel and input_at() of one of
// the input_*.wgsl.

const THREADS = 4u * SLICES;
const ONES = 0x01010101u;

var<workgroup> parts: array<vec4<i32>, THREADS * COLUMNS>;
// Weights under way, of each matrix.
var<private> held: array<vec4<u32>, MATRICES * LOADS>;
var<private> sums: array<vec4<i32>, COLUMNS>;
var<private> ones: array<i32, COLUMNS>;

fn plane(w: vec4<u32>, bits: u32, index: u32) -> vec4<u32> {
  if (bits == 8u) { return w ^ vec4<u32>(0x80808080u); }
  if (bits == 4u) { return (w >> vec4<u32>(4u * index)) & vec4<u32>(0x0f0f0f0fu); }
  return (w >> vec4<u32>(2u * index)) & vec4<u32>(0x03030303u);
}

fn dots(w: vec4<u32>, x: u32) -> vec4<i32> {
  return vec4<i32>(dot4I8Packed(w.x, x), dot4I8Packed(w.y, x), dot4I8Packed(w.z, x), dot4I8Packed(w.w, x));
}

fn groups_of(bits: u32) -> u32 { return select(INPUTS, params.inputs, INPUTS == 0u) * bits / 32u; }

// The first vector of four words of a thread's rows; from one group of inputs to the next there are 32 / bits.
fn start_of(bits: u32, block: u32, local: u32) -> u32 {
  let vectors = 8u / bits;
  return (block / vectors) * groups_of(bits) * vectors * 4u + (block % vectors) * 4u + local % 4u;
}

// Loads the weights of the groups g, g + SLICES, ... Written out, because loads in a loop may wait for each other.
fn hold(matrix: u32, place: u32, bits: u32, start: u32, g: u32) {
  let step = 32u / bits;
  let end = groups_of(bits) - 1u;
  let at = place * LOADS;
  held[at] = weight(matrix, start + min(g, end) * step);
  if (LOADS > 1u) { held[at + 1u] = weight(matrix, start + min(g + SLICES, end) * step); }
  if (LOADS > 2u) { held[at + 2u] = weight(matrix, start + min(g + 2u * SLICES, end) * step); }
  if (LOADS > 3u) { held[at + 3u] = weight(matrix, start + min(g + 3u * SLICES, end) * step); }
  if (LOADS > 4u) { held[at + 4u] = weight(matrix, start + min(g + 4u * SLICES, end) * step); }
  if (LOADS > 5u) { held[at + 5u] = weight(matrix, start + min(g + 5u * SLICES, end) * step); }
  if (LOADS > 6u) { held[at + 6u] = weight(matrix, start + min(g + 6u * SLICES, end) * step); }
  if (LOADS > 7u) { held[at + 7u] = weight(matrix, start + min(g + 7u * SLICES, end) * step); }
}

// Before the input is there.
fn hold_first(matrix: u32, place: u32, bits: u32, block: u32, local: u32) {
  if (EARLY == 1u) { hold(matrix, place, bits, start_of(bits, block, local), local / 4u); }
}

// Adds the products of a vector of weights and its inputs.
fn add_products(w: vec4<u32>, bits: u32, g: u32, first: u32) {
  if (g >= groups_of(bits)) { return; }
  let planes = 8u / bits;
  for (var p = 0u; p < planes; p++) {
    let v = plane(w, bits, p);
    for (var m = 0u; m < COLUMNS; m++) {
      let x = input_at(first + m, g * planes + p);
      sums[m] += dots(v, x);
      if (bits != 8u) { ones[m] += dot4I8Packed(ONES, x); }
    }
  }
}

// A vector of weights behind the other: what several columns do, whose products are most of the time.
fn sum_in_turn(matrix: u32, bits: u32, start: u32, slice: u32, first: u32, local: u32) {
  let planes = 8u / bits;
  let step = 32u / bits;
  let groups = groups_of(bits);
  var of_columns: array<vec4<i32>, COLUMNS>;
  var of_ones: array<i32, COLUMNS>;
  for (var m = 0u; m < COLUMNS; m++) {
    of_columns[m] = vec4<i32>();
    of_ones[m] = 0;
  }
  for (var g = slice; g < groups; g += SLICES) {
    let w = weight(matrix, start + g * step);
    for (var p = 0u; p < planes; p++) {
      let v = plane(w, bits, p);
      for (var m = 0u; m < COLUMNS; m++) {
        let x = input_at(first + m, g * planes + p);
        of_columns[m] += dots(v, x);
        if (bits != 8u) { of_ones[m] += dot4I8Packed(ONES, x); }
      }
    }
  }
  for (var m = 0u; m < COLUMNS; m++) {
    var sum = of_columns[m];
    if (bits != 8u) { sum -= vec4<i32>(of_ones[m] << (bits - 1u)); }
    parts[m * THREADS + local] = sum;
  }
}

// The sums of row block `block` of a matrix with the columns from `first` on; those of rows 4j to 4j + 3 and the column m behind `first`
// come to stand in parts[m * THREADS + j]. `place` is where the matrix' weights are held.
fn sum_rows(matrix: u32, place: u32, bits: u32, block: u32, first: u32, local: u32) {
  let slice = local / 4u;
  let groups = groups_of(bits);
  let start = start_of(bits, block, local);
  if (EARLY == 0u) {
    sum_in_turn(matrix, bits, start, slice, first, local);
    reduce(local);
    return;
  }
  for (var m = 0u; m < COLUMNS; m++) {
    sums[m] = vec4<i32>();
    ones[m] = 0;
  }
  let at = place * LOADS;
  for (var g = slice; g < groups; g += LOADS * SLICES) {
    if (g != slice) { hold(matrix, place, bits, start, g); }
    add_products(held[at], bits, g, first);
    if (LOADS > 1u) { add_products(held[at + 1u], bits, g + SLICES, first); }
    if (LOADS > 2u) { add_products(held[at + 2u], bits, g + 2u * SLICES, first); }
    if (LOADS > 3u) { add_products(held[at + 3u], bits, g + 3u * SLICES, first); }
    if (LOADS > 4u) { add_products(held[at + 4u], bits, g + 4u * SLICES, first); }
    if (LOADS > 5u) { add_products(held[at + 5u], bits, g + 5u * SLICES, first); }
    if (LOADS > 6u) { add_products(held[at + 6u], bits, g + 6u * SLICES, first); }
    if (LOADS > 7u) { add_products(held[at + 7u], bits, g + 7u * SLICES, first); }
  }
  for (var m = 0u; m < COLUMNS; m++) {
    var sum = sums[m];
    if (bits != 8u) { sum -= vec4<i32>(ones[m] << (bits - 1u)); }
    parts[m * THREADS + local] = sum;
  }
  reduce(local);
}

fn reduce(local: u32) {
  for (var width = SLICES / 4u; width >= 1u; width /= 4u) {
    workgroupBarrier();
    for (var i = local; i < 4u * width * COLUMNS; i += THREADS) {
      let at = (i / (4u * width)) * THREADS + i % (4u * width);
      parts[at] += parts[at + 4u * width] + parts[at + 8u * width] + parts[at + 12u * width];
    }
  }
  workgroupBarrier();
}
