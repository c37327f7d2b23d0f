// The projection to the per-layer inputs of a prompt (rule 10) with the next lanes of the sum under way (where a card has no room for it, `bulk_tiles.cu` has another).
//
// A block of the grid makes 64 rows x 96 columns, a thread 4 x 6 pairs, two of the 32 lanes a turn. Both operands lie by elements, so that a thread's four rows and six columns are
// neighbouring registers, which a multiply-add can read without two of one bank (rows' elements side by side cost a third of the loop's cycles). While a turn is multiplied the next
// one's values come by asynchronous copies, three each eight elements, and its weights in registers, to be widened to floats in the other buffer; one barrier a turn.
// A warp has all rows and twelve columns. Of values a warp copies eight elements of four columns at once, of weights 32 rows, so no store meets a bank twice.
#include "lanes.cuh"
#include "shapes.cuh"

#define AHEAD_ROWS 64
#define AHEAD_COLUMNS 96
#define AHEAD_STRIDE 100  // from an element's values to the next one's
#define AHEAD_THREADS 256
#define AHEAD_CHUNKS 10  // chunks of 256 inputs at most

// One element of six columns and four rows.
struct AheadPiece {
  alignas(16) float x[6];
  alignas(16) float y[4];
};

extern "C" __global__ void __launch_bounds__(AHEAD_THREADS, 1) bulk_project_ahead(__grid_constant__ const Project p) {
  extern __shared__ __align__(128) float lanes[];
  release_next();
  const int steps = p.width / 32, buffer = 2 * steps * (AHEAD_ROWS + AHEAD_STRIDE), of_values = 2 * steps * AHEAD_ROWS;
  const int row0 = blockIdx.x * AHEAD_ROWS, column0 = blockIdx.y * AHEAD_COLUMNS;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Of weights a thread brings a row's every other chunk of one of the two lanes; bf16 as [rows][chunks of 256 inputs][32 lanes][8].
  const int weight_row = warp % 2 * 32 + lane, weight_half = warp / 2 % 2, weight_chunk = warp / 4;
  const bool weight_mine = row0 + weight_row < p.rows;
  const uint4* weight = p.weights + ((size_t)min(row0 + weight_row, p.rows - 1) * p.chunks + weight_chunk) * 32 + 16 * weight_half;
  // Of values every eighth element of three columns; what lies outside is some that lies inside.
  const int some_column = warp * 12 + lane % 4, some_step = lane / 4;
  int value[3];
#pragma unroll
  for (int c = 0; c < 3; ++c) value[c] = min(column0 + some_column + 4 * c, p.count - 1) * p.width + some_step;
  float* const value_to = lanes + of_values + some_step * AHEAD_STRIDE + some_column;
  uint4 ahead[AHEAD_CHUNKS / 2];
  auto lane_of = [](int turn) { return (turn & 1) << 3 | (turn & 2) << 1 | (turn & 4) >> 1 | turn >> 3; };
  auto fetch_weights = [&](int turn) {
#pragma unroll
    for (int i = 0; i < AHEAD_CHUNKS / 2; ++i)
      if (weight_chunk + 2 * i < p.chunks) ahead[i] = weight[lane_of(turn) + i * 64];
  };
  // Eight elements of three columns, from element `from` of what lies by lanes.
  auto copy_values = [&](float* to, int from) {
#pragma unroll
    for (int c = 0; c < 3; ++c) copy4(to + 4 * c, p.hidden + (value[c] + from));
  };
  auto place_weights = [&](int turn) {
    float* to = lanes + (turn & 1) * buffer + (weight_half * steps + weight_chunk * 8) * AHEAD_ROWS + weight_row;
#pragma unroll
    for (int i = 0; i < AHEAD_CHUNKS / 2; ++i) {
      if (weight_chunk + 2 * i >= p.chunks) break;
      const uint4 w = weight_mine ? ahead[i] : make_uint4(0, 0, 0, 0);
      const unsigned word[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int j = 0; j < 8; ++j) to[(16 * i + j) * AHEAD_ROWS] = __uint_as_float(j % 2 ? word[j / 2] & 0xffff0000u : word[j / 2] << 16);
    }
  };

  // Of its warp's columns a thread has four of the first eight and two of the rest, and four neighbouring rows.
  const int column = warp * 12 + lane % 2 * 4, column_pair = warp * 12 + 8 + lane % 2 * 2, row = lane / 2 * 4;
  float one[6][4], two[6][4], four[6][4], eight[6][4], sixteen[6][4], sum[6][4];
#pragma unroll
  for (int i = 0; i < 6; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) one[i][j] = two[i][j] = four[i][j] = eight[i][j] = sixteen[i][j] = sum[i][j] = 0.0f;
  await_previous();
  fetch_weights(0);
  for (int step = 0; step < 2 * steps; step += 8) copy_values(value_to + step * AHEAD_STRIDE, step < steps ? step : step + 15 * steps);
  copies_commit();
  place_weights(0);
  copies_wait<0>();
  __syncthreads();
  const int STEPS = 8, AHEAD = 2;
#pragma unroll 1
  for (int turn = 0; turn < 16; ++turn) {
    const bool more = turn < 15;
    if (more) fetch_weights(turn + 1);
    const float* const all = lanes + (turn & 1) * buffer;
    const float* weights = all + row;
    const float* values = all + of_values + column;
    const int pair = column_pair - column;
    float* to = value_to + (turn + 1 & 1) * buffer;
    int from = lane_of(turn + 1) * steps;
    AheadPiece pieces[4];
    auto load = [&](int c) {
      AheadPiece& piece = pieces[c % 4];
      *(float4*)piece.y = *(const float4*)(weights + c % STEPS * AHEAD_ROWS);
      *(float4*)piece.x = *(const float4*)(values + c % STEPS * AHEAD_STRIDE);
      *(float2*)(piece.x + 4) = *(const float2*)(values + c % STEPS * AHEAD_STRIDE + pair);
    };
#pragma unroll
    for (int c = 0; c < AHEAD; ++c) load(c);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
#pragma unroll 1
      for (int step = 0; step < steps; step += STEPS) {
        if (more) copy_values(to, from);
        to += STEPS * AHEAD_STRIDE, from += STEPS;
#pragma unroll
        for (int c = 0; c < STEPS; ++c) {
          if (c + AHEAD == STEPS) {
            weights += STEPS * AHEAD_ROWS, values += STEPS * AHEAD_STRIDE;
            // Behind a turn's last element nothing is used; its first ones are there to be read.
            if (half && step + STEPS == steps) weights = all + row, values = all + of_values + column;
          }
          load(c + AHEAD);
#pragma unroll
          for (int i = 0; i < 6; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) one[i][j] = __fmaf_rn(pieces[c % 4].x[i], pieces[c % 4].y[j], one[i][j]);
        }
      }
      from += 15 * steps;
      carry(two, one, half ? 1.0f : 0.0f);
#pragma unroll
      for (int i = 0; i < 6; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) one[i][j] = 0.0f;
    }
    copies_commit();
    carry(four, two, turn & 1 ? 1.0f : 0.0f);
    if (turn & 1) {
      carry(eight, four, turn & 2 ? 1.0f : 0.0f);
      if (turn & 2) {
        carry(sixteen, eight, turn & 4 ? 1.0f : 0.0f);
        if (turn & 4) carry(sum, sixteen, turn & 8 ? 1.0f : 0.0f);
      }
    }
    if (more) place_weights(turn + 1);
    copies_wait<0>();
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 6; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int c = column0 + (i < 4 ? column + i : column_pair + i - 4), r = row0 + row + j;
      if (c < p.count && r < p.rows) p.out[(size_t)c * p.out_stride + r] = sum[i][j] * p.factor;
    }
}
