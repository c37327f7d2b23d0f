// A few columns (2, 4 or 8) through one stage: entry, merge, codes and products, each by all threads of a block for one column after the other.
//
// What a column waits for comes for all columns at once: copies of each lane's own into shared memory, under way together; barriers, weight vectors and roots are shared (lane l of a
// warp finds the root of column l % N, so N roots cost what one costs), and the chains of additions run in a warp each. Loops over columns are unrolled, which makes columns that are
// not there, too: their places exist and nobody reads them. As loops they took 0.2 to 2 % more of a verification, so that it is latency and not the supply of instructions they wait for.
#pragma once
#include "enter.cuh"
#include "linear.cuh"
#include "merge.cuh"

// Blocks of keys merged at once: those of a window of 512.
#define SEVERAL_CHUNK 9

// Adds the lanes' values of a warp to `to[column]`, where a lane's column is `lane % N`.
template <int N>
static __device__ __forceinline__ void add_own_column(int sum, int* to) {
#pragma unroll
  for (int step = 16; step >= N; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
  if (threadIdx.x % 32 < N) shared_add(to + threadIdx.x % 32, sum);
}

// Where the columns' entries lie: the weight vectors, then the streams. Up to four columns have their sums apart, where the vectors lay, which a thread has read by then; more
// columns would keep the kernel before from lying on the multiprocessor at the same time, so their streams come when the sums have been used.
template <int N>
static __device__ __forceinline__ char* several_room(EnterRoom& room, char* at, int hidden) {
  room = enter_room(at, hidden, N);
  if (N == 4) room.stream += hidden;
  return (char*)(room.stream + hidden * N);
}

// A thread's part of the streams on its way, before the kernel's input is there: for a kernel whose predecessor did not write them. The predecessor let this kernel start behind its
// own wait, so whatever ran before it has finished.
template <int N>
static __device__ __forceinline__ void streams_early(const Enter& e, const EnterRoom& room) {
  const int from = 4 * threadIdx.x;
  if constexpr (N <= 4) {
    if (from >= e.hidden) return;
#pragma unroll
    for (int c = 0; c < N; ++c) copy16(room.stream + c * e.hidden + from, e.hidden_in + c * e.hidden + from);
  }
}

// The entries of at most N columns, four values of each a thread (enter_is_short). `scratch` has N * STAGE_WARPS ints, `x` a row of `x_stride` bytes a column; a thread's place among the
// codes holds those of what joins at first. `early`: streams_early ran. Ends without a barrier.
template <int N>
static __device__ __forceinline__ void enter_several(const Enter& e, const EnterRoom& room, const EnterVectors& v, bool early, bool write,
                                                     int8_t* x, int x_size, int x_stride, int* scratch, float* roots, int* code_sums) {
  const bool APART = N <= 4;
  const int hidden = e.hidden, from = 4 * threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool mine = from < hidden;
  float* const stream = room.stream + from;
  float* const sums = APART ? room.multipliers + from : stream;
  if (mine) {
    const float* next = e.hidden_in + from;
    const int* sum = e.sums + from;
    float *place = stream, *place_of_sums = sums;
    const bool streams = !e.sums || (APART && !early);
#pragma unroll
    for (int c = 0; c < N; ++c) {
      if (e.sums) copy16(place_of_sums, sum);
      if (streams) copy16(place, next);
      place += hidden, place_of_sums += hidden, sum += hidden, next += hidden;
    }
  }
  copies_commit();
  copies_wait<0>();
  if (e.sums) {
    {
      const float *place = sums, *next = e.hidden_in + from;
      int8_t* to = x + from;
      int* squares_of = scratch + warp;
#pragma unroll
      for (int c = 0; c < N; ++c) {
        unsigned code = 0;
        if (mine) {
          const int4 sum = *(const int4*)place;
          code = quantise_four(make_float4((float)sum.x * v.multipliers.x, (float)sum.y * v.multipliers.y, (float)sum.z * v.multipliers.z,
                                           (float)sum.w * v.multipliers.w),
                               e.join);
          *(unsigned*)to = code;
          if (!APART) copy16((void*)place, next);
        }
        const int squares = warp_sum(__dp4a((int)code, (int)code, 0));
        if (lane == 0) *squares_of = squares;
        place += hidden, next += hidden, to += x_stride, squares_of += STAGE_WARPS;
      }
    }
    if (!APART) copies_commit();
    __syncthreads();
    int squares = 0;
    const int4* at = (const int4*)(scratch + lane % N * STAGE_WARPS);
#pragma unroll
    for (int i = 0; i < STAGE_WARPS / 4; ++i) {
      const int4 four = at[i];
      squares += four.x + four.y + four.z + four.w;
    }
    const float root = reciprocal_root_here((float)squares * (e.join.value * e.join.value), e.count);
    if (!APART) copies_wait<0>();
    float *place = stream, *out = e.hidden_out + from;
    const int8_t* joining = x + from;
#pragma unroll
    for (int c = 0; c < N; ++c) {
      const float r = __shfl_sync(ALL, root, c);
      if (mine) {
        const unsigned code = *(const unsigned*)joining;
        float4 h = *(const float4*)place;
        h.x = (h.x + (((float)(int8_t)code * e.join.value) * r) * v.join_norm.x) * e.scalar;
        h.y = (h.y + (((float)(int8_t)(code >> 8) * e.join.value) * r) * v.join_norm.y) * e.scalar;
        h.z = (h.z + (((float)(int8_t)(code >> 16) * e.join.value) * r) * v.join_norm.z) * e.scalar;
        h.w = (h.w + (((float)((int)code >> 24) * e.join.value) * r) * v.join_norm.w) * e.scalar;
        *(float4*)place = h;
        if (write) *(float4*)out = h;
      }
      place += hidden, out += hidden, joining += x_stride;
    }
  }
  if (e.norm) {
    __syncthreads();
    if (warp < N) {
      const float r = reciprocal_root_here(stream_squares(room.stream + warp * hidden, hidden), e.count);
      if (lane == 0) roots[warp] = r;
    }
    __syncthreads();
  }
  {
    const float* place = stream;
    int8_t* to = x + from;
    const bool normed = e.norm != nullptr;
    const float root = normed ? roots[lane % N] : 0.0f;
    int own = 0;
#pragma unroll
    for (int c = 0; c < N; ++c) {
      const float r = __shfl_sync(ALL, root, c);
      int sum = 0;
      if (mine) {
        float4 h = *(const float4*)place;
        if (normed) h.x = (h.x * r) * v.norm.x, h.y = (h.y * r) * v.norm.y, h.z = (h.z * r) * v.norm.z, h.w = (h.w * r) * v.norm.w;
        const unsigned code = quantise_four(h, e.input);
        *(unsigned*)to = code;
        sum = __dp4a((int)code, 0x01010101, 0);
      }
      sum = warp_sum(sum);
      if (lane == c) own = sum;
      place += hidden, to += x_stride;
    }
    if (lane < N) shared_add(code_sums + lane, own);
  }
#pragma unroll 1
  for (int i = hidden + from; i < x_size; i += 4 * THREADS)
    for (int c = 0; c < N; ++c) *(int*)(x + c * x_stride + i) = 0;
}

// What else a block has in shared memory, behind the codes.
template <int N>
struct SeveralRoom {
  alignas(16) int scratch[N * STAGE_WARPS];
  alignas(16) int8_t product[N * 32];
  Runs vectors, weights;
  int code_sums[N], blocks[N];
  float roots[N];
};
// SHARES of plan/several.rs.
static_assert(sizeof(SeveralRoom<8>) <= 1024, "a launch has less room");

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

// Of each block `first .. first + chunk` of one column and head, by one warp: what the result so far and the block's values are scaled by, its scaled sum and its sum.
static __device__ __forceinline__ void merge_scales(const Merge& m, size_t at, int first, int chunk, float4* out) {
  const BlockScale own = block_scale<SEVERAL_CHUNK>(m, at, first, chunk);
  if (threadIdx.x % 32 < SEVERAL_CHUNK) out[threadIdx.x % 32] = make_float4(own.keep, own.take, own.part * own.take, own.part);
}

// Merges inputs `from .. from + count` of at most N columns into `x[0 .. x_size)` of each: four neighbouring inputs of a column a thread and turn. `blocks` has each column's blocks of
// keys; `scales` room for SEVERAL_CHUNK vectors a column and head of the part, `values` for as many a thread that has inputs. Ends without a barrier.
template <int N>
static __device__ __forceinline__ void merge_several(const Merge& m, const MergePlace& place, const int* blocks, int from, int count, int x_size,
                                                     int8_t* x, int x_stride, float4* scales, float4* values, int* code_sums) {
  const int warp = threadIdx.x / 32, column = threadIdx.x % N, items = x_size / 4 * N, step = min(items, THREADS);
  float4* own = values + threadIdx.x;
  int most = 0, sum = 0;
#pragma unroll
  for (int c = 0; c < N; ++c) most = max(most, blocks[c]);
#pragma unroll 1
  for (int turn = 0; turn < items; turn += THREADS) {
    const int i = (turn + threadIdx.x) / N * 4;
    const bool mine = i < count;
    const int head = place.heads == 1 || !mine ? place.head0 : (from + i) / m.head_dim;
    const float* at = m.values + ((size_t)column * m.heads + head) * m.blocks * m.head_dim + (from + i - head * m.head_dim);
    const float4* scale = scales + ((head - place.head0) * N + column) * SEVERAL_CHUNK;
    float4 a = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float l = 0.0f;
#pragma unroll 1
    for (int first = 0; first < most; first += SEVERAL_CHUNK) {
      const int chunk = mine ? min(SEVERAL_CHUNK, blocks[column] - first) : 0;
#pragma unroll 1
      for (int j = 0; j < chunk; ++j, at += m.head_dim) copy16(own + j * step, at);
      copies_commit();
      // Scales of a part that has one chunk stay for all turns.
      if (turn == 0 || most > SEVERAL_CHUNK) {
        if (turn + first > 0) __syncthreads();
        // The last warps, which have the fewest inputs.
#pragma unroll 1
        for (int job = WARPS - 1 - warp; job < N * place.heads; job += WARPS) {
          const int whose = job % N, h = job / N;
          merge_scales(m, ((size_t)whose * m.heads + place.head0 + h) * m.blocks, first, min(SEVERAL_CHUNK, blocks[whose] - first),
                       scales + (h * N + whose) * SEVERAL_CHUNK);
        }
        __syncthreads();
      }
      copies_wait<0>();
      int j = 0;
      if (first == 0 && chunk > 0) a = own[0], l = scale[0].w, j = 1;
#pragma unroll 2
      for (; j < chunk; ++j) {
        const float4 now = own[j * step], s = scale[j];
        a = make_float4(__fmaf_rn(a.x, s.x, now.x * s.y), __fmaf_rn(a.y, s.x, now.y * s.y), __fmaf_rn(a.z, s.x, now.z * s.y),
                        __fmaf_rn(a.w, s.x, now.w * s.y));
        l = __fmaf_rn(l, s.x, s.z);
      }
    }
    if (mine) {
      const unsigned code = quantise_four(make_float4(__fdiv_rn(a.x, l), __fdiv_rn(a.y, l), __fdiv_rn(a.z, l), __fdiv_rn(a.w, l)), m.input);
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
