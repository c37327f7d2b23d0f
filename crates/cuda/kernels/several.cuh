// A few columns (2, 4 or 8) through one stage: entry, merge, codes and products, each by all threads of a block for all columns at once.
//
// One column's entry waits for latencies, not for issue slots: a thread with four values of each column has as many independent chains as there are columns, and the
// columns share every barrier, every weight vector and every root (lane l of a warp finds the root of column l % N, so N roots cost what one costs). Beside the teams of
// warps of `enter` and `merge`: no loops, no second and third round of loads behind each other, nothing through shared memory but the stream, which the chain needs.
// Up to four columns keep their streams in registers; eight read them back from shared memory, where a copy of each lane's own brought them.
#pragma once
#include "enter.cuh"
#include "linear.cuh"
#include "merge.cuh"

// Blocks of keys merged at once: those of a window of 512. Room of one kind of scale of them, in whole vectors.
#define SEVERAL_CHUNK 9
#define SEVERAL_SCALES 12

// Four codes side by side of every column.
template <int N>
static __device__ __forceinline__ void quantise_several(const float4 (&x)[N], const Scale& s, unsigned (&code)[N]) {
  if (s.inverse == 0.0f) {
#pragma unroll
    for (int c = 0; c < N; ++c) code[c] = quantise_four_any(x[c], s.value);
    return;
  }
#pragma unroll
  for (int c = 0; c < N; ++c)
    code[c] = pack_codes(__float2int_rn(quotient(x[c].x, s)), __float2int_rn(quotient(x[c].y, s)), __float2int_rn(quotient(x[c].z, s)),
                         __float2int_rn(quotient(x[c].w, s)));
}

// Adds every column's value of a warp, `sum[c]` of each lane, to `to[c]`.
template <int N>
static __device__ __forceinline__ void add_columns(const int (&sum)[N], int* to) {
  const int lane = threadIdx.x % 32;
  int own = 0;
#pragma unroll
  for (int c = 0; c < N; ++c) {
    int all = warp_sum(sum[c]);
    if (lane == c) own = all;
  }
  if (lane < N) shared_add(to + lane, own);
}

