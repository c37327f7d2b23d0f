// Kernels that run for the columns of one sequence: the first of them in the pass, and the sequence's K/V of a layer.
struct First {
  column: u32,
  spare_a: u32,
  spare_b: u32,
  spare_c: u32,
}
@group(1) @binding(0) var<uniform> first: First;

fn slot_of(position: u32) -> u32 { return select(position, position % params.slots, params.ring == 1u); }
