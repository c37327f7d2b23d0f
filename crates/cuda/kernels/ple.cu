// A layer's per-layer embedding of one column as one kernel: entry, gate, GELU and product, projection.
//
// A block of the grid makes 32 values of the product from all of the stream and goes on with what they add to every row of the projection: no block needs
// another's values, so the two linears need no kernel boundary between them. Eight blocks of E2B do it all; their 96 KB of weights come before the input does.
// Sums of the projection meet in global memory as integers, in any order (the FFN of the layer clears them). Where a tap is wanted, where there are more columns or less
// shared memory, the two stages of stages.cu do the same.
#include "enter.cuh"
#include "linear.cuh"

// Rows of the gate in a block of the grid, which are the inputs of one unit of the projection.
#define PLE_ROWS 32

// Shared memory, in this order: the gate's units, the projection's, entry room, GELU table, multipliers, sums, input codes.
extern "C" __global__ void __launch_bounds__(THREADS, 1) per_layer(__grid_constant__ const Linear p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ __align__(16) int scratch[WARPS];
  __shared__ __align__(16) int8_t product[PLE_ROWS];
  __shared__ int code_sum;
  __shared__ float root;
  __shared__ Runs vectors, weights;
  stamp(p.stamps, STARTED);
  const Matrix &gate = p.m[0], &projection = p.m[1];
  const int part = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int units = PLE_ROWS / 16 * gate.split_k, row_blocks = (projection.rows + 15) / 16, x_size = gate.split_k * 32;

  uint4* ring = (uint4*)memory + lane;
  uint4* second = ring + units * 32;
  char* room = memory + (units + row_blocks) * 512;
  EnterRoom entry = enter_room(room, p.enter.hidden, 1);
  room += p.enter.hidden * 17;
  float* gelu = (float*)room;
  float* multipliers = gelu + 256;
  int* sums = (int*)(multipliers + PLE_ROWS);
  int8_t* x = (int8_t*)(sums + PLE_ROWS);

  const uint4* codes = gate.codes + (size_t)part * units * 32;
  if (runs_starter()) {
    runs_begin(&vectors, enter_bytes(p.enter) + PLE_ROWS * 4 + 1024);
    runs_begin(&weights, units * 512);
    enter_prefetch(p.enter, entry, &vectors);
    run(&vectors, multipliers, gate.multipliers + part * PLE_ROWS, PLE_ROWS * 4, staying());
    run(&vectors, gelu, p.gelu, 1024, staying());
    run(&weights, memory, codes, units * 512, streaming());
  }
  // A lane copies what it will use.
  const uint4* from = projection.codes + part * 32 + lane;
#pragma unroll 4
  for (int unit = warp; unit < row_blocks; unit += WARPS)
    copy16(second + unit * 32, from + (size_t)unit * projection.split_k * 32, streaming());
  copies_commit();
  Stream s;
  s.k_count = gate.split_k;
  share(s, units);
  if (threadIdx.x == 0) code_sum = 0;
  if (threadIdx.x < PLE_ROWS) sums[threadIdx.x] = 0;
  read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out), read_now(p.enter.join.inverse);
  read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse), read_now(p.ple), read_now(p.sums);
  read_now(p.next.inverse), read_now(gate.output.inverse);
  __syncthreads();
  runs_await(&vectors);
  const Team team = team_of(1);
  const bool is_short = enter_is_short(p.enter, team);
  EnterVectors own;
  if (is_short) own = enter_vectors(p.enter, entry, team);
  const EnterPlaces places = enter_places(p.enter, entry, part == 0, x, x_size, scratch);

  float ple = 0.0f;
  unsigned own_codes = 0;
  const auto begun = [&] {
    stamp(p.stamps, COULD_START);
    if (threadIdx.x < PLE_ROWS) ple = __ldcg(p.ple + part * PLE_ROWS + threadIdx.x);
  };
  if (places.plain || is_short) {
    own_codes = enter_short(p.enter, entry, own, places, x_size, begun, [] {});
  } else {
    await_previous();
    release_next();
    begun();
    enter(p.enter, entry, team, 0, part == 0, x, x_size, nullptr, scratch, &root, &code_sum);
  }
  __syncthreads();
  add_codes(own_codes, &code_sum);
  stamp(p.stamps, HAS_INPUT);
  runs_await(&weights);
  consume_one<8, 0>(s, ring, x, sums);
  __syncthreads();
  if (threadIdx.x < PLE_ROWS) {
    int code = quantise((float)(sums[threadIdx.x] - 128 * code_sum) * multipliers[threadIdx.x], gate.output);
    product[threadIdx.x] = (int8_t)quantise(gelu[code + 128] * ple, p.next);
  }
  __syncthreads();

  stamp(p.stamps, HAS_SUMS);
  const int* words = (const int*)product;
  const unsigned b0 = words[lane % 4], b1 = words[4 + lane % 4];
  int sum = 0;
