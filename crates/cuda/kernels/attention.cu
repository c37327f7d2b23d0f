// Attention over blocks of 64 keys (rules 6 to 8, 12): head norms, rope, storing K/V, and one partial result a block and head.
//
// A block of the grid takes some heads of one K/V head and every gridDim.x-th block of keys, for one column. 256 threads: four
// a key, each with 8 of the 32 lanes of the sum, then a thread for two values of a head. The merge is the output projection's entry.
#include "contract.cuh"
#include "shapes.cuh"

#define ATTENTION_THREADS 256
#define F32 0
#define F16 1
#define I8 2

static __device__ __forceinline__ int first_seen(int position, int window) {
  return window > 0 ? max(0, position + 1 - window) : 0;
}

template <int FORMAT>
static __device__ __forceinline__ int value_bytes() {
  return FORMAT == F32 ? 4 : FORMAT == F16 ? 2 : 1;
}

// Eight values of a row in shared memory, as every reader sees them.
template <int FORMAT>
static __device__ __forceinline__ void load8(const char* at, float scale, float (&out)[8]) {
  if (FORMAT == F32) {
    float4 a = ((const float4*)at)[0], b = ((const float4*)at)[1];
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w, out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
  } else if (FORMAT == F16) {
    uint4 w = *(const uint4*)at;
    const __half2* h = (const __half2*)&w;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float2 f = __half22float2(h[i]);
      out[2 * i] = f.x, out[2 * i + 1] = f.y;
    }
  } else {
    const int8_t* c = (const int8_t*)at;
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = (float)c[i] * scale;
  }
}

template <int FORMAT>
static __device__ __forceinline__ float2 load2(const char* at, float scale) {
  if (FORMAT == F32) return *(const float2*)at;
  if (FORMAT == F16) return __half22float2(*(const __half2*)at);
  char2 c = *(const char2*)at;
  return make_float2((float)c.x * scale, (float)c.y * scale);
}

// A lane's words of the codes of a head. A head has at most 512 values, so a lane has at most four, loaded together.
struct HeadWords {
  int word[4];
};
static __device__ __forceinline__ HeadWords head_words(const int8_t* codes, int dim) {
  const int lane = threadIdx.x % 32;
  HeadWords own;
#pragma unroll
  for (int i = 0; i < 4; ++i) own.word[i] = lane + 32 * i < dim / 4 ? ((const int*)codes)[lane + 32 * i] : 0;
  return own;
}

// Rule 6 on the codes of a head by one warp: values into `out`; a weight of null stops at x * r.
static __device__ __forceinline__ void norm_words(const HeadWords& own, float scale, const float* weight, int dim, const Scale& count, float* out) {
  int lane = threadIdx.x % 32, squares = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) squares = __dp4a(own.word[i], own.word[i], squares);
  squares = warp_sum(squares);
  float r = reciprocal_root((float)squares * (scale * scale), count);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (lane + 32 * i >= dim / 4) break;
    char4 c = *(const char4*)&own.word[i];
    float4 y = make_float4(((float)c.x * scale) * r, ((float)c.y * scale) * r, ((float)c.z * scale) * r, ((float)c.w * scale) * r);
    if (weight) {
      float4 w = ((const float4*)weight)[lane + 32 * i];
      y.x = y.x * w.x, y.y = y.y * w.y, y.z = y.z * w.z, y.w = y.w * w.w;
    }
    ((float4*)out)[lane + 32 * i] = y;
  }
  __syncwarp();
}
static __device__ __forceinline__ void norm_head(const int8_t* codes, float scale, const float* weight, int dim, const Scale& count,
                                                 float* out) {
  norm_words(head_words(codes, dim), scale, weight, dim, count, out);
}

// Rule 6 on floats by one warp.
static __device__ void norm_float_head(const float* x, const float* weight, int dim, const Scale& count, float* out) {
  int lane = threadIdx.x % 32;
  float sum = 0.0f;
  for (int d = lane; d < dim; d += 32) sum = __fmaf_rn(x[d], x[d], sum);
  float r = reciprocal_root(lane_tree(sum), count);
  for (int d = lane; d < dim; d += 32) out[d] = (x[d] * r) * weight[d];
  __syncwarp();
}

