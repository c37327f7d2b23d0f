// Attention partials of blocks of 64 keys, merged in ascending order (rule 8), quantised for the output projection.
#pragma once
#include "linear.cuh"

#define MERGE_CHUNK 16

// The first position that a column sees.
static __device__ __forceinline__ int first_visible(int position, int window) {
  return window > 0 ? max(0, position + 1 - window) : 0;
}

// Which head a thread's first input belongs to, and which heads a part of K has: quotients, which take as long as a load and need no input.
struct MergePlace {
  int head0, heads, head, d;
};
static __device__ __forceinline__ MergePlace merge_place(const Merge& m, const Team& team, int from, int count) {
  MergePlace place;
  place.head0 = from / m.head_dim;
  place.heads = (from + count - 1) / m.head_dim - place.head0 + 1;
  place.head = team.thread < count ? (from + team.thread) / m.head_dim : place.head0;
  place.d = team.thread < count ? from + team.thread - place.head * m.head_dim : 0;
  return place;
}

// What a merge does with a block's result, a block a lane: it keeps of what came before, takes of the block's values, and takes as much of the block's own sum.
struct BlockScale {
  float keep, take, part;
};
// Of blocks `first .. first + chunk`, at most CHUNK, of the column and head whose first one lies at `at`; by one warp.
template <int CHUNK>
static __device__ __forceinline__ BlockScale block_scale(const Merge& m, size_t at, int first, int chunk) {
  const int lane = threadIdx.x % 32;
  // Running maxima before and after each block: the maximum does not depend on order.
  float own = lane < chunk ? __ldcg(m.largest + at + first + lane) : -INFINITY, after = own;
  float part = lane < chunk ? __ldcg(m.sums + at + first + lane) : 0.0f, before = -INFINITY;
  if (first > 0) {
    for (int j = lane; j < first; j += 32) before = fmaxf(before, __ldcg(m.largest + at + j));
#pragma unroll
    for (int s = 16; s > 0; s /= 2) before = fmaxf(before, __shfl_xor_sync(ALL, before, s));
  }
#pragma unroll
  for (int s = 1; s < CHUNK; s *= 2) {
    float other = __shfl_up_sync(ALL, after, s);
    if (lane >= s) after = fmaxf(after, other);
  }
  after = fmaxf(after, before);
  float previous = __shfl_up_sync(ALL, after, 1);
  if (lane == 0) previous = before;
  return {contract_exp(previous - after), contract_exp(own - after), part};
}

// A team merges inputs `from .. from + count` (of heads x head_dim) of its column and quantises them into `x[0 .. padded)`; the sum of the
// codes is added to `code_sum` in shared memory. `scales` has room for 3 * MERGE_CHUNK * heads floats. Ends without a barrier. Without CODES only the
// results are written down, to `tap`.
template <bool CODES = true>
static __device__ __forceinline__ void merge(const Merge& m, const Team& team, const MergePlace& place, int column, int position, int from,
                                             int count, int padded, bool write, int8_t* x, float* scales, int* code_sum) {
  int blocks = position / KEY_BLOCK - first_visible(position, m.window) / KEY_BLOCK + 1;
  const int head0 = place.head0, heads = place.heads;
  int warp = team.thread / 32, warps = team.threads / 32, lane = threadIdx.x % 32, sum = 0;
  // Threads take inputs in turns; the usual case is one turn.
  for (int turn = 0; turn < padded; turn += team.threads) {
    int i = turn + team.thread, input = from + i;
    bool mine = i < count;
    int head = place.head, d = place.d;
    if (turn > 0) head = mine ? input / m.head_dim : head0, d = mine ? input - head * m.head_dim : 0;
    const float* values = m.values + ((size_t)column * m.heads + head) * m.blocks * m.head_dim + d;
    float a = 0.0f, l = 0.0f;
    for (int first = 0; first < blocks; first += MERGE_CHUNK) {
      int chunk = min(MERGE_CHUNK, blocks - first);
      float value[MERGE_CHUNK];
#pragma unroll
      for (int j = 0; j < MERGE_CHUNK; ++j) value[j] = 0.0f;
      if (mine) {
        const float* at = values + first * m.head_dim;
#pragma unroll
        for (int j = 0; j < MERGE_CHUNK; ++j)
          if (j < chunk) value[j] = __ldcg(at + j * m.head_dim);
      }
      if (first + turn > 0) meet(team);
      // The last warps, which have the fewest inputs.
      for (int h = warps - 1 - warp; h < heads; h += warps) {
        const BlockScale own = block_scale<MERGE_CHUNK>(m, ((size_t)column * m.heads + head0 + h) * m.blocks, first, chunk);
        float* out = scales + h * 3 * MERGE_CHUNK;
        if (lane < MERGE_CHUNK) {
          out[lane] = own.keep;
          out[MERGE_CHUNK + lane] = own.take;
          out[2 * MERGE_CHUNK + lane] = own.part;
        }
      }
      meet(team);
      if (!mine) continue;
      // Four blocks' scales a load, and no branch between the steps of the chain.
      const float4* c = (const float4*)(scales + (head - head0) * 3 * MERGE_CHUNK);
#pragma unroll
      for (int j = 0; j < MERGE_CHUNK; j += 4) {
        if (j >= chunk) break;
        const float4 keeps = c[j / 4], takes = c[(MERGE_CHUNK + j) / 4], parts = c[(2 * MERGE_CHUNK + j) / 4];
        const float keep[4] = {keeps.x, keeps.y, keeps.z, keeps.w}, take[4] = {takes.x, takes.y, takes.z, takes.w};
        const float part[4] = {parts.x, parts.y, parts.z, parts.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float next_l = __fmaf_rn(l, keep[i], part[i] * take[i]), next_a = __fmaf_rn(a, keep[i], value[j + i] * take[i]);
          if (i == 0 && j == 0 && first == 0) next_l = part[0], next_a = value[0];
          if (j + i < chunk) l = next_l, a = next_a;
        }
      }
    }
    if (mine) {
      float result = __fdiv_rn(a, l);
      if (write && m.tap) m.tap[input] = result;
      if (CODES) {
        int q = quantise(result, m.input);
        x[i] = (int8_t)q;
        sum += q;
      }
    } else if (CODES && i < padded) {
      x[i] = 0;
    }
  }
  if (!CODES) return;
  sum = warp_sum(sum);
  if (lane == 0 && code_sum) atomicAdd(code_sum, sum);
}
