// Kernels of which nobody gets further, each for another reason, and one that waits a lot and ends: what the emulated card has to tell apart.
// Launched by hangs.cpp.
#include "device.h"

const int THREADS = 128;

__global__ void at_a_barrier() {
  if (threadIdx.x < 96) barrier(1, THREADS);
}
__global__ void at_two_barriers() { barrier(threadIdx.x < 64 ? 1 : 2, THREADS); }
__global__ void in_a_warp() {
  if (threadIdx.x % 32 != 7 || threadIdx.x < 32) __syncwarp();
}
__global__ void in_a_cluster() {
  Runs* runs = (Runs*)emulated::now->of->shared;
  if (threadIdx.x == 0) runs_begin(runs, 16);
  __syncthreads();
  if (cluster_rank() == 1) puts_await(runs);
  cluster_arrive();
  cluster_wait();
}
// One thread of the last block goes on alone for long while all others wait for it, round after round.
__global__ void never() {
  __shared__ int rounds;
  Runs* runs = (Runs*)emulated::now->of->shared;
  for (int round = 0; round < 20; ++round) {
    if (threadIdx.x == 0) runs_begin(runs, 4);
    cluster_arrive();
    cluster_wait();
    if (cluster_rank() == cluster_size() - 1 && threadIdx.x < 32) {
      for (int step = 0; step < 500; ++step) __syncwarp();
      if (threadIdx.x == 5)
        for (int rank = 0; rank < cluster_size(); ++rank) put(remote(runs + 1, rank), 1u, remote(runs, rank));
    }
    puts_await(runs);
    if (threadIdx.x == 0) rounds = round;
    __syncthreads();
    if (rounds != round) abort();
  }
}
