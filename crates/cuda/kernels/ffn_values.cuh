// The first part of the kernel of a whole FFN (layer_ffn.cu): entry, gate and up, GELU and product, for one column and some values of the FFN's hidden.
//
// Everything lies in the launch's shared memory, nothing in a kernel's own: one address for all of it.
#pragma once
#include "enter.cuh"
#include "linear.cuh"

// Values of the FFN's hidden in a block of the grid: GROUPS groups of down's inputs.
template <int GROUPS>
static __device__ constexpr int ffn_width(int bits) {
  return bits == 2 ? GROUPS * 16 : bits == 4 ? GROUPS * 8 : GROUPS * 4;
}

// What happens together in shared memory.
struct __align__(16) FfnControl {
  int scratch[WARPS];  // of the entry, then each warp's sum of its codes
  int4 value_sums;     // each warp's sum of its values, of four warps at most
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

// What a BITS that is not 0 says of the shape, at compile time (plan/layers.rs asks for it): gate, up and down have codes of so many bits, the stream is four values a thread and enters plainly
// (enter.cuh), every block has all of its rows and every warp FFN_EVEN units, scales have inverses. Without what is only there for other shapes the code is half as long, and what runs of it
// lies together.
template <int GROUPS, int BITS>
static __device__ __forceinline__ FfnRoom ffn_room(const Linear& p, char* memory) {
  static_assert(sizeof(FfnControl) <= 128, "the plan counts 128 bytes");
  const int width = ffn_width<GROUPS>(BITS ? BITS : p.m[1].bits), hidden = BITS ? 4 * THREADS : p.enter.hidden;
  FfnRoom room;
  room.control = (FfnControl*)memory;
  room.values = (int8_t*)memory + 128;
  room.units = memory + 256;
  char* at = room.units + width / 16 * 2 * (BITS ? 4 * THREADS * BITS / 256 : p.m[0].split_k) * 512;
  room.entry = enter_room(at, hidden, 1);
  room.entry.stream = room.entry.multipliers;
  room.x = (int8_t*)room.entry.join_norm;
  at += hidden * 12;
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

// Units of a warp where all have as many, of one row block each: E2B at both widths.
#define FFN_EVEN 12

// consume_one() for these: no loop, so that nothing waits for the products of a turn, and loads go as far ahead as registers allow. `first` are the first two units.
template <int BITS>
static __device__ __forceinline__ void consume_even(const Stream& s, const uint4 (&first)[2], const uint4* lanes, const int8_t* x, int* sums) {
  const int UNIT = 256 / BITS, PLANES = 8 / BITS, lane = threadIdx.x % 32;
  const unsigned* at = (const unsigned*)(x + lane % 4 * 4 * PLANES + lane / 4 % PLANES * 4) + s.k * (UNIT / 4);
  const uint4* units = lanes + s.first * 32;
  // Four chains of products at 4 bits as well as at 2.
  const int CHAINS = PLANES < 4 ? 2 : 1;
  ColumnSums<BITS> c[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) clear(c[i]);
#pragma unroll
  for (int i = 0; i < FFN_EVEN; i += 2) {
    UnitPair pair;
    load_pair<BITS>(pair, units + i * 32, at + i * (UNIT / 4), 2);
    if (i == 0) pair.w[0] = first[0], pair.w[1] = first[1];
    add_unit(c[0], pair.w[0], pair.low[0], pair.high[0]);
    add_unit(c[CHAINS - 1], pair.w[1], pair.low[1], pair.high[1]);
  }
  if (CHAINS > 1)
#pragma unroll
    for (int p = 0; p < PLANES; ++p)
#pragma unroll
      for (int j = 0; j < 4; ++j) c[0].c[p][j] += c[CHAINS - 1].c[p][j];
  flush_one(c[0], sums + s.block * 16 + lane / 4);
}

// A value of the FFN's hidden (rules 3 and 5) where a scale has no inverse.
static __device__ __noinline__ int ffn_value_any(float gate, float up, const float* gelu, float gate_scale, float up_scale, float scale) {
  return quantise_any(gelu[quantise_any(gate, gate_scale) + 128] * ((float)quantise_any(up, up_scale) * up_scale), scale);
}

// The block's values, behind a barrier. `early` runs before the input exists, and so must do nothing with what earlier kernels write; `late` when a warp is through with its units
// of gate and up, before the barrier behind which these are quantised.
template <int GROUPS, int BITS, class Early, class Late>
static __device__ __forceinline__ void ffn_values(const Linear& p, const FfnRoom& room, Early early, Late late) {
  stamp(p.stamps, STARTED);
  const Matrix& gate = p.m[0];
  FfnControl& control = *room.control;
  constexpr bool PLAIN = BITS != 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, block = blockIdx.x, width = ffn_width<GROUPS>(PLAIN ? BITS : p.m[1].bits), first = block * (width / 16);
  const int bits = PLAIN ? BITS : gate.bits, split_k = PLAIN ? 4 * THREADS * BITS / 256 : gate.split_k;
  const int row_blocks = PLAIN ? width / 16 : min(width / 16, (gate.rows + 15) / 16 - first), rows = row_blocks * 16;
  const int units = row_blocks * 2 * split_k, x_size = split_k * (256 / bits);
  if (runs_starter()) {
    const unsigned kept = 4 * rows;
    runs_begin(&control.vectors, enter_bytes(p.enter) + 2 * kept + 1024);
    runs_begin(&control.weights, units * 512);
    enter_prefetch(p.enter, room.entry, &control.vectors);
    run(&control.vectors, room.gelu, p.gelu, 1024, staying());
    run(&control.vectors, room.multipliers, gate.multipliers + first * 16, kept, staying());
    run(&control.vectors, room.multipliers + width, p.up_multipliers + first * 16, kept, staying());
    run(&control.weights, room.units, gate.codes + (size_t)first * 2 * split_k * 32, units * 512, streaming());
  }
  early();
  Stream s;
  s.k_count = split_k;
  if (PLAIN) s.first = warp * FFN_EVEN, s.last = s.first + FFN_EVEN, s.block = s.first / split_k, s.k = s.first % split_k;
  else share(s, units);
  if (threadIdx.x == 0) control.value_sums = make_int4(0, 0, 0, 0);
  if (threadIdx.x < 2 * width) room.sums[threadIdx.x] = 0;
  // Whether all quotients may be taken by inverses, so that they are under way together.
  const bool inverses = PLAIN || gate.output.inverse != 0.0f && p.up.inverse != 0.0f && p.next.inverse != 0.0f;
  read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out), read_now(p.enter.join.inverse);
  read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse), read_now(p.zero), read_now(p.zero_count);
  __syncthreads();
  runs_await(&control.vectors);
  const EnterVectors own = enter_vectors(p.enter, room.entry, team_of(1));
  const EnterPlaces places = enter_places(p.enter, room.entry, block == 0, room.x, x_size, control.scratch);

