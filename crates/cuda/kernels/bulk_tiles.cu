// Attention of a prompt and its projection to the per-layer inputs: where a thread's tile is what decides.
//
// A block of the grid has 48 rows (a row being one head of one token; heads of 512 values are in `bulk_wide.cu`), so that a window's blocks of keys fill the multiprocessors evenly,
// and walks over blocks of 64 keys in ascending order, so the merge of rule 8 happens as it goes. A masked key weighs 0, which changes no sum. For the scores a thread has 6 x 4 pairs and every other of the 32 lanes, of which a neighbour has the rest: two sums meet at the
// tree's last level. For the weighted sum it has 12 rows x 4 values. Which thread has what follows from how shared memory serves loads of 16 bytes: half a
// warp at once where lanes i and i ^ 1, or i and i ^ 2, read the same place. So rows do not depend on bit 1 of a lane, keys not on bit 0, and half a warp's
// addresses lie in different banks.
#include "lanes.cuh"
#include "shapes.cuh"

// A thread's share of a block of rows: eight values at a time, rows apart. All of what `fetch_tile` loads is under way together; rows that nobody sees are some that
// are seen.
template <int DIM, int BLOCK>
struct TileShare {
  static const int PIECES = DIM / 8, STEP = BLOCK / PIECES, COUNT = KEY_BLOCK / STEP;
};

template <int DIM, int FORMAT, int BLOCK, int FROM, int COUNT>
static __device__ __forceinline__ void fetch_tile(Stored (&stored)[COUNT], const char* rows, int base, int lo, int hi) {
  typedef TileShare<DIM, BLOCK> Mine;
  const int j0 = threadIdx.x / Mine::PIECES, d = threadIdx.x % Mine::PIECES * 8;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    int j = min(max(j0 + (FROM + i) * Mine::STEP, lo), hi - 1);
    stored[i] = load_stored<FORMAT>(rows, (long long)(base + j) * DIM + d);
  }
}

// The share as floats: by lanes for keys, in natural order for values.
template <int DIM, int FORMAT, int BLOCK, bool BY_LANES, int FROM, int COUNT>
static __device__ __forceinline__ void place_tile(const Stored (&stored)[COUNT], const float* scales, int base, int lo, int hi, float* to,
                                                  int stride) {
  typedef TileShare<DIM, BLOCK> Mine;
  const int j0 = threadIdx.x / Mine::PIECES, d = threadIdx.x % Mine::PIECES * 8;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    int j = j0 + (FROM + i) * Mine::STEP;
    float scale = FORMAT == I8 ? scales[base + min(max(j, lo), hi - 1)] : 0.0f;
    put_stored<DIM, FORMAT, BY_LANES>(stored[i], scale, to + j * stride, d);
  }
}

