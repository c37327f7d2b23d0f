// The start of a prompt's tokens: embedding rows of many columns. Their projection, beside which rows of the per-layer table come, is in `bulk_project.cu` and `bulk_tiles.cu`.
#include "shapes.cuh"

// Embedding rows, also by lanes: [columns][32 lanes][hidden / 32]. One block of the grid a column; it clears its sums, too. Four neighbours of either order are one store, for which codes are read twice:
// stores of single values by lanes are each a piece of a sector of their own, and divisions by what only the host knows are most of the work where a value asks for its scale.
extern "C" __global__ void __launch_bounds__(256)
    bulk_embed(__grid_constant__ const Table t, const Column* columns, float* hidden, float* by_lanes, int* sums) {
  release_next();
  await_previous();
  const size_t token = columns[blockIdx.x].token, at = (size_t)blockIdx.x * t.columns;
  const uint8_t* row = t.codes + token * (t.columns * t.bits / 8);
  const float scale = t.scales[token];
  if (t.columns % 128 != 0) {
    for (int i = threadIdx.x; i < t.columns; i += blockDim.x) {
      const float value = table_value(t, row, t.scales + token, i);
      hidden[at + i] = value, by_lanes[at + i % 32 * (t.columns / 32) + i / 32] = value, sums[at + i] = 0;
    }
    return;
  }
  const unsigned fours = t.columns / 128;  // of a lane
  const int mask = (1 << t.bits) - 1, zero_point = 1 << (t.bits - 1);
  for (unsigned i = threadIdx.x; i < t.columns / 4; i += blockDim.x) {
    *(float4*)(hidden + at + 4 * i) = table_four(t, row, scale, 4 * i);
    const unsigned first = i % fours * 128 + i / fours;
    float value[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const unsigned bit = (first + 32 * j) * t.bits;
      value[j] = ((float)((row[bit / 8] >> bit % 8 & mask) - zero_point) * scale) * t.factor;
    }
    *(float4*)(by_lanes + at + 4 * i) = make_float4(value[0], value[1], value[2], value[3]);
    *(int4*)(sums + at + 4 * i) = make_int4(0, 0, 0, 0);
  }
}
