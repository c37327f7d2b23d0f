// Attention of a prompt (rules 6 to 8, 12): one sequence, neighbouring positions, keys and values read once for a tile of queries.
//
// The pass's K/V lie in rows by position: full layers have them in the cache, sliding ones in a buffer beside the ring, because a pass is wider than a
// ring's slack. `bulk_store` puts the window before the pass and the pass's own rows there, `bulk_keep` brings what a ring holds back.
// A block of the grid has 64 rows (of heads of 512 values: 32), a row being one head of one token, and walks over blocks of 64 keys in ascending
// order, so the merge of rule 8 happens as it goes. A masked key weighs 0, which changes no sum.
#include "lanes.cuh"
#include "shapes.cuh"

#define BULK_ATTENTION_THREADS 256

struct BulkAttention {
  const Column* columns;
  const int8_t* q;     // [columns x stride] codes
  const int8_t* k;     // codes of the layer that stores; null where another layer stored
  const int8_t* v;
  const float* q_norm;
  const float* k_norm;
  const float* rope;
  int8_t* out;         // codes of the output projection's input
  char* beside;        // a sliding layer's rows by position; null for full layers
  unsigned long long keys, values, key_scales, value_scales;                          // byte offsets from a column's base: the cache
  unsigned long long beside_keys, beside_values, beside_key_scales, beside_value_scales;  // from `beside`
  Scale input;         // of the output projection
  float q_scale, k_scale, v_scale;
  int rope_stride, pairs, slots, beside_slots, dim, heads, kv_heads, window, stride, count, format;
};

// The first position whose rows lie beside a ring: what the pass's first token sees, from a block's start.
static __device__ __forceinline__ int beside_first(const BulkAttention& p, int position) {
  return first_seen(position, p.window) / KEY_BLOCK * KEY_BLOCK;
}

static __device__ __forceinline__ int bytes_of(int format) { return format == F32 ? 4 : format == F16 ? 2 : 1; }

// Where rows of one side are, as if position 0 had one; scales likewise.
static __device__ __forceinline__ const char* rows_of(const BulkAttention& p, const Column& first, int kv_head, bool value,
                                                      const float*& scales) {
  size_t bytes = (size_t)p.dim * bytes_of(p.format);
  if (!p.beside) {
    const char* base = (const char*)first.kv;
    scales = (const float*)(base + (value ? p.value_scales : p.key_scales)) + (size_t)kv_head * p.slots;
    return base + (value ? p.values : p.keys) + (size_t)kv_head * p.slots * bytes;
  }
  long long slot = (long long)kv_head * p.beside_slots - beside_first(p, first.position);
  scales = (const float*)(p.beside + (value ? p.beside_value_scales : p.beside_key_scales)) + slot;
  return p.beside + (value ? p.beside_values : p.beside_keys) + slot * (long long)bytes;
}

// Keys and values of the pass, one block of the grid a column and K/V head, a warp a side. Behind the columns: the window before the pass, a
// row a block, from the ring.
extern "C" __global__ void __launch_bounds__(64) bulk_store(__grid_constant__ const BulkAttention p) {
  extern __shared__ __align__(128) char memory[];
  release_next();
  await_previous();
  const int kv_head = blockIdx.y, side = threadIdx.x / 32, lane = threadIdx.x % 32, bytes = p.dim * bytes_of(p.format);
  const Column first = p.columns[0];
  const float* found_scales;
  char* rows = (char*)rows_of(p, first, kv_head, side == 1, found_scales);
  float* scales = (float*)found_scales;
  if ((int)blockIdx.x >= p.count) {
    int position = beside_first(p, first.position) + blockIdx.x - p.count;
    if (position >= first.position) return;
    size_t slot = (size_t)kv_head * p.slots + position % p.slots;
    const char* from = (const char*)first.kv + (side ? p.values : p.keys) + slot * bytes;
    for (int i = lane; i < bytes / 16; i += 32) ((uint4*)(rows + (long long)position * bytes))[i] = ((const uint4*)from)[i];
    if (p.format == I8 && lane == 0) scales[position] = ((const float*)(first.kv + (side ? p.value_scales : p.key_scales)))[slot];
    return;
  }
  const int position = p.columns[blockIdx.x].position;
  float* row = (float*)memory + side * p.dim;
  size_t at = (size_t)blockIdx.x * p.stride + (size_t)kv_head * p.dim;
  if (side == 0) {
    norm_head(p.k + at, p.k_scale, p.k_norm, p.dim, count_of(p.dim), row);
    turn(row, p.rope + (size_t)position * p.rope_stride, p.pairs, p.dim);
  } else {
    norm_head(p.v + at, p.v_scale, nullptr, p.dim, count_of(p.dim), row);
  }
  char* to = rows + (long long)position * bytes;
  if (p.format == F32) store_row<F32>(row, p.dim, to, nullptr);
  else if (p.format == F16) store_row<F16>(row, p.dim, to, nullptr);
  else store_row<I8>(row, p.dim, to, scales + position);
}

