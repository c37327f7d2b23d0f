// As input_plain.wgsl for one column: its codes go through workgroup memory, so that a thread waits for them once.
@group(0) @binding(8) var<storage, read> input: array<vec4<u32>>;

const WHOLE = INPUTS / 16u;
const SHARE = (WHOLE + THREADS - 1u) / THREADS;

var<workgroup> taken: array<vec4<u32>, WHOLE>;

fn take_input(writes: bool, local: u32) {
  var mine: array<vec4<u32>, SHARE>;
  for (var n = 0u; n < SHARE; n++) { mine[n] = input[min(local + n * THREADS, WHOLE - 1u)]; }
  for (var n = 0u; n < SHARE; n++) {
    if (local + n * THREADS < WHOLE) { taken[local + n * THREADS] = mine[n]; }
  }
  workgroupBarrier();
}

fn input_at(column: u32, index: u32) -> u32 { return taken[index / 4u][index % 4u]; }
