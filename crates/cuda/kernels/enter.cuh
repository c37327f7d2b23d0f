// The entry of a stage: a linear's output joins the residual stream, then norm and quantisation (rules 1, 3, 6).
//
// Every block of the grid does this for itself, because handing 6 KB on costs a kernel; block 0 writes the new stream down. What
// does not depend on earlier kernels (multipliers and norm weights) is copied to shared memory before they have finished.
#pragma once
#include "linear.cuh"

// Values of a lane of rule 6 in E2B's stream, and where they lie in shared memory for the one warp that adds them.
#define SQUARES_STEPS 48
#define SQUARES_STRIDE 52

// Shared memory of the entries of some columns, after the ring: three weight vectors, then the columns' streams, then their joining codes.
struct EnterRoom {
  float* multipliers;
  float* join_norm;
  float* norm;
  float* stream;
  unsigned* codes;
};

static __device__ __forceinline__ EnterRoom enter_room(char* at, int hidden, int columns) {
  EnterRoom room;
  room.multipliers = (float*)at;
  room.join_norm = room.multipliers + hidden;
  room.norm = room.join_norm + hidden;
  room.stream = room.norm + hidden;
  room.codes = (unsigned*)(room.stream + hidden * columns);
  return room;
}

// Bytes of the vectors, and their copy: only where they are wanted.
static __device__ __forceinline__ unsigned enter_bytes(const Enter& e) { return 4 * e.hidden * ((e.sums ? 2 : 0) + (e.norm ? 1 : 0)); }
static __device__ __forceinline__ void enter_prefetch(const Enter& e, const EnterRoom& room, Runs* runs) {
  const uint64_t policy = staying();
  if (e.sums) {
    run(runs, room.multipliers, e.multipliers, 4 * e.hidden, policy);
    run(runs, room.join_norm, e.join_norm, 4 * e.hidden, policy);
  }
  if (e.norm) run(runs, room.norm, e.norm, 4 * e.hidden, policy);
}

// What a thread of the short way reads of the prefetched vectors: four neighbouring values of each.
struct EnterVectors {
  float4 multipliers, join_norm, norm;
};
// Whether every thread of a team has at most four values, so that all of them stay in registers from the first load to the last code.
static __device__ __forceinline__ bool enter_is_short(const Enter& e, const Team& team) { return e.hidden <= 4 * team.threads; }
static __device__ __forceinline__ EnterVectors enter_vectors(const Enter& e, const EnterRoom& room, const Team& team) {
  const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  EnterVectors v = {none, none, none};
  const int from = 4 * team.thread;
  if (from >= e.hidden) return v;
  if (e.sums) {
    v.multipliers = *(const float4*)(room.multipliers + from);
    v.join_norm = *(const float4*)(room.join_norm + from);
  }
  if (e.norm) v.norm = *(const float4*)(room.norm + from);
  return v;
}

// Where a thread of the short way finds its four values, from `x` on leaves their codes, and meets the others: made before the wait and kept. `plain`: all threads have four values,
// which join and are all of `x`; scales have inverses; nothing is tapped or cleared; a norm follows where NORM says so.
struct EnterPlaces {
  const int4* sums;
  const float4* hidden;
  float4* out;  // of the block that writes the stream down
  Shared scratch, stream, x;
  unsigned thread;
  bool plain;
};
// `scratch` has a word a warp. Where nothing is QUANTISED, the values are wanted and `x` is not.
template <int COPIES = 1, bool NORM = COPIES == 1, bool QUANTISED = true>
static __device__ __forceinline__ EnterPlaces enter_places(const Enter& e, const EnterRoom& room, bool write, int8_t* x, int x_size, int* scratch) {
  // Threads without values read others': their multipliers are 0, and they write nothing.
  const int from = 4 * threadIdx.x, at = min(from, e.hidden - 4);
  EnterPlaces p = {(const int4*)(e.sums + at), (const float4*)(e.hidden_in + at), write ? (float4*)(e.hidden_out + from) : nullptr};
  p.scratch = keep_shared(scratch), p.stream = keep_shared(room.stream), p.x = keep_shared(x + from), p.thread = threadIdx.x;
  p.plain = e.sums && e.hidden == 4 * THREADS && x_size <= e.hidden && e.join.inverse != 0.0f && (!QUANTISED || e.input.inverse != 0.0f) && !e.tap_joined && !e.clear &&
            (e.norm != nullptr) == NORM && 4 * THREADS == 32 * SQUARES_STEPS;
  keep(p.sums), keep(p.hidden), keep(p.out), keep(p.thread);
  return p;
}

