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

// The same in tiles of 112 rows x 128 columns, where there are enough of them: 7 x 8 pairs a thread, so that 15 loaded values serve 56 multiply-adds. E2B's 3,584 rows and 1,024 columns are 256 tiles, which
// fill 132 multiprocessors twice but for eight (224 tiles of 128 x 128 left 40 without work, and took 8 / 7 of the time each).
//
// Lanes of the sum come one at a time. What waits for its partner on the tree's first level stays in registers, the three levels above lie in shared memory, every thread's own: they are wanted
// once in 4, 8 and 16 lanes. Both operands come sixteen elements of a lane at a time, by way of registers, two stages before they are multiplied: at the one barrier of a stage everybody has
// left the stage before, whose room takes the stage after the next one, and the next one's values are there, so a thread's loads go on from stage to stage, two elements ahead of its products.
// What a stage brings is stored and fetched among its first products, without a branch: behind the last stage it is something that lies inside and that nobody reads.
//
// Loads of 16 bytes take shared memory half as long where lanes i and i ^ 1, or i and i ^ 2, read the same place: rows do not depend on bit 1 of a lane, columns not on bit 0. Of the seven rows four are
// neighbours and so are three, which lie four apart, so that both are such loads.
#define SQUARE_ROWS 112
#define SQUARE_COLUMNS 128
#define SQUARE_STEPS 16
#define SQUARE_STRIDE 132  // from an element's rows or columns to the next one's
#define SQUARE_STAGE (2 * SQUARE_STEPS * SQUARE_STRIDE)
#define SQUARE_STAGES 3
#define SQUARE_LEVELS 3
#define SQUARE_AHEAD 2
#define SQUARE_PAIRS 56

struct SquarePiece {
  alignas(16) float x[8];
  alignas(16) float y[8];  // the last one is nobody's
};

extern "C" __global__ void __launch_bounds__(AHEAD_THREADS, 1) bulk_project_square(__grid_constant__ const Project p) {
  extern __shared__ __align__(128) float lanes[];
  release_next();
  if (gathers(p)) return;
  const int steps = p.width / 32, lane_stages = p.chunks / 2;
  const int row0 = blockIdx.x * SQUARE_ROWS, column0 = (blockIdx.y - 1) * SQUARE_COLUMNS;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float4* levels = (float4*)(lanes + SQUARE_STAGES * SQUARE_STAGE) + threadIdx.x;
  // A thread brings half of the sixteen elements of a place among the rows and of a column, every other four of them, so that two threads read a sector; what lies outside is some that lies inside. Of a
  // warp row's 64 places the first 32 are rows side by side, every fourth of the others is empty.
  const int place = threadIdx.x / 2, half = threadIdx.x % 2, behind = place % 32;
  const int brought = place / 64 * (SQUARE_ROWS / 2) + (place % 64 < 32 ? behind : 32 + behind / 4 * 3 + min(behind % 4, 2));
  const uint2* weight = (const uint2*)(p.weights + (size_t)min(row0 + brought, p.rows - 1) * p.chunks * 32) + half;
  const float* value = p.hidden + (size_t)min(column0 + place, p.count - 1) * p.width + half * 4;
  float* const to = lanes + half * 4 * SQUARE_STRIDE + place;
  uint2 next_weights[2];
  float4 next_values[2];
  int turn = 0, part = 0;  // the lane's turn and its stage that are fetched next
  auto fetch = [&]() {
    const int of = __brev(turn) >> 27;
    next_weights[0] = weight[part * 128 + of * 2];
    next_weights[1] = weight[part * 128 + of * 2 + 64];
    next_values[0] = __ldcg((const float4*)(value + (of * steps + part * SQUARE_STEPS)));
    next_values[1] = __ldcg((const float4*)(value + (of * steps + part * SQUARE_STEPS)) + 2);
    const bool over = ++part == lane_stages;
    part = over ? 0 : part, turn = over ? min(turn + 1, 31) : turn;
  };
  // Two of the thread's eight elements.
  auto store = [&](float* to, int pair) {
    const unsigned word = pair % 2 ? next_weights[pair / 2].y : next_weights[pair / 2].x;
    const float4 four = next_values[pair / 2];
    to += (pair / 2 * 8 + pair % 2 * 2) * SQUARE_STRIDE;
    to[0] = __uint_as_float(word << 16), to[SQUARE_STRIDE] = __uint_as_float(word & 0xffff0000u);
    to += SQUARE_STEPS * SQUARE_STRIDE;
    to[0] = pair % 2 ? four.z : four.x, to[SQUARE_STRIDE] = pair % 2 ? four.w : four.y;
  };

  // A warp has 56 rows and 32 columns, a thread four rows, three rows and two times four columns.
  const int row_group = lane % 2 + lane / 4 % 4 * 2, row = warp % 2 * 64 + row_group * 4;
  const int column = warp / 2 * 32 + (lane / 2 % 2 + lane / 16 * 2) * 4;
  float one[SQUARE_PAIRS], two[SQUARE_PAIRS];
#pragma unroll
  for (int i = 0; i < SQUARE_PAIRS; ++i) one[i] = two[i] = 0.0f;
  await_previous();
#pragma unroll
  for (int stage = 0; stage < 2; ++stage) {
    fetch();
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) store(to + stage * SQUARE_STAGE, pair);
  }
  fetch();
  __syncthreads();
  SquarePiece pieces[4];
  auto load = [&](SquarePiece& piece, const float* from) {
    *(float4*)piece.y = *(const float4*)(from + row);
    *(float4*)(piece.y + 4) = *(const float4*)(from + row + 32);
    *(float4*)piece.x = *(const float4*)(from + SQUARE_STEPS * SQUARE_STRIDE + column);
    *(float4*)(piece.x + 4) = *(const float4*)(from + SQUARE_STEPS * SQUARE_STRIDE + column + 16);
  };
