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

#define WARPS STAGE_WARPS
#define THREADS (32 * WARPS)
// Units are copied and used in batches, so that a batch's loads are under way together.
#define BATCH 4
#define DEPTH 12       // units of a warp's ring in a stage, where it has so many
#define HEAD_DEPTH 16  // in the head, which streams longest

// Bytes of activations of one unit of K: 8 groups of 32 / bits.
static __device__ __forceinline__ int unit_inputs(int bits) { return 256 / bits; }

// Codes of 8 bits as signed bytes, the code less its zero point.
static __device__ __forceinline__ uint4 signed_codes(uint4 w) {
  const unsigned top = 0x80808080u;
  return make_uint4(w.x ^ top, w.y ^ top, w.z ^ top, w.w ^ top);
}

// Sums of 8 / BITS planes and 8 NT columns, in fragments.
template <int BITS, int NT>
struct Sums {
  int c[NT][8 / BITS][4];
};

template <int BITS, int NT>
static __device__ __forceinline__ void clear(Sums<BITS, NT>& sums) {
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int p = 0; p < 8 / BITS; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums.c[n][p][i] = 0;
}

// One unit. `x`: the lane's column at this unit, the next eight columns' `step` bytes on; groups t and 4 + t.
template <int BITS, int NT>
static __device__ __forceinline__ void unit(Sums<BITS, NT>& sums, uint4 w, const int8_t* x, int step) {
  const int t = threadIdx.x % 4, LAST = 8 / BITS - 1;
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    const int8_t* at = x + n * step;
    if (BITS == 8) {
      const unsigned* b = (const unsigned*)at;
      mma(sums.c[n][0], w.x, w.y, w.z, w.w, b[t], b[4 + t]);
    } else if (BITS == 4) {
      const uint2* b = (const uint2*)at;
      uint2 lo = b[t], hi = b[4 + t];
      const unsigned m = 0x0f0f0f0fu;
      mma(sums.c[n][0], w.x & m, w.y & m, w.z & m, w.w & m, lo.x, hi.x);
      mma(sums.c[n][LAST], w.x & ~m, w.y & ~m, w.z & ~m, w.w & ~m, lo.y, hi.y);
    } else {
      const uint4* b = (const uint4*)at;
      uint4 lo = b[t], hi = b[4 + t];
      const unsigned m = 0x03030303u;
      mma(sums.c[n][0], w.x & m, w.y & m, w.z & m, w.w & m, lo.x, hi.x);
      mma(sums.c[n][LAST < 1 ? LAST : 1], w.x & m << 2, w.y & m << 2, w.z & m << 2, w.w & m << 2, lo.y, hi.y);
      mma(sums.c[n][LAST < 2 ? LAST : 2], w.x & m << 4, w.y & m << 4, w.z & m << 4, w.w & m << 4, lo.z, hi.z);
      mma(sums.c[n][LAST], w.x & m << 6, w.y & m << 6, w.z & m << 6, w.w & m << 6, lo.w, hi.w);
    }
  }
}

// A warp's share of a block's units: `first .. last` of them, `from` the lane's bytes of the first.
struct Stream {
  const uint4* from;
  int first, last, k_count;
  int block, k;  // of the first
};

template <int SLOTS>
static __device__ __forceinline__ void prefetch(const Stream& s, uint4* ring) {
  uint64_t policy = streaming();
#pragma unroll
  for (int i = 0; i < SLOTS; ++i) {
    if (s.first + i < s.last) copy16(ring + i * 32, s.from + i * 32, policy);
    if (i % BATCH == BATCH - 1) copies_commit();
  }
}

// A warp's share is whole batches, so that a batch lies in one row block where a row block has whole batches.
static __device__ __forceinline__ void share_batches(Stream& s, int units) {
  int batches = (units + BATCH - 1) / BATCH, warp = threadIdx.x / 32;
  s.first = batches * warp / WARPS * BATCH;
  s.last = min(batches * (warp + 1) / WARPS * BATCH, units);
}
static __device__ __forceinline__ void share(Stream& s, int units) {
  share_batches(s, units);
  s.block = s.first / s.k_count;
  s.k = s.first - s.block * s.k_count;
}

template <int BITS, int WIDTH, int NT>
static __device__ __forceinline__ void flush(Sums<BITS, NT>& sums, int* row) {
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int sum = sums.c[n][0][j], col = n * 8 + threadIdx.x % 4 * 2 + j % 2;
#pragma unroll
      for (int p = 1; p < 8 / BITS; ++p) sum += sums.c[n][p][j] >> (p * BITS);
      if (col < WIDTH) atomicAdd(row + (j / 2) * 8 * WIDTH + col, sum);
    }
  clear(sums);
}

