// Attention of one column that makes queries, key and value itself: each workgroup its own queries; those of the last block the token's K/V
// too, which they read from workgroup memory, and the one of the first query heads of a KV head stores them for the tokens behind.
@group(1) @binding(1) var<storage, read_write> kv: array<vec4<u32>>;

const VECTORS = HEADS + 2u;
const WORDS = DIM >> FORMAT;

// The key, then the value.
var<workgroup> fresh: array<u32, 2u * WORDS>;
var<workgroup> fresh_units: array<f32, 2>;

fn kind_of(vector: u32) -> u32 { return select(vector - HEADS + 1u, QUERY, vector < HEADS); }

fn take_queries(column: u32, block: u32, last: u32, head: u32, group: u32, local: u32) {
  let chunks = DIM / 8u;
  let kv_head = head / (params.heads / params.kv_heads);
  let owns = params.owns == 1u && block == last / 64u;
  let items = select(HEADS, VECTORS, owns) * chunks;
  if (local < VECTORS) {
    atomicStore(&squares[local], 0);
    atomicStore(&largest[local], 0u);
  }
  workgroupBarrier();
  for (var item = local; item < items; item += THREADS) {
    let vector = item / chunks;
    let kind = kind_of(vector);
    add_squares(vector, codes_of(kind, column, select(kv_head, head + vector, kind == QUERY)), item % chunks);
  }
  workgroupBarrier();
  for (var item = local; item < items; item += THREADS) {
    let vector = item / chunks;
    let i = item % chunks;
    let kind = kind_of(vector);
    let chunk = chunk_of(vector, kind, codes_of(kind, column, select(kv_head, head + vector, kind == QUERY)), i, last);
    if (kind == QUERY) {
      q[vector * (DIM / 4u) + i] = chunk.a;
      q[vector * (DIM / 4u) + chunks + i] = chunk.b;
      if (group == 0u) { store_query(column, head + vector, i, chunk); }
    } else if (FORMAT == 2u) {
      add_largest(vector, chunk);
    } else {
      store_chunk((kind - KEY) * WORDS, i, chunk, 0.0);
    }
  }
  workgroupBarrier();
  if (FORMAT == 2u) {
    for (var item = HEADS * chunks + local; item < items; item += THREADS) {
      let vector = item / chunks;
      let i = item % chunks;
      let kind = kind_of(vector);
      let unit = unit_of(vector);
      store_chunk((kind - KEY) * WORDS, i, chunk_of(vector, kind, codes_of(kind, column, kv_head), i, last), unit);
      if (i == 0u) { fresh_units[kind - KEY] = unit; }
    }
    workgroupBarrier();
  }
  if (!owns || head % (params.heads / params.kv_heads) != 0u) { return; }
  let row = kv_head * params.slots + slot_of(last);
  for (var i = local; i < 2u * WORDS / 4u; i += THREADS) {
    let side = i / (WORDS / 4u);
    let at = (side * params.kv_values + row * WORDS) / 4u + i % (WORDS / 4u);
    kv[at] = vec4<u32>(fresh[4u * i], fresh[4u * i + 1u], fresh[4u * i + 2u], fresh[4u * i + 3u]);
  }
  if (FORMAT == 2u && local < 2u) {
    let at = select(params.kv_key_scales, params.kv_value_scales, local == 1u) + row;
    kv[at / 4u][at % 4u] = bitcast<u32>(fresh_units[local]);
  }
}

// Whether the row of this position is in workgroup memory, not yet in `kv`.
fn is_fresh(position: u32, last: u32) -> bool { return params.owns == 1u && position == last; }
fn fresh_word(side: u32, index: u32) -> u32 {
  if (FORMAT == 2u && index == WORDS) { return bitcast<u32>(fresh_units[side]); }
  return fresh[side * WORDS + index];
}
