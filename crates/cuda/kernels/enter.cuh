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
  for (int i = threadIdx.x * 4; i < e.hidden; i += blockDim.x * 4) {
    if (e.sums) {
      copy16(room.multipliers + i, e.multipliers + i);
      copy16(room.join_norm + i, e.join_norm + i);
    }
    if (e.norm) copy16(room.norm + i, e.norm + i);
  }
}

// Runs the entry for `column`; codes go to `x` (and the return value is their sum), or floats to `floats` where there is no
// input scale. `write`: this block writes the stream down. Needs the prefetched vectors; ends with a barrier.
static __device__ int enter(const Enter& e, const EnterRoom& room, int column, bool write, int8_t* x, int x_size,
                            float* floats, int* scratch) {
  __shared__ float root;
  const float* hidden_in = e.hidden_in + (size_t)column * e.hidden;
  if (e.sums) {
    const int* sums = e.sums + (size_t)column * e.hidden;
    int squares = 0;
    for (int i = threadIdx.x; i < e.hidden; i += blockDim.x) {
      int code = quantise((float)sums[i] * room.multipliers[i], e.join_scale);
      room.codes[i] = (int8_t)code;
      room.stream[i] = hidden_in[i];
      squares += code * code;
      if (write && e.tap_joined) e.tap_joined[i] = (int8_t)code;
    }
    squares = block_sum(squares, scratch);
    float mean = __fdiv_rn((float)squares * (e.join_scale * e.join_scale), (float)e.hidden);
    float r = reciprocal_root(mean);
    for (int i = threadIdx.x; i < e.hidden; i += blockDim.x) {
      float h = room.stream[i] + (((float)room.codes[i] * e.join_scale) * r) * room.join_norm[i];
      h = h * e.scalar;
      room.stream[i] = h;
      if (write) e.hidden_out[(size_t)column * e.hidden + i] = h;
    }
  } else {
    for (int i = threadIdx.x; i < e.hidden; i += blockDim.x) room.stream[i] = hidden_in[i];
  }
  __syncthreads();
  if (e.norm) {
    if (threadIdx.x < 32) {
      float lane = 0.0f;
#pragma unroll 8
      for (int i = threadIdx.x; i < e.hidden; i += 32) {
        float h = room.stream[i];
        lane = __fmaf_rn(h, h, lane);
      }
      lane = lane_tree(lane);
      if (threadIdx.x == 0) root = reciprocal_root(__fdiv_rn(lane, (float)e.hidden));
    }
    __syncthreads();
  }
  float r = e.norm ? root : 0.0f;
  int sum = 0;
  for (int i = threadIdx.x; i < e.hidden; i += blockDim.x) {
    float h = room.stream[i];
    if (e.norm) h = (h * r) * room.norm[i];
    if (e.input_scale != 0.0f) {
      int q = quantise(h, e.input_scale);
      x[i] = (int8_t)q;
      sum += q;
    } else {
      floats[i] = h;
    }
  }
  if (e.input_scale != 0.0f)
    for (int i = e.hidden + threadIdx.x; i < x_size; i += blockDim.x) x[i] = 0;
  return block_sum(sum, scratch);
}