// The same where a lane has a value of column `lane % N` alone.
template <int N>
static __device__ __forceinline__ void add_own_column(int sum, int* to) {
#pragma unroll
  for (int step = 16; step >= N; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
  if (threadIdx.x % 32 < N) shared_add(to + threadIdx.x % 32, sum);
}

// Where the columns' entries lie: the weight vectors, then the streams where somebody else reads them or registers do not hold them.
template <int N>
static __device__ __forceinline__ char* several_room(EnterRoom& room, char* at, int hidden, bool normed) {
  room = enter_room(at, hidden, N);
  if (!normed) room.stream = room.norm;
  return (char*)(room.stream + (normed || N > 4 ? N * hidden : 0));
}

// The entries of N columns whose threads have four values each (enter_is_short). `scratch` has N * STAGE_WARPS ints, `x` a row of `x_stride` bytes a column. Ends without a barrier.
template <int N>
static __device__ __forceinline__ void enter_several(const Enter& e, const EnterRoom& room, const EnterVectors& v, bool write, int8_t* x, int x_size,
                                                     int x_stride, int* scratch, float* roots, int* code_sums) {
  const bool KEEP = N <= 4;
  const int hidden = e.hidden, from = 4 * threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool mine = from < hidden;
  float* stream = room.stream + from;
  float4 h[N];
#pragma unroll
  for (int c = 0; c < N; ++c) h[c] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (e.sums) {
    int4 sum[N];
    unsigned code[N];
#pragma unroll
    for (int c = 0; c < N; ++c) {
      sum[c] = make_int4(0, 0, 0, 0);
      if (mine) sum[c] = __ldcg((const int4*)(e.sums + c * hidden + from));
    }
    if (mine) {
#pragma unroll
      for (int c = 0; c < N; ++c) {
        if (KEEP) h[c] = __ldcg((const float4*)(e.hidden_in + c * hidden + from));
        else copy16(stream + c * hidden, e.hidden_in + c * hidden + from);
      }
    }
    if (!KEEP) copies_commit();
    {
      float4 y[N];
#pragma unroll
      for (int c = 0; c < N; ++c)
        y[c] = make_float4((float)sum[c].x * v.multipliers.x, (float)sum[c].y * v.multipliers.y, (float)sum[c].z * v.multipliers.z,
                           (float)sum[c].w * v.multipliers.w);
      quantise_several(y, e.join, code);
    }
    {
      // Lane c keeps what the warp has of column c.
      int own = 0;
#pragma unroll
      for (int c = 0; c < N; ++c) {
        int squares = warp_sum(__dp4a((int)code[c], (int)code[c], 0));
        if (lane == c) own = squares;
      }
      if (lane < N) scratch[lane * STAGE_WARPS + warp] = own;
    }
    __syncthreads();
    int squares = 0;
    {
      const int4* at = (const int4*)(scratch + lane % N * STAGE_WARPS);
#pragma unroll
      for (int i = 0; i < STAGE_WARPS / 4; ++i) {
        int4 four = at[i];
        squares += four.x + four.y + four.z + four.w;
      }
    }
    const float root = reciprocal_root_here((float)squares * (e.join.value * e.join.value), e.count);
    if (!KEEP) copies_wait<0>();
#pragma unroll
    for (int c = 0; c < N; ++c) {
      const float r = __shfl_sync(ALL, root, c);
      if (!KEEP && mine) h[c] = *(const float4*)(stream + c * hidden);
      h[c].x = (h[c].x + (((float)(int8_t)code[c] * e.join.value) * r) * v.join_norm.x) * e.scalar;
      h[c].y = (h[c].y + (((float)(int8_t)(code[c] >> 8) * e.join.value) * r) * v.join_norm.y) * e.scalar;
      h[c].z = (h[c].z + (((float)(int8_t)(code[c] >> 16) * e.join.value) * r) * v.join_norm.z) * e.scalar;
      h[c].w = (h[c].w + (((float)((int)code[c] >> 24) * e.join.value) * r) * v.join_norm.w) * e.scalar;
      if (mine && write) *(float4*)(e.hidden_out + c * hidden + from) = h[c];
      if (mine && (e.norm || !KEEP)) *(float4*)(stream + c * hidden) = h[c];
    }
  } else if (mine) {
#pragma unroll
    for (int c = 0; c < N; ++c) {
      h[c] = __ldcg((const float4*)(e.hidden_in + c * hidden + from));
      if (e.norm || !KEEP) *(float4*)(stream + c * hidden) = h[c];
    }
  }
  if (e.norm) {
    __syncthreads();
    if (warp < N) {
      float r = reciprocal_root_here(stream_squares(room.stream + warp * hidden, hidden), e.count);
      if (lane == 0) roots[warp] = r;
    }
    __syncthreads();
  }
  int sums[N];
#pragma unroll
  for (int first = 0; first < N; first += N < 4 ? N : 4) {
    const int STEP = N < 4 ? N : 4;
    float4 y[STEP];
    unsigned code[STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const int c = first + i;
      y[i] = h[c];
      if (!KEEP && mine) y[i] = *(const float4*)(stream + c * hidden);
      if (e.norm) {
        const float r = roots[c];
        y[i].x = (y[i].x * r) * v.norm.x, y[i].y = (y[i].y * r) * v.norm.y, y[i].z = (y[i].z * r) * v.norm.z, y[i].w = (y[i].w * r) * v.norm.w;
      }
    }
    quantise_several(y, e.input, code);
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      if (mine) *(unsigned*)(x + (first + i) * x_stride + from) = code[i];
      sums[first + i] = mine ? __dp4a((int)code[i], 0x01010101, 0) : 0;
    }
  }
#pragma unroll 1
  for (int i = hidden + from; i < x_size; i += 4 * THREADS)
    for (int c = 0; c < N; ++c) *(int*)(x + c * x_stride + i) = 0;
  add_columns(sums, code_sums);
}

