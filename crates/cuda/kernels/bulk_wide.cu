// Attention of a prompt for heads of 512 values: 32 rows a block of the grid (a row being one head of one token), keys and values in one place by turns.
//
// For the scores a thread has 8 x 4 pairs and a quarter of the 32 lanes of the sum; the tree's last two levels are shuffles, after which it has 2 x 4 of them. Queries and
// keys lie by elements, in the order in which a thread meets them: element d of a lane class (lane % 4) is number ((turn, lane / 16), d / 32), so addresses only go on. Rows of a word
// are neighbouring registers then, which a multiply-add can read without two of one bank. Words of four rows lie where neither a store nor a load meets a bank twice: a load of
// 16 bytes serves half a warp at once where lanes i and i ^ 1, or i and i ^ 2, read the same place, so keys do not depend on bit 0 of a lane and rows not on bits 1 and 2.
#include "lanes.cuh"
#include "shapes.cuh"

#define WIDE_ROWS 32
#define WIDE_THREADS 256
#define WIDE_DIM 512
#define WIDE_WEIGHTS 36  // from a key's weights to the next key's
#define WIDE_NATURAL (WIDE_DIM + 4)

// What a thread brings of a block of 64 rows, as in `bulk_apart.cu`.
template <int FORMAT>
struct WideShare {
  static const int COUNT = KEY_BLOCK * WIDE_DIM / 8 / WIDE_THREADS, AT_ONCE = FORMAT == F32 ? COUNT / 2 : COUNT, ROUNDS = COUNT / AT_ONCE;
  Stored stored[AT_ONCE];
  float scale[AT_ONCE];
};

// Of keys a warp has four rows and eight neighbouring pieces of each, of values 32 pieces of a row.
template <bool KEYS>
static __device__ __forceinline__ int wide_row(int piece) {
  return KEYS ? threadIdx.x / 32 * 4 + threadIdx.x % 4 + piece % 2 * 32 : threadIdx.x / 64 + piece * 4;
}
template <bool KEYS>
static __device__ __forceinline__ int wide_value(int piece) {
  return KEYS ? threadIdx.x % 32 / 4 * 8 + piece / 2 * 64 : threadIdx.x % 64 * 8;
}

template <int FORMAT, bool KEYS>
static __device__ __forceinline__ void wide_fetch(WideShare<FORMAT>& share, int round, const char* rows, const float* scales, int base, int lo, int hi) {
#pragma unroll
  for (int i = 0; i < WideShare<FORMAT>::AT_ONCE; ++i) {
    const int piece = round * WideShare<FORMAT>::AT_ONCE + i, j = base + min(max(wide_row<KEYS>(piece), lo), hi - 1);
    share.stored[i] = load_stored<FORMAT>(rows, (long long)j * WIDE_DIM + wide_value<KEYS>(piece));
    if (FORMAT == I8) share.scale[i] = scales[j];
  }
}

// Where element d lies: lanes by class, turns of two lanes 16 apart, their bits reversed, then the elements of a lane.
static __device__ __forceinline__ int wide_slot(int d) {
  return (d & 3) | d / 32 * 4 | (d & 16) << 2 | (d & 8) << 4 | (d & 4) << 6;
}
// What the number of a word of four keys is turned by there, and of a word of four rows.
static __device__ __forceinline__ int wide_key_turn(int d) { return (d / 8 & 7) ^ (d & 3) << 2; }
static __device__ __forceinline__ int wide_row_turn(int d) { return (d & 3) << 1; }

