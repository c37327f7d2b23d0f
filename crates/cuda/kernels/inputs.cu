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

// Rows of a warp at a time: the 8,960 of E2B are 1,792 pieces of work for 2,112 warps.
#define PROJECT_ROWS 5
#define PROJECT_WARPS 16

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
  int steps = p.width / 32;
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
#pragma unroll
      for (int r = 0; r < PROJECT_ROWS; ++r)
        w[r] = __ldcs(p.weights + ((size_t)min(row + r, p.rows - 1) * p.chunks + chunk) * 32 + lane);
#pragma unroll
      for (int s = 0; s < 8; ++s) {
        if (chunk * 8 + s >= steps) break;
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

// Norm of one layer's projection, plus its table row: one block of 32 threads a layer and column, in place.
extern "C" __global__ void __launch_bounds__(32) combine(__grid_constant__ const Table t, const uint8_t* rows,
                                                         const float* scales, const float* norm, float* inputs, int stride,
                                                         int width, float half_root) {
  release_next();
  await_previous();
  int layer = blockIdx.x, column = blockIdx.y, lane = threadIdx.x;
  float* x = inputs + (size_t)column * stride + layer * width;
  const uint8_t* row = rows + (size_t)column * (t.columns * t.bits / 8);
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
