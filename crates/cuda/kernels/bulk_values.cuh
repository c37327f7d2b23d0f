// What a linear of a prompt makes of its sums, four neighbouring rows of a column at a time; and how codes become signed bytes (`bulk_linear.cu`).
#pragma once
#include "linear.cuh"

// (word & kept) ^ flipped in one instruction, of which two constants are registers.
static __device__ __forceinline__ unsigned masked_xor(unsigned word, unsigned kept, unsigned flipped) {
#ifdef EMULATED
  return (word & kept) ^ flipped;
#else
  unsigned out;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(out) : "r"(word), "r"(kept), "r"(flipped));
  return out;
#endif
}

// 1.5 * 2^23: a float of few digits beside it is rounded to the nearest even integer, which then stands in the sum's low bits.
#define BESIDE 12582912.0f

// Rule 1 as a float, without a conversion: the clamped quotient, not yet rounded. For what is a number and a scale that has an inverse.
static __device__ __forceinline__ float clamped_quotient(float x, const Scale& s) { return fminf(fmaxf(quotient(x, s), -128.0f), 127.0f); }

// Whether codes of gate and up may be made so: conversions have a quarter of the other instructions' rate, and these are not needed where multipliers are numbers.
static __device__ __forceinline__ bool are_plain(const float4& gate, const float4& up, const Scale& a, const Scale& b) {
  const float all = fabsf(gate.x) + fabsf(gate.y) + fabsf(gate.z) + fabsf(gate.w) + fabsf(up.x) + fabsf(up.y) + fabsf(up.z) + fabsf(up.w);
  return all < 1e30f && a.inverse != 0.0f && b.inverse != 0.0f;
}

// GELU of a gate's sum times up's.
static __device__ __forceinline__ float gated(int gate, int up, float by, float up_by, const Scale& scale, const Scale& up_scale, const float* gelu) {
  // The table's index is the code plus 128.
  const unsigned index = __float_as_uint(clamped_quotient((float)gate * by, scale) + (BESIDE + 128.0f)) & 255;
  return gelu[index] * (((clamped_quotient((float)up * up_by, up_scale) + BESIDE) - BESIDE) * up_scale.value);
}

// `at`: the sums of four rows from `row` on; of gate and up every other 16 rows are up's.
static __device__ __forceinline__ void bulk_values(const Linear& p, const Matrix& m, int which, int column, int row, const int* at, bool plain = false) {
  const int output = p.output_kind;
  int4 sum = *(const int4*)at;
  if (output == SUMS_OUT) {
    *(int4*)(p.sums + (size_t)column * p.sums_stride + row) = sum;
    return;
  }
  float4 by = *(const float4*)(m.multipliers + row);
  if (output == FFN_OUT && plain) {
    const int4 up = *(const int4*)(at + 16);
    const float4 up_by = *(const float4*)(p.up_multipliers + row);
    *(unsigned*)(p.out[which] + (size_t)column * p.out_stride + row) =
        quantise_four(make_float4(gated(sum.x, up.x, by.x, up_by.x, m.output, p.up, p.gelu), gated(sum.y, up.y, by.y, up_by.y, m.output, p.up, p.gelu),
                                  gated(sum.z, up.z, by.z, up_by.z, m.output, p.up, p.gelu), gated(sum.w, up.w, by.w, up_by.w, m.output, p.up, p.gelu)),
                      p.next);
    return;
  }
  unsigned code = quantise_four(make_float4((float)sum.x * by.x, (float)sum.y * by.y, (float)sum.z * by.z, (float)sum.w * by.w), m.output);
  if (output != CODES_OUT) {
    float4 other;
    if (output == FFN_OUT) {
      int4 up = *(const int4*)(at + 16);
      by = *(const float4*)(p.up_multipliers + row);
      unsigned second = quantise_four(make_float4((float)up.x * by.x, (float)up.y * by.y, (float)up.z * by.z, (float)up.w * by.w), p.up);
      other = make_float4((float)(int8_t)second * p.up.value, (float)(int8_t)(second >> 8) * p.up.value,
                          (float)(int8_t)(second >> 16) * p.up.value, (float)((int)second >> 24) * p.up.value);
    } else {
      other = *(const float4*)(p.ple + (size_t)column * p.ple_stride + row);
    }
    // The table's index is the code plus 128: its byte with the top bit flipped.
    unsigned index = code ^ 0x80808080u;
    code = quantise_four(make_float4(p.gelu[index & 255] * other.x, p.gelu[index >> 8 & 255] * other.y, p.gelu[index >> 16 & 255] * other.z,
                                     p.gelu[index >> 24] * other.w),
                         p.next);
  }
  *(unsigned*)(p.out[which] + (size_t)column * p.out_stride + row) = code;
}
