// The start of a token: embedding row, projection to all per-layer inputs, table row, their combination (rules 10, 11).
#include "contract.cuh"
#include "shapes.cuh"

// A table of which a token reads one row: codes in row layout, scales.
struct Table {
  const uint8_t* codes;
  const float* scales;
  int bits, columns, scales_per_row;
  float factor;
};

static __device__ __forceinline__ float table_value(const Table& t, const uint8_t* row, const float* scales, int column) {
  int per_byte = 8 / t.bits;
  int code = (row[column / per_byte] >> (column % per_byte * t.bits)) & ((1 << t.bits) - 1);
  float scale = scales[column / (t.columns / t.scales_per_row)];
  return ((float)(code - (1 << (t.bits - 1))) * scale) * t.factor;
}

static __device__ __forceinline__ const uint8_t* table_row(const Table& t, unsigned token) { return t.codes + (size_t)token * (t.columns * t.bits / 8); }
// Four neighbouring values of a row that has one scale; `column` is a multiple of four.
static __device__ __forceinline__ float4 table_four(const Table& t, const uint8_t* row, float scale, int column) {
  const unsigned codes = t.bits == 2 ? row[column / 4] : t.bits == 4 ? *(const uint16_t*)(row + column / 2) : *(const unsigned*)(row + column);
  const int mask = (1 << t.bits) - 1, zero_point = 1 << (t.bits - 1);
  float value[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) value[i] = ((float)((int)(codes >> (i * t.bits) & mask) - zero_point) * scale) * t.factor;
  return make_float4(value[0], value[1], value[2], value[3]);
}

// One block of the grid a column. The first kernel of a pass: it starts when everything before has finished.
extern "C" __global__ void __launch_bounds__(256) embed(__grid_constant__ const Table t, const Column* columns, float* hidden) {
  release_next();
  unsigned token = columns[blockIdx.x].token;
  const uint8_t* row = t.codes + (size_t)token * (t.columns * t.bits / 8);
  for (int i = threadIdx.x; i < t.columns; i += blockDim.x)
    hidden[(size_t)blockIdx.x * t.columns + i] = table_value(t, row, t.scales + token, i);
}

// Copies the per-layer rows of the pass's tokens, from host memory as a rule, while the projection runs.
static __device__ void gather(const Table& t, const Column* columns, int count, uint8_t* rows, float* scales, int row_bytes) {
  for (int c = 0; c < count; ++c) {
    size_t token = columns[c].token;
    const unsigned* from = (const unsigned*)(t.codes + token * row_bytes);
    for (int i = threadIdx.x; i < row_bytes / 4; i += blockDim.x) ((unsigned*)(rows + (size_t)c * row_bytes))[i] = from[i];
    for (int i = threadIdx.x; i < t.scales_per_row; i += blockDim.x)
      scales[c * t.scales_per_row + i] = t.scales[token * t.scales_per_row + i];
  }
}

struct Project {
  const uint4* weights;  // bf16, repacked: [rows][chunks of 256 inputs][32 lanes][8], lane l has inputs l, l + 32, ...
  const float* hidden;   // [columns x hidden]
  float* out;            // [columns x out_stride]
  const Column* columns;
  uint8_t* table_rows;
  float* table_scales;
  Table table;
  float factor;
  int rows, width, chunks, out_stride, count;
};

