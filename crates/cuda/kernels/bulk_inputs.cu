// The start of a prompt's tokens: rows of the per-layer table, and the projection to all per-layer inputs (rules 10, 11) for many columns.
#include "lanes.cuh"
#include "shapes.cuh"

#define BULK_PROJECT_TILE 64
#define BULK_PROJECT_THREADS 256

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

// Rule 10 for tiles of 64 rows x 64 columns. Shared memory has four lanes of both at a time.
extern "C" __global__ void __launch_bounds__(BULK_PROJECT_THREADS, 2) bulk_project(__grid_constant__ const Project p) {
  extern __shared__ __align__(128) float lanes[];
  release_next();
  await_previous();
  const int steps = p.width / 32, stride = 4 * steps + 4;
  float* weights = lanes;
  float* values = lanes + BULK_PROJECT_TILE * stride;
  const int row0 = blockIdx.x * BULK_PROJECT_TILE, column0 = blockIdx.y * BULK_PROJECT_TILE;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // A warp has 16 columns x 32 rows of the tile, a thread every fourth column and every eighth row of them.
  const int column = warp / 2 * 16 + lane / 8, row = warp % 2 * 32 + lane % 8;
  Carries<4, 4> carry;
  float total[4][4];
#pragma unroll 1
  for (int turn = 0; turn < 8; ++turn) {
    const int first = lane_of_turn(turn);
    if (turn) __syncthreads();
    // bf16 weights: [rows][chunks of 256 inputs][32 lanes][8].
#pragma unroll 1
    for (int i = threadIdx.x; i < BULK_PROJECT_TILE * 4 * p.chunks; i += BULK_PROJECT_THREADS) {
      int at = i / (4 * p.chunks), rest = i - at * 4 * p.chunks, q = rest / p.chunks, chunk = rest - q * p.chunks;
      uint4 w = make_uint4(0, 0, 0, 0);
      if (row0 + at < p.rows) w = p.weights[((size_t)(row0 + at) * p.chunks + chunk) * 32 + first + 8 * q];
      float* to = weights + at * stride + q * steps + chunk * 8;
      const unsigned word[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (chunk * 8 + j < steps) to[j] = __uint_as_float(j % 2 ? word[j / 2] & 0xffff0000u : word[j / 2] << 16);
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < BULK_PROJECT_TILE * steps; i += BULK_PROJECT_THREADS) {
      int at = i / steps, rest = i - at * steps, q = rest / (steps / 4), piece = rest - q * (steps / 4);
      float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (column0 + at < p.count) x = ((const float4*)(p.hidden + (size_t)(column0 + at) * p.width + (first + 8 * q) * steps))[piece];
      *(float4*)(values + at * stride + q * steps + piece * 4) = x;
    }
    __syncthreads();
    const int at[4] = {0, 2 * steps, steps, 3 * steps};
    lane_turn<4, 4>(carry, total, turn, values + column * stride, 4 * stride, weights + row * stride, 8 * stride, steps, at);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int c = column0 + column + 4 * i, r = row0 + row + 8 * j;
      if (c < p.count && r < p.rows) p.out[(size_t)c * p.out_stride + r] = total[i][j] * p.factor;
    }
}
