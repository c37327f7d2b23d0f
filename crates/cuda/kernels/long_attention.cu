// Attention where many keys are seen (rules 6 to 8, 12): the partial results of attention.cu, with all heads of a K/V head in one block of the grid.
//
// A block takes every gridDim.x-th block of 64 keys of a column, with HEADS heads of one K/V head, so that keys and values come through shared memory
// once. Counted for E2B, eight heads of 512 and 64 keys, 524,288 fma that take 4,096 issue slots of a scheduler:
// - Scores: half a warp, the even or the odd threads, has four keys, a thread two of the 32 lanes of a sum: per 32 dims 4 loads of keys and 8 of queries serve 64 fma. A sum's tree passes half of
//   the sums on at every level. Which key and head an index stands for depends on the lane, so that what is passed on lies at the same index everywhere.
// - Values: a thread has two dims of all heads: a load of values and two of weights serve 16 fma.
// - Keys and values have a buffer each where both fit, and the next round's come while this one's are used. In the narrow form they come before the input does.
// - Half of the warps sum up the weights of a head each before their values, half behind them: a chain of additions of one beside the other's fma.
// - 256 threads of 128 registers leave room for a block of q, k and v beside them, during which keys and values come.
// The merge is a kernel of its own (long_merge.cu) or the output projection's entry.
#include "contract.cuh"
#include "shapes.cuh"

#define LONG_THREADS 256
// Columns of a pass at most.
#define LONG_PASS 32
// Keys of a thread: eight warps of two halves have them all.
#define LONG_KEYS 4

// Rule 7 by one warp, through shared memory: any dims.
static __device__ __forceinline__ void long_turn(float* out, const float* rope, int pairs, int dim, int step) {
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < pairs; i += 32) {
    float *first = out + i / 32 * step + i % 32, *second = out + (i + dim / 2) / 32 * step + (i + dim / 2) % 32;
    float c = rope[i], s = rope[pairs + i], x1 = *first, x2 = *second;
    *first = c * x1 - s * x2;
    *second = s * x1 + c * x2;
  }
  __syncwarp();
}

// Codes of a head, a lane's words in `word`, by one warp as rule 6 has it, then turned by rule 7 where there is a `rope`. Dim d lies at d / 32 * step + d % 32 of `out`.
static __device__ __forceinline__ void long_norm(const int (&word)[4], float scale, const float* weight, const float* rope, int pairs, int dim,
                                                 const Scale& count, float* out, int step) {
  int lane = threadIdx.x % 32, squares = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) squares = __dp4a(word[i], word[i], squares);
  squares = warp_sum(squares);
  float r = reciprocal_root((float)squares * (scale * scale), count);
  float4 y[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    char4 c = *(const char4*)&word[i];
    y[i] = make_float4(((float)c.x * scale) * r, ((float)c.y * scale) * r, ((float)c.z * scale) * r, ((float)c.w * scale) * r);
    if (weight && lane + 32 * i < dim / 4) {
      float4 w = ((const float4*)weight)[lane + 32 * i];
      y[i].x = y[i].x * w.x, y[i].y = y[i].y * w.y, y[i].z = y[i].z * w.z, y[i].w = y[i].w * w.w;
    }
  }
  // Where both values of a pair are the same lane's they turn in registers.
  const bool aligned = dim % 256 == 0 && pairs % 4 == 0;
  if (rope && aligned && dim == 512) {
    turn_words(y[0], y[2], rope, pairs, 4 * lane);
    turn_words(y[1], y[3], rope, pairs, 4 * lane + 128);
  } else if (rope && aligned) {
    turn_words(y[0], y[1], rope, pairs, 4 * lane);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (lane + 32 * i < dim / 4) *(float4*)(out + (lane / 8 + 4 * i) * step + lane % 8 * 4) = y[i];
  __syncwarp();
  if (rope && !aligned) long_turn(out, rope, pairs, dim, step);
}

// The drafter's queries: the same on floats.
static __device__ __noinline__ void long_norm_floats(const float* x, const float* weight, const float* rope, int pairs, int dim, float* out, int step) {
  int lane = threadIdx.x % 32;
  float sum = 0.0f;
  for (int d = lane; d < dim; d += 32) {
    float value = __ldcg(x + d);
    sum = __fmaf_rn(value, value, sum);
  }
  float r = reciprocal_root(lane_tree(sum), count_of(dim));
  for (int d = lane; d < dim; d += 32) out[d / 32 * step + lane] = (__ldcg(x + d) * r) * weight[d];
  __syncwarp();
  long_turn(out, rope, pairs, dim, step);
}

