// A layer's per-layer embedding of a prompt as one kernel of clusters, for linears of 8 bits: what joins from the FFN, gate, GELU and product, projection, and the entry of the next layer.
//
// A cluster has some neighbouring columns, of which each of its blocks owns a share: it enters those and puts their codes into every block's shared memory. A block makes an even share of
// the gate's rows for all columns of the cluster, puts the codes of the product, makes its share of the projection's rows and puts the sums to the columns' owners, who have all
// rows of their own columns: stream, norm and codes for the next layer. So a cluster reads the weights once, neither codes nor sums of the projection leave it, and four kernels
// with their three ways through memory become one.
//
// Weights come straight into registers, in the order of fragments, some units ahead. The stream of a block's own columns stays in shared memory from the first joining to the second.
// What is put where, and why nobody writes what is still read:
// - codes go to `x`, which nothing was in before; every block waits for all of them before it multiplies.
// - sums of the gate lie in the room of `exchange`. Others put there once they have all products, so behind every block's last product put, which comes behind its last read of these sums.
// - sums of the projection are laid out by columns in the room of `x` before they go: behind a barrier of the block that no product of the gate is behind.
// - no block leaves before everything that was put to it has come.
#include "enter.cuh"

#define PER_LAYER_AHEAD 6  // units of weights of a warp on their way

// Columns are rows of the fragment's other side: 8 a product.
template <int TILES>
struct ColumnTiles {
  int c[TILES][4];
};

// `count` units from `units` on, of which the first ones are in `w`, times the codes of all columns. `x`: the lane's column and word at the first unit, the next eight columns `step` bytes on.
template <int TILES>
static __device__ __forceinline__ void add_units(ColumnTiles<TILES>& sums, uint4 (&w)[PER_LAYER_AHEAD], const uint4* units, int count, const int8_t* x, int step) {
#pragma unroll 1
  for (int first = 0; first < count; first += PER_LAYER_AHEAD) {
#pragma unroll
    for (int i = 0; i < PER_LAYER_AHEAD; ++i) {
      if (first + i >= count) break;
      const uint4 a = signed_codes(w[i]);
      if (first + i + PER_LAYER_AHEAD < count) w[i] = units[(first + i + PER_LAYER_AHEAD) * 32];
#pragma unroll
      for (int n = 0; n < TILES; ++n) {
        const unsigned* at = (const unsigned*)(x + n * step + (first + i) * 32);
        mma_signed(sums.c[n], a.x, a.y, a.z, a.w, at[0], at[4]);
      }
    }
  }
}
static __device__ __forceinline__ void first_units(uint4 (&w)[PER_LAYER_AHEAD], const uint4* units, int count) {
#pragma unroll
  for (int i = 0; i < PER_LAYER_AHEAD; ++i)
    if (i < count) w[i] = units[i * 32];
}
// Lays a fragment's sums down by columns.
template <int TILES>
static __device__ __forceinline__ void lay_down(const ColumnTiles<TILES>& sums, int* to, int stride) {
  const int lane = threadIdx.x % 32;
  int* at = to + lane % 4 * 2 * stride + lane / 4;
#pragma unroll
  for (int n = 0; n < TILES; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) at[(n * 8 + j % 2) * stride + 8 * (j / 2)] = sums.c[n][j];
}

// A block's sums of squares of codes: a warp's into `scratch`, then every lane of a warp the root of column `lane % COLUMNS` of the group's.
template <int COLUMNS>
static __device__ __forceinline__ float roots_of(const unsigned (&code)[COLUMNS], int (*scratch)[32], const Scale& scale, const Scale& count, int warps) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = warp / warps;
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) {
    const int squares = warp_sum(__dp4a((int)code[c], (int)code[c], 0));
    if (lane == 0) scratch[group * COLUMNS + c][warp - group * warps] = squares;
  }
  __syncthreads();
  int squares = 0;
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) {
    const int all = warp_sum(lane < warps ? scratch[group * COLUMNS + c][lane] : 0);
    if (lane % COLUMNS == c) squares = all;
  }
  return reciprocal_root_here((float)squares * (scale.value * scale.value), count);
}