// The same for a prompt, by some blocks of the grid, a warp a column: the first layers' part of a row, which is as long as a column of the projection. A lane has eight words under way.
// Nothing of this waits for a kernel: columns came before the first one of the list, and nobody reads rows of an earlier pass any more once that one has started.
static __device__ __forceinline__ void gather_by_warps(const Project& p, int block, int blocks) {
  const Table& t = p.table;
  const int WORDS = 8, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const size_t row_words = (size_t)t.columns * t.bits / 32;
  const int words = (p.rows * t.bits + 31) / 32, scales = p.rows / (t.columns / t.scales_per_row);
#pragma unroll 1
  for (int c = block * warps + threadIdx.x / 32; c < p.count; c += blocks * warps) {
    const size_t token = p.columns[c].token;
    const unsigned* from = (const unsigned*)t.codes + token * row_words;
    unsigned* to = (unsigned*)p.table_rows + c * row_words;
#pragma unroll 1
    for (int first = lane; first < words; first += 32 * WORDS) {
      unsigned some[WORDS];
#pragma unroll
      for (int i = 0; i < WORDS; ++i) some[i] = from[min(first + 32 * i, words - 1)];
#pragma unroll
      for (int i = 0; i < WORDS; ++i)
        if (first + 32 * i < words) to[first + 32 * i] = some[i];
    }
    for (int i = lane; i < scales; i += 32) p.table_scales[(size_t)c * t.scales_per_row + i] = t.scales[token * t.scales_per_row + i];
  }
}
// Blocks that gather so, before all others of a projection of many columns, whose last round leaves some multiprocessors without work.
#define GATHER_BLOCKS 32
// Whether this block gathers, or has nothing to do at all: those of the grid's first row.
static __device__ __forceinline__ bool gathers(const Project& p) {
  if (blockIdx.y > 0) return false;
  const int blocks = min((int)gridDim.x, GATHER_BLOCKS);
  if ((int)blockIdx.x < blocks) gather_by_warps(p, blockIdx.x, blocks);
  return true;
}

// Rows of a warp at a time: the 8,960 of E2B are 1,792 pieces of work for 2,112 warps.
#define PROJECT_ROWS 5
#define PROJECT_WARPS 16

// The weights of a warp's rows from `row` on, of one chunk.
static __device__ __forceinline__ void load_chunk(uint4 (&w)[PROJECT_ROWS], const Project& p, int row, int chunk) {
#pragma unroll
  for (int r = 0; r < PROJECT_ROWS; ++r)
    w[r] = __ldcs(p.weights + ((size_t)min(row + r, p.rows - 1) * p.chunks + chunk) * 32 + threadIdx.x % 32);
}
// Adds a chunk's products to the lanes of rule 10; a WHOLE one has all of its inputs.
template <int WIDTH, bool WHOLE = false>
static __device__ __forceinline__ void add_chunk(float (&lanes)[PROJECT_ROWS][WIDTH], const uint4 (&w)[PROJECT_ROWS], const Project& p, const float* x, int chunk) {
  const int lane = threadIdx.x % 32, steps = p.width / 32;
#pragma unroll
  for (int s = 0; s < 8; ++s) {
    if (!WHOLE && chunk * 8 + s >= steps) break;
#pragma unroll
    for (int c = 0; c < WIDTH; ++c) {
      float value = x[c * p.width + chunk * 256 + s * 32 + lane];
#pragma unroll
      for (int r = 0; r < PROJECT_ROWS; ++r) {
        const unsigned* word = (const unsigned*)&w[r];
        unsigned half = s % 2 ? word[s / 2] & 0xffff0000u : word[s / 2] << 16;
        lanes[r][c] = __fmaf_rn(__uint_as_float(half), value, lanes[r][c]);
      }
    }
  }
}

