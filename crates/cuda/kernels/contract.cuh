// The scalar rules of the arithmetic contract (docs/spec.md) and the sums every kernel needs.
//
// Compiled with contraction, flush to zero and approximate division and root off, so that `a * b + c` is two roundings and
// `/` is one; where the contract writes fma the source says __fmaf_rn. Host twins of these functions: crates/spec/src/contract.rs.
#pragma once
#include <cuda_fp16.h>
#include <stdint.h>

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
static __device__ __forceinline__ int quantise(float x, const Scale& s) {
  if (s.inverse == 0.0f) return quantise_any(x, s.value);
  float first = x * s.inverse;
  float q = __fmaf_rn(__fmaf_rn(-first, s.value, x), s.inverse, first);
  q = __fmaf_rn(__fmaf_rn(-q, s.value, x), s.inverse, q);
  return clamped(fabsf(first) < 1024.0f ? q : first);
}

// Rule 8: exp of x <= 0.
static __device__ __forceinline__ float contract_exp(float x) {
  if (!(x >= -87.0f)) return 0.0f;
  float n = rintf(x * __int_as_float(0x3fb8aa3b));
  float r = __fmaf_rn(n, -__int_as_float(0x35bfbe8e), __fmaf_rn(n, -__int_as_float(0x3f317200), x));
  float p = __int_as_float(0x3ab5121a);
  p = __fmaf_rn(p, r, __int_as_float(0x3c091cf1));
  p = __fmaf_rn(p, r, __int_as_float(0x3d2aac79));
  p = __fmaf_rn(p, r, __int_as_float(0x3e2aaa49));
  p = __fmaf_rn(p, r, __int_as_float(0x3efffffe));
  p = __fmaf_rn(p, r, 1.0f);
  p = __fmaf_rn(p, r, 1.0f);
  return p * __int_as_float((__float2int_rn(n) + 127) << 23);
}

// The drafter's GELU: tanh form on the contract's exponential.
static __device__ __forceinline__ float gelu_float(float x) {
  float inner = __int_as_float(0x3f4c422a) * (x + 0.044715f * (x * x * x));
  float t = contract_exp(-2.0f * fabsf(inner));
  float tanh = copysignf((1.0f - t) / (1.0f + t), inner);
  return 0.5f * x * (1.0f + tanh);
}

// `1 / sqrt(total / count + epsilon)` of rule 6, each rounded once. One copy: what runs once a kernel waits for its instructions.
static __device__ __noinline__ float reciprocal_root(float total, float count) {
  float mean_square = __fdiv_rn(total, count);
  return __fdiv_rn(1.0f, __fsqrt_rn(mean_square + RMS_EPSILON));
}

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

// Sum of one int a thread over the block. `scratch` has 33 ints; ends with a barrier.
static __device__ __forceinline__ int block_sum(int value, int* scratch) {
  value = warp_sum(value);
  int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0) scratch[warp] = value;
  __syncthreads();
  int lane = threadIdx.x % 32;
  return warp_sum(lane < warps ? scratch[lane] : 0);
}

// Programmatic dependent launch: `release` lets the next kernel start, `await` returns once every earlier kernel has finished.
static __device__ __forceinline__ void release_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
static __device__ __forceinline__ void await_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Asynchronous copies of 16 bytes into shared memory.
static __device__ __forceinline__ void copy16(void* shared, const void* global) {
  unsigned at = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(global) : "memory");
}
// The same for weights, which nobody reads again before the next token: they leave the cache first.
static __device__ __forceinline__ uint64_t streaming() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
static __device__ __forceinline__ void copy16(void* shared, const void* global, uint64_t policy) {
  unsigned at = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(at), "l"(global), "l"(policy) : "memory");
}
static __device__ __forceinline__ void copy4(void* shared, const void* global) {
  unsigned at = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(global) : "memory");
}
static __device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT>
static __device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
