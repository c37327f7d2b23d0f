// A layer's FFN of one column as one kernel: entry, gate and up, GELU and product, down.
//
// A block of the grid makes as many values of the FFN's hidden as six groups of down's inputs hold (96 at 2 bits, 48 at 4: 128 blocks for E2B at both widths of its FFN)
// from all of the stream, and goes on with what these add to every row of down. Nothing passes between blocks: the edge between the two kernels of stages.cu, the codes
// through memory and the wait for down's own weights are gone. What it takes instead, by arithmetic for E2B's layers of 2 bits:
//
// - Weights of a block: 144 units of gate and up (72 KB, one bulk copy into shared memory) and 72 units of down (36 KB in registers: five of a thread's six words of 16 bytes, the
//   sixth when it is through with gate and up), all on their way before the input exists; 14.2 MB a layer are 3.3 us at 4.3 TB/s, and 5.9 us lie between a block's start and its
//   products today. Read behind the products, down's 4.7 MB would take 0.85 us of the second-level cache's 5.5 TB/s, of which the quantisation hides 0.2. With an entry's vectors
//   a block has 95 KB of shared memory, 113 as it is launched, so that neither two of them nor one and one of layer_attention.cu share a multiprocessor, but one of `per_layer_shares` (39 KB) does.
// - Products: gate and up 36 units a quarter of a multiprocessor, 144 multiplications of the tensor cores of 7.4 cycles where three warps have four chains each (0.54 us), 432 masks of
//   two cycles beside them, 800 issue slots. A warp's twelve units are code without a loop, whose end would wait for its products. Down 18 units a quarter, 72 multiplications
//   (0.27 us), both quads of a warp under way together.
// - Six groups are three quarters of a fragment's K. `repack_ffn_down` makes three units of four row blocks, and the columns of a fragment, of which one activation vector needs one,
//   keep them apart: columns 2 q and 2 q + 1 have the activations of row block q where its words are and 0 elsewhere. So no byte is read and no multiplication made for nothing, the
//   four row blocks share an accumulator, and every lane ends with sums of rows of its own, which are dealt so that a warp adds 32 neighbours at once, 128 bytes, with no shared
//   memory and no barrier between. 4.7 MB a layer of E2B lie on the card a second time (165 MB in all), in this order. Whole units (eight groups) would make 96 blocks, 192 units of
//   gate and up each for 144: 0.3 us more by the tensor cores' time, 0.6 by what products are measured to take.
// - Adds: 1,536 sums of 128 blocks are 24,576 sectors of 32 bytes on 48 lines. 132 adders a value were measured at 3.05 us of which 1.9 are theirs, 8 adders at 0.25:
//   about 5 cycles a sector of one line, one line after the other or not. Blocks start at different rows and add to `FFN_COPIES` copies of the
//   sums, 32 adders each: 1.8 us or less with one, 0.45 with four, for which the entry of per_layer reads 24 KB instead of 6 (0.15 us more: 64 bytes a cycle). A card found a token
//   3 us (behind 16) and 11 us (behind 512) longer with one copy, and 9 and 17 us longer with clusters of 8 that add up first.
#include "ffn_values.cuh"

// Groups of down's inputs in a block of the grid.
#define FFN_GROUPS 6
// Quads, four row blocks of down, whose weights a warp reads before it has anything to multiply them with; more (none in E2B) are read when they are wanted.
#define FFN_HELD 2

// Weights of four row blocks: the first two units have groups 0 to 3 of two row blocks each, the third groups 4 and 5 of all four, those of two in half of the lanes.
struct Quad {
  uint4 unit[3];
};

// What a lane multiplies a quad's units with: its words of groups 0 to 3 in the columns of the unit's first row block and of its second; of groups 4 and 5, half of the lanes those of
// two row blocks each.
template <int BITS>
struct Values {
  unsigned low[3][8 / BITS], high[3][8 / BITS];
  int correction;  // the sum of the values times the weights' zero point
};

