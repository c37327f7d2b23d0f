// Rule 11: rows of a table as floats, (code * scale) * factor, one scale for each `block` values.
// A table larger than a binding lies in parts of whole rows; a part serves the columns whose token is in it.
// Constants: BITS.
@group(0) @binding(1) var<storage, read> columns: array<Column>;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let token = columns[id.y].token;
  if (token < params.first_row || token >= params.first_row + params.count) { return; }
  let row = token - params.first_row;
  // One word of codes a thread.
  let per_word = 32u / BITS;
  let first = id.x * per_word;
  if (first >= params.inputs) { return; }
  let word = codes[row * (params.inputs / per_word) + id.x];
  let scale = scales[token * (params.inputs / params.block) + first / params.block];
  let zero_point = i32(1u << (BITS - 1u));
  for (var i = 0u; i < per_word; i++) {
    let code = i32(extractBits(word, i * BITS, BITS)) - zero_point;
    output[id.y * params.out_stride + first + i] = keep(keep(f32(code) * scale) * params.factor);
  }
}
