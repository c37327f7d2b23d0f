// Parts of a layer's attention as one kernel (layer_attention.cu): products whose weights are read before their activations, head norms and rope by several warps, storing
// K/V, scores by eight threads a key, weighted values with the next eight keys under way.
//
// Addresses in shared memory are kept in registers (`Shared`) where they are made before a barrier or a wait and used behind it: the compiler would make them again there, from the
// thread's number, the block's place in its cluster and arguments. Reading order: output and products of four units; heads, one warp each and several; scores; values.
#pragma once
#include "linear.cuh"

// The product of a block's rows of the output projection with the head's codes, added to `sums`: a warp has whole row blocks, so its sums need no shared memory.
template <int BITS>
static __device__ __forceinline__ void add_output(const Matrix& m, const uint4* weights, int row_block, int row_blocks, const int8_t* x, int code_sum,
                                                  int* sums) {
  const int PLANES = 8 / BITS, lane = threadIdx.x % 32, t = lane % 4;
  const int8_t* column = x + t * 4 * PLANES + lane / 4 % PLANES * 4;
  const int correction = t == 0 ? (code_sum << (BITS - 1)) : 0;
#pragma unroll 1
  for (int block = threadIdx.x / 32; block < row_blocks; block += WARPS) {
    ColumnSums<BITS> c;
    clear(c);
    const uint4* units = weights + block * m.split_k * 32 + lane;
    const unsigned* at = (const unsigned*)column;
#pragma unroll 2
    for (int k = 0; k < m.split_k; k += 2) {
      UnitPair pair;
      load_pair<BITS>(pair, units + k * 32, at + k * (64 / BITS), m.split_k - k);
      add_pair(c, pair, m.split_k - k);
    }
    if (2 * t >= PLANES) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int sum = -correction;
#pragma unroll
      for (int p = 0; p < PLANES; ++p) {
        const int from = 2 * half + p % 2, plane = c.c[p][from] - (p > 0 ? c.c[p > 0 ? p - 1 : 0][from] : 0);
        if (p / 2 == t) sum += plane >> (p * BITS);
      }
      const int row = (row_block + block) * 16 + lane / 4 + half * 8;
      if (row < m.rows) atomicAdd(sums + row, sum);
    }
  }
}

// Products of a row block of 4 bits where K is whole fours of units: the units of a four are read before their activations exist, and two halves of a sum are two chains.
struct FourUnits {
  uint4 w[4];
};
struct FourSums {
  int low[2][4], all[2][4];
};
static __device__ __forceinline__ void load_four(FourUnits& units, const uint4* from, bool there) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (there) units.w[i] = from[i * 32];
}
static __device__ __forceinline__ void clear(FourSums& sums) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) sums.low[i][j] = sums.all[i][j] = 0;
}
// `column`: the lane's words of activations.
static __device__ __forceinline__ void add_four(FourSums& sums, const FourUnits& units, const unsigned* column) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint4 w = units.w[i];
    const unsigned first = column[i * 16], second = column[i * 16 + 8], mask = 0x0f0f0f0fu;
    mma(sums.low[i % 2], w.x & mask, w.y & mask, w.z & mask, w.w & mask, first, second);
    mma(sums.all[i % 2], w.x, w.y, w.z, w.w, first, second);
  }
}
// Of the row block's first or second eight rows, lane 4 i has that of row i.
static __device__ __forceinline__ int sum_of(const FourSums& sums, int half) {
  const int at = 2 * half;
  return sums.low[0][at] + sums.low[1][at] + ((sums.all[0][at + 1] + sums.all[1][at + 1] - sums.low[0][at + 1] - sums.low[1][at + 1]) >> 4);
}

// A warp's share of the products of q, k and v, whose first four units are there.
static __device__ __forceinline__ void consume_fours(const Stream& s, FourUnits& units, const uint4* lanes, const int8_t* x, int* sums) {
  const int lane = threadIdx.x % 32, t = lane % 4;
  const unsigned* const column = (const unsigned*)(x + t * 8 + lane / 4 % 2 * 4);
  int* row = sums + s.block * 16 + lane / 4;
  FourSums c;
  clear(c);
  int k = s.k;
#pragma unroll 1
  for (int index = s.first; index < s.last; index += 4) {
    add_four(c, units, column + k * 16);
    k += 4;
    load_four(units, lanes + (index + 4) * 32, index + 4 < s.last);
    if (k < s.k_count && index + 4 < s.last) continue;
    if (t == 0) shared_add(row, sum_of(c, 0)), shared_add(row + 8, sum_of(c, 1));
    clear(c);
    row += 16, k = 0;
  }
}

