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
  if (gathers(p)) return;
  const int steps = p.width / 32, buffer = 2 * steps * (AHEAD_ROWS + AHEAD_STRIDE), of_values = 2 * steps * AHEAD_ROWS;
  const int row0 = blockIdx.x * AHEAD_ROWS, column0 = (blockIdx.y - 1) * AHEAD_COLUMNS;
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

// The same in tiles of 128 x 128, where there are enough of them: 8 x 8 pairs a thread, so that 16 loaded values serve 64 multiply-adds (ten serve 24 above; a value that shared memory
// hands on to a warp takes its unit a cycle, which 64 multiply-adds of a warp give it 16 of).
//
// Lanes of the sum come one at a time. What waits for its partner on the tree's first level stays in registers, the three levels above lie in shared memory, every thread's own: they are wanted
// once in 4, 8 and 16 lanes. Both operands come eight elements of a lane at a time, by way of registers, two stages before they are multiplied: at the one barrier of a stage everybody has
// left the stage before, whose room takes the stage after the next one, and the next one's values are there, so a thread's loads go on from stage to stage.
#define SQUARE_TILE 128
#define SQUARE_STEPS 8
#define SQUARE_STRIDE 132  // from an element's rows or columns to the next one's
#define SQUARE_STAGE (2 * SQUARE_STEPS * SQUARE_STRIDE)
#define SQUARE_STAGES 3
#define SQUARE_LEVELS 3

struct SquarePiece {
  alignas(16) float x[8];
  alignas(16) float y[8];
};

extern "C" __global__ void __launch_bounds__(AHEAD_THREADS, 1) bulk_project_square(__grid_constant__ const Project p) {
  extern __shared__ __align__(128) float lanes[];
  release_next();
  if (gathers(p)) return;
  const int steps = p.width / 32, stages = 32 * p.chunks;
  const int row0 = blockIdx.x * SQUARE_TILE, column0 = (blockIdx.y - 1) * SQUARE_TILE;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* levels = lanes + SQUARE_STAGES * SQUARE_STAGE + threadIdx.x;
  // A thread brings half of the eight elements of a row and of a column; what lies outside is some that lies inside.
  const int brought = threadIdx.x / 2, half = threadIdx.x % 2;
  const uint2* weight = (const uint2*)(p.weights + (size_t)min(row0 + brought, p.rows - 1) * p.chunks * 32) + half;
  const float* value = p.hidden + (size_t)min(column0 + brought, p.count - 1) * p.width + half * 4;
  uint2 next_weights;
  float4 next_values;
  int chunk = 0, turn = 0;  // of what is fetched next
  auto lane_of = [](int turn) { return (turn & 1) << 4 | (turn & 2) << 2 | (turn & 4) | (turn & 8) >> 2 | turn >> 4; };
  auto fetch = [&]() {
    const int of = lane_of(turn);
    next_weights = weight[(chunk * 32 + of) * 2];
    next_values = __ldcg((const float4*)(value + of * steps + chunk * SQUARE_STEPS));
    if (++chunk == p.chunks) chunk = 0, ++turn;
  };
  auto place = [&](int slot) {
    float* to = lanes + slot * SQUARE_STAGE + half * 4 * SQUARE_STRIDE + brought;
    to[0] = __uint_as_float(next_weights.x << 16), to[SQUARE_STRIDE] = __uint_as_float(next_weights.x & 0xffff0000u);
    to[2 * SQUARE_STRIDE] = __uint_as_float(next_weights.y << 16), to[3 * SQUARE_STRIDE] = __uint_as_float(next_weights.y & 0xffff0000u);
    to += SQUARE_STEPS * SQUARE_STRIDE;
    to[0] = next_values.x, to[SQUARE_STRIDE] = next_values.y, to[2 * SQUARE_STRIDE] = next_values.z, to[3 * SQUARE_STRIDE] = next_values.w;
  };

  // A warp has 64 rows and 32 columns, a thread two times four neighbours of each.
  const int row = warp % 2 * 64 + lane % 8 * 4, column = warp / 2 * 32 + lane / 8 * 4;
  float one[8][8], two[8][8];
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) one[i][j] = two[i][j] = 0.0f;
  await_previous();
  fetch();
  place(0);
  fetch();
  place(1);
  fetch();
  __syncthreads();
  SquarePiece pieces[2];
  auto load = [&](SquarePiece& piece, const float* from) {
    *(float4*)piece.y = *(const float4*)(from + row);
    *(float4*)(piece.y + 4) = *(const float4*)(from + row + 32);
    *(float4*)piece.x = *(const float4*)(from + SQUARE_STEPS * SQUARE_STRIDE + column);
    *(float4*)(piece.x + 4) = *(const float4*)(from + SQUARE_STEPS * SQUARE_STRIDE + column + 16);
  };
  load(pieces[0], lanes);
  int slot = 0, stage = 0;  // `slot`: the stage's room
#pragma unroll 1
  for (int done = 1; done <= 32; ++done) {
#pragma unroll 1
    for (int left = p.chunks; left > 0; --left, ++stage) {
      // The first two stages are there, and nobody has been in another room yet.
      if (stage > 0) __syncthreads();
      if (stage + 2 < stages) place(slot == 0 ? 2 : slot - 1);
      if (stage + 3 < stages) fetch();
      const float* now = lanes + slot * SQUARE_STAGE;
      slot = slot == 2 ? 0 : slot + 1;
      const float* after = lanes + slot * SQUARE_STAGE;
#pragma unroll
      for (int s = 0; s < SQUARE_STEPS; ++s) {
        // Behind the last stage nothing is used; what is there may be read.
        load(pieces[(s + 1) % 2], s + 1 < SQUARE_STEPS ? now + (s + 1) * SQUARE_STRIDE : after);
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
          for (int j = 0; j < 8; ++j) one[i][j] = __fmaf_rn(pieces[s % 2].x[i], pieces[s % 2].y[j], one[i][j]);
      }
    }
    // A lane is over: like the carries of a counter. What has no partner yet waits on its level, the first sixteen lanes' sums where the results go.
    if (done & 1) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) two[i][j] = one[i][j], one[i][j] = 0.0f;
      continue;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) one[i][j] = two[i][j] + one[i][j];
    float* at = levels;
    int level = 0;
#pragma unroll 1
    for (; level < SQUARE_LEVELS && !(done >> (level + 1) & 1); ++level, at += 64 * AHEAD_THREADS) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) one[i][j] = at[(i * 8 + j) * AHEAD_THREADS] + one[i][j];
    }
    if (level < SQUARE_LEVELS) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) at[(i * 8 + j) * AHEAD_THREADS] = one[i][j], one[i][j] = 0.0f;
      continue;
    }
    const bool last = done == 32;
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        const int c = column0 + column + i % 4 + i / 4 * 16, r = row0 + row + j * 8;
        if (c < p.count && r < p.rows) {
          float4* to = (float4*)(p.out + (size_t)c * p.out_stride + r);
          float4 sum = make_float4(one[i][j], one[i][j + 1], one[i][j + 2], one[i][j + 3]);
          if (last) {
            const float4 other = *to;
            sum = make_float4((other.x + sum.x) * p.factor, (other.y + sum.y) * p.factor, (other.z + sum.z) * p.factor, (other.w + sum.w) * p.factor);
          }
          *to = sum;
        }
        one[i][j] = one[i][j + 1] = one[i][j + 2] = one[i][j + 3] = 0.0f;
      }
  }
}
