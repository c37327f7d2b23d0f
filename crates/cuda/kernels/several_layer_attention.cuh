// Parts of a layer's attention of a few columns as one kernel (several_layer_attention.cu): products whose columns share a fragment, scores of two keys and all columns a thread.
#pragma once
#include "layer_attention.cuh"
#include "several.cuh"

// `consume_fours` for N columns: lane t of a quad has column t, `x_stride` and `rows` are from a column to the next one's codes and sums.
template <int N>
static __device__ __forceinline__ void consume_fours_of_several(const Stream& s, FourUnits& units, const uint4* lanes, const int8_t* x, int x_stride, int* sums,
                                                                int rows) {
  const int lane = threadIdx.x % 32, t = lane % 4;
  const unsigned* const column = (const unsigned*)(x + min(lane / 8, N - 1) * x_stride + t * 8 + lane / 4 % 2 * 4);
  int* row = sums + min(t, N - 1) * rows + s.block * 16 + lane / 4;
  FourSums c;
  clear(c);
  int k = s.k;
#pragma unroll 1
  for (int index = s.first; index < s.last; index += 4) {
    add_four(c, units, column + k * 16);
    k += 4;
    load_four(units, lanes + (index + 4) * 32, index + 4 < s.last);
    if (k < s.k_count && index + 4 < s.last) continue;
    if (t < N) shared_add(row, sum_of(c, 0)), shared_add(row + 8, sum_of(c, 1));
    clear(c);
    row += 16, k = 0;
  }
}

// `add_output_fours` for `count` of N columns. `codes` has what the lane's column of the fragment multiplies with; `correction` is that of column t.
template <int N>
static __device__ __forceinline__ void add_output_fours_of_several(const Matrix& m, FourUnits& units, const uint4* lanes, int row_block, int row_blocks,
                                                                   const int8_t* x, int x_stride, int correction, int* sums, int sums_stride, int count) {
  const int lane = threadIdx.x % 32, t = lane % 4;
  const unsigned* const column = (const unsigned*)(x + min(lane / 8, N - 1) * x_stride + t * 8 + lane / 4 % 2 * 4);
#pragma unroll 1
  for (int block = threadIdx.x / 32; block < row_blocks; block += WARPS) {
    FourSums c;
    clear(c);
#pragma unroll 1
    for (int k = 0; k < m.split_k; k += 4) {
      add_four(c, units, column + k * 16);
      const bool last = k + 4 == m.split_k;
      const int next = last ? block + WARPS : block;
      load_four(units, lanes + (next * m.split_k + (last ? 0 : k + 4)) * 32, next < row_blocks);
    }
    if (t >= count) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (row_block + block) * 16 + lane / 4 + half * 8;
      if (row < m.rows) atomicAdd(sums + t * sums_stride + row, sum_of(c, half) - correction);
    }
  }
}

// The same where K is a head of DIM and a warp has one row block, as with E2B's 1,536 rows.
template <int N, int DIM>
static __device__ __forceinline__ void add_output_plain_of_several(FourUnits& units, const uint4* lanes, int row_block, const int8_t* x, int x_stride, int correction,
                                                                   int* sums, int count) {
  const int UNITS = DIM / 64, BLOCKS = 4 * THREADS / 16 / 8, lane = threadIdx.x % 32, t = lane % 4, warp = threadIdx.x / 32;
  static_assert(BLOCKS == WARPS, "a row block a warp");
  const unsigned* const column = (const unsigned*)(x + min(lane / 8, N - 1) * x_stride + t * 8 + lane / 4 % 2 * 4);
  FourSums c;
  clear(c);
#pragma unroll
  for (int k = 0; k < UNITS; k += 4) {
    add_four(c, units, column + k * 16);
    load_four(units, lanes + (warp * UNITS + k + 4) * 32, k + 4 < UNITS);
  }
  int* to = sums + t * (4 * THREADS) + (row_block + warp) * 16 + lane / 4;
  if (t < count) atomicAdd(to, sum_of(c, 0) - correction), atomicAdd(to + 8, sum_of(c, 1) - correction);
}