// Rule 7 by one warp.
static __device__ void turn(float* head, const float* row, int pairs, int dim) {
  for (int i = threadIdx.x % 32; i < pairs; i += 32) {
    float c = row[i], s = row[pairs + i], x1 = head[i], x2 = head[i + dim / 2];
    head[i] = c * x1 - s * x2;
    head[i + dim / 2] = s * x1 + c * x2;
  }
  __syncwarp();
}

// Rule 12 by one warp: a row as it is stored, at `row`; the scale of an i8 row at `scale`.
template <int FORMAT>
static __device__ void store_row(const float* values, int dim, char* row, float* scale) {
  int lane = threadIdx.x % 32;
  if (FORMAT == F32) {
    for (int d = lane; d < dim; d += 32) ((float*)row)[d] = values[d];
  } else if (FORMAT == F16) {
    for (int d = lane; d < dim; d += 32) ((__half*)row)[d] = to_f16(values[d]);
  } else {
    float largest = 0.0f;
    for (int d = lane; d < dim; d += 32) largest = fmaxf(largest, fabsf(values[d]));
#pragma unroll
    for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, s));
    float unit = __fdiv_rn(largest, 127.0f);
    if (lane == 0) *scale = unit;
    for (int d = lane; d < dim; d += 32) ((int8_t*)row)[d] = unit == 0.0f ? 0 : (int8_t)quantise_any(values[d], unit);
  }
  __syncwarp();
}

// Copies rows `lo .. hi` of a block of keys or values, the first of which lies at `slot`, but not those of `skip`.
template <int FORMAT>
static __device__ __forceinline__ void fetch(const Attention& p, unsigned long long from, unsigned long long from_scales, int slot, int lo, int hi,
                                             unsigned long long skip, char* rows, float* scales) {
  const int bytes = value_bytes<FORMAT>() * p.dim, pieces = bytes / 16, stride = bytes + 64;
  const char* source = (const char*)from + (size_t)slot * bytes;
  if (ATTENTION_THREADS % pieces == 0) {
    const int piece = threadIdx.x % pieces, step = ATTENTION_THREADS / pieces;
#pragma unroll 2
    for (int j = lo + threadIdx.x / pieces; j < hi; j += step)
      if (!(skip >> j & 1)) copy16(rows + j * stride + piece * 16, source + j * bytes + piece * 16);
  } else {
#pragma unroll 1
    for (int i = threadIdx.x; i < (hi - lo) * pieces; i += ATTENTION_THREADS) {
      int j = lo + i / pieces;
      if (!(skip >> j & 1)) copy16(rows + j * stride + i % pieces * 16, source + j * bytes + i % pieces * 16);
    }
  }
  if (FORMAT == I8 && threadIdx.x < KEY_BLOCK) {
    int j = threadIdx.x;
    if (j >= lo && j < hi && !(skip >> j & 1)) scales[j] = ((const float*)from_scales)[slot + j];
  }
}