// A lane's words of the codes of a head, loaded together.
static __device__ __forceinline__ void long_codes(const int8_t* codes, int dim, int (&word)[4]) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = lane + 32 * i < dim / 4 ? __ldcg((const int*)codes + lane + 32 * i) : 0;
}

// This position's key or value by one warp, as floats in `out`.
static __device__ __noinline__ void long_own(const int8_t* codes, float scale, const float* weight, const float* rope, int pairs, int dim, float* out) {
  int word[4];
  long_codes(codes, dim, word);
  long_norm(word, scale, weight, rope, pairs, dim, count_of(dim), out, 32);
}

// Rows `lo .. hi` of a block of keys or values; `source` is the block's first row.
template <int FORMAT>
static __device__ __noinline__ void long_fetch(const char* source, const float* from_scales, int lo, int hi, int bytes, char* rows, float* scales) {
  const int thread = threadIdx.x, pieces = bytes / 16, stride = bytes + 64;
  if (LONG_THREADS % pieces == 0) {
    // A power of two, whose exponent saves two divisions.
    const int shift = (__float_as_int((float)pieces) >> 23) - 127;
    const int first = lo + (thread >> shift), piece = (thread & (pieces - 1)) * 16, step = LONG_THREADS >> shift;
    const char* from = source + first * bytes + piece;
    char* to = rows + first * stride + piece;
#pragma unroll 4
    for (int j = first; j < hi; j += step, from += step * bytes, to += step * stride) copy16(to, from);
  } else {
#pragma unroll 1
    for (int i = thread; i < (hi - lo) * pieces; i += LONG_THREADS) {
      int j = lo + i / pieces, piece = i % pieces * 16;
      copy16(rows + j * stride + piece, source + j * bytes + piece);
    }
  }
  if (FORMAT == I8 && thread >= lo && thread < hi) scales[thread] = from_scales[thread];
}

// One row by one warp, of a layer that stores none itself.
template <int FORMAT>
static __device__ __noinline__ void long_row(const char* from, const float* from_scale, int bytes, char* row, float* scale) {
  int lane = threadIdx.x % 32;
#pragma unroll 2
  for (int i = lane; i < bytes / 16; i += 32) ((uint4*)row)[i] = __ldcg((const uint4*)from + i);
  if (FORMAT == I8 && lane == 0) *scale = __ldcg(from_scale);
}

// A level of the tree of rule 6: of COUNT sums a thread hands half to the lane at `mask`, and takes the other half from there.
template <int COUNT>
static __device__ __forceinline__ void long_level(float2* sums, int mask) {
#pragma unroll
  for (int i = 0; i < COUNT / 2; ++i) {
    float2 &kept = sums[i], &given = sums[i + COUNT / 2];
    kept.x += __shfl_xor_sync(ALL, given.x, mask);
    kept.y += __shfl_xor_sync(ALL, given.y, mask);
  }
}

