// The drafter (docs/spec.md, Drafter): bf16 linears of one column in floats, each with its input made at its entry, and the clustered head.
//
// A drafted token is about 25 small kernels over 2 to 5 MB of weights, so a kernel is its start and its chain of additions: every block
// of the grid makes the input for itself, a warp has a row at a time, and a row's first weights are read before the input exists.
#include "merge.cuh"

enum DraftInput { DRAFT_PLAIN, DRAFT_EMBEDDED, DRAFT_NORMED, DRAFT_MERGED };

struct DraftLinear {
  const uint4* weights;    // bf16, repacked as those of Project
  const uint4* beside;     // up, where these are gate and the product is wanted; or null
  float* out;              // [rows]
  const float* input;      // plain: [width]; embedded: the hidden half; normed: the stream
  const float* join;       // [width] output of a linear that joins the stream; null where none does
  const float* join_norm;
  const float* norm;
  float* stream_out;       // the stream behind the joining, or null
  float* normed;           // the input, written down for later kernels, or null
  const Column* column;
  Merge merge;
  Table embed;
  Scale count;             // the width
  float scalar;            // factor of the stream behind the joining
  int rows, width, chunks, kind;
};

// What a cycle of drafts keeps on the card.
struct DraftChain {
  unsigned* drafts;  // host memory
  unsigned long long best;
  int count;
};

#define EARLY 4  // chunks of a row that are read before the input exists

// A row's product with `x` (rules 6, 10); `first` has its first chunks. Every lane ends with it.
static __device__ __forceinline__ float draft_row(const uint4* row, const uint4 (&first)[EARLY], const float* x, int chunks, int steps) {
  const int lane = threadIdx.x % 32;
  float sum = 0.0f;
#pragma unroll
  for (int chunk = 0; chunk < EARLY; ++chunk) {
    const unsigned word[4] = {first[chunk].x, first[chunk].y, first[chunk].z, first[chunk].w};
#pragma unroll
    for (int s = 0; s < 8; ++s)
      if (chunk * 8 + s < steps)
        sum = __fmaf_rn(__uint_as_float(s % 2 ? word[s / 2] & 0xffff0000u : word[s / 2] << 16), x[chunk * 256 + s * 32 + lane], sum);
  }
#pragma unroll 2
  for (int chunk = EARLY; chunk < chunks; ++chunk) {
    uint4 w = __ldcs(row + chunk * 32 + lane);
    const unsigned word[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int s = 0; s < 8; ++s)
      if (chunk * 8 + s < steps)
        sum = __fmaf_rn(__uint_as_float(s % 2 ? word[s / 2] & 0xffff0000u : word[s / 2] << 16), x[chunk * 256 + s * 32 + lane], sum);
  }
  return lane_tree(sum);
}

static __device__ __forceinline__ void draft_first(const uint4* row, uint4 (&first)[EARLY], int chunks) {
#pragma unroll
  for (int i = 0; i < EARLY; ++i) first[i] = i < chunks ? __ldcs(row + i * 32 + threadIdx.x % 32) : make_uint4(0, 0, 0, 0);
}

// The norm entry by one warp: what joins, the stream, its norm (rule 6).
static __device__ __forceinline__ void draft_norm(const DraftLinear& p, float* x) {
  const int lane = threadIdx.x % 32;
  const bool write = blockIdx.x == 0;
  float r = 0.0f, squares = 0.0f;
  if (p.join) {
    float sum = 0.0f;
    for (int i = lane; i < p.width; i += 32) {
      float value = __ldcg(p.join + i);
      sum = __fmaf_rn(value, value, sum);
    }
    r = reciprocal_root(lane_tree(sum), p.count);
  }
  for (int i = lane; i < p.width; i += 32) {
    float h = __ldcg(p.input + i);
    if (p.join) h = (h + (__ldcg(p.join + i) * r) * p.join_norm[i]) * p.scalar;
    if (write && p.stream_out) p.stream_out[i] = h;
    x[i] = h;
    squares = __fmaf_rn(h, h, squares);
  }
  float root = reciprocal_root(lane_tree(squares), p.count);
  for (int i = lane; i < p.width; i += 32) {
    float y = (x[i] * root) * p.norm[i];
    x[i] = y;
    if (write && p.normed) p.normed[i] = y;
  }
}