// The same for any width and count of units. `code_sums` has a sum a column.
template <int BITS, int N>
static __device__ __forceinline__ void add_output_of_several(const Matrix& m, const uint4* weights, int row_block, int row_blocks, const int8_t* x, int x_stride,
                                                             const int* code_sums, int* sums, int sums_stride, int count) {
  typedef Several<BITS, N> Shape;
  const int UNIT = 256 / BITS, PLANES = 8 / BITS, lane = threadIdx.x % 32, t = lane % 4, f = lane / 4;
  const int column = Shape::TOGETHER ? min(f / PLANES, N - 1) : min(f, N - 1), plane = Shape::TOGETHER ? f % PLANES : 0;
  const int8_t* row_of = x + column * x_stride + t * 4 * PLANES + plane * 4;
#pragma unroll 1
  for (int block = threadIdx.x / 32; block < row_blocks; block += WARPS) {
    ColumnSums<BITS> c;
    clear(c);
#pragma unroll 1
    for (int k = 0; k < m.split_k; ++k) {
      SeveralUnit<BITS, N> unit;
      load_unit(unit, weights + (block * m.split_k + k) * 32 + lane, (const unsigned*)(row_of + k * UNIT));
      add_unit(c, unit);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (row_block + block) * 16 + f + half * 8;
      if (Shape::TOGETHER && PLANES > 1) {
        // The lane's two columns of the fragment are neighbouring planes of one column; lanes of a column have a part of its sum each.
        int sum = 0;
#pragma unroll
        for (int p = 0; p < PLANES; ++p) {
          const int at = 2 * half + p % 2, plane_sum = c.c[p][at] - (p > 0 ? c.c[p > 0 ? p - 1 : 0][at] : 0);
          if (p / 2 == t % (PLANES < 2 ? 1 : PLANES / 2)) sum += plane_sum >> (p * BITS);
        }
        const int to = 2 * t / PLANES;
        if (2 * t % PLANES == 0 && to < count) sum -= code_sums[to] << (BITS - 1);
        if (to < count && row < m.rows) atomicAdd(sums + to * sums_stride + row, sum);
      } else {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int to = 2 * t + side;
          if (to >= count || row >= m.rows) continue;
          int sum = -(code_sums[to] << (BITS - 1));
#pragma unroll
          for (int p = 0; p < PLANES; ++p) sum += c.c[p][2 * half + side] >> (p * BITS);
          atomicAdd(sums + to * sums_stride + row, sum);
        }
      }
    }
  }
}

// Sums of two keys and N queries, of which a thread has four lanes of the 32 of rule 6: sum `key * N + column`.
template <int N>
struct KeyLanes {
  float4 sum[2 * N];
};
static __device__ __forceinline__ void add_products(float4& sum, const float4& q, const float4& k) {
  sum.x = __fmaf_rn(q.x, k.x, sum.x), sum.y = __fmaf_rn(q.y, k.y, sum.y);
  sum.z = __fmaf_rn(q.z, k.z, sum.z), sum.w = __fmaf_rn(q.w, k.w, sum.w);
}
template <int FORMAT, int N>
static __device__ __forceinline__ void add_keys(KeyLanes<N>& lanes, Shared first, Shared second, float first_scale, float second_scale, Shared query, int dim) {
#pragma unroll
  for (int i = 0; i < 2 * N; ++i) lanes.sum[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 2
  for (int d = 0; d < dim; d += 32) {
    const float4 a = load4<FORMAT>(first, d * value_bytes<FORMAT>(), first_scale), b = load4<FORMAT>(second, d * value_bytes<FORMAT>(), second_scale);
#pragma unroll
    for (int c = 0; c < N; ++c) {
      float4 q;
      shared_load(query, 4 * (c * dim + d), q);
      add_products(lanes.sum[c], q, a);
      add_products(lanes.sum[N + c], q, b);
    }
  }
}
// The levels of the tree over the eight threads of a key: each hands on what the other one goes on with while it has more than one sum, so a thread ends with one of them (or shares
// it, where there are fewer than eight). Which one stands in `which`.
template <int KEPT>
static __device__ __forceinline__ void meet_lanes(float4* sum, int step, int& which) {
  if (KEPT > 1) {
    const bool upper = threadIdx.x & step;
#pragma unroll
    for (int i = 0; i < KEPT / 2; ++i) {
      const float4 a = sum[i], b = sum[i + KEPT / 2], own = upper ? b : a, other = upper ? a : b;
      sum[i] = make_float4(own.x + __shfl_xor_sync(ALL, other.x, step), own.y + __shfl_xor_sync(ALL, other.y, step),
                           own.z + __shfl_xor_sync(ALL, other.z, step), own.w + __shfl_xor_sync(ALL, other.w, step));
    }
    which = upper ? which + KEPT / 2 : which;
  } else {
    sum[0] = make_float4(sum[0].x + __shfl_xor_sync(ALL, sum[0].x, step), sum[0].y + __shfl_xor_sync(ALL, sum[0].y, step),
                         sum[0].z + __shfl_xor_sync(ALL, sum[0].z, step), sum[0].w + __shfl_xor_sync(ALL, sum[0].w, step));
  }
}
template <int N>
static __device__ __forceinline__ float meet_keys(KeyLanes<N>& lanes, int& which) {
  which = 0;
  meet_lanes<2 * N>(lanes.sum, 8, which);
  meet_lanes<N>(lanes.sum, 4, which);
  meet_lanes<(N > 1 ? N / 2 : 1)>(lanes.sum, 2, which);
  const float4 all = lanes.sum[0];
  return (all.x + all.z) + (all.y + all.w);
}
