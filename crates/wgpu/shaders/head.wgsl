// Rule 9: int2 rows times three limbs, exact sums, logits, and the best row of the workgroup. 64 rows a workgroup (a tile), COLUMNS columns with
// one reading of the rows. Columns behind the pass's last are computed too where they fill up a workgroup; nobody reads them.
// Constants: SLICES, COLUMNS, LOGITS (1 where they are wanted).
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;
@group(0) @binding(3) var<storage, read> limbs: array<u32>;
@group(0) @binding(4) var<storage, read> units: array<f32>;
@group(0) @binding(5) var<storage, read_write> logits: array<f32>;
// Key and id of the best row of each workgroup: `out_stride` of them a column.
@group(0) @binding(6) var<storage, read_write> best: array<vec2<u32>>;

const THREADS = 16u * SLICES;
const ONES = 0x01010101u;

var<workgroup> low_parts: array<vec4<i32>, THREADS>;
var<workgroup> middle_parts: array<vec4<i32>, THREADS>;
var<workgroup> high_parts: array<vec4<i32>, THREADS>;
var<workgroup> found: array<vec2<u32>, 16>;

fn dots(w: vec4<u32>, x: u32) -> vec4<i32> {
  return vec4<i32>(dot4I8Packed(w.x, x), dot4I8Packed(w.y, x), dot4I8Packed(w.z, x), dot4I8Packed(w.w, x));
}

// Larger logits have larger keys; both zeros have the same.
fn order(z: f32) -> u32 {
  let bits = bitcast<u32>(z);
  if ((bits << 1u) > 0xff000000u) { return 0u; }
  if ((bits << 1u) == 0u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  // Sixteen threads side by side have the tile's 64 rows: 256 neighbouring bytes.
  let quad = local % 16u;
  let slice = local / 16u;
  let groups = params.inputs / 16u;
  let start = group.x * groups * 16u + quad;
  let first = group.y * COLUMNS;
  var low: array<vec4<i32>, COLUMNS>;
  var middle: array<vec4<i32>, COLUMNS>;
  var high: array<vec4<i32>, COLUMNS>;
  var ones: array<vec3<i32>, COLUMNS>;
  for (var m = 0u; m < COLUMNS; m++) {
    low[m] = vec4<i32>();
    middle[m] = vec4<i32>();
    high[m] = vec4<i32>();
    ones[m] = vec3<i32>();
  }
  for (var g = slice; g < groups; g += SLICES) {
    let w = codes[start + g * 16u];
    for (var p = 0u; p < 4u; p++) {
      let v = (w >> vec4<u32>(2u * p)) & vec4<u32>(0x03030303u);
      for (var m = 0u; m < COLUMNS; m++) {
        let at = (first + m) * 3u * params.in_stride + g * 4u + p;
        let a = limbs[at];
        let b = limbs[at + params.in_stride];
        let c = limbs[at + 2u * params.in_stride];
        low[m] += dots(v, a);
        middle[m] += dots(v, b);
        high[m] += dots(v, c);
        ones[m] += vec3<i32>(dot4I8Packed(ONES, a), dot4I8Packed(ONES, b), dot4I8Packed(ONES, c));
      }
    }
  }
  for (var m = 0u; m < COLUMNS; m++) {
    let column = first + m;
    low_parts[local] = low[m] - vec4<i32>(2 * ones[m].x);
    middle_parts[local] = middle[m] - vec4<i32>(2 * ones[m].y);
    high_parts[local] = high[m] - vec4<i32>(2 * ones[m].z);
    for (var width = SLICES / 2u; width >= 1u; width /= 2u) {
      workgroupBarrier();
      if (slice < width) {
        low_parts[local] += low_parts[local + 16u * width];
        middle_parts[local] += middle_parts[local + 16u * width];
        high_parts[local] += high_parts[local + 16u * width];
      }
    }
    if (local < 16u) {
      let l = low_parts[local];
      let h = high_parts[local] * 256 + middle_parts[local];
      var top = vec2<u32>(0u, 0xffffffffu);
      for (var j = 0u; j < 4u; j++) {
        let row = params.first_row + group.x * 64u + local * 4u + j;
        if (row < params.rows) {
          let acc = wide_to_float(h[j] + (l[j] >> 8u), u32(l[j]) & 255u);
          let z = keep(keep(acc * units[column]) * scales[row]);
          if (LOGITS == 1u) {
            let place = column * params.rows + row;
            if (place < arrayLength(&logits)) { logits[place] = z; }
          }
          let key = order(z);
          if (key > top.x || top.y == 0xffffffffu) { top = vec2<u32>(key, row); }
        }
      }
      found[local] = top;
    }
    workgroupBarrier();
    if (local == 0u) {
      var top = found[0];
      for (var i = 1u; i < 16u; i++) { if (found[i].y != 0xffffffffu && found[i].x > top.x) { top = found[i]; } }
      best[column * params.out_stride + params.first_row / 64u + group.x] = top;
    }
  }
}