// Codes of N columns, `x_size` bytes of each from `input` on. Ends without a barrier.
template <int N>
static __device__ __forceinline__ void codes_several(const int8_t* input, int input_stride, int8_t* x, int x_size, int x_stride, int* code_sums) {
  const int column = threadIdx.x % N, pieces = x_size / 16, AT_ONCE = 4;
  const uint4* from = (const uint4*)(input + (size_t)column * input_stride);
  int sum = 0;
#pragma unroll 1
  for (int first = threadIdx.x / N; first < pieces; first += AT_ONCE * (THREADS / N)) {
    uint4 piece[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int at = first + i * (THREADS / N);
      piece[i] = at < pieces ? __ldcg(from + at) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int at = first + i * (THREADS / N);
      if (at < pieces) *(uint4*)(x + column * x_stride + at * 16) = piece[i];
      sum = __dp4a((int)piece[i].x, 0x01010101, sum);
      sum = __dp4a((int)piece[i].y, 0x01010101, sum);
      sum = __dp4a((int)piece[i].z, 0x01010101, sum);
      sum = __dp4a((int)piece[i].w, 0x01010101, sum);
    }
  }
  __syncwarp();
  add_own_column<N>(sum, code_sums);
}

// Running maxima of blocks `first .. first + chunk` of one column and head by one warp, and what each block's values and sums are scaled by (merge.cuh).
static __device__ __forceinline__ void merge_scales(const Merge& m, size_t at, int first, int chunk, float* out) {
  const int lane = threadIdx.x % 32;
  float own = lane < chunk ? __ldcg(m.largest + at + first + lane) : -INFINITY, after = own;
  float part = lane < chunk ? __ldcg(m.sums + at + first + lane) : 0.0f, before = -INFINITY;
  if (first > 0) {
    for (int j = lane; j < first; j += 32) before = fmaxf(before, __ldcg(m.largest + at + j));
#pragma unroll
    for (int s = 16; s > 0; s /= 2) before = fmaxf(before, __shfl_xor_sync(ALL, before, s));
  }
#pragma unroll
  for (int s = 1; s < SEVERAL_CHUNK; s *= 2) {
    float other = __shfl_up_sync(ALL, after, s);
    if (lane >= s) after = fmaxf(after, other);
  }
  after = fmaxf(after, before);
  float previous = __shfl_up_sync(ALL, after, 1);
  if (lane == 0) previous = before;
  if (lane < SEVERAL_CHUNK) {
    out[lane] = contract_exp(previous - after);
    out[SEVERAL_SCALES + lane] = contract_exp(own - after);
    out[2 * SEVERAL_SCALES + lane] = part;
  }
}

