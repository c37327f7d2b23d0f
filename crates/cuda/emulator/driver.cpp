// A libcuda that runs the kernels on the processor: blocks one after the other, each a ring of fibers. See device.h.
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <functional>
#include <map>
#include <string>

// Static shared memory of all kernels.
extern "C" char __start_emulated_shared[], __stop_emulated_shared[];

namespace emulated {
Fiber* now;
dim3 blocks, threads;
Block cluster[MOST_IN_CLUSTER];
int cluster_blocks;
unsigned long long clock;

const size_t STACK = 64 << 10, SHARED = 227 << 10, PAGE = 4 << 10, WHOLE_PAGES = 228 << 10;
std::vector<Fiber> fibers;
char* stacks[MOST_IN_CLUSTER];
void* scheduler;
Barrier of_cluster;
const std::function<void()>* body;
const char* kernel_name;
// Looks at what they wait for, one after the other, that found nobody further.
int idle;

// Saves the callee's registers on the stack, keeps the stack pointer in `*from`, goes on at `to`.
extern "C" void emulated_switch(void** from, void* to);
asm(R"(
.globl emulated_switch
emulated_switch:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
)");

// The next fiber that is not done; the scheduler where there is none.
static void yield() {
  Fiber* from = now;
  size_t index = from - fibers.data(), all = fibers.size();
  for (size_t step = 1; step <= all; ++step) {
    Fiber& next = fibers[index + step < all ? index + step : index + step - all];
    if (next.done) continue;
    if (&next == from) return;
    if (next.of != from->of) {
      size_t bytes = __stop_emulated_shared - __start_emulated_shared;
      from->of->statics.assign(__start_emulated_shared, __stop_emulated_shared);
      if (next.of->statics.empty()) memset(__start_emulated_shared, 0xff, bytes);
      else memcpy(__start_emulated_shared, next.of->statics.data(), bytes);
    }
    now = &next;
    emulated_switch(&from->stack_pointer, next.stack_pointer);
    return;
  }
  emulated_switch(&from->stack_pointer, scheduler);
}

[[noreturn]] void stuck(const char* what) {
  const dim3& block = now->of->index;
  fprintf(stderr, "emulated card: %s: %s (block %u %u %u, thread %d)\n", kernel_name, what, block.x, block.y, block.z, now->index);
  abort();
}

static int living() {
  int all = 0;
  for (int i = 0; i < cluster_blocks; ++i) all += cluster[i].live;
  return all;
}

// Says who waits for what, threads that wait for the same as one, and ends the program.
[[noreturn]] static void hang() {
  fprintf(stderr, "emulated card: %s hangs, its threads wait for each other:\n", kernel_name);
  std::vector<bool> said(fibers.size());
  for (size_t first = 0; first < fibers.size(); ++first) {
    const Fiber& fiber = fibers[first];
    if (fiber.done || said[first]) continue;
    const Wait& wait = fiber.waits;
    int alike = 0;
    for (size_t i = first; i < fibers.size(); ++i) {
      const Wait& other = fibers[i].waits;
      if (fibers[i].done || fibers[i].of != fiber.of || other.at != wait.at || other.runs != wait.runs) continue;
      said[i] = true;
      ++alike;
    }
    const dim3& block = fiber.of->index;
    fprintf(stderr, "  block %u %u %u: %d threads from %d on wait %s", block.x, block.y, block.z, alike, fiber.index, wait.where);
    if (wait.runs) {
      fprintf(stderr, ", of which %llu bytes have not come\n", (unsigned long long)wait.runs->arrived);
    } else if (!wait.at) {
      fprintf(stderr, "\n");
    } else {
      if (wait.barrier >= 0) fprintf(stderr, " %d of the block", wait.barrier);
      fprintf(stderr, ", where %d of %d are\n", wait.at->arrived, wait.wanted);
    }
  }
  abort();
}

// Lets others run until `over`. Where every thread has looked in turn and none of them has got further, none ever will.
template <class Over>
static void await(const Wait& wait, Over over) {
  if (over()) return;
  now->waits = wait;
  idle = 0;
  for (yield(); !over(); yield())
    if (++idle >= living()) hang();
  idle = 0;
}

void await_bytes(const Runs* runs) {
  await({"for puts", -1, nullptr, 0, runs}, [=] { return runs->arrived == 0; });
}

// A gate has a bit for its times, so nobody may come two of them late.
void await_gate(const Gate* gate, uint32_t time) {
  // On a card it would be taken for the time before that one.
  if (gate->times < time) stuck("a gate is awaited more than one time ahead");
  await({"at a gate", -1, nullptr, 0, nullptr}, [=] { return gate->times > time; });
  if (gate->times > time + 1) stuck("a gate has opened twice since the time that is awaited");
}

// Waits until `wanted` have arrived.
static void meet(Barrier& barrier, int wanted, const char* where, int id = -1) {
  int mine = barrier.generation;
  if (++barrier.arrived >= wanted) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  await({where, id, &barrier, wanted, nullptr}, [&] { return barrier.generation != mine; });
}

void meet_warp() {
  Warp& warp = now->of->warps[now->index / 32];
  meet(warp.barrier, 32, "in a warp");
}

// Threads that have ended count as arrived at the block's barrier, and at the cluster's.
void meet_block(int id, int count) {
  Block& block = *now->of;
  meet(block.barriers[id], count == block.running ? block.live : count, "at barrier", id);
}

void arrive_cluster() {
  now->cluster_generation = of_cluster.generation;
  if (++of_cluster.arrived < living()) return;
  of_cluster.arrived = 0;
  ++of_cluster.generation;
}
void meet_cluster() {
  int mine = now->cluster_generation;
  await({"at the cluster's barrier", -1, &of_cluster, living(), nullptr}, [=] { return of_cluster.generation != mine; });
}

static void enter() {
  now->of->started = true;
  (*body)();
  Fiber* self = now;
  Block& block = *self->of;
  self->done = true;
  self->open.clear();
  self->groups.clear();
  if (!self->open_products.empty() || !self->product_groups.empty()) stuck("products that nobody awaited");
  --block.live;
  auto gone = [](Barrier& barrier, int live) {
    if (live == 0 || barrier.arrived < live) return;
    barrier.arrived = 0;
    ++barrier.generation;
  };
  gone(block.barriers[0], block.live);
  gone(of_cluster, living());
  idle = 0;
  yield();
  abort();
}

struct Shape {
  dim3 grid;
  unsigned threads, shared, cluster;
  const char* kernel;
};

static void begin(Block& block, int rank, const Shape& shape) {
  if (!stacks[rank]) {
    stacks[rank] = (char*)aligned_alloc(4096, STACK * 1024);
    // Its end lies before a page that nobody may touch, so that a kernel which wants more than its launch asked for ends here.
    char* memory = (char*)mmap(nullptr, WHOLE_PAGES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + WHOLE_PAGES, PAGE, PROT_NONE);
    block.shared = memory + WHOLE_PAGES;
    block.shared_bytes = 0;
  }
  block.shared += block.shared_bytes;
  block.shared_bytes = (shape.shared + 127) / 128 * 128;
  block.shared -= block.shared_bytes;
  memset(block.shared, 0xff, shape.shared);
  memset(block.barriers, 0, sizeof block.barriers);
  block.runs.clear();
  block.statics.clear();
  for (Warp& warp : block.warps) warp.barrier = {};
  block.rank = rank;
  block.started = false;
  block.live = block.running = shape.threads;
  for (unsigned i = 0; i < shape.threads; ++i) {
    Fiber& fiber = fibers[rank * shape.threads + i];
    fiber.of = &block;
    fiber.thread = {i, 0, 0};
    fiber.index = i;
    fiber.parity = 0;
    fiber.done = false;
    // Six registers, the entry, and a word so that the entry finds the stack as after a call.
    void** top = (void**)(stacks[rank] + STACK * (i + 1)) - 3;
    *--top = (void*)enter;
    top -= 6;
    memset(top, 0, 48);
    fiber.stack_pointer = top;
  }
}

static void run(const Shape& shape, const std::function<void()>& kernel) {
  if (shape.shared > SHARED || shape.threads > 1024 || shape.threads % 32 && shape.threads != 1 || shape.cluster > MOST_IN_CLUSTER ||
      shape.grid.x % shape.cluster) {
    fprintf(stderr, "emulated card: %u threads, %u bytes of shared memory, %u blocks in clusters of %u\n", shape.threads, shape.shared,
            shape.grid.x, shape.cluster);
    abort();
  }
  body = &kernel;
  kernel_name = shape.kernel;
  blocks = shape.grid;
  threads = {shape.threads, 1, 1};
  cluster_blocks = shape.cluster;
  fibers.resize(shape.threads * shape.cluster);
  for (unsigned z = 0; z < blocks.z; ++z)
    for (unsigned y = 0; y < blocks.y; ++y)
      for (unsigned x = 0; x < blocks.x; x += shape.cluster) {
        of_cluster = {};
        for (unsigned rank = 0; rank < shape.cluster; ++rank) {
          cluster[rank].index = {x + rank, y, z};
          begin(cluster[rank], rank, shape);
        }
        now = &fibers[0];
        emulated_switch(&scheduler, now->stack_pointer);
        if (living() != 0) stuck("threads are left");
      }
}

// Kernels by name, each with what copies its arguments.
typedef std::function<std::function<void()>(void**)> Bind;
struct Kernel {
  std::string name;
  Bind bind;
};
template <class... A, size_t... I>
static std::function<void()> bound(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  std::tuple<A...> copies(*(A*)arguments[I]...);
  return [=] { std::apply(kernel, copies); };
}
template <class... A>
static Bind binder(void (*kernel)(A...)) {
  return [=](void** arguments) { return bound(kernel, arguments, std::index_sequence_for<A...>()); };
}
}  // namespace emulated

