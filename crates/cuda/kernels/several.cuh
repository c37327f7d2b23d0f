// A few columns (2, 4 or 8) through one stage: entry, merge, codes and products, each by all threads of a block for one column after the other.
//
// Entries are those of one column, a column a block of a cluster, whose blocks put codes to each other; an FFN of four columns (several_ffn.cu) enters all of them in every block. There, and
// in merges, what is waited for comes for all columns at once. Columns that are not there are made, too: their places exist and nobody reads them.
// Reading order: entries in clusters, entries of all columns, codes, merges, products.
#pragma once
#include "enter.cuh"
#include "linear.cuh"
#include "merge.cuh"

// Blocks of keys merged at once: those of a window of 512.
#define SEVERAL_CHUNK 9

// The next kernel may start when this one's input is there; where the input of eight columns is long in coming, when it has come.
template <int N>
static __device__ __forceinline__ void release_early() {
  if (N <= 4) release_next();
}
template <int N>
static __device__ __forceinline__ void release_late() {
  if (N > 4) release_next();
}

// Adds the lanes' values of a warp to `to[column]`, where a lane's column is `lane % N`.
template <int N>
static __device__ __forceinline__ void add_own_column(int sum, int* to) {
#pragma unroll
  for (int step = 16; step >= N; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
  if (threadIdx.x % 32 < N) shared_add(to + threadIdx.x % 32, sum);
}

// Entries in clusters: each block enters one column, as the entry of one column does (enter.cuh), and puts its codes into the shared memory of every block that wants them. With SIZE / N
// blocks a column each of them serves N others; so a block has the codes of N columns after the time of one entry and of a put, and an entry's loads are N times fewer.
//
// Nobody reads or writes the places of codes before they arrive but for the zeros behind a column's inputs, and every block counts its arrivals before it multiplies, so it cannot leave
// while a put to it is under way. Puts come behind the cluster's barrier, by which all counters have begun. Columns that are not there are entered, too: their places exist and nobody
// reads what they give.
template <int N>
struct Handing {
  static const int TURNS = (N + 3) / 4;
  Remote codes[TURNS], arrivals[TURNS];  // of a lane: every fourth receiver
  Remote part, part_arrival;             // of lane l: receiver l's sum of this warp's codes
  int column;
};
// Bytes that arrive at a block.
template <int N>
static __device__ __forceinline__ unsigned handed_bytes(int hidden) {
  return N * (hidden + 4 * WARPS);
}
// `parts` has a word a column and warp.
template <int N, int SIZE = N>
static __device__ __forceinline__ Handing<N> handing(int hidden, int8_t* x, int x_stride, int* parts, Runs* arrived) {
  const int shares = SIZE / N, rank = cluster_rank(), first = rank % shares * N, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Handing<N> h;
  h.column = rank / shares;
  int8_t* own = x + h.column * x_stride + min((int)threadIdx.x / 4 * 16, hidden - 16);
#pragma unroll
  for (int i = 0; i < Handing<N>::TURNS; ++i) {
    const int to = first + min(lane % 4 + 4 * i, N - 1);
    h.codes[i] = remote(own, to), h.arrivals[i] = remote(arrived, to);
  }
  const int to = first + min(lane, N - 1);
  h.part = remote(parts + h.column * WARPS + warp, to), h.part_arrival = remote(arrived, to);
  return h;
}
template <int N>
static __device__ __forceinline__ void hand_on(const Handing<N>& h, unsigned code, int hidden) {
  const int lane = threadIdx.x % 32;
  unsigned word[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = __shfl_sync(ALL, code, lane / 4 * 4 + i);
  const float4 four = make_float4(__uint_as_float(word[0]), __uint_as_float(word[1]), __uint_as_float(word[2]), __uint_as_float(word[3]));
#pragma unroll
  for (int i = 0; i < Handing<N>::TURNS; ++i)
    if (4 * (int)threadIdx.x < hidden && lane % 4 + 4 * i < N) put(h.codes[i], four, h.arrivals[i]);
  const int sum = warp_sum(__dp4a((int)code, 0x01010101, 0));
  if (lane < N) put(h.part, (unsigned)sum, h.part_arrival);
}
// The entry of a block's column: places, and the whole of it. `scratch` has a word a warp; `writes`: this cluster writes the streams down.
template <int N, bool NORM, int SIZE = N>
static __device__ __forceinline__ EnterPlaces column_places(const Enter& e, const EnterRoom& room, int column, bool writes, int* scratch) {
  EnterPlaces places = enter_places<1, NORM>(e, room, writes && cluster_rank() % (SIZE / N) == 0, (int8_t*)room.stream, 0, scratch);
  const int further = column * (e.hidden / 4);
  places.sums += further, places.hidden += further;
  if (places.out) places.out += further;
  return places;
}
// The codes of that entry. PLAIN: it is known to be plain, and the code has no other way.
template <bool PLAIN, bool RELEASES, bool NORM, class Begun, class Meanwhile>
static __device__ __forceinline__ unsigned column_codes(const Enter& e, const EnterRoom& room, const EnterVectors& v, const EnterPlaces& p, Begun begun, Meanwhile meanwhile) {
  if (PLAIN) return quantise_four_here(enter_values_plain<1, RELEASES, NORM>(e, v, p, begun, meanwhile), e.input);
  return enter_codes<1, RELEASES, NORM>(e, room, v, p, begun, meanwhile);
}
// Behind the arrival of codes: sums of the columns' codes, for whoever is behind the next barrier.
template <int N>
static __device__ __forceinline__ void add_parts(const int* parts, int* code_sums) {
  const int lane = threadIdx.x % 32;
  if ((int)threadIdx.x / 32 < WARPS - 1 || lane >= N) return;
  const int4* from = (const int4*)(parts + lane * WARPS);
  int sum = 0;
#pragma unroll
  for (int i = 0; i < WARPS / 4; ++i) {
    const int4 four = from[i];
    sum += four.x + four.y + four.z + four.w;
  }
  code_sums[lane] = sum;
}
// Zeros behind the inputs of N columns.
template <int N>
static __device__ __forceinline__ void clear_behind(int hidden, int8_t* x, int x_size, int x_stride) {
#pragma unroll 1
  for (int i = hidden + 4 * threadIdx.x; i < x_size; i += 4 * THREADS)
    for (int c = 0; c < N; ++c) *(int*)(x + c * x_stride + i) = 0;
}

// Whether a stream lies by lanes (place_squares), and floats from a column's stream to the next one's.
static __device__ __forceinline__ bool lies_by_lanes(int hidden) { return hidden == 4 * THREADS && hidden == LANES * SQUARES_STEPS; }
static __device__ __forceinline__ int stream_pitch(int hidden) { return lies_by_lanes(hidden) ? LANES * SQUARES_STRIDE : hidden; }
// The entries' room: weight vectors, and in their place, once every thread has read them, the streams.
template <int N>
static __device__ __forceinline__ char* several_room(EnterRoom& room, char* at, int hidden) {
  room = enter_room(at, hidden, N);
  room.stream = room.multipliers;
  return (char*)(room.stream + max(3 * hidden, N * stream_pitch(hidden)));
}

// A thread's four values of each stream. Where the kernel before did not write them they may be read before its input is there: it let this kernel start behind its own wait, so
// whatever ran before it has finished. A thread without values has a copy of the last one's, so that loops over columns have no branches and all columns are under way at once.
// More than four columns have no registers for it.
#define READS_EARLY(N) ((N) <= 4)
template <int N, bool PLAIN = false>
static __device__ __forceinline__ void read_streams(const Enter& e, float4 (&h)[N]) {
  const int hidden = PLAIN ? 4 * THREADS : e.hidden;
  const float* from = e.hidden_in + min(4 * (int)threadIdx.x, hidden - 4);
#pragma unroll
  for (int c = 0; c < N; ++c) h[c] = __ldcg((const float4*)(from + c * hidden));
}

// Codes of four sums times their multipliers, a product of finite numbers; the scale has an inverse.
static __device__ __forceinline__ unsigned join_codes(const int4& sum, const float4& m, const Scale& s) {
  return packed(shifted_codes(make_float4((float)sum.x * m.x, (float)sum.y * m.y, (float)sum.z * m.z, (float)sum.w * m.w), s));
}
static __device__ __forceinline__ unsigned join_codes_any(const int4& sum, const float4& m, const Scale& s) {
  return quantise_four_any(make_float4((float)sum.x * m.x, (float)sum.y * m.y, (float)sum.z * m.z, (float)sum.w * m.w), s.value);
}

// Code I of four, each with its top bit flipped.
template <int I>
static __device__ __forceinline__ float code_of(unsigned flipped) {
  return __uint_as_float(__byte_perm(flipped, 0x4b000000u, 0x7440 + I)) - 8388736.0f;
}

// The entries of at most N columns, four values of each a thread (enter_is_short). `h` is what read_streams made where `early`. `scratch` has N * STAGE_WARPS ints, `x` a row of
// `x_stride` bytes a column. Ends without a barrier. PLAIN: what `column_codes` says, and the streams are not there early.
template <int N, bool PLAIN>
static __device__ __forceinline__ void enter_several(const Enter& e, const EnterRoom& room, const EnterVectors& v, float4 (&h)[N], bool early, bool write,
                                                     int8_t* x, int x_size, int x_stride, int* scratch, float* roots, int* code_sums) {
  const int hidden = PLAIN ? 4 * THREADS : e.hidden, from = 4 * threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool mine = PLAIN || from < hidden;
  const unsigned kept = mine ? ~0u : 0;
  const bool placed = PLAIN || lies_by_lanes(hidden);
  const int pitch = stream_pitch(hidden);
  if (PLAIN || e.sums) {
    const int* at = e.sums + min(from, hidden - 4);
    int4 sum[N];
#pragma unroll
    for (int c = 0; c < N; ++c) sum[c] = __ldcg((const int4*)(at + c * hidden));
    if (PLAIN || (READS_EARLY(N) && !early)) read_streams<N, PLAIN>(e, h);
    unsigned code[N];
    if (PLAIN || e.join.inverse != 0.0f) {
#pragma unroll
      for (int c = 0; c < N; ++c) code[c] = join_codes(sum[c], v.multipliers, e.join);
    } else {
#pragma unroll
      for (int c = 0; c < N; ++c) code[c] = join_codes_any(sum[c], v.multipliers, e.join);
    }
    if (!PLAIN && !READS_EARLY(N)) read_streams<N>(e, h);
    int own = 0;
#pragma unroll
    for (int c = 0; c < N; ++c) {
      const int squares = warp_sum(__dp4a((int)(code[c] & kept), (int)code[c], 0));
      own = lane == c ? squares : own;
    }
    if (lane < N) scratch[lane * STAGE_WARPS + warp] = own;
    release_late<N>();
    __syncthreads();
    int squares = 0;
    const int4* parts = (const int4*)(scratch + lane % N * STAGE_WARPS);
#pragma unroll
    for (int i = 0; i < STAGE_WARPS / 4; ++i) {
      const int4 four = parts[i];
      squares += four.x + four.y + four.z + four.w;
    }
    const float root = reciprocal_root_here((float)squares * (e.join.value * e.join.value), e.count);
#pragma unroll
    for (int c = 0; c < N; ++c) {
      const float r = __shfl_sync(ALL, root, c);
      const unsigned flipped = code[c] ^ 0x80808080u;
      h[c].x = (h[c].x + ((code_of<0>(flipped) * e.join.value) * r) * v.join_norm.x) * e.scalar;
      h[c].y = (h[c].y + ((code_of<1>(flipped) * e.join.value) * r) * v.join_norm.y) * e.scalar;
      h[c].z = (h[c].z + ((code_of<2>(flipped) * e.join.value) * r) * v.join_norm.z) * e.scalar;
      h[c].w = (h[c].w + ((code_of<3>(flipped) * e.join.value) * r) * v.join_norm.w) * e.scalar;
    }
    if (write && mine) {
#pragma unroll
      for (int c = 0; c < N; ++c) *(float4*)(e.hidden_out + c * hidden + from) = h[c];
    }
  } else if (!READS_EARLY(N) || !early) {
    read_streams<N>(e, h);
  }
  if (!PLAIN && !e.sums) {
    release_late<N>();
    __syncthreads();
  }
  if (PLAIN || e.norm) {
    if (placed) {
#pragma unroll
      for (int c = 0; c < N; ++c) place_squares(keep_shared(room.stream + c * pitch), threadIdx.x, h[c]);
    } else if (mine) {
#pragma unroll
      for (int c = 0; c < N; ++c) *(float4*)(room.stream + c * pitch + from) = h[c];
    }
    __syncthreads();
    if (warp < N) {
      const float* stream = room.stream + warp * pitch;
      const float r = reciprocal_root_here(placed ? placed_squares(keep_shared(stream), lane) : stream_squares(stream, hidden), e.count);
      if (lane == 0) roots[warp] = r;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < N; ++c) {
      const float r = roots[c];
      h[c].x = (h[c].x * r) * v.norm.x, h[c].y = (h[c].y * r) * v.norm.y, h[c].z = (h[c].z * r) * v.norm.z, h[c].w = (h[c].w * r) * v.norm.w;
    }
  }
  unsigned code[N];
  if (PLAIN) {
#pragma unroll
    for (int c = 0; c < N; ++c) code[c] = quantise_four_here(h[c], e.input);
  } else if (e.input.inverse != 0.0f) {
#pragma unroll
    for (int c = 0; c < N; ++c)
      code[c] = pack_codes(__float2int_rn(quotient(h[c].x, e.input)), __float2int_rn(quotient(h[c].y, e.input)),
                           __float2int_rn(quotient(h[c].z, e.input)), __float2int_rn(quotient(h[c].w, e.input)));
  } else {
#pragma unroll
    for (int c = 0; c < N; ++c) code[c] = quantise_four_any(h[c], e.input.value);
  }
  if (mine) {
#pragma unroll
    for (int c = 0; c < N; ++c) *(unsigned*)(x + c * x_stride + from) = code[c];
  }
  int own = 0;
#pragma unroll
  for (int c = 0; c < N; ++c) {
    const int sum = warp_sum(__dp4a((int)(code[c] & kept), 0x01010101, 0));
    own = lane == c ? sum : own;
  }
  if (lane < N) shared_add(code_sums + lane, own);
  if (PLAIN) return;
  clear_behind<N>(hidden, x, x_size, x_stride);
}

// What else a block has in shared memory, behind the codes.
template <int N>
struct SeveralRoom {
  alignas(16) int parts[N * STAGE_WARPS];
  alignas(16) int8_t product[N * 32];
  alignas(16) int scratch[32];
  alignas(16) float roots[N];
  Runs vectors, weights, codes;
  int code_sums[N], blocks[N];
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
  release_late<N>();
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
      if (turn + first == 0) release_late<N>();
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

// The same where every warp has COUNT units of one row block: no loop, so that nothing waits for the products of a turn, and loads go as far ahead as registers allow.
template <int BITS, int N, int COUNT>
static __device__ __forceinline__ void consume_several_even(const Stream& s, const uint4* all, const int8_t* x, int x_stride, int* sums, int rows) {
  const int UNIT = 256 / BITS, PLANES = 8 / BITS, lane = threadIdx.x % 32, CHAINS = PLANES < 4 ? 2 : 1;
  const int f = lane / 4, column = Several<BITS, N>::TOGETHER ? min(f / PLANES, N - 1) : min(f, N - 1), plane = Several<BITS, N>::TOGETHER ? f % PLANES : 0;
  const unsigned* at = (const unsigned*)(x + column * x_stride + lane % 4 * 4 * PLANES + plane * 4) + s.k * (UNIT / 4);
  const uint4* units = all + s.first * 32;
  ColumnSums<BITS> c[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) clear(c[i]);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    SeveralUnit<BITS, N> unit;
    load_unit(unit, units + i * 32, at + i * (UNIT / 4));
    add_unit(c[i % CHAINS], unit);
  }
  if (CHAINS > 1)
#pragma unroll
    for (int p = 0; p < PLANES; ++p)
#pragma unroll
      for (int j = 0; j < 4; ++j) c[0].c[p][j] += c[CHAINS - 1].c[p][j];
  flush_several<BITS, N>(c[0], sums + s.block * 16 + lane / 4, rows);
}