template <int FORMAT, bool KEYS>
static __device__ __forceinline__ void wide_put(const WideShare<FORMAT>& share, int round, float* to) {
  const int piece_slot = wide_slot(threadIdx.x % 32 / 4 * 8) * KEY_BLOCK + threadIdx.x % 4, word = threadIdx.x / 32 ^ threadIdx.x % 32 / 4;
#pragma unroll
  for (int i = 0; i < WideShare<FORMAT>::AT_ONCE; ++i) {
    const int piece = round * WideShare<FORMAT>::AT_ONCE + i;
    float value[8];
    load8<FORMAT>((const char*)&share.stored[i], FORMAT == I8 ? share.scale[i] : 0.0f, value);
    if (KEYS) {
#pragma unroll
      for (int e = 0; e < 8; ++e)
        to[piece_slot + (4 * word ^ (piece % 2 * 32 ^ (e & 3) * 16)) + (wide_slot(e) + wide_slot(piece / 2 * 64)) * KEY_BLOCK] = value[e];
    } else {
      float* at = to + wide_row<false>(piece) * WIDE_DIM + wide_value<false>(piece);
      *(float4*)at = make_float4(value[0], value[1], value[2], value[3]);
      *(float4*)(at + 4) = make_float4(value[4], value[5], value[6], value[7]);
    }
  }
}

template <int FORMAT, bool KEYS>
static __device__ __forceinline__ void wide_bring(WideShare<FORMAT>& share, const char* rows, const float* scales, int base, int lo, int hi, float* to) {
  wide_put<FORMAT, KEYS>(share, 0, to);
#pragma unroll
  for (int round = 1; round < WideShare<FORMAT>::ROUNDS; ++round) {
    wide_fetch<FORMAT, KEYS>(share, round, rows, scales, base, lo, hi);
    wide_put<FORMAT, KEYS>(share, round, to);
  }
}

struct WidePiece {
  alignas(16) float x[8];
  alignas(16) float y[4];
};

// Of 8 x 4 pairs the sums of the class's eight lanes, 16 elements each. `first` and `second` are the thread's rows, `keys` the place of its keys, whose word is `word` at slot 0.
static __device__ __forceinline__ void wide_sums(float (&sum)[8][4], const float* first, const float* second, const float* keys, int word) {
  float one[8][4], two[8][4], four[8][4];
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) one[i][j] = two[i][j] = four[i][j] = sum[i][j] = 0.0f;
  const int STEPS = 8, AHEAD = 2;
  WidePiece pieces[4];
  const float *even = keys + 4 * word, *odd = keys + 4 * (word ^ 4);
  auto load = [&](int c) {
    WidePiece& piece = pieces[c % 4];
    const int step = c % STEPS * 4;
    *(float4*)piece.y = *(const float4*)((c & 1 ? odd : even) + step * KEY_BLOCK);
    *(float4*)piece.x = *(const float4*)(first + step * WIDE_ROWS);
    *(float4*)(piece.x + 4) = *(const float4*)(second + step * WIDE_ROWS);
  };
#pragma unroll
  for (int c = 0; c < AHEAD; ++c) load(c);
  // Half a lane a turn.
#pragma unroll 1
  for (int half = 0; half < 16; ++half) {
#pragma unroll
    for (int c = 0; c < STEPS; ++c) {
      if (c + AHEAD == STEPS) {
        // The next one's lane: its word is turned by bits 3 and 4 of an element.
        const int lane = half + 1 >> 1, turned = word ^ ((lane & 1) << 1 | (lane & 2) >> 1);
        keys += STEPS * 4 * KEY_BLOCK, first += STEPS * 4 * WIDE_ROWS, second += STEPS * 4 * WIDE_ROWS;
        // Behind the last one nothing is used; what is read there lies in shared memory.
        if (half == 15) keys -= 16 * STEPS * 4 * KEY_BLOCK, first -= 16 * STEPS * 4 * WIDE_ROWS, second -= 16 * STEPS * 4 * WIDE_ROWS;
        even = keys + 4 * turned, odd = keys + 4 * (turned ^ 4);
      }
      load(c + AHEAD);
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) one[i][j] = __fmaf_rn(pieces[c % 4].x[i], pieces[c % 4].y[j], one[i][j]);
    }
    if (!(half & 1)) continue;
    carry(two, one, half & 2 ? 1.0f : 0.0f);
    if (half & 2) {
      carry(four, two, half & 4 ? 1.0f : 0.0f);
      if (half & 4) carry(sum, four, half & 8 ? 1.0f : 0.0f);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) one[i][j] = 0.0f;
  }
}

