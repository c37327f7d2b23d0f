// The linear stages of a token: an input (entry of the residual stream, merged attention or plain codes), the stream of weights, and an
// output (int32 sums for the next entry, codes, FFN product, PLE product).
//
// All of them are one kernel, and the kind of input and output an argument: a stage runs for two microseconds, and its instructions would have to
// come from far if every kind had its own.
#include "enter.cuh"
#include "linear.cuh"
#include "merge.cuh"

enum InputKind { CODES_IN, ENTRY, MERGED };
enum OutputKind { SUMS_OUT, CODES_OUT, FFN_OUT, PRODUCT_OUT };

// Shared memory, in this order: ring, [entry room | merge scales], [GELU table], multipliers of the block's rows, sums, input codes.
template <int WIDTH>
static __device__ __forceinline__ void stage(const Linear& p) {
  const int input = p.input_kind, output = p.output_kind;
  extern __shared__ __align__(128) char memory[];
  __shared__ int scratch[33];
  __shared__ int code_sums[WIDTH];
  release_next();

  // Which matrix, rows and part of K.
  int which = 0, before = 0;
  if (output == CODES_OUT)
    while (which + 1 < p.matrices && (int)blockIdx.x >= p.block_end[which]) before = p.block_end[which++];
  const Matrix& m = p.m[which];
  int index = blockIdx.x - before, part = 0;
  if (output == SUMS_OUT && m.splits > 1) {
    part = index % m.splits;
    index /= m.splits;
  }
  const int spans = output == FFN_OUT ? 2 : 1;
  int row_block = index * p.row_blocks, all = (m.rows + 15) / 16, row_blocks = min(p.row_blocks, all - row_block);
  int inputs = 256 / m.bits, x_size = m.split_k * inputs, x_stride = WIDTH == 1 ? x_size : x_size + 32;
  int warp = threadIdx.x / 32;

  uint4* ring = (uint4*)memory + warp * DEPTH * 32 + threadIdx.x % 32;
  char* room = memory + WARPS * DEPTH * 512;
  EnterRoom entry = enter_room(room, p.enter.hidden);
  float* scales = (float*)room;
  if (WIDTH == 1 && input == ENTRY) {
    room += p.enter.hidden * 17;
  }
  if (WIDTH == 1 && input == MERGED) room += p.merge.heads * 3 * MERGE_CHUNK * sizeof(float);
  const bool with_table = output == FFN_OUT || output == PRODUCT_OUT;
  float* gelu = (float*)room;
  if (with_table) room += 256 * sizeof(float);
  int rows = p.row_blocks * 16;
  float* multipliers = (float*)room;
  int* sums = (int*)(multipliers + rows * spans);
  int8_t* x = (int8_t*)(sums + rows * spans * WIDTH);

  // Everything that no earlier kernel writes.
  if (WIDTH == 1 && input == ENTRY) enter_prefetch(p.enter, entry);
  if (output != SUMS_OUT) {
#pragma unroll 1
    for (int i = threadIdx.x; i < row_blocks * 16; i += THREADS) {
      int row = row_block * 16 + i;
      if (row < m.rows) {
        copy4(multipliers + i, m.multipliers + row);
        if (output == FFN_OUT) copy4(multipliers + rows + i, p.up_multipliers + row);
      }
    }
  }
  if (with_table && threadIdx.x < 64) copy16(gelu + threadIdx.x * 4, p.gelu + threadIdx.x * 4);
  copies_commit();
  Stream s;
  int units = row_blocks * spans * m.split_k;
  s.k_count = m.split_k;
  share(s, units);
  s.from = m.codes + ((size_t)(part * all + row_block) * spans * m.split_k + s.first) * 32 + threadIdx.x % 32;
  prefetch<DEPTH>(s, ring);
  if (threadIdx.x < WIDTH) code_sums[threadIdx.x] = 0;
  int position = input == MERGED ? p.merge.columns[0].position : 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * spans * WIDTH; i += THREADS) sums[i] = 0;
  // What the kernel reads of its arguments behind the wait, read once before it: a first read of an argument is slow.
  if (WIDTH == 1 && input == ENTRY)
    asm volatile("" ::"l"(p.enter.sums), "l"(p.enter.hidden_in), "l"(p.enter.hidden_out), "l"(p.enter.tap_joined),
                 "f"(p.enter.join.inverse), "f"(p.enter.input.inverse), "f"(p.enter.scalar));
  if (WIDTH == 1 && input == MERGED) asm volatile("" ::"l"(p.merge.values), "l"(p.merge.largest), "l"(p.merge.sums), "f"(p.merge.input.inverse));
  asm volatile("" ::"l"(p.out[which]), "l"(p.sums), "l"(p.zero), "f"(p.next.inverse), "f"(p.up.inverse), "r"(p.sums_stride),
               "r"(p.zero_count), "l"(p.tap_a), "f"(m.output.inverse));
  copies_wait<DEPTH / BATCH>();
  __syncthreads();

  await_previous();