// Runs a warp's units and adds them into `sums[(row block * 16 + row) * WIDTH + column]`. `x` has `stride` bytes a column;
// WIDTH columns are kept of the fragments'. `ring` is the lane's; with no slots all units of the block are there already.
template <int BITS, int WIDTH, int SLOTS>
static __device__ __forceinline__ void consume(const Stream& s, uint4* ring, const int8_t* x, int stride, int* sums) {
  const int UNIT = 256 / BITS, NT = (WIDTH + 7) / 8;
  int lane = threadIdx.x % 32;
  const int8_t* column = x + (WIDTH == 1 ? 0 : min(lane / 4, WIDTH - 1)) * stride;
  Sums<BITS, NT> c;
  clear(c);
  int k = s.k, slot = SLOTS == 0 ? s.first : 0;
  int* row = sums + (s.block * 16 + lane / 4) * WIDTH;
  uint64_t policy = streaming();
  const uint4* next = s.from + SLOTS * 32;
#pragma unroll 1
  for (int index = s.first; index < s.last; index += BATCH) {
    if (SLOTS > 0) copies_wait<SLOTS == 0 ? 0 : SLOTS / BATCH - 1>();
    uint4* now = ring + slot * 32;
    if (index + BATCH <= s.last && k + BATCH <= s.k_count) {
      uint4 w[BATCH];
      const int8_t* at = column + k * UNIT;
#pragma unroll
      for (int i = 0; i < BATCH; ++i) w[i] = now[i * 32];
#pragma unroll
      for (int i = 0; i < BATCH; ++i) unit(c, w[i], at + i * UNIT, 8 * stride);
      k += BATCH;
    } else {
#pragma unroll 1
      for (int i = 0; i < BATCH && index + i < s.last; ++i) {
        if (k == s.k_count) {
          flush<BITS, WIDTH>(c, row);
          k = 0;
          row += 16 * WIDTH;
        }
        unit(c, now[i * 32], column + k * UNIT, 8 * stride);
        ++k;
      }
    }
    if (k == s.k_count || index + BATCH >= s.last) {
      flush<BITS, WIDTH>(c, row);
      k = 0;
      row += 16 * WIDTH;
    }
    if (SLOTS == 0) {
      slot += BATCH;
      continue;
    }
    if (index + SLOTS < s.last) {
#pragma unroll
      for (int i = 0; i < BATCH; ++i)
        if (index + SLOTS + i < s.last) copy16(now + i * 32, next + i * 32, policy);
      next += BATCH * 32;
    }
    copies_commit();
    slot = (slot + BATCH) % (SLOTS == 0 ? 1 : SLOTS);
  }
}

// Sums of one column: product j in c[j], see consume_one.
template <int BITS>
struct ColumnSums {
  int c[8 / BITS][4];
};

template <int BITS>
static __device__ __forceinline__ void clear(ColumnSums<BITS>& sums) {
#pragma unroll
  for (int p = 0; p < 8 / BITS; ++p)
#pragma unroll
    for (int j = 0; j < 4; ++j) sums.c[p][j] = 0;
}

// Two units and the lane's words of activations of each.
struct UnitPair {
  uint4 w[2];
  unsigned low[2], high[2];
};

// `left`: how many units there are from `units` on.
template <int BITS>
static __device__ __forceinline__ void load_pair(UnitPair& pair, const uint4* units, const unsigned* column, int left) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (i < left) {
      pair.w[i] = units[i * 32];
      pair.low[i] = column[i * (64 / BITS)];
      pair.high[i] = column[i * (64 / BITS) + 32 / BITS];
    }
}

template <int BITS>
static __device__ __forceinline__ void add_unit(ColumnSums<BITS>& sums, const uint4& w, unsigned low, unsigned high) {
  const int PLANES = 8 / BITS;
#pragma unroll
  for (int p = 0; p < PLANES; ++p) {
    const unsigned m = p == PLANES - 1 ? ~0u : ((1u << (p + 1) * BITS) - 1) * 0x01010101u;
    mma(sums.c[p], w.x & m, w.y & m, w.z & m, w.w & m, low, high);
  }
}
template <int BITS>
static __device__ __forceinline__ void add_pair(ColumnSums<BITS>& sums, const UnitPair& pair, int left) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (i < left) add_unit(sums, pair.w[i], pair.low[i], pair.high[i]);
}

