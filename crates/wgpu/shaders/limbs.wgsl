// Behind the last layer: its linear joins the stream, the final norm, and the result as fixed point of 23 bits in three signed 8-bit limbs
// for packed dot products (rule 9); a workgroup a column.
// Constants: HIDDEN, EARLY_ENTRY.
@group(0) @binding(1) var<storage, read> joining: array<u32>;
@group(0) @binding(2) var<storage, read> norms: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> hidden: array<vec4<u32>>;
// The normed values.
@group(0) @binding(4) var<storage, read_write> floats: array<vec4<f32>>;
// Three rows of HIDDEN / 4 words a column: lowest limb first.
@group(0) @binding(5) var<storage, read_write> limbs: array<u32>;
// 2^-t of each column.
@group(0) @binding(6) var<storage, read_write> units: array<f32>;

const THREADS = 256u;

var<workgroup> largest: atomic<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  if (local == 0u) { atomicStore(&largest, 0u); }
  let r = enter(group.y, true, local);
  var top = 0u;
  for (var n = 0u; n < COUNT; n++) {
    if (local + n * THREADS >= VECTORS) { continue; }
    let x = normed4(local, n, r);
    floats[group.y * VECTORS + local + n * THREADS] = x;
    let bits = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
    top = max(top, max(max(bits.x, bits.y), max(bits.z, bits.w)));
  }
  atomicMax(&largest, top);
  workgroupBarrier();
  top = atomicLoad(&largest);
  let shift = select(21 - max(i32(top >> 23u) - 127, -100), 0, top == 0u);
  let factor = power_of_two(shift);
  if (local == 0u) { units[group.y] = power_of_two(-shift); }
  for (var n = 0u; n < COUNT; n++) {
    let i = local + n * THREADS;
    if (i >= VECTORS) { continue; }
    let fixed = vec4<i32>(round(keep4(normed4(local, n, r) * factor)));
    let low = (fixed << vec4<u32>(24u)) >> vec4<u32>(24u);
    let rest = (fixed - low) >> vec4<u32>(8u);
    let middle = (rest << vec4<u32>(24u)) >> vec4<u32>(24u);
    let high = (rest - middle) >> vec4<u32>(8u);
    let at = group.y * 3u * VECTORS + i;
    limbs[at] = pack(low.x, low.y, low.z, low.w);
    limbs[at + VECTORS] = pack(middle.x, middle.y, middle.z, middle.w);
    limbs[at + 2u * VECTORS] = pack(high.x, high.y, high.z, high.w);
  }
}
