// The first part of the kernel of a whole FFN (layer_ffn.cu): entry, gate and up, GELU and product, for one column and some values of the FFN's hidden.
//
// Everything lies in the launch's shared memory, nothing in a kernel's own: one address for all of it.
#pragma once
#include "enter.cuh"
#include "linear.cuh"

// Values of the FFN's hidden in a block of the grid: GROUPS groups of down's inputs.
template <int GROUPS>
static __device__ __forceinline__ int ffn_width(int bits) {
  return bits == 2 ? GROUPS * 16 : bits == 4 ? GROUPS * 8 : GROUPS * 4;
}

// What happens together in shared memory.
struct FfnControl {
  int scratch[WARPS];
  int code_sum;
  float root;
  Runs vectors, weights;
};

// Shared memory, in this order: control (128 bytes), values, units of gate and up, three vectors of the entry (of which the first makes place for the stream and the second for the
// input codes), GELU table, multipliers, sums.
struct FfnRoom {
  FfnControl* control;
  int8_t* values;
  char* units;
  EnterRoom entry;
  int8_t* x;
  float *gelu, *multipliers;
  int* sums;
};

template <int GROUPS>
static __device__ __forceinline__ FfnRoom ffn_room(const Linear& p, char* memory) {
  static_assert(sizeof(FfnControl) <= 128, "the plan counts 128 bytes");
  const int width = ffn_width<GROUPS>(p.m[1].bits);
  FfnRoom room;
  room.control = (FfnControl*)memory;
  room.values = (int8_t*)memory + 128;
  room.units = memory + 256;
  char* at = room.units + width / 16 * 2 * p.m[0].split_k * 512;
  room.entry = enter_room(at, p.enter.hidden, 1);
  room.entry.stream = room.entry.multipliers;
  room.x = (int8_t*)room.entry.join_norm;
  at += p.enter.hidden * 12;
  room.gelu = (float*)at;
  room.multipliers = room.gelu + 256;
  room.sums = (int*)(room.multipliers + 2 * width);
  return room;
}

// Products of down, whose K is one unit here, with place for eight columns where one is wanted: columns 2 q and 2 q + 1 are row block q of four, activations of a row block in
// its columns and 0 in the others, so that all four share one accumulator and a lane has the sums of one. `add_planes` is one fragment of them; planes have an accumulator each.
template <int BITS>
static __device__ __forceinline__ void add_planes(ColumnSums<BITS>& c, const uint4& w, const unsigned (&low)[8 / BITS], const unsigned (&high)[8 / BITS]) {
#pragma unroll
  for (int p = 0; p < 8 / BITS; ++p) {
    const unsigned m = ((1u << BITS) - 1) * 0x01010101u << p * BITS;
    mma(c.c[p], w.x & m, w.y & m, w.z & m, w.w & m, low[p], high[p]);
  }
}

// The lane's two sums: .x of row `lane / 4`, .y of the eighth one behind it, both of row block `lane % 4`.
template <int BITS>
static __device__ __forceinline__ int2 plane_sums(const ColumnSums<BITS>& c) {
  int2 sum = {0, 0};
#pragma unroll
  for (int p = 0; p < 8 / BITS; ++p) sum.x += c.c[p][0] >> (p * BITS), sum.y += c.c[p][2] >> (p * BITS);
  return sum;
}

// A value of the FFN's hidden (rules 3 and 5) where a scale has no inverse.
static __device__ __noinline__ int ffn_value_any(float gate, float up, const float* gelu, float gate_scale, float up_scale, float scale) {
  return quantise_any(gelu[quantise_any(gate, gate_scale) + 128] * ((float)quantise_any(up, up_scale) * up_scale), scale);
}

