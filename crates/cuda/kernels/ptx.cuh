// Every instruction that CUDA C++ has no word for. crates/cuda/emulator/device.h has twins that run without a card.
#pragma once

// Kernels that only run in clusters, and most of those with constants for E2B's shape, are not made for cards that have no clusters.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define NO_CLUSTERS
#endif
#include <stdint.h>
#ifndef EMULATED

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

// Runs of neighbouring bytes, a multiple of 16, that arrive in shared memory: started by one thread and done by the copy engine where there is one,
// by all threads elsewhere. `runs_begin` is for one thread, before any run; `runs_await` for all, behind a barrier of the block.
struct Runs {
  uint64_t arrived;
};
static __device__ __forceinline__ void runs_begin(Runs* runs, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  unsigned at = (unsigned)__cvta_generic_to_shared(&runs->arrived);
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
#endif
}
static __device__ __forceinline__ void run(Runs* runs, void* shared, const void* global, unsigned bytes, uint64_t policy) {
  unsigned to = (unsigned)__cvta_generic_to_shared(shared);
#if __CUDA_ARCH__ >= 900
  unsigned at = (unsigned)__cvta_generic_to_shared(&runs->arrived);
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
               "l"(global), "r"(bytes), "r"(at), "l"(policy)
               : "memory");
#else
  for (unsigned i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16)
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to + i), "l"((const char*)global + i), "l"(policy)
                 : "memory");
#endif
}
// Whether this thread starts runs.
static __device__ __forceinline__ bool runs_starter() {
#if __CUDA_ARCH__ >= 900
  return threadIdx.x == 0;
#else
  return true;
#endif
}
static __device__ __forceinline__ void runs_await(Runs* runs) {
#if __CUDA_ARCH__ >= 900
  unsigned at = (unsigned)__cvta_generic_to_shared(&runs->arrived), done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(at)
                 : "memory");
  } while (!done);
#else
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
#endif
}
// Neighbouring bytes, a multiple of 16, on their way to the second-level cache, where there is an engine for it.
static __device__ __forceinline__ void prefetch(const void* global, unsigned bytes, uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(global), "r"(bytes), "l"(policy) : "memory");
#endif
}
// What is read again soon stays in the cache.
static __device__ __forceinline__ uint64_t staying() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// c += a b: u8 codes of 16 rows, s8 activations of 8 columns, 32 inputs.
static __device__ __forceinline__ void mma(int (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                           unsigned b1) {
  asm(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The same with s8 weights.
static __device__ __forceinline__ void mma_signed(int (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                                  unsigned b1) {
  asm(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Four integers as signed bytes side by side, each clamped.
static __device__ __forceinline__ unsigned pack_codes(int a, int b, int c, int d) {
  unsigned high, all;
  asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(d), "r"(c));
  asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(b), "r"(a), "r"(high));
  return all;
}

// 1 / sqrt(x) within 2^-22.9 of it, for a normal x.
static __device__ __forceinline__ float root_guess(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A first read of a kernel's argument is slow; this makes it happen here.
template <class T>
static __device__ __forceinline__ void read_now(T* argument) {
  asm volatile("" ::"l"(argument));
}
static __device__ __forceinline__ void read_now(int argument) { asm volatile("" ::"r"(argument)); }
static __device__ __forceinline__ void read_now(float argument) { asm volatile("" ::"f"(argument)); }

// Makes a value here and keeps it in a register, where the compiler would make it again later.
template <class T>
static __device__ __forceinline__ void keep(T*& global) {
  asm volatile("" : "+l"(global));
}
static __device__ __forceinline__ void keep(unsigned& value) { asm volatile("" : "+r"(value)); }
// An address in shared memory that is kept in a register. Offsets count bytes.
struct Shared {
  unsigned at;
};
static __device__ __forceinline__ Shared keep_shared(const void* shared) {
  Shared kept = {(unsigned)__cvta_generic_to_shared(shared)};
  asm volatile("" : "+r"(kept.at));
  return kept;
}
static __device__ __forceinline__ void shared_store(Shared to, unsigned offset, unsigned value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to.at + offset), "r"(value) : "memory");
}
static __device__ __forceinline__ void shared_store(Shared to, unsigned offset, int value) { shared_store(to, offset, (unsigned)value); }
static __device__ __forceinline__ void shared_store(Shared to, unsigned offset, float value) { shared_store(to, offset, __float_as_uint(value)); }
static __device__ __forceinline__ void shared_load(Shared from, unsigned offset, int& value) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from.at + offset) : "memory");
}
static __device__ __forceinline__ void shared_load(Shared from, unsigned offset, float& value) {
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from.at + offset) : "memory");
}
static __device__ __forceinline__ void shared_load(Shared from, unsigned offset, float4& value) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(from.at + offset)
               : "memory");
}
static __device__ __forceinline__ void shared_load(Shared from, unsigned offset, int4& value) {
  asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(from.at + offset)
               : "memory");
}
static __device__ __forceinline__ void shared_load(Shared from, unsigned offset, uint2& value) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(from.at + offset) : "memory");
}
static __device__ __forceinline__ void shared_load(Shared from, unsigned offset, unsigned& value) {
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from.at + offset) : "memory");
}
// Two bytes.
static __device__ __forceinline__ void shared_load_short(Shared from, unsigned offset, unsigned& value) {
  asm volatile("{ .reg .u16 t; ld.shared.u16 t, [%1]; cvt.u32.u16 %0, t; }" : "=r"(value) : "r"(from.at + offset) : "memory");
}
// Clocks of a build with STAMPS: the card's, in nanoseconds, and the multiprocessor's, in cycles.
static __device__ __forceinline__ void read_clocks(unsigned long long* to) {
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(to[0])::"memory");
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(to[1])::"memory");
}

