// The linear stages of a token, one kernel each: an input (entry of the residual stream, merged attention or plain codes), the stream of
// weights, and an output (int32 sums for the next entry, codes, FFN product, PLE product).
#include "enter.cuh"
#include "linear.cuh"
#include "merge.cuh"

enum Input { CODES_IN, ENTRY, MERGED };
enum Output { SUMS_OUT, CODES_OUT, FFN_OUT, PRODUCT_OUT };

// Shared memory, in this order: ring, [entry room | merge scales], multipliers of the block's rows, sums, input codes.
template <int WIDTH, int INPUT, int OUTPUT>
static __device__ __forceinline__ void stage(const Linear& p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ int scratch[33];
  __shared__ int code_sums[8];
  release_next();

  // Which matrix, rows and part of K.
  int index = blockIdx.x / p.splits, part = blockIdx.x - index * p.splits, which = 0, before = 0;
  if (OUTPUT == CODES_OUT)
    while (which + 1 < p.matrices && index >= p.block_end[which]) before = p.block_end[which++];
  const Matrix& m = p.m[which];
  int row_block = (index - before) * p.row_blocks;
  int row_blocks = min(p.row_blocks, (m.rows + 15) / 16 - row_block);
  int k0 = part * p.split_k, k_count = min(p.split_k, m.k_blocks - k0);
  const int spans = OUTPUT == FFN_OUT ? 2 : 1;
  int inputs = 256 / m.bits, x_size = k_count * inputs, x_stride = WIDTH == 1 ? x_size : x_size + 32;

  uint4* ring = (uint4*)memory + threadIdx.x / 32 * DEPTH * 32;
  char* room = memory + WARPS * DEPTH * 512;
  EnterRoom entry;
  float* scales = (float*)room;
  if (INPUT == ENTRY) {
    entry = enter_room(room, p.enter.hidden);
    room += p.enter.hidden * 17;
    room += (16 - (p.enter.hidden & 15)) & 15;
  }
  if (INPUT == MERGED) room += p.merge.heads * 3 * MERGE_CHUNK * sizeof(float);
  int rows = p.row_blocks * 16;
  float* multipliers = (float*)room;
  int* sums = (int*)(multipliers + rows * spans);
  int8_t* x = (int8_t*)(sums + rows * spans * WIDTH);

  // Everything that no earlier kernel writes.
  if (INPUT == ENTRY) enter_prefetch(p.enter, entry);
  if (OUTPUT != SUMS_OUT)
    for (int i = threadIdx.x; i < row_blocks * 16; i += THREADS) {
      int row = row_block * 16 + i;
      if (row < m.rows) {
        copy4(multipliers + i, m.multipliers + row);
        if (OUTPUT == FFN_OUT) copy4(multipliers + rows + i, p.m[1].multipliers + row);
      }
    }
  copies_commit();
  Stream s;
  s.base[0] = m.codes + ((size_t)row_block * m.k_blocks + k0) * 32;
  s.base[1] = OUTPUT == FFN_OUT ? p.m[1].codes + ((size_t)row_block * m.k_blocks + k0) * 32 : nullptr;
  s.row_blocks = row_blocks;
  s.k_count = k_count;
  s.k_total = m.k_blocks;
  int units = row_blocks * spans * k_count, warp = threadIdx.x / 32;
  s.first = units * warp / WARPS;
  s.last = units * (warp + 1) / WARPS;
  prefetch(s, ring);
  for (int i = threadIdx.x; i < rows * spans * WIDTH; i += THREADS) sums[i] = 0;
  copies_wait<DEPTH>();
  __syncthreads();

  await_previous();
  if (p.zero)
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < p.zero_count; i += gridDim.x * THREADS) p.zero[i] = 0;
  if (INPUT == ENTRY) {
    int sum = enter(p.enter, entry, 0, blockIdx.x == 0, x, x_size, nullptr, scratch);
    if (threadIdx.x == 0) code_sums[0] = sum;
    if (blockIdx.x == 0 && p.tap_input)
      for (int i = threadIdx.x; i < p.enter.hidden; i += THREADS) p.tap_input[i] = x[i];
  } else if (INPUT == MERGED) {
    int from = k0 * inputs, total = p.merge.heads * p.merge.head_dim;
    bool write = index == 0;
    int sum = merge(p.merge, 0, from, min(x_size, total - from), x_size, write, x, scales, scratch);
    if (threadIdx.x == 0) code_sums[0] = sum;
    if (write && p.tap_input)
      for (int i = threadIdx.x; i < x_size && from + i < total; i += THREADS) p.tap_input[from + i] = x[i];
  } else {
    // Codes of all columns, this part of K; a warp adds up a column's.
    int words = x_size / 4;
    for (int c = warp; c < WIDTH; c += WARPS) {
      int sum = 0;
      const int* from = (const int*)(p.input + (size_t)c * p.input_stride) + k0 * inputs / 4;
      for (int i = threadIdx.x % 32; i < words; i += 32) {
        int word = c < p.columns ? from[i] : 0;
        *(int*)(x + c * x_stride + i * 4) = word;
        sum = __dp4a(word, 0x01010101, sum);
      }
      sum = warp_sum(sum);
      if (threadIdx.x % 32 == 0) code_sums[c] = sum;
    }
  }
  __syncthreads();
  consume_any<WIDTH>(m.bits, s, ring, x, x_stride, sums);
  __syncthreads();

  int zero_point = 1 << (m.bits - 1);
  for (int i = threadIdx.x; i < row_blocks * 16 * WIDTH; i += THREADS) {
    int local = i / WIDTH, column = i - local * WIDTH, row = row_block * 16 + local;
    if (row >= m.rows || column >= p.columns) continue;
    int correction = zero_point * code_sums[column];
    int sum = sums[i] - correction;
    if (OUTPUT == SUMS_OUT) {
      int* to = p.sums + (size_t)column * p.sums_stride + row;
      if (p.splits == 1) *to = sum;
      else atomicAdd(to, sum);
    } else {
      int code = quantise((float)sum * multipliers[local], m.output_scale);
      if (OUTPUT == CODES_OUT) {
        p.out[which][(size_t)column * p.out_stride[which] + row] = (int8_t)code;
      } else if (OUTPUT == FFN_OUT) {
        int other = sums[rows * WIDTH + i] - correction;
        int up = quantise((float)other * multipliers[rows + local], p.up_scale);
        int q = quantise(p.gelu[code + 128] * ((float)up * p.up_scale), p.next_scale);
        p.out[0][(size_t)column * p.out_stride[0] + row] = (int8_t)q;
        if (p.tap_a) p.tap_a[row] = (int8_t)code, p.tap_b[row] = (int8_t)up;
      } else {
        int q = quantise(p.gelu[code + 128] * p.ple[(size_t)column * p.ple_stride + row], p.next_scale);
        p.out[0][(size_t)column * p.out_stride[0] + row] = (int8_t)q;
        if (p.tap_a) p.tap_a[row] = (int8_t)code;
      }
    }
  }
}

