// The FFN of layer_ffn.cu in clusters: blocks of the grid add up in each other's shared memory first, so that few meet in global memory.
//
// A block makes eight groups of down's inputs (128 values at 2 bits, 64 at 4), which are one unit of K, so down is read as it lies for stages.cu and needs no second order: 96
// blocks for E2B, 12 clusters of 8, of which an H200 holds 15. By arithmetic for its layers of 2 bits, against layer_ffn.cu:
//
// - 192 units of gate and up a block for 144 (0.3 us by the tensor cores' time, 0.6 by what products are measured to take); 36 multiprocessors have none of it.
// - All 144 KB of a block's weights come early into shared memory, 171 KB with everything: beside a block of the output projection (28 KB), and per_layer starts on the other 36.
// - A block puts its 1,536 sums, 6 KB, into the shared memory of the eight that own 192 of them each: 24 stores of 256 bytes and one wait. 1.5 KB so were measured at 0.27 us; 0.4 for
//   6 KB is a guess. The owner adds eight words and then once to global memory: 12 adders a value, 2,304 sectors for 24,576.
#include "ffn_values.cuh"

#define CLUSTER_GROUPS 8
// Blocks of a cluster: as many as any card with clusters holds.
#define CLUSTER_BLOCKS 8
// Quads of row blocks whose places a lane knows before the input exists.
#define CLUSTER_QUADS 2

// Who has which row blocks: `each` of them a block of the cluster.
struct Owners {
  int each, all;
};

// Where the lane's two sums of quad `quad` go: [sender][row block of the owner][8 rows][2]. The lane has the row block of its place among four.
static __device__ __forceinline__ Remote sums_place(const Owners& o, float2* own, int quad, int& owner) {
  const int row_block = quad * 4 + threadIdx.x % 4;
  const bool there = row_block < o.all;
  owner = there ? row_block / o.each : -1;
  const int local = there ? row_block - owner * o.each : 0;
  return remote(own + (cluster_rank() * o.each + local) * 8 + threadIdx.x % 32 / 4, max(owner, 0));
}

// A quad's sums, and the lane's two of them to their owner.
template <int BITS>
static __device__ __forceinline__ void put_quad(const uint4* units, const unsigned (&low)[8 / BITS], const unsigned (&high)[8 / BITS], int correction,
                                                int quad, Remote to, int owner, Runs* puts) {
  const int PLANES = 8 / BITS;
  ColumnSums<BITS> c;
  clear(c);
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const bool mine = threadIdx.x % 32 / 8 == q;
    unsigned first[PLANES], last[PLANES];
#pragma unroll
    for (int p = 0; p < PLANES; ++p) first[p] = mine ? low[p] : 0, last[p] = mine ? high[p] : 0;
    // Row blocks that are not there have no owner.
    add_planes<BITS>(c, units[(quad * 4 + q) * 32], first, last);
  }
  const int2 sum = plane_sums(c);
  if (owner >= 0) put(to, make_float2(__int_as_float(sum.x - correction), __int_as_float(sum.y - correction)), remote(puts, owner));
}

template <int BITS>
static __device__ __forceinline__ void put_sums(const int8_t* values, const uint4* units, const Owners& o, float2* slots, const Remote (&to)[CLUSTER_QUADS],
                                                const int (&owner)[CLUSTER_QUADS], Runs* puts) {
  const int PLANES = 8 / BITS, t = threadIdx.x % 4, warp = threadIdx.x / 32;
  const unsigned* words = (const unsigned*)values;
  unsigned low[PLANES], high[PLANES];
  int sum = 0;
#pragma unroll
  for (int p = 0; p < PLANES; ++p) {
    low[p] = words[t * PLANES + p], high[p] = words[(4 + t) * PLANES + p];
    sum = __dp4a((int)low[p], 0x01010101, sum);
    sum = __dp4a((int)high[p], 0x01010101, sum);
  }
  sum += __shfl_xor_sync(ALL, sum, 1);
  sum += __shfl_xor_sync(ALL, sum, 2);
  const int correction = sum << (BITS - 1), quads = (o.all + 3) / 4;
#pragma unroll
  for (int i = 0; i < CLUSTER_QUADS; ++i)
    if (warp + i * WARPS < quads) put_quad<BITS>(units, low, high, correction, warp + i * WARPS, to[i], owner[i], puts);
#pragma unroll 1
  for (int quad = warp + CLUSTER_QUADS * WARPS; quad < quads; quad += WARPS) {
    int whose;
    const Remote place = sums_place(o, slots, quad, whose);
    put_quad<BITS>(units, low, high, correction, quad, place, whose, puts);
  }
}

// Shared memory: that of ffn_values.cuh, down's units in whole quads, sums of the cluster's blocks.
extern "C" __global__ void __launch_bounds__(THREADS, 2) layer_ffn_cluster(__grid_constant__ const Linear p) {
  extern __shared__ __align__(128) char memory[];
  const Matrix& down = p.m[1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rank = cluster_rank();
  const FfnRoom room = ffn_room<CLUSTER_GROUPS>(p, memory);
  Owners o;
  o.all = (down.rows + 15) / 16;
  o.each = (o.all + CLUSTER_BLOCKS - 1) / CLUSTER_BLOCKS;
  uint4* units = (uint4*)room.rest + lane;
  float2* slots = (float2*)(room.rest + (o.all + 3) / 4 * 2048);
  const int mine = max(0, min(o.each, o.all - rank * o.each)) * 16;
  Remote to[CLUSTER_QUADS];
  int owner[CLUSTER_QUADS];
  ffn_values<CLUSTER_GROUPS>(
      p, room,
      [&] {
        if (threadIdx.x == 0) runs_begin(&room.control->puts, mine * 4 * CLUSTER_BLOCKS);
        cluster_arrive();
        // A lane copies what it will use. The last blocks of the last cluster may have no unit of K; their values are 0.
        const int part = blockIdx.x / down.split_k, k = blockIdx.x - part * down.split_k;
        const uint4* from = down.codes + ((size_t)min(part, down.splits - 1) * o.all * down.split_k + k) * 32 + lane;
        for (int quad = warp; quad * 4 < o.all; quad += WARPS)
#pragma unroll
          for (int q = 0; q < 4; ++q)
            if (quad * 4 + q < o.all) copy16(units + (quad * 4 + q) * 32, from + (size_t)(quad * 4 + q) * down.split_k * 32, streaming());
        copies_commit();
#pragma unroll
        for (int i = 0; i < CLUSTER_QUADS; ++i) to[i] = sums_place(o, slots, warp + i * WARPS, owner[i]);
        cluster_wait();
      },
      [] {});
  copies_wait<0>();
  Runs* puts = &room.control->puts;
  if (down.bits == 2) put_sums<2>(room.values, units, o, slots, to, owner, puts);
  else if (down.bits == 4) put_sums<4>(room.values, units, o, slots, to, owner, puts);
  else put_sums<8>(room.values, units, o, slots, to, owner, puts);
  puts_await(puts);
#pragma unroll 1
  for (int i = threadIdx.x; i < mine; i += THREADS) {
    // Rows r and r + 8 of a row block lie side by side.
    const int* from = (const int*)slots + (i / 16 * 8 + i % 8) * 2 + i % 16 / 8;
    const int row = rank * o.each * 16 + i;
    int sum = 0;
#pragma unroll
    for (int sender = 0; sender < CLUSTER_BLOCKS; ++sender) sum += from[sender * o.each * 16];
    if (row < down.rows) atomicAdd(p.sums + row, sum);
  }
  stamp(p.stamps, ENDS);
}