// Adds to a word of shared memory; the compiler's own form asks first which lanes take part.
static __device__ __forceinline__ void shared_add(int* word, int value) {
  unsigned at = (unsigned)__cvta_generic_to_shared(word);
  asm volatile("red.shared.add.s32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
}

// A barrier of some of a block's warps. Number 0 is __syncthreads.
static __device__ __forceinline__ void barrier(int id, int count) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory"); }

// Clusters: blocks that run at once and write to each other's shared memory. Nothing of it works below sm_90, where no launch asks for clusters.
static __device__ __forceinline__ int cluster_size() {
  int size = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
#endif
  return size;
}
static __device__ __forceinline__ int cluster_rank() {
  int rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(rank));
#endif
  return rank;
}
static __device__ __forceinline__ int cluster_id() {
  int id = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(id));
#endif
  return id;
}
// Every thread arrives once and waits once: behind the wait all blocks have started, and what `runs_begin` did before the arrival is seen by all of them.
// All lanes of a warp arrive together, and a branch that one of them took before may not have ended for the others.
static __device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
static __device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// What lies at `own` in this block's shared memory, in that of another block of the cluster. A put arrives by itself and is counted by the receiver's runs, which were begun
// with the bytes of all puts to come; `puts_await` is their `runs_await`. A block may leave once all that was put to it has arrived.
struct Remote {
  unsigned at;
};
static __device__ __forceinline__ Remote remote(const void* own, int rank) {
  Remote other = {(unsigned)__cvta_generic_to_shared(own)};
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other.at) : "r"(other.at), "r"(rank));
#endif
  return other;
}
static __device__ __forceinline__ void put(Remote to, unsigned value, Remote runs) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(to.at), "r"(value), "r"(runs.at)
               : "memory");
#endif
}
static __device__ __forceinline__ void put(Remote to, float2 value, Remote runs) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to.at), "f"(value.x),
               "f"(value.y), "r"(runs.at)
               : "memory");
#endif
}
static __device__ __forceinline__ void put(Remote to, float4 value, Remote runs) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to.at), "f"(value.x),
               "f"(value.y), "f"(value.z), "f"(value.w), "r"(runs.at)
               : "memory");
#endif
}
// The wait acquires for its own block, try_wait's default, although what it waits for comes from other blocks of the cluster: acquiring for the cluster
// drops the first-level cache (CCTL.IVALL) at every wait, and waits for st.async and for multicast copies commonly have the default.
static __device__ __forceinline__ void puts_await(Runs* runs) {
#if __CUDA_ARCH__ >= 900
  unsigned at = (unsigned)__cvta_generic_to_shared(&runs->arrived), done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(at)
                 : "memory");
  } while (!done);
#endif
}

#endif
