// The entry of a stage in a dispatch of its own, a workgroup a column, and the codes of its input.
// Constants: HIDDEN, EARLY_ENTRY.
@group(0) @binding(1) var<storage, read> joining: array<u32>;
@group(0) @binding(2) var<storage, read> norms: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> hidden: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> codes: array<u32>;

const THREADS = 256u;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let r = enter(group.y, true, local);
  for (var n = 0u; n < COUNT; n++) {
    let i = local + n * THREADS;
    if (i < VECTORS) { codes[group.y * VECTORS + i] = quantise4(normed4(local, n, r), params.input_scale); }
  }
}
