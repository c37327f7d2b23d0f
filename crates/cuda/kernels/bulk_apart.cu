// Attention of a prompt with scores and weighted sums in warps of their own, for heads of 64 and 256; other heads have `bulk_tiles.cu` and `bulk_wide.cu`.
//
// Warps 0 to 3 make the scores of a block of 64 keys while warps 4 to 7 turn those of the block before into weights and add up its values, so that each of a multiprocessor's
// four schedulers has one warp of either kind: what one waits for (rows, shared memory, the chain of an exponential) the other fills. Scores lie in two buffers; one barrier of the block
// a block of keys hands them over. A score warp has 12 rows and all keys, a thread 6 x 4 pairs with all 32 lanes of the sum; a value warp has the same 12 rows, a lane an eighth
// of a row's values in two vectors (or less), so that weights are one word for all lanes, and nothing of the merge of rule 8 leaves the warp. Loops are short enough to stay near, two lanes of the sum and two
// keys, and have the operands of the next step under way, which a warp that has either sums or results has the registers for.
#include "lanes.cuh"
#include "shapes.cuh"

#define APART_ROWS 48
#define APART_HALF 128          // threads of a kind
#define APART_WARP_ROWS 12
#define APART_WEIGHTS 52        // from a key's weights to the next key's
#define APART_SCORE_BARRIER 1
#define APART_VALUE_BARRIER 2
#define APART_HANDS_OVER 3

// Rows of a block of keys into shared memory by the threads of one kind, eight values of eight rows under way at a time; rows that nobody sees are some that are seen.
template <int DIM, int FORMAT, bool BY_LANES>
static __device__ __forceinline__ void bring_rows(const char* rows, const float* scales, int base, int lo, int hi, float* to, int stride, int thread) {
  const int PIECES = DIM / 8, STEP = APART_HALF / PIECES, COUNT = KEY_BLOCK / STEP, AT_ONCE = COUNT < 8 ? COUNT : 8;
  const int j0 = thread / PIECES, d = thread % PIECES * 8;
#pragma unroll 1
  for (int first = 0; first < COUNT; first += AT_ONCE) {
    Stored stored[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      int j = min(max(j0 + (first + i) * STEP, lo), hi - 1);
      stored[i] = load_stored<FORMAT>(rows, (long long)(base + j) * DIM + d);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      int j = j0 + (first + i) * STEP;
      float scale = FORMAT == I8 ? scales[base + min(max(j, lo), hi - 1)] : 0.0f;
      put_stored<DIM, FORMAT, BY_LANES>(stored[i], scale, to + j * stride, d);
    }
  }
}

// Of 6 x 4 pairs: rows every other one from `a`, keys every sixteenth from `b`.
template <int STRIDE>
static __device__ __forceinline__ void load_piece(LanePiece& piece, const float* a, const float* b) {
#pragma unroll
  for (int j = 0; j < 4; ++j) piece.y[j] = *(const float4*)(b + j * 16 * STRIDE);
#pragma unroll
  for (int i = 0; i < 6; ++i) piece.x[i] = *(const float4*)(a + i * 2 * STRIDE);
}

// The sums of rule 6 of 6 x 4 pairs, two lanes a turn. A sum that is 0 may have another sign than the reference's, which no exponential shows.
template <int STEPS, int STRIDE>
static __device__ __forceinline__ void score_sums(float (&sum)[6][4], const float* query, const float* key) {
  float two[6][4], four[6][4], eight[6][4];
#pragma unroll
  for (int i = 0; i < 6; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) two[i][j] = four[i][j] = eight[i][j] = sum[i][j] = 0.0f;
  // A turn's lanes are its bits reversed and 16 more; they lie where `lane_slot` puts them.
  auto lane_of = [](int turn) { return (turn & 1) << 3 | (turn & 2) << 1 | (turn & 4) >> 1 | turn >> 3 & 1; };
  const int PIECES = STEPS / 4;
  LanePiece pieces[2];
  load_piece<STRIDE>(pieces[0], query, key);
#pragma unroll 1
  for (int turn = 0; turn < 16; ++turn) {
    const int l = lane_of(turn), low = lane_slot(l) * STEPS, high = lane_slot(l + 16) * STEPS, next = lane_slot(lane_of(turn + 1)) * STEPS;
    float one[6][4], other[6][4];
#pragma unroll
    for (int i = 0; i < 6; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) one[i][j] = other[i][j] = 0.0f;
#pragma unroll
    for (int c = 0; c < 2 * PIECES; ++c) {
      const int ahead = c + 1 < PIECES ? low + 4 * (c + 1) : c + 1 < 2 * PIECES ? high + 4 * (c + 1 - PIECES) : next;
      load_piece<STRIDE>(pieces[(c + 1) % 2], query + ahead, key + ahead);
      if (c < PIECES) add_piece(one, pieces[c % 2]);
      else add_piece(other, pieces[c % 2]);
    }
#pragma unroll
    for (int i = 0; i < 6; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) one[i][j] = one[i][j] + other[i][j];
    carry(two, one, turn & 1 ? 1.0f : 0.0f);
    if (!(turn & 1)) continue;
    carry(four, two, turn & 2 ? 1.0f : 0.0f);
    if (!(turn & 2)) continue;
    carry(eight, four, turn & 4 ? 1.0f : 0.0f);
    if (turn & 4) carry(sum, eight, turn & 8 ? 1.0f : 0.0f);
  }
}

