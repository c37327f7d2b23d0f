// Rule 9: the final hidden state as fixed point of 23 bits, in three signed 8-bit limbs for packed dot products; a workgroup a column.
@group(0) @binding(1) var<storage, read> input: array<vec4<f32>>;
// Three rows of `in_stride` words a column: lowest limb first.
@group(0) @binding(2) var<storage, read_write> limbs: array<u32>;
// 2^-t of each column.
@group(0) @binding(3) var<storage, read_write> units: array<f32>;

const THREADS = 256u;

var<workgroup> largest: atomic<u32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let words = params.inputs / 4u;
  let base = group.y * words;
  if (local == 0u) { atomicStore(&largest, 0u); }
  workgroupBarrier();
  var top = 0u;
  for (var i = local; i < words; i += THREADS) {
    let bits = bitcast<vec4<u32>>(input[base + i]) & vec4<u32>(0x7fffffffu);
    top = max(top, max(max(bits.x, bits.y), max(bits.z, bits.w)));
  }
  atomicMax(&largest, top);
  workgroupBarrier();
  top = atomicLoad(&largest);
  let shift = select(21 - max(i32(top >> 23u) - 127, -100), 0, top == 0u);
  let factor = power_of_two(shift);
  if (local == 0u) { units[group.y] = power_of_two(-shift); }
  for (var i = local; i < words; i += THREADS) {
    let x = input[base + i];
    let n = vec4<i32>(round(keep4(x * factor)));
    let low = (n << vec4<u32>(24u)) >> vec4<u32>(24u);
    let rest = (n - low) >> vec4<u32>(8u);
    let middle = (rest << vec4<u32>(24u)) >> vec4<u32>(24u);
    let high = (rest - middle) >> vec4<u32>(8u);
    let at = group.y * 3u * params.in_stride + i;
    limbs[at] = pack(low.x, low.y, low.z, low.w);
    limbs[at + params.in_stride] = pack(middle.x, middle.y, middle.z, middle.w);
    limbs[at + 2u * params.in_stride] = pack(high.x, high.y, high.z, high.w);
  }
}