// `add_output` likewise.
static __device__ __forceinline__ void add_output_fours(const Matrix& m, FourUnits& units, const uint4* lanes, int row_block, int row_blocks, const int8_t* x,
                                                        int code_sum, int* sums) {
  const int lane = threadIdx.x % 32, t = lane % 4;
  const unsigned* const column = (const unsigned*)(x + t * 8 + lane / 4 % 2 * 4);
#pragma unroll 1
  for (int block = threadIdx.x / 32; block < row_blocks; block += WARPS) {
    FourSums c;
    clear(c);
#pragma unroll 1
    for (int k = 0; k < m.split_k; k += 4) {
      add_four(c, units, column + k * 16);
      const bool last = k + 4 == m.split_k;
      const int next = last ? block + WARPS : block;
      load_four(units, lanes + (next * m.split_k + (last ? 0 : k + 4)) * 32, next < row_blocks);
    }
    if (t != 0) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (row_block + block) * 16 + lane / 4 + half * 8;
      if (row < m.rows) atomicAdd(sums + row, sum_of(c, half) - (code_sum << 3));
    }
  }
}

// A head by a warp, in registers: lane l has words l + 32 i of four values.
struct HeadValues {
  float4 word[4];
};

// Rules 6 and 7 on the codes of a head of 32, 64, ... 512 values; without weight and rope where they are values. (No null in place of either: the compiler would lose sight
// of where they lie.)
static __device__ __forceinline__ HeadValues head_values(const int8_t* codes, float scale, bool are_values, const float* weight, const float* rope,
                                                         int pairs, int dim, const Scale& count) {
  const int lane = threadIdx.x % 32;
  HeadValues head;
  int squares = 0, word[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = lane + 32 * i < dim / 4 ? ((const int*)codes)[lane + 32 * i] : 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) squares = __dp4a(word[i], word[i], squares);
  squares = warp_sum(squares);
  const float r = reciprocal_root_here((float)squares * (scale * scale), count);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const char4 c = *(const char4*)&word[i];
    float4 y = make_float4(((float)c.x * scale) * r, ((float)c.y * scale) * r, ((float)c.z * scale) * r, ((float)c.w * scale) * r);
    if (!are_values && lane + 32 * i < dim / 4) {
      const float4 w = ((const float4*)weight)[lane + 32 * i];
      y.x = y.x * w.x, y.y = y.y * w.y, y.z = y.z * w.z, y.w = y.w * w.w;
    }
    head.word[i] = y;
  }
  if (are_values) return head;
  if (dim == 512) {
    turn_words(head.word[0], head.word[2], rope, pairs, 4 * lane);
    turn_words(head.word[1], head.word[3], rope, pairs, 4 * lane + 128);
  } else if (dim == 256) {
    turn_words(head.word[0], head.word[1], rope, pairs, 4 * lane);
  } else {
    const int half = dim / 8;
    float4 own = head.word[0], other;
    other.x = __shfl_xor_sync(ALL, own.x, half), other.y = __shfl_xor_sync(ALL, own.y, half);
    other.z = __shfl_xor_sync(ALL, own.z, half), other.w = __shfl_xor_sync(ALL, own.w, half);
    if (lane & half) turn_words(other, own, rope, pairs, 4 * (lane & (half - 1)));
    else turn_words(own, other, rope, pairs, 4 * (lane & (half - 1)));
    head.word[0] = own;
  }
  return head;
}

// A code as a float, without a conversion: its bits flipped at the top are the low byte of 2^23 and some.
static __device__ __forceinline__ float code_value(unsigned flipped, unsigned which) {
  return __uint_as_float(__byte_perm(flipped, 0x4b000000u, 0x7440u + which)) - 8388736.0f;
}

// Two values of a head and the two that rule 7 turns them with, half a head further.
struct HeadPairs {
  float2 first, second;
};

