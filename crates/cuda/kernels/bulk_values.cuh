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

// `at`: the sums of four rows from `row` on; of gate and up every other 16 rows are up's.
static __device__ __forceinline__ void bulk_values(const Linear& p, const Matrix& m, int which, int column, int row, const int* at) {
  const int output = p.output_kind;
  int4 sum = *(const int4*)at;
  if (output == SUMS_OUT) {
    *(int4*)(p.sums + (size_t)column * p.sums_stride + row) = sum;
    return;
  }
  float4 by = *(const float4*)(m.multipliers + row);
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
