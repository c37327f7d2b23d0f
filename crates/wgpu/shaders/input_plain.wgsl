// A linear whose input codes another kernel made: `in_stride` words a column.
@group(0) @binding(8) var<storage, read> input: array<u32>;

fn take_input(writes: bool, local: u32) {}

fn input_at(column: u32, index: u32) -> u32 { return input[column * params.in_stride + index]; }
