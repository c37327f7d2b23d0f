// Products of a warpgroup (128 threads): 64 rows of weights in registers, 128 columns of activations in shared memory, 32 inputs. Only cards of compute 9.0 have
// them, and only code for sm_90a may use them; crates/cuda/emulator/device.h has twins that run without a card.
//
// A warp's rows lie in its lanes as in a fragment of m16n8k32, and so do its sums: `d[4 i + j]` is row `lane / 4 + 8 (j / 2)`, column `8 i + 2 (lane % 4) + j % 2`. A column of
// the tile is 128 bytes, of which the 16 bytes number i lie at i ^ column % 8; the tile begins at a multiple of 1,024 bytes. Products are under way until they are
// awaited: neither their registers nor their tile may change before.
#pragma once
#include "ptx.cuh"

#if !defined(EMULATED) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Where something lies in shared memory, kept in a register: the compiler would find it out anew each time.
static __device__ __forceinline__ unsigned shared_at(const void* shared) {
  unsigned at = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("" : "+r"(at));
  return at;
}
static __device__ __forceinline__ void bring16(unsigned at, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(global) : "memory");
}
static __device__ __forceinline__ void zero16(unsigned at) { asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory"); }
// What a product reads of a tile, from input 0 on; 32 inputs further is 2 more. 1,024 bytes from eight columns to the next eight, rows of 128 bytes swizzled.
static __device__ __forceinline__ uint64_t tile_at(unsigned at) { return (uint64_t)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }
// What threads wrote to shared memory, by copies that have arrived or stores, is seen by products behind the next barrier.
static __device__ __forceinline__ void show_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Registers that were written are seen by the products that follow.
static __device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT>
static __device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// A warpgroup's registers, a multiple of 8.
template <int REGISTERS>
static __device__ __forceinline__ void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
static __device__ __forceinline__ void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
// Sums that were awaited: what is computed from them may not be computed before, which the compiler does not see of itself.
static __device__ __forceinline__ void settle(int (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
// A value from which nothing is computed before this, so that no register holds it through a loop.
static __device__ __forceinline__ unsigned not_earlier(unsigned value) {
  asm volatile("" : "+r"(value));
  return value;
}
// A gate, 8 bytes of shared memory, opens when `count` threads have arrived, and closes for the next time. What a thread did before it arrives is seen by those who await it.
static __device__ __forceinline__ void gate_begin(unsigned gate, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(gate), "r"(count) : "memory");
}
static __device__ __forceinline__ void gate_arrive(unsigned gate) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(gate) : "memory");
}
// Waits for the time number `time`, from 0 on; nobody may be a time behind the one before.
static __device__ __forceinline__ void gate_await(unsigned gate, int time) {
  unsigned done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(gate), "r"(time & 1)
                 : "memory");
  } while (!done);
}
#define FOUR(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
static __device__ __forceinline__ void products(int (&d)[64], const unsigned (&a)[4], uint64_t tile) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
          "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
          "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
          "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
          "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
          "{%64, %65, %66, %67}, %68, 1;"
      : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile));
}
#undef SIXTEEN
#undef FOUR
#endif
