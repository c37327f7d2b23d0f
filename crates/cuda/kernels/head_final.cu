// The end of a token of one column as one kernel: final norm, head, and the pick of a greedy run.
//
// Every block of the grid makes the final norm for itself, as all entries do (enter.cuh), and its limbs without a turn through memory; block 0 writes the norm down for whoever drafts
// from it. The block whose best row comes last picks: an edge and a kernel of one thread are gone for two atomics a block. What it needs of the chain is read before the wait, when the
// token before has ended. Weights run through a ring as in head.cu, of which the rest of the rows are; the entry's vectors lie where sums and limbs come once the norm is made.
#include "enter.cuh"

struct FinalHead {
  Head head;       // of one column; `hidden` and `best` are not read
  Enter enter;
  float* last;     // the final norm
  Chain* chain;    // where the best row becomes the next token; null: logits only
  Column* column;
};

// The last block of all to come here makes the best row the next token. `before`: the chain as the token found it.
static __device__ void pick_last(const FinalHead& n, unsigned long long best, const Chain& before, const Column& column) {
  atomicMax(&n.chain->best, best);
  __threadfence();
  if (atomicAdd(&n.chain->arrived, 1) + 1 < (int)gridDim.x) return;
  __threadfence();
  best = __ldcg(&n.chain->best);
  n.chain->best = 0;
  n.chain->arrived = 0;
  if (before.done) return;
  const unsigned id = best == 0 ? 0u : ~(unsigned)best;
  ((volatile unsigned*)before.emitted)[before.count] = id;
  n.column->token = id;
  n.column->position = column.position + 1;
  n.chain->count = before.count + 1;
  bool stops = false;
  for (int i = 0; i < before.stop_count; ++i) stops |= before.stops[i] == id;
  if (stops) n.chain->done = 1;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) final_head(__grid_constant__ const FinalHead n) {
  const Head& p = n.head;
  extern __shared__ __align__(128) char memory[];
  __shared__ __align__(16) int scratch[WARPS];
  __shared__ int tops[WARPS], limb_sums[3];
  __shared__ unsigned long long found[WARPS];
  __shared__ __align__(16) Chain chain;
  __shared__ __align__(16) Column column;
  __shared__ Runs vectors;
  release_next();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row_block = blockIdx.x * p.row_blocks, row_blocks = min(p.row_blocks, (p.m.rows + 15) / 16 - row_block);
  const int x_size = p.m.split_k * (256 / p.m.bits), stride = x_size + 32;
  uint4* ring = (uint4*)memory + warp * HEAD_DEPTH * 32 + lane;
  int* sums = (int*)(memory + WARPS * HEAD_DEPTH * 512);
  int8_t* x = (int8_t*)(sums + p.row_blocks * 16 * 3);
  const EnterRoom entry = enter_room((char*)sums, p.width, 1);

  if (runs_starter()) {
    runs_begin(&vectors, enter_bytes(n.enter));
    enter_prefetch(n.enter, entry, &vectors);
  }
  Stream s;
  s.k_count = p.m.split_k;
  share(s, row_blocks * s.k_count);
  s.from = p.m.codes + ((size_t)row_block * s.k_count + s.first) * 32 + lane;
  if (n.chain) {
    if (threadIdx.x < sizeof(Chain) / 16) copy16((char*)&chain + 16 * threadIdx.x, (const char*)n.chain + 16 * threadIdx.x);
    if (threadIdx.x == THREADS - 1) copy16(&column, n.column);
  }
  prefetch<HEAD_DEPTH>(s, ring);
  if (threadIdx.x < 3) limb_sums[threadIdx.x] = 0;
  read_now(n.enter.sums), read_now(n.enter.hidden_in), read_now(n.enter.join.inverse), read_now(n.enter.scalar), read_now(n.enter.count.inverse), read_now(n.last);
  __syncthreads();
  runs_await(&vectors);
  const EnterVectors own = enter_vectors(n.enter, entry, team_of(1));
  const EnterPlaces places = enter_places<1, true, false>(n.enter, entry, false, (int8_t*)scratch, 0, scratch);
  const bool mine = 4 * (int)threadIdx.x < p.width;

  float4 h;
  if (places.plain) {
    h = enter_values_plain<1, false, true>(n.enter, own, places, [] {}, [] {});
  } else {
    await_previous();
    h = enter_values_any<1>(n.enter, entry, own, places);
  }
  if (!mine) h = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (mine && blockIdx.x == 0) *(float4*)(n.last + 4 * threadIdx.x) = h;
  // Behind the norm's last barrier nobody reads its room.
  for (int i = threadIdx.x; i < row_blocks * 12; i += THREADS) ((int4*)sums)[i] = make_int4(0, 0, 0, 0);
  // No value is below 0, so their bits have their order; what is no number is not the largest.
  float top = fmaxf(fmaxf(fmaxf(0.0f, fabsf(h.x)), fabsf(h.y)), fmaxf(fmaxf(0.0f, fabsf(h.z)), fabsf(h.w)));
  const int warp_top = __reduce_max_sync(ALL, __float_as_int(top));
  if (lane == 0) tops[warp] = warp_top;
  __syncthreads();
  top = __int_as_float(__reduce_max_sync(ALL, lane < WARPS ? tops[lane] : 0));
  const int shift = limb_shift(top);
  const float scale = power_of_two(shift);
  const Limbs a = limbs_of(h.x, scale), b = limbs_of(h.y, scale), c = limbs_of(h.z, scale), d = limbs_of(h.w, scale);
  const unsigned limbs[3] = {pack_codes(a.low, b.low, c.low, d.low), pack_codes(a.middle, b.middle, c.middle, d.middle), pack_codes(a.high, b.high, c.high, d.high)};
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    for (int at = 4 * threadIdx.x; at < x_size; at += 4 * THREADS) *(unsigned*)(x + i * stride + at) = at < 4 * THREADS ? limbs[i] : 0;
    const int sum = warp_sum(__dp4a((int)limbs[i], 0x01010101, 0));
    if (lane == 0) shared_add(limb_sums + i, sum);
  }
  __syncthreads();
  consume<2, 3, HEAD_DEPTH>(s, ring, x, stride, sums);
  copies_wait<0>();
  __syncthreads();

  const long long total = of_limbs(limb_sums[0], limb_sums[1], limb_sums[2]);
  const unsigned long long mine_best = best_of_thread<3>(p, sums, row_block, row_blocks, 0, total, power_of_two(-shift));
  if (!n.chain) return;
  const unsigned long long best = best_of_block(mine_best, found);
  if (threadIdx.x == 0) pick_last(n, best, chain, column);
}
