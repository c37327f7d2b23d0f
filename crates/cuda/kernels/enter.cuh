// The entry of a stage: a linear's output joins the residual stream, then norm and quantisation (rules 1, 3, 6).
//
// Every block of the grid does this for itself, because handing 6 KB on costs a kernel; block 0 writes the new stream down. What
// does not depend on earlier kernels (multipliers and norm weights) is copied to shared memory before they have finished.
#pragma once
#include "linear.cuh"

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

// The sum of squares of the stream in the lanes of rule 6, by one warp.
static __device__ __forceinline__ float stream_squares(const float* stream, int hidden) {
  const float* at = stream + threadIdx.x % 32;
  float sum = 0.0f;
  int steps = hidden / 32, s = 0;
  // The chain of additions has no shorter form; the loads of many of its steps are under way together.
#pragma unroll 1
  for (; s + 48 <= steps; s += 48) {
    float now[48];
#pragma unroll
    for (int j = 0; j < 48; ++j) now[j] = at[(s + j) * 32];
#pragma unroll
    for (int j = 0; j < 48; ++j) sum = __fmaf_rn(now[j], now[j], sum);
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

// The entry of one column by all threads of a block, where it is short: nothing but the stream, which the chain needs, goes through shared memory. Codes go to `x`, their
// sum is added to `code_sum`. Ends without a barrier. COPIES of the sums lie one behind the other and make one.
template <int COPIES = 1>
static __device__ __forceinline__ void enter_short(const Enter& e, const EnterRoom& room, const EnterVectors& v, bool write, int8_t* x, int x_size,
                                                   int* scratch, float* roots, int* code_sum) {
  const int hidden = e.hidden, from = 4 * threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool mine = from < hidden;
  float4 h = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (e.sums) {
    int4 sum = make_int4(0, 0, 0, 0);
    if (mine) {
      sum = __ldcg((const int4*)(e.sums + from));
#pragma unroll
      for (int i = 1; i < COPIES; ++i) {
        const int4 more = __ldcg((const int4*)(e.sums + i * hidden + from));
        sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
      }
      h = __ldcg((const float4*)(e.hidden_in + from));
      if (e.clear) *(int4*)(e.sums + from) = make_int4(0, 0, 0, 0);
    }
    unsigned code = quantise_four(make_float4((float)sum.x * v.multipliers.x, (float)sum.y * v.multipliers.y, (float)sum.z * v.multipliers.z,
                                              (float)sum.w * v.multipliers.w),
                                  e.join);
    int squares = warp_sum(__dp4a((int)code, (int)code, 0));
    if (lane == 0) scratch[warp] = squares;
    __syncthreads();
    squares = 0;
#pragma unroll
    for (int i = 0; i < STAGE_WARPS / 4; ++i) {
      int4 four = ((const int4*)scratch)[i];
      squares += four.x + four.y + four.z + four.w;
    }
    float r = reciprocal_root_here((float)squares * (e.join.value * e.join.value), e.count);
    h.x = (h.x + (((float)(int8_t)code * e.join.value) * r) * v.join_norm.x) * e.scalar;
    h.y = (h.y + (((float)(int8_t)(code >> 8) * e.join.value) * r) * v.join_norm.y) * e.scalar;
    h.z = (h.z + (((float)(int8_t)(code >> 16) * e.join.value) * r) * v.join_norm.z) * e.scalar;
    h.w = (h.w + (((float)((int)code >> 24) * e.join.value) * r) * v.join_norm.w) * e.scalar;
    if (mine && write) {
      *(float4*)(e.hidden_out + from) = h;
      if (e.tap_joined) *(unsigned*)(e.tap_joined + from) = code;
    }
  } else if (mine) {
    h = __ldcg((const float4*)(e.hidden_in + from));
  }
  if (e.norm) {
    if (mine) *(float4*)(room.stream + from) = h;
    __syncthreads();
    if (warp == 0) {
      float r = reciprocal_root_here(stream_squares(room.stream, hidden), e.count);
      if (lane == 0) roots[0] = r;
    }
    __syncthreads();
    float r = roots[0];
    h.x = (h.x * r) * v.norm.x, h.y = (h.y * r) * v.norm.y, h.z = (h.z * r) * v.norm.z, h.w = (h.w * r) * v.norm.w;
  }
  unsigned code = quantise_four(h, e.input);
  if (mine) *(unsigned*)(x + from) = code;
  else code = 0;
#pragma unroll 1
  for (int i = hidden + from; i < x_size; i += 4 * THREADS) *(int*)(x + i) = 0;
  int sum = warp_sum(__dp4a((int)code, 0x01010101, 0));
  if (lane == 0) shared_add(code_sum, sum);
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