#include "kernels.inc"

using namespace emulated;
static std::map<std::string, Kernel> kernels = {
#include "names.inc"
};

typedef std::vector<std::pair<Shape, std::function<void()>>> Graph;
static Graph* capturing;
struct Attribute {
  unsigned id, fill;
  unsigned value[16];
};
struct Config {
  unsigned grid[3], block[3], shared;
  void* stream;
  const Attribute* attributes;
  unsigned count;
};

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* n) { return *n = 1, 0; }
int cuDeviceGet(int* d, int) { return *d = 0, 0; }
int cuDriverGetVersion(int* v) { return *v = 13000, 0; }
int cuDeviceTotalMem_v2(size_t* n, int) { return *n = (size_t)1 << 34, 0; }
int cuDeviceGetName(char* to, int n, int) { return snprintf(to, n, "emulated card"), 0; }
int cuDeviceGetAttribute(int* to, int which, int) {
  *to = which == 16 ? 12 : which == 75 ? 9 : which == 76 ? 0 : which == 97 ? (int)SHARED : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** c, int) { return *c = (void*)1, 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuModuleLoadData(void** m, const void*) { return *m = (void*)1, 0; }
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(void** f, void*, const char* name) {
  auto at = kernels.find(name);
  if (at == kernels.end()) return 500;
  return *f = &at->second, 0;
}
// 0: threads of a block at most, which only stages are asked for; else shared memory that is there anyway: of kernels of clusters none, whose widest heads want all but 2 KB of a block's.
int cuFuncGetAttribute(int* v, int which, void* function) {
  const bool clusters = ((Kernel*)function)->name.rfind("layer_attention", 0) == 0;
  return *v = which == 0 ? THREADS : clusters ? 0 : 4096, 0;
}
int cuFuncSetAttribute(void*, int, int) { return 0; }
int cuStreamCreate(void** s, unsigned) { return *s = (void*)1, 0; }
int cuStreamDestroy_v2(void*) { return 0; }
int cuStreamSynchronize(void*) { return 0; }
int cuStreamQuery(void*) { return 0; }
int cuEventCreate(void** e, unsigned) { return *e = (void*)1, 0; }
int cuEventDestroy_v2(void*) { return 0; }
int cuEventRecord(void*, void*) { return 0; }
int cuEventElapsedTime_v2(float* ms, void*, void*) { return *ms = 0, 0; }
int cuGetErrorName(int, const char** s) { return *s = "error", 0; }
int cuGetErrorString(int, const char** s) { return *s = "of the emulated card", 0; }
int cuMemAlloc_v2(unsigned long long* to, size_t n) {
  void* memory = aligned_alloc(256, (n + 255) / 256 * 256 + 256);
  return *to = (unsigned long long)memory, memory ? 0 : 2;
}
int cuMemFree_v2(unsigned long long at) { return free((void*)at), 0; }
int cuMemHostAlloc(void** to, size_t n, unsigned) { return *to = aligned_alloc(256, (n + 255) / 256 * 256), 0; }
int cuMemFreeHost(void* at) { return free(at), 0; }
int cuMemHostGetDevicePointer_v2(unsigned long long* to, void* at, unsigned) { return *to = (unsigned long long)at, 0; }
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t n, void*) { return memcpy((void*)to, from, n), 0; }
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t n, void*) { return memcpy(to, (void*)from, n), 0; }
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t n, void*) {
  return memmove((void*)to, (void*)from, n), 0;
}
int cuMemsetD8Async(unsigned long long at, unsigned char value, size_t n, void*) { return memset((void*)at, value, n), 0; }
int cuOccupancyMaxActiveClusters(int* n, void*, const Config*) { return *n = 15, 0; }
int cuLaunchKernelEx(const Config* config, void* function, void** arguments, void**) {
  Shape shape = {{config->grid[0], config->grid[1], config->grid[2]}, config->block[0], config->shared, 1, ((Kernel*)function)->name.c_str()};
  // 4: the attribute with a cluster's size.
  for (unsigned i = 0; i < config->count; ++i)
    if (config->attributes[i].id == 4) shape.cluster = config->attributes[i].value[0];
  auto kernel = ((Kernel*)function)->bind(arguments);
  if (capturing) capturing->push_back({shape, kernel});
  else run(shape, kernel);
  return 0;
}
int cuStreamBeginCapture_v2(void*, int) { return capturing = new Graph, 0; }
int cuStreamEndCapture(void*, void** graph) {
  *graph = capturing;
  capturing = nullptr;
  return 0;
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) { return *exec = new Graph(*(Graph*)graph), 0; }
int cuGraphDestroy(void* graph) { return delete (Graph*)graph, 0; }
int cuGraphExecDestroy(void* graph) { return delete (Graph*)graph, 0; }
int cuGraphUpload(void*, void*) { return 0; }
int cuGraphLaunch(void* graph, void*) {
  for (auto& launch : *(Graph*)graph) run(launch.first, launch.second);
  return 0;
}
}