// The rows that a ring holds behind the pass, one block of the grid a row and K/V head.
extern "C" __global__ void __launch_bounds__(64) bulk_keep(__grid_constant__ const BulkAttention p) {
  release_next();
  await_previous();
  const int kv_head = blockIdx.y, side = threadIdx.x / 32, lane = threadIdx.x % 32, bytes = p.dim * bytes_of(p.format);
  const Column first = p.columns[0];
  int position = first.position + p.count - 1 - blockIdx.x;
  if (position < first.position) return;
  const float* scales;
  const char* rows = rows_of(p, first, kv_head, side == 1, scales);
  size_t slot = (size_t)kv_head * p.slots + position % p.slots;
  uint4* to = (uint4*)((char*)first.kv + (side ? p.values : p.keys) + slot * bytes);
  for (int i = lane; i < bytes / 16; i += 32) to[i] = ((const uint4*)(rows + (long long)position * bytes))[i];
  if (p.format == I8 && lane == 0) ((float*)(first.kv + (side ? p.value_scales : p.key_scales)))[slot] = scales[position];
}

// Where a lane lies in a row, so that the stores of `load_rows` meet different banks.
static __device__ __forceinline__ int lane_slot(int lane) { return lane ^ lane >> 3; }

// Eight values of a row as they are stored: `first` and, of f32, `second`.
struct Stored {
  uint4 first, second;
};

template <int FORMAT>
static __device__ __forceinline__ Stored load_stored(const char* rows, long long element) {
  Stored stored = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
  const char* at = rows + element * value_bytes<FORMAT>();
  if (FORMAT == I8) {
    uint2 both = __ldcg((const uint2*)at);
    stored.first.x = both.x, stored.first.y = both.y;
  } else {
    stored.first = __ldcg((const uint4*)at);
    if (FORMAT == F32) stored.second = __ldcg((const uint4*)at + 1);
  }
  return stored;
}

template <int DIM, int FORMAT, bool BY_LANES>
static __device__ __forceinline__ void put_stored(const Stored& stored, bool seen, float scale, float* row, int d) {
  float value[8];
  load8<FORMAT>((const char*)&stored, scale, value);
#pragma unroll
  for (int e = 0; e < 8; ++e) value[e] = seen ? value[e] : 0.0f;
  if (BY_LANES) {
#pragma unroll
    for (int e = 0; e < 8; ++e) row[lane_slot(d % 32 + e) * (DIM / 32 < 4 ? 4 : DIM / 32) + d / 32] = value[e];
  } else {
    *(float4*)(row + d) = make_float4(value[0], value[1], value[2], value[3]);
    *(float4*)(row + d + 4) = make_float4(value[4], value[5], value[6], value[7]);
  }
}

// A thread's share of a block of rows: eight values at a time, rows apart.
template <int DIM>
struct Share {
  static const int PIECES = DIM / 8, STEP = BULK_ATTENTION_THREADS / PIECES, COUNT = KEY_BLOCK / STEP;
};

// Loads a thread's share, all of it under way together; rows that nobody sees are some that are seen.
template <int DIM, int FORMAT, int FROM, int COUNT>
static __device__ __forceinline__ void fetch_rows(Stored (&stored)[COUNT], const char* rows, int base, int lo, int hi) {
  const int j0 = threadIdx.x / Share<DIM>::PIECES, d = threadIdx.x % Share<DIM>::PIECES * 8;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    int j = min(max(j0 + (FROM + i) * Share<DIM>::STEP, lo), hi - 1);
    stored[i] = load_stored<FORMAT>(rows, (long long)(base + j) * DIM + d);
  }
}

// Puts a share as floats: by lanes (`stride` floats a row) for keys, in natural order for values. Rows that nobody sees are 0.
template <int DIM, int FORMAT, bool BY_LANES, int FROM, int COUNT>
static __device__ __forceinline__ void put_rows(const Stored (&stored)[COUNT], const float* scales, int base, int lo, int hi, float* to,
                                                int stride) {
  const int j0 = threadIdx.x / Share<DIM>::PIECES, d = threadIdx.x % Share<DIM>::PIECES * 8;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    int j = j0 + (FROM + i) * Share<DIM>::STEP;
    bool seen = j >= lo && j < hi;
    float scale = FORMAT == I8 && seen ? scales[base + j] : 0.0f;
    put_stored<DIM, FORMAT, BY_LANES>(stored[i], seen, scale, to + j * stride, d);
  }
}