// The sum of squares of the stream in the lanes of rule 6, by one warp. MOST values of a lane are loaded together.
template <int MOST = SQUARES_STEPS>
static __device__ __forceinline__ float stream_squares(const float* stream, int hidden) {
  const float* at = stream + threadIdx.x % 32;
  float sum = 0.0f;
  int steps = hidden / 32, s = 0;
  // The chain of additions has no shorter form; the loads of many of its steps are under way together.
#pragma unroll 1
  for (; MOST > 8 && s + MOST <= steps; s += MOST) {
    float now[MOST];
#pragma unroll
    for (int j = 0; j < MOST; ++j) now[j] = at[(s + j) * 32];
#pragma unroll
    for (int j = 0; j < MOST; ++j) sum = __fmaf_rn(now[j], now[j], sum);
  }
#pragma unroll 1
  for (; s + 8 <= steps; s += 8) {
    float now[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) now[j] = at[(s + j) * 32];
#pragma unroll
    for (int j = 0; j < 8; ++j) sum = __fmaf_rn(now[j], now[j], sum);
  }
#pragma unroll 1
  for (; s < steps; ++s) sum = __fmaf_rn(at[s * 32], at[s * 32], sum);
  return lane_tree(sum);
}

// The same of a stream of 48 values a lane, which lies by lanes: row n has those of lane `4 (n % 8) + n / 8`, so that 32 threads of four neighbouring values write them, and 32 readers
// of 16 bytes read them, without meeting in a bank. Values of a row are neighbours, `SQUARES_STRIDE` a row.
static __device__ __forceinline__ void place_squares(Shared stream, unsigned thread, float4 h) {
  const unsigned at = thread % 8 * (4 * SQUARES_STRIDE) + thread / 8 * 4, eight = 8 * 4 * SQUARES_STRIDE;
  shared_store(stream, at, h.x), shared_store(stream, at + eight, h.y), shared_store(stream, at + 2 * eight, h.z), shared_store(stream, at + 3 * eight, h.w);
}
static __device__ __forceinline__ float placed_squares(Shared stream, unsigned lane) {
  // Some loads are under way, no more than there are registers for.
  const int LOADS = SQUARES_STEPS / 4, AHEAD = 5;
  const unsigned row = lane * (4 * SQUARES_STRIDE);
  float4 now[AHEAD];
#pragma unroll
  for (int i = 0; i < AHEAD; ++i) shared_load(stream, row + 16 * i, now[i]);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < LOADS; ++i) {
    const float4 h = now[i % AHEAD];
    if (i + AHEAD < LOADS) shared_load(stream, row + 16 * (i + AHEAD), now[i % AHEAD]);
    sum = __fmaf_rn(h.x, h.x, sum);
    sum = __fmaf_rn(h.y, h.y, sum);
    sum = __fmaf_rn(h.z, h.z, sum);
    sum = __fmaf_rn(h.w, h.w, sum);
  }
  sum += __shfl_xor_sync(ALL, sum, 4);
  sum += __shfl_xor_sync(ALL, sum, 2);
  sum += __shfl_xor_sync(ALL, sum, 1);
  sum += __shfl_xor_sync(ALL, sum, 16);
  return sum + __shfl_xor_sync(ALL, sum, 8);
}

// A thread's four values of the stream behind the norm, if there is one.
static __device__ __forceinline__ float4 norm_values(const Enter& e, const EnterRoom& room, const EnterVectors& v, const EnterPlaces& p, float4 h) {
  const unsigned lane = p.thread % 32, warp = p.thread / 32;
  const int from = 4 * p.thread;
  const bool mine = from < e.hidden;
  if (e.norm) {
    if (mine) *(float4*)(room.stream + from) = h;
    __syncthreads();
    if (warp == 0) {
      const float r = reciprocal_root(stream_squares<8>(room.stream, e.hidden), e.count);
      if (lane == 0) shared_store(p.scratch, 0, r);
    }
    __syncthreads();
    float r;
    shared_load(p.scratch, 0, r);
    h.x = (h.x * r) * v.norm.x, h.y = (h.y * r) * v.norm.y, h.z = (h.z * r) * v.norm.z, h.w = (h.w * r) * v.norm.w;
  }
  return h;
}
// Their codes; 0 where the thread has no values.
static __device__ __forceinline__ unsigned codes_of(const Enter& e, const EnterPlaces& p, float4 h) {
  const unsigned code = quantise_four(h, e.input);
  return 4 * (int)p.thread < e.hidden ? code : 0;
}

