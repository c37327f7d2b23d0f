// What a dispatch is told. One layout for all kernels, so that a plan fills one struct (src/params.rs has the same order).
struct Params {
  zero: u32,          // always 0, but no compiler knows: see keep()
  flags: u32,
  rows: u32,          // outputs of a matrix, values of a table row
  inputs: u32,        // inputs of a matrix, values of a norm
  first_row: u32,     // first row of this part of a matrix or table
  in_stride: u32,     // words from a column's input to the next column's
  out_stride: u32,    // words from a column's output to the next column's
  other_stride: u32,  // likewise of a third buffer
  other_offset: u32,
  heads: u32,
  kv_heads: u32,
  head_dim: u32,
  pairs: u32,         // pairs that turn
  window: u32,        // positions a token sees, 0 for all
  slots: u32,         // rows of K/V a head has
  ring: u32,          // 1 where slots are reused
  owns: u32,          // 1 where the layer stores K/V
  block: u32,         // values that share a scale
  count: u32,
  kv_values: u32,     // words before the value rows
  kv_key_scales: u32,
  kv_value_scales: u32,
  partials: u32,      // partial results a column has room for
  input_scale: f32,
  output_scale: f32,
  up_scale: f32,
  next_scale: f32,
  factor: f32,
  scalar: f32,
  stream_in: u32,     // words before the residual stream that is read
  stream_out: u32,    // and before the one that is written
  join_scale: f32,    // of the codes that join
}
@group(0) @binding(0) var<uniform> params: Params;

// A token of the pass.
struct Column {
  token: u32,
  position: u32,
}
