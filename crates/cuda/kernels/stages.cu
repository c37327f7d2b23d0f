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

// Where a kernel is in its time: written by one thread of the first block, in builds for trials only.
enum Stamp { STARTED, COULD_START, HAS_INPUT, HAS_SUMS, ENDS };
static __device__ __forceinline__ void stamp(unsigned long long* stamps, Stamp which) {
#ifdef STAMPS
  if (stamps && threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) read_clocks(stamps + 2 * which);
#endif
}

// Shared memory, in this order: weights, [entry room | merge scales], [GELU table], multipliers of the block's rows, sums, input codes.
template <int WIDTH>
static __device__ __forceinline__ void stage(const Linear& p) {
  const int input = p.input_kind, output = p.output_kind;
  extern __shared__ __align__(128) char memory[];
  __shared__ __align__(16) int scratch[WARPS];
  __shared__ int code_sums[WIDTH];
  __shared__ float roots[WIDTH];
  __shared__ Runs vectors, weights;
  // Up to eight columns enter in this kernel, a team of warps each; for more there are kernels of their own.
  const bool enters = WIDTH <= 8 && input == ENTRY, merges = WIDTH <= 8 && input == MERGED;
  const int columns = WIDTH == 1 ? 1 : p.columns;

  stamp(p.stamps, STARTED);

  // Which matrix, rows and part of K.
  int which = 0, before = 0;
  if (output == CODES_OUT)
    while (which + 1 < p.matrices && (int)blockIdx.x >= p.block_end[which]) before = p.block_end[which++];
  const Matrix& m = p.m[which];
  const int index = blockIdx.x - before, part = blockIdx.y;
  const int spans = output == FFN_OUT ? 2 : 1;
  int row_block = index * p.row_blocks, all = (m.rows + 15) / 16, row_blocks = min(p.row_blocks, all - row_block);
  int inputs = 256 / m.bits, x_size = m.split_k * inputs, x_stride = WIDTH == 1 ? x_size : x_size + 32;
  int warp = threadIdx.x / 32;

  // The weights' place: all of the block's, or a ring a warp.
  const int units = row_blocks * spans * m.split_k, slots = p.ring ? WARPS * p.ring : p.row_blocks * spans * m.split_k;
  uint4* ring = (uint4*)memory + warp * p.ring * 32 + threadIdx.x % 32;
  char* room = memory + slots * 512;
  EnterRoom entry = enter_room(room, p.enter.hidden, columns);
  float* scales = (float*)room;
  const int merge_floats = p.merge.heads * 3 * MERGE_CHUNK;
  if (enters) room += p.enter.hidden * (12 + 5 * columns);
  if (merges) room += merge_floats * columns * sizeof(float);
  const bool with_table = output == FFN_OUT || output == PRODUCT_OUT;
  float* gelu = (float*)room;
  if (with_table) room += 256 * sizeof(float);
  int rows = p.row_blocks * 16;
  float* multipliers = (float*)room;
  int* sums = (int*)(multipliers + rows * spans);
  int8_t* x = (int8_t*)(sums + rows * spans * WIDTH);

  // Everything that no earlier kernel writes: vectors first, then weights.
  const uint4* codes = m.codes + (size_t)(part * all + row_block) * spans * m.split_k * 32;
  if (runs_starter()) {
    unsigned kept = output == SUMS_OUT ? 0 : 4 * min(row_blocks * 16, m.rows - row_block * 16);
    runs_begin(&vectors, (enters ? enter_bytes(p.enter) : 0) + (output == FFN_OUT ? 2 * kept : kept) + (with_table ? 1024 : 0));
    if (p.ring == 0) runs_begin(&weights, units * 512);
    if (enters) enter_prefetch(p.enter, entry, &vectors);
    if (kept) run(&vectors, multipliers, m.multipliers + row_block * 16, kept, staying());
    if (output == FFN_OUT) run(&vectors, multipliers + rows, p.up_multipliers + row_block * 16, kept, staying());
    if (with_table) run(&vectors, gelu, p.gelu, 1024, staying());
    if (p.ring == 0) run(&weights, memory, codes, units * 512, streaming());
  }
  Stream s;
  s.k_count = m.split_k;
  share(s, units);
  if (p.ring) {
    s.from = codes + s.first * 32 + threadIdx.x % 32;
    prefetch<DEPTH>(s, ring);
  }
  if (threadIdx.x < WIDTH) code_sums[threadIdx.x] = 0;
  const Team team = team_of(WIDTH <= 8 ? columns : 1);
  const bool mine = team.index < columns;
  int position = merges && mine ? p.merge.columns[team.index].position : 0;
  const int merge_from = part * x_size, merge_count = min(x_size, p.merge.heads * p.merge.head_dim - merge_from);
  MergePlace place;
  if (merges) place = merge_place(p.merge, team, merge_from, merge_count);
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * spans * WIDTH; i += THREADS) sums[i] = 0;
  // What the kernel reads of its arguments behind the wait, read once before it: a first read of an argument is slow.
  if (enters) {
    read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out), read_now(p.enter.tap_joined);
    read_now(p.enter.join.inverse), read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse);
  }
  if (merges)
    read_now(p.merge.values), read_now(p.merge.largest), read_now(p.merge.sums), read_now(p.merge.input.inverse);
  read_now(p.out[which]), read_now(p.sums), read_now(p.zero), read_now(p.next.inverse), read_now(p.up.inverse);
  read_now(p.sums_stride), read_now(p.zero_count), read_now(p.tap_a), read_now(m.output.inverse);
  __syncthreads();
  runs_await(&vectors);
  const bool is_short = WIDTH == 1 && enters && enter_is_short(p.enter, team);
  EnterVectors own;
  if (is_short) own = enter_vectors(p.enter, entry, team);
  const EnterPlaces places = enter_places(p.enter, entry, blockIdx.x == 0, x, x_size, scratch);

  float ple = 0.0f;
  const auto begun = [&] {
    stamp(p.stamps, COULD_START);
#pragma unroll 1
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < p.zero_count; i += gridDim.x * THREADS) p.zero[i] = 0;
    if (output == PRODUCT_OUT && WIDTH == 1 && threadIdx.x < 16 && row_block * 16 + threadIdx.x < m.rows)
      ple = __ldcg(p.ple + row_block * 16 + threadIdx.x);
  };
  // The next kernel is released here and not before: its weights and instructions would come in the way of this one's input.
  if (!is_short) {
    await_previous();
    release_next();
    begun();
  }
  if (enters) {
    if (is_short)
      add_codes(enter_short(p.enter, entry, own, places, x_size, begun, [] {}), code_sums);
    else if (mine)
      enter(p.enter, entry, team, team.index, blockIdx.x == 0, x + team.index * x_stride, x_size, nullptr, scratch, roots,
            code_sums + team.index);
    if (blockIdx.x == 0 && p.tap_input) {
      __syncthreads();
      for (int i = threadIdx.x; i < p.enter.hidden; i += THREADS) p.tap_input[i] = x[i];
    }
  } else if (merges) {
    bool write = row_block == 0;
    if (mine)
      merge(p.merge, team, place, team.index, position, merge_from, merge_count, x_size, write, x + team.index * x_stride,
            scales + team.index * merge_floats, code_sums + team.index);
    if (write && p.tap_input) {
      __syncthreads();
      for (int i = threadIdx.x; i < merge_count; i += THREADS) p.tap_input[merge_from + i] = x[i];
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
  stamp(p.stamps, HAS_INPUT);
  if (p.ring) {
    consume_any<WIDTH, DEPTH>(m.bits, s, ring, x, x_stride, sums);
  } else {
    runs_await(&weights);
    consume_any<WIDTH, 0>(m.bits, s, ring, x, x_stride, sums);
  }
  __syncthreads();
  stamp(p.stamps, HAS_SUMS);

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
  stamp(p.stamps, ENDS);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) stage_narrow(__grid_constant__ const Linear p) { stage<1>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) stage_wide(__grid_constant__ const Linear p) { stage<8>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 1) stage_widest(__grid_constant__ const Linear p) { stage<32>(p); }

// The entries of many columns, one block of the grid each: codes, or floats for the head.
extern "C" __global__ void __launch_bounds__(THREADS) enter_rows(__grid_constant__ const Enter e, int8_t* codes, int stride,
                                                                 float* floats) {
  extern __shared__ __align__(128) char memory[];
  __shared__ int scratch[WARPS];
  __shared__ float roots[1];
  release_next();
  __shared__ Runs vectors;
  EnterRoom room = enter_room(memory, e.hidden, 1);
  if (runs_starter()) {
    runs_begin(&vectors, enter_bytes(e));
    enter_prefetch(e, room, &vectors);
  }
  __syncthreads();
  await_previous();
  runs_await(&vectors);
  int column = blockIdx.x;
  int8_t* x = codes ? codes + (size_t)column * stride : nullptr;
  enter(e, room, team_of(1), column, true, x, stride, floats ? floats + (size_t)column * e.hidden : nullptr, scratch, roots, nullptr);
}

// The merge of many columns, one block of the grid each.
extern "C" __global__ void __launch_bounds__(THREADS) merge_rows(__grid_constant__ const Merge m, int8_t* codes, int stride) {
  extern __shared__ __align__(128) char memory[];
  release_next();
  const MergePlace place = merge_place(m, team_of(1), 0, m.heads * m.head_dim);
  await_previous();
  merge(m, team_of(1), place, blockIdx.x, m.columns[blockIdx.x].position, 0, m.heads * m.head_dim, stride, true,
        codes + (size_t)blockIdx.x * stride, (float*)memory, nullptr);
}