  // The stream and its codes go where vectors were: between the reads above and these writes lies the barrier of joining.
  const auto begun = [&] { stamp(p.stamps, COULD_START); };
  const auto meanwhile = [&] {
#pragma unroll 1
    for (int i = block * (THREADS - 32) + threadIdx.x - 32; i < p.zero_count; i += gridDim.x * (THREADS - 32)) p.zero[i] = 0;
  };
  unsigned code;
  if (PLAIN) {
    code = quantise_four_here(enter_values_plain<1, true, true>(p.enter, own, places, begun, meanwhile), p.enter.input);
    shared_store(places.x, 0, code);
  } else {
    code = enter_short(p.enter, room.entry, own, places, x_size, begun, meanwhile);
  }
  runs_await(&control.weights);
  uint4* lanes = (uint4*)room.units + lane;
  // The first units are on their way before the barrier.
  static_assert(!PLAIN || ffn_width<GROUPS>(BITS) / 16 * 2 * (4 * THREADS * BITS / 256) == FFN_EVEN * WARPS, "the units of a warp");
  const bool even = PLAIN || (units == FFN_EVEN * WARPS && split_k % FFN_EVEN == 0 && bits != 8);
  uint4 first_units[2];
  if (even) first_units[0] = lanes[s.first * 32], first_units[1] = lanes[s.first * 32 + 32];
  __syncthreads();
  stamp(p.stamps, HAS_INPUT);
  const int code_sum = warp_sum(__dp4a((int)code, 0x01010101, 0));
  if (even && bits == 2) consume_even<2>(s, first_units, lanes, room.x, room.sums);
  else if (even) consume_even<4>(s, first_units, lanes, room.x, room.sums);
  else consume_any<1, 0>(bits, s, lanes, room.x, x_size, room.sums);
  late();
  if (lane == 0) control.scratch[threadIdx.x / 32] = code_sum;
  // Whole warps, so that the sum of the values is one of warps; a thread without a value does another one's again.
  const int local = min((int)threadIdx.x, width - 1);
  const int* at = room.sums + local + local / 16 * 16;
  const float gate_multiplier = room.multipliers[local], up_multiplier = room.multipliers[width + local];
  __syncthreads();

  if (warp * 32 < width) {
    int value = 0;
    int correction = 0;
#pragma unroll
    for (int i = 0; i < WARPS / 4; ++i) {
      const int4 four = ((const int4*)control.scratch)[i];
      correction += (four.x + four.y) + (four.z + four.w);
    }
    correction <<= bits - 1;
    // Row blocks of gate and up take turns.
    const float g = (float)(at[0] - correction) * gate_multiplier, u = (float)(at[16] - correction) * up_multiplier;
    if (inverses) {
      const int code = clamped(quotient(g, gate.output)), up = clamped(quotient(u, p.up));
      value = clamped(quotient(room.gelu[code + 128] * ((float)up * p.up.value), p.next));
    } else {
      value = ffn_value_any(g, u, room.gelu, gate.output.value, p.up.value, p.next.value);
    }
    if (threadIdx.x >= min(width, rows)) value = 0;
    if (threadIdx.x < width) room.values[local] = (int8_t)value;
    const int sum = warp_sum(value);
    if (lane == 0) ((int*)&control.value_sums)[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  stamp(p.stamps, HAS_SUMS);
}