struct WideValues {
  alignas(16) float w[8];
  alignas(16) float v[8];
  float own;
};
static __device__ __forceinline__ void load_wide(WideValues& piece, const float* values, const float* weight, const float* own, int key) {
  piece.own = own[key * WIDE_WEIGHTS];
  *(float4*)piece.w = *(const float4*)(weight + key * WIDE_WEIGHTS);
  *(float4*)(piece.w + 4) = *(const float4*)(weight + key * WIDE_WEIGHTS + 4);
  *(float4*)piece.v = *(const float4*)(values + key * WIDE_DIM);
  *(float4*)(piece.v + 4) = *(const float4*)(values + key * WIDE_DIM + WIDE_DIM / 2);
}
static __device__ __forceinline__ void add_wide(float (&part)[8][8], float& own, const WideValues& piece) {
  own = own + piece.own;
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int n = 0; n < 8; ++n) part[i][n] = __fmaf_rn(piece.w[i], piece.v[n], part[i][n]);
}

template <int FORMAT>
static __device__ __forceinline__ void attend_wide(const BulkAttention& p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ float maxima[WIDE_ROWS], tops[WIDE_THREADS];
  __shared__ __align__(16) float keeps[WIDE_ROWS], takes[WIDE_ROWS];
  // The last keys' successors are read, though not used, so queries come last.
  float* rows = (float*)memory;
  float* weights = rows + KEY_BLOCK * WIDE_DIM;        // [keys][rows]
  float* query = weights + KEY_BLOCK * WIDE_WEIGHTS;   // [values][rows]
  release_next();
  await_previous();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = p.heads / p.kv_heads, tokens = WIDE_ROWS / group, kv_head = blockIdx.y;
  // The last tokens have the most keys and come first.
  const int first_token = (gridDim.x - 1 - blockIdx.x) * tokens, count = min(tokens, p.count - first_token) * group;
  const Column first = p.columns[0];
  const int first_position = first.position + first_token, last_position = first_position + count / group - 1;
  const float *key_scales, *value_scales;
  const char* keys = rows_of(p, first, kv_head, false, key_scales);
  const char* values = rows_of(p, first, kv_head, true, value_scales);
  if (p.beside && warp < 2) refill_ring<WIDE_DIM, FORMAT>(p, first, kv_head, warp == 1);

  // Queries: codes, norm weights and rope rows all come at once, then a warp a row, then by elements.
  float* norm = rows + WIDE_ROWS * WIDE_NATURAL;
  float* rope = norm + WIDE_DIM;
  char* codes = (char*)(rope + tokens * 2 * p.pairs);
  for (int i = threadIdx.x; i < WIDE_DIM / 4; i += WIDE_THREADS) copy16(norm + i * 4, p.q_norm + i * 4);
  for (int i = threadIdx.x; i < count / group * 2 * p.pairs; i += WIDE_THREADS) {
    int token = i / (2 * p.pairs);
    copy4(rope + i, p.rope + (size_t)(first_position + token) * p.rope_stride + (i - token * 2 * p.pairs));
  }
  for (int i = threadIdx.x; i < count * (WIDE_DIM / 16); i += WIDE_THREADS) {
    int row = i / (WIDE_DIM / 16), piece = i % (WIDE_DIM / 16), token = first_token + row / group, head = kv_head * group + row % group;
    copy16(codes + i * 16, p.q + (size_t)token * p.stride + (size_t)head * WIDE_DIM + piece * 16);
  }
  copies_commit();
  copies_wait<0>();
  if (threadIdx.x < WIDE_ROWS) maxima[threadIdx.x] = -INFINITY;
  __syncthreads();
  norm_rows<WIDE_DIM, WIDE_ROWS / 8>(p, (const int8_t*)codes, norm, rope, group, count, rows, WIDE_NATURAL);
  __syncthreads();
#pragma unroll 1
  for (int d = warp * 4; d < WIDE_DIM; d += WIDE_THREADS / 32 * 4) {
    const float4 x = *(const float4*)(rows + lane * WIDE_NATURAL + d);
    const float value[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) query[(wide_slot(d) + e) * WIDE_ROWS + ((lane / 4 ^ wide_row_turn(e)) * 4 | lane % 4)] = value[e];
  }

  // Scores: a lane's bits are which of two tiles of rows, which of four of keys, and the class. Of a tile's rows the second four lie eight further.
  const int lane_class = lane / 8, row_word = warp % 2 * 4 + lane % 2, key_word = warp / 2 * 4 + lane / 2 % 4;
  const float* first_rows = query + lane_class * WIDE_ROWS + (row_word ^ 2 * lane_class) * 4;
  const float* second_rows = query + lane_class * WIDE_ROWS + (row_word + 2 ^ 2 * lane_class) * 4;
  const int score_row = row_word * 4 + (lane_class & 2) * 4 + (lane_class & 1) * 2;
  const int sum_row = ((lane & 1) + 2 * (warp % 2)) * 8, sum_value = (lane / 2 + 16 * (warp / 2)) * 4;
  float result[8][8];
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int n = 0; n < 8; ++n) result[i][n] = 0.0f;
  // Where weights are made a lane has a row, a warp eight keys; sums of weights are a warp's.
  const int row_position = first_position + lane / group, row_end = lane < count ? row_position + 1 : 0;
  float weight_sum = 0.0f;

  const int from = first_seen(first_position, p.window), first_block = from / KEY_BLOCK, last_block = last_position / KEY_BLOCK;
  WideShare<FORMAT> share;
  wide_fetch<FORMAT, true>(share, 0, keys, key_scales, first_block * KEY_BLOCK, max(from - first_block * KEY_BLOCK, 0),
                           min(last_position + 1 - first_block * KEY_BLOCK, KEY_BLOCK));
