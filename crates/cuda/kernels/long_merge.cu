// The merge of rule 8 where many keys are seen, as a kernel of its own: codes for the output projection.
//
// A block of the grid has 32 dims of a head of a column: for E2B 128 blocks where the projection's blocks would each merge a whole head sixteen times over. Four
// warps bring the partial results of up to 128 blocks of keys, find the running maxima and what each block keeps and takes, and one warp runs the chain, five
// instructions a block of keys; the next 128 are under way meanwhile.
#include "contract.cuh"
#include "shapes.cuh"

#define MERGE_DIMS 32
#define MERGE_THREADS 128

// Shared memory: two tiles of [chunk][MERGE_DIMS] values. Inputs behind the heads' up to `padded` become 0; `chunk` is at most MERGE_THREADS.
extern "C" __global__ void __launch_bounds__(MERGE_THREADS) merge_long(__grid_constant__ const Merge m, int8_t* codes, int stride, int padded, int chunk) {
  extern __shared__ __align__(128) float tiles[];
  // What a block of keys keeps of what came before, what is taken of it, and its sum times that.
  __shared__ float4 scales[MERGE_THREADS];
  __shared__ float tops[MERGE_THREADS / 32];
  release_next();
  const int column = blockIdx.z, parts = m.head_dim / MERGE_DIMS, head = blockIdx.x / parts, d = blockIdx.x % parts * MERGE_DIMS;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int position = m.columns[column].position;
  const int blocks = position / KEY_BLOCK - (m.window > 0 ? max(0, position + 1 - m.window) : 0) / KEY_BLOCK + 1;
  const size_t at = ((size_t)column * m.heads + head) * m.blocks;
  const float* values = m.values + at * m.head_dim + d;
  read_now(m.input.inverse), read_now(m.tap);
  auto fetch_tile = [&](int from, float* tile) {
    const int count = min(chunk, blocks - from), piece = thread % 8 * 4;
#pragma unroll 8
    for (int j = thread / 8; j < count; j += MERGE_THREADS / 8) copy16(tile + j * MERGE_DIMS + piece, values + (size_t)(from + j) * m.head_dim + piece);
    copies_commit();
  };
  int8_t* out = codes + (size_t)column * stride;
  await_previous();
  float a = 0.0f, l = 0.0f, before = -INFINITY;
  float own = thread < min(chunk, blocks) ? __ldcg(m.largest + at + thread) : -INFINITY;
  float part = thread < min(chunk, blocks) ? __ldcg(m.sums + at + thread) : 0.0f;
  fetch_tile(0, tiles);
  for (int i = m.heads * m.head_dim + blockIdx.x * MERGE_THREADS + thread; i < padded; i += gridDim.x * MERGE_THREADS) out[i] = 0;
#pragma unroll 1
  for (int first = 0, odd = 0; first < blocks; first += chunk, odd ^= 1) {
    const int count = min(chunk, blocks - first), next = first + chunk;
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
    float take = contract_exp(own - after);
    scales[thread] = make_float4(contract_exp(previous - after), take, part * take, 0.0f);
    // The first block of all is taken as it is.
    if (first + thread == 0) scales[0] = make_float4(0.0f, 1.0f, part, 0.0f);
    if (next < blocks) {
      const bool there = thread < min(chunk, blocks - next);
      own = there ? __ldcg(m.largest + at + next + thread) : -INFINITY;
      part = there ? __ldcg(m.sums + at + next + thread) : 0.0f;
    }
    copies_wait<1>();
    __syncthreads();
    if (warp == 0) {
      const float* tile = tiles + odd * chunk * MERGE_DIMS + lane;
      int j = 0;
      if (first == 0) a = tile[0], l = scales[0].z, j = 1;
#pragma unroll 16
      for (; j < count; ++j) {
        const float4 c = scales[j];
        a = __fmaf_rn(a, c.x, tile[j * MERGE_DIMS] * c.y);
        l = __fmaf_rn(l, c.x, c.z);
      }
    }
    __syncthreads();
  }
  if (warp > 0) return;
  const int input = head * m.head_dim + d + lane;
  const float result = __fdiv_rn(a, l);
  if (m.tap) m.tap[input] = result;
  out[input] = (int8_t)quantise(result, m.input);
}
