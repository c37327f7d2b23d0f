// Drawing a token from the logits (contract rule 13 with temperature, top-k, top-p and min-p; crates/engine/src/sample has every step in words).
//
// Two kernels: each block of the first finds the `top_k` best candidates of its slice of the vocabulary, the one block of the second the best of those, puts them in
// order and draws. Candidates are keys that are larger the earlier they come, all of them different, so a bisection over their bits ends
// with exactly the first `top_k`, in whatever order they are gathered. Sums run along the order, one thread, as the rule has it.
#include "shapes.cuh"

#define DRAW_MOST 128     // top_k at most
#define DRAW_THREADS 512
#define DRAW_SLICE 2048   // ids of a block
#define PICK_THREADS 1024
#define DRAW_LISTS 16384  // candidates of the second kernel at most
#define DRAW_SUPPRESSED 16
#define NOT_DRAWN 0xfffffffeu  // in place of an id: there was no candidate

struct Draw {
  float temperature, top_p, min_p, cap;  // cap 0: none
  unsigned seed_low, seed_high;
  int top_k, suppressed;
  unsigned suppress[DRAW_SUPPRESSED];
};

// Rule 9's cap.
static __device__ __forceinline__ float soft_cap(float z, float cap) {
  float x = __fdiv_rn(z, cap), t = contract_exp(-2.0f * fabsf(x));
  return copysignf(__fdiv_rn(1.0f - t, 1.0f + t), x) * cap;
}