#pragma unroll
  for (int i = 0; i < PLE_ROWS / 4; ++i) sum = __dp4a(words[i], 0x01010101, sum);
  copies_wait<0>();
#pragma unroll 4
  for (int unit = warp; unit < row_blocks; unit += WARPS) {
    uint4 w = second[unit * 32];
    int c[4] = {0, 0, 0, 0};
    mma(c, w.x, w.y, w.z, w.w, b0, b1);
    if (lane % 4 != 0) continue;
    int row = unit * 16 + lane / 4;
    if (row < projection.rows) atomicAdd(p.sums + row, c[0] - 128 * sum);
    if (row + 8 < projection.rows) atomicAdd(p.sums + row + 8, c[2] - 128 * sum);
  }
  stamp(p.stamps, ENDS);
}

// The same behind an FFN that adds to copies of its sums, where the stream is short (`enter_is_short`): column y of the grid has `row_blocks` row blocks of the projection, two a
// warp at most, and every block of a row of the grid makes the same 32 values. E2B: 4 x 8 blocks.
//
// - A warp has all 32 rows of the gate and the four units of K whose codes it makes itself: these stay in registers, with no barrier between entry and products, and so does what
//   zero points take off, 128 times their sum. The weights are in registers before the input exists.
// - All warps make all 32 values, a lane one, and a value goes to the projection as it is: a lane of a fragment holds the activations of one column of eight, and this one's byte
//   stands in a place of its own of its column. The eight columns and four lanes that have a row are added up afterwards, in two exchanges that leave every lane a row. There the
//   top bit of a weight flipped makes it a signed byte, the code less its zero point.
// - 80 registers: one of its blocks lies beside one of layer_ffn (88).
#define PLE_UNITS 4

// A value of the product where a scale has no inverse.
static __device__ __noinline__ int ple_value_any(float y, const float* gelu, float ple, float scale, float next) {
  return quantise_any(gelu[quantise_any(y, scale) + 128] * ple, next);
}

// Shared memory, in this order: the projection's units, three vectors of the entry and its stream, GELU table, multipliers, sums of warps.
// PLAIN: the stream is four values a thread and enters plainly, all units of K and all row blocks are there, scales have inverses; with nothing else in the code.
template <bool PLAIN>
static __device__ __forceinline__ void layer_shares(const Linear& p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ __align__(16) int scratch[WARPS];
  __shared__ Runs vectors;
  stamp(p.stamps, STARTED);
  const Matrix &gate = p.m[0], &projection = p.m[1];
  const int part = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4, g = lane / 4;
  const int most = PLAIN ? 2 * WARPS : p.row_blocks, first = blockIdx.y * most, row_blocks = PLAIN ? most : min(most, (projection.rows + 15) / 16 - first);
  const int hidden = PLAIN ? 4 * THREADS : p.enter.hidden, gate_units = PLAIN ? PLE_UNITS * WARPS : gate.split_k;

  uint4* second = (uint4*)memory + warp * 64 + lane;
  char* room = memory + WARPS * 1024;
  EnterRoom entry = enter_room(room, hidden, 1);
  room += hidden * 16;
  float* gelu = (float*)room;
  float* multipliers = gelu + 256;
  int* sums = (int*)(multipliers + PLE_ROWS);

  if (runs_starter()) {
    runs_begin(&vectors, enter_bytes(p.enter) + PLE_ROWS * 4 + 1024);
    enter_prefetch(p.enter, entry, &vectors);
    run(&vectors, multipliers, gate.multipliers + part * PLE_ROWS, PLE_ROWS * 4, staying());
    run(&vectors, gelu, p.gelu, 1024, staying());
  }
  // Of units of K that are not there, the activations are 0.
  const uint4* codes = gate.codes + ((size_t)part * (PLE_ROWS / 16) * gate_units + warp * PLE_UNITS) * 32 + lane;
  uint4 w[2][PLE_UNITS];
#pragma unroll
  for (int i = 0; i < PLE_UNITS; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      w[half][i] = make_uint4(0, 0, 0, 0);
      if (warp * PLE_UNITS + i < gate_units) w[half][i] = __ldcs(codes + (half * gate_units + i) * 32);
    }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int unit = warp * 2 + half;
    if (unit < row_blocks)
      copy16(second + half * 32, projection.codes + ((size_t)(first + unit) * projection.split_k + part) * 32 + lane, streaming());
  }
  copies_commit();
  // The next kernel takes longer to get ready than this one takes: it starts beside the last blocks of the kernel before, all of whose blocks are there. What it waits for is this
  // kernel's end, which comes behind the end of the kernel before.
  release_next();
  const bool inverses = PLAIN || gate.output.inverse != 0.0f && p.next.inverse != 0.0f;
  // The lane's value of the product is the place of its byte among the activations; the row it adds is that of its fragment which no other lane of four adds.
  const int value = g / 4 * 16 + t * 4 + g % 4, row = t * 8 + g;
  const int to = first * 16 + warp * 32 + row;
  const bool adds = PLAIN || (warp * 32 + row < row_blocks * 16 && to < projection.rows);
  int* sum_to = p.sums + to;
  read_now(p.enter.sums), read_now(p.enter.hidden_in), read_now(p.enter.hidden_out), read_now(p.enter.join.inverse);
  read_now(p.enter.input.inverse), read_now(p.enter.scalar), read_now(p.enter.count.inverse);
  read_now(p.next.value), read_now(gate.output.value);
  const float* ple_at = p.ple + part * PLE_ROWS + value;
  read_now(ple_at);
  copies_wait<0>();
  __syncthreads();
  runs_await(&vectors);
  const EnterVectors own = enter_vectors(p.enter, entry, team_of(1));
  // Nothing goes to shared memory but sums of warps: its places are never written.
  const EnterPlaces places = enter_places<FFN_COPIES>(p.enter, entry, part == 0 && blockIdx.y == 0, (int8_t*)sums, 0, scratch);
  float ple = 0.0f;

  const auto begun = [&] { stamp(p.stamps, COULD_START), ple = __ldcg(ple_at); };
  const unsigned code = PLAIN ? quantise_four_here(enter_values_plain<FFN_COPIES, false, false>(p.enter, own, places, begun, [] {}), p.enter.input)
                              : enter_codes<FFN_COPIES>(p.enter, entry, own, places, begun, [] {});
  stamp(p.stamps, HAS_INPUT);
  int c[2][2][4] = {};
