// The head (rule 9): final hidden states as three signed 8-bit limbs, int2 codes, exact sums, logits or the best row.
#include "linear.cuh"

struct Head {
  Matrix m;              // multipliers are the row scales
  const float* hidden;   // final norms [columns x width]
  float* logits;         // [columns x rows], or null
  unsigned long long* best;  // best row of each column, or null
  int width, count, row_blocks;
};

// Larger logits have larger keys, lower ids among equals; a NaN is below everything.
static __device__ __forceinline__ unsigned long long ordered(float z, unsigned id) {
  z = z + 0.0f;
  if (z != z) return 0;
  unsigned bits = __float_as_uint(z);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (unsigned long long)bits << 32 | (unsigned)~id;
}

// A hidden state as limbs: the largest value of `top` fills them, every other one is rounded at the same place, `shift` bits behind the point.
static __device__ __forceinline__ int limb_shift(float top) {
  const int exponent = max((int)(__float_as_uint(top) >> 23) - 127, -100);
  return top == 0.0f ? 0 : 21 - exponent;
}
static __device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }
struct Limbs {
  int low, middle, high;
};
static __device__ __forceinline__ Limbs limbs_of(float h, float scale) {
  const int n = __float2int_rn(h * scale), low = (int8_t)n, rest = (n - low) >> 8, middle = (int8_t)rest;
  return {low, middle, (rest - middle) >> 8};
}
static __device__ __forceinline__ long long of_limbs(int low, int middle, int high) { return (long long)low + (long long)middle * 256 + (long long)high * 65536; }

// Logits of a thread's rows of a token, where they are wanted; the best key of them. `total` is the sum of the hidden state's limbs, `unit` what their last bit is worth.
template <int WIDTH>
static __device__ __forceinline__ unsigned long long best_of_thread(const Head& p, const int* sums, int row_block, int row_blocks, int token, long long total, float unit) {
  const int zero_point = 2;
  unsigned long long best = 0;
  for (int i = threadIdx.x; i < row_blocks * 16; i += THREADS) {
    int row = row_block * 16 + i;
    if (row >= p.m.rows) continue;
    const int* limb = sums + i * WIDTH + 3 * token;
    float z = (__ll2float_rn(of_limbs(limb[0], limb[1], limb[2]) - zero_point * total) * unit) * p.m.multipliers[row];
    if (p.logits) p.logits[(size_t)token * p.m.rows + row] = z;
    unsigned long long key = ordered(z, (unsigned)row);
    best = key > best ? key : best;
  }
  return best;
}
// The best of the block's threads, in the first one. `found` has a word a warp.
static __device__ __forceinline__ unsigned long long best_of_block(unsigned long long best, unsigned long long* found) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    unsigned long long other = __shfl_xor_sync(ALL, best, d);
    best = other > best ? other : best;
  }
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < WARPS; ++w) best = found[w] > best ? found[w] : best;
  return best;
}

template <int TOKENS>
static __device__ __forceinline__ void head_rows(const Head& p) {
  const int WIDTH = 3 * TOKENS;
  extern __shared__ __align__(128) char memory[];
  __shared__ int scratch[33];
  __shared__ float largest[WARPS], units[TOKENS];
  __shared__ long long totals[TOKENS];
  __shared__ unsigned long long found[WARPS];
  release_next();
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int row_block = blockIdx.x * p.row_blocks, row_blocks = min(p.row_blocks, (p.m.rows + 15) / 16 - row_block);
  int x_size = p.m.split_k * (256 / p.m.bits), stride = x_size + 32;
  uint4* ring = (uint4*)memory + warp * HEAD_DEPTH * 32 + lane;
  int* sums = (int*)(memory + WARPS * HEAD_DEPTH * 512);
  int8_t* x = (int8_t*)(sums + p.row_blocks * 16 * WIDTH);

  Stream s;
  s.k_count = p.m.split_k;
  int total = row_blocks * s.k_count;
  share(s, total);
  s.from = p.m.codes + ((size_t)row_block * s.k_count + s.first) * 32 + lane;
  prefetch<HEAD_DEPTH>(s, ring);
  for (int i = threadIdx.x; i < row_blocks * 16 * WIDTH; i += THREADS) sums[i] = 0;

  await_previous();
  for (int token = 0; token < TOKENS; ++token) {
    const float* h = p.hidden + (size_t)token * p.width;
    bool there = token < p.count;
    float top = 0.0f;
    for (int i = threadIdx.x; i < p.width; i += THREADS) top = fmaxf(top, there ? fabsf(h[i]) : 0.0f);
#pragma unroll
    for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, d));
    __syncthreads();
    if (lane == 0) largest[warp] = top;
    __syncthreads();
    top = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, largest[w]);
    const int shift = limb_shift(top);
    const float scale = power_of_two(shift);
    int low = 0, middle = 0, high = 0;
    for (int i = threadIdx.x; i < x_size; i += THREADS) {
      const Limbs limbs = limbs_of(there && i < p.width && top != 0.0f ? h[i] : 0.0f, scale);
      x[(3 * token) * stride + i] = (int8_t)limbs.low;
      x[(3 * token + 1) * stride + i] = (int8_t)limbs.middle;
      x[(3 * token + 2) * stride + i] = (int8_t)limbs.high;
      low += limbs.low, middle += limbs.middle, high += limbs.high;
    }
    low = block_sum(low, scratch);
    __syncthreads();
    middle = block_sum(middle, scratch);
    __syncthreads();
    high = block_sum(high, scratch);
    if (threadIdx.x == 0) {
      totals[token] = of_limbs(low, middle, high);
      units[token] = power_of_two(-shift);
    }
    __syncthreads();
  }
  consume<2, WIDTH, HEAD_DEPTH>(s, ring, x, stride, sums);
  __syncthreads();

  for (int token = 0; token < min(TOKENS, p.count); ++token) {
    const unsigned long long mine = best_of_thread<WIDTH>(p, sums, row_block, row_blocks, token, totals[token], units[token]);
    if (!p.best) continue;
    const unsigned long long best = best_of_block(mine, found);
    if (threadIdx.x == 0) atomicMax(p.best + token, best);
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) head(__grid_constant__ const Head p) { head_rows<1>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) head_wide(__grid_constant__ const Head p) { head_rows<2>(p); }