template <int DIM, int FORMAT>
static __device__ __forceinline__ void bulk_attend_rows(const BulkAttention& p) {
  // How much of a thread's share is under way before its room is free: registers say.
  const int SHARE = Share<DIM>::COUNT, AHEAD = FORMAT == F32 ? (SHARE < 4 ? SHARE : 4) : SHARE < 8 ? SHARE : 8, REST = SHARE - AHEAD;
  // Where a lane has fewer than four elements the rest are 0 * 0, which changes no chain.
  const int ROWS = DIM > 256 ? 32 : 64, STEPS = DIM / 32 < 4 ? 4 : DIM / 32, STRIDE = STEPS * 32 + 4, WEIGHTS = ROWS + 4;
  const int PAIRS = ROWS / 16;            // keys of a thread: a warp has 16 rows x 8 * PAIRS keys
  const int WIDE = DIM > 256 ? 256 : DIM;  // values of a warp
  const int VECTOR = WIDE / 32 < 4 ? WIDE / 32 : 4, PARTS = WIDE / 32 / VECTOR;
  extern __shared__ __align__(128) char memory[];
  __shared__ float maxima[64], keeps[64], takes[64];
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

  // Queries: a warp a row, through the weights' room.
#pragma unroll 1
  for (int row = warp; row < ROWS; row += BULK_ATTENTION_THREADS / 32) {
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

  // Rows of the scores: a thread has every fourth of 16 rows and every eighth of its warp's keys.
  const int score_row = warp % (ROWS / 16) * 16 + lane / 8, score_key = warp / (ROWS / 16) * (8 * PAIRS) + lane % 8;
  // Rows and values of the sums: eight rows a warp, and for heads of 512 values half of them.
  const int sum_row = (ROWS == 64 ? warp : warp / 2) * 8, sum_value = (ROWS == 64 ? 0 : warp % 2 * 256) + lane * VECTOR;
  float result[8][PARTS * VECTOR];
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < PARTS * VECTOR; ++j) result[i][j] = 0.0f;

  // A lane keeps the sum of weights of row lane % 8 of its warp's eight.
  float weight_sum = 0.0f;

  const int first_block = first_seen(first_position, p.window) / KEY_BLOCK, last_block = last_position / KEY_BLOCK;
  const int from = first_seen(first_position, p.window);
  Stored ahead[AHEAD];
  fetch_rows<DIM, FORMAT, 0>(ahead, keys, first_block * KEY_BLOCK, max(from - first_block * KEY_BLOCK, 0),
                             min(last_position + 1 - first_block * KEY_BLOCK, KEY_BLOCK));
#pragma unroll 1
  for (int block = first_block; block <= last_block; ++block) {
    const int base = block * KEY_BLOCK, lo = max(from - base, 0), hi = min(last_position + 1 - base, KEY_BLOCK);
    __syncthreads();
    if (DIM / 32 < 4) {
      for (int i = threadIdx.x; i < KEY_BLOCK * STRIDE; i += BULK_ATTENTION_THREADS) rows[i] = 0.0f;
      __syncthreads();
    }
    put_rows<DIM, FORMAT, true, 0>(ahead, key_scales, base, lo, hi, rows, STRIDE);
    if (REST > 0) {
      Stored rest[REST > 0 ? REST : 1];
      fetch_rows<DIM, FORMAT, AHEAD>(rest, keys, base, lo, hi);
      put_rows<DIM, FORMAT, true, AHEAD>(rest, key_scales, base, lo, hi, rows, STRIDE);
    }
    __syncthreads();
    {
      Carries<4, PAIRS> carry;
      float total[4][PAIRS];
#pragma unroll 1
      for (int turn = 0; turn < 8; ++turn) {
        const int l = lane_of_turn(turn);
        const int at[4] = {lane_slot(l) * STEPS, lane_slot(l + 16) * STEPS, lane_slot(l + 8) * STEPS, lane_slot(l + 24) * STEPS};
        lane_turn<4, PAIRS>(carry, total, turn, query + score_row * STRIDE, 4 * STRIDE, rows + score_key * STRIDE, 8 * STRIDE, STEPS,
                            at);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < PAIRS; ++j) weights[(score_key + 8 * j) * WEIGHTS + score_row + 4 * i] = total[i][j];
    }
    __syncthreads();
    // Maxima and weights, a warp a row; the values come meanwhile.
    fetch_rows<DIM, FORMAT, 0>(ahead, values, base, lo, hi);
#pragma unroll 4
    for (int i = 0; i < ROWS / (BULK_ATTENTION_THREADS / 32); ++i) {
      int row = warp + i * (BULK_ATTENTION_THREADS / 32), position = first_position + row / group;
      int begin = max(first_seen(position, p.window) - base, 0), end = row < count ? min(position + 1 - base, KEY_BLOCK) : 0;
      float a = lane >= begin && lane < end ? weights[lane * WEIGHTS + row] : -INFINITY;
      float b = lane + 32 >= begin && lane + 32 < end ? weights[(lane + 32) * WEIGHTS + row] : -INFINITY;
      float top = fmaxf(a, b);
#pragma unroll
      for (int s = 16; s > 0; s /= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, s));
      weights[lane * WEIGHTS + row] = contract_exp(a - top);
      weights[(lane + 32) * WEIGHTS + row] = contract_exp(b - top);
      if (lane == 0) {
        float before = maxima[row], after = fmaxf(before, top);
        maxima[row] = after;
        keeps[row] = contract_exp(before - after);
        takes[row] = contract_exp(top - after);
      }
    }
    put_rows<DIM, FORMAT, false, 0>(ahead, value_scales, base, lo, hi, rows, STRIDE);
    if (REST > 0) {
      Stored rest[REST > 0 ? REST : 1];
      fetch_rows<DIM, FORMAT, AHEAD>(rest, values, base, lo, hi);
      put_rows<DIM, FORMAT, false, AHEAD>(rest, value_scales, base, lo, hi, rows, STRIDE);
    }
    __syncthreads();
    if (block < last_block)
      fetch_rows<DIM, FORMAT, 0>(ahead, keys, base + KEY_BLOCK, 0, min(last_position + 1 - base - KEY_BLOCK, KEY_BLOCK));
    float weight_part = 0.0f;
    float part[8][PARTS * VECTOR];
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < PARTS * VECTOR; ++j) part[i][j] = 0.0f;
#pragma unroll 2
    for (int j = lo; j < hi; ++j) {
      float w[8], v[PARTS * VECTOR];
      *(float4*)w = *(const float4*)(weights + j * WEIGHTS + sum_row);
      *(float4*)(w + 4) = *(const float4*)(weights + j * WEIGHTS + sum_row + 4);
      weight_part = weight_part + weights[j * WEIGHTS + sum_row + lane % 8];
#pragma unroll
      for (int n = 0; n < PARTS; ++n) {
        const float* at = rows + j * STRIDE + sum_value + n * 128;
        if (VECTOR == 4) *(float4*)(v + 4 * n) = *(const float4*)at;
        else if (VECTOR == 2) *(float2*)v = *(const float2*)at;
        else v[0] = *at;
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int n = 0; n < PARTS * VECTOR; ++n) part[i][n] = __fmaf_rn(w[i], v[n], part[i][n]);
    }
    weight_sum = __fmaf_rn(weight_sum, keeps[sum_row + lane % 8], weight_part * takes[sum_row + lane % 8]);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float keep = keeps[sum_row + i], take = takes[sum_row + i];