// Scores of 64 keys: index (k, h) of a thread is key 8 warp + 2 (k ^ turn_k) + odd and head h ^ turn_h; it has lanes 2 u and 2 u + 1 of each sum. Neighbours read the same
// queries, which shared memory serves at once.
template <int FORMAT, int HEADS>
static __device__ __forceinline__ void long_scores(const char* keys, const float* key_scales, const float* query, int dim, int stride, float* scores) {
  const int lane = threadIdx.x % 32, u = lane / 2, turn_k = u >> 2;
  const int turn_h = HEADS == 8 ? (u & 3) * 2 : HEADS == 4 ? u & 3 : u >> 1 & 1, first = threadIdx.x / 32 * 8 + lane % 2;
  float2 sums[LONG_KEYS * HEADS];
  const char* row[LONG_KEYS];
  float scale[LONG_KEYS];
#pragma unroll
  for (int k = 0; k < LONG_KEYS; ++k) {
    int j = first + 2 * (k ^ turn_k);
    row[k] = keys + j * stride + 2 * u * value_bytes<FORMAT>();
    scale[k] = FORMAT == I8 ? key_scales[j] : 0.0f;
  }
  // Heads that differ in bits the turn leaves alone lie at a fixed distance.
  constexpr int FIXED = HEADS == 8 ? 2 : 1;
  const float* from[HEADS / FIXED];
#pragma unroll
  for (int h = 0; h < HEADS / FIXED; ++h) from[h] = query + (h * FIXED ^ turn_h) * 32 + 2 * u;
#pragma unroll
  for (int i = 0; i < LONG_KEYS * HEADS; ++i) sums[i] = make_float2(0.0f, 0.0f);
#pragma unroll 2
  for (int d = 0; d < dim; d += 32) {
    float2 k[LONG_KEYS], q[HEADS];
    // Places go on by additions: the compiler would make each from its beginnings again.
#pragma unroll
    for (int i = 0; i < LONG_KEYS; ++i) k[i] = load2<FORMAT>(row[i], scale[i]), row[i] += 32 * value_bytes<FORMAT>();
#pragma unroll
    for (int h = 0; h < HEADS; ++h) q[h] = *(const float2*)(from[h / FIXED] + h % FIXED * 32);
#pragma unroll
    for (int h = 0; h < HEADS / FIXED; ++h) from[h] += 32 * HEADS;
#pragma unroll
    for (int i = 0; i < LONG_KEYS; ++i)
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        float2& sum = sums[i * HEADS + h];
        sum.x = __fmaf_rn(q[h].x, k[i].x, sum.x);
        sum.y = __fmaf_rn(q[h].y, k[i].y, sum.y);
      }
  }
  long_level<LONG_KEYS * HEADS>(sums, 16);
  long_level<LONG_KEYS * HEADS / 2>(sums, 8);
  // Left: key 8 warp + 2 turn_k + odd.
  long_level<HEADS>(sums, 4);
  if (HEADS > 2) {
    long_level<HEADS / 2>(sums, 2);
  } else {
    sums[0].x += __shfl_xor_sync(ALL, sums[0].x, 2);
    sums[0].y += __shfl_xor_sync(ALL, sums[0].y, 2);
  }
#pragma unroll
  for (int h = 0; h < FIXED; ++h) scores[(h ^ turn_h) * KEY_BLOCK + first + 2 * turn_k] = sums[h].x + sums[h].y;
}

// Adds the weighted values of keys `j .. hi`, COUNT at a time while there are so many.
template <int FORMAT, int HEADS, int COUNT>
static __device__ __forceinline__ void long_weigh(int& j, int hi, const float* weights, const char* values, int stride, const float* scales,
                                                  float2 (&a)[HEADS]) {
#pragma unroll 1
  for (; j + COUNT <= hi; j += COUNT) {
    float2 v[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) v[i] = load2<FORMAT>(values + (j + i) * stride, FORMAT == I8 ? scales[j + i] : 0.0f);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const float* from = weights + (j + i) * HEADS;
      float w[HEADS];
      if (HEADS == 2) {
        *(float2*)w = *(const float2*)from;
      } else {
#pragma unroll
        for (int h = 0; h < HEADS; h += 4) *(float4*)(w + h) = *(const float4*)(from + h);
      }
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        a[h].x = __fmaf_rn(w[h], v[i].x, a[h].x);
        a[h].y = __fmaf_rn(w[h], v[i].y, a[h].y);
      }
    }
  }
}