#pragma unroll 1
  for (int block = first_block; block <= last_block; ++block) {
    const int base = block * KEY_BLOCK, lo = max(from - base, 0), hi = min(last_position + 1 - base, KEY_BLOCK);
    __syncthreads();
    wide_bring<FORMAT, true>(share, keys, key_scales, base, lo, hi, rows);
    __syncthreads();
    {
      float sum[8][4], half[4][4];
      wide_sums(sum, first_rows, second_rows, rows + lane_class * KEY_BLOCK, key_word ^ 4 * lane_class);
      // Lanes two apart meet, then neighbours; a thread keeps half of the rows each time.
      const bool upper = lane & 16, odd = lane & 8;
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float kept = upper ? sum[4 + i][j] : sum[i][j], given = upper ? sum[i][j] : sum[4 + i][j];
          half[i][j] = kept + __shfl_xor_sync(ALL, given, 16);
        }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float pair[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float kept = odd ? half[2 + i][j] : half[i][j], given = odd ? half[i][j] : half[2 + i][j];
          pair[i] = kept + __shfl_xor_sync(ALL, given, 8);
        }
        *(float2*)(weights + (key_word * 4 + j) * WIDE_WEIGHTS + score_row) = make_float2(pair[0], pair[1]);
      }
    }
    wide_fetch<FORMAT, false>(share, 0, values, value_scales, base, lo, hi);
    __syncthreads();
    float score[8], top = -INFINITY;
    const int begin = first_seen(row_position, p.window) - base, end = row_end - base;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int j = warp * 8 + k;
      score[k] = weights[j * WIDE_WEIGHTS + lane];
      score[k] = j >= begin && j < end ? score[k] : -INFINITY;
      top = fmaxf(top, score[k]);
    }
    tops[threadIdx.x] = top;
    wide_bring<FORMAT, false>(share, values, value_scales, base, lo, hi, rows);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; ++k) top = fmaxf(top, tops[k * 32 + lane]);