// A warp a row. Shared memory: the input, then the scales of a merge.
extern "C" __global__ void __launch_bounds__(THREADS) draft_linear(__grid_constant__ const DraftLinear p) {
  extern __shared__ __align__(128) float x[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = p.width / 32;
  int row = blockIdx.x * WARPS + warp;
  uint4 first[EARLY], second[EARLY];
  if (row < p.rows) {
    draft_first(p.weights + (size_t)row * p.chunks * 32, first, p.chunks);
    if (p.beside) draft_first(p.beside + (size_t)row * p.chunks * 32, second, p.chunks);
  }
  release_next();
  await_previous();
  if (p.kind == DRAFT_NORMED) {
    if (warp == 0) draft_norm(p, x);
  } else if (p.kind == DRAFT_MERGED) {
    Merge m = p.merge;
    m.tap = x;
    merge<false>(m, team_of(1), merge_place(m, team_of(1), 0, p.width), 0, p.column->position - 1, 0, p.width, p.width, true, nullptr, x + p.width, nullptr);
  } else {
    const int embedded = p.kind == DRAFT_EMBEDDED ? p.embed.columns : 0;
    if (embedded) {
      size_t token = p.column->token;
      const uint8_t* codes = p.embed.codes + token * (p.embed.columns * p.embed.bits / 8);
      for (int i = threadIdx.x; i < embedded; i += THREADS) x[i] = table_value(p.embed, codes, p.embed.scales + token, i);
    }
    for (int i = embedded + threadIdx.x; i < p.width; i += THREADS) x[i] = __ldcg(p.input + i - embedded);
  }
  __syncthreads();
  for (; row < p.rows; row += gridDim.x * WARPS) {
    const uint4* weights = p.weights + (size_t)row * p.chunks * 32;
    float out = draft_row(weights, first, x, p.chunks, steps);
    int next = row + gridDim.x * WARPS;
    if (p.beside) {
      float up = draft_row(p.beside + (size_t)row * p.chunks * 32, second, x, p.chunks, steps);
      out = up * gelu_float(out);
    }
    if (lane == 0) p.out[row] = out;
    if (next < p.rows) {
      draft_first(p.weights + (size_t)next * p.chunks * 32, first, p.chunks);
      if (p.beside) draft_first(p.beside + (size_t)next * p.chunks * 32, second, p.chunks);
    }
  }
}

// The order of clusters: a larger score first, a lower index among equals.
static __device__ __forceinline__ unsigned long long cluster_key(float score, int index) {
  unsigned bits = __float_as_uint(score);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (unsigned long long)bits << 32 | (unsigned)~index;
}

// A warp a cluster: its rank is how many come before it.
extern "C" __global__ void __launch_bounds__(THREADS) draft_rank(const float* scores, int clusters, int top_k, int* chosen) {
  release_next();
  await_previous();
  const int cluster = blockIdx.x * WARPS + threadIdx.x / 32;
  if (cluster >= clusters) return;
  unsigned long long mine = cluster_key(__ldcg(scores + cluster), cluster);
  int before = 0;
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < clusters; i += 32) before += cluster_key(__ldcg(scores + i), i) > mine;
  before = warp_sum(before);
  if (before < top_k && threadIdx.x % 32 == 0) chosen[before] = cluster;
}

// A warp a token of the chosen clusters, or of the vocabulary where `tokens` is null: the best row of the drafter's head.
extern "C" __global__ void __launch_bounds__(THREADS)
    draft_best(const uint4* rows, const float* input, const unsigned* tokens, const int* chosen, DraftChain* chain, int count, int size,
               int width, int chunks) {
  extern __shared__ __align__(128) float x[];
  __shared__ unsigned long long found[WARPS];
  release_next();
  await_previous();
  const int warp = threadIdx.x / 32;
  for (int i = threadIdx.x; i < width; i += THREADS) x[i] = __ldcg(input + i);
  __syncthreads();
  unsigned long long best = 0;
  for (int i = blockIdx.x * WARPS + warp; i < count; i += gridDim.x * WARPS) {
    unsigned token = tokens ? tokens[(size_t)__ldcg(chosen + i / size) * size + i % size] : (unsigned)i;
    uint4 first[EARLY];
    const uint4* row = rows + (size_t)token * chunks * 32;
    draft_first(row, first, chunks);
    unsigned long long key = ordered(draft_row(row, first, x, chunks, width / 32), token);
    best = key > best ? key : best;
  }
  if (threadIdx.x % 32 == 0) found[warp] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < WARPS; ++w) best = found[w] > best ? found[w] : best;
  atomicMax(&chain->best, best);
}

// The drafted token goes to the host and becomes the next draft's; its position stays (docs/spec.md).
extern "C" __global__ void draft_pick(DraftChain* chain, Column* column) {
  release_next();
  await_previous();
  unsigned long long best = chain->best;
  unsigned id = best == 0 ? 0u : ~(unsigned)best;
  chain->best = 0;
  column->token = id;
  ((volatile unsigned*)chain->drafts)[chain->count] = id;
  chain->count += 1;
}