#define STAGE(name, width, input, output)                                                     \
  extern "C" __global__ void __launch_bounds__(THREADS, 2) name(__grid_constant__ const Linear p) { \
    stage<width, input, output>(p);                                                           \
  }
STAGE(entry_codes, 1, ENTRY, CODES_OUT)
STAGE(entry_ffn, 1, ENTRY, FFN_OUT)
STAGE(entry_product, 1, ENTRY, PRODUCT_OUT)
STAGE(merged_sums, 1, MERGED, SUMS_OUT)
STAGE(codes_sums, 1, CODES_IN, SUMS_OUT)
STAGE(wide_codes, 8, CODES_IN, CODES_OUT)
STAGE(wide_ffn, 8, CODES_IN, FFN_OUT)
STAGE(wide_product, 8, CODES_IN, PRODUCT_OUT)
STAGE(wide_sums, 8, CODES_IN, SUMS_OUT)

// The entries of many columns, one block of the grid each: codes, or floats for the head.
extern "C" __global__ void __launch_bounds__(THREADS) enter_rows(__grid_constant__ const Enter e, int8_t* codes, int stride,
                                                                 float* floats) {
  extern __shared__ __align__(128) char memory[];
  __shared__ int scratch[33];
  release_next();
  EnterRoom room = enter_room(memory, e.hidden);
  enter_prefetch(e, room);
  copies_commit();
  copies_wait<0>();
  __syncthreads();
  await_previous();
  int column = blockIdx.x;
  int8_t* x = codes ? codes + (size_t)column * stride : nullptr;
  enter(e, room, column, true, x, stride, floats ? floats + (size_t)column * e.hidden : nullptr, scratch);
}

// The merge of many columns, one block of the grid each.
extern "C" __global__ void __launch_bounds__(THREADS) merge_rows(__grid_constant__ const Merge m, int8_t* codes, int stride) {
  extern __shared__ __align__(128) char memory[];
  __shared__ int scratch[33];
  release_next();
  await_previous();
  merge(m, blockIdx.x, 0, m.heads * m.head_dim, stride, true, codes + (size_t)blockIdx.x * stride, (float*)memory, scratch);
}