// The value in a key of `ordered`.
static __device__ __forceinline__ float value_in(unsigned long long key) {
  unsigned bits = (unsigned)(key >> 32);
  return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

// The first word of Philox4x32-10, as 24 bits of a fraction.
static __device__ float uniform(unsigned seed_low, unsigned seed_high, unsigned position) {
  unsigned c0 = position, c1 = 0, c2 = 0, c3 = 0, k0 = seed_low, k1 = seed_high;
  for (int round = 0; round < 10; ++round) {
    unsigned long long first = 0xd2511f53ull * c0, second = 0xcd9e8d57ull * c2;
    c0 = (unsigned)(second >> 32) ^ c1 ^ k0;
    c1 = (unsigned)second;
    c2 = (unsigned)(first >> 32) ^ c3 ^ k1;
    c3 = (unsigned)first;
    k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
  }
  return (float)(c0 >> 8) * (1.0f / 16777216.0f);
}

// The largest bound that `k` keys of the block reach: the k-th key itself, or less where the rest of its bits tells nothing apart. Keys of 0 are none.
// `scratch` has 66 ints.
template <int EACH>
static __device__ __forceinline__ unsigned long long bound_of(const unsigned long long (&keys)[EACH], int k, int* scratch) {
  unsigned long long bound = 0;
#pragma unroll 1
  for (int bit = 63; bit >= 0; --bit) {
    unsigned long long higher = bound | 1ull << bit;
    int count = 0;
#pragma unroll
    for (int i = 0; i < EACH; ++i) count += keys[i] >= higher;
    // Turns between two places, so that one barrier a round is enough.
    count = block_sum(count, scratch + bit % 2 * 33);
    if (count >= k) bound = higher;
    if (count == k) break;
  }
  return bound;
}

// Candidates of a slice: its first `top_k`, in any order; 0 where there are fewer.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS)
    draw_slices(const Draw* draw, const float* logits, int vocab, unsigned long long* lists) {
  __shared__ int scratch[66], gathered;
  release_next();
  await_previous();
  const int top_k = draw->top_k, suppressed = draw->suppressed;
  const float cap = draw->cap;
  const unsigned first = blockIdx.x * DRAW_SLICE;
  unsigned long long keys[DRAW_SLICE / DRAW_THREADS];
#pragma unroll
  for (int i = 0; i < DRAW_SLICE / DRAW_THREADS; ++i) {
    unsigned id = first + i * DRAW_THREADS + threadIdx.x;
    keys[i] = 0;
    if (id >= (unsigned)vocab) continue;
    float z = __ldcg(logits + id);
    // The cap alone would make a number of what is none.
    if (z != z || z == -INFINITY) continue;
    keys[i] = ordered(cap > 0.0f ? soft_cap(z, cap) : z, id);
#pragma unroll 1
    for (int j = 0; j < suppressed; ++j)
      if (draw->suppress[j] == id) keys[i] = 0;
  }
  if (threadIdx.x == 0) gathered = 0;
  unsigned long long bound = bound_of(keys, top_k, scratch);
  __syncthreads();
  unsigned long long* list = lists + blockIdx.x * top_k;
#pragma unroll
  for (int i = 0; i < DRAW_SLICE / DRAW_THREADS; ++i)
    if (keys[i] != 0 && keys[i] >= bound) list[atomicAdd(&gathered, 1)] = keys[i];
  __syncthreads();
  for (int i = gathered + threadIdx.x; i < top_k; i += DRAW_THREADS) list[i] = 0;
}

// The end of a token of a drawn run.
extern "C" __global__ void __launch_bounds__(PICK_THREADS)
    draw_pick(const Draw* draw, const unsigned long long* lists, int slices, Chain* chain, Column* column) {
  __shared__ int scratch[66], gathered;
  __shared__ unsigned long long found[DRAW_MOST], sorted[DRAW_MOST];
  __shared__ float weights[DRAW_MOST];
  release_next();
  await_previous();
  const int top_k = draw->top_k, all = slices * top_k;
  unsigned long long keys[DRAW_LISTS / PICK_THREADS];
#pragma unroll
  for (int i = 0; i < DRAW_LISTS / PICK_THREADS; ++i) {
    int at = i * PICK_THREADS + threadIdx.x;
    keys[i] = at < all ? __ldcg(lists + at) : 0;
  }
  if (threadIdx.x == 0) gathered = 0;
  unsigned long long bound = bound_of(keys, top_k, scratch);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < DRAW_LISTS / PICK_THREADS; ++i)
    if (keys[i] != 0 && keys[i] >= bound) found[atomicAdd(&gathered, 1)] = keys[i];
  __syncthreads();
  const int count = gathered;
  if ((int)threadIdx.x < count) {
    unsigned long long mine = found[threadIdx.x];
    int before = 0;
    for (int i = 0; i < count; ++i) before += found[i] > mine;
    sorted[before] = mine;
  }
  __syncthreads();
  if ((int)threadIdx.x < count) {
    float first = __fdiv_rn(value_in(sorted[0]), draw->temperature);
    weights[threadIdx.x] = contract_exp(__fdiv_rn(value_in(sorted[threadIdx.x]), draw->temperature) - first);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (count == 0) {
    // The host is told, and nothing goes on.
    if (chain->done) return;
    ((volatile unsigned*)chain->emitted)[chain->count] = NOT_DRAWN;
    chain->done = 1;
    return;
  }
  int kept = count;
  if (draw->top_p < 1.0f) {
    float sum = 0.0f, before = 0.0f;
    for (int i = 0; i < count; ++i) sum = sum + weights[i];
    float mass = draw->top_p * sum;
    for (kept = 0; kept < count && before < mass; ++kept) before = before + weights[kept];
    kept = max(kept, 1);
  }
  if (draw->min_p > 0.0f) {
    int large = 0;
    while (large < kept && weights[large] >= draw->min_p) ++large;
    kept = max(large, 1);
  }
  float sum = 0.0f, running = 0.0f;
  for (int i = 0; i < kept; ++i) sum = sum + weights[i];
  float threshold = uniform(draw->seed_low, draw->seed_high, (unsigned)column->position + 1) * sum;
  int taken = 0;
  for (; taken < kept - 1; ++taken) {
    running = running + weights[taken];
    if (running > threshold) break;
  }
  go_on(chain, column, ~(unsigned)sorted[taken]);
}
