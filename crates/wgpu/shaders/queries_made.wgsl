// Queries that another kernel made, and K/V that are all stored.
@group(0) @binding(8) var<storage, read> query: array<vec4<f32>>;
@group(1) @binding(1) var<storage, read> kv: array<vec4<u32>>;

fn take_queries(column: u32, block: u32, last: u32, head: u32, group: u32, local: u32) {
  for (var i = local; i < HEADS * DIM / 4u; i += THREADS) {
    q[i] = query[(column * params.in_stride + head * DIM) / 4u + i];
  }
  workgroupBarrier();
}

// Whether the row of this position is in workgroup memory, not yet in `kv`.
fn is_fresh(position: u32, last: u32) -> bool { return false; }
fn fresh_word(side: u32, index: u32) -> u32 { return 0u; }