template <int BITS>
static __device__ __forceinline__ Values<BITS> read_values(const FfnRoom& room) {
  const int PLANES = 8 / BITS, t = threadIdx.x % 4, q = threadIdx.x % 32 / 8;
  const unsigned* words = (const unsigned*)room.values;
  Values<BITS> v;
#pragma unroll
  for (int p = 0; p < PLANES; ++p) {
    const unsigned first = words[t * PLANES + p], last = words[(4 + t % 2) * PLANES + p];
    v.low[0][p] = q == 0 ? first : 0, v.high[0][p] = q == 1 ? first : 0;
    v.low[1][p] = q == 2 ? first : 0, v.high[1][p] = q == 3 ? first : 0;
    v.low[2][p] = q == t / 2 ? last : 0, v.high[2][p] = q == 2 + t / 2 ? last : 0;
  }
  const int4 sums = room.control->value_sums;
  v.correction = ((sums.x + sums.y) + (sums.z + sums.w)) << (BITS - 1);
  return v;
}

template <int BITS>
static __device__ __forceinline__ void multiply_quad(ColumnSums<BITS>& c, const Quad& quad, const Values<BITS>& v) {
  clear(c);
#pragma unroll
  for (int i = 0; i < 3; ++i) add_planes<BITS>(c, quad.unit[i], v.low[i], v.high[i]);
}
// Adds a quad's sums to `row`, the lane's first of its rows; `left` rows are there from it on.
template <int BITS>
static __device__ __forceinline__ void add_quad(const ColumnSums<BITS>& c, const Values<BITS>& v, int* row, int left) {
  const int2 sum = plane_sums(c);
  if (left > 0) atomicAdd(row, sum.x - v.correction);
  if (left > 32) atomicAdd(row + 32, sum.y - v.correction);
}

// Where a warp's quads of down are: number `i` of them is the block's `i * WARPS + warp`-th, counted from one that differs from block to block.
struct DownPlace {
  int quads, first;
};
static __device__ __forceinline__ int quad_of(const DownPlace& at, int i) {
  const int quad = at.first + i * WARPS;
  return quad < at.quads ? quad : quad - at.quads;
}
static __device__ __forceinline__ bool has_quad(const DownPlace& at, int i) { return (int)threadIdx.x / 32 + i * WARPS < at.quads; }

// The lane's first word of the block's first quad.
static __device__ __forceinline__ const uint4* quads_of(const Matrix& down, const DownPlace& at) {
  return down.codes + (size_t)blockIdx.x * (at.quads * 96) + threadIdx.x % 32;
}

// Whether every warp has FFN_HELD whole quads, which are in its registers then.
static __device__ __forceinline__ bool holds_all(const Matrix& down, const DownPlace& at) {
  return at.quads == FFN_HELD * WARPS && down.rows == at.quads * 64;
}

template <int BITS, bool PLAIN>
static __device__ __forceinline__ void multiply_down(const Matrix& down, const DownPlace& at, const Quad (&held)[FFN_HELD], const FfnRoom& room, int* sums) {
  const Values<BITS> v = read_values<BITS>(room);
  ColumnSums<BITS> c[FFN_HELD];
  int* const to = sums + threadIdx.x % 4 * 8 + threadIdx.x % 32 / 4;
  if (PLAIN || holds_all(down, at)) {
    // The products of all of them are under way together.
#pragma unroll
    for (int i = 0; i < FFN_HELD; ++i) multiply_quad<BITS>(c[i], held[i], v);
#pragma unroll
    for (int i = 0; i < FFN_HELD; ++i) add_quad<BITS>(c[i], v, to + quad_of(at, i) * 64, 64);
  } else {
#pragma unroll 1
    for (int i = 0; has_quad(at, i); ++i) {
      const int row = quad_of(at, i) * 64;
      const uint4* from = quads_of(down, at) + quad_of(at, i) * 96;
      const Quad now = {__ldcs(from), __ldcs(from + 32), __ldcs(from + 64)};
      multiply_quad<BITS>(c[0], now, v);
      add_quad<BITS>(c[0], v, to + row, down.rows - row - (int)(to - sums));
    }
  }
}

// A block that starts only when the kernel before has left finds its weights in the second-level cache, where an earlier block sent for them.
static __device__ __forceinline__ void send_for(const Linear& p, const DownPlace& at, int block) {
  if (block >= (int)gridDim.x) return;
  const int row_blocks = ffn_width<FFN_GROUPS>(p.m[1].bits) / 16, first = block * row_blocks, bytes = at.quads * 96 * 16;
  const int units = min(row_blocks, (p.m[0].rows + 15) / 16 - first) * 2 * p.m[0].split_k;
  prefetch(p.m[0].codes + (size_t)first * 2 * p.m[0].split_k * 32, units * 512, streaming());
  prefetch((const char*)p.m[1].codes + (size_t)block * bytes, bytes, streaming());
}