// Merges inputs `from .. from + count` of N columns into `x[0 .. x_size)` of each: four neighbouring inputs of a column a thread and turn. `blocks` has each column's blocks of keys;
// `scales` room for 3 * SEVERAL_SCALES floats a column and head of the part. Ends without a barrier.
template <int N>
static __device__ __forceinline__ void merge_several(const Merge& m, const MergePlace& place, const int* blocks, int from, int count, int x_size,
                                                     int8_t* x, int x_stride, float* scales, int* code_sums) {
  const int warp = threadIdx.x / 32, column = threadIdx.x % N;
  int most = 0, sum = 0;
#pragma unroll
  for (int c = 0; c < N; ++c) most = max(most, blocks[c]);
#pragma unroll 1
  for (int turn = 0; turn < x_size / 4 * N; turn += THREADS) {
    const int i = (turn + threadIdx.x) / N * 4;
    const bool mine = i < count;
    const int head = place.heads == 1 || !mine ? place.head0 : (from + i) / m.head_dim;
    const float* values = m.values + ((size_t)column * m.heads + head) * m.blocks * m.head_dim + (from + i - head * m.head_dim);
    float4 a = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float l = 0.0f;
#pragma unroll 1
    for (int first = 0; first < most; first += SEVERAL_CHUNK) {
      const int chunk = min(SEVERAL_CHUNK, blocks[column] - first);
      float4 value[SEVERAL_CHUNK];
#pragma unroll
      for (int j = 0; j < SEVERAL_CHUNK; ++j) {
        value[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (mine && j < chunk) value[j] = __ldcg((const float4*)(values + (first + j) * m.head_dim));
      }
      // Scales of a part that has one chunk stay for all turns.
      if (turn == 0 || most > SEVERAL_CHUNK) {
        if (turn + first > 0) __syncthreads();
        // The last warps, which have the fewest inputs.
#pragma unroll 1
        for (int job = WARPS - 1 - warp; job < N * place.heads; job += WARPS) {
          const int whose = job % N, h = job / N;
          merge_scales(m, ((size_t)whose * m.heads + place.head0 + h) * m.blocks, first, min(SEVERAL_CHUNK, blocks[whose] - first),
                       scales + (h * N + whose) * 3 * SEVERAL_SCALES);
        }
        __syncthreads();
      }
      const float4* c = (const float4*)(scales + ((head - place.head0) * N + column) * 3 * SEVERAL_SCALES);
#pragma unroll
      for (int j = 0; j < SEVERAL_CHUNK; j += 4) {
        if (j >= chunk) break;
        const float4 keeps = c[j / 4], takes = c[(SEVERAL_SCALES + j) / 4], parts = c[(2 * SEVERAL_SCALES + j) / 4];
        const float keep[4] = {keeps.x, keeps.y, keeps.z, keeps.w}, take[4] = {takes.x, takes.y, takes.z, takes.w};
        const float part[4] = {parts.x, parts.y, parts.z, parts.w};
#pragma unroll
        for (int i = 0; i < 4 && j + i < SEVERAL_CHUNK; ++i) {
          const float4 now = value[j + i];
          float4 next = make_float4(__fmaf_rn(a.x, keep[i], now.x * take[i]), __fmaf_rn(a.y, keep[i], now.y * take[i]),
                                    __fmaf_rn(a.z, keep[i], now.z * take[i]), __fmaf_rn(a.w, keep[i], now.w * take[i]));
          float next_l = __fmaf_rn(l, keep[i], part[i] * take[i]);
          if (i == 0 && j == 0 && first == 0) next = now, next_l = part[0];
          if (j + i < chunk) a = next, l = next_l;
        }
      }
    }
    if (mine) {
      unsigned code = quantise_four(make_float4(__fdiv_rn(a.x, l), __fdiv_rn(a.y, l), __fdiv_rn(a.z, l), __fdiv_rn(a.w, l)), m.input);
      *(unsigned*)(x + column * x_stride + i) = code;
      sum = __dp4a((int)code, 0x01010101, sum);
    } else if (i < x_size) {
      *(unsigned*)(x + column * x_stride + i) = 0;
    }
  }
  __syncwarp();
  add_own_column<N>(sum, code_sums);
}

// Bytes from a column's codes to the next one's: such that what the lanes of one load read lies in different banks.
static __device__ __forceinline__ int several_stride(int x_size, int bits) { return x_size + 128 / bits; }

// How the eight columns of a fragment serve N columns of BITS: where they suffice, column `c * PLANES + p` is plane p of column c, and products are those of consume_one;
// elsewhere a plane is a product of its own.
template <int BITS, int N>
struct Several {
  static const int PLANES = 8 / BITS, TOGETHER = PLANES * N <= 8, WORDS = TOGETHER ? 1 : PLANES;
};

// A unit and the lane's words of activations of it.
template <int BITS, int N>
struct SeveralUnit {
  uint4 w;
  unsigned low[Several<BITS, N>::WORDS], high[Several<BITS, N>::WORDS];
};

template <int BITS, int N>
static __device__ __forceinline__ void load_unit(SeveralUnit<BITS, N>& u, const uint4* unit, const unsigned* column) {
  const int WORDS = Several<BITS, N>::WORDS;
  u.w = *unit;
  const unsigned* other = column + 32 / BITS;
  if (WORDS == 1) {
    u.low[0] = column[0], u.high[0] = other[0];
  } else if (WORDS == 2) {
    uint2 low = *(const uint2*)column, high = *(const uint2*)other;
    u.low[0] = low.x, u.low[1 % WORDS] = low.y, u.high[0] = high.x, u.high[1 % WORDS] = high.y;
  } else {
    uint4 low = *(const uint4*)column, high = *(const uint4*)other;
    u.low[0] = low.x, u.low[1 % WORDS] = low.y, u.low[2 % WORDS] = low.z, u.low[3 % WORDS] = low.w;
    u.high[0] = high.x, u.high[1 % WORDS] = high.y, u.high[2 % WORDS] = high.z, u.high[3 % WORDS] = high.w;
  }
}

template <int BITS, int N>
static __device__ __forceinline__ void add_unit(ColumnSums<BITS>& sums, const SeveralUnit<BITS, N>& u) {
  const int PLANES = 8 / BITS;
#pragma unroll
  for (int p = 0; p < PLANES; ++p) {
    const bool TOGETHER = Several<BITS, N>::TOGETHER;
    const unsigned plane = PLANES == 1 ? ~0u : (((1u << BITS % 8) - 1) << p * BITS) * 0x01010101u;
    const unsigned up_to = p == PLANES - 1 ? ~0u : ((1u << (p + 1) * BITS) - 1) * 0x01010101u, m = TOGETHER ? up_to : plane;
    const int word = TOGETHER ? 0 : p;
    mma(sums.c[p], u.w.x & m, u.w.y & m, u.w.z & m, u.w.w & m, u.low[word], u.high[word]);
  }
}

// Adds a row block's sums to `sums[column * rows + row]`, `sums` at the lane's first row.
template <int BITS, int N>
static __device__ __forceinline__ void flush_several(ColumnSums<BITS>& c, int* sums, int rows) {
  const int PLANES = 8 / BITS, SLOTS = Several<BITS, N>::TOGETHER ? PLANES : 1, t = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (SLOTS == 1) {
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        int sum = 0;
#pragma unroll
        for (int p = 0; p < PLANES; ++p) sum += c.c[p][2 * half + side] >> (p * BITS);
        if (2 * t + side < N) shared_add(sums + (2 * t + side) * rows + half * 8, sum);
      }
    } else {
      // The lane's two columns of the fragment are neighbouring planes of one column.
      int sum = 0;
#pragma unroll
      for (int p = 0; p < PLANES; ++p) {
        const int at = 2 * half + p % 2, plane = c.c[p][at] - (p > 0 ? c.c[p > 0 ? p - 1 : 0][at] : 0);
        if (p / 2 == t % (PLANES < 2 ? 1 : PLANES / 2)) sum += plane >> (p * BITS);
      }
      const int column = 2 * t / PLANES;
      if (column < N) shared_add(sums + column * rows + half * 8, sum);
    }
  }
  clear(c);
}