// A key's values of a lane, its weights of the warp's rows, and of one row for the sum of weights.
template <int VALUES>
struct ValuePiece {
  float w[APART_WARP_ROWS], v[VALUES], own;
};
template <int DIM>
static __device__ __forceinline__ void load_value(ValuePiece<DIM / 32>& piece, const float* values, const float* weight, const float* own, int key) {
  const int VALUES = DIM / 32, VECTOR = VALUES < 4 ? VALUES : 4;
#pragma unroll
  for (int n = 0; n < VALUES / VECTOR; ++n) {
    const float* at = values + key * DIM + n * 128;
    if (VECTOR == 4) *(float4*)(piece.v + 4 * n) = *(const float4*)at;
    else if (VECTOR == 2) *(float2*)piece.v = *(const float2*)at;
    else piece.v[0] = *at;
  }
#pragma unroll
  for (int i = 0; i < APART_WARP_ROWS; i += 4) *(float4*)(piece.w + i) = *(const float4*)(weight + key * APART_WEIGHTS + i);
  piece.own = own[key * APART_WEIGHTS];
}
template <int VALUES>
static __device__ __forceinline__ void add_value(float (&part)[APART_WARP_ROWS][VALUES], float& sum, const ValuePiece<VALUES>& piece) {
  sum = sum + piece.own;
#pragma unroll
  for (int i = 0; i < APART_WARP_ROWS; ++i)
#pragma unroll
    for (int n = 0; n < VALUES; ++n) part[i][n] = __fmaf_rn(piece.w[i], piece.v[n], part[i][n]);
}

// RN(a / l) by l's rounded inverse, corrected twice by the exact remainder. A quotient so small that its remainder loses bits is the code 0 in any case: l is at least 1, as the
// largest key of each row weighs 1, and a scale with an inverse is no smaller than 2^-60.
static __device__ __forceinline__ float over(float a, float l, float inverse) {
  float q = a * inverse;
  q = __fmaf_rn(__fmaf_rn(-q, l, a), inverse, q);
  return __fmaf_rn(__fmaf_rn(-q, l, a), inverse, q);
}

static __device__ __noinline__ float over_any(float a, float l) { return __fdiv_rn(a, l); }

// Codes of the rows' weighted sums by their sums of weights, a row a warp: a short loop by all warps, where each value warp's own rows straight from registers were 48 KB of code, met once.
template <int DIM>
static __device__ __forceinline__ void write_out(const BulkAttention& p, const float* results, const float* sums, const float* inverses, const int* of_block) {
  const int first_token = of_block[0], count = of_block[1], group = of_block[2], kv_head = blockIdx.y;
  const bool exact = p.input.inverse == 0.0f;
#pragma unroll 1
  for (int row = threadIdx.x / 32; row < count; row += 2 * APART_HALF / 32) {
    const int token = first_token + row / group, head = kv_head * group + row % group;
    int8_t* to = p.out + (size_t)token * p.stride + (size_t)head * DIM;
    const float l = sums[row], inverse = inverses[row];
#pragma unroll
    for (int first = 0; first < DIM; first += 128) {
      const int d = first + threadIdx.x % 32 * 4;
      if (DIM % 128 && d >= DIM) break;
      float4 x = *(const float4*)(results + row * DIM + d);
      if (exact) x = make_float4(over_any(x.x, l), over_any(x.y, l), over_any(x.z, l), over_any(x.w, l));
      else x = make_float4(over(x.x, l, inverse), over(x.y, l, inverse), over(x.z, l, inverse), over(x.w, l, inverse));
      *(unsigned*)(to + d) = quantise_four(x, p.input);
    }
  }
}