// Rule 10, some rows a warp at a time; the last block of the grid gathers table rows instead.
template <int WIDTH>
static __device__ __forceinline__ void project_rows(const Project& p) {
  extern __shared__ __align__(128) float x[];
  release_next();
  if (blockIdx.x == gridDim.x - 1) {
    await_previous();
    gather(p.table, p.columns, p.count, p.table_rows, p.table_scales, p.table.columns * p.table.bits / 8);
    return;
  }
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (gridDim.x - 1) * PROJECT_WARPS;
  await_previous();
  for (int i = threadIdx.x; i < p.width * WIDTH; i += blockDim.x) x[i] = i < p.width * p.count ? p.hidden[i] : 0.0f;
  __syncthreads();
  for (int row = (blockIdx.x * PROJECT_WARPS + warp) * PROJECT_ROWS; row < p.rows; row += warps * PROJECT_ROWS) {
    float lanes[PROJECT_ROWS][WIDTH];
#pragma unroll
    for (int r = 0; r < PROJECT_ROWS; ++r)
#pragma unroll
      for (int c = 0; c < WIDTH; ++c) lanes[r][c] = 0.0f;
#pragma unroll 2
    for (int chunk = 0; chunk < p.chunks; ++chunk) {
      uint4 w[PROJECT_ROWS];
      load_chunk(w, p, row, chunk);
      add_chunk<WIDTH>(lanes, w, p, x, chunk);
    }
#pragma unroll
    for (int r = 0; r < PROJECT_ROWS; ++r)
#pragma unroll
      for (int c = 0; c < WIDTH; ++c) {
        float sum = lane_tree(lanes[r][c]);
        if (lane == 0 && row + r < p.rows && c < p.count) p.out[(size_t)c * p.out_stride + row + r] = sum * p.factor;
      }
  }
}

extern "C" __global__ void __launch_bounds__(512) project(__grid_constant__ const Project p) { project_rows<1>(p); }
extern "C" __global__ void __launch_bounds__(512) project_wide(__grid_constant__ const Project p) { project_rows<8>(p); }

// `embed` and `project` of one column as one kernel, the first of a list whose first layer runs as layer_attention.cu.
//
// Where the list follows another one of the same run (runner.rs) it starts early and waits for all of that one before it lets anything start, so every kernel that comes starts when the
// token and its position are there. `combine` lets the first layer's attention start at once: that makes its stream from the table itself, reads nothing that this kernel or
// `combine` writes, and waits for both before it adds to the sums that are cleared here. So whoever waits for that layer has waited for the per-layer inputs, too.
struct EmbedProject {
  Project project;
  Table embed;
  float* stream;
  int* zero;  // sums that the first layer's output projection adds to
  int zero_count, fill;
};

// A warp's rows from `row` on of one column, whose `x` goes on to a whole chunk. `now` has the weights of the first chunk; the next ones are on their way while these are multiplied.
static __device__ __forceinline__ void project_one(const Project& p, const float* x, int row, int step, uint4 (&now)[PROJECT_ROWS]) {
#pragma unroll 1
  for (; row < p.rows; row += step) {
    float lanes[PROJECT_ROWS][1] = {};
#pragma unroll 1
    for (int chunk = 0; chunk < p.chunks; chunk += 2) {
      const bool two = chunk + 1 < p.chunks, more = chunk + 2 < p.chunks;
      uint4 next[PROJECT_ROWS];
      if (two) load_chunk(next, p, row, chunk + 1);
      add_chunk<1, true>(lanes, now, p, x, chunk);
      // Behind the last chunk comes the first one of the next rows.
      if (more || row + step < p.rows) load_chunk(now, p, more ? row : row + step, more ? chunk + 2 : 0);
      if (two) add_chunk<1, true>(lanes, next, p, x, chunk + 1);
    }
#pragma unroll
    for (int r = 0; r < PROJECT_ROWS; ++r) {
      const float sum = lane_tree(lanes[r][0]);
      if (threadIdx.x % 32 == 0 && row + r < p.rows) p.out[row + r] = sum * p.factor;
    }
  }
}