#pragma unroll
  for (int s = 0; s < SQUARE_AHEAD; ++s) load(pieces[s], lanes + s * SQUARE_STRIDE);
  int now = 0, after = SQUARE_STAGE, last = 2 * SQUARE_STAGE;  // rooms of the stage, of the next one, and of the one before, which the one after the next takes
#pragma unroll 1
  for (int done = 1; done <= 32; ++done) {
#pragma unroll 1
    for (int left = lane_stages; left > 0; --left) {
      __syncthreads();
#pragma unroll
      for (int s = 0; s < SQUARE_STEPS; ++s) {
        const int ahead = s + SQUARE_AHEAD;
        load(pieces[ahead % 4], lanes + (ahead < SQUARE_STEPS ? now : after) + ahead % SQUARE_STEPS * SQUARE_STRIDE);
        if (s < 4) store(to + last, s);
        if (s == 4) fetch();
#pragma unroll
        for (int i = 0; i < SQUARE_PAIRS; ++i) one[i] = __fmaf_rn(pieces[s % 4].x[i / 7], pieces[s % 4].y[i % 7], one[i]);
      }
      const int room = last;
      last = now, now = after, after = room;
    }
    // A lane is over: like the carries of a counter. What has no partner yet waits on its level, the first sixteen lanes' sums where the results go.
    if (done & 1) {
#pragma unroll
      for (int i = 0; i < SQUARE_PAIRS; ++i) two[i] = one[i], one[i] = 0.0f;
      continue;
    }
#pragma unroll
    for (int i = 0; i < SQUARE_PAIRS; ++i) one[i] = two[i] + one[i];
    float4* at = levels;
    int level = 0;
#pragma unroll 1
    for (; level < SQUARE_LEVELS && !(done >> (level + 1) & 1); ++level, at += SQUARE_PAIRS / 4 * AHEAD_THREADS) {
#pragma unroll
      for (int i = 0; i < SQUARE_PAIRS; i += 4) {
        const float4 other = at[i / 4 * AHEAD_THREADS];
        one[i] = other.x + one[i], one[i + 1] = other.y + one[i + 1], one[i + 2] = other.z + one[i + 2], one[i + 3] = other.w + one[i + 3];
      }
    }
    if (level < SQUARE_LEVELS) {
#pragma unroll
      for (int i = 0; i < SQUARE_PAIRS; i += 4) {
        at[i / 4 * AHEAD_THREADS] = make_float4(one[i], one[i + 1], one[i + 2], one[i + 3]);
        one[i] = one[i + 1] = one[i + 2] = one[i + 3] = 0.0f;
      }
      continue;
    }
    // Rows are a multiple of four, so the first four of a thread are there or not. All of what is read is under way at once; what lies outside is some that lies inside.
    const int first = row0 + warp % 2 * (SQUARE_ROWS / 2) + row_group * 4, then = first + 32 - row_group;
    auto out_at = [&](int i) { return p.out + (size_t)min(column0 + column + i % 4 + i / 4 * 16, p.count - 1) * p.out_stride; };
    if (done == 32) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float* at = out_at(i);
        const float4 four = *(const float4*)(at + min(first, p.rows - 4));
        two[7 * i] = four.x, two[7 * i + 1] = four.y, two[7 * i + 2] = four.z, two[7 * i + 3] = four.w;
#pragma unroll
        for (int j = 0; j < 3; ++j) two[7 * i + 4 + j] = at[min(then + j, p.rows - 1)];
      }
#pragma unroll
      for (int i = 0; i < SQUARE_PAIRS; ++i) one[i] = (two[i] + one[i]) * p.factor;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float* at = out_at(i);
      if (column0 + column + i % 4 + i / 4 * 16 < p.count) {
        if (first < p.rows) *(float4*)(at + first) = make_float4(one[7 * i], one[7 * i + 1], one[7 * i + 2], one[7 * i + 3]);
#pragma unroll
        for (int j = 0; j < 3; ++j)
          if (then + j < p.rows) at[then + j] = one[7 * i + 4 + j];
      }
#pragma unroll
      for (int j = 0; j < 7; ++j) one[7 * i + j] = 0.0f;
    }
  }
}