template <int DIM, int FORMAT>
static __device__ __forceinline__ void attend_apart(const BulkAttention& p) {
  const int STEPS = DIM / 32 < 4 ? 4 : DIM / 32, STRIDE = STEPS * 32 + 4;
  // Values of a lane: vectors of four, 128 apart.
  const int VALUES = DIM / 32, VECTOR = VALUES < 4 ? VALUES : 4;
  extern __shared__ __align__(128) char memory[];
  __shared__ float tops[APART_ROWS];
  __shared__ int of_block[3];  // what the way out wants to know, so that no register has it meanwhile
  __shared__ __align__(16) float keeps[APART_ROWS], takes[APART_ROWS];
  float* query = (float*)memory;
  float* keys = query + APART_ROWS * STRIDE;
  float* values = keys + KEY_BLOCK * STRIDE;
  float* weights = values + KEY_BLOCK * DIM;  // [two][keys][rows]: scores, then weights
  release_next();
  await_previous();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, thread = threadIdx.x % APART_HALF;
  const int group = p.heads / p.kv_heads, tokens = APART_ROWS / group, kv_head = blockIdx.y;
  // The last tokens have the most keys and come first.
  const int first_token = (gridDim.x - 1 - blockIdx.x) * tokens, count = min(tokens, p.count - first_token) * group;
  const Column first = p.columns[0];
  const int first_position = first.position + first_token, last_position = first_position + count / group - 1;
  const float *key_scales, *value_scales;
  const char* key_rows = rows_of(p, first, kv_head, false, key_scales);
  const char* value_rows = rows_of(p, first, kv_head, true, value_scales);

  // Queries: codes, norm weights and rope rows all come at once, into the values' room; then a warp's rows at once, through the keys' room.
  float* norm = values;
  float* rope = norm + DIM;
  char* codes = (char*)(rope + tokens * 2 * p.pairs);
  for (int i = threadIdx.x; i < DIM / 4; i += 2 * APART_HALF) copy16(norm + i * 4, p.q_norm + i * 4);
  for (int i = threadIdx.x; i < count / group * 2 * p.pairs; i += 2 * APART_HALF) {
    int token = i / (2 * p.pairs);
    copy4(rope + i, p.rope + (size_t)(first_position + token) * p.rope_stride + (i - token * 2 * p.pairs));
  }
  for (int i = threadIdx.x; i < count * (DIM / 16); i += 2 * APART_HALF) {
    int row = i / (DIM / 16), piece = i % (DIM / 16), token = first_token + row / group, head = kv_head * group + row % group;
    copy16(codes + i * 16, p.q + (size_t)token * p.stride + (size_t)head * DIM + piece * 16);
  }
  copies_commit();
  if (threadIdx.x == 0) of_block[0] = first_token, of_block[1] = count, of_block[2] = group;
  copies_wait<0>();
  __syncthreads();
  norm_rows<DIM, APART_ROWS / 8>(p, (const int8_t*)codes, norm, rope, group, count, keys, STRIDE);
  __syncwarp();
#pragma unroll 2
  for (int row = warp; row < APART_ROWS; row += 8) {
    float* to = query + row * STRIDE + lane_slot(lane) * STEPS;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) to[s] = s < DIM / 32 ? keys[row * STRIDE + s * 32 + lane] : 0.0f;
  }
  __syncthreads();
  if (DIM / 32 < 4) {
    for (int i = threadIdx.x; i < KEY_BLOCK * STRIDE; i += 2 * APART_HALF) keys[i] = 0.0f;
    __syncthreads();
  }

  const int from = first_seen(first_position, p.window), first_block = from / KEY_BLOCK, last_block = last_position / KEY_BLOCK;
  if (warp < 4) {
    // A thread's rows are every other one of its warp's, its keys every sixteenth.
    const int row0 = warp * APART_WARP_ROWS + (lane & 1), key0 = lane >> 1;
#pragma unroll 1
    for (int block = first_block; block <= last_block; ++block) {
      const int base = block * KEY_BLOCK, turn = (block - first_block) & 1;
      bring_rows<DIM, FORMAT, true>(key_rows, key_scales, base, max(from - base, 0), min(last_position + 1 - base, KEY_BLOCK), keys, STRIDE, thread);
      barrier(APART_SCORE_BARRIER, APART_HALF);
      float sum[6][4];
      score_sums<STEPS, STRIDE>(sum, query + row0 * STRIDE, keys + key0 * STRIDE);
      float* to = weights + turn * KEY_BLOCK * APART_WEIGHTS + key0 * APART_WEIGHTS + row0;
#pragma unroll
      for (int i = 0; i < 6; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) to[16 * j * APART_WEIGHTS + 2 * i] = sum[i][j];
      barrier(APART_HANDS_OVER, 2 * APART_HALF);
    }
    barrier(APART_HANDS_OVER, 2 * APART_HALF);
    write_out<DIM>(p, keys, tops, takes, of_block);
    return;
  }

  // What a ring holds behind the pass, while there are no weights yet.
  if (p.beside && warp < 6) refill_ring<DIM, FORMAT>(p, first, kv_head, warp == 5);
  const int row0 = (warp - 4) * APART_WARP_ROWS, own_row = row0 + min(lane, APART_WARP_ROWS - 1);
  // Where weights are made a lane has every fourth row and every eighth key.
  const int weight_row = row0 + lane % 4, weight_key = lane / 4;
  float result[APART_WARP_ROWS][VALUES], weight_sum = 0.0f, largest = -INFINITY;  // the latter two of row `own_row`
