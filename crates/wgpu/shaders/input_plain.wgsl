// A linear whose input codes another kernel made: `in_stride` words a column. Where EARLY is 1 they go through workgroup memory, so that a thread waits
// for them once.
@group(0) @binding(8) var<storage, read> input: array<vec4<u32>>;

const WHOLE = max(INPUTS / 16u, 1u);
const SHARE = (WHOLE + THREADS - 1u) / THREADS;

var<workgroup> taken: array<vec4<u32>, WHOLE>;

fn take_input(writes: bool, local: u32) {
  if (EARLY == 0u) { return; }
  var mine: array<vec4<u32>, SHARE>;
  for (var n = 0u; n < SHARE; n++) { mine[n] = input[min(local + n * THREADS, WHOLE - 1u)]; }
  for (var n = 0u; n < SHARE; n++) {
    if (local + n * THREADS < WHOLE) { taken[local + n * THREADS] = mine[n]; }
  }
  workgroupBarrier();
}

fn input_at(column: u32, index: u32) -> u32 {
  if (EARLY == 1u) { return taken[index / 4u][index % 4u]; }
  let at = column * params.in_stride + index;
  return input[at / 4u][at % 4u];
}
