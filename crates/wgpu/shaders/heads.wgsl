// Head norms, rope and the storing of K/V for the columns of a sequence (rules 6, 7, 12); a workgroup a head: queries, then keys, then values.
// Constants: FORMAT of K/V.
@group(0) @binding(1) var<storage, read> columns: array<Column>;
@group(1) @binding(1) var<storage, read_write> kv: array<u32>;

const THREADS = 64u;
const VECTORS = 1u;

// One row: 512 values of f32 at most.
var<workgroup> fresh: array<u32, 512>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let column = first.column + group.y;
  let position = columns[column].position;
  let dim = params.head_dim;
  let chunks = dim / 8u;
  var head = group.x;
  var kind = QUERY;
  if (head >= params.heads) {
    head -= params.heads;
    kind = KEY;
    if (head >= params.kv_heads) {
      head -= params.kv_heads;
      kind = VALUE;
    }
  }
  let start = codes_of(kind, column, head);
  if (local == 0u) {
    atomicStore(&squares[0], 0);
    atomicStore(&largest[0], 0u);
  }
  workgroupBarrier();
  for (var i = local; i < chunks; i += THREADS) { add_squares(0u, start, i); }
  workgroupBarrier();
  if (kind == QUERY) {
    for (var i = local; i < chunks; i += THREADS) { store_query(column, head, i, chunk_of(0u, kind, start, i, position)); }
    return;
  }
  var unit = 0.0;
  if (FORMAT == 2u) {
    for (var i = local; i < chunks; i += THREADS) { add_largest(0u, chunk_of(0u, kind, start, i, position)); }
    workgroupBarrier();
    unit = unit_of(0u);
  }
  for (var i = local; i < chunks; i += THREADS) { store_chunk(0u, i, chunk_of(0u, kind, start, i, position), unit); }
  workgroupBarrier();
  let row = head * params.slots + slot_of(position);
  let words = dim >> FORMAT;
  let at = select(0u, params.kv_values, kind == VALUE) + row * words;
  for (var i = local; i < words; i += THREADS) { kv[at + i] = fresh[i]; }
  if (FORMAT == 2u && local == 0u) {
    kv[select(params.kv_key_scales, params.kv_value_scales, kind == VALUE) + row] = bitcast<u32>(unit);
  }
}