// Scores of one key with COUNT queries: of every sum a thread has the lanes 8 u .. 8 u + 7, at which `row` and `query` begin, and the four threads of a key meet. The one with u = 0 has the
// scores, if the key is `seen`.
template <int FORMAT, int COUNT, int UNROLL>
static __device__ __forceinline__ void score(bool seen, const char* row, float scale, const float* query, int dim, float (&scores)[COUNT]) {
  float lanes[COUNT][8];
#pragma unroll
  for (int h = 0; h < COUNT; ++h)
#pragma unroll
    for (int i = 0; i < 8; ++i) lanes[h][i] = 0.0f;
  if (seen) {
#pragma unroll(UNROLL)
    for (int d = 0; d < dim; d += 32) {
      float k[8];
      load8<FORMAT>(row + d * value_bytes<FORMAT>(), scale, k);
#pragma unroll
      for (int h = 0; h < COUNT; ++h) {
        const float4* q = (const float4*)(query + h * dim + d);
        const float4 a = q[0], b = q[1];
        lanes[h][0] = __fmaf_rn(a.x, k[0], lanes[h][0]);
        lanes[h][1] = __fmaf_rn(a.y, k[1], lanes[h][1]);
        lanes[h][2] = __fmaf_rn(a.z, k[2], lanes[h][2]);
        lanes[h][3] = __fmaf_rn(a.w, k[3], lanes[h][3]);
        lanes[h][4] = __fmaf_rn(b.x, k[4], lanes[h][4]);
        lanes[h][5] = __fmaf_rn(b.y, k[5], lanes[h][5]);
        lanes[h][6] = __fmaf_rn(b.z, k[6], lanes[h][6]);
        lanes[h][7] = __fmaf_rn(b.w, k[7], lanes[h][7]);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < COUNT; ++h) {
#pragma unroll
    for (int i = 0; i < 8; ++i) lanes[h][i] += __shfl_xor_sync(ALL, lanes[h][i], 2);
#pragma unroll
    for (int i = 0; i < 8; ++i) lanes[h][i] += __shfl_xor_sync(ALL, lanes[h][i], 1);
#pragma unroll
    for (int half = 4; half > 0; half /= 2)
#pragma unroll
      for (int i = 0; i < half; ++i) lanes[h][i] += lanes[h][i + half];
    scores[h] = lanes[h][0];
  }
}

// Weights of a block's keys `from .. to` where their scores were, 0 for all others, by one warp; the largest score.
static __device__ __forceinline__ float weights_of(float* row, int from, int to) {
  const int lane = threadIdx.x % 32;
  const float a = lane >= from && lane < to ? row[lane] : -INFINITY;
  const float b = lane + 32 >= from && lane + 32 < to ? row[lane + 32] : -INFINITY;
  float top = fmaxf(a, b);
#pragma unroll
  for (int s = 16; s > 0; s /= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, s));
  row[lane] = contract_exp(a - top);
  row[lane + 32] = contract_exp(b - top);
  return top;
}

// Adds the weighted values of keys `j .. hi`, COUNT at a time while there are so many: loads of a batch are under way together, the chains go key by key.
template <int FORMAT, int COUNT>
static __device__ __forceinline__ void weigh(int& j, int hi, const float* weights, const char* values, int stride, const float* scales, float& a0,
                                             float& a1, float& l) {
#pragma unroll 1
  for (; j + COUNT <= hi; j += COUNT) {
    float weight[COUNT];
    float2 v[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      weight[i] = weights[j + i];
      v[i] = load2<FORMAT>(values + (j + i) * stride, FORMAT == I8 ? scales[j + i] : 0.0f);
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      l = l + weight[i];
      a0 = __fmaf_rn(weight[i], v[i].x, a0);
      a1 = __fmaf_rn(weight[i], v[i].y, a1);
    }
  }
}

// Reading order: what no earlier kernel of the list writes (norm weights, the rope row, rows of earlier positions in the narrow form); then
// the head norms; then for each block of keys scores, weights, sums. Loops stay loops and helpers have one place: an instruction
// that runs once costs its fetch.
template <int FORMAT, int HEADS>
static __device__ __forceinline__ void attend(const Attention& p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ float key_scales[KEY_BLOCK], value_scales[KEY_BLOCK], largest[HEADS];
  const int stride = value_bytes<FORMAT>() * p.dim + 64;
  char* keys = memory;
  char* values = p.one_buffer ? keys : keys + KEY_BLOCK * stride;
  float* query = (float*)(values + KEY_BLOCK * stride);
  float* weights = query + HEADS * p.dim;
  float* fresh = weights + HEADS * KEY_BLOCK;  // this position's key and value
  float* q_norm = fresh + 2 * p.dim;
  float* k_norm = q_norm + p.dim;
  float* rope = k_norm + p.dim;
  release_next();

  const unsigned long long base_address = p.columns[blockIdx.z].kv;
  const int position = p.columns[blockIdx.z].position;
  int group = p.heads / p.kv_heads, parts = (group + HEADS - 1) / HEADS;
  int kv_head = blockIdx.y / parts, head0 = kv_head * group + blockIdx.y % parts * HEADS;
  int heads = min(HEADS, (kv_head + 1) * group - head0);
  int last = position + 1 - p.past, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int first = p.past ? (p.window > 0 ? max(0, position - p.window) : 0) : first_seen(position, p.window);
  int first_block = first / KEY_BLOCK, first_slot = kv_head * p.slots;
  const bool own = p.k != nullptr;
  const Scale count = count_of(p.dim);
  // Where this position's row lies: a quotient that needs no input.
  const size_t slot = first_slot + (p.ring ? position % p.slots : position);
  int block = first_block + blockIdx.x;
  if (block * KEY_BLOCK >= last) return;

#pragma unroll 1
  for (int i = threadIdx.x; i < p.dim / 4; i += ATTENTION_THREADS) {
    copy16(q_norm + i * 4, p.q_norm + i * 4);
    if (own) copy16(k_norm + i * 4, p.k_norm + i * 4);
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < 2 * p.pairs; i += ATTENTION_THREADS)
    copy4(rope + i, p.rope + (size_t)position * p.rope_stride + i);
  copies_commit();

  for (bool once = true; block * KEY_BLOCK < last; block += gridDim.x, once = false) {
    int base = block * KEY_BLOCK, lo = max(first - base, 0), hi = min(last - base, KEY_BLOCK), now = position - base;
    const bool reached = !p.past && now >= 0 && now < KEY_BLOCK, here = own && reached;
    if (!once) __syncthreads();
    if (once && !p.early) await_previous();
    // A block of aligned positions never wraps.
    const int block_slot = first_slot + (p.ring ? base % p.slots : base);
    // In the narrow form this position's row is not stored yet, or not by a kernel that has surely finished.
    const bool skips = reached && (own || (once && p.early));
    const unsigned long long skip = skips ? 1ull << now : 0;
    fetch<FORMAT>(p, base_address + p.keys, base_address + p.key_scales, block_slot, lo, hi, skip, keys, key_scales);
    if (!p.one_buffer)
      fetch<FORMAT>(p, base_address + p.values_at, base_address + p.value_scales, block_slot, lo, hi, skip, values, value_scales);
    copies_commit();
    if (once) {
      copies_wait<1>();
      __syncthreads();
      if (p.early) await_previous();
      if (!own && skips && warp >= 6 && (warp == 6 || !p.one_buffer)) {
        // The row of this position, which an earlier layer stored.
        const int bytes = value_bytes<FORMAT>() * p.dim;
        bool is_key = warp == 6;
        const char* from = (const char*)(base_address + (is_key ? p.keys : p.values_at)) + slot * bytes;
#pragma unroll 1
        for (int i = lane; i < bytes / 16; i += 32) copy16((is_key ? keys : values) + now * stride + i * 16, from + i * 16);
        if (FORMAT == I8 && lane == 0)
          (is_key ? key_scales : value_scales)[now] =
              ((const float*)(base_address + (is_key ? p.key_scales : p.value_scales)))[slot];
        copies_commit();
      }
      // A warp a head: queries, then the key and the value of this position where the block's rounds reach it.
      bool holds = own && now >= 0 && now / KEY_BLOCK % (int)gridDim.x == 0;
#pragma unroll 1
      for (int job = warp; job < heads + (holds ? 2 : 0); job += ATTENTION_THREADS / 32) {
        bool is_query = job < heads, is_key = job == heads;
        size_t row = is_query ? (size_t)blockIdx.z * p.q_stride + (size_t)(head0 + job) * p.dim
                              : (size_t)blockIdx.z * p.kv_stride + (size_t)kv_head * p.dim;
        float* out = is_query ? query + job * p.dim : fresh + (is_key ? 0 : p.dim);
        if (is_query && p.q_float) {
          norm_float_head(p.q_float + row, q_norm, p.dim, count, out);
        } else {
          const int8_t* codes = is_query ? p.q : is_key ? p.k : p.v;
          float scale = is_query ? p.q_scale : is_key ? p.k_scale : p.v_scale;
          norm_head(codes + row, scale, is_query ? q_norm : is_key ? k_norm : nullptr, p.dim, count, out);
        }
        if (is_query || is_key) turn(out, rope, p.pairs, p.dim);
        if (is_query && p.tap_query && blockIdx.x == 0)
          for (int d = lane; d < p.dim; d += 32) p.tap_query[(head0 + job) * p.dim + d] = out[d];
        if (!is_query && blockIdx.y % parts == 0 && !p.chain->done) {
          char* to = (char*)(base_address + (is_key ? p.keys : p.values_at)) + slot * value_bytes<FORMAT>() * p.dim;
          store_row<FORMAT>(out, p.dim, to, (float*)(base_address + (is_key ? p.key_scales : p.value_scales)) + slot);
        }
      }
      __syncthreads();
    }
    if (here && warp < (p.one_buffer ? 1 : 2)) {
      bool is_key = warp == 0;
      store_row<FORMAT>(fresh + warp * p.dim, p.dim, (is_key ? keys : values) + now * stride,
                        (is_key ? key_scales : value_scales) + now);
    }
    copies_wait<0>();
    __syncthreads();

    // Scores: thread (key, u) has lanes 8 u .. 8 u + 7 of every head.
    {
      const int j = threadIdx.x / 4, u = threadIdx.x % 4;
      const bool seen = j >= lo && j < hi;
      float scores[HEADS];
      score<FORMAT, HEADS, HEADS == 1 ? 4 : 2>(seen, keys + j * stride + u * 8 * value_bytes<FORMAT>(), FORMAT == I8 && seen ? key_scales[j] : 0.0f,
                                               query + u * 8, p.dim, scores);
#pragma unroll
      for (int h = 0; h < HEADS; ++h)
        if (seen && u == 0) weights[h * KEY_BLOCK + j] = scores[h];
    }
    __syncthreads();
    if (p.one_buffer) {
      fetch<FORMAT>(p, base_address + p.values_at, base_address + p.value_scales, block_slot, lo, hi, here ? skip : 0, values, value_scales);
      copies_commit();
      if (here && warp == 7) store_row<FORMAT>(fresh + p.dim, p.dim, values + now * stride, value_scales + now);
      copies_wait<0>();
    }
#pragma unroll 1
    for (int h = warp; h < heads; h += ATTENTION_THREADS / 32) {
      const float top = weights_of(weights + h * KEY_BLOCK, lo, hi);
      if (lane == 0) largest[h] = top;
    }
    __syncthreads();

    // Values: a thread has two values of a head.
    int pairs = p.dim / 2;
#pragma unroll 1
    for (int item = threadIdx.x; item < pairs * heads; item += ATTENTION_THREADS) {
      int h = HEADS == 1 ? 0 : item / pairs, d = (item - h * pairs) * 2;
      const float* w = weights + h * KEY_BLOCK;
      const char* column_of = values + d * value_bytes<FORMAT>();
      float a0 = 0.0f, a1 = 0.0f, l = 0.0f;
      int j = lo;
      weigh<FORMAT, 16>(j, hi, w, column_of, stride, value_scales, a0, a1, l);
      weigh<FORMAT, 4>(j, hi, w, column_of, stride, value_scales, a0, a1, l);
      weigh<FORMAT, 1>(j, hi, w, column_of, stride, value_scales, a0, a1, l);
      size_t at = ((size_t)blockIdx.z * p.heads + head0 + h) * p.blocks + (block - first_block);
      *(float2*)(p.values + at * p.dim + d) = make_float2(a0, a1);
      if (d == 0) {
        p.largest[at] = largest[h];
        p.sums[at] = l;
      }
    }
  }
}

#define ATTEND(name, format, heads)                                                                                   \
  extern "C" __global__ void __launch_bounds__(ATTENTION_THREADS) name(__grid_constant__ const Attention p) {         \
    attend<format, heads>(p);                                                                                         \
  }
ATTEND(attend_f32_1, F32, 1)
ATTEND(attend_f32_4, F32, 4)
ATTEND(attend_f16_1, F16, 1)
ATTEND(attend_f16_4, F16, 4)
ATTEND(attend_i8_1, I8, 1)
ATTEND(attend_i8_4, I8, 4)

// Stores the keys and values of many columns before any of them attends: one warp a column, K/V head and side.
template <int FORMAT>
static __device__ __forceinline__ void store(const Attention& p) {
  extern __shared__ __align__(128) char memory[];
  release_next();
  await_previous();
  Column column = p.columns[blockIdx.x];
  int kv_head = blockIdx.y, side = threadIdx.x / 32;
  float* row = (float*)memory + side * p.dim;
  size_t at = (size_t)blockIdx.x * p.kv_stride + (size_t)kv_head * p.dim;
  size_t slot = (size_t)kv_head * p.slots + (p.ring ? column.position % p.slots : column.position);
  if (side == 0) {
    norm_head(p.k + at, p.k_scale, p.k_norm, p.dim, count_of(p.dim), row);
    turn(row, p.rope + (size_t)column.position * p.rope_stride, p.pairs, p.dim);
  } else {
    norm_head(p.v + at, p.v_scale, nullptr, p.dim, count_of(p.dim), row);
  }
  unsigned long long rows = side == 0 ? p.keys : p.values_at, scales = side == 0 ? p.key_scales : p.value_scales;
  store_row<FORMAT>(row, p.dim, (char*)(column.kv + rows) + slot * value_bytes<FORMAT>() * p.dim,
                    (float*)(column.kv + scales) + slot);
}

#define STORE(name, format) \
  extern "C" __global__ void __launch_bounds__(64) name(__grid_constant__ const Attention p) { store<format>(p); }
STORE(store_f32, F32)
STORE(store_f16, F16)
STORE(store_i8, I8)
