// The 32-lane sum of rule 6 for a tile of pairs at once, where neither operand's order in shared memory has to be the natural one.
//
// A row lies by lanes: lane l has its elements l, l + 32, ... side by side, `steps` of them, so a lane's chain of fma reads whole vectors and its sums
// stay in one thread. Lanes come in the order in which the tree wants them: four give one sum of its third level, eight such sums meet like
// the carries of a counter, and no more than four sums a pair are alive.
#pragma once
#include "contract.cuh"

// Which lane of 0 .. 7 comes at a turn: its bits reversed.
static __device__ __forceinline__ int lane_of_turn(int turn) { return (turn & 1) << 2 | (turn & 2) | turn >> 2; }

// What the turns so far have left over.
template <int A, int B>
struct Carries {
  float first[A][B], second[A][B], third[A][B];
};

// Lanes l, l + 16, l + 8, l + 24 of every pair: `a` and `b` are the thread's first rows, whose next ones are `a_step` and `b_step` floats on, `at` where the
// four lanes lie in a row. `total` has the sums where `turn` is the last of eight.
template <int A, int B>
static __device__ __forceinline__ void lane_turn(Carries<A, B>& carry, float (&total)[A][B], int turn, const float* a, int a_step,
                                                 const float* b, int b_step, int steps, const int (&at)[4]) {
  float sum[A][B];
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    float lane[A][B];
#pragma unroll
    for (int i = 0; i < A; ++i)
#pragma unroll
      for (int j = 0; j < B; ++j) lane[i][j] = 0.0f;
#pragma unroll 2
    for (int s = 0; s < steps; s += 4) {
      float4 x[A], y[B];
#pragma unroll
      for (int i = 0; i < A; ++i) x[i] = *(const float4*)(a + i * a_step + at[q] + s);
#pragma unroll
      for (int j = 0; j < B; ++j) y[j] = *(const float4*)(b + j * b_step + at[q] + s);
#pragma unroll
      for (int i = 0; i < A; ++i)
#pragma unroll
        for (int j = 0; j < B; ++j) {
          lane[i][j] = __fmaf_rn(x[i].x, y[j].x, lane[i][j]);
          lane[i][j] = __fmaf_rn(x[i].y, y[j].y, lane[i][j]);
          lane[i][j] = __fmaf_rn(x[i].z, y[j].z, lane[i][j]);
          lane[i][j] = __fmaf_rn(x[i].w, y[j].w, lane[i][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < A; ++i)
#pragma unroll
      for (int j = 0; j < B; ++j) {
        // l + l16, then l8 + l24, then both; `total` holds the first of two meanwhile.
        if (q % 2 == 0) total[i][j] = lane[i][j];
        else if (q == 1) sum[i][j] = total[i][j] + lane[i][j];
        else sum[i][j] = sum[i][j] + (total[i][j] + lane[i][j]);
      }
  }
#pragma unroll
  for (int i = 0; i < A; ++i)
#pragma unroll
    for (int j = 0; j < B; ++j) {
      float value = sum[i][j];
      if (turn & 1) {
        value = carry.first[i][j] + value;
        if (turn & 2) {
          value = carry.second[i][j] + value;
          if (turn & 4) total[i][j] = carry.third[i][j] + value;
          else carry.third[i][j] = value;
        } else {
          carry.second[i][j] = value;
        }
      } else {
        carry.first[i][j] = value;
      }
    }
}

// One step of that counter: `kept` and the sum behind it where `both` is 1, that sum alone where it is 0. A sum of floats is rounded once either way, and nothing is copied.
template <int A, int B>
static __device__ __forceinline__ void carry(float (&kept)[A][B], const float (&sum)[A][B], float both) {
#pragma unroll
  for (int i = 0; i < A; ++i)
#pragma unroll
    for (int j = 0; j < B; ++j) kept[i][j] = __fmaf_rn(both, kept[i][j], sum[i][j]);
}

// Four elements of a lane of the sum, of 6 x 4 pairs; and the lane's chains of fma over them.
struct LanePiece {
  float4 x[6], y[4];
};
static __device__ __forceinline__ void add_piece(float (&lane)[6][4], const LanePiece& piece) {
#pragma unroll
  for (int i = 0; i < 6; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      lane[i][j] = __fmaf_rn(piece.x[i].x, piece.y[j].x, lane[i][j]);
      lane[i][j] = __fmaf_rn(piece.x[i].y, piece.y[j].y, lane[i][j]);
      lane[i][j] = __fmaf_rn(piece.x[i].z, piece.y[j].z, lane[i][j]);
      lane[i][j] = __fmaf_rn(piece.x[i].w, piece.y[j].w, lane[i][j]);
    }
}