// Lanes l, l + 16, l + 8 and l + 24 of every pair, in the tree's order; `a` and `b` are the thread's first rows at lane 0, whose next ones are `A_STEP` and `B_STEP`
// floats on.
template <int A, int B, int STEPS, int A_STEP, int B_STEP>
static __device__ __forceinline__ void four_lanes(float (&sum)[A][B], const float* a, const float* b, int l) {
  float other[A][B];
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const int eighth = q == 0 ? 0 : q == 1 ? 2 : q == 2 ? 1 : 3, at = (l + 8 * eighth ^ eighth) * STEPS;
    float lane[A][B];
#pragma unroll
    for (int i = 0; i < A; ++i)
#pragma unroll
      for (int j = 0; j < B; ++j) lane[i][j] = 0.0f;
#pragma unroll 2
    for (int s = 0; s < STEPS; s += 4) {
      float4 x[A], y[B];
#pragma unroll
      for (int j = 0; j < B; ++j) y[j] = *(const float4*)(b + j * B_STEP + at + s);
#pragma unroll
      for (int i = 0; i < A; ++i) x[i] = *(const float4*)(a + i * A_STEP + at + s);
#pragma unroll
      for (int i = 0; i < A; ++i)
#pragma unroll
        for (int j = 0; j < B; ++j) {
          lane[i][j] = __fmaf_rn(x[i].x, y[j].x, lane[i][j]);
          lane[i][j] = __fmaf_rn(x[i].y, y[j].y, lane[i][j]);
          lane[i][j] = __fmaf_rn(x[i].z, y[j].z, lane[i][j]);
          lane[i][j] = __fmaf_rn(x[i].w, y[j].w, lane[i][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < A; ++i)
#pragma unroll
      for (int j = 0; j < B; ++j) {
        if (q == 0) sum[i][j] = lane[i][j];
        else if (q == 1) sum[i][j] = sum[i][j] + lane[i][j];
        else if (q == 2) other[i][j] = lane[i][j];
        else sum[i][j] = sum[i][j] + (other[i][j] + lane[i][j]);
      }
  }
}

template <int DIM, int FORMAT, int ROWS, int BLOCK>
static __device__ __forceinline__ void tile_attend_rows(const BulkAttention& p) {
  const int SHARE = TileShare<DIM, BLOCK>::COUNT, MOST = (FORMAT == F32 ? 4 : 8) * (BLOCK < 256 ? 2 : 1);
  const int AHEAD = SHARE < MOST ? SHARE : MOST, REST = SHARE - AHEAD;
  // Where a lane has fewer than four elements the rest are 0 * 0, which changes no chain.
  const int STEPS = DIM / 32 < 4 ? 4 : DIM / 32, STRIDE = STEPS * 32 + 4, WEIGHTS = ROWS + 4;
  const int A = ROWS / 8 * 256 / BLOCK, B = KEY_BLOCK / 16;
  // Keys of a thread where weights are made.
  const int SLICES = BLOCK / ROWS > 7 ? 8 : 4, SLICE = KEY_BLOCK / SLICES;
  // Values and rows of a thread in the weighted sum.
  const int VALUES = DIM / 64 < 1 ? 1 : DIM / 64, VECTOR = VALUES < 4 ? VALUES : 4, PARTS = VALUES / VECTOR;
  const int GROUPS = BLOCK / (DIM / VALUES), SUM_ROWS = ROWS / GROUPS;
  extern __shared__ __align__(128) char memory[];
  __shared__ float maxima[64], keeps[64], takes[64], tops[BLOCK];
  float* query = (float*)memory;
  float* rows = query + ROWS * STRIDE;
  float* weights = rows + KEY_BLOCK * STRIDE;  // [keys][rows]
  release_next();
  await_previous();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = p.heads / p.kv_heads, tokens = ROWS / group, kv_head = blockIdx.y;
  // The last tokens have the most keys and come first.
  const int first_token = (gridDim.x - 1 - blockIdx.x) * tokens, count = min(tokens, p.count - first_token) * group;
  const Column first = p.columns[0];
  const int first_position = first.position + first_token, last_position = first_position + count / group - 1;
  const float *key_scales, *value_scales;
  const char* keys = rows_of(p, first, kv_head, false, key_scales);
  const char* values = rows_of(p, first, kv_head, true, value_scales);

  if (p.beside && warp < 2) refill_ring<DIM, FORMAT>(p, first, kv_head, warp == 1);

  // Queries: a warp a row, through the keys' room.
#pragma unroll 1
  for (int row = warp; row < ROWS; row += BLOCK / 32) {
    float* natural = rows + warp * DIM;
    float* to = query + row * STRIDE;
    if (row < count) {
      int token = first_token + row / group, head = kv_head * group + row % group;
      norm_head(p.q + (size_t)token * p.stride + (size_t)head * DIM, p.q_scale, p.q_norm, DIM, count_of(DIM), natural);
      turn(natural, p.rope + (size_t)(first.position + token) * p.rope_stride, p.pairs, DIM);
    }
#pragma unroll 1
    for (int s = 0; s < STEPS; ++s) to[lane_slot(lane) * STEPS + s] = row < count && s < DIM / 32 ? natural[s * 32 + lane] : 0.0f;
    __syncwarp();
  }
  if (threadIdx.x < 64) maxima[threadIdx.x] = -INFINITY;

  // Scores: rows `score_row` + 8 i, keys `score_key` + 16 j. Neighbouring lanes of the sum lie 4 * SPLIT banks apart, so rows and keys of half a warp lie at the other two of
  // 4, 8 and 16.
  const int SPLIT = STEPS / 4, LOW = SPLIT == 1 ? 2 : 1, HIGH = SPLIT == 4 ? 2 : 4;
  const int odd = lane >> 2 & 1;
  // Two warps take turns by rows, four of such pairs by keys.
  const int key_warp = warp >> 1;
  const int score_row = (lane & 1) * LOW + (lane >> 3 & 1) * HIGH + (warp & 1) * SPLIT;
  const int score_key = (lane >> 1 & 1) * LOW + (lane >> 4) * HIGH + (key_warp & 1) * SPLIT + (key_warp >> 1) * 8;
  const int weight_row = threadIdx.x % ROWS, slice = threadIdx.x / ROWS;
  const int sum_row = ((lane & 1) + 2 * (warp % (GROUPS / 2))) * SUM_ROWS, sum_value = (lane / 2 + 16 * (warp / (GROUPS / 2))) * VECTOR;
  float result[SUM_ROWS][VALUES];
#pragma unroll
  for (int i = 0; i < SUM_ROWS; ++i)
#pragma unroll
    for (int j = 0; j < VALUES; ++j) result[i][j] = 0.0f;
  // The sums of weights: a quarter of the rows for each of four warps.
  const bool sums_weights = warp < 4 && lane < ROWS / 4;
  const int own_row = sums_weights ? warp * (ROWS / 4) + lane : 0;
  float weight_sum = 0.0f;

  const int from = first_seen(first_position, p.window), first_block = from / KEY_BLOCK, last_block = last_position / KEY_BLOCK;
  Stored ahead[AHEAD];
  fetch_tile<DIM, FORMAT, BLOCK, 0>(ahead, keys, first_block * KEY_BLOCK, max(from - first_block * KEY_BLOCK, 0),
                             min(last_position + 1 - first_block * KEY_BLOCK, KEY_BLOCK));
#pragma unroll 1
  for (int block = first_block; block <= last_block; ++block) {
    const int base = block * KEY_BLOCK, lo = max(from - base, 0), hi = min(last_position + 1 - base, KEY_BLOCK);
    __syncthreads();
    if (DIM / 32 < 4) {
      for (int i = threadIdx.x; i < KEY_BLOCK * STRIDE; i += BLOCK) rows[i] = 0.0f;
      __syncthreads();
    }
    place_tile<DIM, FORMAT, BLOCK, true, 0>(ahead, key_scales, base, lo, hi, rows, STRIDE);
    if (REST > 0) {
      Stored rest[REST > 0 ? REST : 1];
      fetch_tile<DIM, FORMAT, BLOCK, AHEAD>(rest, keys, base, lo, hi);
      place_tile<DIM, FORMAT, BLOCK, true, AHEAD>(rest, key_scales, base, lo, hi, rows, STRIDE);
    }
    __syncthreads();
    {
      float before[A][B], total[A][B];
#pragma unroll 1
      for (int turn = 0; turn < 4; ++turn) {
        float sum[A][B];
        four_lanes<A, B, STEPS, 8 * STRIDE, 16 * STRIDE>(sum, query + score_row * STRIDE, rows + score_key * STRIDE,
                                                         odd + (turn & 1) * 4 + (turn & 2));
#pragma unroll
        for (int i = 0; i < A; ++i)
#pragma unroll
          for (int j = 0; j < B; ++j) {
            if (turn & 1) {
              float value = before[i][j] + sum[i][j];
              total[i][j] = turn & 2 ? total[i][j] + value : value;
            } else {
              before[i][j] = sum[i][j];
            }
          }
      }
      // Even and odd lanes meet; each thread ends with half of the keys.
#pragma unroll
      for (int i = 0; i < A; ++i)
#pragma unroll
        for (int j = 0; j < B / 2; ++j) {
          float kept = odd ? total[i][B / 2 + j] : total[i][j], given = odd ? total[i][j] : total[i][B / 2 + j];
          weights[(score_key + 16 * (odd * (B / 2) + j)) * WEIGHTS + score_row + 8 * i] =
              kept + __shfl_xor_sync(ALL, given, 4);
        }
    }
    __syncthreads();
    // Maxima and weights: a thread has a row's scores of a slice of the keys. The values come meanwhile.
    fetch_tile<DIM, FORMAT, BLOCK, 0>(ahead, values, base, lo, hi);
    float score[SLICE];
    if (slice < SLICES) {
      int position = first_position + weight_row / group, begin = max(first_seen(position, p.window) - base, 0);
      int end = weight_row < count ? min(position + 1 - base, KEY_BLOCK) : 0;
      float top = -INFINITY;
#pragma unroll
      for (int k = 0; k < SLICE; ++k) {
        int j = slice * SLICE + k;
        score[k] = j >= begin && j < end ? weights[j * WEIGHTS + weight_row] : -INFINITY;
        top = fmaxf(top, score[k]);
      }
      tops[slice * ROWS + weight_row] = top;
    }
    __syncthreads();
    if (slice < SLICES) {
      float top = tops[weight_row];
#pragma unroll
      for (int k = 1; k < SLICES; ++k) top = fmaxf(top, tops[k * ROWS + weight_row]);
#pragma unroll
      for (int k = 0; k < SLICE; ++k) weights[(slice * SLICE + k) * WEIGHTS + weight_row] = contract_exp(score[k] - top);
      if (slice == 0) {
        float before = maxima[weight_row], after = fmaxf(before, top);
        maxima[weight_row] = after;
        keeps[weight_row] = contract_exp(before - after);
        takes[weight_row] = contract_exp(top - after);
      }
    }
    place_tile<DIM, FORMAT, BLOCK, false, 0>(ahead, value_scales, base, lo, hi, rows, STRIDE);
    if (REST > 0) {
      Stored rest[REST > 0 ? REST : 1];
      fetch_tile<DIM, FORMAT, BLOCK, AHEAD>(rest, values, base, lo, hi);
      place_tile<DIM, FORMAT, BLOCK, false, AHEAD>(rest, value_scales, base, lo, hi, rows, STRIDE);
    }
    __syncthreads();
    if (block < last_block)
      fetch_tile<DIM, FORMAT, BLOCK, 0>(ahead, keys, base + KEY_BLOCK, 0, min(last_position + 1 - base - KEY_BLOCK, KEY_BLOCK));
    if (sums_weights) {
      float sum = 0.0f;
#pragma unroll 8
      for (int j = lo; j < hi; ++j) sum = sum + weights[j * WEIGHTS + own_row];
      weight_sum = __fmaf_rn(weight_sum, keeps[own_row], sum * takes[own_row]);
    }
    float part[SUM_ROWS][VALUES];
#pragma unroll
    for (int i = 0; i < SUM_ROWS; ++i)
#pragma unroll
      for (int j = 0; j < VALUES; ++j) part[i][j] = 0.0f;
#pragma unroll 2
    for (int j = lo; j < hi; ++j) {
      float w[SUM_ROWS], v[VALUES];
#pragma unroll
      for (int i = 0; i < SUM_ROWS; i += SUM_ROWS % 4 ? 2 : 4) {
        const float* at = weights + j * WEIGHTS + sum_row + i;
        if (SUM_ROWS % 4) *(float2*)(w + i) = *(const float2*)at;
        else *(float4*)(w + i) = *(const float4*)at;
      }
#pragma unroll
      for (int n = 0; n < PARTS; ++n) {
        const float* at = rows + j * STRIDE + sum_value + n * (DIM / 2);
        if (VECTOR == 4) *(float4*)(v + 4 * n) = *(const float4*)at;
        else if (VECTOR == 2) *(float2*)v = *(const float2*)at;
        else v[0] = *at;
      }
#pragma unroll
      for (int i = 0; i < SUM_ROWS; ++i)
#pragma unroll
        for (int n = 0; n < VALUES; ++n) part[i][n] = __fmaf_rn(w[i], v[n], part[i][n]);
    }
#pragma unroll
    for (int i = 0; i < SUM_ROWS; ++i) {
      float keep = keeps[sum_row + i], take = takes[sum_row + i];
#pragma unroll
      for (int n = 0; n < VALUES; ++n) result[i][n] = __fmaf_rn(result[i][n], keep, part[i][n] * take);
    }
  }
  if (sums_weights) maxima[own_row] = weight_sum;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < SUM_ROWS; ++i) {
    int row = sum_row + i;
    if (row >= count) continue;
    int token = first_token + row / group, head = kv_head * group + row % group;
    int8_t* to = p.out + (size_t)token * p.stride + (size_t)head * DIM + sum_value;
    float l = maxima[row];
#pragma unroll
    for (int n = 0; n < PARTS; ++n)
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) to[n * (DIM / 2) + e] = (int8_t)quantise(__fdiv_rn(result[i][n * VECTOR + e], l), p.input);
  }
}

