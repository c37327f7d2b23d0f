// CUDA C++ as ordinary C++, so that the kernels run without a card: every thread of a block is a fiber, collectives wait for their warp.
//
// What it shows: arithmetic, indexing, barriers, copies that nobody waited for (they happen at the wait, not before), shared memory that nobody
// wrote (it starts as NaN), writes to the shared memory of a block of the cluster that has not started or has left, threads that wait for each other forever.
// What it does not: kernels that overlap (they run one after the other), loops that go round without waiting, races between barriers that the order of fibers hides, the speed of anything. `driver.cpp` has the scheduler and the driver's entry points;
// scripts/emulate-cuda.sh builds it.
//
// The blocks of a cluster run side by side. Static shared memory is one section of the library: where a cluster's fibers change from block to block, its contents change with
// them, so each block sees its own; other blocks reach dynamic shared memory only.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>

#define __device__
#define __global__ __attribute__((used))
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("emulated_shared")))
#define __restrict__

struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct char2 { signed char x, y; };
struct alignas(4) char4 { signed char x, y, z, w; };
struct dim3 { unsigned x, y, z; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

namespace emulated {
struct Copy {
  char to_width;
  void* to;
  const void* from;
};
struct Barrier {
  int arrived, generation;
};
struct Warp {
  unsigned long long slot[2][32];
  uint32_t a[2][32][4], b[2][32][2];
  Barrier barrier;
};
struct Block;
struct Runs {
  uint64_t arrived;
};
// What a thread waits for: arrivals, or bytes.
struct Wait {
  const char* where;
  int barrier;  // -1 where there is but one
  const Barrier* at;
  int wanted;
  const Runs* runs;
};
// A warpgroup's product that is under way: a thread's share of it, with its two rows of weights.
struct Product {
  int* sums;
  int columns;
  int8_t rows[2][32];
  uint64_t tile;
};
struct Fiber {
  Block* of;
  void* stack_pointer;
  dim3 thread;
  int index, parity;
  int cluster_generation;  // of its arrival at the cluster's barrier
  bool done;
  Wait waits;
  std::vector<std::vector<Copy>> groups;
  std::vector<Copy> open;
  std::vector<std::vector<Product>> product_groups;
  std::vector<Product> open_products;
};
struct Run {
  Runs* runs;
  void* to;
  const void* from;
  unsigned bytes;
};
struct Block {
  dim3 index;
  int rank, live, running;
  bool started;
  char* shared;
  unsigned shared_bytes;
  Warp warps[32];
  Barrier barriers[16];
  std::vector<Run> runs;
  std::vector<char> statics;  // while another block of the cluster has the section
};
const int MOST_IN_CLUSTER = 16;
extern Block cluster[MOST_IN_CLUSTER];
extern int cluster_blocks;
extern Fiber* now;
extern dim3 blocks, threads;
void meet_warp();
void meet_block(int barrier, int count);
void arrive_cluster();
void meet_cluster();
void await_bytes(const Runs* runs);
// Opens for the time number `times` when `left` have arrived.
struct Gate {
  uint16_t count, left;
  uint32_t times;
};
void await_gate(const Gate* gate, uint32_t time);
[[noreturn]] void stuck(const char* what);

// Every lane gives a value and sees all 32.
static inline const unsigned long long* exchange(unsigned long long value) {
  Warp& warp = now->of->warps[now->index / 32];
  int parity = now->parity ^= 1;
  warp.slot[parity][now->index % 32] = value;
  meet_warp();
  return warp.slot[parity];
}
template <class T>
static inline unsigned long long bits(T value) {
  unsigned long long out = 0;
  memcpy(&out, &value, sizeof(T));
  return out;
}
template <class T>
static inline T value_of(unsigned long long bits) {
  T out;
  memcpy(&out, &bits, sizeof(T));
  return out;
}
}  // namespace emulated

#define threadIdx (emulated::now->thread)
#define blockIdx (emulated::now->of->index)
#define gridDim emulated::blocks
#define blockDim emulated::threads

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }

