// The scalar rules of the arithmetic contract (docs/spec.md) and the sums every kernel needs.
//
// Compiled with contraction, flush to zero and approximate division and root off, so that `a * b + c` is two roundings and
// `/` is one; where the contract writes fma the source says __fmaf_rn. Host twins of these functions: crates/spec/src/contract.rs.
#pragma once
#include <cuda_fp16.h>
#include <stdint.h>

#include "ptx.cuh"

#define RMS_EPSILON 1e-6f
#define LANES 32
#define KEY_BLOCK 64
#define ALL 0xffffffffu

// A scale that divides: `inverse` is RN(1 / value), or 0 where the scale lies outside 2^-60 .. 2^60.
struct Scale {
  float value, inverse;
};

// Rule 1: clamp(rne(x / s), -128, 127). NaN becomes 0, as the conversion gives it.
static __device__ __forceinline__ int clamped(float quotient) { return min(max(__float2int_rn(quotient), -128), 127); }
static __device__ __noinline__ int quantise_any(float x, float scale) { return clamped(__fdiv_rn(x, scale)); }

// The same by the rounded inverse: a quotient within an ulp, corrected twice by its exact remainder, is the rounded quotient. Where a remainder
// could lose bits the quotient is far from any half, or the scale is not in range.
static __device__ __forceinline__ float quotient(float x, const Scale& s) {
  float first = x * s.inverse;
  float q = __fmaf_rn(__fmaf_rn(-first, s.value, x), s.inverse, first);
  q = __fmaf_rn(__fmaf_rn(-q, s.value, x), s.inverse, q);
  return fabsf(first) < 1024.0f ? q : first;
}
static __device__ __forceinline__ int quantise(float x, const Scale& s) {
  return s.inverse == 0.0f ? quantise_any(x, s.value) : clamped(quotient(x, s));
}
// Four codes side by side.
static __device__ __noinline__ unsigned quantise_four_any(float4 x, float scale) {
  return pack_codes(quantise_any(x.x, scale), quantise_any(x.y, scale), quantise_any(x.z, scale), quantise_any(x.w, scale));
}
// For a scale that has an inverse.
static __device__ __forceinline__ unsigned quantise_four_here(float4 x, const Scale& s) {
  return pack_codes(__float2int_rn(quotient(x.x, s)), __float2int_rn(quotient(x.y, s)), __float2int_rn(quotient(x.z, s)),
                    __float2int_rn(quotient(x.w, s)));
}

static __device__ __forceinline__ unsigned quantise_four(float4 x, const Scale& s) {
  return s.inverse == 0.0f ? quantise_four_any(x, s.value) : quantise_four_here(x, s);
}
// Four codes that go on as floats: each is `code + CODE_SHIFT`, whose low byte is the code. The scale has an inverse, and `x` is no NaN.
#define CODE_SHIFT 12582912.0f
static __device__ __forceinline__ float shifted_code(float quotient) { return fminf(fmaxf(quotient, -128.0f), 127.0f) + CODE_SHIFT; }
static __device__ __forceinline__ float4 shifted_codes(float4 x, const Scale& s) {
  return make_float4(shifted_code(quotient(x.x, s)), shifted_code(quotient(x.y, s)), shifted_code(quotient(x.z, s)), shifted_code(quotient(x.w, s)));
}
static __device__ __forceinline__ unsigned packed(float4 shifted) {
  const unsigned low = __byte_perm(__float_as_uint(shifted.x), __float_as_uint(shifted.y), 0x0040);
  const unsigned high = __byte_perm(__float_as_uint(shifted.z), __float_as_uint(shifted.w), 0x0040);
  return __byte_perm(low, high, 0x5410);
}

// Rule 8: exp(x - n ln 2) for the n nearest to x / ln 2.
static __device__ __forceinline__ float exp_of_rest(float x, float n) {
  float r = __fmaf_rn(n, -__int_as_float(0x35bfbe8e), __fmaf_rn(n, -__int_as_float(0x3f317200), x));
  float p = __int_as_float(0x3ab5121a);
  p = __fmaf_rn(p, r, __int_as_float(0x3c091cf1));
  p = __fmaf_rn(p, r, __int_as_float(0x3d2aac79));
  p = __fmaf_rn(p, r, __int_as_float(0x3e2aaa49));
  p = __fmaf_rn(p, r, __int_as_float(0x3efffffe));
  p = __fmaf_rn(p, r, 1.0f);
  return __fmaf_rn(p, r, 1.0f);
}
// exp of x <= 0.
static __device__ __forceinline__ float contract_exp(float x) {
  if (!(x >= -87.0f)) return 0.0f;
  float n = rintf(x * __int_as_float(0x3fb8aa3b));
  float p = exp_of_rest(x, n);
  return p * __int_as_float((__float2int_rn(n) + 127) << 23);
}
// The same without a branch, so that many are under way at once: below -87, and for what is no number, the select takes 0. Adding 1.5 * 2^23 rounds to the nearest even
// integer, which then stands in the sum's low bits.
static __device__ __forceinline__ float exp_or_zero(float x) {
  const float y = fmaxf(x, -87.0f), magic = 12582912.0f;
  const float shifted = y * __int_as_float(0x3fb8aa3b) + magic, n = shifted - magic;
  const float p = exp_of_rest(y, n), power = __uint_as_float((__float_as_uint(shifted) << 23) + 0x3f800000u);
  return x >= -87.0f ? p * power : 0.0f;
}

