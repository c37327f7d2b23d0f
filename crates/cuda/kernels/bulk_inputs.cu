// The start of a prompt's tokens: embedding rows and rows of the per-layer table for many columns. Their projection is in `bulk_tiles.cu`.
#include "shapes.cuh"

// Embedding rows, also by lanes: [columns][32 lanes][hidden / 32]. One block of the grid a column; it fetches the column's table row and clears its sums, too.
extern "C" __global__ void __launch_bounds__(256)
    bulk_embed(__grid_constant__ const Table t, const Column* columns, float* hidden, float* by_lanes, __grid_constant__ const Table ple,
               uint8_t* rows, float* scales, int layers, int* sums) {
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
  // The layers that run have the first part of a row.
  size_t row_bytes = ple.columns * ple.bits / 8;
  int wanted = (int)(row_bytes / ple.scales_per_row * layers);
  const unsigned* from = (const unsigned*)(ple.codes + token * row_bytes);
  unsigned* to = (unsigned*)(rows + blockIdx.x * row_bytes);
  for (int i = threadIdx.x; i < (wanted + 3) / 4; i += blockDim.x) to[i] = from[i];
  for (int i = threadIdx.x; i < layers; i += blockDim.x)
    scales[blockIdx.x * ple.scales_per_row + i] = ple.scales[token * ple.scales_per_row + i];
}