// A thread's four values, where the entry is short. Nothing but the stream, which the chain needs, goes through shared memory. COPIES of the sums
// lie one behind the other and make one. Ends without a barrier.
template <int COPIES>
static __device__ __forceinline__ float4 enter_values_any(const Enter& e, const EnterRoom& room, const EnterVectors& v, const EnterPlaces& p) {
  const unsigned thread = p.thread, lane = thread % 32, warp = thread / 32;
  const int hidden = e.hidden, from = 4 * thread;
  const bool mine = from < hidden;
  float4 h = __ldcg(p.hidden);
  if (e.sums) {
    int4 sum = __ldcg(p.sums);
#pragma unroll
    for (int i = 1; i < COPIES; ++i) {
      const int4 more = __ldcg(p.sums + i * (hidden / 4));
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    if (e.clear && mine) *(int4*)(e.sums + from) = make_int4(0, 0, 0, 0);
    const unsigned code = quantise_four(make_float4((float)sum.x * v.multipliers.x, (float)sum.y * v.multipliers.y,
                                                    (float)sum.z * v.multipliers.z, (float)sum.w * v.multipliers.w),
                                        e.join);
    int squares = warp_sum(__dp4a((int)code, (int)code, 0));
    if (lane == 0) shared_store(p.scratch, 4 * warp, squares);
    __syncthreads();
    squares = 0;
    if (lane < STAGE_WARPS) shared_load(p.scratch, 4 * lane, squares);
    squares = warp_sum(squares);
    const float r = reciprocal_root((float)squares * (e.join.value * e.join.value), e.count);
    h.x = (h.x + (((float)(int8_t)code * e.join.value) * r) * v.join_norm.x) * e.scalar;
    h.y = (h.y + (((float)(int8_t)(code >> 8) * e.join.value) * r) * v.join_norm.y) * e.scalar;
    h.z = (h.z + (((float)(int8_t)(code >> 16) * e.join.value) * r) * v.join_norm.z) * e.scalar;
    h.w = (h.w + (((float)((int)code >> 24) * e.join.value) * r) * v.join_norm.w) * e.scalar;
    if (mine && p.out) {
      *p.out = h;
      if (e.tap_joined) *(unsigned*)(e.tap_joined + from) = code;
    }
  }
  return norm_values(e, room, v, p, h);
}

// The norm of a plain entry. `meanwhile` is run by all threads but the first warp's, which adds.
template <class Meanwhile>
static __device__ __forceinline__ float4 norm_plain(const Enter& e, const EnterVectors& v, const EnterPlaces& p, float4 h, Meanwhile meanwhile) {
  const unsigned lane = p.thread % 32, warp = p.thread / 32;
  place_squares(p.stream, p.thread, h);
  __syncthreads();
  if (warp == 0) {
    const float root = reciprocal_root_here(placed_squares(p.stream, lane), e.count);
    if (lane == 0) shared_store(p.scratch, 0, root);
  } else {
    meanwhile();
  }
  if (p.out) *p.out = h;
  __syncthreads();
  float root;
  shared_load(p.scratch, 0, root);
  h.x = (h.x * root) * v.norm.x, h.y = (h.y * root) * v.norm.y, h.z = (h.z * root) * v.norm.z, h.w = (h.w * root) * v.norm.w;
  return h;
}

// `enter_values_any` where the entry is plain. Codes of what joins are kept as floats.
template <int COPIES, bool RELEASES, bool NORM, class Begun, class Meanwhile>
static __device__ __forceinline__ float4 enter_values_plain(const Enter& e, const EnterVectors& v, const EnterPlaces& p, Begun begun, Meanwhile meanwhile) {
  const unsigned thread = p.thread, lane = thread % 32, warp = thread / 32;
  const float scale = e.join.value;
  await_previous();
  if (RELEASES) release_next();
  int4 part[COPIES];
#pragma unroll
  for (int i = 0; i < COPIES; ++i) part[i] = __ldcg(p.sums + i * THREADS);
  float4 h = __ldcg(p.hidden);
  begun();
  int4 sum = part[0];
#pragma unroll
  for (int i = 1; i < COPIES; ++i) sum.x += part[i].x, sum.y += part[i].y, sum.z += part[i].z, sum.w += part[i].w;
  const float4 shifted = shifted_codes(make_float4((float)sum.x * v.multipliers.x, (float)sum.y * v.multipliers.y,
                                                   (float)sum.z * v.multipliers.z, (float)sum.w * v.multipliers.w),
                                       e.join);
  const unsigned code = packed(shifted);
  int squares = warp_sum(__dp4a((int)code, (int)code, 0));
  if (lane == 0) shared_store(p.scratch, 4 * warp, squares);
  const float4 y = make_float4((shifted.x - CODE_SHIFT) * scale, (shifted.y - CODE_SHIFT) * scale, (shifted.z - CODE_SHIFT) * scale,
                               (shifted.w - CODE_SHIFT) * scale);
  __syncthreads();
  squares = 0;
  if (lane < STAGE_WARPS) shared_load(p.scratch, 4 * lane, squares);
  squares = warp_sum(squares);
  const float r = reciprocal_root_here((float)squares * (scale * scale), e.count);
  h.x = (h.x + (y.x * r) * v.join_norm.x) * e.scalar;
  h.y = (h.y + (y.y * r) * v.join_norm.y) * e.scalar;
  h.z = (h.z + (y.z * r) * v.join_norm.z) * e.scalar;
  h.w = (h.w + (y.w * r) * v.join_norm.w) * e.scalar;
  if (NORM) {
    h = norm_plain(e, v, p, h, meanwhile);
  } else {
    if (p.out) *p.out = h;
    if (warp > 0) meanwhile();
  }
  return h;
}

// The codes of a thread's four values, in a register. Waits for earlier kernels and releases the next one; `begun` comes behind the first loads; `meanwhile` is run by all threads
// but the first warp's, for which the others wait while it adds.
template <int COPIES = 1, bool RELEASES = true, bool NORM = COPIES == 1, class Begun, class Meanwhile>
static __device__ __forceinline__ unsigned enter_codes(const Enter& e, const EnterRoom& room, const EnterVectors& v, const EnterPlaces& p, Begun begun, Meanwhile meanwhile) {
  if (p.plain) return quantise_four_here(enter_values_plain<COPIES, RELEASES, NORM>(e, v, p, begun, meanwhile), e.input);
  await_previous();
  if (RELEASES) release_next();
  begun();
  if (p.thread >= 32) meanwhile();
  return codes_of(e, p, enter_values_any<COPIES>(e, room, v, p));
}

// A thread's codes go to `x`, which has zeros behind the last of them.
static __device__ __forceinline__ void place_codes(const Enter& e, const EnterPlaces& p, int x_size, unsigned code) {
  const int from = 4 * p.thread;
  if (from < e.hidden) shared_store(p.x, 0, code);
#pragma unroll 1
  for (int i = e.hidden; i + from < x_size; i += 4 * THREADS) shared_store(p.x, i, 0);
}

// The same, and the codes go to `x`: the entry of one column by all threads of a block, where it is short. The thread's codes are returned, for `add_codes`.
template <int COPIES = 1, bool RELEASES = true, class Begun, class Meanwhile>
static __device__ __forceinline__ unsigned enter_short(const Enter& e, const EnterRoom& room, const EnterVectors& v, const EnterPlaces& p, int x_size, Begun begun,
                                                       Meanwhile meanwhile) {
  // Not by way of `enter_codes`: where the two ways met again, the plain one would ask which it was.
  if (p.plain) {
    const unsigned code = quantise_four_here(enter_values_plain<COPIES, RELEASES, COPIES == 1>(e, v, p, begun, meanwhile), e.input);
    shared_store(p.x, 0, code);
    return code;
  }
  const unsigned code = enter_codes<COPIES, RELEASES>(e, room, v, p, begun, meanwhile);
  place_codes(e, p, x_size, code);
  return code;
}

// Adds a warp's codes to their sum; may come behind the barrier that codes need.
static __device__ __forceinline__ void add_codes(unsigned code, int* code_sum) {
  const int sum = warp_sum(__dp4a((int)code, 0x01010101, 0));
  if (threadIdx.x % 32 == 0) shared_add(code_sum, sum);
}

// A team's run of the entry of `column`; codes go to `x` (and their sum is added to `code_sum` in shared memory), or floats to `floats` where there
// is no input scale. `write`: this block writes the stream down. Needs the prefetched vectors; `scratch` has a word a warp of the block, `roots`
// one a team. Ends without a barrier. A thread has four neighbouring values, so that E2B's 1,536 are one round of loads for twelve warps.
static __device__ __forceinline__ void enter(const Enter& e, const EnterRoom& room, const Team& team, int column, bool write,
                                             int8_t* x, int x_size, float* floats, int* scratch, float* roots, int* code_sum) {
  const int hidden = e.hidden, step = 4 * team.threads, from = 4 * team.thread, lane = threadIdx.x % 32;
  const float* hidden_in = e.hidden_in + (size_t)column * hidden;
  float* stream = room.stream + team.index * hidden;
  unsigned* codes = room.codes + team.index * (hidden / 4);
  if (e.sums) {
    int* sums = e.sums + (size_t)column * hidden;
    int squares = 0;
#pragma unroll 1
    for (int i = from; i < hidden; i += step) {
      int4 sum = __ldcg((const int4*)(sums + i));
      if (e.clear) *(int4*)(sums + i) = make_int4(0, 0, 0, 0);
      *(float4*)(stream + i) = __ldcg((const float4*)(hidden_in + i));
      float4 m = *(const float4*)(room.multipliers + i);
      unsigned code =
          quantise_four(make_float4((float)sum.x * m.x, (float)sum.y * m.y, (float)sum.z * m.z, (float)sum.w * m.w), e.join);
      codes[i / 4] = code;
      squares = __dp4a((int)code, (int)code, squares);
    }
    squares = warp_sum(squares);
    if (lane == 0) scratch[threadIdx.x / 32] = squares;
    meet(team);
    squares = warp_sum(lane < team.threads / 32 ? scratch[team.index * (team.threads / 32) + lane] : 0);
    float r = reciprocal_root((float)squares * (e.join.value * e.join.value), e.count);
#pragma unroll 1
    for (int i = from; i < hidden; i += step) {
      unsigned code = codes[i / 4];
      if (write && e.tap_joined) *(unsigned*)(e.tap_joined + i) = code;
      float4 h = *(const float4*)(stream + i), w = *(const float4*)(room.join_norm + i);
      h.x = (h.x + (((float)(int8_t)code * e.join.value) * r) * w.x) * e.scalar;
      h.y = (h.y + (((float)(int8_t)(code >> 8) * e.join.value) * r) * w.y) * e.scalar;
      h.z = (h.z + (((float)(int8_t)(code >> 16) * e.join.value) * r) * w.z) * e.scalar;
      h.w = (h.w + (((float)((int)code >> 24) * e.join.value) * r) * w.w) * e.scalar;
      *(float4*)(stream + i) = h;
      if (write) *(float4*)(e.hidden_out + (size_t)column * hidden + i) = h;
    }
  } else {
#pragma unroll 1
    for (int i = from; i < hidden; i += step) *(float4*)(stream + i) = __ldcg((const float4*)(hidden_in + i));
  }
  float r = 0.0f;
  if (e.norm) {
    meet(team);
    if (team.thread < 32) {
      r = reciprocal_root(stream_squares(stream, hidden), e.count);
      if (lane == 0) roots[team.index] = r;
    }
    meet(team);
    r = roots[team.index];
  }
  int sum = 0;
#pragma unroll 1
  for (int i = from; i < hidden; i += step) {
    float4 h = *(const float4*)(stream + i);
    if (e.norm) {
      float4 w = *(const float4*)(room.norm + i);
      h.x = (h.x * r) * w.x, h.y = (h.y * r) * w.y, h.z = (h.z * r) * w.z, h.w = (h.w * r) * w.w;
    }
    if (floats) {
      *(float4*)(floats + i) = h;
    } else {
      unsigned code = quantise_four(h, e.input);
      *(unsigned*)(x + i) = code;
      sum = __dp4a((int)code, 0x01010101, sum);
    }
  }
  if (floats) return;
#pragma unroll 1
  for (int i = hidden + from; i < x_size; i += step) *(int*)(x + i) = 0;
  if (!code_sum) return;
  sum = warp_sum(sum);
  if (lane == 0) atomicAdd(code_sum, sum);
}
