// A linear of one column that makes its input codes itself: each workgroup runs the entry, the first one keeps the stream and the codes.
// Constants: ENTERED, the word of `hidden` where the codes are kept, for taps.
@group(0) @binding(8) var<storage, read> joining: array<u32>;
@group(0) @binding(9) var<storage, read> norms: array<vec4<f32>>;
@group(0) @binding(10) var<storage, read_write> hidden: array<vec4<u32>>;

var<workgroup> entered: array<u32, HIDDEN / 4u>;

fn take_input(writes: bool, local: u32) {
  let r = enter(0u, writes, local);
  for (var n = 0u; n < COUNT; n++) {
    let i = local + n * THREADS;
    if (i < VECTORS) {
      let word = quantise4(normed4(local, n, r), params.input_scale);
      entered[i] = word;
      if (writes) { hidden[(ENTERED + i) / 4u][i % 4u] = word; }
    }
  }
  workgroupBarrier();
}

fn input_at(column: u32, index: u32) -> u32 { return entered[index]; }