static inline void __syncthreads() { emulated::meet_block(0, emulated::threads.x); }
static inline void __syncwarp(unsigned = 0xffffffffu) { emulated::meet_warp(); }
static inline void __threadfence() {}
template <class T>
static inline T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulated::value_of<T>(emulated::exchange(emulated::bits(value))[emulated::now->index % 32 ^ mask]);
}
template <class T>
static inline T __shfl_sync(unsigned, T value, int lane) {
  return emulated::value_of<T>(emulated::exchange(emulated::bits(value))[lane & 31]);
}
template <class T>
static inline T __shfl_up_sync(unsigned, T value, int by) {
  int lane = emulated::now->index % 32;
  return emulated::value_of<T>(emulated::exchange(emulated::bits(value))[lane < by ? lane : lane - by]);
}
template <class T>
static inline T __shfl_down_sync(unsigned, T value, int by) {
  int lane = emulated::now->index % 32;
  return emulated::value_of<T>(emulated::exchange(emulated::bits(value))[lane + by > 31 ? lane : lane + by]);
}
static inline unsigned __reduce_add_sync(unsigned, unsigned value) {
  const unsigned long long* all = emulated::exchange(value);
  unsigned sum = 0;
  for (int i = 0; i < 32; ++i) sum += (unsigned)all[i];
  return sum;
}
static inline int __reduce_max_sync(unsigned, int value) {
  const unsigned long long* all = emulated::exchange((unsigned)value);
  int top = value;
  for (int i = 0; i < 32; ++i) top = max(top, (int)(unsigned)all[i]);
  return top;
}
static inline unsigned __ballot_sync(unsigned, bool value) {
  const unsigned long long* all = emulated::exchange(value);
  unsigned out = 0;
  for (int i = 0; i < 32; ++i) out |= (unsigned)all[i] << i;
  return out;
}
static inline bool __any_sync(unsigned mask, bool value) { return __ballot_sync(mask, value) != 0; }
static inline int __syncthreads_or(int value) {
  static int any[2];
  static int turn;
  int mine = turn & 1;
  if (value) any[mine] = 1;
  __syncthreads();
  int out = any[mine];
  __syncthreads();
  any[mine] = 0;
  __syncthreads();
  return out;
}

static inline int __float2int_rn(float x) {
  if (x != x) return 0;
  if (x >= 2147483648.0f) return 2147483647;
  if (x < -2147483648.0f) return -2147483647 - 1;
  return (int)nearbyintf(x);
}
static inline unsigned __brev(unsigned a) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (a >> i & 1) << (31 - i);
  return reversed;
}
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __int_as_float(int x) { return emulated::value_of<float>((unsigned)x); }
static inline float __uint_as_float(unsigned x) { return emulated::value_of<float>(x); }
static inline unsigned __float_as_uint(float x) { return (unsigned)emulated::bits(x); }
static inline int __float_as_int(float x) { return (int)emulated::bits(x); }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += (int)(int8_t)(a >> 8 * i) * (int)(int8_t)(b >> 8 * i);
  return c;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  unsigned long long all = (unsigned long long)b << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= (unsigned)(all >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
  return out;
}
template <class T>
static inline T __ldcg(const T* at) { return *at; }
template <class T>
static inline T __ldcs(const T* at) { return *at; }
template <class T>
static inline T __ldg(const T* at) { return *at; }
template <class T>
static inline T atomicAdd(T* at, T value) {
  T old = *at;
  *at += value;
  return old;
}
template <class T>
static inline T atomicMax(T* at, T value) {
  T old = *at;
  if (value > old) *at = value;
  return old;
}
template <class T>
static inline T atomicExch(T* at, T value) {
  T old = *at;
  *at = value;
  return old;
}

struct __half { uint16_t bits; };
struct alignas(4) __half2 { __half x, y; };
static inline float __half2float(__half h) {
  _Float16 f;
  memcpy(&f, &h.bits, 2);
  return (float)f;
}
static inline __half __float2half_rn(float x) {
  _Float16 f = (_Float16)x;
  __half h;
  memcpy(&h.bits, &f, 2);
  return h;
}
static inline float2 __half22float2(__half2 h) { return {__half2float(h.x), __half2float(h.y)}; }

