// A layer's per-layer embedding of one column as one kernel: entry, gate, GELU and product, projection.
//
// A block of the grid makes 32 values of the product from all of the stream and goes on with what they add to every row of the projection: no block needs
// another's values, so the two linears need no kernel boundary between them. Eight blocks of E2B do it all; their 96 KB of weights come before the input does.
// Sums of the projection meet in global memory as integers, in any order (`down` of the layer clears them). Where a tap is wanted, where there are more columns or less
// shared memory, the two stages of stages.cu do the same.
#include "enter.cuh"
#include "linear.cuh"

// Rows of the gate in a block of the grid, which are the inputs of one unit of the projection.
#define PLE_ROWS 32

// Shared memory, in this order: the gate's units, the projection's, entry room, GELU table, multipliers, sums, input codes. COPIES: of the sums that join (layer_ffn.cu).
template <int COPIES>
static __device__ __forceinline__ void per_layer_embedding(const Linear& p) {
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
  const bool is_short = COPIES > 1 || enter_is_short(p.enter, team);
  EnterVectors own;
  if (is_short) own = enter_vectors(p.enter, entry, team);
  const EnterPlaces places = enter_places<COPIES>(p.enter, entry, part == 0, x, x_size, scratch);

  float ple = 0.0f;
  unsigned own_codes = 0;
  const auto begun = [&] {
    stamp(p.stamps, COULD_START);
    if (threadIdx.x < PLE_ROWS) ple = __ldcg(p.ple + part * PLE_ROWS + threadIdx.x);
  };
  if (places.plain || is_short) {
    own_codes = enter_short<COPIES>(p.enter, entry, own, places, x_size, begun, [] {});
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

extern "C" __global__ void __launch_bounds__(THREADS, 1) per_layer(__grid_constant__ const Linear p) { per_layer_embedding<1>(p); }
// Behind an FFN that adds to copies of down's sums. The stream is short (`enter_is_short`), which the plan sees to.
extern "C" __global__ void __launch_bounds__(THREADS, 1) per_layer_copies(__grid_constant__ const Linear p) {
  per_layer_embedding<FFN_COPIES>(p);
}