#pragma unroll
      for (int n = 0; n < PARTS * VECTOR; ++n) result[i][n] = __fmaf_rn(result[i][n], keep, part[i][n] * take);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    int row = sum_row + i;
    float l = __shfl_sync(ALL, weight_sum, i);
    if (row >= count) continue;
    int token = first_token + row / group, head = kv_head * group + row % group;
    int8_t* to = p.out + (size_t)token * p.stride + (size_t)head * DIM + sum_value;
#pragma unroll
    for (int n = 0; n < PARTS; ++n)
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) to[n * 128 + e] = (int8_t)quantise(__fdiv_rn(result[i][n * VECTOR + e], l), p.input);
  }
}

#define BULK_ATTEND(dim)                                                                                              \
  extern "C" __global__ void __launch_bounds__(BULK_ATTENTION_THREADS, 1)                                             \
      bulk_attend_##dim(__grid_constant__ const BulkAttention p) {                                                    \
    if (p.format == F16) bulk_attend_rows<dim, F16>(p);                                                               \
    else if (p.format == F32) bulk_attend_rows<dim, F32>(p);                                                          \
    else bulk_attend_rows<dim, I8>(p);                                                                                \
  }
BULK_ATTEND(32)
BULK_ATTEND(64)
BULK_ATTEND(128)
BULK_ATTEND(256)
BULK_ATTEND(512)
