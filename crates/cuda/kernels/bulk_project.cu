// The projection to the per-layer inputs of a prompt (rule 10) with the next lanes of the sum under way (a way that trials run; `bulk_tiles.cu` has the shipped one).
//
// A block of the grid makes 64 rows x 96 columns, a thread 4 x 6 pairs, two of the 32 lanes a turn. While a turn is multiplied the next one's values come by asynchronous copies
// and its weights in registers, to be widened to floats in the other buffer; one barrier a turn. Places follow from bits of the thread's number alone: no division.
// A warp has all rows and two columns at a time, so half a warp's weights lie in different banks and its values are two words.
#include "lanes.cuh"
#include "shapes.cuh"

#define AHEAD_ROWS 64
#define AHEAD_COLUMNS 96
#define AHEAD_THREADS 256
#define AHEAD_CHUNKS 10  // chunks of 256 inputs at most

// Of 6 x 4 pairs: columns and rows every sixteenth.
static __device__ __forceinline__ void load_piece(LanePiece& piece, const float* values, const float* weights, int stride) {
#pragma unroll
  for (int j = 0; j < 4; ++j) piece.y[j] = *(const float4*)(weights + j * 16 * stride);
#pragma unroll
  for (int i = 0; i < 6; ++i) piece.x[i] = *(const float4*)(values + i * 16 * stride);
}

extern "C" __global__ void __launch_bounds__(AHEAD_THREADS, 1) bulk_project_ahead(__grid_constant__ const Project p) {
  extern __shared__ __align__(128) float lanes[];
  release_next();
  const int steps = p.width / 32, stride = 2 * steps + 4, buffer = (AHEAD_ROWS + AHEAD_COLUMNS) * stride;
  const int row0 = blockIdx.x * AHEAD_ROWS, column0 = blockIdx.y * AHEAD_COLUMNS;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Of weights a thread brings a row's every other chunk of one of the two lanes; bf16 as [rows][chunks of 256 inputs][32 lanes][8].
  const int weight_row = threadIdx.x / 4, weight_half = threadIdx.x & 1, weight_chunk = threadIdx.x >> 1 & 1;
  const bool weight_mine = row0 + weight_row < p.rows;
  const uint4* weight = p.weights + ((size_t)min(row0 + weight_row, p.rows - 1) * p.chunks + weight_chunk) * 32 + 16 * weight_half;
  // Of values every eighth piece of 16 bytes of three columns; what lies outside is some that lies inside.
  const int piece = threadIdx.x & 7, some_column = threadIdx.x >> 3;
  uint4 ahead[AHEAD_CHUNKS / 2];
  auto lane_of = [](int turn) { return (turn & 1) << 3 | (turn & 2) << 1 | (turn & 4) >> 1 | turn >> 3; };
  auto fetch = [&](int turn) {
    const int l = lane_of(turn);
#pragma unroll
    for (int i = 0; i < AHEAD_CHUNKS / 2; ++i)
      if (weight_chunk + 2 * i < p.chunks) ahead[i] = weight[l + i * 64];
    float* to = lanes + (turn & 1) * buffer + AHEAD_ROWS * stride;
#pragma unroll
    for (int c = 0; c < AHEAD_COLUMNS; c += 32) {
      const float* from = p.hidden + (size_t)min(column0 + some_column + c, p.count - 1) * p.width + l * steps;
      float* row = to + (some_column + c) * stride;
#pragma unroll 1
      for (int i = 4 * piece; i < steps; i += 32) {
        copy16(row + i, from + i);
        copy16(row + steps + i, from + 16 * steps + i);
      }
    }
    copies_commit();
  };
  auto place = [&](int turn) {
    float* to = lanes + (turn & 1) * buffer + weight_row * stride + weight_half * steps + weight_chunk * 8;
#pragma unroll
    for (int i = 0; i < AHEAD_CHUNKS / 2; ++i) {
      if (weight_chunk + 2 * i >= p.chunks) break;
      const uint4 w = weight_mine ? ahead[i] : make_uint4(0, 0, 0, 0);
      const unsigned word[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int j = 0; j < 8; j += 4)
        if ((weight_chunk + 2 * i) * 8 + j < steps)
          *(float4*)(to + 16 * i + j) = make_float4(__uint_as_float(word[j / 2] << 16), __uint_as_float(word[j / 2] & 0xffff0000u),
                                                    __uint_as_float(word[j / 2 + 1] << 16), __uint_as_float(word[j / 2 + 1] & 0xffff0000u));
    }
    copies_wait<0>();
  };

  // A thread's columns are `column` + 16 i, its rows `row` + 16 j.
  const int column = 2 * warp + (lane & 1), row = lane >> 1;
  float two[6][4], four[6][4], eight[6][4], sum[6][4];
#pragma unroll
  for (int i = 0; i < 6; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) two[i][j] = four[i][j] = eight[i][j] = sum[i][j] = 0.0f;
  await_previous();
  fetch(0);
  place(0);
  __syncthreads();
#pragma unroll 1
  for (int turn = 0; turn < 16; ++turn) {
    if (turn < 15) fetch(turn + 1);
    const float* weights = lanes + (turn & 1) * buffer + row * stride;
    const float* values = lanes + (turn & 1) * buffer + (AHEAD_ROWS + column) * stride;
    float one[6][4], other[6][4];
#pragma unroll
    for (int i = 0; i < 6; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) one[i][j] = 0.0f;
    LanePiece a, b;
    load_piece(a, values, weights, stride);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 6; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) other[i][j] = one[i][j], one[i][j] = 0.0f;
      // Behind the second half the next piece is not read, only loaded; a row has four floats more.
#pragma unroll 1
      for (int s = 0; s < steps; s += 8) {
        load_piece(b, values + 4, weights + 4, stride);
        add_piece(one, a);
        values += 8, weights += 8;
        load_piece(a, values, weights, stride);
        add_piece(one, b);
      }
    }
#pragma unroll
    for (int i = 0; i < 6; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) one[i][j] = other[i][j] + one[i][j];
    carry(two, one, turn & 1 ? 1.0f : 0.0f);
    if (turn & 1) {
      carry(four, two, turn & 2 ? 1.0f : 0.0f);
      if (turn & 2) {
        carry(eight, four, turn & 4 ? 1.0f : 0.0f);
        if (turn & 4) carry(sum, eight, turn & 8 ? 1.0f : 0.0f);
      }
    }
    if (turn < 15) place(turn + 1);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 6; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int c = column0 + column + 16 * i, r = row0 + row + 16 * j;
      if (c < p.count && r < p.rows) p.out[(size_t)c * p.out_stride + r] = sum[i][j] * p.factor;
    }
}