#pragma unroll
  for (int i = 0; i < APART_WARP_ROWS; ++i)
#pragma unroll
    for (int n = 0; n < VALUES; ++n) result[i][n] = 0.0f;
#pragma unroll 1
  for (int block = first_block; block <= last_block; ++block) {
    const int base = block * KEY_BLOCK, turn = (block - first_block) & 1, lo = max(from - base, 0), hi = min(last_position + 1 - base, KEY_BLOCK);
    // Nobody reads the block of values before any more: everybody has been at the barrier behind it.
    barrier(APART_HANDS_OVER, 2 * APART_HALF);
    bring_rows<DIM, FORMAT, false>(value_rows, value_scales, base, lo, hi, values, DIM, thread);
    float* weight = weights + turn * KEY_BLOCK * APART_WEIGHTS;
#pragma unroll
    for (int i = 0; i < APART_WARP_ROWS / 4; ++i) {
      const int row = weight_row + 4 * i, position = first_position + row / group, begin = first_seen(position, p.window) - base;
      const int end = row < count ? position + 1 - base : 0;
      float score[8], top = -INFINITY;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int key = weight_key + 8 * k;
        score[k] = weight[key * APART_WEIGHTS + row];
        score[k] = key >= begin && key < end ? score[k] : -INFINITY;
        top = fmaxf(top, score[k]);
      }
#pragma unroll
      for (int s = 4; s < 32; s *= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, s));
#pragma unroll
      for (int k = 0; k < 8; ++k) weight[(weight_key + 8 * k) * APART_WEIGHTS + row] = exp_or_zero(score[k] - top);
      if (lane < 4) tops[row] = top;
    }
    __syncwarp();
    const float top = tops[own_row], after = fmaxf(largest, top), own_keep = exp_or_zero(largest - after), own_take = exp_or_zero(top - after);
    largest = after;
    if (lane < APART_WARP_ROWS) keeps[own_row] = own_keep, takes[own_row] = own_take;
    barrier(APART_VALUE_BARRIER, APART_HALF);
    // Keys by twos: one that nobody sees weighs 0, which changes no sum.
    float part[APART_WARP_ROWS][VALUES], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < APART_WARP_ROWS; ++i)
#pragma unroll
      for (int n = 0; n < VALUES; ++n) part[i][n] = 0.0f;
    ValuePiece<VALUES> one, two;
    load_value<DIM>(one, values + lane * VECTOR, weight + row0, weight + own_row, lo & ~1);
#pragma unroll 1
    for (int j = lo & ~1; j < hi; j += 2) {
      load_value<DIM>(two, values + lane * VECTOR, weight + row0, weight + own_row, j + 1);
      add_value(part, sum, one);
      load_value<DIM>(one, values + lane * VECTOR, weight + row0, weight + own_row, min(j + 2, KEY_BLOCK - 1));
      add_value(part, sum, two);
    }
    __syncwarp();
    weight_sum = __fmaf_rn(weight_sum, own_keep, sum * own_take);
#pragma unroll
    for (int i = 0; i < APART_WARP_ROWS; ++i) {
      float keep = keeps[row0 + i], take = takes[row0 + i];
#pragma unroll
      for (int n = 0; n < VALUES; ++n) result[i][n] = __fmaf_rn(result[i][n], keep, part[i][n] * take);
    }
  }
  // Into the keys' room: the scores of the last block of keys are made, so nobody reads there.
#pragma unroll
  for (int i = 0; i < APART_WARP_ROWS; ++i) {
    float* to = keys + (row0 + i) * DIM + lane * VECTOR;
#pragma unroll
    for (int n = 0; n < VALUES; ++n) to[n % VECTOR + n / VECTOR * 128] = result[i][n];
  }
  __syncwarp();
  if (lane < APART_WARP_ROWS) tops[own_row] = weight_sum, takes[own_row] = __frcp_rn(weight_sum);
  barrier(APART_HANDS_OVER, 2 * APART_HALF);
  write_out<DIM>(p, keys, tops, takes, of_block);
}

#define ATTEND_APART(name, dim)                                                                                    \
  extern "C" __global__ void __launch_bounds__(2 * APART_HALF, 1) name(__grid_constant__ const BulkAttention p) {  \
    if (p.format == F16) attend_apart<dim, F16>(p);                                                                \
    else if (p.format == F32) attend_apart<dim, F32>(p);                                                           \
    else attend_apart<dim, I8>(p);                                                                                 \
  }
ATTEND_APART(bulk_attend_apart_64, 64)
ATTEND_APART(bulk_attend_apart_256, 256)