// `head_values` by as many warps as the head has 128 values, thread `index` of which has values 2 index and 2 index + 1. What does not depend on codes is read before they are there, and
// every warp makes the sum of squares for itself.
struct HeadWork {
  Shared squares, codes;
  float2 weight, partner_weight, cosines, sines;
  float scale;
  unsigned has, turns;
};
static __device__ __forceinline__ HeadWork head_work(const int8_t* codes, int index, float scale, bool are_values, const float* weight, const float* rope, int pairs,
                                                     int dim) {
  const int lane = threadIdx.x % 32, at = 2 * index, half = dim / 2;
  HeadWork work;
  work.weight = work.partner_weight = work.cosines = work.sines = make_float2(1.0f, 1.0f);
  work.has = at < half;
  work.turns = !are_values && at < pairs;
  work.squares = keep_shared(codes + (16 * lane < dim ? 16 * lane : 0));
  work.codes = keep_shared(codes + (work.has ? at : 0));
  work.scale = scale;
  if (work.has && !are_values) work.weight = *(const float2*)(weight + at), work.partner_weight = *(const float2*)(weight + half + at);
  if (work.turns) work.cosines = *(const float2*)(rope + at), work.sines = *(const float2*)(rope + pairs + at);
  keep(work.has), keep(work.turns), read_now(work.scale);
  return work;
}
static __device__ __forceinline__ HeadPairs head_pairs(const HeadWork& work, bool are_values, int dim, const Scale& count) {
  int4 all;
  unsigned x, y;
  shared_load(work.squares, 0, all);
  shared_load_short(work.codes, 0, x);
  shared_load_short(work.codes, dim / 2, y);
  int squares = __dp4a(all.y, all.y, __dp4a(all.x, all.x, 0)) + __dp4a(all.w, all.w, __dp4a(all.z, all.z, 0));
  squares = warp_sum(16 * ((int)threadIdx.x % 32) < dim ? squares : 0);
  const float r = reciprocal_root_here((float)squares * (work.scale * work.scale), count), scale = work.scale;
  x ^= 0x8080u, y ^= 0x8080u;
  HeadPairs head;
  float2 a = make_float2((code_value(x, 0) * scale) * r, (code_value(x, 1) * scale) * r);
  float2 b = make_float2((code_value(y, 0) * scale) * r, (code_value(y, 1) * scale) * r);
  if (!are_values) {
    const float2 w = work.weight, z = work.partner_weight, c = work.cosines, s = work.sines;
    a.x = a.x * w.x, a.y = a.y * w.y, b.x = b.x * z.x, b.y = b.y * z.y;
    const float2 p = a, q = b;
    const float2 turned = make_float2(c.x * p.x - s.x * q.x, c.y * p.y - s.y * q.y), partner = make_float2(s.x * p.x + c.x * q.x, s.y * p.y + c.y * q.y);
    if (work.turns) a = turned, b = partner;
  }
  head.first = a, head.second = b;
  return head;
}

struct __align__(4) TwoHalves {
  __half x, y;
};

// Rule 12 without scales: a head as it is stored at `row`.
template <int FORMAT>
static __device__ __forceinline__ void store_pairs(const HeadPairs& head, int index, int dim, char* row) {
  if (FORMAT == F32) {
    ((float2*)row)[index] = head.first;
    ((float2*)row)[dim / 4 + index] = head.second;
  } else {
    ((TwoHalves*)row)[index] = {to_f16(head.first.x), to_f16(head.first.y)};
    ((TwoHalves*)row)[dim / 4 + index] = {to_f16(head.second.x), to_f16(head.second.y)};
  }
}

// Four values of a row, as every reader sees them.
template <int FORMAT>
static __device__ __forceinline__ float4 load4(Shared from, unsigned offset, float scale) {
  float4 four;
  if (FORMAT == F32) {
    shared_load(from, offset, four);
  } else if (FORMAT == F16) {
    uint2 w;
    shared_load(from, offset, w);
    const float2 a = __half22float2(*(const __half2*)&w.x), b = __half22float2(*(const __half2*)&w.y);
    four = make_float4(a.x, a.y, b.x, b.y);
  } else {
    unsigned w;
    shared_load(from, offset, w);
    const char4 c = *(const char4*)&w;
    four = make_float4((float)c.x * scale, (float)c.y * scale, (float)c.z * scale, (float)c.w * scale);
  }
  return four;
}

