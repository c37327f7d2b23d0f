// Attention of a prompt (rules 6 to 8, 12): one sequence, neighbouring positions, keys and values read once for a tile of queries.
//
// The pass's K/V lie in rows by position: full layers have them in the cache, sliding ones in a buffer beside the ring, because a pass is wider than a
// ring's slack. `bulk_store` puts the window before the pass and the pass's own rows there, attention brings back what a ring holds (`refill_ring`), `bulk_keep` where nothing attends.
// This file has what stores and finds rows; `bulk_tiles.cu`, `bulk_apart.cu` and `bulk_wide.cu` attend.
#include "lanes.cuh"
#include "shapes.cuh"

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

// Normed and turned queries of a warp's rows `warp` + 8 i, from codes, norm weights and rope rows in shared memory: the roots of all rows at once, a lane each. Rows behind `count` are 0.
template <int DIM, int ROWS>
static __device__ __forceinline__ void norm_rows(const BulkAttention& p, const int8_t* codes, const float* norm, const float* rope, int group, int count, float* natural, int stride) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (DIM < 256 || p.pairs % 4) {
#pragma unroll 1
    for (int row = warp; row < 8 * ROWS; row += 8) {
      float* to = natural + row * stride;
      if (row < count) {
        norm_head(codes + row * DIM, p.q_scale, norm, DIM, count_of(DIM), to);
        turn(to, rope + row / group * 2 * p.pairs, p.pairs, DIM);
      } else {
        for (int d = lane; d < DIM; d += 32) to[d] = 0.0f;
      }
    }
    return;
  }
  const int WORDS = DIM < 256 ? 2 : DIM / 128;
  int mine = 0;
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    int squares = 0;
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      const int word = ((const int*)codes)[(warp + 8 * i) * (DIM / 4) + lane + 32 * w];
      squares = __dp4a(word, word, squares);
    }
    squares = warp_sum(squares);
    if (lane == i) mine = squares;
  }
  const float root = reciprocal_root((float)mine * (p.q_scale * p.q_scale), count_of(DIM));
#pragma unroll 2
  for (int i = 0; i < ROWS; ++i) {
    const int row = warp + 8 * i;
    const float r = __shfl_sync(ALL, root, i);
    float4 x[WORDS];
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      const char4 c = ((const char4*)codes)[row * (DIM / 4) + lane + 32 * w];
      const float4 weight = ((const float4*)norm)[lane + 32 * w];
      x[w] = make_float4((((float)c.x * p.q_scale) * r) * weight.x, (((float)c.y * p.q_scale) * r) * weight.y, (((float)c.z * p.q_scale) * r) * weight.z,
                         (((float)c.w * p.q_scale) * r) * weight.w);
    }
    if (row < count) {
#pragma unroll
      for (int w = 0; w < WORDS / 2; ++w) turn_words(x[w], x[w + WORDS / 2], rope + row / group * 2 * p.pairs, p.pairs, 4 * lane + 128 * w);
    }
#pragma unroll
    for (int w = 0; w < WORDS; ++w)
      *(float4*)(natural + row * stride + 4 * lane + 128 * w) = row < count ? x[w] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
}

// A column's keys and values as halves, a warp a side, in registers: nothing but their codes comes behind the kernel before. Columns came before the first kernel of the list, norm weights and the
// rope's rows before that.
template <int DIM>
static __device__ __forceinline__ void store_halves(const BulkAttention& p, const Column& first) {
  const int WORDS = DIM / 128, kv_head = blockIdx.y, side = threadIdx.x / 32, lane = threadIdx.x % 32, position = p.columns[blockIdx.x].position;
  const float* none;
  char* to = (char*)rows_of(p, first, kv_head, side == 1, none) + (long long)position * (2 * DIM);
  const int* codes = (const int*)((side ? p.v : p.k) + (size_t)blockIdx.x * p.stride + (size_t)kv_head * DIM) + lane;
  const float scale = side ? p.v_scale : p.k_scale, *rope = p.rope + (size_t)position * p.rope_stride;
  float4 weight[WORDS], by[WORDS / 2], turned[WORDS / 2];
  if (side == 0) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) weight[w] = ((const float4*)p.k_norm)[lane + 32 * w];