// The block's values, behind a barrier. `early` runs before the input exists, and so must do nothing with what earlier kernels write; `late` when a warp is through with its units
// of gate and up, before the barrier behind which these are quantised.
template <int GROUPS, class Early, class Late>
static __device__ __forceinline__ void ffn_values(const Linear& p, const FfnRoom& room, Early early, Late late) {
  stamp(p.stamps, STARTED);
  const Matrix& gate = p.m[0];
  FfnControl& control = *room.control;
  const int lane = threadIdx.x % 32, block = blockIdx.x, width = ffn_width<GROUPS>(p.m[1].bits), first = block * (width / 16);
  const int row_blocks = min(width / 16, (gate.rows + 15) / 16 - first), rows = row_blocks * 16;
  const int units = row_blocks * 2 * gate.split_k, x_size = gate.split_k * (256 / gate.bits);
  if (runs_starter()) {
    const unsigned kept = 4 * rows;
    runs_begin(&control.vectors, enter_bytes(p.enter) + 2 * kept + 1024);
    runs_begin(&control.weights, units * 512);
    enter_prefetch(p.enter, room.entry, &control.vectors);
    run(&control.vectors, room.gelu, p.gelu, 1024, staying());
    run(&control.vectors, room.multipliers, gate.multipliers + first * 16, kept, staying());
    run(&control.vectors, room.multipliers + width, p.up_multipliers + first * 16, kept, staying());
    run(&control.weights, room.units, gate.codes + (size_t)first * 2 * gate.split_k * 32, units * 512, streaming());
  }
  early();
  Stream s;
  s.k_count = gate.split_k;
  share(s, units);
  if (threadIdx.x == 0) control.code_sum = 0;
  if (threadIdx.x < 2 * width) room.sums[threadIdx.x] = 0;
  // Whether all quotients may be taken by inverses, so that they are under way together.
  const bool inverses = gate.output.inverse != 0.0f && p.up.inverse != 0.0f && p.next.inverse != 0.0f;
  read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out), read_now(p.enter.join.inverse);
  read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse), read_now(p.zero), read_now(p.zero_count);
  __syncthreads();
  runs_await(&control.vectors);
  const EnterVectors own = enter_vectors(p.enter, room.entry, team_of(1));
  const EnterPlaces places = enter_places(p.enter, room.entry, block == 0, room.x, x_size, control.scratch);

  // The stream and its codes go where vectors were: between the reads above and these writes lies the barrier of joining.
  const unsigned own_codes = enter_short(p.enter, room.entry, own, places, x_size, [&] { stamp(p.stamps, COULD_START); }, [&] {
#pragma unroll 1
    for (int i = block * (THREADS - 32) + threadIdx.x - 32; i < p.zero_count; i += gridDim.x * (THREADS - 32)) p.zero[i] = 0;
  });
  __syncthreads();
  add_codes(own_codes, &control.code_sum);
  stamp(p.stamps, HAS_INPUT);
  runs_await(&control.weights);
  uint4* lanes = (uint4*)room.units + lane;
  if (gate.split_k % BATCH != 0) consume_any<1, 0>(gate.bits, s, lanes, room.x, x_size, room.sums);
  else if (gate.bits == 2) consume_batches<2>(s, lanes, room.x, room.sums);
  else if (gate.bits == 4) consume_batches<4>(s, lanes, room.x, room.sums);
  else consume_batches<8>(s, lanes, room.x, room.sums);
  late();
  __syncthreads();

  if (threadIdx.x < width) {
    const int local = threadIdx.x, correction = control.code_sum << (gate.bits - 1);
    int value = 0;
    if (local < rows) {
      // Row blocks of gate and up take turns.
      const int* at = room.sums + local + local / 16 * 16;
      const float g = (float)(at[0] - correction) * room.multipliers[local], u = (float)(at[16] - correction) * room.multipliers[width + local];
      if (inverses) {
        const int code = clamped(quotient(g, gate.output)), up = clamped(quotient(u, p.up));
        value = clamped(quotient(room.gelu[code + 128] * ((float)up * p.up.value), p.next));
      } else {
        value = ffn_value_any(g, u, room.gelu, gate.output.value, p.up.value, p.next.value);
      }
    }
    room.values[local] = (int8_t)value;
  }
  __syncthreads();
  stamp(p.stamps, HAS_SUMS);
}
