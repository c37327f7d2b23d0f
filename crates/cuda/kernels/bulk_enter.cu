// The entries of a prompt's columns four at a time; streams that are too wide for it enter by `enter_rows` in `stages.cu`.
//
// A block of the grid has four columns, a thread four neighbouring values of each, in registers from the first load to the last code, so that norm weights and multipliers are read once for four columns, all
// loads of a block are under way together, and a barrier serves four. The sums of squares of rule 6, which are chains, run side by side, a warp a column. E2B's 1,024 columns are
// 256 blocks, all of which lie on the card at once.
#include "enter.cuh"

#define ENTER_AT_ONCE 4

extern "C" __global__ void __launch_bounds__(640, 1) enter_by_four(__grid_constant__ const Enter e, int8_t* codes, int stride, int count) {
  extern __shared__ __align__(128) char memory[];
  __shared__ int scratch[ENTER_AT_ONCE][32];
  __shared__ float roots[ENTER_AT_ONCE];
  float* stream = (float*)memory;
  release_next();
  const int hidden = e.hidden, from = 4 * threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int first = blockIdx.x * ENTER_AT_ONCE, columns = min(ENTER_AT_ONCE, count - first);
  const bool mine = from < hidden;
  const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float4 multipliers = none, join_norm = none, norm = none;
  if (mine && e.sums) multipliers = *(const float4*)(e.multipliers + from), join_norm = *(const float4*)(e.join_norm + from);
  if (mine && e.norm) norm = *(const float4*)(e.norm + from);
  await_previous();
  float4 h[ENTER_AT_ONCE];
#pragma unroll
  for (int c = 0; c < ENTER_AT_ONCE; ++c)
    h[c] = mine && c < columns ? __ldcg((const float4*)(e.hidden_in + (size_t)(first + c) * hidden + from)) : none;
  if (e.sums) {
    int4 sum[ENTER_AT_ONCE];
    unsigned code[ENTER_AT_ONCE];
#pragma unroll
    for (int c = 0; c < ENTER_AT_ONCE; ++c) {
      sum[c] = make_int4(0, 0, 0, 0);
      if (mine && c < columns) sum[c] = __ldcg((const int4*)(e.sums + (size_t)(first + c) * hidden + from));
    }
#pragma unroll
    for (int c = 0; c < ENTER_AT_ONCE; ++c) {
      if (e.clear && mine && c < columns) *(int4*)(e.sums + (size_t)(first + c) * hidden + from) = make_int4(0, 0, 0, 0);
      code[c] = quantise_four(make_float4((float)sum[c].x * multipliers.x, (float)sum[c].y * multipliers.y, (float)sum[c].z * multipliers.z,
                                          (float)sum[c].w * multipliers.w),
                              e.join);
      int squares = warp_sum(__dp4a((int)code[c], (int)code[c], 0));
      if (lane == 0) scratch[c][warp] = squares;
    }
    __syncthreads();
    // A lane has the root of one column.
    int squares = 0;
#pragma unroll
    for (int c = 0; c < ENTER_AT_ONCE; ++c) {
      int all = warp_sum(lane < warps ? scratch[c][lane] : 0);
      if (lane % ENTER_AT_ONCE == c) squares = all;
    }
    const float root = reciprocal_root_here((float)squares * (e.join.value * e.join.value), e.count);
#pragma unroll
    for (int c = 0; c < ENTER_AT_ONCE; ++c) {
      const float r = __shfl_sync(ALL, root, c);
      h[c].x = (h[c].x + (((float)(int8_t)code[c] * e.join.value) * r) * join_norm.x) * e.scalar;
      h[c].y = (h[c].y + (((float)(int8_t)(code[c] >> 8) * e.join.value) * r) * join_norm.y) * e.scalar;
      h[c].z = (h[c].z + (((float)(int8_t)(code[c] >> 16) * e.join.value) * r) * join_norm.z) * e.scalar;
      h[c].w = (h[c].w + (((float)((int)code[c] >> 24) * e.join.value) * r) * join_norm.w) * e.scalar;
      if (mine && c < columns) *(float4*)(e.hidden_out + (size_t)(first + c) * hidden + from) = h[c];
    }
  }
  if (e.norm) {
#pragma unroll
    for (int c = 0; c < ENTER_AT_ONCE; ++c)
      if (mine) *(float4*)(stream + c * hidden + from) = h[c];
    __syncthreads();
#pragma unroll 1
    for (int c = warp; c < ENTER_AT_ONCE; c += warps) {
      float r = reciprocal_root_here(stream_squares(stream + c * hidden, hidden), e.count);
      if (lane == 0) roots[c] = r;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < ENTER_AT_ONCE; ++c) {
      const float r = roots[c];
      h[c].x = (h[c].x * r) * norm.x, h[c].y = (h[c].y * r) * norm.y, h[c].z = (h[c].z * r) * norm.z, h[c].w = (h[c].w * r) * norm.w;
    }
  }
#pragma unroll
  for (int c = 0; c < ENTER_AT_ONCE; ++c) {
    const unsigned code = quantise_four(h[c], e.input);
    if (mine && c < columns) *(unsigned*)(codes + (size_t)(first + c) * stride + from) = code;
  }
}