#pragma unroll 1
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < p.zero_count; i += gridDim.x * THREADS) p.zero[i] = 0;
  float ple = 0.0f;
  if (output == PRODUCT_OUT && WIDTH == 1 && threadIdx.x < 16 && row_block * 16 + threadIdx.x < m.rows)
    ple = __ldcg(p.ple + row_block * 16 + threadIdx.x);
  if (WIDTH == 1 && input == ENTRY) {
    enter(p.enter, entry, 0, blockIdx.x == 0, x, x_size, nullptr, scratch, code_sums);
    if (blockIdx.x == 0 && p.tap_input) {
      __syncthreads();
      for (int i = threadIdx.x; i < p.enter.hidden; i += THREADS) p.tap_input[i] = x[i];
    }
  } else if (WIDTH == 1 && input == MERGED) {
    int from = part * x_size, total = p.merge.heads * p.merge.head_dim;
    bool write = row_block == 0;
    merge(p.merge, 0, position, from, min(x_size, total - from), x_size, write, x, scales, code_sums);
    if (write && p.tap_input) {
      __syncthreads();
      for (int i = threadIdx.x; i < x_size && from + i < total; i += THREADS) p.tap_input[from + i] = x[i];
    }
  } else {
    // Codes of this part of K: all threads for one column, a warp a column for several.
    const int first = WIDTH == 1 ? threadIdx.x : threadIdx.x % 32, step = WIDTH == 1 ? THREADS : 32;
#pragma unroll 1
    for (int column = WIDTH == 1 ? 0 : warp; column < WIDTH; column += WIDTH == 1 ? 1 : WARPS) {
      const uint4* from = (const uint4*)(p.input + (size_t)column * p.input_stride + part * x_size);
      int sum = 0;
#pragma unroll 2
      for (int i = first; i < x_size / 16; i += step) {
        uint4 piece = column < p.columns ? from[i] : make_uint4(0, 0, 0, 0);
        *(uint4*)(x + column * x_stride + i * 16) = piece;
        sum = __dp4a((int)piece.x, 0x01010101, sum);
        sum = __dp4a((int)piece.y, 0x01010101, sum);
        sum = __dp4a((int)piece.z, 0x01010101, sum);
        sum = __dp4a((int)piece.w, 0x01010101, sum);
      }
      sum = warp_sum(sum);
      if (threadIdx.x % 32 == 0) atomicAdd(code_sums + column, sum);
    }
  }
  __syncthreads();
  consume_any<WIDTH>(m.bits, s, ring, x, x_stride, sums);
  __syncthreads();

  int zero_point = 1 << (m.bits - 1);
#pragma unroll 1
  for (int i = threadIdx.x; i < row_blocks * 16 * WIDTH; i += THREADS) {
    int local = i / WIDTH, column = i - local * WIDTH, row = row_block * 16 + local;
    if (row >= m.rows || column >= p.columns) continue;
    int correction = zero_point * code_sums[column];
    // Row blocks of gate and up take turns.
    int at = spans == 1 ? local : local + local / 16 * 16;
    int sum = sums[at * WIDTH + column] - correction;
    if (output == SUMS_OUT) {
      int* to = p.sums + (size_t)column * p.sums_stride + row;
      if (m.splits == 1) *to = sum;
      else atomicAdd(to, sum);
      continue;
    }
    int code = quantise((float)sum * multipliers[local], m.output);
    int8_t* out = p.out[which] + (size_t)column * p.out_stride + row;
    if (output == CODES_OUT) {
      *out = (int8_t)code;
      continue;
    }
    float other;
    int second = 0;
    if (output == FFN_OUT) {
      int up = sums[(at + 16) * WIDTH + column] - correction;
      second = quantise((float)up * multipliers[rows + local], p.up);
      other = (float)second * p.up.value;
    } else {
      other = WIDTH == 1 ? ple : p.ple[(size_t)column * p.ple_stride + row];
    }
    *out = (int8_t)quantise(gelu[code + 128] * other, p.next);
    if (p.tap_a) {
      p.tap_a[row] = (int8_t)code;
      if (output == FFN_OUT) p.tap_b[row] = (int8_t)second;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) stage_narrow(__grid_constant__ const Linear p) { stage<1>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) stage_wide(__grid_constant__ const Linear p) { stage<8>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 1) stage_widest(__grid_constant__ const Linear p) { stage<32>(p); }

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
  enter(e, room, column, true, x, stride, floats ? floats + (size_t)column * e.hidden : nullptr, scratch, nullptr);
}

// The merge of many columns, one block of the grid each.
extern "C" __global__ void __launch_bounds__(THREADS) merge_rows(__grid_constant__ const Merge m, int8_t* codes, int stride) {
  extern __shared__ __align__(128) char memory[];
  release_next();
  await_previous();
  merge(m, blockIdx.x, m.columns[blockIdx.x].position, 0, m.heads * m.head_dim, stride, true,
        codes + (size_t)blockIdx.x * stride, (float*)memory, nullptr);
}