#define TILE_ATTEND(name, dim, rows, threads, blocks)                                                                 \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(__grid_constant__ const BulkAttention p) {       \
    if (p.format == F16) tile_attend_rows<dim, F16, rows, threads>(p);                                                \
    else if (p.format == F32) tile_attend_rows<dim, F32, rows, threads>(p);                                           \
    else tile_attend_rows<dim, I8, rows, threads>(p);                                                                 \
  }
TILE_ATTEND(bulk_attend_32, 32, 48, 256, 1)
TILE_ATTEND(bulk_attend_128, 128, 48, 256, 1)
// Where 48 rows a block (bulk_apart.cu) would not reach every multiprocessor: twice as many blocks, a thread has 3 x 4 pairs and 6 rows of values.
TILE_ATTEND(bulk_attend_64, 64, 24, 256, 1)
TILE_ATTEND(bulk_attend_256, 256, 24, 256, 1)

#define BULK_PROJECT_COLUMNS 48
#define BULK_PROJECT_ROWS 64
#define BULK_PROJECT_THREADS 128

// Rule 10 for tiles of 64 rows x 48 columns, 4 x 6 pairs a thread, two blocks a multiprocessor. Shared memory has four lanes of both at a time.
extern "C" __global__ void __launch_bounds__(BULK_PROJECT_THREADS, 2) bulk_project(__grid_constant__ const Project p) {
  extern __shared__ __align__(128) float lanes[];
  release_next();
  if (gathers(p)) return;
  await_previous();
  const int steps = p.width / 32, stride = 4 * steps + 4;
  float* weights = lanes;
  float* values = lanes + BULK_PROJECT_ROWS * stride;
  const int row0 = blockIdx.x * BULK_PROJECT_ROWS, column0 = (blockIdx.y - 1) * BULK_PROJECT_COLUMNS;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // A thread's columns are `column` + 8 i, its rows `row` + 16 j.
  const int column = (lane & 1) + (lane >> 3 & 1) * 2 + (warp & 1) * 4;
  const int row = (lane >> 1 & 1) + (lane >> 2 & 1) * 2 + (lane >> 4) * 4 + (warp >> 1) * 8;
  Carries<6, 4> carry;
  float total[6][4];
#pragma unroll 1
  for (int turn = 0; turn < 8; ++turn) {
    const int first = lane_of_turn(turn);
    if (turn) __syncthreads();
    // bf16 weights: [rows][chunks of 256 inputs][32 lanes][8].
#pragma unroll 2
    for (int i = threadIdx.x; i < BULK_PROJECT_ROWS * 4 * p.chunks; i += BULK_PROJECT_THREADS) {
      int at = i / (4 * p.chunks), rest = i - at * 4 * p.chunks, q = rest / p.chunks, chunk = rest - q * p.chunks;
      uint4 w = make_uint4(0, 0, 0, 0);
      if (row0 + at < p.rows) w = p.weights[((size_t)(row0 + at) * p.chunks + chunk) * 32 + first + 8 * q];
      float* to = weights + at * stride + q * steps + chunk * 8;
      const unsigned word[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int j = 0; j < 8; j += 4)
        if (chunk * 8 + j < steps)
          *(float4*)(to + j) = make_float4(__uint_as_float(word[j / 2] << 16), __uint_as_float(word[j / 2] & 0xffff0000u),
                                           __uint_as_float(word[j / 2 + 1] << 16), __uint_as_float(word[j / 2 + 1] & 0xffff0000u));
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < BULK_PROJECT_COLUMNS * steps; i += BULK_PROJECT_THREADS) {
      int at = i / steps, rest = i - at * steps, q = rest / (steps / 4), piece = rest - q * (steps / 4);
      float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (column0 + at < p.count) x = ((const float4*)(p.hidden + (size_t)(column0 + at) * p.width + (first + 8 * q) * steps))[piece];
      *(float4*)(values + at * stride + q * steps + piece * 4) = x;
    }
    __syncthreads();
    const int at[4] = {0, 2 * steps, steps, 3 * steps};
    lane_turn<6, 4>(carry, total, turn, values + column * stride, 8 * stride, weights + row * stride, 16 * stride, steps, at);
  }
#pragma unroll
  for (int i = 0; i < 6; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int c = column0 + column + 8 * i, r = row0 + row + 16 * j;
      if (c < p.count && r < p.rows) p.out[(size_t)c * p.out_stride + r] = total[i][j] * p.factor;
    }
}