// A warp's units, all there, into `sums[column * rows + row of the block]`; the next two are read while two are multiplied.
template <int BITS, int N>
static __device__ __forceinline__ void consume_several(const Stream& s, const uint4* all, const int8_t* x, int x_stride, int* sums, int rows) {
  const int UNIT = 256 / BITS, PLANES = 8 / BITS, lane = threadIdx.x % 32, DEEP = Several<BITS, N>::WORDS == 4 ? 1 : 2;
  const int f = lane / 4, column = Several<BITS, N>::TOGETHER ? min(f / PLANES, N - 1) : min(f, N - 1), plane = Several<BITS, N>::TOGETHER ? f % PLANES : 0;
  const int8_t* row_of = x + column * x_stride + lane % 4 * 4 * PLANES + plane * 4;
  ColumnSums<BITS> c;
  clear(c);
  int k = s.k;
  int* to = sums + s.block * 16 + lane / 4;
#pragma unroll 1
  for (int index = s.first; index < s.last;) {
    const int count = min(s.last - index, s.k_count - k);
    const uint4* units = all + index * 32;
    const unsigned* at = (const unsigned*)(row_of + k * UNIT);
    SeveralUnit<BITS, N> one[DEEP], two[DEEP];
#pragma unroll
    for (int i = 0; i < DEEP; ++i)
      if (i < count) load_unit(one[i], units + i * 32, at + i * (UNIT / 4));
#pragma unroll 1
    for (int done = 0; done < count; done += 2 * DEEP) {
#pragma unroll
      for (int i = 0; i < DEEP; ++i)
        if (done + DEEP + i < count) load_unit(two[i], units + (DEEP + i) * 32, at + (DEEP + i) * (UNIT / 4));
#pragma unroll
      for (int i = 0; i < DEEP; ++i)
        if (done + i < count) add_unit(c, one[i]);
      units += 2 * DEEP * 32, at += 2 * DEEP * (UNIT / 4);
#pragma unroll
      for (int i = 0; i < DEEP; ++i)
        if (done + 2 * DEEP + i < count) load_unit(one[i], units + i * 32, at + i * (UNIT / 4));
#pragma unroll
      for (int i = 0; i < DEEP; ++i)
        if (done + DEEP + i < count) add_unit(c, two[i]);
    }
    flush_several<BITS, N>(c, to, rows);
    to += 16;
    index += count;
    k = 0;
  }
}
