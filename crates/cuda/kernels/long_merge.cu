// The merge of rule 8 where many keys are seen, as a kernel of its own: codes for the output projection.
//
// A block of the grid has 32 dims of a head of a column: for E2B 128 blocks where the projection's blocks would each merge a whole head sixteen times over. Five
// warps bring the partial results of up to 160 blocks of keys, find the running maxima and what each block keeps and takes, and one warp runs the chain, five
// instructions a block of keys; the next 160 are under way meanwhile.
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

// The chain of rule 8 over COUNT blocks of keys at a time while there are so many; their loads are under way together.
template <int COUNT>
static __device__ __forceinline__ void merge_chain(int& j, int count, const float* tile, const float4* scales, float& a, float& l) {
#pragma unroll 1
  for (; j + COUNT <= count; j += COUNT) {
    float value[COUNT];
    float4 c[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) value[i] = tile[(j + i) * MERGE_DIMS], c[i] = scales[j + i];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      a = __fmaf_rn(a, c[i].x, value[i] * c[i].y);
      l = __fmaf_rn(l, c[i].x, c[i].z);
    }
  }
}

// Shared memory: two tiles of [chunk][MERGE_DIMS] values. The grid is [dims of a head / MERGE_DIMS, heads, columns]. Inputs behind the heads' up to `padded`
// become 0; `chunk` is at most MERGE_THREADS.
extern "C" __global__ void __launch_bounds__(MERGE_THREADS) merge_long(__grid_constant__ const Merge m, int8_t* codes, int stride, int padded, int chunk) {
  extern __shared__ __align__(128) float tiles[];
  // What a block of keys keeps of what came before, what is taken of it, and its sum times that.
  __shared__ float4 scales[MERGE_THREADS];
  __shared__ float tops[MERGE_THREADS / 32];
  release_next();
  const int column = blockIdx.z, head = blockIdx.y, d = blockIdx.x * MERGE_DIMS;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int position = m.columns[column].position;
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
  merge_touch(values), merge_touch(largest), merge_touch(sums);
  await_previous();
  // The first block is taken as it is: -0 times 0 and whatever is added to it is that, and it takes all.
  float a = -0.0f, l = 0.0f, before = -INFINITY;
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
    scales[thread] = make_float4(keep, take, part * take, 0.0f);
    if (next < blocks) {
      const bool there = thread < min(chunk, blocks - next);
      own = there ? __ldcg(largest + next) : -INFINITY;
      part = there ? __ldcg(sums + next) : 0.0f;
    }
    copies_wait<1>();
    __syncthreads();
    if (warp == 0) {
      const float* tile = tiles + odd * chunk * MERGE_DIMS + lane;
      const int count = min(chunk, blocks - first);
      int j = 0;
      merge_chain<16>(j, count, tile, scales, a, l);
      merge_chain<4>(j, count, tile, scales, a, l);
      merge_chain<1>(j, count, tile, scales, a, l);
    }
    __syncthreads();
  }
  if (warp > 0) return;
  const int input = head * m.head_dim + d + lane;
  const float result = __fdiv_rn(a, l);
  if (m.tap) m.tap[input] = result;
  out[input] = (int8_t)quantise(result, m.input);
}