// STEPS steps of the sum of a key and the query, of which a thread has four lanes, from value `d` on.
template <int FORMAT, int STEPS>
static __device__ __forceinline__ void add_score(Shared row, float scale, Shared query, int d, float4& lanes) {
  float4 k[STEPS], q[STEPS];
  row.at += d * value_bytes<FORMAT>(), query.at += 4 * d;
#pragma unroll
  for (int i = 0; i < STEPS; ++i) k[i] = load4<FORMAT>(row, i * 32 * value_bytes<FORMAT>(), scale), shared_load(query, i * 128, q[i]);
#pragma unroll
  for (int i = 0; i < STEPS; ++i) {
    lanes.x = __fmaf_rn(q[i].x, k[i].x, lanes.x), lanes.y = __fmaf_rn(q[i].y, k[i].y, lanes.y);
    lanes.z = __fmaf_rn(q[i].z, k[i].z, lanes.z), lanes.w = __fmaf_rn(q[i].w, k[i].w, lanes.w);
  }
}

// The largest of a value a lane.
static __device__ __forceinline__ float warp_largest(float x) {
  // In the order of integers, what is no number counts for nothing.
  int bits = __float_as_int(fmaxf(x, -INFINITY));
  bits = __reduce_max_sync(ALL, bits ^ (bits >> 31 & 0x7fffffff));
  return __int_as_float(bits ^ (bits >> 31 & 0x7fffffff));
}

// Two neighbouring values of eight keys from `j` on, as they are stored; rows outside `from .. until` are those at its ends.
template <int FORMAT>
struct EightPairs {
  typedef float2 Stored;
  Stored v[8];
};
template <>
struct EightPairs<F16> {
  typedef unsigned Stored;
  Stored v[8];
};
template <>
struct EightPairs<I8> {
  typedef unsigned short Stored;
  Stored v[8];
  float scales[8];
};
template <int FORMAT>
static __device__ __forceinline__ void take_scale(EightPairs<FORMAT>&, int, float) {}
static __device__ __forceinline__ void take_scale(EightPairs<I8>& eight, int i, float scale) { eight.scales[i] = scale; }
template <int FORMAT>
static __device__ __forceinline__ float scale_of(const EightPairs<FORMAT>&, int) { return 0.0f; }
static __device__ __forceinline__ float scale_of(const EightPairs<I8>& eight, int i) { return eight.scales[i]; }
template <int FORMAT>
static __device__ __forceinline__ void load_pairs(EightPairs<FORMAT>& eight, const char* column, int stride, const float* scales, int j, int from, int until) {
  typedef typename EightPairs<FORMAT>::Stored Stored;
  if (j >= from && j + 8 <= until) {
    const char* row = column + j * stride;
#pragma unroll
    for (int i = 0; i < 8; ++i) eight.v[i] = *(const Stored*)(row + i * stride), take_scale(eight, i, FORMAT == I8 ? scales[j + i] : 0.0f);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int at = min(max(j + i, from), until - 1);
      eight.v[i] = *(const Stored*)(column + at * stride), take_scale(eight, i, FORMAT == I8 ? scales[at] : 0.0f);
    }
  }
}
template <int FORMAT>
static __device__ __forceinline__ float2 pair_of(const EightPairs<FORMAT>& eight, int i) {
  return load2<FORMAT>((const char*)&eight.v[i], scale_of(eight, i));
}

struct __align__(8) FourHalves {
  __half x, y, z, w;
};

// Rule 12: a head as it is stored at `row`; the scale of an i8 row at `scale`.
template <int FORMAT>
static __device__ __forceinline__ void store_head(const HeadValues& head, int dim, char* row, float* scale) {
  const int lane = threadIdx.x % 32;
  float unit = 0.0f;
  if (FORMAT == I8) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (lane + 32 * i < dim / 4)
        largest = fmaxf(fmaxf(fmaxf(largest, fabsf(head.word[i].x)), fmaxf(fabsf(head.word[i].y), fabsf(head.word[i].z))), fabsf(head.word[i].w));
#pragma unroll
    for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, s));
    unit = __fdiv_rn(largest, 127.0f);
    if (lane == 0) *scale = unit;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = lane + 32 * i;
    if (at >= dim / 4) break;
    const float4 v = head.word[i];
    if (FORMAT == F32) ((float4*)row)[at] = v;
    else if (FORMAT == F16) ((FourHalves*)row)[at] = {to_f16(v.x), to_f16(v.y), to_f16(v.z), to_f16(v.w)};
    else ((unsigned*)row)[at] = unit == 0.0f ? 0 : quantise_four_any(v, unit);
  }
}