#pragma unroll
    for (int w = 0; w < WORDS / 2; ++w)
      if (4 * lane + 128 * w < p.pairs) by[w] = *(const float4*)(rope + 4 * lane + 128 * w), turned[w] = *(const float4*)(rope + p.pairs + 4 * lane + 128 * w);
  }
  await_previous();
  int word[WORDS], squares = 0;
#pragma unroll
  for (int w = 0; w < WORDS; ++w) word[w] = __ldcg(codes + 32 * w);
#pragma unroll
  for (int w = 0; w < WORDS; ++w) squares = __dp4a(word[w], word[w], squares);
  const float r = reciprocal_root((float)warp_sum(squares) * (scale * scale), count_of(DIM));
  float4 x[WORDS];
#pragma unroll
  for (int w = 0; w < WORDS; ++w) {
    const char4 c = *(const char4*)&word[w];
    x[w] = make_float4(((float)c.x * scale) * r, ((float)c.y * scale) * r, ((float)c.z * scale) * r, ((float)c.w * scale) * r);
  }
  if (side == 0) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w) x[w] = make_float4(x[w].x * weight[w].x, x[w].y * weight[w].y, x[w].z * weight[w].z, x[w].w * weight[w].w);
#pragma unroll
    for (int w = 0; w < WORDS / 2; ++w)
      if (4 * lane + 128 * w < p.pairs) turn_by(x[w], x[w + WORDS / 2], by[w], turned[w]);
  }
#pragma unroll
  for (int w = 0; w < WORDS; ++w) ((FourHalves*)to)[lane + 32 * w] = {to_f16(x[w].x), to_f16(x[w].y), to_f16(x[w].z), to_f16(x[w].w)};
}

// Keys and values of the pass, one block of the grid a column and K/V head, a warp a side. Behind the columns: the window before the pass, a
// row a block, from the ring.
extern "C" __global__ void __launch_bounds__(64) bulk_store(__grid_constant__ const BulkAttention p) {
  extern __shared__ __align__(128) char memory[];
  release_next();
  const Column first = p.columns[0];
  if ((int)blockIdx.x < p.count && p.format == F16 && p.pairs % 4 == 0) {
    if (p.dim == 256) return store_halves<256>(p, first);
    if (p.dim == 512) return store_halves<512>(p, first);
  }
  await_previous();
  const int kv_head = blockIdx.y, side = threadIdx.x / 32, lane = threadIdx.x % 32, bytes = p.dim * bytes_of(p.format);
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

// What a ring holds behind the pass, by a warp a side of every block of the grid; nobody reads it meanwhile, since a sliding layer's rows lie beside it.
template <int DIM, int FORMAT>
static __device__ __forceinline__ void refill_ring(const BulkAttention& p, const Column& first, int kv_head, bool value) {
  const float* scales;
  const int bytes = DIM * value_bytes<FORMAT>(), lane = threadIdx.x % 32;
  const char* from = rows_of(p, first, kv_head, value, scales);
  char* to = (char*)first.kv + (value ? p.values : p.keys);
#pragma unroll 1
  for (int back = blockIdx.x; back < min(p.count, p.slots); back += gridDim.x) {
    int position = first.position + p.count - 1 - back;
    size_t slot = (size_t)kv_head * p.slots + position % p.slots;
    for (int i = lane; i < bytes / 16; i += 32) ((uint4*)(to + slot * bytes))[i] = ((const uint4*)(from + (long long)position * bytes))[i];
    if (FORMAT == I8 && lane == 0) ((float*)(first.kv + (value ? p.value_scales : p.key_scales)))[slot] = scales[position];
  }
}

// Where a lane lies in a row, so that the stores of `place_tile` meet different banks.
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
static __device__ __forceinline__ void put_stored(const Stored& stored, float scale, float* row, int d) {
  float value[8];
  load8<FORMAT>((const char*)&stored, scale, value);
  if (BY_LANES) {
#pragma unroll
    for (int e = 0; e < 8; ++e) row[lane_slot(d % 32 + e) * (DIM / 32 < 4 ? 4 : DIM / 32) + d / 32] = value[e];
  } else {
    *(float4*)(row + d) = make_float4(value[0], value[1], value[2], value[3]);
    *(float4*)(row + d + 4) = make_float4(value[4], value[5], value[6], value[7]);
  }
}