// The twins of kernels/ptx.cuh.
static inline void release_next() {}
static inline void await_previous() {}
static inline uint64_t streaming() { return 0; }
static inline void copy16(void* to, const void* from) { emulated::now->open.push_back({16, to, from}); }
static inline void copy16(void* to, const void* from, uint64_t) { copy16(to, from); }
static inline void copy4(void* to, const void* from) { emulated::now->open.push_back({4, to, from}); }
static inline void copies_commit() {
  emulated::now->groups.push_back(emulated::now->open);
  emulated::now->open.clear();
}
template <int LEFT>
static inline void copies_wait() {
  auto& groups = emulated::now->groups;
  while (groups.size() > LEFT) {
    for (auto& copy : groups.front()) memcpy(copy.to, copy.from, copy.to_width);
    groups.erase(groups.begin());
  }
}
template <class T>
static inline void read_now(const T&) {}
template <class T>
static inline void keep(T&) {}
struct Shared {
  char* at;
};
static inline Shared keep_shared(const void* shared) { return {(char*)shared}; }
template <class T>
static inline void shared_store(Shared to, unsigned offset, T value) { *(T*)(to.at + offset) = value; }
template <class T>
static inline void shared_load(Shared from, unsigned offset, T& value) { value = *(const T*)(from.at + offset); }
static inline void shared_load_short(Shared from, unsigned offset, unsigned& value) { value = *(const unsigned short*)(from.at + offset); }
static inline float root_guess(float x) { return 1.0f / sqrtf(x); }
namespace emulated { extern unsigned long long clock; }
static inline void read_clocks(unsigned long long* to) { to[0] = to[1] = ++emulated::clock; }
static inline void shared_add(int* word, int value) { *word += value; }
static inline void barrier(int id, int count) { emulated::meet_block(id, count); }
template <class A>
static inline void multiply(int (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  using namespace emulated;
  Warp& warp = now->of->warps[now->index / 32];
  int parity = now->parity ^= 1, lane = now->index % 32;
  uint32_t a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
  memcpy(warp.a[parity][lane], a, 16);
  memcpy(warp.b[parity][lane], b, 8);
  meet_warp();
  for (int i = 0; i < 4; ++i) {
    int row = lane / 4, high = i / 2, col = lane % 4 * 2 + i % 2;
    for (int t = 0; t < 4; ++t)
      for (int half = 0; half < 2; ++half) {
        uint32_t x = warp.a[parity][row * 4 + t][high + 2 * half], y = warp.b[parity][col * 4 + t][half];
        for (int j = 0; j < 4; ++j) c[i] += (int)(A)(x >> 8 * j) * (int)(int8_t)(y >> 8 * j);
      }
  }
}
static inline void mma(int (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  multiply<uint8_t>(c, a0, a1, a2, a3, b0, b1);
}
static inline void mma_signed(int (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  multiply<int8_t>(c, a0, a1, a2, a3, b0, b1);
}
// The twins of kernels/wgmma.cuh: a product takes its weights as it is started and reads its tile where it is awaited.
static inline unsigned shared_at(const void* shared) {
  size_t offset = (const char*)shared - emulated::now->of->shared;
  if (offset >= emulated::now->of->shared_bytes) emulated::stuck("no place in dynamic shared memory");
  return offset;
}
static inline void bring16(unsigned at, const void* from) { copy16(emulated::now->of->shared + at, from); }
static inline void zero16(unsigned at) { memset(emulated::now->of->shared + at, 0, 16); }
static inline uint64_t tile_at(unsigned at) {
  if (at % 1024) emulated::stuck("a tile that does not begin at 1,024 bytes of shared memory");
  return at >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
static inline emulated::Gate* gate_of(unsigned at) { return (emulated::Gate*)(emulated::now->of->shared + at); }
static inline void gate_begin(unsigned gate, int count) { *gate_of(gate) = {(uint16_t)count, (uint16_t)count, 0}; }
static inline void gate_arrive(unsigned gate) {
  emulated::Gate* of = gate_of(gate);
  if (--of->left == 0) of->left = of->count, ++of->times;
}
static inline void gate_await(unsigned gate, int time) { emulated::await_gate(gate_of(gate), time); }
static inline void settle(int (&)[64]) {}
static inline unsigned not_earlier(unsigned value) { return value; }
template <int>
static inline void fewer_registers() {}
template <int>
static inline void more_registers() {}
static inline void show_products() {}
static inline void products_begin() {}
template <int N>
static inline void products(int (&d)[N], const unsigned (&a)[4], uint64_t tile) {
  using namespace emulated;
  Warp& warp = now->of->warps[now->index / 32];
  int parity = now->parity ^= 1, lane = now->index % 32;
  memcpy(warp.a[parity][lane], a, 16);
  meet_warp();
  Product product = {d, 2 * N, {}, tile};
  for (int high = 0; high < 2; ++high)
    for (int t = 0; t < 4; ++t)
      for (int half = 0; half < 2; ++half) memcpy(product.rows[high] + half * 16 + t * 4, &warp.a[parity][lane / 4 * 4 + t][high + 2 * half], 4);
  now->open_products.push_back(product);
}
static inline void products_commit() {
  emulated::now->product_groups.push_back(emulated::now->open_products);
  emulated::now->open_products.clear();
}
template <int LEFT>
static inline void products_wait() {
  using namespace emulated;
  auto& groups = now->product_groups;
  while (groups.size() > LEFT) {
    for (const Product& product : groups.front()) {
      const size_t start = (product.tile & 0x3fff) << 4, eight = (product.tile >> 32 & 0x3fff) << 4;
      for (int i = 0; i < product.columns / 2; ++i) {
        const int column = i / 4 * 8 + now->index % 4 * 2 + i % 2;
        for (int piece = 0; piece < 2; ++piece) {
          size_t at = start + column / 8 * eight + column % 8 * 128 + piece * 16;
          at ^= (at >> 7 & 7) << 4;
          const int8_t* b = (const int8_t*)now->of->shared + at;
          for (int k = 0; k < 16; ++k) product.sums[i] += product.rows[i / 2 % 2][piece * 16 + k] * b[k];
        }
      }
    }
    groups.erase(groups.begin());
  }
}
static inline unsigned pack_codes(int a, int b, int c, int d) {
  int all[4] = {a, b, c, d};
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= (unsigned)(uint8_t)max(-128, min(127, all[i])) << 8 * i;
  return out;
}
// Runs happen where they are awaited, all of a block's at once.
using emulated::Runs;
static inline void runs_begin(Runs* runs, unsigned bytes) { runs->arrived = bytes; }
static inline void run(Runs* runs, void* to, const void* from, unsigned bytes, uint64_t) {
  if (bytes % 16 || (uintptr_t)to % 16 || (uintptr_t)from % 16) abort();
  emulated::now->of->runs.push_back({runs, to, from, bytes});
}
static inline bool runs_starter() { return threadIdx.x == 0; }
static inline void runs_await(Runs* runs) {
  for (auto& run : emulated::now->of->runs)
    if (run.runs == runs && run.bytes) {
      memcpy(run.to, run.from, run.bytes);
      runs->arrived -= run.bytes;
      run.bytes = 0;
    }
  if (runs->arrived != 0) emulated::stuck("a run brings other bytes than were announced");
}
static inline uint64_t staying() { return 0; }
static inline void prefetch(const void*, unsigned, uint64_t) {}

// Clusters.
static inline int cluster_size() { return emulated::cluster_blocks; }
static inline int cluster_rank() { return emulated::now->of->rank; }
static inline int cluster_id() { return blockIdx.x / emulated::cluster_blocks; }
static inline void cluster_arrive() { emulated::arrive_cluster(); }
static inline void cluster_wait() { emulated::meet_cluster(); }
struct Remote {
  emulated::Block* of;
  char* at;
};
static inline Remote remote(const void* own, int rank) {
  emulated::Block *self = emulated::now->of, *other = &emulated::cluster[rank];
  size_t offset = (const char*)own - self->shared;
  if (rank >= emulated::cluster_blocks) emulated::stuck("memory of a block that the cluster does not have");
  if (offset >= self->shared_bytes) emulated::stuck("only dynamic shared memory is within reach of other blocks here");
  return {other, other->shared + offset};
}
template <class T>
static inline void put_bytes(Remote to, T value, Remote runs) {
  if (!to.of->started || to.of->live == 0) emulated::stuck("memory of a block that has not started, or has left");
  if ((uintptr_t)to.at % sizeof(T)) emulated::stuck("a put that is not aligned");
  memcpy(to.at, &value, sizeof(T));
  ((Runs*)runs.at)->arrived -= sizeof(T);
}
static inline void put(Remote to, unsigned value, Remote runs) { put_bytes(to, value, runs); }
static inline void put(Remote to, float2 value, Remote runs) { put_bytes(to, value, runs); }
static inline void put(Remote to, float4 value, Remote runs) { put_bytes(to, value, runs); }
static inline void puts_await(Runs* runs) { emulated::await_bytes(runs); }