#pragma unroll
    for (int k = 0; k < 8; ++k) weights[(warp * 8 + k) * WIDE_WEIGHTS + lane] = exp_or_zero(score[k] - top);
    if (warp == 0) {
      const float before = maxima[lane], after = fmaxf(before, top);
      maxima[lane] = after;
      keeps[lane] = exp_or_zero(before - after);
      takes[lane] = exp_or_zero(top - after);
    }
    __syncthreads();
    if (block < last_block) wide_fetch<FORMAT, true>(share, 0, keys, key_scales, base + KEY_BLOCK, 0, min(last_position + 1 - base - KEY_BLOCK, KEY_BLOCK));
    // Keys by fours: one that nobody sees weighs 0, which changes no sum. A warp has four rows' sums of weights, which come along: by themselves they would be waits only.
    const int own_row = warp * 4 + lane % 4, start = lo & ~3;
    float own = 0.0f;
    float part[8][8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int n = 0; n < 8; ++n) part[i][n] = 0.0f;
    const float *value_at = rows + start * WIDE_DIM + sum_value, *weight_at = weights + start * WIDE_WEIGHTS + sum_row, *own_at = weights + start * WIDE_WEIGHTS + own_row;
    WideValues one, two;
    load_wide(one, value_at, weight_at, own_at, 0);
#pragma unroll 1
    for (int j = start; j < hi; j += 4) {
      load_wide(two, value_at, weight_at, own_at, 1);
      add_wide(part, own, one);
      load_wide(one, value_at, weight_at, own_at, 2);
      add_wide(part, own, two);
      load_wide(two, value_at, weight_at, own_at, 3);
      add_wide(part, own, one);
      load_wide(one, value_at, weight_at, own_at, 4);
      add_wide(part, own, two);
      value_at += 4 * WIDE_DIM, weight_at += 4 * WIDE_WEIGHTS, own_at += 4 * WIDE_WEIGHTS;
    }
    weight_sum = __fmaf_rn(weight_sum, keeps[own_row], own * takes[own_row]);
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const float4 keep4 = *(const float4*)(keeps + sum_row + i), take4 = *(const float4*)(takes + sum_row + i);
      const float keep[4] = {keep4.x, keep4.y, keep4.z, keep4.w}, take[4] = {take4.x, take4.y, take4.z, take4.w};
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int n = 0; n < 8; ++n) result[i + k][n] = __fmaf_rn(result[i + k][n], keep[k], part[i + k][n] * take[k]);
    }
  }
  __syncthreads();
  if (lane < 4) maxima[warp * 4 + lane] = weight_sum;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = sum_row + i;
    if (row >= count) continue;
    int token = first_token + row / group, head = kv_head * group + row % group;
    int8_t* to = p.out + (size_t)token * p.stride + (size_t)head * WIDE_DIM + sum_value;
    const float l = maxima[row], inverse = __frcp_rn(l);
    const bool exact = p.input.inverse == 0.0f;
#pragma unroll
    for (int n = 0; n < 8; ++n) result[i][n] = exact ? over_any(result[i][n], l) : over(result[i][n], l, inverse);
#pragma unroll
    for (int n = 0; n < 2; ++n)
      *(unsigned*)(to + n * (WIDE_DIM / 2)) = quantise_four(make_float4(result[i][4 * n], result[i][4 * n + 1], result[i][4 * n + 2], result[i][4 * n + 3]), p.input);
  }
}

extern "C" __global__ void __launch_bounds__(WIDE_THREADS, 1) bulk_attend_512(__grid_constant__ const BulkAttention p) {
  if (p.format == F16) attend_wide<F16>(p);
  else if (p.format == F32) attend_wide<F32>(p);
  else attend_wide<I8>(p);
}
