// The entry of a stage: a linear's output joins the residual stream, then norm and quantisation (rules 1, 3, 6).
//
// Every block of the grid does this for itself, because handing 6 KB on costs a kernel; block 0 writes the new stream down. What
// does not depend on earlier kernels (multipliers and norm weights) is copied to shared memory before they have finished.
#pragma once
#include "linear.cuh"

// Shared memory of an entry, after the ring: three weight vectors, the stream, codes.
struct EnterRoom {
  float* multipliers;
  float* join_norm;
  float* norm;
  float* stream;
  int8_t* codes;  // the joining codes
};

static __device__ __forceinline__ EnterRoom enter_room(char* at, int hidden) {
  EnterRoom room;
  room.multipliers = (float*)at;
  room.join_norm = room.multipliers + hidden;
  room.norm = room.join_norm + hidden;
  room.stream = room.norm + hidden;
  room.codes = (int8_t*)(room.stream + hidden);
  return room;
}

static __device__ __forceinline__ void enter_prefetch(const Enter& e, const EnterRoom& room) {
  #pragma unroll 1
  for (int i = threadIdx.x * 4; i < e.hidden; i += blockDim.x * 4) {
    if (e.sums) {
      copy16(room.multipliers + i, e.multipliers + i);
      copy16(room.join_norm + i, e.join_norm + i);
    }
    if (e.norm) copy16(room.norm + i, e.norm + i);
  }
}

// Runs the entry for `column`; codes go to `x` (and their sum is added to `code_sum` in shared memory), or floats to `floats` where there is no
// input scale. `write`: this block writes the stream down. Needs the prefetched vectors; ends without a barrier. A thread has four
// neighbouring values, so that E2B's 1,536 are one round of loads.
static __device__ __forceinline__ void enter(const Enter& e, const EnterRoom& room, int column, bool write, int8_t* x,
                                             int x_size, float* floats, int* scratch, int* code_sum) {
  __shared__ float root;
  const int step = 4 * blockDim.x, from = 4 * threadIdx.x;
  const float4* hidden_in = (const float4*)(e.hidden_in + (size_t)column * e.hidden);
  float4* stream = (float4*)room.stream;
  if (e.sums) {
    const int4* sums = (const int4*)(e.sums + (size_t)column * e.hidden);
    int squares = 0;
#pragma unroll 1
    for (int i = from; i < e.hidden; i += step) {
      int4 sum = __ldcg(sums + i / 4);
      stream[i / 4] = __ldcg(hidden_in + i / 4);
      float4 m = *(const float4*)(room.multipliers + i);
      char4 code;
      code.x = quantise((float)sum.x * m.x, e.join);
      code.y = quantise((float)sum.y * m.y, e.join);
      code.z = quantise((float)sum.z * m.z, e.join);
      code.w = quantise((float)sum.w * m.w, e.join);
      *(char4*)(room.codes + i) = code;
      squares = __dp4a(*(const int*)&code, *(const int*)&code, squares);
      if (write && e.tap_joined) *(char4*)(e.tap_joined + i) = code;
    }
    squares = block_sum(squares, scratch);
    float r = reciprocal_root((float)squares * (e.join.value * e.join.value), (float)e.hidden);
#pragma unroll 1
    for (int i = from; i < e.hidden; i += step) {
      char4 code = *(const char4*)(room.codes + i);
      float4 h = stream[i / 4], w = *(const float4*)(room.join_norm + i);
      h.x = (h.x + (((float)code.x * e.join.value) * r) * w.x) * e.scalar;
      h.y = (h.y + (((float)code.y * e.join.value) * r) * w.y) * e.scalar;
      h.z = (h.z + (((float)code.z * e.join.value) * r) * w.z) * e.scalar;
      h.w = (h.w + (((float)code.w * e.join.value) * r) * w.w) * e.scalar;
      stream[i / 4] = h;
      if (write) *(float4*)(e.hidden_out + (size_t)column * e.hidden + i) = h;
    }
  } else {
#pragma unroll 1
    for (int i = from; i < e.hidden; i += step) stream[i / 4] = __ldcg(hidden_in + i / 4);
  }
  if (e.norm) {
    __syncthreads();
    if (threadIdx.x < 32) {
      // Sixteen steps' loads are under way while the sixteen before them are added in order.
      const float* at = room.stream + threadIdx.x;
      int steps = e.hidden / 32;
      float lane = 0.0f, ahead[16];
#pragma unroll
      for (int j = 0; j < 16; ++j) ahead[j] = j < steps ? at[j * 32] : 0.0f;
#pragma unroll 1
      for (int step = 0; step < steps; step += 16) {
        float now[16];
#pragma unroll
        for (int j = 0; j < 16; ++j) now[j] = ahead[j];
#pragma unroll
        for (int j = 0; j < 16; ++j) ahead[j] = step + 16 + j < steps ? at[(step + 16 + j) * 32] : 0.0f;
        // Behind the last step 0 * 0 is added, which changes no sum of squares.
#pragma unroll
        for (int j = 0; j < 16; ++j) lane = __fmaf_rn(now[j], now[j], lane);
      }
      lane = lane_tree(lane);
      if (threadIdx.x == 0) root = reciprocal_root(lane, (float)e.hidden);
    }
    __syncthreads();
  }
  float r = e.norm ? root : 0.0f;
  int sum = 0;
#pragma unroll 1
  for (int i = from; i < e.hidden; i += step) {
    float4 h = stream[i / 4];
    if (e.norm) {
      float4 w = *(const float4*)(room.norm + i);
      h.x = (h.x * r) * w.x, h.y = (h.y * r) * w.y, h.z = (h.z * r) * w.z, h.w = (h.w * r) * w.w;
    }
    if (e.input.value != 0.0f) {
      char4 q;
      q.x = quantise(h.x, e.input);
      q.y = quantise(h.y, e.input);
      q.z = quantise(h.z, e.input);
      q.w = quantise(h.w, e.input);
      *(char4*)(x + i) = q;
      sum = __dp4a(*(const int*)&q, 0x01010101, sum);
    } else {
      *(float4*)(floats + i) = h;
    }
  }
  if (e.input.value == 0.0f) return;
#pragma unroll 1
  for (int i = e.hidden + from; i < x_size; i += step) *(int*)(x + i) = 0;
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0 && code_sum) atomicAdd(code_sum, sum);
}