#pragma unroll
  for (int i = 0; i < PLE_UNITS; ++i) {
    const unsigned low = __shfl_sync(ALL, code, i * 8 + t), high = __shfl_sync(ALL, code, i * 8 + 4 + t);
#pragma unroll
    for (int half = 0; half < 2; ++half) mma(c[half][i % 2], w[half][i].x, w[half][i].y, w[half][i].z, w[half][i].w, low, high);
  }
  const int correction = warp_sum(__dp4a((int)code, 0x01010101, 0)) << 7;
  // All columns are alike.
  const bool odd = t % 2 == 1;
  const int one = odd ? c[0][0][2] + c[0][1][2] : c[0][0][0] + c[0][1][0];
  const int two = odd ? c[1][0][2] + c[1][1][2] : c[1][0][0] + c[1][1][0];
  sums[row * WARPS + warp] = (t < 2 ? one : two) - correction;
  const uint4 upper = second[0], lower = second[32];
  const float multiplier = multipliers[value];
  __syncthreads();
  stamp(p.stamps, HAS_SUMS);
  int sum = 0;
#pragma unroll
  for (int i = 0; i < WARPS / 4; ++i) {
    const int4 four = ((const int4*)(sums + value * WARPS))[i];
    sum += (four.x + four.y) + (four.z + four.w);
  }
  const float y = (float)sum * multiplier;
  int product;
  if (inverses) product = clamped(quotient(gelu[clamped(quotient(y, gate.output)) + 128] * ple, p.next));
  else product = ple_value_any(y, gelu, ple, gate.output.value, p.next.value);
  const unsigned byte = (unsigned)(product & 255) << g % 4 * 8, low = g < 4 ? byte : 0, high = g < 4 ? 0 : byte;
  int d[2][4] = {};
  const uint4 above = signed_codes(upper), below = signed_codes(lower);
  mma_signed(d[0], above.x, above.y, above.z, above.w, low, high);
  mma_signed(d[1], below.x, below.y, below.z, below.w, low, high);
  int kept[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int even_row = d[half][0] + d[half][1], odd_row = d[half][2] + d[half][3];
    kept[half] = (odd ? odd_row : even_row) + __shfl_xor_sync(ALL, odd ? even_row : odd_row, 1);
  }
  const int total = (t < 2 ? kept[0] : kept[1]) + __shfl_xor_sync(ALL, t < 2 ? kept[1] : kept[0], 2);
  if (adds) atomicAdd(sum_to, total);
  stamp(p.stamps, ENDS);
}

extern "C" __global__ void __maxnreg__(80) per_layer_shares(__grid_constant__ const Linear p) { layer_shares<false>(p); }
#ifndef NO_CLUSTERS
extern "C" __global__ void __maxnreg__(80) per_layer_plain(__grid_constant__ const Linear p) { layer_shares<true>(p); }
#endif