// 88 registers: one of its blocks lies beside one of a stage (80) in a multiprocessor's 65,536. Where two of its own share one while others have none, products take twice their time: shared memory
// sees to it that they do not (`ffn_bytes` in plan/layers.rs).
template <int BITS>
static __device__ __forceinline__ void whole_ffn(const Linear& p) {
  constexpr bool PLAIN = BITS != 0;
  extern __shared__ __align__(128) char memory[];
  const Matrix& down = p.m[1];
  DownPlace place;
  place.quads = PLAIN ? FFN_HELD * WARPS : (down.rows + 63) / 64;
  place.first = (threadIdx.x / 32 + blockIdx.x) % place.quads;
  const FfnRoom room = ffn_room<FFN_GROUPS, BITS>(p, memory);
  Quad held[FFN_HELD];
  const bool holds = PLAIN || holds_all(down, place);
  const uint4* last = quads_of(down, place) + quad_of(place, FFN_HELD - 1) * 96 + 2 * 32;
  ffn_values<FFN_GROUPS, BITS>(
      p, room,
      [&] {
        if (p.late && runs_starter()) send_for(p, place, blockIdx.x + p.late);
        if (!holds) return;
#pragma unroll
        for (int i = 0; i < FFN_HELD; ++i) {
          const uint4* from = quads_of(down, place) + quad_of(place, i) * 96;
#pragma unroll
          for (int unit = 0; unit < 3; ++unit)
            if (i < FFN_HELD - 1 || unit < 2) held[i].unit[unit] = __ldcs(from + unit * 32);
        }
        if (threadIdx.x % 32 == 0) prefetch(last, 512, streaming());
      },
      // The products of gate and up leave no registers for the last one.
      [&] {
        if (holds) held[FFN_HELD - 1].unit[2] = __ldcs(last);
      });
  int* sums = p.sums + blockIdx.x % FFN_COPIES * p.sums_stride;
  if (PLAIN) multiply_down<BITS == 2 ? 2 : 4, PLAIN>(down, place, held, room, sums);
  else if (down.bits == 2) multiply_down<2, false>(down, place, held, room, sums);
  else multiply_down<4, false>(down, place, held, room, sums);
  stamp(p.stamps, ENDS);
}

extern "C" __global__ void __maxnreg__(88) layer_ffn(__grid_constant__ const Linear p) { whole_ffn<0>(p); }
#ifndef NO_CLUSTERS
extern "C" __global__ void __maxnreg__(88) layer_ffn_2(__grid_constant__ const Linear p) { whole_ffn<2>(p); }
extern "C" __global__ void __maxnreg__(88) layer_ffn_4(__grid_constant__ const Linear p) { whole_ffn<4>(p); }
#endif

// Tiles of down (crates/spec/src/tile.rs) for this kernel: [blocks of the grid][quads of 64 rows][3 units][32 lanes][16 bytes]. Row r + 8 q + 32 h of a quad is row r + 8 h of
// its row block q.
extern "C" __global__ void repack_ffn_down(const uint8_t* tiles, uint4* out, int rows, int groups, int vectors, int blocks) {
  const int quads = (rows + 63) / 64;
  const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= (size_t)blocks * quads * 96) return;
  const int lane = index % 32, unit = index / 32 % 3, quad = index / 96 % quads, block = index / 96 / quads;
  const int t = lane % 4;
  unsigned word[4];
  for (int i = 0; i < 4; ++i) {
    const int q = unit < 2 ? unit * 2 + i / 2 : i / 2 * 2 + t / 2;
    const int group = block * FFN_GROUPS + (unit < 2 ? t : 4 + t % 2), row = quad * 64 + i % 2 * 32 + q * 8 + lane / 4;
    word[i] = 0;
    if (row < rows && group < groups) {
      const int tile = row / (16 * vectors), vector = row % (16 * vectors) / 16;
      word[i] = *(const unsigned*)(tiles + ((size_t)tile * groups + group) * vectors * 64 + vector * 64 + row % 16 * 4);
    }
  }
  out[index] = make_uint4(word[0], word[1], word[2], word[3]);
}
