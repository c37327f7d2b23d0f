// The merge of rule 8 where many keys are seen, as a kernel of its own: codes for the output projection, or floats for the drafter's.
//
// A block of the grid has 32 dims of a head of a column: for E2B 128 blocks where the projection's blocks would each merge a whole head sixteen times over. Five
// warps bring the partial results of up to 160 blocks of keys and find the running maxima and what each block keeps and takes; one warp runs the chain of the values, four
// instructions a block of keys, another the chain of the sums, while the next 160 are under way.
#include "contract.cuh"
#include "shapes.cuh"

#define MERGE_DIMS 32
#define MERGE_THREADS 160

// Looks an address up in the second-level cache. Before the wait it brings nothing that counts, but the address is made there.
static __device__ __forceinline__ void merge_touch(const void* at) {
#ifndef EMULATED
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at) : "memory");
#endif
}

// A chain of rule 8 over COUNT blocks of keys at a time while there are so many, their loads under way together: `x` becomes what it keeps plus what it takes. A
// block's value is at `tile`, or is what it takes where there is none.
template <int COUNT, bool VALUES>
static __device__ __forceinline__ void merge_chain(int& j, int count, const float* tile, const float2* scales, float& x) {
#pragma unroll 1
  for (; j + COUNT <= count; j += COUNT) {
    float value[COUNT];
    float2 c[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i += COUNT > 1 ? 2 : 1) {
      if (COUNT > 1)
        *(float4*)(c + i) = *(const float4*)(scales + j + i);
      else
        c[i] = scales[j + i];
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) value[i] = VALUES ? tile[(j + i) * MERGE_DIMS] : 0.0f;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) x = __fmaf_rn(x, c[i].x, VALUES ? value[i] * c[i].y : c[i].y);
  }
}
template <bool VALUES>
static __device__ __forceinline__ void merge_chains(int count, const float* tile, const float2* scales, float& x) {
  int j = 0;
  merge_chain<32, VALUES>(j, count, tile, scales, x);
  merge_chain<4, VALUES>(j, count, tile, scales, x);
  merge_chain<1, VALUES>(j, count, tile, scales, x);
}

// Shared memory: two tiles of [chunk][MERGE_DIMS] values. The grid is [dims of a head / MERGE_DIMS, heads, columns]. Inputs behind the heads' up to `padded`
// become 0; `chunk` is at most MERGE_THREADS. Without `codes` only the results are written down; `past` is 1 where a column's own position is not seen.
extern "C" __global__ void __launch_bounds__(MERGE_THREADS) merge_long(__grid_constant__ const Merge m, int8_t* codes, int stride, int padded, int chunk,
                                                                        int past) {
  extern __shared__ __align__(128) float tiles[];
  // What a block of keys keeps of what came before and what is taken of its values; the same with its sum times that.
  __shared__ __align__(16) float2 scales[MERGE_THREADS], sum_scales[MERGE_THREADS];
  __shared__ float tops[MERGE_THREADS / 32], total;
  release_next();
  const int column = blockIdx.z, head = blockIdx.y, d = blockIdx.x * MERGE_DIMS;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int position = m.columns[column].position - past;
  const int blocks = position / KEY_BLOCK - (m.window > 0 ? max(0, position + 1 - m.window) : 0) / KEY_BLOCK + 1;
  const size_t at = ((size_t)column * m.heads + head) * m.blocks + thread;
  const float *largest = m.largest + at, *sums = m.sums + at;
  const int row = thread / 8, piece = thread % 8 * 4, step = MERGE_THREADS / 8 * m.head_dim;
  // This thread's first row and piece of the tile.
  const float* values = m.values + (at - thread + row) * m.head_dim + d + piece;
  int8_t* out = codes + (size_t)column * stride;
  auto fetch_tile = [&](int from, float* tile) {
    const float* source = values + (size_t)from * m.head_dim;
    const int count = min(chunk, blocks - from);
    tile += row * MERGE_DIMS + piece;
#pragma unroll
    for (int i = 0; i < 8; ++i, source += step)
      if (row + i * (MERGE_THREADS / 8) < count) copy16(tile + i * (MERGE_THREADS / 8) * MERGE_DIMS, source);
    copies_commit();
  };
  if (thread < blocks) merge_touch(largest), merge_touch(sums);
  if (row < blocks) merge_touch(values);
  await_previous();
  // The first block is taken as it is: -0 times 0 and whatever is added to it is that, and it takes all.
  float x = warp == 0 ? -0.0f : 0.0f, before = -INFINITY;
  float own = thread < min(chunk, blocks) ? __ldcg(largest) : -INFINITY;
  float part = thread < min(chunk, blocks) ? __ldcg(sums) : 0.0f;
  fetch_tile(0, tiles);
  for (int i = m.heads * m.head_dim + (head * gridDim.x + blockIdx.x) * MERGE_THREADS + thread; i < padded; i += m.heads * gridDim.x * MERGE_THREADS)
    out[i] = 0;
#pragma unroll 1
  for (int first = 0, odd = 0; first < blocks; first += chunk, odd ^= 1) {
    const int next = first + chunk;
    if (next < blocks) fetch_tile(next, tiles + (odd ^ 1) * chunk * MERGE_DIMS);
    else copies_commit();
    // Running maxima before and after each block: the maximum does not depend on order.
    float after = own;
#pragma unroll
    for (int s = 1; s < 32; s *= 2) {
      float other = __shfl_up_sync(ALL, after, s);
      if (lane >= s) after = fmaxf(after, other);
    }
    float previous = __shfl_up_sync(ALL, after, 1);
    if (lane == 31) tops[warp] = after;
    __syncthreads();
    float carried = before;
#pragma unroll
    for (int w = 0; w < MERGE_THREADS / 32; ++w) {
      float top = tops[w];
      if (w < warp) carried = fmaxf(carried, top);
      before = fmaxf(before, top);
    }
    after = fmaxf(after, carried);
    previous = lane == 0 ? carried : fmaxf(previous, carried);
    const float keep = first + thread == 0 ? 0.0f : contract_exp(previous - after), take = contract_exp(own - after);
    scales[thread] = make_float2(keep, take);
    sum_scales[thread] = make_float2(keep, part * take);
    if (next < blocks) {
      const bool there = thread < min(chunk, blocks - next);
      own = there ? __ldcg(largest + next) : -INFINITY;
      part = there ? __ldcg(sums + next) : 0.0f;
    }
    copies_wait<1>();
    __syncthreads();
    if (warp == 0) merge_chains<true>(min(chunk, blocks - first), tiles + odd * chunk * MERGE_DIMS + lane, scales, x);
    if (warp == 1) {
      merge_chains<false>(min(chunk, blocks - first), nullptr, sum_scales, x);
      total = x;
    }
    __syncthreads();
  }
  if (warp > 0) return;
  const int input = head * m.head_dim + d + lane;
  const float result = __fdiv_rn(x, total);
  if (m.tap) m.tap[input] = result;
  if (codes) out[input] = (int8_t)quantise(result, m.input);
}
