// The start of a prompt's tokens: embedding rows of many columns. Their projection, beside which rows of the per-layer table come, is in `bulk_project.cu` and `bulk_tiles.cu`.
#include "shapes.cuh"

// Embedding rows, also by lanes: [columns][32 lanes][hidden / 32]. One block of the grid a column; it clears its sums, too.
extern "C" __global__ void __launch_bounds__(256)
    bulk_embed(__grid_constant__ const Table t, const Column* columns, float* hidden, float* by_lanes, int* sums) {
  release_next();
  await_previous();
  size_t token = columns[blockIdx.x].token;
  const uint8_t* row = t.codes + token * (t.columns * t.bits / 8);
  int steps = t.columns / 32;
  for (int i = threadIdx.x; i < t.columns; i += blockDim.x) {
    float value = table_value(t, row, t.scales + token, i);
    hidden[(size_t)blockIdx.x * t.columns + i] = value;
    by_lanes[(size_t)blockIdx.x * t.columns + i % 32 * steps + i / 32] = value;
    sums[(size_t)blockIdx.x * t.columns + i] = 0;
  }
}