template <int FORMAT, int HEADS>
static __device__ __forceinline__ void attend_many(const Attention& p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ float key_scales[KEY_BLOCK], value_scales[KEY_BLOCK];
  const int bytes = value_bytes<FORMAT>() * p.dim, stride = bytes + 64;
  char* keys = memory;
  char* values = p.one_buffer ? keys : keys + KEY_BLOCK * stride;
  float* query = (float*)(values + KEY_BLOCK * stride);  // [dim / 32][HEADS][32]
  float* scores = query + HEADS * p.dim;                 // [HEADS][KEY_BLOCK]
  float* weights = scores + HEADS * KEY_BLOCK;           // [KEY_BLOCK][HEADS]
  float* q_norm = weights + HEADS * KEY_BLOCK;
  float* k_norm = q_norm + p.dim;
  float* rope = k_norm + p.dim;
  release_next();

  const unsigned long long kv = p.columns[blockIdx.z].kv;
  const int position = p.columns[blockIdx.z].position;
  const int group = p.heads / p.kv_heads, parts = (group + HEADS - 1) / HEADS;
  const int kv_head = blockIdx.y / parts, head0 = kv_head * group + blockIdx.y % parts * HEADS;
  const int heads = min(HEADS, (kv_head + 1) * group - head0);
  const int last = position + 1 - p.past, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first = first_seen(position, p.window), first_block = first / KEY_BLOCK;
  int block = first_block + blockIdx.x;
  if (block * KEY_BLOCK >= last) return;
  const bool own = p.k != nullptr;
  const Scale count = count_of(p.dim);
  const size_t head_slot = (size_t)kv_head * p.slots, slot = head_slot + (p.ring ? position % p.slots : position);
  const bool holds = own && (position / KEY_BLOCK - first_block) % (int)gridDim.x == (int)blockIdx.x;
  // In the narrow form this position's row comes apart: it is not stored yet, or not by a kernel that has surely finished.
  const bool apart = (own || p.early) && !p.past;
  const int stored = apart ? position : last;
  auto fetch_block = [&](int which, bool is_key) {
    const int base = which * KEY_BLOCK, lo = max(first - base, 0), hi = min(stored - base, KEY_BLOCK);
    // A block of aligned positions never wraps.
    const size_t from = head_slot + (p.ring ? base % p.slots : base);
    long_fetch<FORMAT>((const char*)(kv + (is_key ? p.keys : p.values_at)) + from * bytes,
                       (const float*)(kv + (is_key ? p.key_scales : p.value_scales)) + from, lo, hi, bytes, is_key ? keys : values,
                       is_key ? key_scales : value_scales);
  };

  // Three groups of copies: vectors, keys, values; the last one is empty where there is one buffer.
#pragma unroll 1
  for (int i = threadIdx.x; i < p.dim / 4; i += LONG_THREADS) {
    copy16(q_norm + i * 4, p.q_norm + i * 4);
    if (own) copy16(k_norm + i * 4, p.k_norm + i * 4);
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < 2 * p.pairs; i += LONG_THREADS) copy4(rope + i, p.rope + (size_t)position * p.rope_stride + i);
  copies_commit();
  // In the wide form this pass stores rows, but only of its own columns, which are neighbours.
  const bool early = p.early || (!p.ring && (block + 1) * KEY_BLOCK + LONG_PASS <= position);
  if (!early) await_previous();
  fetch_block(block, true);
  copies_commit();
  if (!p.one_buffer) fetch_block(block, false);
  copies_commit();
  copies_wait<2>();
  __syncthreads();
  const int8_t* codes = p.q + (size_t)blockIdx.z * p.q_stride + (size_t)(head0 + warp) * p.dim;
  if (early) await_previous();

  // A warp a head.
  if (warp < heads) {
    float* out = query + warp * 32;
    if (p.q_float) {
      long_norm_floats(p.q_float + (head0 + warp) * p.dim, q_norm, rope, p.pairs, p.dim, out, HEADS * 32);
    } else {
      int word[4];
      long_codes(codes, p.dim, word);
      long_norm(word, p.q_scale, q_norm, rope, p.pairs, p.dim, count, out, HEADS * 32);
    }
    if (p.tap_query && blockIdx.x == 0)
      for (int d = lane; d < p.dim; d += 32) p.tap_query[(head0 + warp) * p.dim + d] = out[d / 32 * HEADS * 32 + lane];
  }
  // The key and the value of this position where a round of this block has them.
  if (holds) {
    // They take the place of the norm weights, which nobody needs any more; a lane puts each value where it has read its weight.
    __syncthreads();
    if (warp < 2) {
      const bool is_key = warp == 0;
      const size_t row = (size_t)blockIdx.z * p.kv_stride + (size_t)kv_head * p.dim;
      float* out = is_key ? k_norm : q_norm;
      long_own((is_key ? p.k : p.v) + row, is_key ? p.k_scale : p.v_scale, is_key ? k_norm : nullptr, is_key ? rope : nullptr, p.pairs, p.dim, out);
      if (blockIdx.y % parts == 0 && !p.chain->done) {
        char* to = (char*)(kv + (is_key ? p.keys : p.values_at)) + slot * bytes;
        store_row<FORMAT>(out, p.dim, to, (float*)(kv + (is_key ? p.key_scales : p.value_scales)) + slot);
      }
    }
    __syncthreads();
  }
  // This position's row into a buffer, as it is stored.
  auto place = [&](int now, bool is_key) {
    char* row = (is_key ? keys : values) + now * stride;
    float* scale = (is_key ? key_scales : value_scales) + now;
    if (own)
      store_row<FORMAT>(is_key ? k_norm : q_norm, p.dim, row, scale);
    else
      long_row<FORMAT>((const char*)(kv + (is_key ? p.keys : p.values_at)) + slot * bytes,
                       (const float*)(kv + (is_key ? p.key_scales : p.value_scales)) + slot, bytes, row, scale);
  };

#pragma unroll 1
  while (true) {
    const int base = block * KEY_BLOCK, lo = max(first - base, 0), hi = min(last - base, KEY_BLOCK), now = position - base;
    const int next = block + gridDim.x;
    const bool more = next * KEY_BLOCK < last, here = apart && now < KEY_BLOCK;
    if (here && warp == 0) place(now, true);
    copies_wait<1>();
    __syncthreads();
    long_scores<FORMAT, HEADS>(keys, key_scales, query, p.dim, stride, scores);
    __syncthreads();
    if (p.one_buffer)
      fetch_block(block, false);
    else if (more)
      fetch_block(next, true);
    copies_commit();
    if (here && warp == LONG_THREADS / 32 - 1) place(now, false);
    const size_t at = ((size_t)blockIdx.z * p.heads + head0) * p.blocks + (block - first_block);
    if (warp < heads) {
      float* row = scores + warp * KEY_BLOCK;
      float a = lane >= lo && lane < hi ? row[lane] : -INFINITY;
      float b = lane + 32 >= lo && lane + 32 < hi ? row[lane + 32] : -INFINITY;
      float top = fmaxf(a, b);
#pragma unroll
      for (int s = 16; s > 0; s /= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, s));
      row[lane] = weights[lane * HEADS + warp] = contract_exp(a - top);
      row[lane + 32] = weights[(lane + 32) * HEADS + warp] = contract_exp(b - top);
      if (lane == 0) p.largest[at + (size_t)warp * p.blocks] = top;
    }
    if (p.one_buffer)
      copies_wait<0>();
    else
      copies_wait<1>();
    __syncthreads();
#pragma unroll 1
    for (int turn = 0; turn < 2; ++turn) {
      if ((warp >= LONG_THREADS / 64) == (turn == 1)) {
        if (warp >= heads) continue;
        // What is masked weighs 0, which changes no sum.
        const float4* row = (const float4*)(scores + warp * KEY_BLOCK);
        float l = 0.0f;
#pragma unroll
        for (int i = 0; i < KEY_BLOCK / 4; ++i) {
          float4 four = row[i];
          l = l + four.x, l = l + four.y, l = l + four.z, l = l + four.w;
        }
        if (lane == 0) p.sums[at + (size_t)warp * p.blocks] = l;
        continue;
      }
#pragma unroll 1
      for (int d = 2 * threadIdx.x; d < p.dim; d += 2 * LONG_THREADS) {
        float2 a[HEADS];
#pragma unroll
        for (int h = 0; h < HEADS; ++h) a[h] = make_float2(0.0f, 0.0f);
        const char* column = values + d * value_bytes<FORMAT>();
        int j = lo;
        long_weigh<FORMAT, HEADS, 8>(j, hi, weights, column, stride, value_scales, a);
        long_weigh<FORMAT, HEADS, 1>(j, hi, weights, column, stride, value_scales, a);
#pragma unroll
        for (int h = 0; h < HEADS; ++h)
          if (h < heads) *(float2*)(p.values + (at + (size_t)h * p.blocks) * p.dim + d) = a[h];
      }
    }
    if (!more) break;
    __syncthreads();
    fetch_block(next, p.one_buffer);
    copies_commit();
    if (p.one_buffer) copies_commit();
    block = next;
  }
}

#define ATTEND_MANY(name, format, heads)                                                                             \
  extern "C" __global__ void __launch_bounds__(LONG_THREADS, 2) name(__grid_constant__ const Attention p) {         \
    attend_many<format, heads>(p);                                                                                  \
  }
ATTEND_MANY(attend_many_f32_2, F32, 2)
ATTEND_MANY(attend_many_f32_4, F32, 4)
ATTEND_MANY(attend_many_f32_8, F32, 8)
ATTEND_MANY(attend_many_f16_2, F16, 2)
ATTEND_MANY(attend_many_f16_4, F16, 4)
ATTEND_MANY(attend_many_f16_8, F16, 8)
ATTEND_MANY(attend_many_i8_2, I8, 2)
ATTEND_MANY(attend_many_i8_4, I8, 4)
ATTEND_MANY(attend_many_i8_8, I8, 8)