// Rule 7 for four pairs.
static __device__ __forceinline__ void turn_by(float4& first, float4& second, const float4& c, const float4& s) {
  const float4 x = first, y = second;
  first = make_float4(c.x * x.x - s.x * y.x, c.y * x.y - s.y * y.y, c.z * x.z - s.z * y.z, c.w * x.w - s.w * y.w);
  second = make_float4(s.x * x.x + c.x * y.x, s.y * x.y + c.y * y.y, s.z * x.z + c.z * y.z, s.w * x.w + c.w * y.w);
}
// The same of a multiple of four: `pair` is the first of them.
static __device__ __forceinline__ void turn_words(float4& first, float4& second, const float* rope, int pairs, int pair) {
  if (pair >= pairs) return;
  turn_by(first, second, *(const float4*)(rope + pair), *(const float4*)(rope + pairs + pair));
}

// The drafter's GELU: tanh form on the contract's exponential.
static __device__ __forceinline__ float gelu_float(float x) {
  float inner = __int_as_float(0x3f4c422a) * (x + 0.044715f * (x * x * x));
  float t = contract_exp(-2.0f * fabsf(inner));
  float tanh = copysignf((1.0f - t) / (1.0f + t), inner);
  return 0.5f * x * (1.0f + tanh);
}

// A count that divides: its inverse, where the count is below 2^24.
static __device__ __forceinline__ Scale count_of(int count) { return {(float)count, __frcp_rn((float)count)}; }

// `1 / sqrt(total / count + epsilon)` of rule 6, each rounded once.
static __device__ __noinline__ float reciprocal_root_any(float total, float count) {
  return __frcp_rn(__fsqrt_rn(__fdiv_rn(total, count) + RMS_EPSILON));
}
// The same without a branch but for sums that no stream has. The quotient as in `quotient`; one so small that its remainder loses bits vanishes beside epsilon, so that nothing
// behind it is subnormal. One guess serves root and reciprocal: two steps of Goldschmidt's make the rounded root for any guess within 8 ulp, and the remainder beside it
// the rounded reciprocal, but for roots whose bits are all ones (params.rs tries every mantissa).
static __device__ __forceinline__ float reciprocal_root_here(float total, const Scale& count) {
  const float first = total * count.inverse;
  float q = __fmaf_rn(__fmaf_rn(-first, count.value, total), count.inverse, first);
  q = __fmaf_rn(__fmaf_rn(-q, count.value, total), count.inverse, q);
  const float v = q + RMS_EPSILON, guess = root_guess(v);
  const float near = v * guess, half = 0.5f * guess, miss = __fmaf_rn(-near, half, 0.5f);
  const float nearer = __fmaf_rn(near, miss, near), halved = __fmaf_rn(half, miss, half);
  const float root = __fmaf_rn(__fmaf_rn(-nearer, nearer, v), halved, nearer), inverse = halved + halved;
  const float rest = __fmaf_rn(-root, inverse, 1.0f);
  float r = __fmaf_rn(__fmaf_rn(rest, rest, rest), inverse, inverse);
  if (!(first < 1e30f) || (__float_as_uint(v) << 9) >= 0xfffffc00u) r = reciprocal_root_any(total, count.value);
  return r;
}
// One copy of it, for everything that a call more does not delay.
static __device__ __noinline__ float reciprocal_root(float total, Scale count) { return reciprocal_root_here(total, count); }

// The tree of rule 6 over the 32 lanes of a warp; addition commutes, so every lane ends with l[0].
static __device__ __forceinline__ float lane_tree(float lane) {
#pragma unroll
  for (int half = 16; half > 0; half /= 2) lane += __shfl_xor_sync(ALL, lane, half);
  return lane;
}

// Rule 12.
static __device__ __forceinline__ __half to_f16(float x) {
  return __float2half_rn(fminf(fmaxf(x, -65504.0f), 65504.0f));
}

static __device__ __forceinline__ int warp_sum(int value) {
  return (int)__reduce_add_sync(ALL, (unsigned)value);
}

// Some warps of a block that work on one column, with a barrier of their own.
struct Team {
  int index, threads, thread;
};

// Warps of a stage: 12, since 384 threads of four values are E2B's stream and fewer warps repeat less of what each must do. A build for a trial says
// otherwise (scripts/build-cuda-trials.sh).
#ifndef STAGE_WARPS
#define STAGE_WARPS 12
#endif
#define TEAM_WARPS STAGE_WARPS

// The teams of a block for `columns` columns; a block's last warps may belong to none (`index` >= columns).
static __device__ __forceinline__ Team team_of(int columns) {
  int warps = TEAM_WARPS / columns, index = threadIdx.x / 32 / warps;
  return {index, warps * 32, (int)threadIdx.x - index * warps * 32};
}

static __device__ __forceinline__ void meet(const Team& team) { barrier(1 + team.index, team.threads); }

// Sum of one int a thread over a block. `scratch` has 33 ints; ends with a barrier.
static __device__ __forceinline__ int block_sum(int value, int* scratch) {
  value = warp_sum(value);
  int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0) scratch[warp] = value;
  __syncthreads();
  int lane = threadIdx.x % 32;
  return warp_sum(lane < warps ? scratch[lane] : 0);
}