// 64 registers: a block lies beside one of the first layer's attention (80 registers, 384 threads) and one of `combine`.
extern "C" __global__ void __launch_bounds__(512, 2) embed_project(__grid_constant__ const EmbedProject e) {
  extern __shared__ __align__(128) float x[];
  const Project& p = e.project;
  const int step = (gridDim.x - 1) * PROJECT_WARPS * PROJECT_ROWS, row = (blockIdx.x * PROJECT_WARPS + threadIdx.x / 32) * PROJECT_ROWS;
  // The first weights are on their way while the token before ends and its successor's row is looked up.
  uint4 now[PROJECT_ROWS];
  if (row < p.rows) load_chunk(now, p, row, 0);
  await_previous();
  release_next();
  if (blockIdx.x == gridDim.x - 1) {
    for (int i = threadIdx.x; i < e.zero_count; i += blockDim.x) e.zero[i] = 0;
    gather(p.table, p.columns, 1, p.table_rows, p.table_scales, p.table.columns * p.table.bits / 8);
    return;
  }
  const unsigned token = __ldcg(&p.columns->token);
  const uint8_t* codes = table_row(e.embed, token);
  const float scale = e.embed.scales[token];
  // Behind the last input both sides of a product are 0.
  for (int i = 4 * threadIdx.x; i < p.chunks * 256; i += 4 * blockDim.x) {
    const bool there = i < p.width;
    const float4 h = there ? table_four(e.embed, codes, scale, i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    *(float4*)(x + i) = h;
    if (there && blockIdx.x == 0) *(float4*)(e.stream + i) = h;
  }
  __syncthreads();
  project_one(p, x, row, step, now);
}

// Norm of one layer's projection, plus its table row: one block of 32 threads a layer and column, in place.
extern "C" __global__ void __launch_bounds__(32) combine(__grid_constant__ const Table t, const uint8_t* rows,
                                                         const float* scales, const float* norm, float* inputs, int stride,
                                                         int width, float half_root) {
  release_next();
  int layer = blockIdx.x, column = blockIdx.y, lane = threadIdx.x;
  float* x = inputs + (size_t)column * stride + layer * width;
  const uint8_t* row = rows + (size_t)column * (t.columns * t.bits / 8);
  const int MINE = 8;
  if (width == 32 * MINE && t.scales_per_row * width == t.columns) {
    // A layer's values of a column in registers, everything under way together, and one scale.
    float own[MINE], weight[MINE], sum = 0.0f;
    int code[MINE];
#pragma unroll
    for (int i = 0; i < MINE; ++i) weight[i] = norm[lane + 32 * i];
    await_previous();
    const float scale = scales[column * t.scales_per_row + layer];
    const int mask = (1 << t.bits) - 1, zero_point = 1 << (t.bits - 1);
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
      own[i] = x[lane + 32 * i];
      const int bit = (layer * width + lane + 32 * i) * t.bits;
      code[i] = (row[bit / 8] >> bit % 8 & mask) - zero_point;
    }
#pragma unroll
    for (int i = 0; i < MINE; ++i) sum = __fmaf_rn(own[i], own[i], sum);
    const float r = reciprocal_root(lane_tree(sum), count_of(width));
#pragma unroll
    for (int i = 0; i < MINE; ++i) x[lane + 32 * i] = ((own[i] * r) * weight[i] + ((float)code[i] * scale) * t.factor) * half_root;
    return;
  }
  await_previous();
  float sum = 0.0f;
  for (int i = lane; i < width; i += 32) sum = __fmaf_rn(x[i], x[i], sum);
  float r = reciprocal_root(lane_tree(sum), count_of(width));
  for (int i = lane; i < width; i += 32) {
    float value = table_value(t, row, scales + column * t.scales_per_row, layer * width + i);
    x[i] = ((x[i] * r) * norm[i] + value) * half_root;
  }
}

// A picked id goes to the host and becomes the next step's token.
static __device__ __forceinline__ void go_on(Chain* chain, Column* column, unsigned id) {
  if (chain->done) return;
  column->token = id;
  column->position += 1;
  for (int i = 0; i < chain->stop_count; ++i)
    if (chain->stops[i] == id) chain->done = 1;
  ((volatile unsigned*)chain->emitted)[chain->count] = id;
  chain->count += 1;
}

// The end of a token of a greedy run.
extern "C" __global__ void pick(Chain* chain, Column* column) {
  release_next();
  await_previous();
  unsigned long long best = chain->best;
  if (!chain->done) chain->best = 0;
  go_on(chain, column, best == 0 ? 0u : ~(unsigned)best);
}