static __device__ __forceinline__ float4 joined(float4 h, unsigned code, float scale, float r, float4 norm, float scalar) {
  h.x = (h.x + (((float)(int8_t)code * scale) * r) * norm.x) * scalar;
  h.y = (h.y + (((float)(int8_t)(code >> 8) * scale) * r) * norm.y) * scalar;
  h.z = (h.z + (((float)(int8_t)(code >> 16) * scale) * r) * norm.z) * scalar;
  h.w = (h.w + (((float)((int)code >> 24) * scale) * r) * norm.w) * scalar;
  return h;
}
static __device__ __forceinline__ unsigned joining(int4 sum, float4 by, const Scale& scale) {
  return quantise_four(make_float4((float)sum.x * by.x, (float)sum.y * by.y, (float)sum.z * by.z, (float)sum.w * by.w), scale);
}

// RANKS blocks of a cluster own OWN columns each. A HIDDEN that is not 0 is the stream's width at compile time, four values a thread of half of a block, and WIDTH that of the per-layer inputs: shapes
// are constants then, which is a quarter of all instructions less. Half of a block's threads enter half of its columns, four values of each a thread.
// Shared memory, in this order: counters of puts and roots, sums of warps, stream, exchange (the gate's sums before), codes (sums by columns behind), product.
template <int RANKS, int OWN, int HIDDEN, int WIDTH>
static __device__ __forceinline__ void per_layer_of_columns(const Linear& p, const Enter& leave) {
  const int COLUMNS = RANKS * OWN, TILES = COLUMNS / 8, HALF = OWN / 2;
  extern __shared__ __align__(128) char memory[];
  const Matrix &gate = p.m[0], &projection = p.m[1];
  const int threads = HIDDEN ? HIDDEN / 2 : blockDim.x, gate_units = HIDDEN ? HIDDEN / 32 : gate.split_k, second_units = WIDTH ? WIDTH / 32 : projection.split_k;
  const int rank = cluster_rank(), lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = threads / 32, t = lane % 4;
  const int hidden = HIDDEN ? HIDDEN : p.enter.hidden, width = WIDTH ? WIDTH : gate.rows;
  // Of the gate's rows and of the projection's; row blocks of the gate, into how many parts a row block's units are cut.
  const int gate_rows = width / RANKS, rows = hidden / RANKS, gate_blocks = gate_rows / 16, parts = max(warps / gate_blocks, 1);
  const int x_stride = hidden + 16, product_stride = width + 16, gate_stride = gate_rows + 4, exchange_stride = hidden + 4, stage_stride = rows + 4;
  Runs* counters = (Runs*)memory;
  float* roots = (float*)(memory + 64);
  int(*scratch)[32] = (int(*)[32])(memory + 128);
  float* stream = (float*)(memory + 128 + OWN * 128);
  int* exchange = (int*)(stream + OWN * hidden);
  int* gate_sums = exchange;
  int8_t* x = (int8_t*)(exchange + max(OWN * exchange_stride, parts * COLUMNS * gate_stride));
  int* stage = (int*)x;
  int8_t* product = x + max(COLUMNS * x_stride, COLUMNS * stage_stride * 4);

  release_next();
  if (threadIdx.x == 0) {
    runs_begin(&counters[0], COLUMNS * hidden);
    runs_begin(&counters[1], COLUMNS * width);
    runs_begin(&counters[2], OWN * hidden * 4);
  }
  cluster_arrive();
  const int half = threads / 2, group = threadIdx.x / half, from = 4 * (threadIdx.x - group * half);
  const bool mine = HIDDEN || from < hidden;
  // Columns from here on are the pass's, `own` counts the block's.
  const int first_column = cluster_id() * COLUMNS, own_column = first_column + rank * OWN + group * HALF;
  const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float4 multipliers = none, join_norm = none;
  if (mine) multipliers = *(const float4*)(p.enter.multipliers + from), join_norm = *(const float4*)(p.enter.join_norm + from);
  // A warp's part of the gate's units.
  const int block = warp % gate_blocks, part = warp / gate_blocks, begin = gate_units * part / parts, units = part < parts ? gate_units * (part + 1) / parts - begin : 0;
  const uint4* weights = gate.codes + ((size_t)(rank * gate_blocks + block) * gate_units + begin) * 32 + lane;
  await_previous();

  // What the FFN adds joins.
  {
    float4 h[HALF];
    int4 sum[HALF];
    unsigned code[HALF];
#pragma unroll
    for (int c = 0; c < HALF; ++c) {
      const bool there = mine && own_column + c < p.columns;
      const size_t at = (size_t)(own_column + c) * hidden + from;
      h[c] = there ? __ldcg((const float4*)(p.enter.hidden_in + at)) : none;
      sum[c] = there ? __ldcg((const int4*)(p.enter.sums + at)) : make_int4(0, 0, 0, 0);
    }
#pragma unroll
    for (int c = 0; c < HALF; ++c) {
      // The next sums are added to zeros.
      if (mine && own_column + c < p.columns) *(int4*)(p.enter.sums + (size_t)(own_column + c) * hidden + from) = make_int4(0, 0, 0, 0);
      code[c] = joining(sum[c], multipliers, p.enter.join);
    }
    const float root = roots_of<HALF>(code, scratch, p.enter.join, p.enter.count, warps / 2);
#pragma unroll
    for (int c = 0; c < HALF; ++c) {
      h[c] = joined(h[c], code[c], p.enter.join.value, __shfl_sync(ALL, root, c), join_norm, p.enter.scalar);
      if (!mine) continue;
      *(float4*)(stream + (group * HALF + c) * hidden + from) = h[c];
      *(unsigned*)(x + (rank * OWN + group * HALF + c) * x_stride + from) = quantise_four(h[c], p.enter.input);
    }
  }
  uint4 w[PER_LAYER_AHEAD];
  first_units(w, weights, units);
  __syncthreads();
  cluster_wait();
  // 16 bytes of codes to every block; to the own one as well, where they are, so that all count alike.
  for (int i = threadIdx.x; i < OWN * hidden / 16; i += threads) {
    const int c = i / (hidden / 16), at = (rank * OWN + c) * x_stride + (i - c * (hidden / 16)) * 16;
    const float4 codes = *(const float4*)(x + at);
#pragma unroll
    for (int other = 0; other < RANKS; ++other) put(remote(x + at, other), codes, remote(&counters[0], other));
  }
  puts_await(&counters[0]);

  // A lane's column of a tile and word of a unit.
  const int column = lane / 4;
#pragma unroll 1
  for (int b = block; b < gate_blocks && part < parts; b += warps) {
    ColumnTiles<TILES> sums = {};
    if (b != block) {
      weights += (size_t)warps * gate_units * 32;
      first_units(w, weights, units);
    }
    add_units(sums, w, weights, units, x + column * x_stride + begin * 32 + t * 4, 8 * x_stride);
    lay_down(sums, gate_sums + part * COLUMNS * gate_stride + b * 16, gate_stride);
  }
  // Of the projection a warp has whole row blocks.
  const uint4* second = projection.codes + (size_t)(rank * (rows / 16) + warp) * second_units * 32 + lane;
  if (warp < rows / 16) first_units(w, second, second_units);
  __syncthreads();
  const int quads = gate_rows / 4;
#pragma unroll 1
  for (int i = threadIdx.x; i < COLUMNS * quads; i += threads) {
    const int c = i / quads, row = (i - c * quads) * 4, gate_row = rank * gate_rows + row;
    const float4 ple = first_column + c < p.columns ? __ldcg((const float4*)(p.ple + (size_t)(first_column + c) * p.ple_stride + gate_row)) : none;
    const float4 by = *(const float4*)(gate.multipliers + gate_row);
    int4 sum = make_int4(0, 0, 0, 0);
    for (int q = 0; q < parts; ++q) {
      const int4 more = *(const int4*)(gate_sums + (q * COLUMNS + c) * gate_stride + row);
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    // The table's index is the code plus 128: its byte with the top bit flipped.
    const unsigned index = joining(sum, by, gate.output) ^ 0x80808080u;
    const unsigned code = quantise_four(make_float4(p.gelu[index & 255] * ple.x, p.gelu[index >> 8 & 255] * ple.y, p.gelu[index >> 16 & 255] * ple.z, p.gelu[index >> 24] * ple.w), p.next);
#pragma unroll
    for (int other = 0; other < RANKS; ++other) put(remote(product + c * product_stride + gate_row, other), code, remote(&counters[1], other));
  }
  puts_await(&counters[1]);

#pragma unroll 1
  for (int b = warp; b < rows / 16; b += warps) {
    ColumnTiles<TILES> sums = {};
    if (b != warp) {
      second += (size_t)warps * second_units * 32;
      first_units(w, second, second_units);
    }
    add_units(sums, w, second, second_units, product + column * product_stride + t * 4, 8 * product_stride);
    lay_down(sums, stage + b * 16, stage_stride);
  }
  __syncthreads();
  const int pieces = rows / 4;
#pragma unroll 1
  for (int i = threadIdx.x; i < COLUMNS * pieces; i += threads) {
    const int c = i / pieces, row = (i - c * pieces) * 4, owner = c / OWN;
    const float4 sums = *(const float4*)(stage + c * stage_stride + row);
    put(remote(exchange + (c - owner * OWN) * exchange_stride + rank * rows + row, owner), sums, remote(&counters[2], owner));
  }
  float4 norm = none;
  if (mine) {
    multipliers = *(const float4*)(leave.multipliers + from), join_norm = *(const float4*)(leave.join_norm + from);
    norm = *(const float4*)(leave.norm + from);
  }
  puts_await(&counters[2]);

  // What the projection adds joins, and the next layer's norm follows.
  float4 h[HALF];
  unsigned code[HALF];
#pragma unroll
  for (int c = 0; c < HALF; ++c) {
    const int own = group * HALF + c;
    const int4 sum = mine ? *(const int4*)(exchange + own * exchange_stride + from) : make_int4(0, 0, 0, 0);
    h[c] = mine ? *(const float4*)(stream + own * hidden + from) : none;
    code[c] = joining(sum, multipliers, leave.join);
  }
  const float root = roots_of<HALF>(code, scratch, leave.join, leave.count, warps / 2);
#pragma unroll
  for (int c = 0; c < HALF; ++c) {
    h[c] = joined(h[c], code[c], leave.join.value, __shfl_sync(ALL, root, c), join_norm, leave.scalar);
    if (!mine) continue;
    *(float4*)(stream + (group * HALF + c) * hidden + from) = h[c];
    if (own_column + c < p.columns) *(float4*)(leave.hidden_out + (size_t)(own_column + c) * hidden + from) = h[c];
  }
  __syncthreads();
#pragma unroll 1
  for (int c = warp; c < OWN; c += warps) {
    const float r = reciprocal_root_here(stream_squares<8>(stream + c * hidden, hidden), leave.count);
    if (lane == 0) roots[c] = r;
  }
  __syncthreads();
#pragma unroll
  for (int c = 0; c < HALF; ++c) {
    const float r = roots[group * HALF + c];
    const float4 y = make_float4((h[c].x * r) * norm.x, (h[c].y * r) * norm.y, (h[c].z * r) * norm.z, (h[c].w * r) * norm.w);
    if (mine && own_column + c < p.columns) *(unsigned*)(p.out[0] + (size_t)(own_column + c) * p.out_stride + from) = quantise_four(y, leave.input);
  }
}

#ifndef NO_CLUSTERS
// Two blocks of 8 columns: E2B's 1,024 columns are 128 blocks.
extern "C" __global__ void __launch_bounds__(768, 1) bulk_per_layer_2(__grid_constant__ const Linear p, __grid_constant__ const Enter leave) {
  per_layer_of_columns<2, 8, 0, 0>(p, leave);
}
extern "C" __global__ void __launch_bounds__(768, 1) bulk_per_layer_plain(__grid_constant__ const Linear p, __grid_constant__ const Enter leave) {
  per_layer_of_columns<2, 8, 1536, 256>(p, leave);
}
#endif