// Adds a row block's sums to `row`, the lane's row of it: lane 0 of four has columns 0 and 1, lane 1 columns 2 and 3.
template <int BITS>
static __device__ __forceinline__ void flush_one(ColumnSums<BITS>& sums, int* row) {
  const int PLANES = 8 / BITS, t = threadIdx.x % 4;
  if (2 * t < PLANES) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int sum = 0;
#pragma unroll
      for (int p = 0; p < PLANES; ++p) {
        const int at = 2 * half + p % 2, plane = sums.c[p][at] - (p > 0 ? sums.c[p > 0 ? p - 1 : 0][at] : 0);
        if (p / 2 == t) sum += plane >> (p * BITS);
      }
      shared_add(row + half * 8, sum);
    }
  }
  clear(sums);
}

// consume() for one column, whose place in the fragments is not wasted: column p of b is the activations of plane p, so that a lane reads two words a unit. Product j
// has the planes up to j, the last one the codes as they are; the difference of two neighbours in column p is plane p alone, p * BITS places up. That takes a quarter
// (2 bits) or a half (4 bits) less of masks, and a quarter or a half of the words of activations. Where all units are there, the next two are read while two are
// multiplied: warps start together behind a barrier and would otherwise all read, then all multiply.
template <int BITS, int SLOTS>
static __device__ __forceinline__ void consume_one(const Stream& s, uint4* ring, const int8_t* x, int* sums) {
  const int UNIT = 256 / BITS, PLANES = 8 / BITS, lane = threadIdx.x % 32;
  const int8_t* column = x + lane % 4 * 4 * PLANES + lane / 4 % PLANES * 4;
  ColumnSums<BITS> c;
  clear(c);
  int k = s.k;
  int* row = sums + s.block * 16 + lane / 4;
  if (SLOTS == 0) {
#pragma unroll 1
    for (int index = s.first; index < s.last;) {
      const int count = min(s.last - index, s.k_count - k);
      const uint4* units = ring + index * 32;
      const unsigned* at = (const unsigned*)(column + k * UNIT);
      UnitPair one, two;
      load_pair<BITS>(one, units, at, count);
#pragma unroll 1
      for (int i = 0; i < count; i += 4) {
        load_pair<BITS>(two, units + 2 * 32, at + 2 * (UNIT / 4), count - i - 2);
        add_pair(c, one, count - i);
        units += 4 * 32, at += 4 * (UNIT / 4);
        load_pair<BITS>(one, units, at, count - i - 4);
        add_pair(c, two, count - i - 2);
      }
      flush_one(c, row);
      row += 16;
      index += count;
      k = 0;
    }
    return;
  }
  int slot = 0;
  uint64_t policy = streaming();
  const uint4* next = s.from + SLOTS * 32;
#pragma unroll 1
  for (int index = s.first; index < s.last; index += BATCH) {
    copies_wait<SLOTS == 0 ? 0 : SLOTS / BATCH - 1>();
    uint4* now = ring + slot * 32;
#pragma unroll 1
    for (int i = 0; i < BATCH && index + i < s.last; ++i) {
      UnitPair one;
      load_pair<BITS>(one, now + i * 32, (const unsigned*)(column + k * UNIT), 1);
      add_pair(c, one, 1);
      if (++k == s.k_count || index + i + 1 == s.last) {
        flush_one(c, row);
        row += 16;
        k = 0;
      }
    }
    if (index + SLOTS < s.last) {
#pragma unroll
      for (int i = 0; i < BATCH; ++i)
        if (index + SLOTS + i < s.last) copy16(now + i * 32, next + i * 32, policy);
      next += BATCH * 32;
    }
    copies_commit();
    slot = (slot + BATCH) % (SLOTS == 0 ? 1 : SLOTS);
  }
}

template <int WIDTH, int SLOTS>
static __device__ __forceinline__ void consume_any(int bits, const Stream& s, uint4* ring, const int8_t* x, int stride,
                                                   int* sums) {
  if (WIDTH == 1) {
    if (bits == 2) consume_one<2, SLOTS>(s, ring, x, sums);
    else if (bits == 4) consume_one<4, SLOTS>(s, ring, x, sums);
    else consume_one<8, SLOTS>(s, ring, x, sums);
    return;
  }
  if (bits == 2) consume<2, WIDTH, SLOTS>(s, ring, x, stride, sums);
  else if (bits == 4) consume<4, WIDTH, SLOTS>(s, ring, x, stride, sums);
  else consume<8, WIDTH, SLOTS>(s, ring, x, stride, sums);
}
