// A quantised linear on tensor cores: the stream of weights, its three kinds of input and four kinds of output.
//
// The unit of work is 512 bytes of codes: 16 rows x 8 groups of `32 / bits` inputs, 16 bytes a lane in the order of an
// m16n8k32 fragment. A block of the grid owns some row blocks and one part of K; its units are cut evenly among its warps, each lane
// copies its own 16 bytes of a unit into its own slots of shared memory, `DEPTH` units ahead and before the kernel's input exists, and reads
// only what it copied, so the stream needs no barrier. Sums meet in shared memory as integers: any order gives the same.
// Planes of 2 and 4 bits are masked in place, never shifted: u8 codes up to 0xc0, one accumulator a plane, shifted once at the end.
#pragma once
#include "contract.cuh"
#include "shapes.cuh"

#define WARPS 16
#define THREADS (32 * WARPS)
#ifndef DEPTH
#define DEPTH 8
#endif

// Bytes of activations of one unit of K: 8 groups of 32 / bits.
static __device__ __forceinline__ int unit_inputs(int bits) { return 256 / bits; }

static __device__ __forceinline__ void mma(int (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                           unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

template <int BITS>
static __device__ __forceinline__ void unit(int (&c)[8 / BITS][4], uint4 w, const int8_t* x) {
  // x: this lane's column at this unit; groups t and 4 + t.
  int t = threadIdx.x % 4;
  if (BITS == 8) {
    const unsigned* b = (const unsigned*)x;
    mma(c[0], w.x, w.y, w.z, w.w, b[t], b[4 + t]);
  } else if (BITS == 4) {
    const uint2* b = (const uint2*)x;
    uint2 lo = b[t], hi = b[4 + t];
    const unsigned m = 0x0f0f0f0fu;
    mma(c[0], w.x & m, w.y & m, w.z & m, w.w & m, lo.x, hi.x);
    mma(c[8 / BITS - 1], w.x & ~m, w.y & ~m, w.z & ~m, w.w & ~m, lo.y, hi.y);
  } else {
    const uint4* b = (const uint4*)x;
    uint4 lo = b[t], hi = b[4 + t];
    const unsigned m = 0x03030303u;
    const int last = 8 / BITS - 1;
    mma(c[0], w.x & m, w.y & m, w.z & m, w.w & m, lo.x, hi.x);
    mma(c[last < 1 ? last : 1], w.x & (m << 2), w.y & (m << 2), w.z & (m << 2), w.w & (m << 2), lo.y, hi.y);
    mma(c[last < 2 ? last : 2], w.x & (m << 4), w.y & (m << 4), w.z & (m << 4), w.w & (m << 4), lo.z, hi.z);
    mma(c[last], w.x & (m << 6), w.y & (m << 6), w.z & (m << 6), w.w & (m << 6), lo.w, hi.w);
  }
}

// Where a block's units lie: `spans` matrices of `row_blocks` row blocks each (gate and up are two), k blocks `k0 ..`.
struct Stream {
  const uint4* base[2];
  int row_blocks, k_count, k_total, first, last;

  __device__ __forceinline__ const uint4* at(int index) const {
    int block = index / k_count, k = index - block * k_count;
    const uint4* from = base[0];
    if (block >= row_blocks) {
      block -= row_blocks;
      from = base[1];
    }
    return from + ((size_t)block * k_total + k) * 32 + threadIdx.x % 32;
  }
};

static __device__ __forceinline__ void prefetch(const Stream& s, uint4* ring) {
#pragma unroll
  for (int i = 0; i < DEPTH; ++i) {
    if (s.first + i < s.last) copy16(ring + i * 32 + threadIdx.x % 32, s.at(s.first + i));
    copies_commit();
  }
}

// Runs a warp's units and adds them into `sums[(row block * 16 + row) * WIDTH + column]`. `x` has `stride` bytes a column;
// WIDTH columns are kept of the fragment's 8.
template <int BITS, int WIDTH>
static __device__ void consume(const Stream& s, uint4* ring, const int8_t* x, int stride, int* sums) {
  const int PLANES = 8 / BITS;
  int lane = threadIdx.x % 32, n = lane / 4;
  const int8_t* column = x + (WIDTH == 1 ? 0 : min(n, WIDTH - 1)) * stride;
  int c[PLANES][4];
#pragma unroll
  for (int p = 0; p < PLANES; ++p)
#pragma unroll
    for (int i = 0; i < 4; ++i) c[p][i] = 0;
  int block = s.first / s.k_count, k = s.first - block * s.k_count, slot = 0;
  for (int index = s.first; index < s.last; ++index) {
    copies_wait<DEPTH - 1>();
    uint4 w = ring[slot * 32 + lane];
    unit<BITS>(c, w, column + k * (256 / BITS));
    if (index + DEPTH < s.last) copy16(ring + slot * 32 + lane, s.at(index + DEPTH));
    copies_commit();
    slot = slot + 1 == DEPTH ? 0 : slot + 1;
    if (++k == s.k_count || index + 1 == s.last) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        int sum = c[0][i];
#pragma unroll
        for (int p = 1; p < PLANES; ++p) sum += c[p][i] >> (p * BITS);
        int row = block * 16 + lane / 4 + (i / 2) * 8, col = (lane % 4) * 2 + i % 2;
        if (col < WIDTH) atomicAdd(sums + row * WIDTH + col, sum);
#pragma unroll
        for (int p = 0; p < PLANES; ++p) c[p][i] = 0;
      }
      k = 0;
      ++block;
    }
  }
}

template <int WIDTH>
static __device__ __forceinline__ void consume_any(int bits, const Stream& s, uint4* ring, const int8_t* x, int stride,
                                                   int* sums) {
  if (bits == 2) consume<2, WIDTH>(s, ring, x, stride, sums);
  else if (bits == 4) consume<4, WIDTH>(s, ring, x, stride, sums);
  else consume<8, WIDTH>(s, ring, x, stride, sums);
}
